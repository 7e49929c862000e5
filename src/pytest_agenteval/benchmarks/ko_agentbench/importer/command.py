"""``agenteval import ko-agentbench``: a user's own clone becomes a suite, its logs runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval import Registry, add_common_arguments
from pytest_agenteval.benchmarks.ko_agentbench.importer.findings import changes
from pytest_agenteval.benchmarks.ko_agentbench.importer.importing import (
    ImportRequest,
    ImportResult,
    import_clone,
)
from pytest_agenteval.importers.command import leftover_lines, writing


class KoAgentBenchImporter:
    """Imports tasks, cached answers and logged runs of a clone of Ko-AgentBench."""

    help = "a clone of Ko-AgentBench: tasks, cache, logs and reports"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the clone, and which half of it is wanted."""
        parser.add_argument("source", metavar="CLONE", help="the clone's folder")
        add_common_arguments(parser, "where to write: a folder of your own")
        either = parser.add_mutually_exclusive_group()
        either.add_argument("--runs-only", action="store_true", help="only the logged runs, not the suite")
        either.add_argument("--no-runs", action="store_true", help="only the suite, not the logged runs")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import, and say what came of it, with what is odd in the clone."""
        request = ImportRequest(
            clone=Path(args.source),
            target=Path(args.to),
            suite=not args.runs_only,
            runs=not args.no_runs,
            force=args.force,
            command=_command(args),
            mode=args.mode,
        )
        with writing():
            imported = import_clone(request)
        print("\n".join(_lines(imported, args.to)))
        return 0


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """Give the command as it could be typed again."""
    typed = ["agenteval", "import", "ko-agentbench", args.source, "--to", args.to]
    if args.mode != "default":
        typed += ["--mode", args.mode]
    flags = [flag for flag in ("runs_only", "no_runs", "force") if getattr(args, flag)]
    return (*typed, *(f"--{flag.replace('_', '-')}" for flag in flags))


def _lines(imported: ImportResult, to: str) -> list[str]:
    lines = [*_suite_lines(imported, to), *_run_lines(imported), *leftover_lines(imported.others)]
    return lines or ["nothing to import: the clone has no logs"]


def _suite_lines(imported: ImportResult, to: str) -> Iterator[str]:
    cache = imported.cache
    if cache is None:
        return
    odd = [one for one in imported.findings if one.what == "oddity"]
    odd_tasks, changed = len({one.task for one in odd}), len({one.task for one in changes(imported.findings)})
    retired, nulls = cache.retired.total(), len(cache.nulls)
    yield f"{imported.tasks} tasks: {Path(to, 'evals', 'ko-agentbench')}"
    yield f"{cache.kept} recorded calls of {imported.cassettes} tools, {cache.stale} of them stale"
    collisions = f"{len(cache.collisions)} collisions"
    yield f"  {collisions}, {retired} files of retired tools left out, {nulls} without data"
    yield f"{len(odd)} oddities in {odd_tasks} tasks, {changed} tasks changed: {imported.page}"


def _run_lines(imported: ImportResult) -> Iterator[str]:
    if imported.runs:
        yield f"{len(imported.runs)} runs, {imported.trials} trials:"
        yield from (f"  {name}" for name in imported.runs)
    if imported.unjudged:
        yield f"no published verdicts, judged metrics are undecided: {', '.join(imported.unjudged)}"
