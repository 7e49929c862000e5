"""``agenteval demote``: what was promoted is no longer held to it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pytest_agenteval.cli.output import STDOUT, print_lines, wrapped, write_document
from pytest_agenteval.cli.suite_files import (
    SuiteChange,
    SuiteFile,
    change_lines,
    change_suite,
    holds_suite,
    suites_meant,
    todays_tasks,
)
from pytest_agenteval.cli.suite_runs import add_run_arguments, check_model, offline_models, suite_runs
from pytest_agenteval.loop.promotion import lapse, promoted
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.tasks.suite_spec import Regression
from pytest_agenteval.text.errors import UsageMistake, nearest
from pytest_agenteval.text.formatting import StyledLine, pluralize

MOST_NAMES = 3
"""Names that the command to be pasted says in full."""


class GroupLapse(FrozenValue, frozen=True):
    """A promoted bucket or task, of which ``missed`` of ``trials`` in the last runs did not pass."""

    name: str
    missed: int
    trials: int
    newest: str


class SuiteDemotion(FrozenValue, frozen=True):
    """What a suite has promoted, with its misses in the last ``runs``; and how its file changes.

    ``demoted`` are the names that were to be moved back, and ``change`` what that makes of the suite's file;
    without names neither is there. ``offline_models`` would count if one was named.
    """

    suite: str
    promoted: tuple[str, ...]
    runs: tuple[str, ...]
    lapses: tuple[GroupLapse, ...]
    offline_models: tuple[str, ...]
    demoted: tuple[str, ...]
    change: SuiteChange | None


class DemotionDocument(Document, frozen=True, kw_only=True):
    """What is promoted in each suite and has missed since, or what was moved back."""

    suites: tuple[SuiteDemotion, ...]


def demote(args: argparse.Namespace) -> int:
    """Move names back, with ``--write``; without names show which promoted ones have missed."""
    check_model(args)
    suite, names = _suite_and_names(args.names)
    files = suites_meant(suite)
    if names:
        suites = [_demotion(_promoting(files, names), names, args.write)]
    else:
        suites = [_demotable(file, args) for file in files]
    if args.json:
        write_document(args.json, DemotionDocument(suites=tuple(suites)))
    if args.json != STDOUT:
        for each in suites:
            print_lines(map(StyledLine, change_lines(each.change) if each.change else _lapse_lines(each)))
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("demote", DemotionDocument)


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


def _demotion(file: SuiteFile, names: Sequence[str], write: bool) -> SuiteDemotion:
    """Move names back, or say how the suite's file would be changed."""
    regression = file.suite.regression
    narrower = Regression(
        buckets=tuple(name for name in regression.buckets if name not in names),
        tasks=tuple(name for name in regression.tasks if name not in names),
    )
    return SuiteDemotion(
        suite=file.suite.name,
        promoted=(*regression.buckets, *regression.tasks),
        runs=(),
        lapses=(),
        offline_models=(),
        demoted=tuple(names),
        change=change_suite(file, narrower, write),
    )


def _demotable(file: SuiteFile, args: argparse.Namespace) -> SuiteDemotion:
    name = file.suite.name
    groups = list(promoted(todays_tasks(file), file.suite.regression))
    runs = list(islice(suite_runs(name, args), args.runs)) if groups else []
    lapses = [found for group in groups if (found := lapse(group, runs))]
    return SuiteDemotion(
        suite=name,
        promoted=tuple(group.name for group in groups),
        runs=tuple(run.name for run in runs),
        lapses=tuple(GroupLapse(each.group.name, each.missed, each.trials, each.newest) for each in lapses),
        offline_models=() if args.model or runs else tuple(offline_models(name, args)),
        demoted=(),
        change=None,
    )


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
        yield f"{shlex.join(['agenteval', 'demote', suite.suite, *names, '--write'])} moves them back"
    else:
        which = ", ".join(suite.promoted)
        runs = pluralize(len(suite.runs), "run")
        missed = f"no trial missed in the last {runs}" if suite.runs else _no_runs(suite.offline_models)
        yield from wrapped(f"{suite.suite}: {which}: {missed}")


def _no_runs(offline: Sequence[str]) -> str:
    counted = f"offline models ({', '.join(offline)}) not counted; --model=NAME counts one"
    return counted if offline else "no runs yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``demote`` is told."""
    parser.description = (
        "Moves promoted buckets and tasks back to capability. Without names it lists those with a miss in "
        "the last runs. Shows the change of suite.yaml; --write makes it."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="[SUITE] NAME",
        help="promoted buckets and tasks (default: list those that missed)",
    )
    add_run_arguments(parser, "without names: how many runs to look through")
