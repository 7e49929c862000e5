"""``agenteval show``: one trial, as much of it as is needed to see why it ended as it did."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_agenteval.cli.output import STDOUT, write_text
from pytest_agenteval.cli.pager import page_lines
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.reports.explanations import grade_lines, short_reason
from pytest_agenteval.reports.formatting import ending_word, printable, trial_name
from pytest_agenteval.reports.show.foreign_text import Detail, json_text
from pytest_agenteval.reports.show.trial_choice import (
    WORST,
    TrialQuery,
    best_matches,
    choose_trials,
    counterpart,
    parse_query,
)
from pytest_agenteval.reports.show.trial_lines import TrialPlace, trial_lines
from pytest_agenteval.reports.text_width import StyledLine, clamp_width
from pytest_agenteval.reports.trial.trial_view import trial_view
from pytest_agenteval.reports.view import model_note
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.store.runs import LATEST, ROOT, find_run, list_runs

if TYPE_CHECKING:
    from pytest_agenteval.store.journal_entry import JournalEntry

LOST = 2
MOST_LOOKED_AT = 10
"""Newest runs in which a trial is looked up that the run does not have."""

TRIAL = (
    "a trial as reports name it, suite/task[model-1], or a part of that; pytest's item id; worst (one "
    "trial), or missed, failed, errored, passed, limited (all of them, worst first); RUN: before such a word "
    "names another run than the latest (default: worst)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    add("trial", nargs="?", default=WORST, metavar="TRIAL", help=TRIAL)
    add("--run", metavar="RUN", help="a run's folder, its name or how that begins, or MODEL@YYYYMMDD (default: latest)")  # fmt: skip  # noqa: E501
    add("--diff", metavar="OTHER_RUN", help="the same trial of that run beside it, what differs first")
    add("--full", action="store_true", help="fold nothing and cut nothing")
    add("--json", action="store_true", help="write all of it as JSON")
    add("--no-pager", action="store_true", help="print it all, also on a terminal")
    add("--results", default=str(ROOT), metavar="DIR", help="the folder that keeps runs")


def show(args: argparse.Namespace) -> int:
    """Show the trials that are meant; 2 where a transcript is lost, and the journal all that is shown."""
    run, query = _run_and_query(args)
    entries, several = _matching_entries(run, query, args), query.word not in ("", WORST)
    runs = [run, load_run(find_run(Path(args.results), args.diff))] if args.diff else [run]
    before = [each.odd for each in runs]
    if args.diff:
        _show_difference(runs[1], run, entries, several, args)
    elif args.json:
        _write_json((_document(run, entry) for entry in entries), several)
    else:
        page_lines(_lines(run, entries, _detail(args)), paged=not args.no_pager)
    for each in runs:
        for odd in first_unreadable(each.odd):
            print(f"{each.folder.name}: {odd}", file=sys.stderr)
    return 0 if [each.odd for each in runs] == before else LOST


def _detail(args: argparse.Namespace) -> Detail:
    return Detail(clamp_width(shutil.get_terminal_size().columns), args.full)


def _run_and_query(args: argparse.Namespace) -> tuple[Run, TrialQuery]:
    query = parse_query(args.trial)
    if query.run and args.run:
        raise UsageMistake(f"{args.trial} names a run, and so does --run {args.run}: leave one of them out")
    return load_run(find_run(Path(args.results), query.run or args.run or LATEST)), query


def _matching_entries(run: Run, query: TrialQuery, args: argparse.Namespace) -> list[JournalEntry]:
    try:
        return choose_trials(run.entries, query)
    except UsageMistake as mistake:
        odd = [f"{run.folder.name}: {line}" for line in first_unreadable(run.odd)]
        hint = [] if query.word or best_matches(run.entries, query.name) else _elsewhere(run, query, args)
        raise UsageMistake("\n".join([f"run {run.folder.name}: {mistake}", *hint, *odd])) from None


def _elsewhere(run: Run, query: TrialQuery, args: argparse.Namespace) -> list[str]:
    """Say which of the newest runs has a trial that this run does not have."""
    if args.run:
        return []
    for other in list_runs(Path(args.results))[:MOST_LOOKED_AT]:
        if other.path.name != run.folder.name and best_matches(load_run(other.path).entries, query.name):
            return [f"the run {other.path.name} has it: --run {other.path.name}"]
    return []


def _lines(run: Run, entries: Sequence[JournalEntry], detail: Detail) -> Iterator[StyledLine]:
    """Give the trials one after the other, each read when it is its turn."""
    for number, entry in enumerate(entries, start=1):
        if number > 1:
            yield from (StyledLine(""), StyledLine("=" * detail.width, "dim"))
        if len(entries) > 1:
            yield StyledLine(f"{number} of {len(entries)}", "dim")
        trial = run.trial_if_readable(entry)
        if trial is None:
            yield from map(StyledLine, _journal_lines(entry))
        else:
            yield from trial_lines(trial_view(trial), _place(run, entry), detail)


def _journal_lines(entry: JournalEntry) -> Iterator[str]:
    """Give what the journal knows of a trial whose transcript is lost."""
    yield f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}"
    yield from (f"  {line}" for line in (short_reason(entry), *grade_lines(entry)))


def _place(run: Run, entry: JournalEntry) -> TrialPlace:
    models = (model for model in run.header.models if model.name == entry.key.model)
    note = next(map(model_note, models), "")
    return TrialPlace(run.folder.name, str(run.folder / str(entry.location)), printable(note))


def _write_json(documents: Iterable[Mapping[str, Any] | None], several: bool) -> None:
    """Write one trial as an object, and the trials of an ending as a list, each when it was read."""
    before = "["
    for document in filter(None, documents):
        write_text(STDOUT, f"{before}\n" if several else "")
        write_text(STDOUT, json_text(document))
        before = ","
    if several:
        write_text(STDOUT, "[]\n" if before == "[" else "\n]\n")
    elif before == ",":
        write_text(STDOUT, "\n")


def _document(run: Run, entry: JournalEntry) -> dict[str, Any] | None:
    """Give all of a trial as JSON values; None where its transcript is lost."""
    trial, place = run.trial_if_readable(entry), _place(run, entry)
    if trial is None:
        return None
    return {"run": place.run, "transcript": place.transcript, **msgspec.to_builtins(trial_view(trial))}


def _show_difference(
    other: Run, run: Run, entries: Sequence[JournalEntry], several: bool, args: argparse.Namespace
) -> None:
    """Show each trial beside the same one of the other run, which is the old one."""
    pairs = list(_pairs(other, entries))
    if args.json:
        documents = ({"old": _document(other, old), "new": _document(run, new)} for old, new in pairs)
        _write_json(documents, several)
    else:
        page_lines(_difference_lines(other, run, pairs, _detail(args)), paged=not args.no_pager)


def _pairs(other: Run, entries: Sequence[JournalEntry]) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    """Give old and new of each trial; of several, one that the other run does not have is left out."""
    for entry in entries:
        try:
            yield _counterpart(other, entry), entry
        except UsageMistake as mistake:
            if len(entries) == 1:
                raise
            print(f"left out: {str(mistake).partition(chr(10))[0]}", file=sys.stderr)


def _counterpart(other: Run, entry: JournalEntry) -> JournalEntry:
    try:
        return counterpart(other.entries, entry)
    except UsageMistake as mistake:
        raise UsageMistake(f"run {other.folder.name}: {mistake}") from None


def _difference_lines(
    other: Run, run: Run, pairs: Sequence[tuple[JournalEntry, JournalEntry]], detail: Detail
) -> Iterator[StyledLine]:
    from pytest_agenteval.reports.show.difference_lines import difference_lines

    for number, (old, new) in enumerate(pairs):
        if number:
            yield from (StyledLine(""), StyledLine("=" * detail.width, "dim"))
        trials = other.trial_if_readable(old), run.trial_if_readable(new)
        if trials[0] is None or trials[1] is None:
            yield from map(StyledLine, (*_journal_lines(old), *_journal_lines(new)))
            continue
        places = (_place(other, old), _place(run, new))
        yield from difference_lines(trial_view(trials[0]), trial_view(trials[1]), places, detail)
