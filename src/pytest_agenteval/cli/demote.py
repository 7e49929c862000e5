"""``agenteval demote``: what was promoted is no longer held to it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pytest_agenteval.cli.output import print_lines, wrapped
from pytest_agenteval.cli.suite_files import SuiteFile, change_lines, holds_suite, suites_meant, todays_tasks
from pytest_agenteval.cli.suite_runs import add_run_arguments, check_model, offline_models, suite_runs
from pytest_agenteval.errors import UsageMistake, nearest
from pytest_agenteval.loop.promotion import Lapse, lapse, promoted
from pytest_agenteval.reports.formatting import pluralize
from pytest_agenteval.reports.text_width import StyledLine
from pytest_agenteval.tasks.spec import Regression

MOST_NAMES = 3
"""Names that the command to be pasted says in full."""


def demote(args: argparse.Namespace) -> int:
    """Move names back, with ``--write``; without names show which promoted ones have missed."""
    check_model(args)
    suite, names = _suite_and_names(args.names)
    files = suites_meant(suite)
    if names:
        print_lines(map(StyledLine, _demote(_promoting(files, names), names, args.write)))
        return 0
    for file in files:
        print_lines(map(StyledLine, _demotable(file, args)))
    return 0


def _suite_and_names(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Take the first word for a suite where it is the name or the path of one."""
    if not words:
        return None, ()
    is_suite = holds_suite(Path(words[0])) or any(each.suite.name == words[0] for each in suites_meant(None))
    return (words[0], words[1:]) if is_suite else (None, words)


def _promoting(files: Sequence[SuiteFile], names: Sequence[str]) -> SuiteFile:
    """Give the one suite that has promoted these names."""
    lists = [{*file.suite.regression.buckets, *file.suite.regression.tasks} for file in files]
    for name in names:
        if not any(name in promoted_names for promoted_names in lists):
            raise UsageMistake(_not_promoted(files, name))
    having = [file for file, promoted_names in zip(files, lists, strict=True) if promoted_names >= {*names}]
    if len(having) != 1:
        suites = ", ".join(file.suite.name for file in having or files)
        raise UsageMistake(
            f"name the suite first: agenteval demote SUITE {' '.join(names)} (one of {suites})"
        )
    return having[0]


def _not_promoted(files: Sequence[SuiteFile], name: str) -> str:
    known = [
        each for file in files for each in (*file.suite.regression.buckets, *file.suite.regression.tasks)
    ]
    for file in files:
        for task in todays_tasks(file):
            if task.id == name and task.bucket in file.suite.regression.buckets:
                return f"{name} is promoted with its bucket: agenteval demote {file.suite.name} {task.bucket}"
    listed = f"promoted are: {', '.join(known)}" if known else "nothing is promoted"
    return f"{name!r} is not promoted; {nearest(name, known) or listed}"


def _demote(file: SuiteFile, names: Sequence[str], write: bool) -> Iterator[str]:
    regression = file.suite.regression
    narrower = Regression(
        buckets=tuple(name for name in regression.buckets if name not in names),
        tasks=tuple(name for name in regression.tasks if name not in names),
    )
    return change_lines(file, narrower, write)


def _demotable(file: SuiteFile, args: argparse.Namespace) -> Iterator[str]:
    name = file.suite.name
    groups = list(promoted(todays_tasks(file), file.suite.regression))
    if not groups:
        yield f"{name}: nothing is promoted"
        return
    runs = list(islice(suite_runs(name, args), args.runs))
    lapses = [found for group in groups if (found := lapse(group, runs))]
    for each in lapses:
        yield f"{name}: {_lapse_text(each)}"
    if lapses:
        names = [each.group.name for each in lapses] if len(lapses) <= MOST_NAMES else ["NAME", "..."]
        yield f"{shlex.join(['agenteval', 'demote', name, *names, '--write'])} moves them back"
    else:
        which = ", ".join(group.name for group in groups)
        missed = (
            f"no trial missed in the last {pluralize(len(runs), 'run')}" if runs else _no_runs(name, args)
        )
        yield from wrapped(f"{name}: {which}: {missed}")


def _no_runs(name: str, args: argparse.Namespace) -> str:
    offline = [] if args.model else offline_models(name, args)
    counted = f"offline models ({', '.join(offline)}) not counted; --model=NAME counts one"
    return counted if offline else "no runs yet"


def _lapse_text(each: Lapse) -> str:
    trials = pluralize(each.trials, "trial")
    return f"{each.group.name}: {each.missed} of {trials} missed, the newest in {each.newest}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``demote`` is told."""
    parser.description = (
        "Moves promoted buckets and tasks back to capability. Without names it lists those with a miss in "
        "the last runs. Shows the change of suite.yaml; --write makes it."
    )
    parser.add_argument(
        "names", nargs="*", metavar="[SUITE] NAME", help="buckets and tasks that are promoted"
    )
    add_run_arguments(parser, "without names: look for misses in so many runs")
