"""A rubric, and the prompt that it makes of what is to be judged, which stands between delimiters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import count
from string import ascii_uppercase
from typing import Any, Literal

from pytest_agenteval.chat.chat import ChatMessage
from pytest_agenteval.records.prompts import Form, Prompts, read_templates
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import json_digest

TOKEN_CHARS = 12


class DelimitedText:
    """A text that is only ever written between its marks; it is true where there is more than white space.

    No string: what a template does to strings finds nothing to do it to.
    """

    __slots__ = ("_block", "_has_text")

    def __init__(self, *named: tuple[str, str], token: str) -> None:
        self._block = "\n".join(_block(name, text, token) for name, text in named)
        self._has_text = any(text.strip() for _, text in named)

    def __str__(self) -> str:
        return self._block

    def __bool__(self) -> bool:
        return self._has_text


def delimiter_for(texts: Iterable[str]) -> str:
    """Give marks that stand in none of these texts: the same texts get the same, so that prompts repeat."""
    held = tuple(texts)
    folded = "\n".join(held).casefold()
    tokens = (json_digest([*held, number])[:TOKEN_CHARS] for number in count())
    return next(token for token in tokens if token not in folded)


def _block(name: str, text: str, token: str) -> str:
    return f'<data-{token} name="{name}">\n{text}\n</data-{token}>'


Combine = Literal["mean", "median", "majority"]
PACKAGE = "pytest_agenteval.graders.judge"
RATIONALE = "rationale"
UNKNOWN = "unknown"
LETTERS = ascii_uppercase


class Dimension(FrozenValue, frozen=True):
    """One thing that is scored by itself, and what it asks."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """What judges are asked, in which dimensions, on which scale; made by ``read_rubric``.

    ``text`` is the whole file, ``body`` what stands below its front matter. ``shows`` names every value that
    the body is given, with what it is; ``output`` is the one that is judged. Judges score from ``low`` to
    ``high``; everybody else sees 0 to 1. Where there are ``candidates``, the output is several texts side by
    side, shown as A, B, ….
    """

    name: str
    version: str
    dimensions: tuple[Dimension, ...]
    low: float
    high: float
    combine: Combine
    shows: Mapping[str, str]
    output: str
    text: str = field(repr=False)
    body: str = field(repr=False)
    candidates: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in their order."""
        return tuple(dimension.name for dimension in self.dimensions)

    def digest(self) -> str:
        """Give a digest of all that judges are told, but for the values: this text and our own frame."""
        return json_digest([self.text, _frame().digest()])

    def messages(self, values: Mapping[str, str], *, candidates: Sequence[str] = ()) -> list[ChatMessage]:
        """Write the prompt; every value, and every candidate in this order, stands in a fence as data.

        Raises ValueError where the values are not those that the rubric shows.
        """
        self._check(values, candidates)
        token = delimiter_for((*values.values(), *candidates))
        fenced = {name: DelimitedText((name, text), token=token) for name, text in values.items()}
        if self.candidates:
            fenced[self.output] = DelimitedText(*zip(LETTERS, candidates, strict=False), token=token)
        body = _form(self.body).render(fenced)
        return [
            {"role": "system", "content": _frame().render("system", token=token)},
            {"role": "user", "content": f"{body}\n\n{self._how_to_reply(len(candidates))}"},
        ]

    def once_more(self, problem: str) -> ChatMessage:
        """Write the message that asks for a reply that can be read."""
        text = _frame().render("again", problem=problem, low=_number(self.low), high=_number(self.high))
        return {"role": "user", "content": text}

    def schema(self, candidates: int = 0) -> dict[str, Any]:
        """Give the JSON Schema of the reply: a number or "unknown" for each dimension, and the reason."""
        score = {"anyOf": [{"type": "number"}, {"type": "string", "enum": [UNKNOWN]}]}
        scores: dict[str, Any] = dict.fromkeys(self.names, score)
        if candidates:
            scores = {letter: _object(scores) for letter in LETTERS[:candidates]}
        return _object({**scores, RATIONALE: {"type": "string"}})

    def from_scale(self, score: float) -> float:
        """Give a judge's number as 0 to 1."""
        return (score - self.low) / (self.high - self.low)

    def _how_to_reply(self, candidates: int) -> str:
        return _frame().render(
            "reply",
            dimensions=self.dimensions,
            letters=LETTERS[:candidates],
            low=_number(self.low),
            high=_number(self.high),
        )

    def _check(self, values: Mapping[str, str], candidates: Sequence[str]) -> None:
        names = [name for name in self.shows if not (self.candidates and name == self.output)]
        missing = [name for name in names if name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            given = ", ".join(values) or "none"
            raise ValueError(f"rubric {self.name} shows {', '.join(names)}; the values given are {given}")
        if self.candidates != bool(candidates) or len(candidates) == 1 or len(candidates) > len(LETTERS):
            wants = f"2 to {len(LETTERS)} candidates" if self.candidates else "no candidates"
            raise ValueError(f"rubric {self.name} takes {wants}, not {len(candidates)}")


@lru_cache(maxsize=256)
def _form(body: str) -> Form:
    return Form(body)


@cache
def _frame() -> Prompts:
    return Prompts(read_templates(PACKAGE, "frame"), {})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    names: Iterable[str] = properties
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(names),
        "additionalProperties": False,
    }


def _number(number: float) -> str:
    return f"{number:g}"
