"""A run on the terminal: the screen at its end, and its misses.

Names of buckets are never cut: they are there to be copied. With -v the tables of all buckets
replace the worst. With -q only suites, the model that an agent chose by itself, and warnings are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pytest_agenteval.records.explanation import (
    UnrecordedCall,
    count_unrecorded,
    ending_reason,
    explain_trial,
    grade_lines,
    short_reason,
)
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.causes import ALL_CAUSES, cause_lines, causes_title, common_causes
from pytest_agenteval.reports.junit_properties import MOST_LINE
from pytest_agenteval.reports.resource_text import figure_texts
from pytest_agenteval.reports.run_view import RunView, entries_by_group, looked_at_text, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings, whole_run_warnings
from pytest_agenteval.reports.suite_tables import (
    WorstBuckets,
    brief_remarks,
    even_marks,
    remarks_on_all,
    suite_cells,
    suite_columns,
    suite_table,
    worst_buckets,
)
from pytest_agenteval.reports.tables import ReportTable, TableColumn, body_lines, table_lines
from pytest_agenteval.store.journal_entry import JournalEntry
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
    model_label,
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
EMPTY = StyledLine("")


def miss_lines(run: Run, width: int = 80, endings: Collection[str] = NOT_PASSED) -> list[StyledLine]:
    """Give the trials that did not pass, worst first, each explained at length."""
    return [line for entry in _worst(run, endings) for line in _at_length(run, entry, width)]


def misses_block(
    run: Run, width: int, verbosity: int, room: int, endings: Collection[str] = NOT_PASSED
) -> tuple[str, list[StyledLine]]:
    """Give a title, and lines about misses: all with -v, none with -q, else causes and the worst misses.

    Causes are those of all trials that did not pass, where there are more than a few; misses are those with
    one of ``endings``. Both take ``room`` lines, but the three first causes, or the worst three, are there in
    any case. The title also says how many of the misses somebody has looked at.
    """
    if verbosity < 0:
        return "", []
    title, lines = _causes_and_misses(run, width, verbosity, room, endings)
    return "; ".join(filter(None, (title, looked_at_text(_worst(run, endings))))), lines


def _causes_and_misses(
    run: Run, width: int, verbosity: int, room: int, endings: Collection[str]
) -> tuple[str, list[StyledLine]]:
    sides = _by_model(run)
    causes, labels = common_causes(list(sides.values())), list(sides)
    if verbosity > 0:
        table = cause_lines(causes, width, ALL_CAUSES * 3, ALL_CAUSES, labels) if causes else []
        lines, title = miss_lines(run, width, endings), "misses, the worst first"
        if not table:
            return title, lines
        misses = [EMPTY, StyledLine(title, "dim"), *lines] if lines else []
        return causes_title(causes, len(run.entries)), [*table, *misses]
    if not causes:
        return _worst_misses(run, width, room, endings)
    table = cause_lines(causes, width, room, labels=labels)
    left = room - len(table) - 2
    title, lines = _worst_misses(run, width, left, endings)
    if lines and len(lines) <= left:
        table += [EMPTY, StyledLine(title, "dim"), *lines]
    return causes_title(causes, len(run.entries)), table


def _by_model(run: Run) -> dict[str, list[JournalEntry]]:
    sides: dict[str, list[JournalEntry]] = {}
    for (_, model, variant), entries in entries_by_group(run).items():
        sides.setdefault(model_label(model, variant), []).extend(entries)
    return sides


def _worst_misses(run: Run, width: int, room: int, endings: Collection[str]) -> tuple[str, list[StyledLine]]:
    """Give the worst of the worst tasks: at length where all of them fit, else in brief."""
    # A task counts once, whatever its other repetitions, models and variants did.
    by_task: dict[tuple[str, ...], JournalEntry] = {}
    for entry in _worst(run, endings):
        by_task.setdefault(entry.key[:3], entry)
    worst = list(by_task.values())
    if len(worst) <= SHOWN:
        lines = [line for entry in worst for line in _at_length(run, entry, width)]
        # A single miss is what somebody works on: it is explained even where that takes more room.
        if len(worst) <= 1 or len(lines) <= room:
            return "misses, the worst first", lines
    briefs = [list(_in_brief(entry, width)) for entry in worst[:SHOWN]]
    while len(briefs) > LEAST_SHOWN and sum(map(len, briefs)) > room:
        briefs.pop()
    title = f"misses, the worst {len(briefs)} of {pluralize(len(worst), 'task')} (-v shows all)"
    if len(briefs) == len(worst):
        title = "misses, the worst first (-v says more)"
    return title, [line for brief in briefs for line in brief]


def _worst(run: Run, endings: Collection[str]) -> list[JournalEntry]:
    return [entry for entry in worst_first(run.entries) if entry.ending in endings]


def _in_brief(entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    word, name = ending_word(entry.ending, entry.score), trial_name(entry.key)
    head, reason = f"{word}  {name}{_mark(entry)}", ending_reason(entry)
    left = width - cell_width(head) - len(INDENT)
    if left >= LEAST_REASON or cell_width(reason) <= left:
        yield StyledLine(f"{head}{INDENT}{cut(reason, left)}".rstrip(), _style(entry))
        return
    pieces = [head] if cell_width(head) <= width else [word, f"{INDENT}{name}{_mark(entry)}"]
    yield from (StyledLine(piece, _style(entry)) for piece in pieces)
    if reason:
        yield StyledLine(INDENT + cut(reason, width - len(INDENT)))


def _mark(entry: JournalEntry) -> str:
    return " (looked at)" if entry.note.looked_at else ""


def _style(entry: JournalEntry) -> Style:
    return "yellow" if entry.ending == "missed" else "red"


def _at_length(run: Run, entry: JournalEntry, width: int) -> Iterator[StyledLine]:
    head = f"{ending_word(entry.ending, entry.score)}  {trial_name(entry.key)}{_mark(entry)}"
    yield from wrapped_lines(head, width, _style(entry), indent="")
    if entry.note.comment:
        yield from wrapped_lines(f"note: {one_line(entry.note.comment, MOST_LINE)}", width, "cyan")
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


def gate_lines(lines: Iterable[str]) -> list[StyledLine]:
    """Give what became of gates and tasks that ran again, broken gates in red."""
    return [
        StyledLine(one_line(line, MOST_LINE), "red" if line.startswith("gate: broken") else "")
        for line in lines
    ]


class ScreenParts(FrozenValue, frozen=True):
    """Parts of a run's screen that its view does not have.

    ``headline``, the verdict of a comparison, stands above the suites, and ``took`` in place of what the run
    took: how that compares. ``totals`` are the results of
    benchmarks, in brief or as tables. ``remarks`` and ``footer``, which are those of gates, stand below the
    warnings. ``place`` is where the run is stored, ``next_steps`` are commands to go on with.
    """

    headline: Sequence[StyledLine] = ()
    took: Sequence[str] = ()
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
    rows = _suite_rows(view, width)
    # Of calibrations alone there is nothing to add up.
    own = figure_texts(view.resources) if view.resources and view.suites else ()
    took = flow(parts.took or own, width, between=GAP)
    head = [*parts.headline, *map(StyledLine, took), *rows, *map(StyledLine, flow(remarks, width))]
    blocks: list[Sequence[StyledLine]] = [head]
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


def _suite_rows(view: RunView, width: int) -> list[StyledLine]:
    """Give a line for each suite or, where a suite has several models or prompts, a table: the best first."""
    groups = Counter(suite.suite for suite in view.suites)
    if max(groups.values(), default=0) < LEAST_COMPARED:
        return [StyledLine(line, "bold") for line in fold_rows(list(suite_cells(view)), width)]
    best, is_one = view.best_first, len(groups) == 1
    names = tuple(one_line(suite.who, MOST_NAME) if is_one else view.label(suite) for suite in best.suites)
    # Nothing is left out of an average unseen.
    whole = all(not suite.total.errors and not suite.total.not_run for suite in best.suites)
    spare = SPARE if whole else {**SPARE, "trials": 0}
    columns = [
        TableColumn(title, cells, spare.get(title, 0))
        for title, cells, _ in suite_columns(best)
        if title != "95 %" or any(cell != NOT_KNOWN for cell in cells)
    ]
    head = one_line(best.suites[0].suite, MOST_NAME) if is_one else "suite"
    return list(body_lines(ReportTable("", head, names, (tuple(columns),), names_beside=True), width, ""))


LEAST_COMPARED = 2
"""Models or prompts of one suite from which on their figures stand below each other."""

SPARE: Mapping[str, int] = {"trials": 1, "agents": 2, "tokens": 3, "turn p50/p95": 4, "95 %": 5, "cost": 6}
"""Columns that a narrow terminal leaves out, those with the lowest number first."""


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
