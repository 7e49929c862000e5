"""A value that somebody else wrote, with the place at which it stands: what is wrong is named by that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.text.errors import KeyPath, TrialBroken
from pytest_agenteval.text.json_form import jsonable
from pytest_agenteval.text.value_paths import format_path

MOST_CHARS = 60


class UnreadableTranscript(TrialBroken):
    """What an agent gave as its transcript is none; the text names the place, in one line."""

    cause = "answer"


class Place:
    """A value within a transcript; ``path`` leads to it from what the agent gave."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: KeyPath = ()) -> None:
        self.value, self.path = value, path

    def wrong(self, expected: str) -> UnreadableTranscript:
        """Give the error that names this place."""
        return UnreadableTranscript(
            f"{format_path(self.path)}: expected {expected}, found {self._in_words()}"
        )

    def get(self, key: str) -> Place | None:
        """Give what stands under a key of this map, None where that is nothing or null."""
        value = self.map().get(key)
        return None if value is None else Place(value, (*self.path, key))

    def at(self, key: str, expected: str) -> Place:
        """Give what stands under a key that has to be there."""
        place = self.get(key)
        if place is None:
            raise Place(None, (*self.path, key)).wrong(expected)
        return place

    def map(self) -> Mapping[str, Any]:
        """Give the map that this is; an SDK's own object is the map that it dumps."""
        if not isinstance(self.value, Mapping) and hasattr(self.value, "model_dump"):
            self.value = self.value.model_dump()
        if not isinstance(self.value, Mapping):
            raise self.wrong("a map")
        return self.value

    def items(self) -> Iterator[Place]:
        """Give the places of a list."""
        if not isinstance(self.value, list | tuple):
            raise self.wrong("a list")
        return (Place(item, (*self.path, at)) for at, item in enumerate(self.value))

    def items_of(self, key: str) -> Iterator[Place]:
        """Give the places of the list under a key; none where there is no such key."""
        place = self.get(key)
        return iter(()) if place is None else place.items()

    def text(self, expected: str = "a text") -> str:
        """Give the text that this is."""
        if not isinstance(self.value, str):
            raise self.wrong(expected)
        return self.value

    def text_of(self, key: str) -> str:
        """Give the text under a key, an empty one where there is no such key."""
        place = self.get(key)
        return "" if place is None else place.text()

    def number_of(self, key: str) -> float | None:
        """Give the number under a key, None where there is no such key."""
        place = self.get(key)
        if place is None:
            return None
        if isinstance(place.value, bool) or not isinstance(place.value, int | float):
            raise place.wrong("a number")
        return place.value

    def count_of(self, key: str) -> int:
        """Give the whole number from 0 on under a key, 0 where there is no such key."""
        number = self.number_of(key) or 0
        if number < 0 or number != int(number):
            raise Place(number, (*self.path, key)).wrong("a whole number, 0 or more")
        return int(number)

    def known_count_of(self, key: str) -> int | None:
        """Give the whole number from 0 on under a key, None where nothing is said."""
        return None if self.number_of(key) is None else self.count_of(key)

    def _in_words(self) -> str:
        if self.value is None:
            return "nothing"
        if isinstance(self.value, Mapping):
            keys = ", ".join(map(str, list(self.value)[:8]))
            return f"a map (keys: {keys})" if keys else "an empty map"
        if isinstance(self.value, list | tuple):
            return f"a list of {len(self.value)}"
        text = repr(jsonable(self.value))
        return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
