"""A place of a prompt that says what a task asks or expects."""

from __future__ import annotations

from typing import Literal

from pytest_agenteval.records.plan import Split
from pytest_agenteval.records.record import Document, Record

LeakKind = Literal["task_id", "expected_value", "reference_solution", "input", "workspace"]


class Leak(Record, frozen=True):
    """A text of a task that stands in a prompt: on which line of which file, and in whose words.

    ``text`` is what the file itself says there. ``task`` is empty for a held-out task, of which nobody is to
    learn more: then ``text`` is the whole line. ``added`` says that it did not stand in the old files.
    """

    file: str
    line: int
    kind: LeakKind
    text: str
    task: str
    split: Split
    added: bool


class LeaksDocument(Document, frozen=True):
    """What of suites' tasks stands in files: the leaks by file and line, and what was looked at.

    ``since`` is the commit that the files are compared with; empty where there is none, and all is added.
    """

    since: str
    files: tuple[str, ...]
    suites: tuple[str, ...]
    tasks: int
    leaks: tuple[Leak, ...]
