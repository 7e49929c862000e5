"""Who has which share of a model: adaptive concurrency, limits per minute, and a circuit that opens.

Pure: every time comes in as an argument, and the state is plain data, so that it can lie in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import msgspec

from pytest_agenteval.chat.rate_limiting.exchange import Failure, Limits, Refusals, Report, Share, Standing

FIRST_WAIT_S = 1.0
LONGEST_BACKOFF_S = 15.0
LONGEST_WAIT_S = 60.0
LOOK_AGAIN_S = 0.5
"""Seconds after which who waits for others looks again; it may look sooner, and each time later."""
SOON_S = 0.02
"""Seconds after which who was granted nothing looks again at the earliest."""
PROBE_S = 600.0
"""Seconds after which a probe that nobody has told the end of is taken for lost."""
MOST_STRIKES = 3
"""So many requests in a row are refused a key, or a model, that has been good before: then it is gone."""
NEVER_LASTING = frozenset({"auth", "unknown_model"})


class Bucket(msgspec.Struct):
    """What may still be used of a limit per minute: it fills evenly, and holds a twelfth of a minute's.

    In no minute is more used than the limit, as long as nothing was used that had not been estimated.
    """

    level: float
    filled_at: float

    def fill(self, limit: float, now: float) -> float:
        """Let in what has come since, and give the most that it holds."""
        holds = max(1.0, limit / 12)
        self.level = min(holds, self.level + (now - self.filled_at) * _per_second(limit, holds))
        self.filled_at = now
        return holds


def _per_second(limit: float, holds: float) -> float:
    # A whole bucket may be used at once, and what then comes within a minute has to fit in beside it.
    return (limit - holds + 0.9) / 60


class Member(msgspec.Struct):
    """What one process has of a model: places, and how many requests it has begun."""

    seen: float
    most: int = 1
    in_flight: int = 0
    waiting: int = 0
    held: int = 0
    served: float = 0.0


class ModelState(msgspec.Struct):
    """Everything that is known of a model in a run.

    ``width`` is how many requests may be under way at once; it grows by one for each reply until the model
    first puts one off (``is_ramping``), and by one for each ``width`` replies from then on. ``rounds``
    counts the times in a row that it was tried and replied to nobody, ``probe`` names who tries it now.
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
    down: Failure | None = None
    strikes: int = 0
    replied: int = 0
    refused: dict[str, int] = {}
    least: int = 0
    outages: int = 0
    requests: Bucket | None = None
    tokens: Bucket | None = None
    members: dict[str, Member] = {}


def new_state(report: Report, now: float) -> ModelState:
    """Give the state of a model that nobody has asked yet."""
    limits = report.limits
    state = ModelState(report.name, float(limits.at_start))
    if limits.requests_per_minute is not None:
        state.requests = Bucket(max(1.0, limits.requests_per_minute / 12), now)
    if limits.tokens_per_minute is not None:
        state.tokens = Bucket(max(1.0, limits.tokens_per_minute / 12), now)
    return state


def exchange(
    state: ModelState, report: Report, now: float, is_gone: Callable[[str, float], bool] | None = None
) -> Share:
    """Take note of a report and give the share of who made it.

    ``is_gone`` says of a process that has told nothing for so many seconds whether it has ended.
    """
    if is_gone is not None and len(state.members) > (report.process in state.members):
        _take_back(state, now, report.process, is_gone)
    member = _note(state, report, now)
    if report.refusals is not None:
        _note_refusals(state, report.refusals, report.limits, now)
    if report.failure is not None:
        _note_failure(state, report.failure, report.limits, now)
    if report.dropped and state.probe == report.process:
        state.probe = ""
    if report.replied:
        _note_replies(state, report, now)
    return _share(state, report, member, now)


def leave(state: ModelState, process: str) -> None:
    """Take back what a process has."""
    state.members.pop(process, None)
    if state.probe == process:
        state.probe = ""


def standing(model: str, state: ModelState, now: float, is_gone: Callable[[str, float], bool]) -> Standing:
    """Say how a model has fared."""
    return Standing(
        model,
        state.name,
        dict(state.refused),
        state.least,
        state.outages,
        state.rounds > 0,
        now < state.quiet_until or _is_being_tried(state, now, is_gone),
        state.down,
    )


def _is_being_tried(state: ModelState, now: float, is_gone: Callable[[str, float], bool]) -> bool:
    """Whether a request is under way, or waits, of a process that is still there."""
    busy = ((name, each.seen) for name, each in state.members.items() if each.in_flight or each.waiting)
    return any(not is_gone(name, now - seen) for name, seen in busy)


def _take_back(state: ModelState, now: float, process: str, is_gone: Callable[[str, float], bool]) -> None:
    silent = [(name, now - member.seen) for name, member in state.members.items() if name != process]
    for name, seconds in silent:
        if is_gone(name, seconds):
            leave(state, name)


def _note(state: ModelState, report: Report, now: float) -> Member:
    """Take note of what a process has under way, and take back what it has not used."""
    member = state.members.get(report.process)
    if member is None:
        member = state.members[report.process] = Member(now)
    if report.waiting and not (member.waiting or member.in_flight):
        # Who comes later has no claim to what the others were given before.
        busy = [each.served for each in state.members.values() if each is not member and each.waiting]
        member.served = max(member.served, min(busy, default=0.0))
    member.seen, member.most = now, report.most
    member.in_flight, member.waiting = report.in_flight, report.waiting
    member.served += report.begun
    if state.requests is not None:
        state.requests.level += report.unused_starts
    if state.tokens is not None:
        state.tokens.level += report.unused_tokens
    return member


def _note_refusals(state: ModelState, refusals: Refusals, limits: Limits, now: float) -> None:
    for status, number in refusals.statuses.items():
        state.refused[status] = state.refused.get(status, 0) + number
    # Once for each round trip: all others of the burst were sent before the model was known to be full.
    if state.rounds == 0 and now - refusals.began_ago_s >= state.halved_at:
        state.width = max(1.0, min(state.width, _cap(state, limits)) / 2)
        state.least = min(state.least or int(state.width), int(state.width))
        state.is_ramping, state.halved_at = False, now
    _keep_quiet(state, refusals.failure, limits, now, min(refusals.wait_s, LONGEST_WAIT_S))


def _note_failure(state: ModelState, failure: Failure, limits: Limits, now: float) -> None:
    if state.down is not None:
        return
    state.outages += state.rounds == 0
    if failure.lasts:
        state.strikes += 1
        good_before = state.replied > 0 and failure.cause in NEVER_LASTING
        if not good_before or state.strikes >= MOST_STRIKES:
            _give_up(state, failure)
    elif state.replied == state.rounds == 0:  # an address with nobody there is no outage
        _give_up(state, failure)
    else:
        _keep_quiet(state, failure, limits, now, 0.0)


def _keep_quiet(state: ModelState, failure: Failure, limits: Limits, now: float, wait_s: float) -> None:
    """Have nothing begun for a while, each time longer; after that one request tries it for all."""
    if state.rounds == 0:
        state.trouble_since = now
    if now >= state.quiet_until or state.rounds == 0:
        state.rounds += 1
    state.probe = ""
    if not wait_s or state.rounds > 1:  # what it says is believed once: asked each second, it is asked a lot
        wait_s = max(wait_s, min(FIRST_WAIT_S * 2.0 ** (state.rounds - 1), LONGEST_BACKOFF_S))
    state.quiet_until = max(state.quiet_until, now + wait_s)
    if now - state.trouble_since >= limits.patience_s:
        _give_up(state, failure)


def _give_up(state: ModelState, failure: Failure) -> None:
    state.down, state.rounds = failure, max(1, state.rounds)


def _note_replies(state: ModelState, report: Report, now: float) -> None:
    state.replied += report.replied
    state.strikes = 0
    if state.down is None and now >= state.quiet_until:
        # Not while all are quiet: what comes in then may have been sent before.
        state.rounds, state.probe = 0, ""
    in_flight = sum(each.in_flight for each in state.members.values())
    if 2 * (in_flight + report.replied) >= state.width:  # else nobody knows whether more would do
        grown = report.replied if state.is_ramping else report.replied / state.width
        state.width = max(state.width, min(state.width + grown, _cap(state, report.limits)))


def _cap(state: ModelState, limits: Limits) -> float:
    return float(limits.at_once or sum(each.most for each in state.members.values()) or 1)


def _share(state: ModelState, report: Report, member: Member, now: float) -> Share:
    if state.down is not None:
        return Share(replied=state.replied, is_in_trouble=True, down=state.down)
    if report.most == 0:
        leave(state, report.process)
        return Share(replied=state.replied, is_in_trouble=state.rounds > 0)
    if now < state.quiet_until:
        member.held = member.in_flight
        again_s = state.quiet_until - now
        return Share(member.in_flight, 0, 0, again_s, state.replied, is_in_trouble=state.rounds > 0)
    if state.rounds:
        return _probe(state, report, member, now)
    return _fair_share(state, report, member, now)


def _probe(state: ModelState, report: Report, member: Member, now: float) -> Share:
    """Let one request through, of whoever comes first."""
    is_free = not state.probe or now - state.probe_since > PROBE_S or state.probe not in state.members
    is_mine = is_free and report.waiting > 0
    if is_mine:
        state.probe, state.probe_since = report.process, now
    member.held = member.in_flight + is_mine
    return Share(member.held, int(is_mine), None, LOOK_AGAIN_S, state.replied, is_in_trouble=True)


def _fair_share(state: ModelState, report: Report, member: Member, now: float) -> Share:
    width = int(min(state.width, _cap(state, report.limits)))
    if len(state.members) == 1:
        member.held, others_wait = max(width, member.in_flight), False
    else:
        mine, others_wait = _fair_places(state, member, width)
        free = width - sum(each.held for each in state.members.values() if each is not member)
        member.held = max(member.in_flight, min(mine, free))
    starts, starts_in_s = _starts(state, report, now)
    tokens, tokens_in_s = _tokens(state, report, now)
    is_free = member.held - member.in_flight > 0
    again_s = max(starts_in_s, tokens_in_s) if is_free else LOOK_AGAIN_S
    return Share(member.held, starts, tokens, again_s, state.replied, others_wait=others_wait)


def _fair_places(state: ModelState, member: Member, width: int) -> tuple[int, bool]:
    """Give how many of ``width`` places a process should have, and whether others want more than theirs.

    All have the same, but for those who want less. What is left over by a division goes to who was given
    least so far; what nobody wants is kept ready by those who are there.
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


def _starts(state: ModelState, report: Report, now: float) -> tuple[int | None, float]:
    """Grant requests of the limit per minute; with the seconds until there is one more."""
    limit, bucket = report.limits.requests_per_minute, state.requests
    if limit is None or bucket is None:
        return None, 0.0
    holds = bucket.fill(limit, now)
    granted = min(report.waiting, _portion(state, report, int(bucket.level + 1e-9)))
    bucket.level -= granted
    return granted, max(SOON_S, (1 - bucket.level) / _per_second(limit, holds))


def _tokens(state: ModelState, report: Report, now: float) -> tuple[int | None, float]:
    """Grant tokens of the limit per minute; one request may take more than there is, and all then wait."""
    limit, bucket = report.limits.tokens_per_minute, state.tokens
    if limit is None or bucket is None:
        return None, 0.0
    holds = bucket.fill(limit, now)
    wanted = min(report.tokens, ceil(holds))
    granted = min(wanted, max(0, int(bucket.level)))
    needed = min(holds, report.tokens / max(1, report.waiting))
    if granted < needed or _portion(state, report, 1) == 0:
        granted = 0
    bucket.level -= granted
    return granted, max(SOON_S, (needed - bucket.level) / _per_second(limit, holds))


def _portion(state: ModelState, report: Report, level: int) -> int:
    """Give how much of what is there a process may take: who was given less comes first."""
    mine = state.members[report.process]
    others = [each for each in state.members.values() if each is not mine and each.waiting]
    if not others or level <= 0:
        return max(0, level)
    behind = sum(mine.served > each.served for each in others)
    return max(0, (level - behind) // (len(others) + 1)) or int(level > behind)
