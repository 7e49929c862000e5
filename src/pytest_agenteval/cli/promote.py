"""``agenteval promote``: what of a capability suite is held to what it has reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from pytest_agenteval.cli.output import print_lines, wrapped
from pytest_agenteval.cli.suite_files import SuiteFile, change_lines, suites_meant, todays_tasks
from pytest_agenteval.cli.suite_runs import add_run_arguments, check_model, offline_models, suite_runs
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
"""Lines of groups with what they lack."""


def promote(args: argparse.Namespace) -> int:
    """Show for each suite what may be promoted and what is lacking, and with ``--write`` do it."""
    check_model(args)
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
    standings = [standing(bucket, history) for bucket in unpromoted(tasks, regression, single=False)]
    wider = _wider(regression, buckets=[each for each in standings if not each.reason])
    if args.tasks:
        single = [standing(task, history) for task in unpromoted(tasks, wider, single=True)]
        wider = _wider(wider, tasks=[each for each in single if not each.reason])
        standings = [*(each for each in standings if not each.reason), *single]
    if wider == regression:
        yield f"{name}: nothing to promote"
    yield from (_ready_line(each) for each in standings if not each.reason)
    yield from _lacking_lines([each for each in standings if each.reason], history)
    yield from _suspect_lines(tasks, history)
    yield from change_lines(file, wider, args.write)


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
    offline = [] if args.model or len(runs) == history.needed else offline_models(name, args)
    if offline:
        yield f"  not counted: offline models ({', '.join(offline)}); --model=NAME counts one"


def _ready_line(ready: Standing) -> str:
    unproven = f", {ready.unproven} of them without what only a judge decides" if ready.unproven else ""
    return f"  {ready.group.name}{_size(ready)}: {pluralize(ready.trials, 'trial')} passed{unproven}"


def _size(ready: Standing) -> str:
    held_out = sum(task.is_held_out for task in ready.group.tasks)
    if len(ready.group.tasks) == 1:
        return ""
    more = f" and {held_out} held out" if held_out else ""
    return f" ({pluralize(len(ready.group.tasks) - held_out, 'task')}{more})"


def _lacking_lines(lacking: Sequence[Standing], history: SuiteHistory) -> Iterator[str]:
    """Say what each group lacks, once for those that lack the same, those that have come furthest first."""
    if not history.mature:
        return
    alike: dict[tuple[int, str], list[str]] = {}
    for each in lacking:
        alike.setdefault((-each.in_a_row, each.reason), []).append(each.group.name)
    for (runs, reason), names in sorted(alike.items())[:MOST_ROWS]:
        passed = f"passed in {-runs} of {pluralize(history.needed, 'run')}"
        yield from wrapped(f"  {passed}: {', '.join(names)}: {reason}")
    if len(alike) > MOST_ROWS:
        yield f"  and {len(alike) - MOST_ROWS} lines more"


def _suspect_lines(tasks: Sequence[SuiteTask], history: SuiteHistory) -> Iterator[str]:
    if names := stragglers(tasks, history):
        yield from wrapped(
            f"stragglers (none of {STRAGGLER_TRIALS} trials or more passed): {', '.join(names)}"
        )
    if names := broken(tasks, history):
        yield from wrapped(
            f"broken (passed in every run before, in no trial of the newest): {', '.join(names)}"
        )


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
