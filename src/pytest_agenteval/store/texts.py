"""The long texts of a run, each stored once under its digest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pytest_agenteval.errors import TranscriptLost
from pytest_agenteval.store.lines import read_line


class TextIndex:
    """Finds texts by digest; the files are looked through when the first text is asked for.

    Only places are kept in memory, not texts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, tuple[Path, int]] | None = None

    def text(self, digest: str) -> str:
        """Give a text; a TranscriptLost says that it is missing."""
        if self._places is None:
            self._places = _places(self._folder)
        if digest not in self._places:
            raise TranscriptLost(
                f"{self._folder}: the text {digest} is missing: was a texts-*.jsonl deleted?"
            )
        path, offset = self._places[digest]
        with path.open("rb") as file:
            file.seek(offset)
            text: str = read_line(file.readline())["t"]
        return text


def _places(folder: Path) -> dict[str, tuple[Path, int]]:
    places: dict[str, tuple[Path, int]] = {}
    for path in sorted(folder.glob("texts-*.jsonl")):
        offset = 0
        with path.open("rb") as file:
            for raw in file:
                with suppress(ValueError, KeyError, TypeError):  # half a line that a crash left
                    places.setdefault(read_line(raw)["d"], (path, offset))
                offset += len(raw)
    return places
