"""One trial's open cassette: it plays each recording once, in order, whatever other trials play."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from pytest_agenteval.cassettes.candidate_index import InteractionSlot
from pytest_agenteval.cassettes.cassette import Cassette
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.miss_report import describe_request, nearest_recording
from pytest_agenteval.cassettes.request_identity import CallMatcher, Key, Match, address_of, key_of
from pytest_agenteval.text.errors import CassetteMiss, Problem


class Tape:
    """Plays and records for one trial; calls may come from several threads at once.

    ``play`` gives None where nothing recorded answers. If ``recording``, send the request and ``record`` the
    response; else it is a miss. Identical requests play their recordings in the order of recording.
    Beyond the last one, a replay with ``allow_repeats`` plays the last one again, and one without misses;
    while recording, what is asked more often than it was recorded is new, and is recorded.

    ``hits`` counts requests played, ``misses`` those that were neither played nor could be recorded,
    ``recorded`` those recorded, also where another trial had recorded an equal one first.
    """

    def __init__(self, cassette: Cassette, allow_repeats: bool) -> None:
        self.cassette = cassette
        self.allow_repeats = allow_repeats
        self.hits = self.misses = self.recorded = 0
        self._played: set[InteractionSlot] = set()
        self._next: dict[Key, int] = defaultdict(int)

    @property
    def recording(self) -> bool:
        """May a request that was not played be sent and recorded?"""
        return self.cassette.recording

    def play(self, request: Request, match: Match | None = None) -> Response | None:
        """Give the recorded response, or None; ``match(recorded, asked)`` is asked when none is equal.

        Both of its requests are redacted, and of the same method and address.
        """
        interaction = self.find((request,), match=match)
        if interaction is None:
            self.missed()
        return interaction.response if interaction else None

    def find(
        self, ways: Sequence[Request], matcher: CallMatcher | None = None, *, match: Match | None = None
    ) -> Interaction | None:
        """Play what answers one question, written in several ways; None, which is not counted, if nothing.

        A request equal to one of the ways comes first, then what ``match`` accepts, then what ``matcher``
        takes for the same call.
        """
        redacted_ways = [self.cassette.redactor.request(way) for way in ways]
        with self.cassette.lock:
            slot = self._find(redacted_ways, matcher, match) if self.cassette.plays else None
            if slot is None:
                return None
            self.hits += 1
            self._played.add(slot)
            return self.cassette.use(slot)

    def find_next(self, accepts: Callable[[Request], bool]) -> Interaction | None:
        """Play the first recording, in the order of the file, that is accepted and was not played; or None.

        None is not counted. What was played once is not played again.
        """
        with self.cassette.lock:
            if not self.cassette.plays:
                return None
            for slot, recorded in enumerate(self.cassette.requests):
                if slot not in self._played and accepts(recorded):
                    self.hits += 1
                    self._played.add(slot)
                    return self.cassette.use(slot)
            return None

    def find_nearest(self, nearness: Callable[[Request], float | None]) -> Interaction | None:
        """Play the nearest recording that was not played, of several the first in the file; or None.

        ``nearness`` gives None for one that is no answer at all. Not counted, and played once, as above.
        """
        with self.cassette.lock:
            if not self.cassette.plays:
                return None
            requests = enumerate(self.cassette.requests)
            near = {slot: nearness(recorded) for slot, recorded in requests if slot not in self._played}
            known = {slot: each for slot, each in near.items() if each is not None}
            if not known:
                return None
            slot = max(known, key=lambda slot: known[slot])
            self.hits += 1
            self._played.add(slot)
            return self.cassette.use(slot)

    def missed(self) -> None:
        """Count a request that nothing answered; no miss if it may be sent and recorded."""
        with self.cassette.lock:
            self.misses += not self.recording

    def record(self, request: Request, response: Response) -> None:
        """Keep a response that was really given.

        Of equal requests only as many are stored as one trial made: the third is stored if two are held.
        """
        if not self.recording:
            raise RuntimeError(f"{self.cassette.name} is open for replay only: {describe_request(request)}")
        redacted = self.cassette.redactor.request(request)
        given = self.cassette.redactor.response(response)
        with self.cassette.lock:
            slot = self._unplayed(key_of(redacted))
            if slot is None:
                slot = self.cassette.add(Interaction(redacted, given))
            self.cassette.use(slot)
            self._played.add(slot)
            self.recorded += 1

    def miss(
        self,
        request: Request,
        retry_command: str,
        recorded: Sequence[Request] | None = None,
        *,
        other_way: str = "",
    ) -> CassetteMiss:
        """Make the error that names the nearest recording and the command that records this request.

        ``recorded`` are the requests that it might have been, if they are not just those of the cassette.
        ``other_way`` is what else can be done; without a command, the only thing.
        """
        redacted = self.cassette.redactor.request(request)
        with self.cassette.lock:
            same = len(self.cassette.recorded.by_request(key_of(redacted)))
        nearest = nearest_recording(redacted, same, self.cassette.requests if recorded is None else recorded)
        what = "reply" if self.cassette.kind == "chat" else "call"
        expected = f"a recorded {what} (mode is {self._mode_and_reason()}: nothing is sent)"
        ways = [f"record it:  {retry_command}" if retry_command else "", other_way]
        hint = f"\n{' ' * 12}".join(filter(None, ways))
        return CassetteMiss(
            Problem(self.cassette.name, None, (describe_request(redacted),), expected, nearest, hint)
        )

    def _mode_and_reason(self) -> str:
        if self.cassette.mode == "none":
            return "replay"
        return f"{self.cassette.mode}, and the file was there before"

    def _find(
        self, requests: Sequence[Request], matcher: CallMatcher | None, match: Match | None
    ) -> InteractionSlot | None:
        """Look for an equal request, then for one that is accepted; unplayed ones come first."""
        for way in requests:
            slot = self._find_equal(key_of(way))
            if slot is not None:
                return slot
        slot = self._find_matching(requests[0], match) if match is not None else None
        if slot is None and matcher is not None:
            slot = self._find_accepted(requests[0], matcher)
        return slot

    def _find_equal(self, key: Key) -> InteractionSlot | None:
        same = self.cassette.recorded.by_request(key)
        slot = self._unplayed(key)
        return same[-1] if slot is None and same and self._repeats else slot

    @property
    def _repeats(self) -> bool:
        return self.allow_repeats and not self.recording

    def _unplayed(self, key: Key) -> InteractionSlot | None:
        """Give the first equal request that this tape has not played; never walks over one twice."""
        same, at = self.cassette.recorded.by_request(key), self._next[key]
        while at < len(same) and same[at] in self._played:
            at += 1
        self._next[key] = at
        return same[at] if at < len(same) else None

    def _find_matching(self, request: Request, match: Match) -> InteractionSlot | None:
        slots: Sequence[InteractionSlot] = self.cassette.recorded.by_endpoint(address_of(request))
        accepted = [slot for slot in slots if match(self.cassette.recorded[slot].request, request)]
        unplayed = next((slot for slot in accepted if slot not in self._played), None)
        if unplayed is None and accepted and self._repeats:
            return accepted[-1]
        return unplayed

    def _find_accepted(self, request: Request, matcher: CallMatcher) -> InteractionSlot | None:
        """Prefer the nearest call, so that who asks the same again is told the same again."""
        args = matcher.read_asked(request)
        if args is None:
            return None
        index = self.cassette.recorded.by_call(matcher)
        open_ = [slot for slot in index.candidates(args) if self._repeats or slot not in self._played]
        accepted = [slot for slot in open_ if matcher.matchers.accepts(index.args(slot), args)]
        if len(accepted) < 2:
            return accepted[0] if accepted else None
        return max(
            accepted,
            key=lambda slot: (*matcher.matchers.nearness(index.args(slot), args), *self._play_order(slot)),
        )

    def _play_order(self, slot: InteractionSlot) -> tuple[bool, int]:
        """Of calls as near as each other, the first not yet played, else the last one again."""
        unplayed = slot not in self._played
        return unplayed, -slot if unplayed else slot
