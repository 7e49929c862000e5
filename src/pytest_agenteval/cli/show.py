"""``agenteval show``: one trial, as much of it as is needed to see why it ended as it did."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    find_named_run,
    page_lines,
    print_unreadable,
    terminal_width,
    write_document,
)
from pytest_agenteval.records.explanation import grade_lines, short_reason
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.reports.run_view import model_note
from pytest_agenteval.reports.trial_choice import (
    WORST,
    TrialQuery,
    best_matches,
    choose_trials,
    counterpart,
    parse_query,
)
from pytest_agenteval.reports.trial_screen import Detail, TrialPlace, trial_lines
from pytest_agenteval.reports.trial_view import trial_view, trials_document
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import LATEST, list_runs
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, ending_word, printable

TRANSCRIPT_LOST = 2
MOST_LOOKED_AT = 10
"""Newest runs in which a trial is looked up that the run does not have."""

TRIAL = (
    "TRIAL is a trial as reports name it, suite/task[model-1], or a part of that; pytest's item id; worst "
    "(one trial), or missed, failed, errored, passed, limited (all of them, worst first). RUN:worst and the "
    "like name another run than the latest."
)

NO_CHECKSUMS = "an earlier version wrote this run, without checksums: damage to its files may go unnoticed"


def show_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add = parser.add_argument
    parser.epilog = f"{TRIAL} {RUN_HELP}"
    add("trial", nargs="?", default=WORST, metavar="TRIAL", help="which trial, or trials (default: worst)")
    add("--run", metavar="RUN", help="the run that it is looked up in (default: latest)")
    add("--diff", metavar="RUN", help="the same trial of that run beside it, differences first")
    add("--full", action="store_true", help="fold nothing and cut nothing")
    add_json_option(parser)
    add("--no-pager", action="store_true", help="print it all, also on a terminal")
    add_results_option(parser)


def show(args: argparse.Namespace) -> int:
    """Show the trials that are meant; 2 where a transcript is lost, and the journal all that is shown."""
    query = parse_query(args.trial)
    if query.run and args.run:
        raise UsageMistake(f"{args.trial} names a run, and so does --run {args.run}: leave one of them out")
    results, named = Path(args.results), query.run or args.run
    if not named and args.trial != WORST and not list_runs(results):
        raise UsageMistake(f"there is no trial {args.trial!r}: there are no runs yet in {results}")
    run = load_run(find_named_run(results, named or LATEST))
    entries = _matching_entries(run, query, args)
    runs = [run, load_run(find_named_run(Path(args.results), args.diff))] if args.diff else [run]
    # Reading trials below adds to it: more than before means that a transcript is lost.
    before = [each.odd for each in runs]
    pairs = list(_matched_pairs(runs[1], entries)) if args.diff else []
    if args.json and args.diff:
        write_document(args.json, trials_document([((runs[1], old), (run, new)) for old, new in pairs]))
    elif args.json:
        write_document(args.json, trials_document([(None, (run, entry)) for entry in entries]))
    if args.json != STDOUT:
        detail = Detail(terminal_width(), args.full)
        lines = (
            _difference_lines(runs[1], run, pairs, detail)
            if args.diff
            else _trial_lines(run, entries, detail)
        )
        page_lines(lines, paged=not args.no_pager)
    for each in runs:
        print_unreadable(each.folder.name, each)
        if not each.has_checksums:
            print(f"{each.folder.name}: {NO_CHECKSUMS}", file=sys.stderr)
    return 0 if [each.odd for each in runs] == before else TRANSCRIPT_LOST


def _matching_entries(run: Run, query: TrialQuery, args: argparse.Namespace) -> list[JournalEntry]:
    try:
        return choose_trials(run.entries, query)
    except UsageMistake as mistake:
        unreadable = [f"{run.folder.name}: {line}" for line in first_unreadable(run.odd)]
        hint = (
            [] if query.word or best_matches(run.entries, query.name) else _other_run_hint(run, query, args)
        )
        raise UsageMistake("\n".join([f"run {run.folder.name}: {mistake}", *hint, *unreadable])) from None


def _other_run_hint(run: Run, query: TrialQuery, args: argparse.Namespace) -> list[str]:
    if args.run:
        return []
    for other in list_runs(Path(args.results))[:MOST_LOOKED_AT]:
        if other.path.name != run.folder.name and best_matches(load_run(other.path).entries, query.name):
            return [f"the run {other.path.name} has it: --run {other.path.name}"]
    return []


def _trial_lines(run: Run, entries: Sequence[JournalEntry], detail: Detail) -> Iterator[StyledLine]:
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
            yield from trial_lines(trial_view(trial), _trial_place(run, entry), detail)


def _journal_lines(entry: JournalEntry) -> Iterator[str]:
    """Give what the journal knows of a trial whose transcript is lost."""
    yield f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}"
    yield from (f"  {line}" for line in (short_reason(entry), *grade_lines(entry)))


def _trial_place(run: Run, entry: JournalEntry) -> TrialPlace:
    models = (model for model in run.header.models if model.name == entry.key.model)
    note = "" if entry.own_models else next(map(model_note, models), "")
    return TrialPlace(run.folder.name, str(run.folder / str(entry.location)), printable(note))


def _matched_pairs(
    other: Run, entries: Sequence[JournalEntry]
) -> Iterator[tuple[JournalEntry, JournalEntry]]:
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
    from pytest_agenteval.reports.trial_difference import difference_lines

    for number, (old, new) in enumerate(pairs):
        if number:
            yield from (StyledLine(""), StyledLine("=" * detail.width, "dim"))
        trials = other.trial_if_readable(old), run.trial_if_readable(new)
        if trials[0] is None or trials[1] is None:
            yield from map(StyledLine, (*_journal_lines(old), *_journal_lines(new)))
            continue
        places = (_trial_place(other, old), _trial_place(run, new))
        yield from difference_lines(trial_view(trials[0]), trial_view(trials[1]), places, detail)
