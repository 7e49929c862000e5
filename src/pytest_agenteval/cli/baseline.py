"""``agenteval baseline set``: a stored run becomes the file that later runs are compared with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.options import OF_MODEL, RUN, add_results_option
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, wrapped, write_document
from pytest_agenteval.compare.baseline import baseline_text, write_baseline
from pytest_agenteval.errors import ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.reports.comparison.baseline_change import (
    BaselineChange,
    BaselineDocument,
    BaselineTask,
    baseline_change,
)
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.reports.formatting import format_figure, one_line, pluralize
from pytest_agenteval.reports.text_width import StyledLine
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.store.runs import find_run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import find_suite, holds_baseline, is_data_name, is_task_name
from pytest_agenteval.tasks.load import load_suite

FOLDER = Path("evals") / "baselines"
MOST_NAMED = 5
MOST_ROWS = 30
MOST_NAME = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.description = (
        "Keep a stored run as the baseline of later ones: a file with one line for each task, to be reviewed "
        "and committed. Without --to each suite's part goes to the file that its suite.yaml's gate names, "
        "else to evals/baselines/SUITE.json below this folder."
    )
    parser.epilog = RUN
    add = parser.add_argument
    add("what", choices=("set",), metavar="set", help="what is done: there is one thing yet")
    add("run", metavar="RUN", help="the run to keep")
    add("--to", metavar="FILE", help="the file for all of it, as in evals/baselines/pkm.json")
    add("--model", metavar="MODEL", help=OF_MODEL)
    add("--suite", metavar="SUITE", help="this suite's trials only")
    add("--allow", action="store_true", help="keep it though trials errored or never ended")
    add("-v", "--verbose", action="store_true", help="every task that changes")
    add_json_option(parser)
    add_results_option(parser)


def baseline(args: argparse.Namespace) -> int:
    """Write the run's trials into the files of their suites, with what changes in each of them."""
    run = load_run(find_run(Path(args.results), args.run))
    entries = _chosen(run, args)
    if not args.allow:
        _refuse_incomplete(run, entries, args)
    changes: list[BaselineChange] = []
    for path, own in _files(entries, args.to).items():
        changes.append(baseline_change(path, own))
        header = replace(run.header, name=run.header.name or run.folder.name)
        write_baseline(path, baseline_text(header, own, run.looks))
        if args.json != STDOUT:
            print_lines(map(StyledLine, _change_lines(changes[-1], args.verbose)))
    if args.json:
        write_document(args.json, BaselineDocument(run=run.folder.name, files=tuple(changes)))
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("baseline", BaselineDocument)


def _chosen(run: Run, args: argparse.Namespace) -> tuple[JournalEntry, ...]:
    entries = run.entries
    for kind, name in (("model", args.model), ("suite", args.suite)):
        names = list(dict.fromkeys(getattr(entry.key, kind) for entry in entries))
        if name is not None and name not in names:
            known = nearest_names(name, names) or "none"
            raise UsageMistake(f"{run.folder.name} has no {kind} {name!r}; it has {known}")
        entries = tuple(entry for entry in entries if name in (None, getattr(entry.key, kind)))
    if not entries:
        raise UsageMistake(f"{run.folder.name} has no trial that ended: nothing to compare with later")
    return entries


def _refuse_incomplete(run: Run, entries: Sequence[JournalEntry], args: argparse.Namespace) -> None:
    """Refuse trials without a score, which nothing can be compared with."""
    errored = [entry.key.task for entry in entries if not entry.averaged]
    planned = sum(
        group.trials
        for group in run.planned
        if args.model in (None, group.model) and args.suite in (None, group.suite)
    )
    parts = [f"{pluralize(len(errored), 'trial')} errored ({_few(errored)})"] if errored else []
    if planned > len(entries):
        parts.append(f"{planned - len(entries)} of {planned} planned trials never ended")
    if parts:
        hint = "try them again (pytest --agent-only=errored,not_run), or keep the rest with --allow"
        raise UsageMistake(f"{run.folder.name}: {'; '.join(parts)}: {hint}")


def _few(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = ", ..." if len(distinct) > MOST_NAMED else ""
    return ", ".join(one_line(name, MOST_NAME) for name in distinct[:MOST_NAMED]) + more


def _files(entries: Sequence[JournalEntry], to: str | None) -> Mapping[Path, tuple[JournalEntry, ...]]:
    """Give the trials by the file that they go to."""
    if to is not None:
        return {_checked(Path(to)): tuple(entries)}
    files: dict[Path, list[JournalEntry]] = {}
    places: dict[str, Path] = {}
    for entry in entries:
        suite = entry.key.suite
        if suite not in places:
            places[suite] = _gates_file(entry) or FOLDER / f"{suite.replace('/', '_')}.json"
        files.setdefault(_checked(places[suite]), []).append(entry)
    return {path: tuple(own) for path, own in files.items()}


def _checked(path: Path) -> Path:
    if path.suffix.lower() != ".json" or is_task_name(path) or not is_data_name(path.name):
        raise UsageMistake(f"{path}: expected a file NAME.json that is no task and no suite")
    if path.exists() and not holds_baseline(path):
        raise UsageMistake(f"{path}: there is such a file, and it is no baseline: nothing was written")
    return path


def _gates_file(entry: JournalEntry) -> Path | None:
    """Give the baseline's file that the suite of a trial names, if it does."""
    try:
        file = find_suite((Path.cwd() / entry.file).parent, Path.cwd()) if entry.file else None
        suite = load_suite(file) if file else None
    except ProblemsFound:
        return None
    if file is None or suite is None or suite.name != entry.key.suite or not suite.gate.baseline:
        return None
    return Path(short_path((file.parent / suite.gate.baseline).resolve()))


def _change_lines(change: BaselineChange, verbose: bool) -> Iterator[str]:
    """Say what is in the file from now on, beside what was."""
    tasks = pluralize(change.tasks, "task")
    if change.is_new:
        yield f"{change.file}: written: {tasks}, {pluralize(change.trials, 'trial')}"
        return
    counts = ((change.added, "added"), (change.gone, "gone"))
    head = ", ".join(
        [
            f"{pluralize(len(change.changed), 'task')} changed",
            *(f"{len(names)} {word}" for names, word in counts if names),
        ]
    )
    as_before = change.tasks - len(change.changed) - len(change.added)
    yield f"{change.file}: written: {head}, {as_before} as before"
    rows = [
        *(f"  {each.name}  {_change_text(each)}" for each in change.changed),
        *(f"  {each.name}  added: {_results(each.after)}" for each in change.added),
        *(f"  {each.name}  gone, was: {_results(each.before)}" for each in change.gone),
    ]
    for row in rows if verbose else rows[:MOST_ROWS]:
        yield from wrapped(row)
    if not verbose and len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more (-v)"


def _change_text(change: BaselineTask) -> str:
    before, after = _results(change.before), _results(change.after)
    results = f"{before} -> {after}" if before != after else after
    differs = f"  (not what it was: {', '.join(change.differs)})" if change.differs else ""
    return f"{results}{differs}"


def _results(scores: Sequence[float | None]) -> str:
    return " ".join("errored" if score is None else format_figure(score) for score in scores)
