"""How the processes of a run share a model: adaptive concurrency, limits per minute, a circuit breaker.

Reports and shares are plain data, and every time is an argument, so that the state can lie in a file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pytest_agenteval.processes.files import POSIX, LockedState
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

    ``process`` is its process id and a random suffix; ``most`` is how many requests it would have under way
    at most. Of those that wait, ``tokens`` are the estimates of the first ones, empty without a limit of
    tokens. ``ended`` are no longer under way, of which ``replied`` were answered; they took
    ``further_tokens`` beyond their estimates, or less. ``dropped`` means that one ended without a result.
    """

    process: str
    model: str
    name: str
    limits: RateLimits
    most: int = 1
    waiting: int = 0
    tokens: tuple[int, ...] = ()
    ended: int = 0
    replied: int = 0
    further_tokens: int = 0
    refusals: RefusedRequests | None = None
    failure: ModelFailure | None = None
    dropped: bool = False


class RateShare(Record, frozen=True):
    """What one process may do with one model.

    It may start ``starts`` of its waiting requests. After ``again_s`` seconds more may be possible, 0 where
    only the end of a request can help. ``replied`` counts the replies to all processes. ``is_in_trouble``:
    the model replies to nobody at the moment; ``down``: it is given up for this run.
    """

    starts: int = 0
    again_s: float = 0.0
    replied: int = 0
    is_in_trouble: bool = False
    down: ModelFailure | None = None


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
    """Shares models among the processes of a run; a call may wait for another process or machine."""

    def exchange(self, report: LimiterReport) -> RateShare:
        """Note a process's report about a model, and give the share that it gets."""


FIRST_WAIT_S = 1.0
LONGEST_BACKOFF_S = 15.0
LONGEST_WAIT_S = 60.0
# The earliest, in seconds, that a process asks again for a limit per minute.
SOON_S = 0.02


class TokenBucket(msgspec.Struct):
    """The unused part of a limit per minute: it fills evenly, and holds a twelfth of a minute's.

    In no minute is more used than the limit, as long as no request used more than was estimated.
    """

    level: float
    filled_at: float

    def fill(self, limit: float, now: float) -> None:
        """Add what has come since the last call."""
        self.level = min(_bucket_size(limit), self.level + (now - self.filled_at) * _per_second(limit))
        self.filled_at = now


def _bucket_size(limit: float) -> float:
    return max(1.0, limit / 12)


def _per_second(limit: float) -> float:
    # A whole bucket may be used at once, and what then comes within a minute has to fit in beside it.
    return (limit - _bucket_size(limit) + 0.9) / 60


class ProcessState(msgspec.Struct):
    """One process's requests to a model: under way, waiting, and started since the first."""

    seen: float
    most: int = 1
    in_flight: int = 0
    waiting: int = 0
    started: float = 0.0


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
    buckets = [
        None if limit is None else TokenBucket(_bucket_size(limit), now)
        for limit in (limits.requests_per_minute, limits.tokens_per_minute)
    ]
    return ModelState(report.name, float(limits.at_start), requests=buckets[0], tokens=buckets[1])


def exchange_report(
    state: ModelState, report: LimiterReport, now: float, is_gone: Callable[[str, float], bool]
) -> RateShare:
    """Note a report and give the share of the process that made it.

    ``is_gone`` says whether a process that has not reported for so many seconds has ended.
    """
    for name, other in list(state.members.items()):
        if name != report.process and is_gone(name, now - other.seen):
            remove_process(state, name)
    member = state.members.get(report.process)
    if member is None:
        # A process that joins later has no claim to what the others got before.
        started = min((each.started for each in state.members.values() if each.waiting), default=0.0)
        member = state.members[report.process] = ProcessState(now, started=started)
    member.seen, member.most, member.waiting = now, report.most, report.waiting
    member.in_flight = max(0, member.in_flight - report.ended)
    if state.tokens is not None:
        state.tokens.level -= report.further_tokens
    if report.refusals is not None:
        _note_refusals(state, report.refusals, report.limits, now)
    if report.failure is not None:
        _note_failure(state, report.failure, report.limits, now)
    # Its probe ended without a result, so that another process may probe.
    if report.dropped and state.probe == report.process:
        state.probe = ""
    if report.replied:
        _note_replies(state, report, now)
    share = _share_of(state, report, member, now)
    member.in_flight += share.starts
    member.waiting -= share.starts
    member.started += share.starts
    if not (member.in_flight or member.waiting):
        remove_process(state, report.process)
    return share


def remove_process(state: ModelState, process: str) -> None:
    state.members.pop(process, None)
    if state.probe == process:
        state.probe = ""


def standing_of(
    model: str, state: ModelState, now: float, is_gone: Callable[[str, float], bool]
) -> ModelStanding:
    is_busy = any(not is_gone(name, now - each.seen) for name, each in state.members.items())
    return ModelStanding(
        model=model,
        name=state.name,
        refused=dict(state.refused),
        least=state.least,
        outages=state.outages,
        is_in_trouble=state.rounds > 0,
        is_tried=now < state.quiet_until or is_busy,
        down=state.down,
    )


def _note_replies(state: ModelState, report: LimiterReport, now: float) -> None:
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


def _note_refusals(state: ModelState, refusals: RefusedRequests, limits: RateLimits, now: float) -> None:
    for status, number in refusals.statuses.items():
        state.refused[status] = state.refused.get(status, 0) + number
    # Once for each round trip: all others of the burst were sent before the model was known to be full.
    if state.rounds == 0 and now - refusals.began_ago_s >= state.halved_at:
        state.width = max(1.0, min(state.width, _most_at_once(state, limits)) / 2)
        state.least = min(state.least or int(state.width), int(state.width))
        state.is_ramping, state.halved_at = False, now
    # However long the provider asks for, the model is probed again after a minute.
    _back_off(state, refusals.failure, limits, now, min(refusals.wait_s, LONGEST_WAIT_S))


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
    if now < state.quiet_until:
        return RateShare(0, state.quiet_until - now, state.replied, is_in_trouble=state.rounds > 0)
    if state.rounds:
        starts = int(report.waiting > 0 and (not state.probe or state.probe not in state.members))
        if starts:
            state.probe = report.process
        return RateShare(starts, 0.0, state.replied, is_in_trouble=True)
    others = [each for each in state.members.values() if each is not member]
    starts = min(report.waiting, _free_places(state, member, others, report.limits))
    # Processes that got less so far come first.
    behind = sum(member.started > each.started for each in others if each.waiting)
    waits = []
    if (limit := report.limits.requests_per_minute) is not None and (bucket := state.requests) is not None:
        bucket.fill(limit, now)
        if starts > (granted := max(0, int(bucket.level + 1e-9) - behind)):
            starts = granted
            waits.append((1 - bucket.level) / _per_second(limit))
    if (limit := report.limits.tokens_per_minute) is not None and (bucket := state.tokens) is not None:
        bucket.fill(limit, now)
        for place, tokens in enumerate(report.tokens[:starts]):
            # A request that needs more than the bucket holds starts all the same, with all that there is.
            needed = min(tokens, _bucket_size(limit))
            if bucket.level < needed + (behind and place == 0):
                starts = place
                waits.append((needed - bucket.level) / _per_second(limit))
                break
            bucket.level -= tokens
    if state.requests is not None:
        state.requests.level -= starts
    again_s = max(SOON_S, *waits) if waits else 0.0
    return RateShare(starts, again_s, state.replied)


def _free_places(
    state: ModelState, member: ProcessState, others: list[ProcessState], limits: RateLimits
) -> int:
    """Give how many more requests a process may have under way.

    All have the same number of places, except those that want less; the remainder of the division goes to
    those that got least so far. A place beyond its own is free as long as no other process wants it.
    """
    width = int(min(state.width, _most_at_once(state, limits)))
    if not others:
        return max(0, width - member.in_flight)
    each_has, over = divmod(width, len(others) + 1)
    ranked = sorted(state.members.items(), key=lambda item: (item[1].started, item[0]))
    reserved = 0
    for rank, (_, each) in enumerate(ranked):
        if each is not member:
            wanted = min(each_has + (rank < over), each.in_flight + each.waiting)
            reserved += max(each.in_flight, wanted)
    return max(0, width - reserved - member.in_flight)


# Seconds without a report after which a check is made whether the process has ended.
SILENT_S = 1.5
# Seconds without a report after which a process loses its places, on whatever machine it is.
LOST_S = 60.0


class LocalShares:
    """The shares of all models in this process, which is alone or holds the shares of others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, ModelState] = {}

    def exchange(self, report: LimiterReport) -> RateShare:
        with self._lock:
            now = time.monotonic()
            state = self._states.get(report.model)
            if state is None:
                state = self._states[report.model] = new_state(report, now)
            return exchange_report(state, report, now, _is_lost)

    def leave(self, process: str) -> None:
        """Take back the places of a process that sends no more requests."""
        with self._lock:
            for state in self._states.values():
                remove_process(state, process)

    def standings(self) -> tuple[ModelStanding, ...]:
        """Give the standing of every model that was used."""
        with self._lock:
            now = time.monotonic()
            return tuple(standing_of(model, state, now, _is_lost) for model, state in self._states.items())


class FileShares:
    """Shares in a file, for the processes of one machine; those of a dead process are taken back."""

    def __init__(self, path: Path) -> None:
        self._file = LockedState(path)

    def exchange(self, report: LimiterReport) -> RateShare:
        def change(states: dict[str, Any]) -> RateShare:
            # The monotonic clock is one for all processes of a machine.
            now, data = time.monotonic(), states.get(report.model)
            state = new_state(report, now) if data is None else msgspec.convert(data, ModelState)
            share = exchange_report(state, report, now, _is_gone)
            states[report.model] = msgspec.to_builtins(state)
            return share

        return self._file.change(change)

    def standings(self) -> tuple[ModelStanding, ...]:
        now = time.monotonic()
        states = {model: msgspec.convert(data, ModelState) for model, data in self._file.read().items()}
        return tuple(standing_of(model, state, now, _is_gone) for model, state in states.items())


def _is_lost(process: str, silent_s: float) -> bool:
    return silent_s > LOST_S


def _is_gone(process: str, silent_s: float) -> bool:
    """Whether a process of this machine has ended; ``process`` begins with its process id."""
    if silent_s < SILENT_S:
        return False
    return silent_s > LOST_S or (POSIX and not is_running(int(process.partition(".")[0])))
