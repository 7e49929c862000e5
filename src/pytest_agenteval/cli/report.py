"""``agenteval report`` and ``show``: stored runs as tables, and single trials of them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    add_side_options,
    find_named_run,
    name_list,
    page_lines,
    print_lines,
    print_unreadable,
    terminal_width,
    write_document,
    write_text,
)
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.records.explanation import grade_lines, short_reason
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.reports.causes import ALL_CAUSES, MOST_CAUSES, cause_lines, causes_title, common_causes
from pytest_agenteval.reports.comparison_report import comparison_lines
from pytest_agenteval.reports.leaderboard import Leaderboard, board_lines, leaderboards_of, standing_lines
from pytest_agenteval.reports.markdown_report import boards_beside, report_markdown
from pytest_agenteval.reports.report_files import FILE_KINDS, check_report_path, write_report
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.reports.run_screen import MOST_LINES, ScreenParts, misses_block, screen_lines
from pytest_agenteval.reports.run_view import model_note, view_of
from pytest_agenteval.reports.scorecard import RegisteredScorecard, ReportOption
from pytest_agenteval.reports.sides_report import side_verdict_lines, sides_lines
from pytest_agenteval.reports.trial_choice import (
    PROGRAM,
    WORST,
    TrialQuery,
    best_matches,
    choose_trials,
    counterpart,
    parse_query,
    task_filter,
    whole_name_matches,
)
from pytest_agenteval.reports.trial_screen import Detail, TrialPlace, note_lines, trial_lines
from pytest_agenteval.reports.trial_view import trial_view, trials_document
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.notes import write_notes
from pytest_agenteval.store.rows import ROW_KINDS
from pytest_agenteval.store.run_folder import LATEST, ROOT, find_run, list_runs
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run, load_tasks
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import INDENT, StyledLine, ending_word, printable
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

ROW_FILES = (".csv", ".parquet")
NO_BOARDS = (*ROW_FILES, ".xml")
"""Report files with a row for each thing, of which there are several kinds."""


def one_run_lines(
    run: Run,
    boards: Sequence[Leaderboard],
    steps: Sequence[str],
    width: int,
    verbosity: int,
    headline: Sequence[StyledLine] = (),
    footer: Sequence[StyledLine] = (),
) -> Iterator[StyledLine]:
    """Give a run in as much detail as pytest with this verbosity; ``steps`` are commands to go on with.

    ``headline`` is the verdict of a comparison, ``footer`` what became of gates.
    """
    # -v shows everything already, and -q is to be short.
    steps = steps if verbosity == 0 else ()
    parts = ScreenParts(
        headline=headline,
        totals=list(_scorecard_lines(boards, width, verbosity)),
        footer=footer,
        place=str(run.folder),
        next_steps=steps,
    )
    screen = screen_lines(view_of(run), width, verbosity, parts)
    title, misses = misses_block(run, width, verbosity, MOST_LINES - 2 - len(screen))
    yield from (StyledLine(title, "bold"), *misses, StyledLine("")) if misses else ()
    yield from screen


def next_commands(run: Run, name: str, results: str) -> list[str]:
    """Give the commands that show more of a run: all of it, and its worst trial if one did not pass."""
    elsewhere = [] if Path(results) == ROOT else ["--results", results]
    steps = [["report", name, *elsewhere, "-v"]]
    if any(entry.ending != "passed" for entry in run.entries):
        steps.append(["show", f"{name}:{WORST}", *elsewhere])
    return [shlex.join(["agenteval", *step]) for step in steps]


def _scorecard_lines(boards: Sequence[Leaderboard], width: int, verbosity: int) -> Iterator[StyledLine]:
    """Give the scorecard of each model; with -v whole, and side by side where there are several."""
    if verbosity < 0:
        return
    standings = [standing for board in boards for standing in board.standings]
    yield from standing_lines(standings, width, whole=verbosity > 0)
    compared = [board for board in boards if board.has_scorecard and len(board.standings) > 1]
    if verbosity > 0 and compared:
        yield from (StyledLine(""), *board_lines(compared, width))


def report_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.epilog = RUN_HELP
    add("runs", nargs="*", default=[LATEST], metavar="RUN", help="a run (default: latest); several runs are shown side by side")  # fmt: skip  # noqa: E501
    add("-v", "--verbose", action="count", default=0, help="list every bucket, and every miss in full")
    add("-q", "--quiet", action="count", default=0, help="print only suites and warnings")
    add_json_option(parser)
    add("--markdown", metavar="FILE", help="write it as Markdown (- for standard output)")
    # Which formats and options there are depends on the installed benchmarks.
    registry = installed_registry()
    add("--as", dest="format", choices=registry.report_formats, help="write or send trials in another format")
    add("-o", "--output", action="append", default=[], metavar="FILE", help=f"write a report file; may be repeated. By its ending: {', '.join(FILE_KINDS)}. With --as: the folder to write into")  # fmt: skip  # noqa: E501
    add_side_options(parser)
    add("--rows", choices=list(ROW_KINDS), metavar="ROWS", help=f"rows of .csv and .parquet: {', '.join(ROW_KINDS)} (default: trials)")  # fmt: skip  # noqa: E501
    add_results_option(parser)
    parser.set_defaults(registry=registry, scorecard_options=add_scorecard_options(parser, registry))


def add_scorecard_options(
    parser: argparse.ArgumentParser, registry: Registry
) -> dict[str, list[ReportOption]]:
    """Declare the options of all scorecards; give the options of each by its name.

    A mistake of one benchmark keeps nobody from the reports of another: its options are left out, and a line
    says so.
    """
    options: dict[str, list[ReportOption]] = {}
    for scorecard in registry.scorecards():
        options[scorecard.name] = []
        try:
            for option in scorecard.options():
                parser.add_argument(
                    option.flag,
                    # With its dashes, so that it is no name of an argument of ours.
                    dest=option.flag,
                    metavar=option.metavar,
                    help=option.help.replace("%", "%%"),
                )
                options[scorecard.name].append(option)
        # A benchmark's own code may return or raise anything.
        except Exception as broken:
            _print_warning(f"an option of the scorecard {scorecard.name!r} is left out: {broken}")
    for line in registry.broken_benchmarks:
        _print_warning(line)
    return options


def _print_warning(line: str) -> None:
    print(f"agenteval: {KNOWN_SECRETS.text(line)}", file=sys.stderr)


def report(args: argparse.Namespace) -> int:
    if args.format is not None:
        # One folder to write into, or none where the format sends trials elsewhere.
        if len(args.output) > 1 or not (args.output or args.format in args.registry.sending_report_formats):
            raise UsageMistake("--as NAME needs one -o DIR: the folder to write into")
        if args.json or args.markdown or args.rows:
            raise UsageMistake("--as NAME writes files of its own: leave out --json, --markdown and --rows")
    if args.json == args.markdown == STDOUT:
        raise UsageMistake("--json - and --markdown - both write to standard output: write one to a file")
    scorecards = [_with_settings(scorecard, args) for scorecard in args.registry.scorecards()]
    # One run may have been named twice, as latest and by its name.
    folders = dict.fromkeys(find_named_run(Path(args.results), name).resolve() for name in args.runs)
    runs = [load_run(Path(short_path(folder))) for folder in folders]
    status = _write_format(runs, args) if args.format else _write_reports(runs, scorecards, args)
    # For one run on the screen this stands below the table already.
    if len(runs) > 1 or args.format or STDOUT in (args.json, args.markdown):
        for run in runs:
            print_unreadable(run.folder, run)
    return status


def _with_settings(scorecard: RegisteredScorecard, args: argparse.Namespace) -> RegisteredScorecard:
    settings: dict[str, object] = {}
    for option in args.scorecard_options[scorecard.name]:
        text = getattr(args, option.flag)
        if text is not None:
            try:
                settings[option.flag.lstrip("-").replace("-", "_")] = option.parse(text)
            except ValueError as refused:
                raise UsageMistake(f"{option.flag}: {refused}") from None
    return replace(scorecard, settings=settings)


def _write_format(runs: Sequence[Run], args: argparse.Namespace) -> int:
    write = args.registry.report_format_named(args.format)
    if any(names := _named_sides(args)):
        runs = report_source(runs, (), *names).all_runs
    try:
        paths = write(runs, Path(args.output[0]) if args.output else None)
        if not isinstance(paths, Iterable):
            raise UsageMistake(f"--as {args.format}: expected the paths that it wrote; found {paths!r:.80}")
        # A format may be a generator, which writes while it is iterated: each path is printed at once.
        for path in paths:
            print(KNOWN_SECRETS.text(str(path)), flush=True)
        return 0
    except (AgentEvalError, BrokenPipeError):
        raise
    except Exception as raised:  # an author's code may raise anything
        from pytest_agenteval.engine.tracebacks import user_frames_first

        trace = user_frames_first(raised).rstrip()
        raise UsageMistake(f"the report format {args.format!r} raised:\n{trace}") from raised


def _named_sides(args: argparse.Namespace) -> tuple[Sequence[str], Sequence[str]]:
    """Give the models and the variants that are named; none stands for all."""
    return name_list(args.models, "--models"), name_list(args.variants, "--variants")


def _write_reports(
    runs: Sequence[Run], scorecards: Sequence[RegisteredScorecard], args: argparse.Namespace
) -> int:
    paths = [Path(file) for file in args.output]
    # Each path is checked before the first file is written.
    for path in paths:
        check_report_path(path)
    if args.rows and not any(path.suffix.lower() in ROW_FILES for path in paths):
        raise UsageMistake(f"--rows {args.rows} needs -o FILE that ends in {' or '.join(ROW_FILES)}")
    source = replace(report_source(runs, scorecards, *_named_sides(args)), rows=args.rows or "trials")
    # Rows and JUnit files hold no scorecards.
    has_boards = args.json or args.markdown or not all(path.suffix.lower() in NO_BOARDS for path in paths)
    status = _print_runs(source, args) if has_boards or not paths else 0
    for path in paths:
        write_report(path, source)
        print(path)
    return status


def _print_runs(source: ReportSource, args: argparse.Namespace) -> int:
    boards = leaderboards_of(source.all_runs, source.scorecards, source.sides)
    has_broken = print_broken_scorecards(boards)
    if args.json:
        from pytest_agenteval.reports.exports.json_report import report_figures

        write_document(args.json, jsonable(report_figures(source, boards)))
    if args.markdown:
        write_text(args.markdown, report_markdown(source))
    if STDOUT not in (args.json, args.markdown) and not args.output:
        print_lines(_screen_lines(source, boards, args))
    return 1 if has_broken else 0


def print_broken_scorecards(boards: Sequence[Leaderboard]) -> bool:
    """Name the scorecards that could not be made, on the standard error; whether there are any."""
    broken = {standing.broken for board in boards for standing in board.standings if standing.broken}
    for line in sorted(broken):
        _print_warning(line)
    return bool(broken)


def _screen_lines(
    source: ReportSource, boards: Sequence[Leaderboard], args: argparse.Namespace
) -> Iterator[StyledLine]:
    width, sides = terminal_width(), source.sides
    if len(source.all_runs) == 1 and not (args.models or args.variants):
        run = source.all_runs[0]
        steps = next_commands(run, args.runs[0], args.results)
        verdicts = side_verdict_lines(sides, width)
        yield from one_run_lines(run, boards, steps, width, args.verbose - args.quiet, verdicts)
        return
    if source.comparison is not None:
        yield from comparison_lines(source.comparison, width, whole=args.verbose > 0)
    else:
        yield from sides_lines(sides, width)
    entries = [side.entries for side in sides.sides]
    if causes := common_causes(entries):
        yield from (StyledLine(""), StyledLine(causes_title(causes, sum(map(len, entries))), "bold"))
        most = ALL_CAUSES if args.verbose else MOST_CAUSES
        yield from cause_lines(causes, width, most * 3, most, [side.label for side in sides.sides])
    left = boards_beside(boards, source)
    if left:
        yield StyledLine("")
    yield from board_lines(left, width)


TRANSCRIPT_LOST = 2
# In how many of the newest runs a trial is searched for that the named run does not have.
MOST_LOOKED_AT = 10

TRIAL = (
    "TRIAL is a trial's name in reports, suite/task[model-1], or a part of it; pytest's item id; worst "
    "(one trial), or missed, failed, errored, passed, limited (all of them, worst first). RUN:worst and the "
    "like name another run than the latest."
)

NO_LONGER = StyledLine(f"{INDENT}without a note", "dim")
NO_CHECKSUMS = "an earlier version wrote this run, without checksums: damage to its files may go unnoticed"


def show_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.epilog = f"{TRIAL} {RUN_HELP}"
    add("trial", nargs="?", default=WORST, metavar="TRIAL", help="which trial, or trials (default: worst)")
    add("--run", metavar="RUN", help="the run to look in (default: latest)")
    add("--diff", metavar="RUN", help="compare with the same trial of that run")
    add_side_options(parser)
    add("--full", action="store_true", help="print everything in full")
    add("--new", action="store_true", help="only trials that are not marked as looked at")
    add("--looked-at", action="store_true", help="mark the chosen trials as looked at")
    add("--note", metavar="TEXT", help="mark them with a comment; an empty text removes comment and mark")
    add_json_option(parser)
    add("--no-pager", action="store_true", help="print without a pager")
    add_results_option(parser)


def show(args: argparse.Namespace) -> int:
    """Show the trials that are meant; 2 where a transcript is lost and only its journal entry is shown."""
    query = parse_query(args.trial)
    if query.name and not args.run:
        query = _with_run(query, Path(args.results))
    if query.run and args.run:
        raise UsageMistake(f"{args.trial} names a run, and so does --run {args.run}: remove one of them")
    results, named = Path(args.results), query.run or args.run
    if not named and args.trial != WORST and not list_runs(results):
        raise UsageMistake(
            f"there is no trial {args.trial!r}: there are no runs yet in {results}; pytest makes one"
        )
    compares = [f"--{name}" for name in ("diff", "models", "variants") if getattr(args, name)]
    if compares and (args.looked_at or args.note is not None):
        raise UsageMistake(f"{compares[0]} shows two trials: remove it to write a note on one")
    run = _load_for(query, find_named_run(results, named or LATEST))
    if compares:
        return _show_pairs(run, query, args)
    entries = _matching_entries(run, run.entries, query, args)
    if args.looked_at or args.note is not None:
        return _write_notes(run, entries, args)
    before = run.odd
    if args.json:
        write_document(args.json, trials_document([(None, (run, entry)) for entry in entries]))
    if args.json != STDOUT:
        lines = _trial_lines(run, entries, Detail(terminal_width(), args.full))
        page_lines(lines, paged=not args.no_pager)
    _print_doubts(run)
    # Reading a trial adds what cannot be read of it: more entries than before mean a lost transcript.
    return 0 if run.odd == before else TRANSCRIPT_LOST


def _show_pairs(run: Run, query: TrialQuery, args: argparse.Namespace) -> int:
    """Show trials of a side beside those of an older one."""
    old, new = _compared_sides(run, args)
    before = old.run.odd, run.odd
    pairs = list(_chosen_pairs(old, new, query, args))
    if args.json:
        write_document(args.json, trials_document([((old.run, one), (run, other)) for one, other in pairs]))
    if args.json != STDOUT:
        lines = _difference_lines(old.run, run, pairs, Detail(terminal_width(), args.full))
        page_lines(lines, paged=not args.no_pager)
    for each in (run, *([old.run] if old.run is not run else ())):
        _print_doubts(each)
    return 0 if (old.run.odd, run.odd) == before else TRANSCRIPT_LOST


def _print_doubts(run: Run) -> None:
    print_unreadable(run.folder.name, run)
    if not run.has_checksums:
        print(f"{run.folder.name}: {NO_CHECKSUMS}", file=sys.stderr)


def _write_notes(run: Run, entries: Sequence[JournalEntry], args: argparse.Namespace) -> int:
    attempts = {entry.key: entry.attempt for entry in entries}
    notes = write_notes(run.folder, attempts, looked_at=args.note != "", comment=args.note)
    entries = [replace(entry, note=notes[entry.key]) for entry in entries]
    if args.json:
        write_document(args.json, trials_document([(None, (run, entry)) for entry in entries]))
    if args.json != STDOUT:
        for entry in entries:
            lines = note_lines(entry.note, entry.attempt, Detail(terminal_width()))
            print_lines([StyledLine(trial_name(entry.key)), *(lines if entry.note else [NO_LONGER])])
    return 0


def _with_run(query: TrialQuery, results: Path) -> TrialQuery:
    """Read ``RUN:TRIAL``, if there is such a run and trial: a trial's own name may hold a colon."""
    named, colon, name = query.name.partition(":")
    if not (named and colon and name) or name.startswith(":"):
        return query
    try:
        entries = load_run(find_run(results, named)).entries
    except UsageMistake:
        return query
    return TrialQuery(name=name, run=named) if best_matches(entries, name) else query


def _load_for(query: TrialQuery, folder: Path) -> Run:
    """Read a run; where the query is a trial's whole name, no more of it than tasks that could be meant."""
    # An item's id behind a file may mean more.
    if query.name and "::" not in query.name:
        part = load_tasks(folder, task_filter(PROGRAM.sub("", query.name.strip())))
        if whole_name_matches(part.entries, query.name):
            return part
    return load_run(folder)


class ShownSide(NamedTuple):
    """A run, or the trials of one model or prompt variant of it."""

    run: Run
    entries: Sequence[JournalEntry]


def _compared_sides(run: Run, args: argparse.Namespace) -> tuple[ShownSide, ShownSide]:
    """Give the old and the new side: of two runs, or of one of which two models or variants are named."""
    names = {flag: name_list(getattr(args, flag), f"--{flag}") for flag in ("models", "variants")}
    for flag, given in names.items():
        if len(given) > 2 or (
            len(given) == 1 and not args.diff and all(len(each) < 2 for each in names.values())
        ):
            raise UsageMistake(
                f"--{flag}: expected two names, as in --{flag} old,new; found {', '.join(given)}"
            )
    other = load_run(find_named_run(Path(args.results), args.diff)) if args.diff else run
    sides = []
    for each, number in ((other, 0), (run, -1)):
        side = compared_run(each)
        side = side.with_model(names["models"][number]) if names["models"] else side
        side = side.with_variant(names["variants"][number]) if names["variants"] else side
        sides.append(ShownSide(each, side.entries))
    return sides[0], sides[1]


def _chosen_pairs(
    old: ShownSide, new: ShownSide, query: TrialQuery, args: argparse.Namespace
) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    """Give old and new of each trial that is meant; it may be named as either side has it."""
    named_old = (
        query.name and not best_matches(new.entries, query.name) and best_matches(old.entries, query.name)
    )
    if named_old and old.run is new.run:
        yield from ((entry, counterpart(new.entries, entry)) for entry in choose_trials(old.entries, query))
        return
    entries = _matching_entries(new.run, new.entries, query, args)
    yield from _matched_pairs(old, entries)


def _matching_entries(
    run: Run, entries: Sequence[JournalEntry], query: TrialQuery, args: argparse.Namespace
) -> list[JournalEntry]:
    try:
        return choose_trials(entries, query, new=args.new)
    except UsageMistake as mistake:
        unreadable = [f"{run.folder.name}: {line}" for line in first_unreadable(run.odd)]
        # Another run is no hint where this one has something alike, or where the person named the run.
        known = query.word or best_matches(entries, query.name) or args.run
        others = [] if known else list_runs(Path(args.results))[:MOST_LOOKED_AT]
        names = (
            other.path.name
            for other in others
            if other.path.name != run.folder.name and best_matches(load_run(other.path).entries, query.name)
        )
        # Journals of other runs are read only until one has the trial.
        hint = [f"the run {name} has it: --run {name}" for name in islice(names, 1)]
        meant = _run_hint(query.name, Path(args.results)) if query.name and not args.run else []
        lines = [f"run {run.folder.name}: {mistake}", *meant, *hint, *unreadable]
        raise UsageMistake("\n".join(lines)) from None


def _run_hint(name: str, results: Path) -> list[str]:
    """Give the command for a run in a trial's place, as in ``latest`` or ``latest:task``; [] for others."""
    run, _, trial = name.partition(":")
    try:
        find_run(results, run)
    except UsageMistake:
        return []
    command = ["show", trial, "--run", run] if trial else ["show", f"{run}:{WORST}"]
    return [f"{run} is a run: agenteval {shlex.join(command)}"]


def _trial_lines(run: Run, entries: Sequence[JournalEntry], detail: Detail) -> Iterator[StyledLine]:
    """Give the trials one after the other; each is read only when it is its turn."""
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
    """Give what the journal has of a trial whose transcript is lost."""
    yield f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}"
    yield from (f"  {line}" for line in (short_reason(entry), *grade_lines(entry)))


def _trial_place(run: Run, entry: JournalEntry) -> TrialPlace:
    models = (model for model in run.header.models if model.name == entry.key.model)
    # The note is about the header's model, which did not act where the agent chose its own.
    note = "" if entry.own_models else next(map(model_note, models), "")
    return TrialPlace(run.folder.name, str(run.folder / str(entry.location)), printable(note), entry.note)


def _matched_pairs(
    old: ShownSide, entries: Sequence[JournalEntry]
) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    """Give old and new of each trial; of several, those that the other side lacks are left out."""
    for entry in entries:
        try:
            yield counterpart(old.entries, entry), entry
        except UsageMistake as mistake:
            mistake = UsageMistake(f"run {old.run.folder.name}: {mistake}")
            if len(entries) == 1:
                raise mistake from None
            print(f"left out: {str(mistake).partition(chr(10))[0]}", file=sys.stderr)


def _difference_lines(
    other: Run, run: Run, pairs: Sequence[tuple[JournalEntry, JournalEntry]], detail: Detail
) -> Iterator[StyledLine]:
    from pytest_agenteval.reports.difference_screen import difference_lines

    for number, (old, new) in enumerate(pairs):
        if number:
            yield from (StyledLine(""), StyledLine("=" * detail.width, "dim"))
        trials = other.trial_if_readable(old), run.trial_if_readable(new)
        if trials[0] is None or trials[1] is None:
            yield from map(StyledLine, (*_journal_lines(old), *_journal_lines(new)))
            continue
        places = (_trial_place(other, old), _trial_place(run, new))
        yield from difference_lines(trial_view(trials[0]), trial_view(trials[1]), places, detail)
