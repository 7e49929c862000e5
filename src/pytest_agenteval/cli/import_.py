"""``agenteval import``: other benchmarks' suites and runs, from a user's own copy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.errors import AgentEvalError, UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.benchmarks.ko_agentbench.importer.importing import ImportResult
    from pytest_agenteval.registry import Registry

MOST_NAMED = 3
LICENCE = "Memex's texts are under GPL-3.0: the copies are for your own use, as the originals are."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    of = parser.add_subparsers(required=True, metavar="WHAT", dest="what")
    ko = of.add_parser("ko-agentbench", help="a clone of Ko-AgentBench: tasks, cache, logs and reports")
    ko.add_argument("source", metavar="CLONE", help="the clone's folder")
    _shared(ko, "where to write: a folder of your own")
    either = ko.add_mutually_exclusive_group()
    either.add_argument("--runs-only", action="store_true", help="only the logged runs, not the suite")
    either.add_argument("--no-runs", action="store_true", help="only the suite, not the logged runs")
    memex = of.add_parser("memex", help="a folder of Memex's suites: task.json files and their fixtures")
    memex.add_argument("source", metavar="DIR", help="the folder")
    _shared(memex, "the suite's new folder; several suites become folders in it")


def _shared(parser: argparse.ArgumentParser, where: str) -> None:
    parser.add_argument("--to", required=True, metavar="DIR", help=where)
    parser.add_argument(
        "--mode",
        choices=("default", "upstream"),
        default="default",
        help="how the tasks' graders count: what the benchmark documents, or what its code does",
    )
    parser.add_argument("--force", action="store_true", help="write over what was imported there before")


def import_(args: argparse.Namespace) -> int:
    """Import what is named and say what came of it; 0 when all of it can be used, else 1."""
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {"ko-agentbench": _ko_agentbench, "memex": _memex}
    return verbs[args.what](args)


def _ko_agentbench(args: argparse.Namespace) -> int:
    from pytest_agenteval.benchmarks.ko_agentbench.importer.importing import ImportRequest, import_clone

    wanted = ImportRequest(
        clone=Path(args.source),
        target=Path(args.to),
        suite=not args.runs_only,
        runs=not args.no_runs,
        force=args.force,
        command=_command(args),
        mode=args.mode,
    )
    with _writing():
        found = import_clone(wanted)
    print("\n".join(_told(found, args.to)))
    return 0


@contextmanager
def _writing() -> Iterator[None]:
    """Say in one sentence what cannot be written, or that not all of it was."""
    try:
        yield
    except KeyboardInterrupt:
        print("agenteval: the import is not whole: --force makes it anew", file=sys.stderr)
        raise
    except OSError as refused:
        raise UsageMistake(f"{refused.filename}: {refused.strerror}") from None


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """Give the command as it could be typed again."""
    said = ["agenteval", "import", args.what, args.source, "--to", args.to]
    if getattr(args, "mode", "default") != "default":
        said += ["--mode", args.mode]
    flags = [flag for flag in ("runs_only", "no_runs", "force") if getattr(args, flag, False)]
    return (*said, *(f"--{flag.replace('_', '-')}" for flag in flags))


def _registry() -> Registry:
    from pytest_agenteval.builtin import pytest_agenteval_register
    from pytest_agenteval.registry import Registry

    registry = Registry()
    pytest_agenteval_register(registry)
    return registry


def _told(found: ImportResult, to: str) -> list[str]:
    lines = [*_suite_told(found, to), *_runs_told(found), *_others_told(found.others)]
    return lines or ["nothing to import: the clone has no logs"]


def _suite_told(found: ImportResult, to: str) -> Iterator[str]:
    from pytest_agenteval.benchmarks.ko_agentbench.importer.findings import changes

    cache = found.cache
    if cache is None:
        return
    odd = [one for one in found.findings if one.what == "oddity"]
    odd_tasks, changed = len({one.task for one in odd}), len({one.task for one in changes(found.findings)})
    retired, nulls = cache.retired.total(), len(cache.nulls)
    yield f"{found.tasks} tasks: {Path(to, 'evals', 'ko-agentbench')}"
    yield f"{cache.kept} recorded calls of {found.cassettes} tools, {cache.stale} of them stale"
    collisions = f"{len(cache.collisions)} collisions"
    yield f"  {collisions}, {retired} files of retired tools left out, {nulls} without data"
    yield f"{len(odd)} oddities in {odd_tasks} tasks, {changed} tasks changed: {found.page}"


def _runs_told(found: ImportResult) -> Iterator[str]:
    if found.runs:
        yield f"{len(found.runs)} runs, {found.trials} trials:"
        yield from (f"  {name}" for name in found.runs)
    if found.unjudged:
        yield f"no published verdicts, judged metrics are undecided: {', '.join(found.unjudged)}"


def _others_told(others: Sequence[Path]) -> Iterator[str]:
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        yield f"not of this import, left as they are: {', '.join(map(str, others[:MOST_NAMED]))}{more}"


def _memex(args: argparse.Namespace) -> int:
    from pytest_agenteval.benchmarks.memex.importer.importing import RegisteredNames, import_folder
    from pytest_agenteval.builtin import AGENTS, GRADERS

    registry = _registry()
    known = RegisteredNames(sorted(AGENTS), sorted(GRADERS), _refusal(registry), _modes(registry))
    with _writing():
        imported = import_folder(Path(args.source), Path(args.to), known, force=args.force, mode=args.mode)
    for one in imported:
        for problem in one.problems:
            print(problem)
        print(f"{one.suite.name}: {len(one.suite.tasks)} task files, {one.broken} cannot run: {one.folder}")
        for change in (*one.suite.changes, *one.fixtures):
            print(f"  {change}")
        print(*_others_told(one.others), sep="\n", end="\n" if one.others else "")
    print(LICENCE)
    return 1 if any(one.problems for one in imported) else 0


def _modes(registry: Registry) -> Callable[[str], bool]:
    """Say whether a grader counts in modes."""

    def of(name: str) -> bool:
        try:
            return "mode" in signature(registry.grader_factory(name)).parameters
        except (AgentEvalError, TypeError, ValueError):
            return False

    return of


def _refusal(registry: Registry) -> Callable[[str, Mapping[str, Any]], str]:
    """Say why a grader does not take a configuration."""

    def of(name: str, config: Mapping[str, Any]) -> str:
        try:
            registry.grader_factory(name)(**config)
        except (AgentEvalError, TypeError, ValueError) as refused:
            return str(refused)
        return ""

    return of
