"""What makes a run's figures doubtful: one sentence for each reason, over all suites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.transcript import (
    AROUND_TAPES,
    CHANGED_PROCESS,
    CHANGED_PROMPT,
    LEFT_OUT,
    OTHER_MODEL,
    OUTPUT_CUT,
    STARTED_PROGRAM,
    UNKNOWN_TRIAL,
    UNPRICED_LIMIT,
    UNREAD_REPLY,
    UNREAD_REQUEST,
    UNSEEN_CALLS,
    UNTAPED_CONNECTION,
    UNTOLD_TOKENS,
)
from pytest_agenteval.reports.group_statistics import GroupStatistics
from pytest_agenteval.reports.run_view import RunView
from pytest_agenteval.reports.suite_tables import MARK, judge_hint, undecided_beside, undecided_unjudged
from pytest_agenteval.reports.tables import TableNote
from pytest_agenteval.store.run_documents import ExtraRepetitions
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    first_few,
    model_label,
    one_line,
    pluralize,
    printable,
    tally,
)

Count = Callable[[GroupStatistics], int]


def run_warnings(view: RunView) -> Iterator[TableNote]:
    """Give the warnings about a run's figures, the gravest first; none where nothing is wrong."""
    yield from (TableNote(printable(line), bad=True) for line in view.unreadable)
    if errored := _shares(view, "trial", lambda total: total.errors, _planned):
        by_cause = _sum(suite.total.errored for suite in view.suites)
        yield TableNote(f"{errored} errored, in no average: {tally(by_cause)}", bad=True)
    if not_run := _shares(view, "trial", lambda total: total.not_run - total.interrupted, _planned):
        why = f": {_reasons(view)}" if view.not_run else ""
        yield TableNote(f"{not_run} not run{why}", bad=True, of_an_end=not why)
    # Tests may run trials by code, which nobody has planned: these have no share to name.
    elif view.not_run:
        yield _held_back(view)
    if interrupted := _shares(view, "trial", lambda total: total.interrupted, _planned):
        # A run without an end may still be going on.
        how = "interrupted" if view.ended_at else "not ended"
        text = f"{interrupted} started but {how}: their usage is unknown"
        yield TableNote(text, bad=True, of_an_end=True)
    yield from _lost_trials(view)
    if misses := _shares(view, "call", lambda total: total.tools.misses, _tool_calls):
        yield TableNote(f"{misses} not recorded", bad=True)
    if limited := _shares(view, "trial", lambda total: sum(total.limited.values()), _planned):
        causes = _sum(suite.total.limited for suite in view.suites)
        by_limit = {f"by {limit}": count for limit, count in causes.items()}
        yield TableNote(f"{limited} limited: {tally(by_limit)}")
    if unjudged := _shares(view, "trial", _unjudged_trials, lambda total: total.averaged):
        yield TableNote(f"{MARK} not judged: {unjudged}; fewer may pass; add --agent-judge=MODEL")
    yield from _undecided_grades(view)
    yield from _doubtful_events(view)
    yield from map(TableNote, view.warnings)


def whole_run_warnings(view: RunView) -> Iterator[TableNote]:
    """Give the warnings of ``run_warnings`` that no suite's own table has."""
    yield from (TableNote(printable(line), bad=True) for line in view.unreadable)
    if view.not_run:
        yield _held_back(view)
    yield from _lost_trials(view)
    yield from _doubtful_events(view)
    yield from map(TableNote, view.warnings)


def _lost_trials(view: RunView) -> Iterator[TableNote]:
    """Name the trials of which one may have ended its process, the one at which most processes died first."""
    if view.lost:
        lost = [trial_name(key) + (f" ({times} times)" if times > 1 else "") for key, times in view.lost]
        names = first_few(lost, MOST_NAMED, "{} more")
        were, it = ("was", "it") if len(view.lost) == 1 else ("were", "them")
        last = f"{were} running when {'its' if it == 'it' else 'their'} process ended"
        yield TableNote(f"{', '.join(names)} {last}; --agent-resume without -n runs {it} last", bad=True)


def _held_back(view: RunView) -> TableNote:
    return TableNote(f"{pluralize(sum(view.not_run.values()), 'trial')} not run: {_reasons(view)}", bad=True)


def _reasons(view: RunView) -> str:
    several = len(view.not_run) > 1
    reasons = view.not_run.items()
    return "; ".join(f"{count} {printable(why)}" if several else printable(why) for why, count in reasons)


_EVENTS: Mapping[str, tuple[str, str]] = {
    UNREAD_REQUEST: ("request", "of models could not be read: messages, calls and tokens are missing"),
    UNREAD_REPLY: ("reply", "of models could not be read: calls and tokens are missing"),
    CHANGED_PROMPT: (
        "reply",
        "replayed, but recorded for another prompt; record again: --agent-record-chat=all",
    ),
    AROUND_TAPES: ("request", "of a command bypassed the recording proxy and failed"),
    UNSEEN_CALLS: ("trial", "reported tool calls that no model reply requested: not graded"),
    UNTOLD_TOKENS: (
        "reply",
        'without token usage; in streams, request it: "stream_options": {"include_usage": true}',
    ),
    UNPRICED_LIMIT: (
        "trial",
        "used an unknown amount of limited tokens or money: the limit was not enforced",
    ),
    OUTPUT_CUT: ("output", "of a command cut: too long"),
    UNKNOWN_TRIAL: (
        "trial",
        "may have sent a request that was refused: a thread or callback lost its contextvars",
    ),
}


MOST_NAMED = 5
"""So many programs that agents started are named."""


def _doubtful_events(view: RunView) -> Iterator[TableNote]:
    """Give the warnings about events that make trials doubtful, and about suites without any request."""
    # A request that could not be read was seen: the line for it below says enough.
    without = dict.fromkeys(view.label(suite) for suite in view.suites if suite.is_without_requests)
    if without and not view.doubtful_events.get(UNREAD_REQUEST):
        names = ", ".join(without)
        yield TableNote(f"no model request was seen in {names}: if an agent sent one, these figures lack it")
    # The next five are counted by what their events name, such as a program.
    if programs := _event_names(view, STARTED_PROGRAM):
        yield TableNote(f"agents started a program ({programs}): its requests are not intercepted", bad=True)
    if places := _event_names(view, UNTAPED_CONNECTION):
        opened = f"connections that cannot be recorded were opened ({places})"
        yield TableNote(f"{opened}: they fail in a replay", bad=True)
    if others := _event_names(view, OTHER_MODEL):
        how = "an agent that takes the name, or `via: provider`, decides that; so does an older recording"
        yield TableNote(
            f"agents did not use the named model ({others}); tables show the models that they used; {how}"
        )
    if left_out := _event_names(view, LEFT_OUT):
        yield TableNote(f"settings of agents' requests were not passed to the named model ({left_out})")
    if changed := _event_names(view, CHANGED_PROCESS):
        way_out = "--agent-executor=processes or --agent-concurrency=1 keeps them apart"
        yield TableNote(
            f"concurrent trials changed the state of their process ({changed}); {way_out}", bad=True
        )
    for kind, (thing, what) in _EVENTS.items():
        if count := view.doubtful_events.get(kind, 0):
            bad = kind not in (CHANGED_PROMPT, UNTOLD_TOKENS)
            yield TableNote(f"{pluralize(count, thing)} {what}", bad=bad)


def _event_names(view: RunView, kind: str) -> str:
    """List what the events of a kind name, the most frequent first, each with its number of trials."""
    # Such events are counted by kind and name in one: "started_program: curl".
    start = f"{kind}: "
    counts = {key.removeprefix(start): n for key, n in view.doubtful_events.items() if key.startswith(start)}
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    names = [f"{one_line(name, MOST_NAME)} in {pluralize(n, 'trial')}" for name, n in most]
    return ", ".join(first_few(names, MOST_NAMED, "{} more"))


def _undecided_grades(view: RunView) -> Iterator[TableNote]:
    numbers = [
        (view.label(suite), undecided_beside(suite.total).total(), undecided_unjudged(suite.total))
        for suite in view.suites
    ]
    parts = [(label, grades) for label, grades, _ in numbers if grades]
    if not parts:
        return
    (label, first), *others = parts
    where = [f"1 grade of {label}" if first == 1 else f"{first:,} of {label}'s grades"]
    where += [f"{grades:,} of {other}'s" for other, grades in others]
    hint = judge_hint(sum(grades for _, grades in parts), sum(unjudged for _, _, unjudged in numbers))
    yield TableNote(f"{', '.join(where)} undecided{hint}")


def _shares(view: RunView, thing: str, count: Count, whole: Count) -> str:
    """Write the share of each suite that has any, ``85 of ko's 91 trials, 58 of pkm's 82``; empty if none."""
    shares = [
        (f"{number:,} of {view.label(suite)}'s", whole(suite.total))
        for suite in view.suites
        if (number := count(suite.total))
    ]
    if not shares:
        return ""
    (first, size), *others = shares
    return ", ".join([f"{first} {pluralize(size, thing)}", *(f"{share} {all:,}" for share, all in others)])


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


def _planned(total: GroupStatistics) -> int:
    return total.planned


def _tool_calls(total: GroupStatistics) -> int:
    return total.tools.hits + total.tools.misses + total.tools.recorded


def _unjudged_trials(total: GroupStatistics) -> int:
    # As in judge_caveat: a grade without weight leaves the score alone but may undo the pass, or the reverse.
    return max(total.unscored, total.unproven) if total.lacking else 0


def look_lines(run: Run) -> Iterator[str]:
    """Say how many repetitions were not needed; nothing where their number was fixed or is undecided."""
    rule, extra = run.header.repetition_rule, ExtraRepetitions.read(run.folder) if run.looks else None
    if rule is None or extra is None:
        return
    counts = {group.group: len(group.node_ids) for group in extra.groups}
    dropped = sum(counts.get(look.group, 0) for look in run.looks if not look.goes_on)
    if dropped:
        yield f"repetitions: {dropped} of {rule.low}..{rule.high} not needed"
    for look in run.looks:
        if look.reading == "no room":
            who = printable(f"{look.suite} with {model_label(look.model, look.variant)}")
            more = pluralize(counts.get(look.group, 0), "trial")
            why = f"{more} more would exceed --agent-max-trials={rule.most_trials}"
            yield f"repetitions: {who} stopped at {look.low}: {why}"
