"""A trial's chat cassette as clients of other people's see it: requests and responses as they travel."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pytest_agenteval.cassettes.interaction import CHAT, Request, Response
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.cassettes.wire.classification import classify
from pytest_agenteval.cassettes.wire.reader import prompt_identity, read_request, without_ids
from pytest_agenteval.cassettes.wire.traffic import ModelRequest, UnreadableTraffic
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import CassetteMiss


class RecordedReply(FrozenValue, frozen=True):
    """A recorded response to an ask; ``prompt_differs`` where something else was asked when it was given."""

    response: Response
    prompt_differs: bool


class ModelTape:
    """The recorded model requests of one trial's agent: those of its model and repetition, in their order.

    An ask is answered by the first recording, not yet played, of the same prompt; where there is none, by
    the one that was asked of the same model and has most messages in common with it, of several the next. For
    ids and dates in prompts differ from run to run, and of agents that ask side by side now this one is first
    and now that; who changed a prompt is told. While new requests are recorded, another prompt is a new
    request.
    """

    def __init__(self, tape: Tape, retry_command: str, model_hosts: Collection[str] = ()) -> None:
        self._tape, self._retry_command, self._model_hosts = tape, retry_command, model_hosts
        self._asks: dict[int, ModelRequest | None] = {}
        self._identities: dict[int, tuple[bool, str] | None] = {}

    @property
    def recording(self) -> bool:
        """Whether a request that was not played may be sent, and is recorded."""
        return self._tape.recording

    @property
    def name(self) -> str:
        """The cassette's file."""
        return self._tape.cassette.name

    @property
    def hits(self) -> int:
        """How many requests were played."""
        return self._tape.hits

    @property
    def misses(self) -> int:
        """How many requests were neither played nor could be sent."""
        return self._tape.misses

    @property
    def recorded(self) -> int:
        """How many requests were recorded."""
        return self._tape.recorded

    def find_ask(self, request: Request, asked: ModelRequest | None) -> RecordedReply | None:
        """Play the reply to an ask, or give None; ``asked`` is what was read of the request, if it was."""
        redacted = self._tape.cassette.redactor.request(request)
        if asked is None or (redacted.uri, redacted.body) != (request.uri, request.body):
            asked = self._read(redacted)
        if asked is None:
            return None
        # Who asks for events cannot read a document, nor the other way round.
        identity = (asked.streamed, prompt_identity(asked))
        same = self._tape.find_next(lambda recorded: self._identity(recorded) == identity)
        if same is not None:
            return RecordedReply(same.response, prompt_differs=False)
        near = None if self.recording else self._tape.find_nearest(partial(self._nearness, asked))
        return None if near is None else RecordedReply(near.response, prompt_differs=True)

    def _identity(self, recorded: Request) -> tuple[bool, str] | None:
        if id(recorded) not in self._identities:
            asked = self._recorded_ask(recorded)
            identity = None if asked is None else (asked.streamed, prompt_identity(asked))
            self._identities[id(recorded)] = identity
        return self._identities[id(recorded)]

    def _nearness(self, asked: ModelRequest, recorded: Request) -> int | None:
        """Count the messages that two asks of one model have in common, each at its place."""
        other = self._recorded_ask(recorded)
        if other is None or _way(other) != _way(asked):
            return None
        pairs = zip(map(without_ids, asked.messages), map(without_ids, other.messages), strict=False)
        return sum(ours == theirs for ours, theirs in pairs)

    def _recorded_ask(self, recorded: Request) -> ModelRequest | None:
        # A cassette holds its requests as long as it is open: none takes another's id.
        if id(recorded) not in self._asks:
            self._asks[id(recorded)] = self._read(recorded)
        return self._asks[id(recorded)]

    def _read(self, request: Request) -> ModelRequest | None:
        """Give what a request asks a model; None where it is no ask."""
        if request.uri.startswith(CHAT):
            return None
        classified = classify(request, self._model_hosts)
        try:
            return read_request(classified.format, request) if classified.kind == "ask" else None
        except UnreadableTraffic:
            return None

    def find_other(self, request: Request) -> Response | None:
        """Play the response to what is no ask, or give None: requests are compared as they are."""
        interaction = self._tape.find((request,))
        return None if interaction is None else interaction.response

    def record(self, request: Request, response: Response) -> None:
        """Keep a response that was really given."""
        self._tape.record(request, response)

    def miss(self, request: Request) -> CassetteMiss:
        """Make the error that says what differs from the nearest recording, and how to record this one."""
        self._tape.missed()
        return self._tape.miss(request, self._retry_command)


def _way(asked: ModelRequest) -> tuple[str, str, bool]:
    """Give what has to be equal for the reply to one ask to be read as that to another."""
    return asked.format, asked.model, asked.streamed
