"""What a run, or a part of one, took: wall time, tokens, money, agents' time, and how long a turn is.

All views show these figures: the terminal, Markdown, HTML, JSON and leaderboards. What is unknown is never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.compare.scoring.intervals import quantile
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Figure, Usage, cost_figure, token_figure
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry, StartedAttempt, group_of
from pytest_agenteval.store.run_folder import RunHeader

# Reports of a hundred thousand trials wait for nothing else: these loops are the interpreter's own.
_USAGE, _EARLIER = attrgetter("usage"), attrgetter("earlier")
_INPUT, _OUTPUT, _COST = attrgetter("input_tokens"), attrgetter("output_tokens"), attrgetter("cost_usd")
_SUMS = attrgetter("tokens"), attrgetter("cost"), attrgetter("seconds")
_STARTED_AT, _WALL_SECONDS = attrgetter("started_at"), attrgetter("wall_seconds")
_TURN_SECONDS, _ASKS = attrgetter("turn_seconds"), attrgetter("usage.asks")


class ResourceUse(FrozenValue, frozen=True):
    """What all attempts took, including those before the last.

    An attempt with an unknown figure, or with a part of it unknown, adds one unknown part to the sum. An
    attempt that started and never ended adds one to each sum.
    """

    tokens: Figure
    cost: Figure
    seconds: Figure

    def to_json(self) -> dict[str, Any]:
        """Give the sums, None where nothing is known, each with the number of its unknown parts."""
        return {
            "tokens": self.tokens.known_part,
            "tokens_untold": self.tokens.unknown,
            "cost_usd": self.cost.known_part,
            "unpriced": self.cost.unknown,
            "seconds": self.seconds.known_part,
            "untimed": self.seconds.unknown,
        }


class TurnTimes(FrozenValue, frozen=True):
    """How long models took for a reply, from the request that brought it, in seconds that passed.

    ``count`` replies were measured. ``p50`` and ``p95`` are the times that half of them, and 95 %, do not
    exceed: linear between the two nearest of the sorted times, as ``quantile`` gives them. Both are None
    where nothing was measured, and where some replies of ``unknown`` trials were not. Replies of offline
    models, which are no LLMs, are none of these.
    """

    count: int = 0
    unknown: int = 0
    p50: float | None = None
    p95: float | None = None


class ResourceFigures(FrozenValue, frozen=True):
    """What a run or a part of it took; a sum of which a part is unknown is its known part, and says so.

    ``wall`` is the time that passed: of a whole run, while pytest worked on it; of a part, while any of its
    trials ran. ``tokens``, ``cost`` and ``seconds`` are those of agents, of all attempts: trials that run
    side by side add up to more than ``wall``. ``turns`` are those of the last attempts, ``trials`` how many
    have ended.
    """

    wall: Figure
    tokens: Figure
    cost: Figure
    seconds: Figure
    turns: TurnTimes
    trials: int = 1

    def to_json(self) -> dict[str, Any]:
        """Give the figures under the names that ``agenteval report --json`` has for them.

        What is unknown of a sum is counted beside it; a sum of which nothing is known is None.
        """
        return {
            **ResourceUse(self.tokens, self.cost, self.seconds).to_json(),
            "wall_seconds": self.wall.known_part,
            "wall_untimed": self.wall.unknown,
            "turns": self.turns.count,
            "turns_untimed": self.turns.unknown,
            "turn_p50": self.turns.p50,
            "turn_p95": self.turns.p95,
        }


def resource_figures(
    entries: Sequence[JournalEntry],
    header: RunHeader | None = None,
    begun: Iterable[StartedAttempt] = (),
    *,
    is_whole_run: bool = False,
) -> ResourceFigures:
    """Add up what some trials of a run took.

    ``begun`` are attempts at these trials that started and never ended, ``is_whole_run`` says that these are
    all trials of the run with this ``header``.
    """
    offline = {model.name for model in header.models if model.offline} if header else set()
    # An entry counts the attempts at its own trial that never ended.
    ended = {entry.key for entry in entries}
    interrupted = Counter({each.key: group_of(each) for each in begun if each.key not in ended}.values())
    groups: dict[tuple[str, str, str], list[JournalEntry]] = {group: [] for group in interrupted}
    for entry in entries:
        groups.setdefault(group_of(entry), []).append(entry)
    # Added up as the suites of a report are, so that both have equal sums.
    spent = [
        spent_by(of_group, interrupted[group], is_offline=group[1] in offline)
        for group, of_group in groups.items()
    ]
    if is_whole_run and header is not None:
        wall = run_wall(header)
    else:
        is_regraded = header is not None and bool(header.regraded)
        wall = part_wall(entries, interrupted.total(), is_regraded=is_regraded)
    tokens, cost, seconds = (sum(map(figure, spent), Figure()) for figure in _SUMS)
    asking = [entry for entry in entries if entry.key.model not in offline] if offline else entries
    return ResourceFigures(wall, tokens, cost, seconds, turn_times(asking), len(entries))


def spent_by(
    entries: Sequence[JournalEntry], interrupted: int = 0, *, is_offline: bool = False
) -> ResourceUse:
    """Add up what agents took; attempts that never ended are unknown parts of it.

    ``is_offline`` says that the model is no LLM.
    """
    usages = list(map(_USAGE, entries))
    # Few runs have attempts before the last: the others are added up without looking for them.
    if any(map(_EARLIER, entries)):
        usages = [usage for entry in entries for usage in (entry.usage, *entry.earlier)]
    known = resource_use(usages, sum([entry.seconds + entry.earlier_seconds for entry in entries]))
    untimed = len([entry for entry in entries if not entry.seconds and entry.elapsed_seconds is None])
    known = replace(known, seconds=known.seconds + Figure(0, untimed)) if untimed else known
    unended = interrupted + sum(entry.unended_attempts for entry in entries if entry.attempts > 1)
    if not unended:
        return known
    unknown = Figure(0, unended)
    # An offline model whose ended trials took nothing took nothing in those that never ended either.
    if is_offline and entries and not (known.tokens or known.cost):
        return replace(known, seconds=known.seconds + unknown)
    return ResourceUse(known.tokens + unknown, known.cost + unknown, known.seconds + unknown)


def resource_use(usages: Sequence[Usage], seconds: float | None = None) -> ResourceUse:
    """Add up usages; without ``seconds`` the time is unknown, as that of judges is not measured."""
    # In most runs all numbers are known, and plain ones are added much faster than figures.
    read, written, costs = (list(map(figure, usages)) for figure in (_INPUT, _OUTPUT, _COST))
    tokens_known, costs_known = None not in read and None not in written, None not in costs
    return ResourceUse(
        tokens=Figure(sum(read) + sum(written)) if tokens_known else sum(map(token_figure, usages), Figure()),
        cost=Figure(sum(costs)) if costs_known else sum(map(cost_figure, usages), Figure()),
        seconds=Figure(0, len(usages)) if seconds is None else Figure(seconds),
    )


def turn_times(entries: Sequence[JournalEntry]) -> TurnTimes:
    """Give the times of all replies to the last attempts at some trials."""
    seconds = sorted(chain.from_iterable(map(_TURN_SECONDS, entries)))
    # Where every trial has as many times as replies, none is looked at by itself.
    replies = list(map(_ASKS, entries))
    is_known = None not in replies and list(map(len, map(_TURN_SECONDS, entries))) == replies
    unknown = 0 if is_known else len([entry for entry in entries if not entry.turns_known])
    return _turn_times(seconds, unknown)


def trial_turns(trial: Trial) -> TurnTimes:
    """Give the times of a trial's replies."""
    seconds, asks = sorted(trial.transcript.turn_seconds), trial.usage.asks
    return _turn_times(seconds, int(asks is None or len(seconds) < asks))


def _turn_times(ordered: Sequence[float], unknown: int) -> TurnTimes:
    if unknown or not ordered:
        return TurnTimes(len(ordered), unknown)
    return TurnTimes(len(ordered), 0, quantile(ordered, 0.5), quantile(ordered, 0.95))


def run_wall(header: RunHeader) -> Figure:
    """Give the time in which any pytest worked on a run; one that was killed, or still works, is unknown."""
    spans = [(_moment(each.started_at), _moment(each.ended_at)) for each in header.all_sessions]
    known = [(start, end) for start, end in spans if start is not None and end is not None]
    return Figure(_covered(known), len(spans) - len(known))


def part_wall(entries: Sequence[JournalEntry], interrupted: int = 0, *, is_regraded: bool = False) -> Figure:
    """Give the time in which any of some trials ran, here and not in a run that they were taken over from.

    The time between two trials does not count: a part of a run may have to wait for other parts, and a run
    that is resumed for days. Attempts that never ended, and journals that do not say how long a trial ran,
    are unknown parts of it.
    """
    # Of most trials there is one attempt, which ran here: nothing else of them is looked at.
    plain = [entry for entry in entries if entry.attempts == 1 and entry.origin is None]
    starts, took = list(map(_STARTED_AT, plain)), list(map(_WALL_SECONDS, plain))
    unknown = interrupted
    for entry in entries if len(plain) < len(entries) else ():
        unknown += entry.unended_attempts
        is_plain = entry.attempts == 1 and entry.origin is None
        is_here = entry.origin is None or not entry.origin.run
        for span in (*entry.earlier_spans, *([entry.span] if is_here and not is_plain else ())):
            starts.append(span.started_at)
            took.append(span.seconds)
    # Trials that were graded again have the times of the run in which they ran.
    if not starts or is_regraded:
        return Figure(0, max(unknown, 1))
    pairs = zip(_moments(starts), took, strict=True)
    known = [(start, start + took) for start, took in pairs if start is not None and took is not None]
    return Figure(_covered(known), unknown + len(starts) - len(known))


def _covered(spans: list[tuple[float, float]]) -> float:
    """Add up the time that spans cover, where they overlap only once."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered


def _moments(texts: Sequence[str]) -> Sequence[float | None]:
    try:
        return [datetime.fromisoformat(text).timestamp() for text in texts]
    except (ValueError, OverflowError, OSError):
        return list(map(_moment, texts))


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    # Headers and journals may have been written by others.
    except (ValueError, OverflowError, OSError):
        return None
