"""The importer: what it writes, and its report."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval import ImportedRun, Registry, UsageMistake, add_common_arguments, replace_imported_runs
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Cache,
    Clone,
    Finding,
    SourceTask,
    open_clone,
    read_cache,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import (
    LoggedRun,
    Report,
    logged_runs,
    report_of,
    reports,
    task_changes,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.reference import find_oddities
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import (
    AGENT,
    KIND,
    NAME,
    cassette_folder,
    evals_folder,
    is_imported,
    task_files,
    write_cassettes,
    write_suite,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.trials import trials_of
from pytest_agenteval.store.imported_runs import imported_runs, leftover_lines, writing
from pytest_agenteval.text.formatting import few_names

REPORT_FILE = "ANOMALIES.md"
# A new import replaces the runs of earlier commands that begin like this.
COMMAND = ("agenteval", "import", NAME)


class KoAgentBenchImporter:
    """Imports tasks, cached answers and logged runs of a clone of Ko-AgentBench."""

    help = "a clone of Ko-AgentBench: tasks, cache, logs and reports"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="CLONE", help="the clone's folder")
        add_common_arguments(parser, "where to write: a folder of your own")
        either = parser.add_mutually_exclusive_group()
        either.add_argument("--runs-only", action="store_true", help="only the logged runs, not the suite")
        either.add_argument("--no-runs", action="store_true", help="only the suite, not the logged runs")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import and print what came of it; raises UsageMistake or ProblemsFound before it writes."""
        target, lines = Path(args.to), list[str]()
        with writing():
            clone = open_clone(Path(args.source))
            _check_target(target, args)
            # Everything is read before anything is written, so that a broken clone costs no earlier import.
            tasks = clone.tasks()
            cache = None if args.runs_only else read_cache(clone.cache)
            evaluations = [] if args.no_runs else reports(clone)
            logged = [] if args.no_runs else logged_runs(clone)
            others: Sequence[Path] = ()
            if cache is not None:
                suite_lines, others = _write_suite(args, tasks, cache, logged)
                lines += suite_lines
            if not args.no_runs:
                lines += _write_runs(args, registry, clone, tasks, logged, evaluations)
        lines += leftover_lines(others)
        print("\n".join(lines or ["nothing to import: the clone has no logs"]))
        return 0


def _check_target(target: Path, args: argparse.Namespace) -> None:
    """Refuse to write over anything but an earlier import, and over that only by force."""
    if target.resolve().is_relative_to(Path(args.source).resolve()):
        raise UsageMistake(f"--to {target}: expected a folder outside of the clone {args.source}")
    suite = evals_folder(target)
    if not args.runs_only and suite.exists() and not is_imported(suite):
        raise UsageMistake(f"{suite} is there already, and no import of Ko-AgentBench: nothing was written")
    folders = [] if args.runs_only else [suite, cassette_folder(target)]
    there = [str(path) for path in folders if path.exists()]
    there += [] if args.no_runs else [str(folder) for folder in imported_runs(target, COMMAND)]
    if there and not args.force:
        raise UsageMistake(f"imported before: {few_names(there, 3)}; --force replaces it")


def _write_suite(
    args: argparse.Namespace, tasks: Sequence[SourceTask], cache: Cache, logged: Sequence[LoggedRun]
) -> tuple[list[str], list[Path]]:
    """Write tasks, cassettes and the report; say what was written, and name files of others beside them."""
    target = Path(args.to)
    suite_tasks = task_files(tasks, cache, args.mode)
    unsorted = [*find_oddities(tasks, cache), *task_changes(_by_id(tasks), logged)]
    unsorted += [finding for task in suite_tasks for finding in task.findings]
    findings = sorted(unsorted, key=lambda finding: finding.task)
    page = evals_folder(target) / REPORT_FILE
    own = {page, *write_suite(target, suite_tasks, with_cassettes=bool(cache.entries))}
    own.update(write_cassettes(cache, cassette_folder(target)))
    recordings = [
        f"{cache.entry_count} recorded calls of {len(cache.entries)} tools, {cache.stale} of them stale",
        f"  {cache.collisions} collisions, {cache.retired} files of retired tools left out, "
        f"{cache.nulls} without data",
    ]
    text = _render_report(findings, recordings)
    page.write_text(text, encoding="utf-8", newline="\n")
    # The user's own files, or of a task that the clone no longer has.
    folders = evals_folder(target), cassette_folder(target)
    there = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    others = sorted(path for path in there - own if path.parent.name != "__pycache__")
    odd = [finding.task for finding in findings if not finding.is_change]
    changed = len({finding.task for finding in findings if finding.is_change})
    lines = [
        f"{len(suite_tasks)} tasks: {Path(args.to, 'evals', 'ko-agentbench')}",
        *recordings,
        f"{len(odd)} anomalies in {len(set(odd))} tasks, {changed} tasks changed: {page}",
    ]
    return lines, others


def _write_runs(
    args: argparse.Namespace,
    registry: Registry,
    clone: Clone,
    tasks: Sequence[SourceTask],
    logged: Sequence[LoggedRun],
    evaluations: Sequence[Report],
) -> Iterator[str]:
    """Grade all runs, then put them in the place of those imported before; say which."""
    by_id = _by_id(tasks)

    runs, unjudged = [], []
    for run in logged:
        report = report_of(run, evaluations)
        trials = asyncio.run(trials_of(run, by_id, report, clone.root, registry))
        imported = ImportedRun(
            model=run.model,
            suite=NAME,
            kind=KIND,
            agent=AGENT,
            started_at=run.started_at,
            ended_at=run.ended_at,
            trials=tuple(trials),
            judges=() if report is None else ((report.judge, "verdicts as published"),),
        )
        runs.append(imported)
        unjudged += [run.model] if report is None else []
    folders = replace_imported_runs(Path(args.to), COMMAND, runs, _command(args))
    if folders:
        yield f"{len(folders)} runs, {sum(len(run.trials) for run in runs)} trials:"
        yield from (f"  {folder.name}" for folder in folders)
    if unjudged:
        yield f"no published verdicts, judged metrics are undecided: {', '.join(unjudged)}"


def _by_id(tasks: Sequence[SourceTask]) -> dict[str, SourceTask]:
    # Reversed: of two tasks with one id the first is taken, as it is for the suite.
    return {task.id: task for task in reversed(tasks)}


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """Give the command as it could be typed again."""
    typed = [*COMMAND, args.source, "--to", args.to]
    if args.mode != "default":
        typed += ["--mode", args.mode]
    flags = [flag for flag in ("runs_only", "no_runs", "force") if getattr(args, flag)]
    return (*typed, *(f"--{flag.replace('_', '-')}" for flag in flags))


def _render_report(findings: Sequence[Finding], recordings: Sequence[str]) -> str:
    # Many tasks have the same change: it is one line that names them all.
    by_text: dict[str, list[str]] = defaultdict(list)
    for change in (finding for finding in findings if finding.is_change):
        by_text[change.text].append(change.task)
    changes = [f"- {', '.join(ids)}: {text}" for text, ids in by_text.items()]
    odd = [f"- {finding.task}: {finding.text}" for finding in findings if not finding.is_change]
    return "\n".join(
        [
            "# Changes and anomalies of this import of Ko-AgentBench",
            "",
            "A change is what the import wrote differently from the clone. An anomaly is an error or",
            "a contradiction in the clone's data, which is imported as it is.",
            "",
            *_section("Changes", changes),
            *_section("Anomalies of the data, kept as they are", odd),
            *_section("Cassettes", recordings),
        ]
    )


def _section(title: str, rows: Sequence[str]) -> list[str]:
    """Write a section of a Markdown page; one line says so where there is nothing to list."""
    return [f"## {title}", "", *(rows or ["Nothing."]), ""]
