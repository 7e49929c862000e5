"""Runs on the terminal: the screen at the end of one, and the list of stored ones.

Names of buckets and runs are never cut: they are there to be copied. With -v the tables of all buckets
replace the worst. With -q only suites, the model that an agent chose by itself, and warnings are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from pytest_agenteval.records.explanation import (
    UnrecordedCall,
    count_unrecorded,
    ending_reason,
    explain_trial,
    grade_lines,
    short_reason,
)
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.records.transcript import format_cost
from pytest_agenteval.reports.run_view import RunView, SuiteView, entries_by_group, suite_views, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings, whole_run_warnings
from pytest_agenteval.reports.suite_tables import (
    WorstBuckets,
    brief_remarks,
    even_marks,
    interval_cell,
    mean_cell,
    remarks_on_all,
    suite_cells,
    suite_table,
    worst_buckets,
)
from pytest_agenteval.reports.tables import ReportTable, TableColumn, table_lines
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import RULES, StoredVerdict, read_comparison
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    BETWEEN,
    INDENT,
    MOST_NAME,
    NOT_KNOWN,
    Style,
    StyledLine,
    cell_width,
    clamp_width,
    cut,
    ending_word,
    flow,
    format_moment,
    one_line,
    pad,
    pluralize,
    printable,
    wrap,
    wrapped_lines,
)

SHOWN = 5
"""Tasks whose worst miss is shown without -v."""

LEAST_SHOWN = 3
"""Tasks whose worst miss is in brief even where figures leave no room."""

LEAST_REASON = 30
"""Columns of a reason beside its trial's name; with fewer it stands on a line below."""

NOT_PASSED = ("failed", "missed", "errored")


def miss_lines(run: Run, width: int = 80, endings: Collection[str] = NOT_PASSED) -> list[StyledLine]:
    """Give the trials that did not pass, worst first, each explained at length."""
    return [line for entry in _worst(run, endings) for line in _at_length(run, entry, width)]


class WorstMisses(NamedTuple):
    """A title, and lines about the worst misses, in brief or at length."""

    title: str
    lines: Sequence[StyledLine]


def worst_misses(
    run: Run, width: int, room: int, endings: Collection[str] = NOT_PASSED
) -> WorstMisses | None:
    """Give the worst miss of each of the worst tasks in ``room`` lines, None where nothing missed.

    They are given at length where all of them fit, else in brief, but the worst three in any case.
    """
    # A task counts once, whatever its other repetitions, models and variants did.
    by_task: dict[tuple[str, ...], JournalEntry] = {}
    for entry in _worst(run, endings):
        by_task.setdefault(entry.key[:3], entry)
    worst = list(by_task.values())
    if not worst:
        return None
    if len(worst) <= SHOWN:
        lines = [line for entry in worst for line in _at_length(run, entry, width)]
        # A single miss is what somebody works on: it is explained even where that takes more room.
        if len(worst) == 1 or len(lines) <= room:
            return WorstMisses("misses, the worst first", lines)
    briefs = [list(_in_brief(entry, width)) for entry in worst[:SHOWN]]
    while len(briefs) > LEAST_SHOWN and sum(map(len, briefs)) > room:
        briefs.pop()
    title = f"misses, the worst {len(briefs)} of {pluralize(len(worst), 'task')} (-v shows all)"
    if len(briefs) == len(worst):
        title = "misses, the worst first (-v says more)"
    return WorstMisses(title, [line for brief in briefs for line in brief])


def _worst(run: Run, endings: Collection[str]) -> list[JournalEntry]:
    return [entry for entry in worst_first(run.entries) if entry.ending in endings]


def _in_brief(entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    word, name = ending_word(entry.ending, entry.score), trial_name(entry.key)
    head, reason = f"{word}  {name}", ending_reason(entry)
    left = width - cell_width(head) - len(INDENT)
    if left >= LEAST_REASON or cell_width(reason) <= left:
        yield StyledLine(f"{head}{INDENT}{cut(reason, left)}".rstrip(), _style(entry))
        return
    pieces = [head] if cell_width(head) <= width else [word, INDENT + name]
    yield from (StyledLine(piece, _style(entry)) for piece in pieces)
    if reason:
        yield StyledLine(INDENT + cut(reason, width - len(INDENT)))


def _style(entry: JournalEntry) -> Style:
    return "yellow" if entry.ending == "missed" else "red"


def _at_length(run: Run, entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    head = f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}"
    yield from wrapped_lines(head, width, _style(entry), indent="")
    trial = run.trial_if_readable(entry)
    # A trial whose transcript is lost has what the journal knows of it.
    lines = explain_trial(trial, width - len(INDENT)) if trial else [short_reason(entry), *grade_lines(entry)]
    # The first line says in brief what the others say at length, but for an error.
    for line in lines if entry.ending == "errored" else lines[1:]:
        yield from wrapped_lines(line, width)


def unrecorded_lines(run: Run, most: int, width: int) -> Iterator[str]:
    """Name the calls that were not recorded, with ways to record them; what most trials missed is first."""
    times: Counter[UnrecordedCall] = Counter()
    trials: Counter[UnrecordedCall] = Counter()
    for entry in run.entries:
        # The journal knows which trials missed anything: reading transcripts takes long.
        has_misses = entry.tool_tape.misses or entry.chat_tape.misses
        if has_misses and (trial := run.trial_if_readable(entry)):
            counts = count_unrecorded(trial.transcript.events)
            times.update(counts)
            trials.update(counts.keys())
    ranked = sorted(times, key=lambda call: (-trials[call], -times[call], call))
    for call in ranked[:most]:
        often = f"{times[call]} times in {pluralize(trials[call], 'trial')}"
        yield from wrap(f"{often if times[call] > 1 else 'once'}: {call.name}", width)
        found, *commands = call.ways
        yield from (f"  {piece}" for piece in wrap(found, width - 2))
        # Commands are never wrapped: they are there to be copied.
        yield from (f"  {command}" for command in commands)
    if len(ranked) > most:
        yield f"and {len(ranked) - most} more"


MOST_LINES = 40
"""Lines that the end of a run takes; misses have the room that figures leave, and the worst three always."""

GAP = "  "
SPENT = 4
"""The first cell of a suite's row that says what it took."""

LEAST_NAME_ROOM = 24
"""Columns below which names of buckets stand above their figures."""

EMPTY = StyledLine("")


class ScreenParts(FrozenValue, frozen=True):
    """Parts of a run's screen that its view does not have.

    ``headline``, the verdict of a comparison, stands above the suites. ``totals`` are the results of
    benchmarks, in brief or as tables. ``remarks`` and ``footer``, which are those of gates, stand below the
    warnings. ``place`` is where the run is stored, ``next_steps`` are commands to go on with.
    """

    headline: Sequence[StyledLine] = ()
    totals: Sequence[StyledLine] = ()
    remarks: Sequence[StyledLine] = ()
    footer: Sequence[StyledLine] = ()
    place: str = ""
    next_steps: Sequence[str] = ()


def screen_lines(
    view: RunView, width: int = 80, verbosity: int = 0, parts: ScreenParts | None = None
) -> list[StyledLine]:
    """Give a run in brief (verbosity 0), with all buckets (from 1), or suites and warnings (below 0)."""
    parts, width = parts or ScreenParts(place=view.path), clamp_width(width)
    remarks = remarks_on_all(view) if verbosity >= 0 else brief_remarks(view)
    rows = [StyledLine(line, "bold") for line in fold_rows(list(suite_cells(view)), width)]
    blocks: list[Sequence[StyledLine]] = [[*parts.headline, *rows, *map(StyledLine, flow(remarks, width))]]
    if verbosity > 0:
        blocks += [list(table_lines(suite_table(suite), width)) for suite in view.suites]
        blocks.append(parts.totals)
    elif verbosity == 0:
        blocks[0] = [*blocks[0], *parts.totals]
        blocks += _bucket_blocks(worst_buckets(view), width)
    end: list[StyledLine] = []
    # With -v the notes of each table say all but what holds for the whole run.
    for note in whole_run_warnings(view) if verbosity > 0 else run_warnings(view):
        end += wrapped_lines(f"! {note.text}", width, "red" if note.bad else "yellow", indent="")
    end += [*parts.remarks, *parts.footer]
    if verbosity >= 0:
        end += _where(parts, width)
    # With -q no line is empty.
    lines: list[StyledLine] = []
    for block in filter(None, [*blocks, end]):
        lines += [EMPTY, *block] if lines and verbosity >= 0 else block
    return lines


def fold_rows(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Align cells in columns, the first two to the left; columns without room go on in a line below.

    A name that is wider than the terminal stays whole.
    """
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    # What a suite took (time, tokens, cost) stays on one line where that is wide enough.
    joined = sum(widths[SPENT:]) + len(GAP) * len(widths[SPENT:])
    folds, used = [[0]], sum(widths[:1])
    for at, wide in enumerate(widths[1:], 1):
        needed = joined if at == SPENT and joined <= width else len(GAP) + wide
        if used + needed > width:
            folds.append([])
            used = len(INDENT) - len(GAP)
        folds[-1].append(at)
        used += len(GAP) + wide
    for row in rows:
        for fold in folds:
            cells = [pad(row[at], widths[at], right=at > 1) for at in fold]
            yield ("" if 0 in fold else INDENT) + GAP.join(cells).rstrip()


def _bucket_blocks(suites: Sequence[WorstBuckets], width: int) -> Iterator[Sequence[StyledLine]]:
    # Aligned over all suites at once, so that figures of all of them stand below each other.
    rows = [row for suite in suites for row in suite.rows]
    columns = [
        ["score", *even_marks([row.score for row in rows])],
        ["95 %", *(row.interval for row in rows)],
        ["tasks passed" if width >= 80 else "passed", *(row.passed for row in rows)],
    ]
    if not any(row.interval for row in rows):
        del columns[1]
    widths = [max(map(cell_width, column)) for column in columns]
    figures = [
        [pad(cell, wide, right=True) for cell, wide in zip(row, widths, strict=True)]
        for row in zip(*columns, strict=True)
    ]
    figures_width = sum(len(GAP) + cell_width(cell) for cell in figures[0]) if figures else 0
    names = [*(INDENT + ", ".join(row.names) for row in rows), *(suite.title for suite in suites)]
    room = min(max(map(cell_width, names), default=0), width - figures_width)
    head, *figures = figures or [[]]
    for suite in suites:
        first, *others = _beside([suite.title], head, room, width)
        title = wrap(suite.title, width) if cell_width(first) > width else [first]
        lines = [StyledLine(line, "dim") for line in (*title, *others)]
        for row in suite.rows:
            lines += map(StyledLine, _beside(row.names, figures.pop(0), room, width, INDENT))
        if suite.more:
            lines.append(StyledLine(f"{INDENT}{suite.more} more with misses (-v)", "dim"))
        yield lines


def _beside(
    names: Sequence[str], figures: Sequence[str], room: int, width: int, indent: str = ""
) -> list[str]:
    """Give names with the figures beside their first line, or on a line below where they have no room."""
    cells = GAP.join(figures).rstrip()
    if room >= LEAST_NAME_ROOM:
        lines = _packed(names, room, indent)
        if all(cell_width(line) <= room for line in lines):
            return [f"{pad(lines[0], room)}{GAP}{cells}", *lines[1:]]
    below = " " * room if room >= LEAST_NAME_ROOM else INDENT
    return [*_packed(names, width, indent), f"{below}{GAP}{cells}"]


def _packed(names: Sequence[str], width: int, indent: str) -> list[str]:
    """Put as many whole names on a line as there is room for; later lines are indented."""
    # Names of buckets are never cut or broken: they are there to be pasted into -k.
    lines, line = [], indent + names[0]
    for name in names[1:]:
        # A comma and a space before the name, and perhaps a comma after it.
        if cell_width(line) + cell_width(name) + 3 <= width:
            line += f", {name}"
        else:
            lines.append(f"{line},")
            line = indent + INDENT + name
    return [*lines, line]


def _where(parts: ScreenParts, width: int) -> Iterator[StyledLine]:
    """Say where the run is stored and what to type next; paths and commands are never broken."""
    steps = [f"{'or' if at else 'next'}: {step}" for at, step in enumerate(parts.next_steps)]
    place = [f"run: {printable(parts.place)}"] if parts.place else []
    # All on one line, else the place above the commands, else each command on a line of its own.
    for texts in ([[*place, *steps]], [place, steps], [place, *([step] for step in steps)]):
        lines = [BETWEEN.join(line) for line in texts if line]
        if all(cell_width(line) <= width for line in lines):
            break
    yield from map(StyledLine, lines)


class SuiteFigures(FrozenValue, frozen=True):
    """A suite with one model and variant: its mean score with the ends of its 95 % interval, 0 to 1.

    ``ended`` of the ``planned`` trials have an ending. ``tokens`` and ``cost_usd`` are
    what is known, null where nothing is, without that of ``tokens_untold`` and ``unpriced`` trials.
    """

    suite: str
    kind: str
    model: str
    variant: str
    score: float | None
    low: float | None
    high: float | None
    tasks: int
    planned: int
    ended: int
    errored: int
    tokens: float | None
    tokens_untold: int
    cost_usd: float | None
    unpriced: int
    seconds: float | None
    verdict: StoredVerdict | None


class RunFigures(FrozenValue, frozen=True):
    """A run of the list; see ``ListedRun``. ``exit_status`` is pytest's, null where the run never ended."""

    name: str
    path: str
    started_at: str
    ended_at: str
    exit_status: int | None
    headline: str
    suites: tuple[SuiteFigures, ...]
    odd: tuple[str, ...]


class RunListDocument(Document, frozen=True, kw_only=True):
    """Stored runs, the newest first, ``stored`` being how many there are in all."""

    stored: int
    runs: tuple[RunFigures, ...]


class ListedRun(NamedTuple):
    """A run as a list has it: its figures with the verdicts of its comparison, and the views of its suites.

    ``headline`` is the comparison in a sentence; empty for a run that was compared with nothing.
    """

    figures: RunFigures
    suites: tuple[SuiteView, ...]


def listed_run(run: Run, unreadable: tuple[str, ...] = ()) -> ListedRun:
    """Make the entry of a run in a list; ``unreadable`` says what could not be read before."""
    suites, groups = suite_views(run), entries_by_group(run)
    comparison, problem = read_comparison(run.folder)
    # From the last to the first: where a suite has several verdicts, the first one counts.
    verdicts = {(each.suite, *each.who): each for each in (comparison.verdicts if comparison else ())[::-1]}
    figures = RunFigures(
        name=run.folder.name,
        path=str(run.folder),
        started_at=run.header.started_at,
        ended_at=run.header.ended_at,
        exit_status=run.header.exit_status,
        headline=comparison.headline if comparison else "",
        suites=tuple(
            _suite_figures(suite, len(groups[suite.group]), verdicts.get(suite.group)) for suite in suites
        ),
        odd=(*unreadable, *filter(None, (problem,))),
    )
    return ListedRun(figures, suites)


def _suite_figures(suite: SuiteView, ended: int, verdict: StoredVerdict | None) -> SuiteFigures:
    total = suite.total
    interval, spent = total.interval, total.spent
    return SuiteFigures(
        suite=suite.suite,
        kind=suite.kind,
        model=suite.model,
        variant=suite.variant,
        score=total.score,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        tasks=total.tasks,
        planned=max(total.planned, ended),
        ended=ended,
        errored=total.errors,
        tokens=spent.tokens.known_part,
        tokens_untold=spent.tokens.unknown,
        cost_usd=spent.cost.known_part,
        unpriced=spent.cost.unknown,
        seconds=spent.seconds.known_part,
        verdict=verdict,
    )


def run_list_table(runs: Sequence[ListedRun], results: str, stored: int) -> ReportTable:
    """Give a row for each suite of each run with each model; a run's name stands in its first row."""
    rows = [row for run in runs for row in _rows(run)]
    titles = ("started", "suite", "model", "score", "95 %", "trials", "cost", "exit", "verdict")
    spare = {"started": 1, "95 %": 2, "exit": 3, "cost": 4}
    columns = [
        TableColumn(title, tuple(row[at] for row in rows), spare.get(title, 0))
        for at, title in enumerate(titles, start=1)
    ]
    # Without a baseline no run has a verdict.
    if all(cell == NOT_KNOWN for cell in columns[-1].cells):
        columns.pop()
    some = f", {len(runs)} of {stored:,} (--all, -n)" if len(runs) < stored else ""
    title = f"{pluralize(stored, 'run')} in {results}, newest first{some}"
    return ReportTable(title, "run", tuple(row[0] for row in rows), (tuple(columns),), names_beside=True)


def _rows(run: ListedRun) -> Iterator[tuple[str, ...]]:
    figures = run.figures
    name, when = one_line(figures.name, MOST_NAME), format_moment(figures.started_at) or NOT_KNOWN
    status = "not ended" if figures.exit_status is None else str(figures.exit_status)
    if not run.suites:
        yield name, when, "no trials", *[NOT_KNOWN] * 5, status, NOT_KNOWN
    for suite, of_suite in zip(run.suites, figures.suites, strict=True):
        total = suite.total
        # Where no tokens were seen there is no cost, as on the other screens.
        spent = total.spent.tokens or total.spent.cost
        yield (
            name,
            when,
            one_line(suite.suite, MOST_NAME),
            one_line(suite.who, MOST_NAME),
            mean_cell(total),
            interval_cell(total),
            f"{total.averaged:,} of {of_suite.planned:,}",
            format_cost(total.spent.cost) if spent else NOT_KNOWN,
            status,
            _verdict_text(of_suite.verdict),
        )
        name = when = status = ""


def _verdict_text(verdict: StoredVerdict | None) -> str:
    """Write the verdict on a suite or, where there is none on the whole of it, that on its buckets."""
    if verdict is None:
        return NOT_KNOWN
    # Verdicts are stored with the run, and the rules for them may have changed since.
    older = "" if verdict.rules == RULES else ", by older rules"
    if verdict.verdict in ("worse", "better"):
        return f"{verdict.verdict}{' on these tasks' if verdict.of_these_tasks else ''}{older}"
    for word, buckets in (("worse", verdict.buckets_worse), ("better", verdict.buckets_better)):
        if buckets:
            return f"{word}: {pluralize(len(buckets), 'bucket')}{older}"
    return f"{verdict.verdict}{older}"
