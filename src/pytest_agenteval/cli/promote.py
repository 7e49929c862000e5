"""``agenteval promote``: what of a capability suite is held to what it has reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from pytest_agenteval.cli.output import print_lines
from pytest_agenteval.cli.suite_files import SuiteFile, change_lines, suites_meant, todays_tasks
from pytest_agenteval.cli.suite_runs import add_run_arguments, suite_runs
from pytest_agenteval.loop.promotion import (
    STRAGGLER_TRIALS,
    Standing,
    broken,
    standing,
    stragglers,
    unpromoted,
)
from pytest_agenteval.loop.suite_history import SuiteHistory, SuiteTask, suite_history
from pytest_agenteval.reports.formatting import pluralize
from pytest_agenteval.reports.text_width import StyledLine
from pytest_agenteval.tasks.spec import Regression

MOST_ROWS = 30
"""Groups that are listed with what they lack."""


def promote(args: argparse.Namespace) -> int:
    """Show for each suite what may be promoted and what is lacking, and with ``--write`` do it."""
    for number, file in enumerate(suites_meant(args.suite)):
        print_lines(map(StyledLine, [*[""] * bool(number), *_promote(file, args)]))
    return 0


def _promote(file: SuiteFile, args: argparse.Namespace) -> Iterator[str]:
    name, regression = file.suite.name, file.suite.regression
    if file.suite.kind != "capability":
        yield f"{name}: of kind {file.suite.kind}, where every miss fails: nothing to promote"
        return
    tasks = todays_tasks(file)
    history = suite_history(suite_runs(name, args), tasks, args.runs)
    yield from _history_lines(name, history, args)
    found = [standing(bucket, history) for bucket in unpromoted(tasks, regression, single=False)]
    ready = [each for each in found if not each.reason]
    wider = _wider(regression, buckets=ready)
    if args.tasks:
        found = [standing(task, history) for task in unpromoted(tasks, wider, single=True)]
        ready_tasks = [each for each in found if not each.reason]
        wider, ready = _wider(wider, tasks=ready_tasks), [*ready, *ready_tasks]
    yield from change_lines(file, wider, args.write)
    yield from map(_ready_line, ready)
    if not ready:
        yield f"{name}: nothing to promote"
    yield from _lacking_lines([each for each in found if each.reason], history)
    yield from _suspect_lines(tasks, history)


def _wider(
    regression: Regression, *, buckets: Iterable[Standing] = (), tasks: Iterable[Standing] = ()
) -> Regression:
    return Regression(
        buckets=(*regression.buckets, *(each.group.name for each in buckets)),
        tasks=(*regression.tasks, *(each.group.name for each in tasks)),
    )


def _history_lines(name: str, history: SuiteHistory, args: argparse.Namespace) -> Iterator[str]:
    runs = history.mature
    models = dict.fromkeys(model for run in runs for model in run.models)
    whose = f" with {', '.join(models)}" if models else f" with {args.model or 'a model that is not offline'}"
    names = f": {', '.join(run.name for run in runs)}" if runs else ""
    yield f"{name}: {len(runs)} of {pluralize(history.needed, 'mature run')}{whose}{names}"
    for run, reason in history.runs:
        if reason:
            yield f"  not counted: {run.name}: {reason}"


def _ready_line(ready: Standing) -> str:
    tasks = f" ({pluralize(len(ready.group.tasks), 'task')})" if len(ready.group.tasks) > 1 else ""
    unproven = f", {ready.unproven} of them without what only a judge decides" if ready.unproven else ""
    return f"  {ready.group.name}{tasks}: {pluralize(ready.trials, 'trial')} passed{unproven}"


def _lacking_lines(lacking: Sequence[Standing], history: SuiteHistory) -> Iterator[str]:
    rows = sorted(lacking, key=lambda each: -each.in_a_row)
    width = max((len(each.group.name) for each in rows[:MOST_ROWS]), default=0)
    for each in rows[:MOST_ROWS]:
        runs = f"{each.in_a_row} of {pluralize(history.needed, 'run')}"
        yield f"  {each.group.name:{width}}  {runs}: {each.reason}"
    if len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more"


def _suspect_lines(tasks: Sequence[SuiteTask], history: SuiteHistory) -> Iterator[str]:
    if names := stragglers(tasks, history):
        yield f"stragglers (none of {STRAGGLER_TRIALS} trials or more passed): {', '.join(names)}"
    if names := broken(tasks, history):
        yield f"broken (passed in every run before, in no trial of the newest): {', '.join(names)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``promote`` is told."""
    parser.description = (
        "Buckets of capability suites of which every trial passed in the last mature runs become regression: "
        "from then on a miss fails. A mature run ended all of its planned trials, none of them errored, and "
        "left out no task of split dev. Shows the change of suite.yaml; --write makes it."
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="its name, folder or file; all below this folder, if not said")  # fmt: skip  # noqa: E501
    add("--tasks", action="store_true", help="promote single tasks of the other buckets too")
    add_run_arguments(parser, "so many mature runs have to have passed")
