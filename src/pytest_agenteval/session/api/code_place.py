"""Where Python code says a task: the file and the line that problems are told at."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import KeyPath, Problem


class CodePlace(FrozenValue, frozen=True):
    """A line of a module."""

    file: Path
    line: int

    def problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Tell what is wrong at a key of what is said there."""
        return Problem(short_path(self.file), self.line, path, expected, found, hint)

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


def calling_place(depth: int = 2) -> CodePlace:
    """Give the line that called whoever asks, so many frames up."""
    frame = sys._getframe(depth)
    return CodePlace(Path(frame.f_code.co_filename), frame.f_lineno)
