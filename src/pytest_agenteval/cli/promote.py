"""``agenteval promote`` and ``demote``: which buckets and tasks of a suite must not miss any more."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    MODEL_HELP,
    add_json_option,
    add_results_option,
    apart,
    positive_int,
    wrapped,
    write_result,
)
from pytest_agenteval.cli.suite_files import SuiteFile, suites_meant, todays_tasks
from pytest_agenteval.loop.promotion import (
    MOST_NULL_MISSES,
    STRAGGLER_TRIALS,
    DemotionDocument,
    NullMisses,
    PromotionDocument,
    SuiteChange,
    SuiteDemotion,
    SuitePromotion,
    SuiteRun,
    TaskGroup,
    UncountedRun,
    change_promoted,
    counted_models,
    lapse,
    newly_broken,
    null_misses,
    promoted,
    standing,
    stragglers,
    suite_history,
    suite_run,
    unpromoted,
)
from pytest_agenteval.session.suite_gates import percent_text
from pytest_agenteval.store.run_folder import whole_runs
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES
from pytest_agenteval.tasks.load import joined, promoted_beside
from pytest_agenteval.tasks.suite_spec import Regression, Suite
from pytest_agenteval.tasks.validation import read_spec
from pytest_agenteval.text.errors import UsageMistake, did_you_mean, nearest_names
from pytest_agenteval.text.formatting import pluralize

# How many groups are listed with what they lack.
MOST_ROWS = 30

# How many names the command to be pasted holds in full.
MOST_NAMES = 3


def promote_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Buckets of capability suites whose trials all passed in the last mature runs become regression: "
        "from then on a miss fails. A mature run ended all of its planned trials, none of them errored, and "
        "left out no task of split dev. Shows the change of _promoted.yaml, beside suite.yaml; --write makes "
        "it."
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="its name, folder or file (default: all below this folder)")
    add("--tasks", action="store_true", help="promote single tasks of the other buckets too")
    _add_run_arguments(parser, "how many mature runs must have passed")


def demote_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Moves promoted buckets and tasks back to capability. Without names it lists those with a miss in "
        "the last runs. Shows the change of _promoted.yaml beside suite.yaml; --write makes it."
    )
    names = "promoted buckets and tasks (default: list those that missed)"
    parser.add_argument("names", nargs="*", metavar="[SUITE] NAME", help=names)
    _add_run_arguments(parser, "without names: how many runs to look through")


def _add_run_arguments(parser: argparse.ArgumentParser, runs: str) -> None:
    add = parser.add_argument
    add("--runs", type=positive_int, default=5, metavar="N", help=f"{runs} (default: 5)")
    add("--model", default="", metavar="MODEL", help=f"{MODEL_HELP}; offline models count only if named")
    add("--write", action="store_true", help="change _promoted.yaml (default: show the change)")
    add_json_option(parser)
    add_results_option(parser)


def promote(args: argparse.Namespace) -> int:
    """Show for each suite what may be promoted and what is lacking; with ``--write`` promote it."""
    _check_model(args)
    # A problem in any suite must come up before the file of another one is changed.
    read = [(file, promoted_beside(file.path), _promotion(file, args)) for file in suites_meant(args.suite)]
    suites = []
    for file, before, promotion in read:
        wider = joined(before, Regression(buckets=promotion.buckets, tasks=promotion.tasks))
        suites.append(replace(promotion, change=change_promoted(file.path, wider, args.write)))
    document = PromotionDocument(suites=tuple(suites))
    write_result(args.json, document, apart(_promotion_lines(suite, args) for suite in suites))
    return 0


def demote(args: argparse.Namespace) -> int:
    """Move names back, with ``--write``; without names show which promoted ones have missed."""
    _check_model(args)
    suite, names = _suite_and_names(args.names)
    files = suites_meant(suite)
    suites = [_demotion(files, names, args.write)] if names else [_lapsed(file, args) for file in files]
    lines = (_change_lines(each.change) if each.change else _lapse_lines(each) for each in suites)
    write_result(args.json, DemotionDocument(suites=tuple(suites)), chain.from_iterable(lines))
    return 0


def _check_model(args: argparse.Namespace) -> None:
    models = {model.name for folder in whole_runs(Path(args.results)) for model in folder.header.models}
    # "Nothing to promote" would be a wrong answer to a misspelt model. Before the first run nobody can tell.
    if args.model and models and args.model not in models:
        known = nearest_names(args.model, models)
        raise UsageMistake(f"no run with the model {args.model!r} in {args.results}; models of runs: {known}")


def _suite_runs(name: str, args: argparse.Namespace) -> Iterator[SuiteRun]:
    """Give the suite's runs with the models that count, newest first, each read only when it is needed."""
    for folder in whole_runs(Path(args.results)):
        if any(suite.name == name for suite in folder.header.suites):
            models = counted_models(folder.header, args.model)
            run = suite_run(load_run(folder.path), name, models) if models else None
            if run is not None:
                yield run


def _offline_models(name: str, args: argparse.Namespace) -> tuple[str, ...]:
    headers = (folder.header for folder in whole_runs(Path(args.results)))
    of_suite = (header for header in headers if any(suite.name == name for suite in header.suites))
    return tuple(sorted({model.name for header in of_suite for model in header.models if model.offline}))


def _promotion(file: SuiteFile, args: argparse.Namespace) -> SuitePromotion:
    name, regression = file.suite.name, file.suite.regression
    capability = file.suite.kind == "capability"
    tasks = todays_tasks(file) if capability else []
    # In suites of other kinds every miss fails already, so no run has to be read.
    history = suite_history(_suite_runs(name, args) if capability else (), tasks, args.runs)
    standings = [(each, standing(each, history)) for each in unpromoted(tasks, regression, single=False)]
    buckets = tuple(each.name for _, each in standings if not each.lacks)
    single = []
    if args.tasks:
        # Buckets that are ready go as a whole; single tasks are those of the other buckets.
        wider = joined(regression, Regression(buckets=buckets))
        single = [(each, standing(each, history)) for each in unpromoted(tasks, wider, single=True)]
        standings = [*((group, each) for group, each in standings if not each.lacks), *single]
    ready = _task_ids(group for group, each in standings if not each.lacks)
    before = _task_ids(promoted(tasks, regression))
    runs = history.mature
    # Offline models are worth a line only where their runs could fill up the others.
    named = args.model or len(runs) == history.needed or not capability
    return SuitePromotion(
        suite=name,
        kind=file.suite.kind,
        needed=history.needed,
        runs=tuple(run.name for run in runs),
        models=tuple(dict.fromkeys(model for run in runs for model in run.models)),
        not_counted=tuple(UncountedRun(run.name, why) for run, why in history.runs if why),
        offline_models=() if named else _offline_models(name, args),
        groups=tuple(each for _, each in standings),
        buckets=buckets,
        tasks=tuple(each.name for _, each in single if not each.lacks),
        stragglers=tuple(stragglers(tasks, history)),
        broken=tuple(newly_broken(tasks, history)),
        null_misses=null_misses(ready, tasks, history),
        # Without earlier promotions both figures would be the same.
        null_misses_in_all=null_misses(ready | before, tasks, history) if before else None,
        change=SuiteChange(""),
    )


def _task_ids(groups: Iterable[TaskGroup]) -> frozenset[str]:
    return frozenset(task.id for group in groups for task in group.tasks)


def _demotion(files: Sequence[SuiteFile], names: Sequence[str], write: bool) -> SuiteDemotion:
    lists = [{*file.suite.regression.buckets, *file.suite.regression.tasks} for file in files]
    for name in names:
        if not any(name in promoted_names for promoted_names in lists):
            raise UsageMistake(_not_promoted(files, name))
    having = [each for each, promoted_names in zip(files, lists, strict=True) if promoted_names >= {*names}]
    # Several suites may have a bucket of that name.
    if len(having) != 1:
        named = ", ".join(file.suite.name for file in having or files)
        raise UsageMistake(f"name the suite first: agenteval demote SUITE {' '.join(names)} (one of {named})")
    (file,) = having
    beside, document = promoted_beside(file.path), read_document(file.path)
    own = read_spec(Suite, document).regression
    for kind in ("buckets", "tasks"):
        for at, name in enumerate(getattr(own, kind)):
            if name in names:
                line = document.line_of(("regression", kind, at))
                place = f"{short_path(file.path)}:{line}"
                raise UsageMistake(f"{place}: {name!r} is promoted by the suite itself: remove it there")
    narrower = Regression(
        buckets=tuple(name for name in beside.buckets if name not in names),
        tasks=tuple(name for name in beside.tasks if name not in names),
    )
    regression = file.suite.regression
    return SuiteDemotion(
        suite=file.suite.name,
        promoted=(*regression.buckets, *regression.tasks),
        runs=(),
        lapses=(),
        offline_models=(),
        demoted=tuple(names),
        change=change_promoted(file.path, narrower, write),
    )


def _suite_and_names(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Take the first word as the suite where it is a suite's name or path."""
    if not words:
        return None, ()
    path = Path(words[0])
    is_path = path.name in SUITE_NAMES or any((path / name).is_file() for name in SUITE_NAMES)
    is_suite = is_path or any(each.suite.name == words[0] for each in suites_meant(None))
    return (words[0], words[1:]) if is_suite else (None, words)


def _not_promoted(files: Sequence[SuiteFile], name: str) -> str:
    regressions = [file.suite.regression for file in files]
    known = [each for regression in regressions for each in (*regression.buckets, *regression.tasks)]
    # A task may be promoted by its bucket only, and then the bucket is what can be moved back.
    for file in files:
        for task in todays_tasks(file):
            if task.id == name and task.bucket in file.suite.regression.buckets:
                return f"{name} is promoted with its bucket: agenteval demote {file.suite.name} {task.bucket}"
    listed = f"promoted: {', '.join(known)}" if known else "nothing is promoted"
    return f"{name!r} is not promoted; {did_you_mean(name, known) or listed}"


def _lapsed(file: SuiteFile, args: argparse.Namespace) -> SuiteDemotion:
    name = file.suite.name
    groups = list(promoted(todays_tasks(file), file.suite.regression))
    # Without promotions no run has to be read.
    runs = list(islice(_suite_runs(name, args), args.runs)) if groups else []
    return SuiteDemotion(
        suite=name,
        promoted=tuple(group.name for group in groups),
        runs=tuple(run.name for run in runs),
        lapses=tuple(found for group in groups if (found := lapse(group, runs))),
        offline_models=() if args.model or runs else _offline_models(name, args),
        demoted=(),
        change=None,
    )


def _promotion_lines(suite: SuitePromotion, args: argparse.Namespace) -> Iterator[str]:
    if suite.kind != "capability":
        yield f"{suite.suite}: of kind {suite.kind}, where every miss fails already: nothing to promote"
        return
    whose = f" with {', '.join(suite.models) or args.model or 'a real model'}"
    titles = f": {', '.join(suite.runs)}" if suite.runs else ""
    yield f"{suite.suite}: {len(suite.runs)} of {pluralize(suite.needed, 'mature run')}{whose}{titles}"
    for run in suite.not_counted:
        yield f"  not counted: {run.run}: {run.why}"
    if suite.offline_models:
        offline = ", ".join(suite.offline_models)
        yield f"  not counted: offline models ({offline}); add --model=NAME to count one"
    if not (suite.buckets or suite.tasks):
        yield f"{suite.suite}: nothing to promote"
    for ready in suite.groups:
        if not ready.lacks:
            size = ""
            if ready.tasks + ready.held_out > 1:
                more = f" and {ready.held_out} held out" if ready.held_out else ""
                size = f" ({pluralize(ready.tasks, 'task')}{more})"
            unproven = f", {ready.unproven} of them without a judge's grade" if ready.unproven else ""
            yield f"  {ready.name}{size}: {pluralize(ready.trials, 'trial')} passed{unproven}"
    if (misses := suite.null_misses) is not None:
        which = "this task" if misses.tasks == 1 else f"these {misses.tasks} tasks"
        more = ""
        if misses.needed and misses.chance and misses.chance > MOST_NULL_MISSES:
            more = f"; {misses.needed} passes each would make it {percent_text(MOST_NULL_MISSES)}"
        after = f" (after {pluralize(misses.passes, 'pass')} each){more}"
        yield from wrapped(f"  {which}: {_null_miss_text(misses)}{after}")
    if (misses := suite.null_misses_in_all) is not None:
        yield from wrapped(f"  all {pluralize(misses.tasks, 'promoted task')}: {_null_miss_text(misses)}")
    yield from _lacking_lines(suite)
    if names := ", ".join(suite.stragglers):
        yield from wrapped(f"stragglers (none of {STRAGGLER_TRIALS} trials or more passed): {names}")
    if names := ", ".join(suite.broken):
        yield from wrapped(f"broken (passed in every run before, in no trial of the newest): {names}")
    yield from _change_lines(suite.change)


def _null_miss_text(misses: NullMisses) -> str:
    if misses.chance is None:
        return "one trial of a task does not show how often it misses by chance"
    return f"a run in which nothing changed fails about {percent_text(misses.chance)} of the time"


def _lacking_lines(suite: SuitePromotion) -> Iterator[str]:
    """Say what groups lack, one line for all that lack the same; those that have come furthest come first."""
    if not suite.runs:
        return
    alike: dict[tuple[int, str], list[str]] = {}
    for each in suite.groups:
        if each.lacks:
            alike.setdefault((-each.runs_in_a_row, each.lacks), []).append(each.name)
    for (runs, reason), names in sorted(alike.items())[:MOST_ROWS]:
        passed = f"{-runs} of {pluralize(suite.needed, 'run')} passed in a row"
        yield from wrapped(f"  {', '.join(names)}: {passed}: {reason}")
    if len(alike) > MOST_ROWS:
        yield f"  and {len(alike) - MOST_ROWS} lines more"


def _lapse_lines(suite: SuiteDemotion) -> Iterator[str]:
    if not suite.promoted:
        yield f"{suite.suite}: nothing is promoted"
        return
    for each in suite.lapses:
        missed = f"{each.missed} of {pluralize(each.trials, 'trial')} missed, the newest in {each.newest}"
        yield f"{suite.suite}: {each.name}: {missed}"
    if suite.lapses:
        few = len(suite.lapses) <= MOST_NAMES
        names = [each.name for each in suite.lapses] if few else ["NAME", "..."]
        yield f"{shlex.join(['agenteval', 'demote', suite.suite, *names, '--write'])} undoes their promotion"
    else:
        which = ", ".join(suite.promoted)
        runs = pluralize(len(suite.runs), "run")
        missed = f"no trial missed in the last {runs}" if suite.runs else "no runs yet"
        if suite.offline_models and not suite.runs:
            offline = ", ".join(suite.offline_models)
            missed = f"offline models ({offline}) not counted; add --model=NAME to count one"
        yield from wrapped(f"{suite.suite}: {which}: {missed}")


def _change_lines(change: SuiteChange) -> Iterator[str]:
    yield from change.diff
    if change.diff:
        # The first two lines name the file; where no other is context or new, nothing is left of it.
        is_left = any(line.startswith((" ", "+")) for line in change.diff[2:])
        if change.written:
            yield f"{change.file}: {'written' if is_left else 'removed, as nothing is left in it'}"
        else:
            yield (
                f"add --write to change {change.file}" if is_left else f"add --write to remove {change.file}"
            )
