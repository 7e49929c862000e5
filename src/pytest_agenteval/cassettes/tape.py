"""One trial's open cassette: it plays each recording once, in order, whatever other trials play."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pytest_agenteval.cassettes.cassette import Cassette, Slot
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.matching import Key, Match, address_of, key_of
from pytest_agenteval.cassettes.misses import described, found_instead
from pytest_agenteval.errors import CassetteMiss, Problem


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
        self._played: set[Slot] = set()
        self._next: dict[Key, int] = defaultdict(int)

    @property
    def recording(self) -> bool:
        """May a request that was not played be sent and recorded?"""
        return self.cassette.recording

    def play(self, request: Request, match: Match | None = None) -> Response | None:
        """Give the recorded response, or None; ``match(recorded, asked)`` is asked when none is equal.

        Both of its requests are redacted, and of the same method and address.
        """
        asked = self.cassette.redactor.request(request)
        key = key_of(asked)
        with self.cassette.lock:
            slot = self._find(key, asked, match) if self.cassette.plays else None
            if slot is None:
                self.misses += not self.recording
                return None
            self.hits += 1
            self._played.add(slot)
            return self.cassette.use(slot).response

    def record(self, request: Request, response: Response) -> None:
        """Keep a response that was really given.

        Of equal requests only as many are stored as one trial made: the third is stored if two are held.
        """
        if not self.recording:
            raise RuntimeError(f"{self.cassette.name} is open for replay only: {described(request)}")
        asked = self.cassette.redactor.request(request)
        given = self.cassette.redactor.response(response)
        with self.cassette.lock:
            slot = self._unplayed(key_of(asked))
            if slot is None:
                slot = self.cassette.add(Interaction(asked, given))
            self.cassette.use(slot)
            self._played.add(slot)
            self.recorded += 1

    def miss(self, request: Request, retry_command: str) -> CassetteMiss:
        """Make the error that names the nearest recording and the command that records this request."""
        asked = self.cassette.redactor.request(request)
        with self.cassette.lock:
            same = len(self.cassette.same(key_of(asked)))
            recorded = [interaction.request for interaction in self.cassette.interactions]
        found = found_instead(asked, same, recorded)
        what = "reply" if self.cassette.kind == "chat" else "call"
        expected = f"a recorded {what} (mode is {self._why()}: nothing is sent)"
        hint = f"record it:  {retry_command}"
        return CassetteMiss(
            str(Problem(self.cassette.name, None, (described(asked),), expected, found, hint))
        )

    def _why(self) -> str:
        if self.cassette.mode == "none":
            return "replay"
        return f"{self.cassette.mode}, and the file was there before"

    def _find(self, key: Key, asked: Request, match: Match | None) -> Slot | None:
        """Look for an equal request, then for one that ``match`` accepts; unplayed ones come first."""
        same = self.cassette.same(key)
        slot = self._unplayed(key)
        if slot is None and same and self._repeats:
            slot = same[-1]
        if slot is None and match is not None:
            slot = self._matching(asked, match)
        return slot

    @property
    def _repeats(self) -> bool:
        return self.allow_repeats and not self.recording

    def _unplayed(self, key: Key) -> Slot | None:
        """Give the first equal request that this tape has not played; never walks over one twice."""
        same, at = self.cassette.same(key), self._next[key]
        while at < len(same) and same[at] in self._played:
            at += 1
        self._next[key] = at
        return same[at] if at < len(same) else None

    def _matching(self, asked: Request, match: Match) -> Slot | None:
        slots: Sequence[Slot] = self.cassette.alike(address_of(asked))
        accepted = [slot for slot in slots if match(self.cassette.at(slot).request, asked)]
        unplayed = next((slot for slot in accepted if slot not in self._played), None)
        if unplayed is None and accepted and self._repeats:
            return accepted[-1]
        return unplayed
