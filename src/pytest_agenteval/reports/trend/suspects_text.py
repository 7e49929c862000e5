"""Suspect tasks as lines of a terminal: short lists of ids as ``-k`` takes them, with counts beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pytest_agenteval.reports.trend.suspects import BY_CHANCE, Suspect, Suspects
from pytest_agenteval.reports.trend.trend import Trend
from pytest_agenteval.text.formatting import MOST_NAME, StyledLine, one_line, pluralize, wrapped_lines

MOST_LISTED = 5

INNER = "    "


class _Kind(NamedTuple):
    """A reason to suspect a task: what it is called, what to make of it, and its evidence in words."""

    title: str
    meaning: str
    suspects: Sequence[Suspect]
    evidence: Callable[[Suspect], str]


def suspect_lines(trend: Trend, width: int) -> Iterator[StyledLine]:
    """Give the tasks that are suspect by each kind of evidence; kinds without any stand in one line."""
    suspects = trend.suspects
    runs = pluralize(len(trend.runs), "run")
    yield from wrapped_lines(
        f"suspects among the tasks of {trend.suite}, in {runs}", width, "bold", indent=""
    )
    for line in _counted(suspects):
        yield from wrapped_lines(line, width)
    kinds = list(_kinds(suspects))
    for kind in kinds:
        if kind.suspects:
            yield from _kind_lines(kind, width)
    none = [kind.title for kind in kinds if not kind.suspects]
    if none:
        yield from wrapped_lines(f"none: {', '.join(none)}", width)


def _counted(suspects: Suspects) -> Iterator[str]:
    """Say whose trials were counted, and whose could not be."""
    offline = ", ".join(suspects.offline)
    if not suspects.real:
        yield f"no real model ran: what {offline or 'nobody'} misses or passes says nothing of a task"
        return
    models = ", ".join(suspects.real)
    beside = f"; {offline} asked no LLM and is no evidence that models miss" if offline else ""
    yield f"counted: {pluralize(suspects.trials, 'graded trial')} of {models}{beside}"
    yield (
        f"a task is named if all of its {suspects.enough} trials or more missed, or passed: if each task "
        f"passed half of the time, chance would name any in less than {100 * BY_CHANCE:g} % of suites"
    )
    if suspects.too_few:
        yield f"{pluralize(suspects.too_few, 'task')} with fewer such trials: too few to exclude chance"


def _kinds(suspects: Suspects) -> Iterator[_Kind]:
    if suspects.real:
        wrong = "the task or its grader may be wrong"
        yield _Kind("every model misses", wrong, suspects.missed, _passes)
        solved = "it can be solved, and no model does"
        yield _Kind("only oracle passes", solved, suspects.only_oracle, _passes)
    votes = "by some of the judges it passes, by others not"
    yield _Kind("judges split", votes, suspects.judges_split, _split)
    unsteady = "repetitions in one run, with one model, passed and missed"
    yield _Kind("repetitions disagree", unsteady, suspects.unsteady, _unsteady)
    if suspects.real:
        saturated = "saturated, candidates for agenteval promote"
        yield _Kind("always passes", saturated, suspects.saturated, _passes)


def _kind_lines(kind: _Kind, width: int) -> Iterator[StyledLine]:
    yield from wrapped_lines(f"{kind.title} ({len(kind.suspects)}): {kind.meaning}", width)
    for suspect in kind.suspects[:MOST_LISTED]:
        text = f"{one_line(suspect.task, MOST_NAME)}  {kind.evidence(suspect)}"
        yield from wrapped_lines(text, width, indent=INNER)
    if len(kind.suspects) > MOST_LISTED:
        yield StyledLine(f"{INNER}and {len(kind.suspects) - MOST_LISTED} more (--json)", "dim")


def _passes(suspect: Suspect) -> str:
    beside = f"; {suspect.remark}" if suspect.remark else ""
    return f"{suspect.part} of {pluralize(suspect.whole, 'trial')} passed, {_where(suspect)}{beside}"


def _split(suspect: Suspect) -> str:
    return f"{suspect.part} of {pluralize(suspect.whole, 'judged trial')}, {_where(suspect)}"


def _unsteady(suspect: Suspect) -> str:
    return (
        f"{suspect.part} of {pluralize(suspect.whole, 'time')}, {suspect.remark}, {', '.join(suspect.models)}"
    )


def _where(suspect: Suspect) -> str:
    return f"{pluralize(suspect.runs, 'run')} with {', '.join(suspect.models)}"
