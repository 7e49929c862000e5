"""The table of one suite with one model: a column for each figure, and what stands beside the averages.

A new column is one line in ``figure_columns``, over a field of ``statistics.GroupStatistics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.records.transcript import format_cost, format_seconds, format_tokens
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.decisions import decisions_text
from pytest_agenteval.reports.statistics import GroupStatistics, Rate
from pytest_agenteval.reports.tables import Column, Note, ReportTable
from pytest_agenteval.reports.view import SuiteView
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, format_figure, one_line, pluralize, tally

MARK = "*"
"""Stands behind a figure over trials that lack a judge's grade."""


def suite_table(suite: SuiteView) -> ReportTable:
    """Give the table of a suite: a row for each bucket and, where there are several, all together."""
    rows = [*suite.rows, suite.total] if len(suite.rows) != 1 else list(suite.rows)
    note = f": {suite.note}" if suite.note else ""
    return ReportTable(
        title=f"{suite.suite} with {suite.who}{note} ({suite.kinds})",
        head="bucket",
        names=tuple(one_line(row.name, MOST_NAME) or NOT_KNOWN for row in rows),
        groups=(tuple(figure_columns(rows, suite.total.k)),),
        notes=tuple(suite_notes(suite)),
        caveats=tuple(caveats(suite)),
    )


def figure_columns(rows: Sequence[GroupStatistics], k: int) -> Iterator[Column]:
    """Give the columns, in their order; with one repetition there is nothing to say of k."""
    yield Column("tasks", tuple(str(row.tasks) for row in rows), spare=4)
    yield Column("passed", tuple(mark_unjudged(str(row.tasks_passed), row.unproven) for row in rows), spare=2)
    yield Column("score", tuple(mean_cell(row) for row in rows))
    yield Column("95 %", tuple(interval_cell(row) for row in rows), spare=6)
    yield Column("trials", tuple(trials_cell(row) for row in rows), spare=7)
    yield Column("full", tuple(mark_unjudged(format_figure(row.full), row.unscored) for row in rows), spare=1)
    yield Column("pass@1", tuple(_rate(row, row.pass_1) for row in rows))
    if k > 1:
        yield Column(f"pass^{k}", tuple(_rate(row, row.pass_hat_k) for row in rows), spare=5)
        yield Column(f"pass@{k}", tuple(_rate(row, row.pass_at_k) for row in rows), spare=3)


def mark_unjudged(cell: str, lacking: int) -> str:
    """Mark a figure that rests on trials which lack what only a judge decides."""
    return f"{cell}{MARK}" if lacking and cell != NOT_KNOWN else cell


def mean_cell(row: GroupStatistics) -> str:
    """Write the mean score of a group, marked where some of its trials lack a judge's grade."""
    return mark_unjudged(format_figure(row.mean.mean if row.mean else None), row.unscored)


def interval_cell(row: GroupStatistics) -> str:
    """Write the interval of a group's mean score."""
    return format_interval(row.mean.interval if row.mean else None)


def trials_cell(row: GroupStatistics) -> str:
    """Write over how many trials the averages are: ``13 of 15``."""
    return f"{row.averaged} of {row.planned}"


def _rate(row: GroupStatistics, rate: Rate | None) -> str:
    return mark_unjudged(format_figure(rate.value if rate else None), row.unproven)


def caveats(suite: SuiteView) -> Iterator[str]:
    """Give what has to be known before the figures are read: what those that are marked are without."""
    total = suite.total
    if total.lacking:
        yield judge_caveat(total)


def judge_caveat(total: GroupStatistics) -> str:
    """Say how many trials lack a judge's grade, and whose."""
    trials = max(total.unscored, total.unproven)
    without = f"{trials} of {pluralize(total.averaged, 'trial')} without what only a judge decides"
    meaning = "scores are those of the other grades, passes may be fewer; --agent-judge=MODEL decides"
    return f"{MARK} {without} ({tally(total.lacking)}): {meaning}"


def suite_notes(suite: SuiteView) -> Iterator[Note]:
    """Give what there is to say, the results first, then what is missing, then what it took."""
    total = suite.total
    passed = mark_unjudged(str(total.tasks_passed), total.unproven)
    full = mark_unjudged(format_figure(total.full), total.unscored)
    tasks = pluralize(total.tasks_decided, "task" if total.tasks_decided == total.tasks else "decided task")
    if total.tasks_decided or not total.tasks:
        yield Note(f"{passed} of {tasks} passed; full score in {full} of trials")
    else:
        yield Note(f"0 of {pluralize(total.tasks, 'task')} decided")
    if suite.decisions:
        yield Note(decisions_text(suite.decisions))
    yield from _incomplete(suite)
    yield from _doubtful(total)
    yield Note("; ".join(_resources(total)))


def _incomplete(suite: SuiteView) -> Iterator[Note]:
    total = suite.total
    errors = sum(total.errored.values())
    if errors:
        yield Note(f"{errors} errored, in no average: {tally(total.errored)}", bad=True)
    if total.not_run > total.interrupted:
        yield Note(f"{total.not_run - total.interrupted} not run", bad=True)
    if total.interrupted:
        yield Note(f"{total.interrupted} begun and not ended: what they took is unknown", bad=True)
    k, with_k = total.k, total.pass_at_k.tasks if total.pass_at_k else 0
    if k > 1 and with_k < total.tasks:
        yield Note(
            f"pass^{k} and pass@{k} are over the {with_k} of {total.tasks} tasks with {k} averaged trials"
        )


def _doubtful(total: GroupStatistics) -> Iterator[Note]:
    if total.limited:
        limits = {f"by {limit}": number for limit, number in total.limited.items()}
        yield Note(f"{sum(limits.values())} limited: {tally(limits)}")
    if undecided := undecided_beside(total):
        grades = undecided.total()
        hint = judge_hint(grades, undecided_unjudged(total))
        yield Note(f"{pluralize(grades, 'grade')} undecided: {tally(undecided)}{hint}")
    if total.tools.misses:
        calls = total.tools.hits + total.tools.misses + total.tools.recorded
        yield Note(f"{total.tools.misses} of {pluralize(calls, 'call')} not recorded", bad=True)
    if total.retried:
        yield Note(f"{pluralize(total.retried, 'trial')} begun more than once; the last attempt counts")


def undecided_beside(total: GroupStatistics) -> Counter[str]:
    """Count the undecided grades by grader, without those that the caveats name."""
    return Counter(total.undecided) - Counter(total.lacking)


def judge_hint(grades: int, unjudged: int) -> str:
    """Say how many of some undecided grades a judge would decide; nothing where it is none."""
    if not unjudged:
        return ""
    return f"; --agent-judge=MODEL decides {'them' if unjudged == grades else f'{unjudged} of them'}"


def undecided_unjudged(total: GroupStatistics) -> int:
    """Count those of ``undecided_beside`` that a judge would decide."""
    return max(0, total.unjudged - sum(total.lacking.values()))


def _resources(total: GroupStatistics) -> Iterator[str]:
    spent = total.spent
    known = spent.seconds.known_part is not None
    yield f"{format_seconds(spent.seconds)} of agent time" if known else "agent time unknown"
    if spent.tokens or spent.cost:
        yield format_tokens(spent.tokens)
        yield format_cost(spent.cost)
    if total.judge_asks:
        judging = total.judging
        asks = f"judges: {pluralize(total.judge_asks, 'reply')}"
        yield f"{asks}, {format_tokens(judging.tokens)}, {format_cost(judging.cost)}"
    for name, tape in (("tools", total.tools), ("chats", total.chats)):
        if tape != TapeCounts():
            yield f"cassettes for {name}: {format_tape_counts(tape)}"


def format_tape_counts(tape: TapeCounts) -> str:
    """Write how calls met their cassettes."""
    words = (("hit", tape.hits), ("miss", tape.misses), ("recording", tape.recorded))
    return ", ".join(pluralize(number, word) for word, number in words if number)
