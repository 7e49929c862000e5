"""Fences: what is to be judged stands between marks that no text can hold, and so cannot leave."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from pytest_agenteval.canonical import digest

TOKEN_CHARS = 12


class Fenced:
    """A text that is only ever written between its marks; it is true where there is more than white space.

    No string: what a template does to strings finds nothing to do it to.
    """

    __slots__ = ("_block", "_said")

    def __init__(self, *named: tuple[str, str], token: str) -> None:
        self._block = "\n".join(_block(name, text, token) for name, text in named)
        self._said = any(text.strip() for _, text in named)

    def __str__(self) -> str:
        return self._block

    def __bool__(self) -> bool:
        return self._said


def token_for(texts: Iterable[str]) -> str:
    """Give marks that stand in none of these texts: the same texts get the same, so that prompts repeat."""
    held = tuple(texts)
    folded = "\n".join(held).casefold()
    tokens = (digest([*held, number])[:TOKEN_CHARS] for number in count())
    return next(token for token in tokens if token not in folded)


def _block(name: str, text: str, token: str) -> str:
    return f'<data-{token} name="{name}">\n{text}\n</data-{token}>'
