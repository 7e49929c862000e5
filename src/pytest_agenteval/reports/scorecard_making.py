"""Asking a benchmark for its scorecard, and whether what its code gave is one that can be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from traceback import extract_tb

from pytest_agenteval.reports.scorecard import (
    Metric,
    MetricGroup,
    RegisteredScorecard,
    Scorecard,
    Total,
    TotalPart,
    relevant_scorecards,
)
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, exception_text


class BrokenScorecard(UsageMistake):
    """A benchmark's scorecard that cannot be made or drawn; everything else of the run can."""


def scorecard_of(
    entries: Sequence[JournalEntry], scorecards: Iterable[RegisteredScorecard]
) -> Scorecard | None:
    """Give the first scorecard that some benchmark makes of a suite's trials with one model, else None.

    Raises BrokenScorecard where a benchmark's own code raises, or gives what is no scorecard.
    """
    for registered in relevant_scorecards(entries, scorecards):
        scorecard = _make_scorecard(registered, entries)
        if scorecard is not None:
            return scorecard
    return None


def _make_scorecard(registered: RegisteredScorecard, entries: Sequence[JournalEntry]) -> Scorecard | None:
    try:
        maker = registered.load()
    except AgentEvalError as lost:
        raise BrokenScorecard(str(lost)) from None
    try:
        made = maker(entries, **registered.settings)
    except AgentEvalError:  # of what the command line says for its options
        raise
    except Exception as raised:  # an author's code may raise anything
        last = extract_tb(raised.__traceback__)[-1]
        reason = f"{type(raised).__name__}: {exception_text(raised)} ({last.filename}:{last.lineno})"
        raise BrokenScorecard(f"the scorecard {registered.name!r} cannot be made: {reason}") from raised
    if mistake := next(_mistakes(made), None):
        raise BrokenScorecard(f"the scorecard {registered.name!r} cannot be drawn: {mistake}")
    return made


def _mistakes(made: object) -> Iterator[str]:
    """Say what is wrong with what a maker gave: drawn all the same, it would take a run's tables with it."""
    if made is None:
        return
    if not isinstance(made, Scorecard):
        yield f"expected a Scorecard or None; found {made!r:.80}"
        return
    groups: Iterable[object] = made.groups
    if not isinstance(groups, tuple | list) or not groups:
        yield f"groups: expected one or more; found {groups!r:.80}"
        return
    for index, group in enumerate(groups):
        yield from _group_mistakes(f"groups[{index}]", group)
    names = [group.name for group in made.groups]
    yield from (f"groups: {name!r} is there twice" for name in names if names.count(name) > 1)
    if made.total is not None:
        yield from _total_mistakes(made.total)
    if not isinstance(made.notes, tuple | list) or not all(isinstance(note, str) for note in made.notes):
        yield f"notes: expected texts; found {made.notes!r:.80}"


def _group_mistakes(place: str, group: object) -> Iterator[str]:
    if not isinstance(group, MetricGroup):
        yield f"{place}: expected a MetricGroup; found {group!r:.80}"
        return
    metrics = {"total": group.total}
    for field, row in (("metrics", group.metrics), ("beside", group.beside)):
        if isinstance(row, tuple | list):
            metrics.update({f"{field}[{index}]": metric for index, metric in enumerate(row)})
        else:
            yield f"{place}.{field}: expected metrics; found {row!r:.80}"
    for field, metric in metrics.items():
        if not isinstance(metric, Metric):
            yield f"{place}.{field}: expected a Metric; found {metric!r:.80}"
        elif not _is_figure(metric.value):
            yield f"{place}.{field}.value: expected a finite number or None; found {metric.value!r:.80}"


def _total_mistakes(total: object) -> Iterator[str]:
    if not isinstance(total, Total):
        yield f"total: expected a Total or None; found {total!r:.80}"
        return
    if not _is_figure(total.value):
        yield f"total.value: expected a finite number or None; found {total.value!r:.80}"
    for index, part in enumerate(total.parts):
        if not (isinstance(part, TotalPart) and _is_figure(part.value) and _is_figure(part.weight)):
            yield f"total.parts[{index}]: expected a TotalPart with finite numbers; found {part!r:.80}"


def _is_figure(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))
