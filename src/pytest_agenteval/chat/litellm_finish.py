"""Why a reply ended, where litellm does not know the provider's word; knows its shape, does not import it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

_words: ContextVar[list[str] | None] = ContextVar("agenteval_unknown_finishes", default=None)


def listen() -> list[str]:
    """Give the list that gets the words that litellm does not know while this task reads a reply."""
    words: list[str] = []
    _words.set(words)
    return words


class KnownFinishes(dict[str, Any]):
    """litellm's own table of such words, which makes ``stop`` of any other: they are noted on their way."""

    def get(self, word: Any, default: Any = None) -> Any:
        """Give what litellm knows of a word."""
        heard = _words.get()
        if word not in self and heard is not None and isinstance(word, str):
            heard.append(word)
        return super().get(word, default)
