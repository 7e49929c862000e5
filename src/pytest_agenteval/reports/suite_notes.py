"""What stands beside a suite's averages, in a few words: only what there is to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.formatting import (
    format_cost,
    format_duration,
    format_figure,
    format_tokens,
    pluralize,
    tally,
)
from pytest_agenteval.reports.statistics import GroupStatistics
from pytest_agenteval.reports.table import MARK, mark_unjudged
from pytest_agenteval.reports.view import SuiteView


class SuiteNote(NamedTuple):
    """One thing to know about a suite; ``bad`` when figures are incomplete for it."""

    text: str
    bad: bool = False


def caveats(suite: SuiteView) -> Iterator[str]:
    """Give what has to be known before the figures are read: what those that are marked are without."""
    total = suite.total
    if total.lacking:
        yield judge_caveat(total)


def judge_caveat(total: GroupStatistics) -> str:
    """Say how many trials lack a judge's grade, and whose."""
    trials = max(total.unscored, total.unproven)
    said = f"{trials} of {pluralize(total.averaged, 'trial')} without what only a judge decides"
    rest = "scores are those of the other grades, passes may be fewer; --agent-judge=MODEL decides"
    return f"{MARK} {said} ({tally(total.lacking)}): {rest}"


def suite_notes(suite: SuiteView) -> Iterator[SuiteNote]:
    """Give what there is to say, the results first, then what is missing, then what it took."""
    total = suite.total
    passed = mark_unjudged(str(total.tasks_passed), total.unproven)
    full = mark_unjudged(format_figure(total.full), total.unscored)
    tasks = pluralize(total.tasks_decided, "task")
    yield SuiteNote(f"{passed} of {tasks} passed; full score in {full} of trials")
    yield from _missing(suite)
    yield from _uncertain(total)
    yield SuiteNote("; ".join(_took(total)))


def _missing(suite: SuiteView) -> Iterator[SuiteNote]:
    total = suite.total
    errors = sum(total.errored.values())
    if errors:
        yield SuiteNote(f"{errors} errored, in no average: {tally(total.errored)}", bad=True)
    if total.not_run:
        begun = f" ({suite.begun} begun)" if suite.begun else ""
        yield SuiteNote(f"{total.not_run} not run{begun}", bad=True)
    told = total.pass_at_k.tasks if total.pass_at_k else 0
    if total.k > 1 and told < total.tasks:
        k = total.k
        yield SuiteNote(
            f"pass^{k} and pass@{k} are over the {told} of {total.tasks} tasks with {k} averaged trials"
        )


def _uncertain(total: GroupStatistics) -> Iterator[SuiteNote]:
    if total.limited:
        limits = {f"by {limit}": number for limit, number in total.limited.items()}
        yield SuiteNote(f"{sum(limits.values())} limited: {tally(limits)}")
    undecided = Counter(total.undecided) - Counter(total.lacking)  # which are told above the figures
    if undecided:
        grades, unjudged = undecided.total(), total.unjudged - sum(total.lacking.values())
        how = "; --agent-judge=MODEL decides them" if unjudged == grades else ""
        if 0 < unjudged < grades:
            how = f"; --agent-judge=MODEL decides {unjudged} of them"
        yield SuiteNote(f"{pluralize(grades, 'grade')} undecided: {tally(undecided)}{how}")
    if total.tools.misses:
        asked = total.tools.hits + total.tools.misses + total.tools.recorded
        yield SuiteNote(f"{total.tools.misses} of {pluralize(asked, 'call')} not recorded", bad=True)
    if total.retried:
        yield SuiteNote(f"{pluralize(total.retried, 'trial')} begun more than once; the last attempt counts")


def _took(total: GroupStatistics) -> Iterator[str]:
    spent = total.spent
    yield f"{format_duration(spent.seconds)} of agent time"
    if spent.tokens or spent.usd or spent.unpriced:
        yield format_tokens(spent.tokens, spent.untold)
        yield format_cost(spent.usd, spent.unpriced)
    if total.judge_asks:
        judging = total.judging
        asks = f"judges: {pluralize(total.judge_asks, 'reply')}"
        taken = format_tokens(judging.tokens, judging.untold)
        yield f"{asks}, {taken}, {format_cost(judging.usd, judging.unpriced)}"
    for name, tape in (("tools", total.tools), ("chats", total.chats)):
        if tape != TapeCounts():
            yield f"cassettes for {name}: {format_tape_counts(tape)}"


def format_tape_counts(tape: TapeCounts) -> str:
    """Write how calls met their cassettes."""
    words = (("hit", tape.hits), ("miss", tape.misses), ("recording", tape.recorded))
    return ", ".join(pluralize(number, word) for word, number in words if number)
