"""The recorded model requests of one trial's agent, and which of them answers a request."""

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
from pytest_agenteval.text.formatting import pluralize, printable


class RecordedReply(FrozenValue, frozen=True):
    """A recorded response to an ask; ``prompt_differs`` if it was recorded for another prompt."""

    response: Response
    prompt_differs: bool


class ModelTape:
    """The recorded model requests of one trial's agent: those of its model and repetition, in their order.

    An ask is answered by the first recording of the same prompt that was not replayed yet. Without one, it is
    answered by the next recording for the same model that has most messages in common with it, and an event
    reports that the prompt differs. While new requests are recorded, another prompt is a new request.
    """

    def __init__(self, tape: Tape, retry_command: str, model_hosts: Collection[str] = ()) -> None:
        self.tape, self._retry_command, self._model_hosts = tape, retry_command, model_hosts
        self._asks: dict[int, ModelRequest | None] = {}
        self._identities: dict[int, tuple[bool, str] | None] = {}

    @property
    def recording(self) -> bool:
        """Whether a request that was not replayed may be sent, and is recorded."""
        return self.tape.recording

    @property
    def name(self) -> str:
        """The name of the cassette's file."""
        return self.tape.cassette.name

    def find_ask(self, request: Request, ask: ModelRequest | None) -> RecordedReply | None:
        """Replay the reply to an ask, or give None; ``ask`` is the request as read, if it was read before."""
        redacted = self.tape.cassette.redactor.request(request)
        # Cassettes hold redacted requests, so the redacted form is compared.
        if ask is None or (redacted.uri, redacted.body) != (request.uri, request.body):
            ask = self._read(redacted)
        if ask is None:
            return None
        # A client that asks for events cannot read a document, nor the other way round.
        identity = identity_of(ask)
        same = self.tape.find_next(lambda recorded: self._identity(recorded) == identity)
        if same is not None:
            return RecordedReply(same.response, prompt_differs=False)
        # Ids and dates in prompts differ from run to run, and agents that work side by side send requests in
        # changing order: a replay takes the most similar recording.
        near = None if self.recording else self.tape.find_nearest(partial(self._nearness, ask))
        return None if near is None else RecordedReply(near.response, prompt_differs=True)

    def _identity(self, recorded: Request) -> tuple[bool, str] | None:
        if id(recorded) not in self._identities:
            ask = self._recorded_ask(recorded)
            self._identities[id(recorded)] = None if ask is None else identity_of(ask)
        return self._identities[id(recorded)]

    def _nearness(self, ask: ModelRequest, recorded: Request) -> int | None:
        """Count the messages that two asks of one model have in common, position by position."""
        other = self._recorded_ask(recorded)
        if other is None or _reply_format(other) != _reply_format(ask):
            return None
        pairs = zip(map(without_ids, ask.messages), map(without_ids, other.messages), strict=False)
        return sum(ours == theirs for ours, theirs in pairs)

    def _recorded_ask(self, recorded: Request) -> ModelRequest | None:
        # A cassette holds its requests as long as it is open, so no id is used twice.
        if id(recorded) not in self._asks:
            self._asks[id(recorded)] = self._read(recorded)
        return self._asks[id(recorded)]

    def _read(self, request: Request) -> ModelRequest | None:
        if request.uri.startswith(CHAT):
            return None
        classified = classify(request, self._model_hosts)
        try:
            return read_request(classified.format, request) if classified.kind == "ask" else None
        except UnreadableTraffic:
            return None

    def find_other(self, request: Request) -> Response | None:
        """Replay the response to a request that is no ask, or give None; such requests have to be equal."""
        interaction = self.tape.find((request,))
        return None if interaction is None else interaction.response

    def record(self, request: Request, response: Response) -> None:
        self.tape.record(request, response)

    def miss(self, request: Request) -> CassetteMiss:
        """Make the error that names the nearest recording, what differs, and how to record the request."""
        self.tape.missed()
        return self.tape.miss(request, self._retry_command, found=self._all_replayed(request))

    def _all_replayed(self, request: Request) -> str:
        """Say how many replies of the request's model are recorded: each is replayed once, at any address."""
        ask = self._read(self.tape.cassette.redactor.request(request))
        if ask is None:
            return ""
        others = map(self._recorded_ask, self.tape.cassette.requests)
        same = sum(other is not None and _reply_format(other) == _reply_format(ask) for other in others)
        replies = f"{pluralize(same, 'reply')} of {printable(ask.model)}"
        return f"{replies}, replayed already: this request is one more" if same else ""


def _reply_format(ask: ModelRequest) -> tuple[str, str, bool]:
    # What has to be equal for the reply to one ask to be read as that to another.
    return ask.format, ask.model, ask.streamed


def identity_of(ask: ModelRequest) -> tuple[bool, str]:
    return ask.streamed, prompt_identity(ask)
