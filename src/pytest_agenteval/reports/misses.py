"""The trials that did not pass, worst first: at length, or the worst of them in a line each."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.explanations import ending_reason, explain_trial, grade_lines, short_reason
from pytest_agenteval.reports.view import worst_first
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    CUT,
    INDENT,
    Style,
    StyledLine,
    cell_width,
    ending_word,
    pluralize,
    truncate,
    wrap,
)

SHOWN = 5
"""Tasks whose worst miss is told where nobody asked for more."""

LEAST_SHOWN = 3
"""Tasks whose worst miss is in brief even where figures leave no room."""

LEAST_REASON = 30
"""Columns of a reason beside its trial's name; with fewer it stands on a line below."""

NOT_PASSED = ("failed", "missed", "errored")


def miss_lines(run: Run, width: int = 80, endings: Collection[str] = NOT_PASSED) -> list[StyledLine]:
    """Give the trials that did not pass, worst first, with all that is to be said of each."""
    not_passed = [entry for entry in worst_first(run.entries) if entry.ending in endings]
    return [line for entry in not_passed for line in _miss_block(run, entry, width)]


class WorstMisses(FrozenValue, frozen=True):
    """Lines about the worst misses, of ``shown`` of the ``tasks`` that have any, in brief or at length."""

    lines: tuple[StyledLine, ...]
    shown: int
    tasks: int
    at_length: bool = False

    @property
    def title(self) -> str:
        """What the lines are, and how to see the others."""
        if self.shown == self.tasks:
            return "misses, the worst first" if self.at_length else "misses, the worst first (-v says more)"
        return f"misses, the worst {self.shown} of {pluralize(self.tasks, 'task')} (-v shows all)"


def worst_misses(
    run: Run, width: int, room: int, endings: Collection[str] = NOT_PASSED
) -> WorstMisses | None:
    """Give the worst miss of each of the worst tasks in ``room`` lines, None where nothing missed.

    All of them at length where they fit, and always a single one, which is what somebody works on; else in
    brief, the worst three whatever the room.
    """
    not_passed = [entry for entry in worst_first(run.entries) if entry.ending in endings]
    by_task: dict[tuple[str, str, str], JournalEntry] = {}
    for entry in not_passed:
        by_task.setdefault((entry.key.suite, entry.key.task, entry.key.agent), entry)
    worst = list(by_task.values())
    if len(worst) <= SHOWN:
        at_length = [line for entry in worst for line in _miss_block(run, entry, width)]
        if len(worst) == 1 or len(at_length) <= room:
            return WorstMisses(tuple(at_length), len(worst), len(worst), at_length=True) if worst else None
    briefs = [list(_in_brief(entry, width)) for entry in worst[:SHOWN]]
    while len(briefs) > LEAST_SHOWN and sum(map(len, briefs)) > room:
        briefs.pop()
    lines = tuple(line for brief in briefs for line in brief)
    return WorstMisses(lines, len(briefs), len(worst)) if lines else None


def _in_brief(entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    word = ending_word(entry.ending, entry.score)
    head = f"{word}  {trial_name(entry.key)}"
    reason, left = ending_reason(entry), width - cell_width(head) - len(INDENT)
    if left >= LEAST_REASON or cell_width(reason) <= left:
        yield StyledLine(f"{head}{INDENT}{_cut(reason, left)}".rstrip(), _style(entry))
        return
    pieces = [head] if cell_width(head) <= width else [word, INDENT + trial_name(entry.key)]
    yield from (StyledLine(piece, _style(entry)) for piece in pieces)
    if reason:
        yield StyledLine(INDENT + _cut(reason, width - len(INDENT)))


def _cut(text: str, most: int) -> str:
    return text if cell_width(text) <= most else truncate(text, most - 1) + CUT


def _style(entry: JournalEntry) -> Style:
    return "yellow" if entry.ending == "missed" else "red"


def _miss_block(run: Run, entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    head = f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}"
    yield from (StyledLine(piece, _style(entry)) for piece in wrap(head, width))
    trial = run.trial_if_readable(entry)
    lines = explain_trial(trial, width - len(INDENT)) if trial else [short_reason(entry), *grade_lines(entry)]
    if entry.ending != "errored":  # the first line says in brief what the others say at length
        lines = lines[1:]
    yield from (StyledLine(piece) for line in lines for piece in wrap(INDENT + line, width))
