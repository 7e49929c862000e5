"""The importer: what it writes, and its report."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_agenteval import (
    ImportedRun,
    Registry,
    Trial,
    UsageMistake,
    add_common_arguments,
    replace_imported_runs,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import Mode
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Cache,
    CachedCall,
    Clone,
    Collision,
    Finding,
    SourceTask,
    changes,
    oddities,
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
    ImportedTask,
    cassette_folder,
    evals_folder,
    is_imported,
    task_files,
    unread_keys,
    write_cassettes,
    write_suite,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.trials import trials_of
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.imported_runs import imported_runs, leftover_lines, writing
from pytest_agenteval.text.json_values import compact_json

REPORT_FILE = "ANOMALIES.md"
NOTHING = "Nothing."


def _render_report(
    findings: Sequence[Finding], cache: Cache, tasks: Sequence[ImportedTask], left_out: Mapping[str, int]
) -> str:
    # Many tasks have the same change: it is one line that names them all.
    by_text: dict[str, list[str]] = defaultdict(list)
    for change in changes(findings):
        by_text[change.text].append(change.task)
    grouped_changes = [f"- {', '.join(ids)}: {text}" for text, ids in by_text.items()]
    unread = [f"- `{key}` ({number} tasks)" for key, number in sorted(left_out.items())]
    return "\n".join(
        [
            "# What the import of Ko-AgentBench came upon",
            "",
            "Nothing of the data was repaired: what looks odd is listed, and what had to be written",
            "otherwise than it stands in the clone is listed as a change.",
            "",
            *section("Changes", grouped_changes, NOTHING),
            *section("Oddities of the data, kept as they are", oddities(findings), NOTHING),
            *section("Keys of the data that no grader reads, left out", unread, NOTHING),
            *_cassette_section(cache),
            *(_answer_sections(tasks, cache) if cache.read else ()),
        ]
    )


def _cassette_section(cache: Cache) -> list[str]:
    if not cache.read:
        return ["## Cassettes", "", "The clone has no cache: there are no cassettes.", ""]
    retired = ", ".join(f"{tool} {number}" for tool, number in sorted(cache.retired.items())) or "none"
    rows = [
        ("files read", cache.read),
        ("calls kept", cache.entry_count),
        ("of these stale: no key of today's leads to them, no other file has their arguments", cache.stale),
        ("answered by several files: one that can be reached wins, else the newest", len(cache.collisions)),
        ("files that lost to another one", cache.superseded),
        (f"files of tools that are no more, left out ({retired})", cache.retired.total()),
        ("files without data", len(cache.nulls)),
    ]
    return ["## Cassettes", "", *table(("what", "number"), rows), ""]


def _answer_sections(tasks: Sequence[ImportedTask], cache: Cache) -> list[str]:
    """Say which golden calls the cassettes answer, and list the calls that several files answer."""
    calls: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    stale: Counter[str] = Counter()
    for task in tasks:
        # An imported task has one grader: the group of its level.
        for action in task.content["graders"][0]["config"].get("golden_action") or ():
            if isinstance(action, Mapping) and action.get("tool"):
                calls[task.level] += 1
                entry = cache.find(action["tool"], action.get("args") or {})
                answered[task.level] += entry is not None
                stale[task.level] += entry is not None and entry.stale
    head = ("level", "golden calls", "answered", "of these only by a stale file")
    rows = [(level, calls[level], answered[level], stale[level]) for level in calls]
    golden_calls = ["## Golden calls that the cassettes answer", "", *table(head, rows), ""]
    lines = sorted(map(_collision_line, cache.collisions))
    return [*golden_calls, *section("Calls that several files answer", lines, NOTHING)]


def _collision_line(collision: Collision) -> str:
    """Name the file that is used and those left out, those with the same answer apart."""
    first = collision.preferred
    alike = [_file(call) for call in collision.lost if call.data == first.data]
    other = [_file(call) for call in collision.lost if call.data != first.data]
    by_answer = ((alike, "the same answer"), (other, "another answer"))
    lost = ", ".join(f"left out {', '.join(files)} ({what})" for files, what in by_answer if files)
    return f"- `{first.tool} {compact_json(first.args)}`: {_file(first)} kept, {lost}"


def _file(call: CachedCall) -> str:
    # Files are named by a long digest, of which the first digits tell one from another.
    return call.file[:12]


def section(title: str, rows: Sequence[object], otherwise: str) -> list[str]:
    """Write a section of a Markdown page; one line says so where there is nothing to list."""
    return [f"## {title}", "", *(map(str, rows) if rows else [otherwise]), ""]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows)]


# A new import replaces the runs of earlier commands that begin like this.
COMMAND = ("agenteval", "import", NAME)


class ImportRequest(FrozenValue, frozen=True):
    """What is to be imported where, and by which command; ``force`` writes over an earlier import.

    ``mode`` is that of the tasks' graders. Logged runs are always graded as the benchmark's code grades.
    """

    clone: Path
    target: Path
    suite: bool = True
    runs: bool = True
    force: bool = False
    command: tuple[str, ...] = ()
    mode: Mode = "default"


class ImportResult(FrozenValue, frozen=True):
    """What was imported: counts, findings, the names of runs, and files of others beside the new ones."""

    tasks: int
    findings: tuple[Finding, ...]
    cache: Cache | None
    cassettes: int
    runs: tuple[str, ...]
    trials: int
    unjudged: tuple[str, ...]
    page: Path | None
    others: tuple[Path, ...]


def import_clone(request: ImportRequest) -> ImportResult:
    """Import a clone; raises UsageMistake or ProblemsFound before anything is written."""
    clone = open_clone(request.clone)
    if request.target.resolve().is_relative_to(request.clone.resolve()):
        raise UsageMistake(f"--to {request.target}: expected a folder outside of the clone {request.clone}")
    if request.target.exists() and not request.target.is_dir():
        raise UsageMistake(f"--to {request.target}: expected a folder; it is a file")
    _check_free(request)
    # Everything is read before anything is written, so that a broken clone costs no earlier import.
    tasks = clone.tasks()
    cache = read_cache(clone.cache) if request.suite else None
    evaluations = reports(clone) if request.runs else []
    logged = logged_runs(clone) if request.runs else []
    findings, suite_tasks, others = _write_suite(request, tasks, cache, logged)
    runs, trials = _write_runs(request, clone, _by_id(tasks), logged, evaluations)
    return ImportResult(
        tasks=len(suite_tasks),
        findings=tuple(findings),
        cache=cache,
        cassettes=len(cache.entries) if cache else 0,
        runs=tuple(runs),
        trials=trials,
        unjudged=tuple(run.model for run in logged if report_of(run, evaluations) is None),
        page=evals_folder(request.target) / REPORT_FILE if cache is not None else None,
        others=tuple(others),
    )


def _check_free(request: ImportRequest) -> None:
    """Refuse to write over anything but an earlier import, and over that only by force."""
    suite = evals_folder(request.target)
    if request.suite and suite.exists() and not is_imported(suite):
        raise UsageMistake(f"{suite} is there already, and no import of Ko-AgentBench: nothing was written")
    folders = [suite, cassette_folder(request.target)] if request.suite else []
    there = [str(path) for path in folders if path.exists()]
    there += [str(folder) for folder in imported_runs(request.target, COMMAND)] if request.runs else []
    if there and not request.force:
        first_few = ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
        raise UsageMistake(f"imported before: {first_few}; --force replaces it")


def _write_suite(
    request: ImportRequest, tasks: Sequence[SourceTask], cache: Cache | None, logged: Sequence[LoggedRun]
) -> tuple[list[Finding], list[ImportedTask], list[Path]]:
    if cache is None:
        return [], [], []
    target, suite_tasks = request.target, task_files(tasks, cache, request.mode)
    unsorted = [*find_oddities(tasks, cache), *task_changes(_by_id(tasks), logged)]
    unsorted += [finding for task in suite_tasks for finding in task.findings]
    findings = sorted(unsorted, key=lambda finding: finding.task)
    files = write_suite(target, suite_tasks, with_cassettes=bool(cache.entries))
    files += write_cassettes(cache, cassette_folder(target))
    about = evals_folder(target) / REPORT_FILE
    text = _render_report(findings, cache, suite_tasks, unread_keys(tasks))
    about.write_text(text, encoding="utf-8", newline="\n")
    return findings, suite_tasks, _foreign_files(target, [*files, about])


def _foreign_files(target: Path, own: Iterable[Path]) -> list[Path]:
    """Give the files beside those written: the user's own, or of a task that the clone no longer has."""
    folders = evals_folder(target), cassette_folder(target)
    there = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return sorted(path for path in there.difference(own) if path.parent.name != "__pycache__")


def _write_runs(
    request: ImportRequest,
    clone: Clone,
    tasks: Mapping[str, SourceTask],
    logged: Sequence[LoggedRun],
    evaluations: Sequence[Report],
) -> tuple[list[str], int]:
    """Grade all runs, then put them in the place of those imported before."""

    async def grade_runs() -> list[list[Trial]]:
        return [await trials_of(run, tasks, report_of(run, evaluations), clone.root) for run in logged]

    graded = asyncio.run(grade_runs())
    if not request.runs:
        return [], 0
    runs = []
    for run, trials in zip(logged, graded, strict=True):
        report = report_of(run, evaluations)
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
    folders = replace_imported_runs(request.target, COMMAND, runs, request.command)
    return [folder.name for folder in folders], sum(map(len, graded))


def _by_id(tasks: Sequence[SourceTask]) -> dict[str, SourceTask]:
    # Reversed: of two tasks with one id the first is taken, as it is for the suite.
    return {task.id: task for task in reversed(tasks)}


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
        lines = [*_suite_lines(imported, args.to), *_run_lines(imported), *leftover_lines(imported.others)]
        print("\n".join(lines or ["nothing to import: the clone has no logs"]))
        return 0


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """Give the command as it could be typed again."""
    typed = ["agenteval", "import", "ko-agentbench", args.source, "--to", args.to]
    if args.mode != "default":
        typed += ["--mode", args.mode]
    flags = [flag for flag in ("runs_only", "no_runs", "force") if getattr(args, flag)]
    return (*typed, *(f"--{flag.replace('_', '-')}" for flag in flags))


def _suite_lines(imported: ImportResult, to: str) -> Iterator[str]:
    cache = imported.cache
    if cache is None:
        return
    tasks_with_oddities = [finding.task for finding in imported.findings if finding.what == "oddity"]
    changed = len({finding.task for finding in changes(imported.findings)})
    retired, nulls = cache.retired.total(), len(cache.nulls)
    yield f"{imported.tasks} tasks: {Path(to, 'evals', 'ko-agentbench')}"
    yield f"{cache.entry_count} recorded calls of {imported.cassettes} tools, {cache.stale} of them stale"
    collisions = f"{len(cache.collisions)} collisions"
    yield f"  {collisions}, {retired} files of retired tools left out, {nulls} without data"
    counts = f"{len(tasks_with_oddities)} oddities in {len(set(tasks_with_oddities))} tasks"
    yield f"{counts}, {changed} tasks changed: {imported.page}"


def _run_lines(imported: ImportResult) -> Iterator[str]:
    if imported.runs:
        yield f"{len(imported.runs)} runs, {imported.trials} trials:"
        yield from (f"  {name}" for name in imported.runs)
    if imported.unjudged:
        yield f"no published verdicts, judged metrics are undecided: {', '.join(imported.unjudged)}"
