"""What a benchmark makes of the trials of a suite, and how it is offered to reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pytest_agenteval.store.run_reader import Run

ScorecardMaker: TypeAlias = Callable[..., Any]
"""``(entries, **options)`` gives the scorecard of one suite's trials with one model, or None."""
ReportFormat: TypeAlias = "Callable[[Sequence[Run], Path], Sequence[Path]]"
"""``(runs, folder)`` writes files into the folder and gives their paths."""


@dataclass(frozen=True, slots=True)
class ReportOption:
    """An option of ``agenteval report`` that a scorecard takes.

    What ``parse`` makes of its text is handed to the scorecard's maker under the flag's name without dashes.
    """

    flag: str
    metavar: str
    help: str
    parse: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class RegisteredScorecard:
    """A scorecard by its name; nothing of it is imported before ``load`` or ``options`` is called.

    It is asked for suites in which a grade has one of the labels ``graders``.
    """

    name: str
    graders: frozenset[str]
    load: Callable[[], ScorecardMaker]
    options: Callable[[], Sequence[ReportOption]]
