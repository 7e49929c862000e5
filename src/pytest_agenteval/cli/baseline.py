"""``agenteval baseline set``: a stored run becomes the file that later runs are compared with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.output import print_lines, wrapped
from pytest_agenteval.compare.baseline import baseline_text, read_baseline, write_baseline
from pytest_agenteval.compare.baseline_lines import tasks_of
from pytest_agenteval.compare.pairing import MUST_EQUAL
from pytest_agenteval.errors import ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.formatting import format_figure, model_label, one_line, pluralize
from pytest_agenteval.reports.text_width import StyledLine
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run, load_run
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
    add = parser.add_argument
    add("what", choices=("set",), metavar="set")
    add("run", metavar="RUN", help="a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD")
    add("--to", metavar="FILE", help="the file for all of it, as in evals/baselines/pkm.json")
    add("--model", metavar="MODEL", help="the trials of this model only")
    add("--suite", metavar="SUITE", help="the trials of this suite only")
    add("--allow", action="store_true", help="though trials errored, or never ended")
    add("-v", "--verbose", action="store_true", help="every task that changes")
    add("--results", default=".agenteval/runs", metavar="DIR", help="the folder that keeps runs")


def baseline(args: argparse.Namespace) -> int:
    """Write the run's trials into the files of their suites, with what changes in each of them."""
    run = load_run(find_run(Path(args.results), args.run))
    entries = _chosen(run, args)
    if not args.allow:
        _refuse_incomplete(run, entries, args)
    for path, own in _files(entries, args.to).items():
        lines = list(_change_lines(path, own, args.verbose))
        header = replace(run.header, name=run.header.name or run.folder.name)
        write_baseline(path, baseline_text(header, own, run.looks))
        print_lines(map(StyledLine, lines))
    return 0


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


def _change_lines(path: Path, entries: Sequence[JournalEntry], verbose: bool) -> Iterator[str]:
    """Say what is in the file from now on, beside what was."""
    after = _tasks(entries)
    if not path.exists():
        yield f"{path}: written: {pluralize(len(after), 'task')}, {pluralize(len(entries), 'trial')}"
        return
    before = _tasks(read_baseline(path).entries)
    changed = [name for name in after if name in before and before[name] != after[name]]
    added = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    counts = (f"{len(names)} {word}" for names, word in ((added, "added"), (gone, "gone")) if names)
    head = ", ".join([f"{pluralize(len(changed), 'task')} changed", *counts])
    yield f"{path}: written: {head}, {len(after) - len(changed) - len(added)} as before"
    rows = [
        *(f"  {name}  {_change(before[name], after[name])}" for name in changed),
        *(f"  {name}  added: {after[name].results}" for name in added),
        *(f"  {name}  gone, was: {before[name].results}" for name in gone),
    ]
    for row in rows if verbose else rows[:MOST_ROWS]:
        yield from wrapped(row)
    if not verbose and len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more (-v)"


class TaskResults(FrozenValue, frozen=True):
    """What a task's trials came to, in words, and the digests that have to be equal to compare them."""

    results: str
    digests: Mapping[str, frozenset[str]]


def _tasks(entries: Sequence[JournalEntry]) -> dict[str, TaskResults]:
    """Give what each task's trials came to, by the task's name."""
    return {_task_name(trials[0]): _task_results(trials) for trials in tasks_of(entries)}


def _task_name(entry: JournalEntry) -> str:
    who = model_label(entry.key.model, entry.key.variant)
    return one_line(f"{entry.key.suite}/{entry.key.task}[{who}]", MOST_NAME)


def _task_results(trials: Sequence[JournalEntry]) -> TaskResults:
    results = (format_figure(trial.score) if trial.averaged else trial.ending for trial in trials)
    digests = {
        words: frozenset(getattr(trial.digests, name) for trial in trials)
        for name, words in MUST_EQUAL.items()
    }
    return TaskResults(" ".join(results), digests)


def _change(before: TaskResults, after: TaskResults) -> str:
    others = [words for words in after.digests if before.digests[words] != after.digests[words]]
    results = f"{before.results} -> {after.results}" if before.results != after.results else after.results
    return f"{results}  (not what it was: {', '.join(others)})" if others else results
