"""How the processes of a run share a model: adaptive concurrency, limits per minute, a circuit breaker.

Reports and shares are plain data, and every time is an argument, so that the state can lie in a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pytest_agenteval.processes.files import LockedState
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.record import NOTHING, Record

AT_START = 64
PATIENCE_S = 120.0


class RateLimits(Record, frozen=True):
    """How many requests and tokens the whole run may send to a model.

    ``at_once`` is the most requests under way, 0 for as many as the processes have trials at once; the run
    begins with ``at_start`` of them. A model that replies to nobody is given up after ``patience_s`` seconds.
    A limit per minute is None where there is none.
    """

    at_once: int = 0
    at_start: int = AT_START
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    patience_s: float = PATIENCE_S


class ModelFailure(Record, frozen=True):
    """Why a model is down, found by a request that failed often enough.

    ``lasts`` is True where waiting would not help. ``message`` is for people, and names the model.
    """

    cause: str
    message: str
    lasts: bool = False


class RefusedRequests(Record, frozen=True):
    """Requests that a provider refused since the last report: it gets too many, or is overloaded.

    ``wait_s`` is the longest ``Retry-After``; ``began_ago_s`` is how many seconds ago the last of them was
    sent, and ``failure`` is what the provider answered to it.
    """

    failure: ModelFailure
    statuses: Mapping[str, int] = NOTHING
    wait_s: float = 0.0
    began_ago_s: float = 0.0


class LimiterReport(Record, frozen=True):
    """What happened to one process's requests to one model since its last report.

    ``process`` is its process id and a random suffix. ``most`` is how many requests it would have under way
    at most, 0 if it leaves; ``tokens`` is an estimate for those that wait. ``started`` were sent, ``replied``
    were answered. Of its last share it returns ``unused_starts`` and ``unused_tokens``, below 0 where more
    was used than estimated. ``dropped`` means that a request ended without a result.
    """

    process: str
    model: str
    name: str
    limits: RateLimits
    most: int = 1
    in_flight: int = 0
    waiting: int = 0
    tokens: int = 0
    started: int = 0
    replied: int = 0
    unused_starts: int = 0
    unused_tokens: int = 0
    refusals: RefusedRequests | None = None
    failure: ModelFailure | None = None
    dropped: bool = False


class RateShare(Record, frozen=True):
    """What one process may do with one model until its next report.

    It may have ``at_once`` requests under way and start ``starts`` more, of ``tokens`` together; None is no
    limit. A process with waiting requests reports again after ``again_s`` seconds. ``replied`` counts the
    replies to all processes. ``is_in_trouble``: the model replies to nobody at the moment; ``down``: it is
    given up for this run. ``others_wait``: another process wants a place that this one gives back.
    """

    at_once: int = 0
    starts: int | None = None
    tokens: int | None = None
    again_s: float = 0.0
    replied: int = 0
    is_in_trouble: bool = False
    down: ModelFailure | None = None
    others_wait: bool = False


class ModelStanding(Record, frozen=True):
    """How a model fared in this run: how many requests it refused, and whether it replies.

    ``least`` is the lowest number of requests at once that it was limited to, ``outages`` how often it
    stopped replying. One that ``is_in_trouble`` replies to nobody at the moment; it ``is_tried`` while a
    probe is under way, or while everybody waits before the next one.
    """

    model: str
    name: str
    refused: Mapping[str, int] = NOTHING
    least: int = 0
    outages: int = 0
    is_in_trouble: bool = False
    is_tried: bool = False
    down: ModelFailure | None = None


class ShareStore(Protocol):
    """Shares models among the processes of a run; all that goes in and out is plain data."""

    async def exchange(self, report: LimiterReport) -> RateShare:
        """Note a process's report about a model, and give the share that it gets."""

    async def leave(self, process: str) -> None:
        """Take back the shares of a process that sends no more requests."""

    async def standings(self) -> tuple[ModelStanding, ...]:
        """Give the standing of every model that was used."""


FIRST_WAIT_S = 1.0
LONGEST_BACKOFF_S = 15.0
LONGEST_WAIT_S = 60.0
# Seconds after which a process that waits for others reports again, if not earlier.
LOOK_AGAIN_S = 0.5
# The earliest, in seconds, that a process that was granted nothing reports again.
SOON_S = 0.02


class TokenBucket(msgspec.Struct):
    """The unused part of a limit per minute: it fills evenly, and holds a twelfth of a minute's.

    In no minute is more used than the limit, as long as no request used more than was estimated.
    """

    level: float
    filled_at: float

    def fill(self, limit: float, now: float) -> float:
        """Add what has come since the last call, and give the most that the bucket holds."""
        holds = max(1.0, limit / 12)
        self.level = min(holds, self.level + (now - self.filled_at) * _per_second(limit, holds))
        self.filled_at = now
        return holds


def _per_second(limit: float, holds: float) -> float:
    # A whole bucket may be used at once, and what then comes within a minute has to fit in beside it.
    return (limit - holds + 0.9) / 60


class ProcessState(msgspec.Struct):
    """One process's places at a model, and how many requests it has started."""

    seen: float
    most: int = 1
    in_flight: int = 0
    waiting: int = 0
    held: int = 0
    served: float = 0.0


class ModelState(msgspec.Struct):
    """Everything that is known of a model in a run.

    ``width`` is how many requests may be under way at once; it grows by one for each reply until the model
    first refuses one (``is_ramping``), and by one for each ``width`` replies from then on (AIMD, as in TCP).
    ``rounds`` counts the probes in a row without a reply, ``probe`` names the process that probes now.
    """

    name: str
    width: float
    is_ramping: bool = True
    halved_at: float = 0.0
    quiet_until: float = 0.0
    rounds: int = 0
    trouble_since: float = 0.0
    probe: str = ""
    probe_since: float = 0.0
    down: ModelFailure | None = None
    strikes: int = 0
    replied: int = 0
    refused: dict[str, int] = {}
    least: int = 0
    outages: int = 0
    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None
    members: dict[str, ProcessState] = {}


def new_state(report: LimiterReport, now: float) -> ModelState:
    """Give the state of a model before the first request."""
    limits = report.limits
    state = ModelState(report.name, float(limits.at_start))
    if limits.requests_per_minute is not None:
        state.requests = TokenBucket(max(1.0, limits.requests_per_minute / 12), now)
    if limits.tokens_per_minute is not None:
        state.tokens = TokenBucket(max(1.0, limits.tokens_per_minute / 12), now)
    return state


def exchange_report(
    state: ModelState, report: LimiterReport, now: float, is_gone: Callable[[str, float], bool] | None = None
) -> RateShare:
    """Note a report and give the share of the process that made it.

    ``is_gone`` says whether a process that has not reported for so many seconds has ended.
    """
    if is_gone is not None and len(state.members) > (report.process in state.members):
        for name, other in list(state.members.items()):
            if name != report.process and is_gone(name, now - other.seen):
                remove_process(state, name)
    member = state.members.get(report.process)
    if member is None:
        member = state.members[report.process] = ProcessState(now)
    if report.waiting and not (member.waiting or member.in_flight):
        # A process that joins later has no claim to what the others got before.
        busy = [each.served for each in state.members.values() if each is not member and each.waiting]
        member.served = max(member.served, min(busy, default=0.0))
    member.seen, member.most = now, report.most
    member.in_flight, member.waiting = report.in_flight, report.waiting
    member.served += report.started
    if state.requests is not None:
        state.requests.level += report.unused_starts
    if state.tokens is not None:
        state.tokens.level += report.unused_tokens
    if report.refusals is not None:
        for status, number in report.refusals.statuses.items():
            state.refused[status] = state.refused.get(status, 0) + number
        # Once for each round trip: all others of the burst were sent before the model was known to be full.
        if state.rounds == 0 and now - report.refusals.began_ago_s >= state.halved_at:
            state.width = max(1.0, min(state.width, _most_at_once(state, report.limits)) / 2)
            state.least = min(state.least or int(state.width), int(state.width))
            state.is_ramping, state.halved_at = False, now
        # However long the provider asks for, the model is probed again after a minute.
        wait_s = min(report.refusals.wait_s, LONGEST_WAIT_S)
        _back_off(state, report.refusals.failure, report.limits, now, wait_s)
    if report.failure is not None:
        _note_failure(state, report.failure, report.limits, now)
    # Its probe ended without a result, so that another process may probe.
    if report.dropped and state.probe == report.process:
        state.probe = ""
    if report.replied:
        state.replied += report.replied
        state.strikes = 0
        if state.down is None and now >= state.quiet_until:
            # Not while nothing may start: what arrives then may have been sent before.
            state.rounds, state.probe = 0, ""
        in_flight = sum(each.in_flight for each in state.members.values())
        # Else nothing shows that the model would take more.
        if 2 * (in_flight + report.replied) >= state.width:
            grown = report.replied if state.is_ramping else report.replied / state.width
            state.width = max(state.width, min(state.width + grown, _most_at_once(state, report.limits)))
    return _share_of(state, report, member, now)


def remove_process(state: ModelState, process: str) -> None:
    state.members.pop(process, None)
    if state.probe == process:
        state.probe = ""


def standing_of(
    model: str, state: ModelState, now: float, is_gone: Callable[[str, float], bool]
) -> ModelStanding:
    busy = ((name, each.seen) for name, each in state.members.items() if each.in_flight or each.waiting)
    return ModelStanding(
        model=model,
        name=state.name,
        refused=dict(state.refused),
        least=state.least,
        outages=state.outages,
        is_in_trouble=state.rounds > 0,
        is_tried=now < state.quiet_until or any(not is_gone(name, now - seen) for name, seen in busy),
        down=state.down,
    )


def _note_failure(state: ModelState, failure: ModelFailure, limits: RateLimits, now: float) -> None:
    if state.down is not None:
        return
    state.outages += state.rounds == 0
    if failure.lasts:
        state.strikes += 1
        good_before = state.replied > 0 and failure.cause in ("auth", "unknown_model")
        # A key or a model that worked before is given up after three refusals in a row.
        if not good_before or state.strikes >= 3:
            _mark_down(state, failure)
    elif state.replied == state.rounds == 0:  # an address with nobody there is no outage
        _mark_down(state, failure)
    else:
        _back_off(state, failure, limits, now, 0.0)


def _back_off(
    state: ModelState, failure: ModelFailure, limits: RateLimits, now: float, wait_s: float
) -> None:
    """Let nothing start for a while, each time longer; then one request probes the model for all."""
    if state.rounds == 0:
        state.trouble_since = now
    if now >= state.quiet_until or state.rounds == 0:
        state.rounds += 1
    state.probe = ""
    # The provider's own wait is obeyed once: with one of a second, it would get a lot of requests.
    if not wait_s or state.rounds > 1:
        wait_s = max(wait_s, min(FIRST_WAIT_S * 2.0 ** (state.rounds - 1), LONGEST_BACKOFF_S))
    state.quiet_until = max(state.quiet_until, now + wait_s)
    if now - state.trouble_since >= limits.patience_s:
        _mark_down(state, failure)


def _mark_down(state: ModelState, failure: ModelFailure) -> None:
    state.down, state.rounds = failure, max(1, state.rounds)


def _most_at_once(state: ModelState, limits: RateLimits) -> float:
    return float(limits.at_once or sum(each.most for each in state.members.values()) or 1)


def _share_of(state: ModelState, report: LimiterReport, member: ProcessState, now: float) -> RateShare:
    if state.down is not None:
        return RateShare(replied=state.replied, is_in_trouble=True, down=state.down)
    if report.most == 0:
        remove_process(state, report.process)
        return RateShare(replied=state.replied, is_in_trouble=state.rounds > 0)
    if now < state.quiet_until:
        member.held = member.in_flight
        again_s = state.quiet_until - now
        return RateShare(member.in_flight, 0, 0, again_s, state.replied, is_in_trouble=state.rounds > 0)
    if state.rounds:
        # A probe without a result for ten minutes counts as lost.
        is_lost = now - state.probe_since > 600.0
        is_free = not state.probe or is_lost or state.probe not in state.members
        is_mine = is_free and report.waiting > 0
        if is_mine:
            state.probe, state.probe_since = report.process, now
        member.held = member.in_flight + is_mine
        return RateShare(member.held, int(is_mine), None, LOOK_AGAIN_S, state.replied, is_in_trouble=True)
    width = int(min(state.width, _most_at_once(state, report.limits)))
    if len(state.members) == 1:
        member.held, others_wait = max(width, member.in_flight), False
    else:
        mine, others_wait = _fair_places(state, member, width)
        free = width - sum(each.held for each in state.members.values() if each is not member)
        member.held = max(member.in_flight, min(mine, free))
    starts, starts_in_s = _grant_starts(state, report, now)
    tokens, tokens_in_s = _grant_tokens(state, report, now)
    is_free = member.held - member.in_flight > 0
    again_s = max(starts_in_s, tokens_in_s) if is_free else LOOK_AGAIN_S
    return RateShare(member.held, starts, tokens, again_s, state.replied, others_wait=others_wait)


def _fair_places(state: ModelState, member: ProcessState, width: int) -> tuple[int, bool]:
    """Give how many of ``width`` places a process should have, and whether others want more than theirs.

    All get the same number, except those that want less. The remainder of the division goes to those that got
    least so far; places that nobody wants are shared out as a reserve.
    """
    wanting = sorted(
        (each.in_flight + each.waiting, each.served, name) for name, each in state.members.items()
    )
    places, left = {}, width
    while wanting and wanting[0][0] <= left // len(wanting):
        wanted, _, name = wanting.pop(0)
        places[name] = wanted
        left -= wanted
    each_has, over = divmod(left, len(wanting) or 1)
    for position, (_, name) in enumerate(sorted((served, name) for _, served, name in wanting)):
        places[name] = each_has + (position < over)
    spare = 0 if wanting else left // len(places)
    mine = next(name for name, each in state.members.items() if each is member)
    others_wait = any(each.waiting > 0 for name, each in state.members.items() if name != mine)
    return places[mine] + spare, others_wait


def _grant_starts(state: ModelState, report: LimiterReport, now: float) -> tuple[int | None, float]:
    """Grant requests of the limit per minute; give them with the seconds until there is one more."""
    limit, bucket = report.limits.requests_per_minute, state.requests
    if limit is None or bucket is None:
        return None, 0.0
    holds = bucket.fill(limit, now)
    granted = min(report.waiting, _portion(state, report, int(bucket.level + 1e-9)))
    bucket.level -= granted
    return granted, max(SOON_S, (1 - bucket.level) / _per_second(limit, holds))


def _grant_tokens(state: ModelState, report: LimiterReport, now: float) -> tuple[int | None, float]:
    """Grant tokens of the limit per minute; give them with the seconds until there are enough.

    After a request that needs more than there is, all others wait.
    """
    limit, bucket = report.limits.tokens_per_minute, state.tokens
    if limit is None or bucket is None:
        return None, 0.0
    holds = bucket.fill(limit, now)
    wanted = min(report.tokens, ceil(holds))
    granted = min(wanted, max(0, int(bucket.level)))
    needed = min(holds, report.tokens / max(1, report.waiting))
    # Less than the next request needs would not start it, so the tokens stay in the bucket.
    if granted < needed or _portion(state, report, 1) == 0:
        granted = 0
    bucket.level -= granted
    return granted, max(SOON_S, (needed - bucket.level) / _per_second(limit, holds))


def _portion(state: ModelState, report: LimiterReport, level: int) -> int:
    """Give how much of ``level`` a process may take; processes that got less so far come first."""
    mine = state.members[report.process]
    others = [each for each in state.members.values() if each is not mine and each.waiting]
    if not others or level <= 0:
        return max(0, level)
    behind = sum(mine.served > each.served for each in others)
    return max(0, (level - behind) // (len(others) + 1)) or int(level > behind)


# Seconds without a report after which a check is made whether the process has ended.
SILENT_S = 1.5
# Seconds without a report after which a process loses its share, on whatever machine it is.
LOST_S = 60.0


class LocalShares:
    """The shares of all models in this process, which is alone or holds the shares of others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._states: dict[str, ModelState] = {}

    def exchange(self, report: LimiterReport) -> RateShare:
        now = self._now()
        state = self._states.get(report.model)
        if state is None:
            state = self._states[report.model] = new_state(report, now)
        return exchange_report(state, report, now, _is_lost)

    def leave(self, process: str) -> None:
        for state in self._states.values():
            remove_process(state, process)

    def standings(self) -> tuple[ModelStanding, ...]:
        now = self._now()
        return tuple(standing_of(model, state, now, _is_lost) for model, state in self._states.items())


class LocalShareStore:
    """The shares of this process, offered to other processes and machines: the state of Ray's actor."""

    def __init__(self, shares: LocalShares | None = None) -> None:
        self._shares = shares or LocalShares()

    async def exchange(self, report: LimiterReport) -> RateShare:
        return self._shares.exchange(report)

    async def leave(self, process: str) -> None:
        self._shares.leave(process)

    async def standings(self) -> tuple[ModelStanding, ...]:
        return self._shares.standings()


class FileShareStore:
    """Shares in a file, for the processes of one machine; those of a dead process are taken back.

    A call may wait for another process, so it does not belong on a loop of trials.
    """

    def __init__(self, path: Path) -> None:
        self._file = LockedState(path)

    async def exchange(self, report: LimiterReport) -> RateShare:
        def change(states: dict[str, Any]) -> RateShare:
            # The monotonic clock is one for all processes of a machine.
            now, data = time.monotonic(), states.get(report.model)
            state = new_state(report, now) if data is None else msgspec.convert(data, ModelState)
            share = exchange_report(state, report, now, _is_gone)
            states[report.model] = msgspec.to_builtins(state)
            return share

        return self._file.change(change)

    async def leave(self, process: str) -> None:
        def change(states: dict[str, Any]) -> None:
            for model, data in states.items():
                state = msgspec.convert(data, ModelState)
                remove_process(state, process)
                states[model] = msgspec.to_builtins(state)

        self._file.change(change)

    async def standings(self) -> tuple[ModelStanding, ...]:
        return read_standings(self._file)


def read_standings(file: LockedState) -> tuple[ModelStanding, ...]:
    now = time.monotonic()
    states = {model: msgspec.convert(data, ModelState) for model, data in file.read().items()}
    return tuple(standing_of(model, state, now, _is_gone) for model, state in states.items())


def _is_lost(process: str, silent_s: float) -> bool:
    return silent_s > LOST_S


def _is_gone(process: str, silent_s: float) -> bool:
    """Whether a process of this machine has ended; ``process`` begins with its process id."""
    if silent_s < SILENT_S:
        return False
    return silent_s > LOST_S or not is_running(int(process.partition(".")[0]))
