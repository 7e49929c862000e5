"""Suites that a benchmark offers as examples: files that somebody copies into a project of their own."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.records.record import FrozenValue


class Example(FrozenValue, frozen=True):
    """An example: ``parts`` are the folders it is made of, the suite's own first, as they lie in a project.

    ``folders`` are where the parts may lie: in an installed package, or in a clone.
    """

    name: str
    parts: tuple[str, ...]
    folders: tuple[Path, ...]

    @property
    def folder(self) -> Path | None:
        """The first folder that has all of its parts; None where none has."""
        return next(
            (place for place in self.folders if all((place / part).is_dir() for part in self.parts)), None
        )
