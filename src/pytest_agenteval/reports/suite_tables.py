"""Suites and buckets in tables: a row for each, a column for each figure; which buckets are worst.

A new column is one line over a field of ``GroupStatistics``: in ``suite_columns`` for the row of each suite
on the end screen and in Markdown, in ``_figure_columns`` for the table of its buckets, which ``-v`` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import (
    Figure,
    cost_figure,
    format_cost,
    format_seconds,
    format_tokens,
    token_figure,
)
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.group_statistics import GroupStatistics, Rate
from pytest_agenteval.reports.resource_text import cost_cell, figure_texts, tokens_cell, turn_cell
from pytest_agenteval.reports.run_view import RunView, SuiteView, decision_figures, decisions_text
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    format_figure,
    one_line,
    plural,
    pluralize,
    tally,
)

MARK = "*"
"""Stands behind a figure over trials that lack a judge's grade."""


def suite_table(suite: SuiteView) -> ReportTable:
    """Give the table of a suite: a row for each bucket and, where there are several, one for all."""
    rows = [*suite.rows, suite.total] if len(suite.rows) != 1 else list(suite.rows)
    note = f": {suite.note}" if suite.note else ""
    return ReportTable(
        title=f"{suite.suite} with {suite.who}{note} ({suite.kinds})",
        head="bucket",
        names=tuple(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in rows),
        groups=(tuple(_figure_columns(rows, suite.total.k)),),
        notes=tuple(_suite_notes(suite)),
        caveats=(judge_caveat(suite.total),) if suite.total.lacking else (),
    )


def _figure_columns(rows: Sequence[GroupStatistics], k: int) -> Iterator[TableColumn]:
    """Give the columns in their order; those about k repetitions only where tasks have several."""
    yield TableColumn("tasks", tuple(str(row.tasks) for row in rows), spare=4)
    passed = tuple(mark_unjudged(str(row.tasks_passed), row.unproven) for row in rows)
    yield TableColumn("passed", passed, spare=2)
    yield TableColumn("score", tuple(mean_cell(row) for row in rows))
    yield TableColumn("95 %", tuple(interval_cell(row) for row in rows), spare=6)
    yield TableColumn("trials", tuple(trials_cell(row) for row in rows), spare=7)
    full = tuple(mark_unjudged(format_figure(row.full), row.unscored) for row in rows)
    yield TableColumn("full", full, spare=1)
    yield TableColumn("pass@1", tuple(_rate(row, row.pass_1) for row in rows))
    if k > 1:
        yield TableColumn(f"pass^{k}", tuple(_rate(row, row.pass_hat_k) for row in rows), spare=5)
        yield TableColumn(f"pass@{k}", tuple(_rate(row, row.pass_at_k) for row in rows), spare=3)


def mark_unjudged(cell: str, lacking: int) -> str:
    """Mark a figure over trials of which ``lacking`` lack a grade that only a judge gives; a dash stays."""
    return f"{cell}{MARK}" if lacking and cell != NOT_KNOWN else cell


def mean_cell(row: GroupStatistics) -> str:
    """Write the mean score of a group, marked where some of its trials lack a judge's grade."""
    return mark_unjudged(format_figure(row.score), row.unscored)


def interval_cell(row: GroupStatistics) -> str:
    return format_interval(row.interval)


def trials_cell(row: GroupStatistics) -> str:
    """Write how many of the planned trials are averaged: ``13 of 15``."""
    return f"{row.averaged} of {row.planned}"


def _rate(row: GroupStatistics, rate: Rate | None) -> str:
    return mark_unjudged(format_figure(rate.value if rate else None), row.unproven)


def judge_caveat(total: GroupStatistics) -> str:
    """Say how many trials lack a judge's grade, and of which graders."""
    # A grade without weight leaves the score alone but may undo the pass, or the reverse: the larger count.
    trials = max(total.unscored, total.unproven)
    without = f"{trials} of {pluralize(total.averaged, 'trial')} without a judge's grade"
    meaning = "scores come from the other grades, fewer may pass; add --agent-judge=MODEL"
    return f"{MARK} {without} ({tally(total.lacking)}): {meaning}"


def _suite_notes(suite: SuiteView) -> Iterator[TableNote]:
    """Give the notes of a suite's table: results, then what is missing or doubtful, then what it took."""
    total = suite.total
    passed = mark_unjudged(str(total.tasks_passed), total.unproven)
    full = mark_unjudged(format_figure(total.full), total.unscored)
    tasks = pluralize(total.tasks_decided, "task" if total.tasks_decided == total.tasks else "decided task")
    if total.tasks_decided or not total.tasks:
        yield TableNote(f"{passed} of {tasks} passed; full score in {full} of trials")
    else:
        yield TableNote(f"0 of {pluralize(total.tasks, 'task')} decided")
    if suite.decisions:
        yield TableNote(decisions_text(suite.decisions))
    if errors := total.errors:
        yield TableNote(f"{errors} errored, in no average: {tally(total.errored)}", bad=True)
    # Interrupted trials are part of those that are not run, and have a line of their own below.
    if total.not_run > total.interrupted:
        yield TableNote(f"{total.not_run - total.interrupted} not run", bad=True)
    if total.interrupted:
        yield TableNote(f"{total.interrupted} started but not ended: their usage is unknown", bad=True)
    k, with_k = total.k, total.pass_at_k.tasks if total.pass_at_k else 0
    if k > 1 and with_k < total.tasks:
        of_tasks = f"{with_k} of {pluralize(total.tasks, 'task')} with {k} averaged trials"
        yield TableNote(f"pass^{k} and pass@{k} are over the {of_tasks}")
    if total.limited:
        limits = {f"by {limit}": number for limit, number in total.limited.items()}
        yield TableNote(f"{sum(limits.values())} limited: {tally(limits)}")
    if undecided := undecided_beside(total):
        grades = undecided.total()
        hint = judge_hint(grades, undecided_unjudged(total))
        yield TableNote(f"{pluralize(grades, 'grade')} undecided: {tally(undecided)}{hint}")
    if total.tools.misses:
        calls = total.tools.hits + total.tools.misses + total.tools.recorded
        yield TableNote(f"{total.tools.misses} of {pluralize(calls, 'call')} not recorded", bad=True)
    if total.retried:
        yield TableNote(
            f"{pluralize(total.retried, 'trial')} started more than once; the last attempt counts"
        )
    yield TableNote("; ".join(_resources(total)))


def undecided_beside(total: GroupStatistics) -> Counter[str]:
    """Count the undecided grades by grader, without those that the caveats name."""
    return Counter(total.undecided) - Counter(total.lacking)


def judge_hint(grades: int, unjudged: int) -> str:
    """Say how many of some undecided grades a judge would decide; empty for none."""
    if not unjudged:
        return ""
    of_them = "" if unjudged == grades else f" for {unjudged} of them"
    return f"; add --agent-judge=MODEL{of_them}"


def undecided_unjudged(total: GroupStatistics) -> int:
    """Count those of ``undecided_beside`` that a judge would decide."""
    return max(0, total.unjudged - sum(total.lacking.values()))


def _resources(total: GroupStatistics) -> Iterator[str]:
    # Where a part of the run does not know it, as in older journals, the line of the run shows that.
    texts = figure_texts(total.resources)
    yield from texts if total.wall.known_part is not None else texts[1:]
    if total.judge_asks:
        judging = total.judging
        asks = f"judges: {pluralize(total.judge_asks, 'reply')}"
        yield f"{asks}, {format_tokens(judging.tokens)}, {format_cost(judging.cost)}"
    for name, tape in (("tools", total.tools), ("chats", total.chats)):
        if tape != TapeCounts():
            words = (("hit", tape.hits), ("miss", tape.misses), ("recording", tape.recorded))
            counts = ", ".join(pluralize(number, word) for word, number in words if number)
            yield f"cassettes for {name}: {counts}"


def suite_columns(view: RunView) -> list[TableColumn]:
    """Give the columns of figures, a cell for each suite; no tokens and cost where nothing was spent."""
    totals = [suite.total for suite in view.suites]
    columns = [
        TableColumn("score", tuple(mean_cell(total) for total in totals)),
        TableColumn("95 %", tuple(interval_cell(total) for total in totals)),
        TableColumn("tasks passed", tuple(tasks_passed(total) for total in totals)),
        TableColumn("trials", tuple(trials_cell(total) for total in totals)),
        TableColumn("agents", tuple(_or_unknown(total.spent.seconds) for total in totals)),
    ]
    if any(total.spent.tokens or total.spent.cost for total in totals):
        spent = [total.spent for total in totals]
        columns.append(TableColumn("tokens", tuple(tokens_cell(part.tokens) for part in spent)))
        columns.append(TableColumn("cost", tuple(cost_cell(part.cost) for part in spent)))
    turns = tuple(turn_cell(total.turns) for total in totals)
    if any(turns):
        columns.append(TableColumn("turn p50/p95", tuple(cell or NOT_KNOWN for cell in turns)))
    return columns


def suite_cells(view: RunView) -> Iterator[list[str]]:
    """Give a row of cells for each suite; without a head above them, their words explain them.

    What a suite took is left out where there is no other: then it is what the run took.
    """
    score, interval, passed, trials = (column.cells for column in suite_columns(view)[:4])
    totals = [suite.total for suite in view.suites]
    several = len(totals) > 1
    spent = list(_spent_columns(totals)) if several or view.resources is None else []
    for at, (suite, mean) in enumerate(zip(view.suites, even_marks(score), strict=True)):
        planned = "trial" if suite.total.planned == 1 else plural("trial")
        total = suite.total
        between = f" ({interval[at]})" if total.interval else ""
        tasks = "task" if total.tasks_decided == 1 else plural("task")
        undecided = f"0 of {pluralize(total.tasks, 'task')} decided"
        yield [
            view.label(suite),
            f"{mean}{between}",
            f"{passed[at]} {tasks} passed" if total.tasks_decided else undecided,
            f"{trials[at]} {planned}",
            *(cells[at] for cells in spent),
        ]


def _spent_columns(totals: Sequence[GroupStatistics]) -> Iterator[list[str]]:
    """Give what suites took, a column for each figure that any of them has."""
    times = [_or_unknown(total.spent.seconds) for total in totals]
    widest = max(map(len, times))
    yield [f"agents {each:>{widest}}" for each in times]
    if any(total.spent.tokens or total.spent.cost for total in totals):
        yield [format_tokens(total.spent.tokens) for total in totals]
        # Where no suite cost anything, the line of the run has that already.
        if any(total.spent.cost for total in totals):
            yield [format_cost(total.spent.cost) for total in totals]
    turns = [turn_cell(total.turns) for total in totals]
    if any(turns):
        yield [f"turn {cell}" if cell else "" for cell in turns]


def _or_unknown(seconds: Figure) -> str:
    return "unknown" if seconds.known_part is None else format_seconds(seconds)


def tasks_passed(row: GroupStatistics) -> str:
    """Write how many of the decided tasks passed: ``8 of 25``."""
    return f"{mark_unjudged(str(row.tasks_passed), row.unproven)} of {row.tasks_decided}"


def even_marks(cells: Sequence[str]) -> list[str]:
    """Add a space to figures without a mark where others have one, so that digits stay in line."""
    if not any(cell.endswith(MARK) for cell in cells):
        return list(cells)
    return [cell if cell.endswith(MARK) else f"{cell} " for cell in cells]


def remarks_on_all(view: RunView) -> Iterator[str]:
    """Give the lines below the suites: who acted, pass^k, decisions, what judges and simulated users took.

    The first line, who acted, is empty where the rows name their models and none of them is offline.
    """
    whos = {suite.who for suite in view.suites}
    # An offline model is named with what it does; a real one where no row names it.
    alone = f"model: {' '.join(whos)}" if len(whos) == 1 else ""
    notes = {suite.model: suite.note for suite in view.suites}
    players = [f"{model}: {note}" if note else alone for model, note in notes.items()]
    yield "; ".join(filter(None, players))
    by_k: dict[int, list[str]] = {}
    for suite in view.suites:
        total, rate = suite.total, suite.total.pass_hat_k
        if total.k > 1 and rate:
            fewer = rate.tasks < total.tasks
            of_fewer = f" ({rate.tasks} of {pluralize(total.tasks, 'task')})" if fewer else ""
            figure = mark_unjudged(format_figure(rate.value), total.unproven)
            by_k.setdefault(total.k, []).append(f"{view.label(suite)} {figure}{of_fewer}")
    yield from (f"pass^{k}: {', '.join(rates)}" for k, rates in by_k.items())
    for suite in view.suites:
        if suite.decisions:
            yield f"{view.label(suite)} acting: {decision_figures(suite.decisions)}"
    if any(suite.total.judge_asks for suite in view.suites):
        judging = [suite.total.judging for suite in view.suites]
        replies = pluralize(sum(suite.total.judge_asks for suite in view.suites), "reply")
        tokens = format_tokens(sum((part.tokens for part in judging), Figure()))
        cost = format_cost(sum((part.cost for part in judging), Figure()))
        yield f"judges: {replies}, {tokens}, {cost}"
    yield from _simulating(view)


def _simulating(view: RunView) -> Iterator[str]:
    if (taken := view.simulating).asks:
        tokens, cost = format_tokens(token_figure(taken)), format_cost(cost_figure(taken))
        yield f"simulated users: {pluralize(taken.asks, 'turn')}, {tokens}, {cost}"


def brief_remarks(view: RunView) -> Iterator[str]:
    """Give the remarks of a short screen: what simulated users took, and which models agents chose.

    Models are left out where each row names its own, and where all were planned.
    """
    yield from _simulating(view)
    if any(suite.own_models for suite in view.suites):
        whos = {suite.who for suite in view.suites}
        if len(whos) == 1:
            yield f"model: {' '.join(whos)}"


LARGE = 5
"""Tasks of a bucket whose misses are shown however many buckets are worse."""

MOST_LARGE, FEW_SUITES = 12, 3
"""Rows of a suite's large buckets, where there are few suites; with more they get as many as small ones."""

MOST_ROWS, MOST_OF_ALL = 6, 12
"""Rows of one suite, and of all suites together, as long as each has one."""


class BucketRow(FrozenValue, frozen=True):
    """One line: the names of buckets whose figures are equal, and these figures."""

    names: tuple[str, ...]
    score: str
    interval: str
    passed: str


class WorstBuckets(FrozenValue, frozen=True):
    """The rows of a suite, worst first; ``more`` buckets with misses have none."""

    title: str
    rows: tuple[BucketRow, ...]
    more: int


def worst_buckets(view: RunView) -> list[WorstBuckets]:
    """Give the worst buckets of each suite that has several, some of which missed."""
    # The more suites there are, the fewer rows each has: the end of a run is one screen.
    suites = [suite for suite in view.suites if len(suite.rows) > 1 and any(map(_misses, suite.rows))]
    most = max(1, min(MOST_ROWS, MOST_OF_ALL // max(1, len(suites))))
    most_large = MOST_LARGE if len(suites) <= FEW_SUITES else most
    return [_worst_of(view.label(suite), suite, most, most_large) for suite in suites]


def _worst_of(label: str, suite: SuiteView, most: int, most_large: int) -> WorstBuckets:
    missed = sorted((row for row in suite.rows if _misses(row)), key=lambda row: row.score or 0.0)
    # Small buckets are often the worst ones: a large one that misses is named all the same.
    large = [row for row in missed if row.tasks >= LARGE][:most_large]
    small = [row for row in missed if row.tasks < LARGE][: max(1, most - len(large))]
    chosen = sorted((*large, *small), key=lambda row: row.score or 0.0)
    rows = []
    for (score, interval, passed, _), equal in groupby(chosen, _cells):
        rows.append(BucketRow(tuple(map(_name, equal)), score, interval, passed))
    whole = [row for row in suite.rows if row.pass_1 is not None and not _misses(row)]
    undecided = sum(row.pass_1 is None for row in suite.rows)
    parts = [pluralize(len(suite.rows), "bucket")]
    if whole:
        parts.append(f"{mark_unjudged(str(len(whole)), sum(row.unproven for row in whole))} passed in full")
    if undecided:
        parts.append(f"{undecided} without a figure")
    return WorstBuckets(f"{label}, worst first ({', '.join(parts)})", tuple(rows), len(missed) - len(chosen))


def _misses(row: GroupStatistics) -> bool:
    return row.pass_1 is not None and row.pass_1.value < 1


def _name(bucket: GroupStatistics) -> str:
    return one_line(bucket.name, MOST_NAME) or NOT_KNOWN


def _cells(bucket: GroupStatistics) -> tuple[str, str, str, str]:
    """Give the figures of a bucket as they are printed; small buckets with equal ones share a line."""
    between = interval_cell(bucket) if bucket.interval else ""
    alone = _name(bucket) if bucket.tasks >= LARGE else ""
    return mean_cell(bucket), between, tasks_passed(bucket), alone
