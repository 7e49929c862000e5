"""One recording as a process holds it: loaded once, looked up in constant time, played by many tapes."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Literal, TypeAlias

from pytest_agenteval.cassettes import cassette_files
from pytest_agenteval.cassettes.http.messages import normalize_request, normalize_response
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    http_request_of,
    is_http_exchange,
    is_unanswered,
    with_http_request,
)
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_matching import InteractionIndex, InteractionSlot

RecordMode: TypeAlias = Literal["none", "once", "new_episodes", "all"]
TapeKind: TypeAlias = Literal["tool", "chat"]


class Cassette:
    """What one file holds, and what the trials of this process add to it.

    A slot is the place of an interaction; slots never change, so a tape can note which ones it has played.
    Nothing is given out that has not been redacted; of what is read from a file, requests are redacted at
    once, as they are compared, and each response when it is first looked at: most never are.

    ``started`` is when the run began. What a file held before is dropped by mode ``all``; a file written
    since is of this run, by another worker, so that ``once`` goes on recording into it and ``all`` keeps it.
    A file is unfinished where a trial that began it broke: ``once`` plays what it holds, failures of servers
    aside, and records what is missing.
    """

    def __init__(
        self,
        path: Path,
        mode: RecordMode = "none",
        kind: TapeKind = "tool",
        *,
        name: str = "",
        redactor: Redactor | None = None,
        started: float | None = None,
    ) -> None:
        self.path, self.name, self.kind, self.mode = path, name or str(path), kind, mode
        self.redactor = redactor or Redactor.from_environ()
        self.started = time.time() if started is None else started
        self.lock = threading.RLock()
        self.dirty = False
        self.recorded = InteractionIndex()
        self._broken_trials: set[str] = set()
        self._used: set[InteractionSlot] = set()
        self._as_read: set[InteractionSlot] = set()
        recording = cassette_files.read_cassette(self.path, self.name)
        # Another worker of the same run may have written the file a moment ago: that is no earlier recording.
        of_this_run = recording.since(self.started)
        self._unfinished = recording.unfinished and not of_this_run
        self._new = not recording.there or of_this_run or self._unfinished or self.mode == "all"
        self.recording = self.mode in ("all", "new_episodes") or (self.mode == "once" and self._new)
        self._replaces = self.mode == "all" and recording.there and not of_this_run
        if self.mode != "all" or of_this_run:
            for interaction in filter(self._stays, recording.interactions):
                # The response is redacted when it is first given out: most never are.
                request = self.redactor.request(normalize_request(interaction.request))
                response, sent = interaction.response, http_request_of(interaction.response)
                if sent is not None:
                    response = with_http_request(response, self.redactor.request(sent))
                self._as_read.add(self.recorded.append(Interaction(request, response)))

    def _stays(self, held: Interaction) -> bool:
        """Whether an interaction of the file is played: a server's failure is not, where a trial broke.

        It is requested again.
        """
        # A recorded tool's error has the status 500 too, and is an answer.
        failed = held.response.status >= 500 and is_http_exchange(held)
        return not (failed and self._unfinished and self.recording)

    def note_trial(self, trial: str, *, broken: bool) -> None:
        """Remember how a trial of this process ended; after one that broke the file is unfinished."""
        with self.lock:
            if self.recording and self._new and broken != (trial in self._broken_trials):
                (self._broken_trials.add if broken else self._broken_trials.discard)(trial)
                self.dirty = self.dirty or len(self) > 0
            # Nothing may have been recorded, and yet the mark of the earlier run has to go.
            if self.recording and self._unfinished and not self._broken_trials:
                self.dirty = True

    def __len__(self) -> int:
        return len(self.recorded)

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        """All that is held, in the order of the file, then of recording."""
        with self.lock:
            return tuple(map(self.interaction_at, range(len(self))))

    @property
    def plays(self) -> bool:
        """Can anything recorded be played, or is everything sent and recorded?"""
        goes_on = self.mode == "once" and self._unfinished
        return self.mode in ("none", "new_episodes") or not self.recording or goes_on

    def interaction_at(self, slot: InteractionSlot) -> Interaction:
        interaction = self.recorded[slot]
        if slot in self._as_read:
            with self.lock:
                response = self.redactor.response(normalize_response(interaction.response))
                interaction = self.recorded.replace_response(slot, Interaction(interaction.request, response))
                self._as_read.discard(slot)
        return interaction

    @property
    def requests(self) -> tuple[Request, ...]:
        with self.lock:
            return self.recorded.requests

    def use(self, slot: InteractionSlot) -> Interaction:
        """Give the interaction of a slot, and remember that it was needed."""
        self._used.add(slot)
        return self.interaction_at(slot)

    def add(self, interaction: Interaction) -> InteractionSlot:
        """Hold a new interaction, which has been redacted; it is on disk after the next save."""
        with self.lock:
            self.dirty = True
            slot = self.recorded.append(interaction)
            self._used.add(slot)
            return slot

    @property
    def unused_slots(self) -> frozenset[InteractionSlot]:
        """The places of the interactions that no tape of this process has played or recorded."""
        with self.lock:
            return frozenset(range(len(self))) - self._used

    def _clean(self, given: Interaction) -> Interaction | None:
        if not self._stays(given):
            return None
        # Decoded first: a secret inside of a compressed body would stay.
        return self.redactor.interaction(
            Interaction(normalize_request(given.request), normalize_response(given.response))
        )

    def save(self) -> bool:
        """Add what is new to the file, and say whether there was anything; after a failure, try again."""
        with self.lock:
            if not self.dirty:
                return False
            # Cleared before the file is written: what is recorded meanwhile makes it dirty again.
            ours, self.dirty, unfinished = self.interactions, False, bool(self._broken_trials)
        # Without a network a recording would be replaced by failures.
        if self._replaces and all(map(is_unanswered, ours)):
            return False
        since = self.started if self.mode == "all" else None
        try:
            cassette_files.save_cassette(
                self.path,
                ours,
                name=self.name,
                since=since,
                started=self.started,
                unfinished=unfinished,
                clean=self._clean,
            )
        except BaseException:
            self.dirty = True
            raise
        return True
