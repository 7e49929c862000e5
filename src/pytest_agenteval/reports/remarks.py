"""What stands beside a suite's averages, in a few words: only what there is to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.figures import Figures
from pytest_agenteval.reports.table import MARK, marked
from pytest_agenteval.reports.view import SuiteView
from pytest_agenteval.reports.wording import counted, figure, money, seconds, tally, tokens


class Remark(NamedTuple):
    """One thing to know about a suite; ``bad`` when figures are incomplete for it."""

    text: str
    bad: bool = False


def caveats(suite: SuiteView) -> Iterator[str]:
    """Give what has to be known before the figures are read: what those that are marked are without."""
    total = suite.total
    if total.lacking:
        yield caveat(total)


def caveat(total: Figures) -> str:
    """Say how many trials lack a judge's grade, and whose."""
    trials = max(total.unscored, total.unproven)
    said = f"{trials} of {counted(total.averaged, 'trial')} without what only a judge decides"
    rest = "scores are those of the other grades, passes may be fewer; --agent-judge=MODEL decides"
    return f"{MARK} {said} ({tally(total.lacking)}): {rest}"


def remarks(suite: SuiteView) -> Iterator[Remark]:
    """Give what there is to say, the results first, then what is missing, then what it took."""
    total = suite.total
    passed = marked(str(total.tasks_passed), total.unproven)
    full = marked(figure(total.full), total.unscored)
    yield Remark(f"{passed} of {counted(total.tasks_decided, 'task')} passed; full score in {full} of trials")
    yield from _missing(suite)
    yield from _uncertain(total)
    yield Remark("; ".join(_took(total)))


def _missing(suite: SuiteView) -> Iterator[Remark]:
    total = suite.total
    errors = sum(total.errored.values())
    if errors:
        yield Remark(f"{errors} errored, in no average: {tally(total.errored)}", bad=True)
    if total.not_run:
        begun = f" ({suite.begun} begun)" if suite.begun else ""
        yield Remark(f"{total.not_run} not run{begun}", bad=True)
    told = total.pass_at_k.tasks if total.pass_at_k else 0
    if total.k > 1 and told < total.tasks:
        k = total.k
        yield Remark(
            f"pass^{k} and pass@{k} are over the {told} of {total.tasks} tasks with {k} averaged trials"
        )


def _uncertain(total: Figures) -> Iterator[Remark]:
    if total.limited:
        limits = {f"by {limit}": number for limit, number in total.limited.items()}
        yield Remark(f"{sum(limits.values())} limited: {tally(limits)}")
    undecided = Counter(total.undecided) - Counter(total.lacking)  # which are told above the figures
    if undecided:
        grades, unjudged = undecided.total(), total.unjudged - sum(total.lacking.values())
        how = "; --agent-judge=MODEL decides them" if unjudged == grades else ""
        if 0 < unjudged < grades:
            how = f"; --agent-judge=MODEL decides {unjudged} of them"
        yield Remark(f"{counted(grades, 'grade')} undecided: {tally(undecided)}{how}")
    if total.tools.misses:
        asked = total.tools.hits + total.tools.misses + total.tools.recorded
        yield Remark(f"{total.tools.misses} of {counted(asked, 'call')} not recorded", bad=True)
    if total.retried:
        yield Remark(f"{counted(total.retried, 'trial')} begun more than once; the last attempt counts")


def _took(total: Figures) -> Iterator[str]:
    spent = total.spent
    yield f"{seconds(spent.seconds)} of agent time"
    if spent.tokens or spent.usd or spent.unpriced:
        yield tokens(spent.tokens, spent.untold)
        yield money(spent.usd, spent.unpriced)
    if total.judge_asks:
        judging = total.judging
        asks = f"judges: {counted(total.judge_asks, 'reply')}"
        yield f"{asks}, {tokens(judging.tokens, judging.untold)}, {money(judging.usd, judging.unpriced)}"
    for name, tape in (("tools", total.tools), ("chats", total.chats)):
        if tape != TapeCounts():
            yield f"cassettes for {name}: {taped(tape)}"


def taped(tape: TapeCounts) -> str:
    """Write how calls met their cassettes."""
    words = (("hit", tape.hits), ("miss", tape.misses), ("recording", tape.recorded))
    return ", ".join(counted(number, word) for word, number in words if number)
