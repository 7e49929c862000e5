"""``agenteval promote``: what of a capability suite is held to what it has reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from pytest_agenteval.cli.output import STDOUT, print_lines, wrapped, write_document
from pytest_agenteval.cli.suite_files import (
    SuiteChange,
    SuiteFile,
    change_lines,
    change_suite,
    suites_meant,
    todays_tasks,
)
from pytest_agenteval.cli.suite_runs import add_run_arguments, check_model, offline_models, suite_runs
from pytest_agenteval.loop.promotion import (
    MOST_NULL_MISSES,
    STRAGGLER_TRIALS,
    NullMisses,
    Standing,
    TaskGroup,
    broken,
    null_misses,
    promoted,
    standing,
    stragglers,
    unpromoted,
)
from pytest_agenteval.loop.suite_history import suite_history
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.session.suite_gates import percent_text
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.formatting import StyledLine, pluralize

MOST_ROWS = 30
"""Lines of groups with what they lack."""


class GroupStanding(FrozenValue, frozen=True):
    """How far a bucket or a single task has come: all passed in ``runs_in_a_row`` of the newest mature runs.

    ``tasks`` of it are of split dev, ``held_out`` are not. ``trials`` of these runs passed, ``unproven`` of
    them without what only a judge decides. ``lacks`` says what keeps it from being promoted; empty: nothing.
    """

    name: str
    tasks: int
    held_out: int
    runs_in_a_row: int
    trials: int
    unproven: int
    lacks: str


class UncountedRun(FrozenValue, frozen=True):
    """A run that is not mature, and why."""

    run: str
    why: str


class SuitePromotion(FrozenValue, frozen=True):
    """What of a suite may be promoted, by the ``needed`` newest mature runs with ``models``.

    ``buckets`` and ``tasks`` are those that may, or now are; ``change`` is what comes of the suite's file.
    ``null_misses`` says how often that fails a run in which nothing changed, ``null_misses_in_all`` how often
    with what was promoted before; both are null where there is none. ``offline_models`` would count if one
    was named. Stragglers never passed; broken ones no longer do.
    """

    suite: str
    kind: str
    needed: int
    runs: tuple[str, ...]
    models: tuple[str, ...]
    not_counted: tuple[UncountedRun, ...]
    offline_models: tuple[str, ...]
    groups: tuple[GroupStanding, ...]
    buckets: tuple[str, ...]
    tasks: tuple[str, ...]
    stragglers: tuple[str, ...]
    broken: tuple[str, ...]
    null_misses: NullMisses | None
    null_misses_in_all: NullMisses | None
    change: SuiteChange


class PromotionDocument(Document, frozen=True, kw_only=True):
    """What may be promoted in each suite, and with ``--write`` was."""

    suites: tuple[SuitePromotion, ...]


def promote(args: argparse.Namespace) -> int:
    """Show for each suite what may be promoted and what is lacking, and with ``--write`` do it."""
    check_model(args)
    planned = [(file, _promotion(file, args)) for file in suites_meant(args.suite)]
    suites = [_changed(file, promotion, args.write) for file, promotion in planned]
    if args.json:
        write_document(args.json, PromotionDocument(suites=tuple(suites)))
    if args.json != STDOUT:
        for number, suite in enumerate(suites):
            print_lines(map(StyledLine, [*[""] * bool(number), *_lines(suite, args)]))
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("promote", PromotionDocument)


def _promotion(file: SuiteFile, args: argparse.Namespace) -> SuitePromotion:
    """Say what of a suite may be promoted; nothing is changed yet."""
    name, regression = file.suite.name, file.suite.regression
    capability = file.suite.kind == "capability"
    tasks = todays_tasks(file) if capability else []
    history = suite_history(suite_runs(name, args) if capability else (), tasks, args.runs)
    standings = [standing(bucket, history) for bucket in unpromoted(tasks, regression, single=False)]
    buckets = [each.group.name for each in standings if not each.reason]
    single: list[Standing] = []
    if args.tasks:
        wider = Regression(buckets=(*regression.buckets, *buckets), tasks=regression.tasks)
        single = [standing(task, history) for task in unpromoted(tasks, wider, single=True)]
        standings = [*(each for each in standings if not each.reason), *single]
    runs = history.mature
    ready = _ids(each.group for each in standings if not each.reason)
    before = _ids(promoted(tasks, regression))
    named = args.model or len(runs) == history.needed or not capability
    return SuitePromotion(
        suite=name,
        kind=file.suite.kind,
        needed=history.needed,
        runs=tuple(run.name for run in runs),
        models=tuple(dict.fromkeys(model for run in runs for model in run.models)),
        not_counted=tuple(UncountedRun(run.name, why) for run, why in history.runs if why),
        offline_models=() if named else tuple(offline_models(name, args)),
        groups=tuple(map(_group_standing, standings)),
        buckets=tuple(buckets),
        tasks=tuple(each.group.name for each in single if not each.reason),
        stragglers=tuple(stragglers(tasks, history)),
        broken=tuple(broken(tasks, history)),
        null_misses=null_misses(ready, tasks, history),
        null_misses_in_all=null_misses(ready | before, tasks, history) if before else None,
        change=SuiteChange(str(file.path)),
    )


def _ids(groups: Iterable[TaskGroup]) -> frozenset[str]:
    return frozenset(task.id for group in groups for task in group.tasks)


def _group_standing(each: Standing) -> GroupStanding:
    held_out = sum(task.is_held_out for task in each.group.tasks)
    return GroupStanding(
        name=each.group.name,
        tasks=len(each.group.tasks) - held_out,
        held_out=held_out,
        runs_in_a_row=each.in_a_row,
        trials=each.trials,
        unproven=each.unproven,
        lacks=each.reason,
    )


def _changed(file: SuiteFile, promotion: SuitePromotion, write: bool) -> SuitePromotion:
    """Change the suite's file, or say how it would be changed."""
    before = file.suite.regression
    wider = Regression(buckets=(*before.buckets, *promotion.buckets), tasks=(*before.tasks, *promotion.tasks))
    return replace(promotion, change=change_suite(file, wider, write))


def _lines(suite: SuitePromotion, args: argparse.Namespace) -> Iterator[str]:
    if suite.kind != "capability":
        yield f"{suite.suite}: of kind {suite.kind}, where every miss fails: nothing to promote"
        return
    yield from _history_lines(suite, args.model)
    if not (suite.buckets or suite.tasks):
        yield f"{suite.suite}: nothing to promote"
    yield from (_ready_line(each) for each in suite.groups if not each.lacks)
    yield from _null_miss_lines(suite)
    yield from _lacking_lines(suite)
    yield from _suspect_lines(suite)
    yield from change_lines(suite.change)


def _history_lines(suite: SuitePromotion, model: str) -> Iterator[str]:
    whose = f" with {', '.join(suite.models) or model or 'a model that is not offline'}"
    names = f": {', '.join(suite.runs)}" if suite.runs else ""
    yield f"{suite.suite}: {len(suite.runs)} of {pluralize(suite.needed, 'mature run')}{whose}{names}"
    for run in suite.not_counted:
        yield f"  not counted: {run.run}: {run.why}"
    if suite.offline_models:
        offline = ", ".join(suite.offline_models)
        yield f"  not counted: offline models ({offline}); --model=NAME counts one"


def _ready_line(ready: GroupStanding) -> str:
    unproven = f", {ready.unproven} of them without what only a judge decides" if ready.unproven else ""
    return f"  {ready.name}{_size(ready)}: {pluralize(ready.trials, 'trial')} passed{unproven}"


def _null_miss_lines(suite: SuitePromotion) -> Iterator[str]:
    """Say how often what is promoted fails a run in which nothing changed."""
    if (misses := suite.null_misses) is not None:
        which = "this task" if misses.tasks == 1 else f"these {misses.tasks} tasks"
        more = ""
        if misses.needed and misses.chance and misses.chance > MOST_NULL_MISSES:
            more = f"; {misses.needed} passes each would make it {percent_text(MOST_NULL_MISSES)}"
        after = f" (after {pluralize(misses.passes, 'pass')} each){more}"
        yield from wrapped(f"  {which}: {_null_miss_text(misses)}{after}")
    if (misses := suite.null_misses_in_all) is not None:
        yield from wrapped(f"  all {pluralize(misses.tasks, 'promoted task')}: {_null_miss_text(misses)}")


def _null_miss_text(misses: NullMisses) -> str:
    if misses.chance is None:
        return "one trial each does not show how often they miss by chance"
    return f"a run in which nothing changed fails about {percent_text(misses.chance)} of the time"


def _size(ready: GroupStanding) -> str:
    if ready.tasks + ready.held_out == 1:
        return ""
    more = f" and {ready.held_out} held out" if ready.held_out else ""
    return f" ({pluralize(ready.tasks, 'task')}{more})"


def _lacking_lines(suite: SuitePromotion) -> Iterator[str]:
    """Say what each group lacks, once for those that lack the same, those that have come furthest first."""
    if not suite.runs:
        return
    alike: dict[tuple[int, str], list[str]] = {}
    for each in suite.groups:
        if each.lacks:
            alike.setdefault((-each.runs_in_a_row, each.lacks), []).append(each.name)
    for (runs, reason), names in sorted(alike.items())[:MOST_ROWS]:
        passed = f"passed in the newest {-runs} of {pluralize(suite.needed, 'run')}"
        yield from wrapped(f"  {passed}: {', '.join(names)}: {reason}")
    if len(alike) > MOST_ROWS:
        yield f"  and {len(alike) - MOST_ROWS} lines more"


def _suspect_lines(suite: SuitePromotion) -> Iterator[str]:
    if names := ", ".join(suite.stragglers):
        yield from wrapped(f"stragglers (none of {STRAGGLER_TRIALS} trials or more passed): {names}")
    if names := ", ".join(suite.broken):
        yield from wrapped(f"broken (passed in every run before, in no trial of the newest): {names}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``promote`` is told."""
    parser.description = (
        "Buckets of capability suites of which every trial passed in the last mature runs become regression: "
        "from then on a miss fails. A mature run ended all of its planned trials, none of them errored, and "
        "left out no task of split dev. Shows the change of suite.yaml; --write makes it."
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="its name, folder or file (default: all below this folder)")
    add("--tasks", action="store_true", help="single tasks of the other buckets too")
    add_run_arguments(parser, "how many mature runs have to have passed")
