"""The requests that an agent sends to models by itself: counted, transcribed, replayed and recorded.

Requests come from a patched client or from a server on loopback; here it makes no difference which.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.exchange import failure_text, is_failure
from pytest_agenteval.cassettes.http.scope import BROKE_OFF, GIVEN_UP, NotRecorded, for_this_thread
from pytest_agenteval.cassettes.interaction import CHAT, Body, Request, Response, text_of
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.cassettes.wire.classification import classify, may_ask_a_model, may_be_of_a_model
from pytest_agenteval.cassettes.wire.reader import prompt_identity, read_reply, read_request, without_ids
from pytest_agenteval.cassettes.wire.traffic import (
    Classified,
    ModelRefused,
    ModelReply,
    ModelRequest,
    UnreadableTraffic,
)
from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.replies import INCOMPLETE, UNKNOWN
from pytest_agenteval.records.tool_spec import read_json
from pytest_agenteval.records.transcript import (
    CHANGED_PROMPT,
    UNREAD_REPLY,
    UNREAD_REQUEST,
    UNTOLD_TOKENS,
    Ask,
    ToolError,
)
from pytest_agenteval.text.errors import CassetteMiss, LimitIgnored, LimitReached, ProviderDown, TrialBroken


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

    def find_ask(self, request: Request, ask: ModelRequest | None) -> RecordedReply | None:
        """Play the reply to an ask, or give None; ``asked`` is what was read of the request, if it was."""
        redacted = self._tape.cassette.redactor.request(request)
        if ask is None or (redacted.uri, redacted.body) != (request.uri, request.body):
            ask = self._read(redacted)
        if ask is None:
            return None
        # Who asks for events cannot read a document, nor the other way round.
        identity = (ask.streamed, prompt_identity(ask))
        same = self._tape.find_next(lambda recorded: self._identity(recorded) == identity)
        if same is not None:
            return RecordedReply(same.response, prompt_differs=False)
        near = None if self.recording else self._tape.find_nearest(partial(self._nearness, ask))
        return None if near is None else RecordedReply(near.response, prompt_differs=True)

    def _identity(self, recorded: Request) -> tuple[bool, str] | None:
        if id(recorded) not in self._identities:
            ask = self._recorded_ask(recorded)
            identity = None if ask is None else (ask.streamed, prompt_identity(ask))
            self._identities[id(recorded)] = identity
        return self._identities[id(recorded)]

    def _nearness(self, ask: ModelRequest, recorded: Request) -> int | None:
        """Count the messages that two asks of one model have in common, each at its place."""
        other = self._recorded_ask(recorded)
        if other is None or _reply_format(other) != _reply_format(ask):
            return None
        pairs = zip(map(without_ids, ask.messages), map(without_ids, other.messages), strict=False)
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


def _reply_format(ask: ModelRequest) -> tuple[str, str, bool]:
    """Give what has to be equal for the reply to one ask to be read as that to another."""
    return ask.format, ask.model, ask.streamed


FAILED_REQUEST, CUT_REPLY = "model_request_failed", "cut_reply"
"""Kinds of events: an attempt that failed, a reply that ended before its time."""

MOST_FORGIVEN = 10
"""How often in a row attempts may fail until the time of more is the agent's own: it would ask for ever."""

PASSING_FAILURES = frozenset({401, 403, 404, 408, 409, 425, 429, 498, 529})
"""Statuses that say nothing of what was asked: the same request may be answered another time."""


class NotAllowed(TrialBroken):
    """An agent was about to ask its own model, and nobody said that it may."""

    cause = "not_allowed"


class _Exchange(NamedTuple):
    """One request of a model that is under way: the reply that it waits for, and its conversation.

    ``refused_at`` is when a status came that says that there is no reply.
    """

    request: Request
    ask: ModelRequest
    turn: int
    phase: int
    started: float
    refused_at: float | None = None


class _Outcome(NamedTuple):
    """What was asked, and when; ``ended`` is when a reply or a failure came."""

    ask: ModelRequest
    started: float
    ended: float
    failure: ProviderDown | None = None
    given_up: bool = False

    def covers(self, other: _Outcome) -> bool:
        """Whether what the other asked was asked here too, of whichever model; the conversation may go on."""
        ours, theirs = _conversation(self.ask), _conversation(other.ask)
        return ours[: len(theirs)] == theirs


class ModelTraffic:
    """The model requests of one trial's agent; they may come from several threads at once.

    ``tape`` plays and records them; None where chats are not taped. ``sends`` says whether one that is not
    played may be sent, ``refusal`` what is said where it may not. ``model_hosts`` are servers whose every
    request is a model's. What a trial may still use is asked before each request: one that it may not make
    ends the agent.
    """

    def __init__(
        self,
        recorder: Recorder,
        budget: Budget,
        tape: ModelTape | None,
        *,
        sends: bool,
        refusal: str,
        model_hosts: Collection[str] = (),
    ) -> None:
        self._recorder, self._budget, self._tape = recorder, budget, tape
        self._sends, self._refusal, self._model_hosts = sends, refusal, tuple(model_hosts)
        self._lock = threading.RLock()
        self._under_way: dict[int, _Exchange] = {}
        self._classified = threading.local()
        self._phases: dict[str, int] = {}
        self._failed: list[tuple[ModelRequest, Request, Response]] = []
        self._unread: set[tuple[str, str, Body]] = set()
        self._items: dict[str, Mapping[str, Any]] = {}
        self._failures: list[_Outcome] = []
        self._answered: list[_Outcome] = []
        self._failed_at = 0.0
        self._failed_in_a_row = 0
        self._refused: BaseException | None = None
        self._free_turns: set[int] = set()
        self.asks = 0

    @property
    def sends(self) -> bool:
        """Whether a request that is not played may be sent."""
        return self._sends if self._tape is None else self._tape.recording

    def claims(self, request: Request) -> bool:
        """Whether a request asks a model, or something else of a model's server."""
        return self._classify(request).kind != "other"

    def play(self, request: Request) -> Response | None:
        """Give the recorded response; None if the request is to be sent, and then handed to ``record``.

        Raises what ends the agent where its limit is reached, or where nothing answers and nothing may be
        sent.
        """
        classified = self._classify(request)
        ask = self._read_request(classified, request) if classified.kind == "ask" else None
        if ask is None:
            return self._play_other(request, classified)
        exchange = self._begin(request, ask)
        recorded = self._find_recorded(request, ask)
        if recorded is not None:
            if recorded.prompt_differs:
                self._note_changed_prompt(exchange)
            if recorded.response.status >= 300:
                self._note_failure(
                    exchange, request, recorded.response, passing=_is_passing(recorded.response)
                )
            else:
                self._finish(exchange, recorded.response, None, taped=True)
            return recorded.response
        if not self.sends:
            self._undo(exchange)
            self._budget.end_request(exchange.started, exchange.started, failed=True)
            raise self._refuse(request)
        self._under_way[id(request)] = exchange
        return None

    def begin_response(self, request: Request, status: int) -> None:
        """Take a request back that brings no reply: who asked may ask again before reading why."""
        exchange = self._under_way.get(id(request))
        if status >= 300 and exchange is not None:
            self._undo(exchange)
            self._under_way[id(request)] = exchange._replace(refused_at=self._recorder.at())

    def record(self, request: Request, response: Response, first_byte_s: float | None = None) -> None:
        """Read what was really answered, and keep it for a replay, unless it only says to try again."""
        exchange = self._under_way.pop(id(request), None)
        if response.status >= 300:
            passing = _is_passing(response)
            self._note_failure(exchange, request, response, passing=passing)
            if passing:
                self._keep_failure(exchange, request, response)
                return
        elif exchange is not None and not self._finish(exchange, response, first_byte_s):
            return
        if self._tape is not None and self._tape.recording:
            self._tape.record(request, response)

    def cut(self, request: Request, response: Response) -> None:
        """Read what came of a response that ended before its time; status 0 is one that never began.

        It is not recorded: a replay could not tell how much of it was looked at. A stream that was closed
        once the provider had said its last is whole: clients need not wait for the connection's own end.
        """
        broke_off = response.message == BROKE_OFF
        if self._is_whole(request, response, broke_off=broke_off):
            self.record(request, response)
            return
        exchange = self._under_way.pop(id(request), None)
        if exchange is None:
            return
        if response.message == GIVEN_UP:
            self._fail(exchange, GIVEN_UP)
        elif response.status == 0:
            why = f": {' '.join(response.message.split())}" if response.message else ""
            self._fail(exchange, f"no response came{why}")
        elif response.status >= 400:
            self._note_failure(exchange, request, response, passing=True)
        elif not exchange.ask.streamed or broke_off:
            self._fail(exchange, "the reply broke off")
        else:
            self._recorder.event(CUT_REPLY, f"{_place(request)}: the agent closed the reply before its end")
            self._finish(exchange, response, None, closed=True)

    def fail(self, request: Request, cut: Response, failure: Response) -> None:
        """Read what came of a response that never came whole, and keep what the client raised."""
        exchange = self._under_way.get(id(request))
        whole = self._is_whole(request, cut, broke_off=cut.message == BROKE_OFF)
        self.cut(request, cut)
        if not whole:
            self._keep_failure(exchange, request, failure)

    def _keep_failure(self, exchange: _Exchange | None, request: Request, response: Response) -> None:
        """Keep an attempt that failed until its ask is answered by another one, or the trial is over."""
        if exchange is not None:
            with self._lock:
                self._failed.append((exchange.ask, request, response))

    def _record_failures(self) -> None:
        """Record the failures after which the agent went on; one whose ask was answered later is left out."""
        if self._failed and self._tape is not None and self._tape.recording:
            answered = {_identity(each.ask) for each in self._answered}
            for ask, request, response in self._failed:
                if _identity(ask) not in answered:
                    self._tape.record(request, response)

    def close(self) -> None:
        """End requests that nobody answered; the trial breaks where the provider answered one at no attempt.

        What the agent gave up as its own limit was reached is no failure of the provider's.
        """
        with self._lock:
            left, self._under_way = self._under_way, {}
        for exchange in left.values():
            self._fail(exchange, GIVEN_UP)
        failures = [each for each in self._failures if not (each.given_up and self._is_out_of_time)]
        if left or failures:
            self._recorder.add_unanswered(0)  # each was counted when it failed
        if failures:
            self._recorder.broken = self._recorder.broken or failures[-1].failure
        else:
            self._record_failures()

    @property
    def _is_out_of_time(self) -> bool:
        left = self._budget.seconds_left
        return self._budget.reached is not None or (left is not None and left <= 0)

    def _classify(self, request: Request) -> Classified:
        # A request is asked about three times on its way; other threads are at others meanwhile.
        latest: tuple[Request, Classified] | None = getattr(self._classified, "latest", None)
        if latest is None or latest[0] is not request:
            latest = self._classified.latest = (request, classify(request, self._model_hosts))
            if latest[1].kind == "other" and may_ask_a_model(request):
                self._note_unread(request)
        return latest[1]

    def note_reply(self, request: Request, response: Response) -> None:
        """Look at a response that is on no tape of ours: it may be that of a model all the same."""
        if may_be_of_a_model(response):
            self._note_unread(request)

    def _note_unread(self, request: Request) -> None:
        with self._lock:
            key = (request.method, request.uri, request.body)
            if key not in self._unread:  # each layer of a client that sends it shows it
                self._unread.add(key)
                self._recorder.event(
                    UNREAD_REQUEST, f"{request.method} {_place(request)}: of no known format"
                )
                self._recorder.add_unread(is_sent=False)  # the tapes know whether it was sent

    def _read_request(self, classified: Classified, request: Request) -> ModelRequest | None:
        try:
            return read_request(classified.format, request, self._items)
        except UnreadableTraffic as unreadable:
            self._recorder.event(UNREAD_REQUEST, f"{request.method} {_place(request)}: {unreadable}")
            return None

    def _find_recorded(self, request: Request, ask: ModelRequest) -> RecordedReply | None:
        if self._tape is None:
            return None
        # What refers to earlier replies was read with them; the tape compares requests as they stand.
        alone = not self._items or "item_reference" not in text_of(request.body)
        return self._tape.find_ask(request, ask if alone else None)

    def _play_other(self, request: Request, classified: Classified) -> Response | None:
        """Play what is asked of a model's server beside replies: embeddings, counts, lists of models."""
        if classified.kind == "unread":
            self._recorder.event(UNREAD_REQUEST, f"{request.method} {_place(request)}: of no known format")
        response = None if self._tape is None else self._tape.find_other(request)
        if response is None and not self.sends:
            raise self._refuse(request)
        if classified.kind != "auxiliary":  # an ask, as far as anybody knows
            self._recorder.add_unread(is_sent=response is None)
        return response

    def _begin(self, request: Request, ask: ModelRequest) -> _Exchange:
        with self._lock:
            try:
                self._budget.step()
            except (LimitReached, LimitIgnored) as reached:
                # No Exception: clients wrap those, wait and ask again.
                raise for_this_thread(LimitIgnored(str(reached))) from None
            recorder = self._recorder
            recorder.offer_tools(ask.tools)
            recorder.requested_models.add(ask.model)
            phase, added = recorder.add_prompt(self._whole_prompt(ask), concurrent=True)
            for message in reversed(added):  # of equal ids the latest is that of the call that waits
                if message["role"] == "tool":
                    self._answer_call(message, phase)
            self._budget.begin_request()
            return _Exchange(request, ask, self._next_turn(), phase, recorder.at())

    def _next_turn(self) -> int:
        """Give the number of the next reply; that of a request that brought none is free again."""
        if self._free_turns:
            turn = min(self._free_turns)
            self._free_turns.remove(turn)
            return turn
        self._recorder.turn += 1
        return self._recorder.turn

    def _whole_prompt(self, ask: ModelRequest) -> Sequence[Mapping[str, Any]]:
        """Give what is asked with what the provider keeps of the conversation; instructions it does not."""
        phase = self._phases.get(ask.continues) if ask.continues else None
        before = [] if phase is None else self._recorder.messages_of(phase)
        pairs = zip(before, ask.messages, strict=False)
        instructed_before = len(list(takewhile(_instructs_alike, pairs)))
        return [*before, *ask.messages[instructed_before:]]

    def _answer_call(self, message: Mapping[str, Any], phase: int) -> None:
        content = message.get("content", "")
        error = ToolError("tool_error", str(content)) if message.get("error") else None
        result = None if error else _result(content)
        id, ended = message.get("tool_call_id", ""), self._recorder.at()
        self._recorder.answer_call(id, result, error, ended, phase)

    def _finish(
        self,
        exchange: _Exchange,
        response: Response,
        first_byte_s: float | None,
        *,
        taped: bool = False,
        closed: bool = False,
    ) -> bool:
        """Write a reply down; False where the provider failed to give a whole one.

        Of one that the agent ``closed`` before its end, whatever can be read is the reply.
        """
        ask, turn = exchange.ask, exchange.turn
        try:
            reply = self._read_reply(exchange, response, closed=closed)
        except UnreadableTraffic as unreadable:
            self._fail(exchange, str(unreadable))
            return False
        model, prices = reply.model or ask.model, self._recorder.prices
        first_token_s = first_byte_s if ask.streamed else None
        usage = with_price(model, reply.usage, reply.priced_apart, prices, ask.model)
        ended = self._recorder.at()
        recorded_ask = Ask(
            turn, exchange.started, ended, usage, reply.finish, first_token_s, reply.reasoning, model
        )
        with self._lock:
            self._failed_in_a_row = 0
            answered = _Outcome(ask, exchange.started, ended)
            self._answered.append(answered)
            self._failures = [failed for failed in self._failures if not answered.covers(failed)]
            self.asks += 1
            self._items.update(reply.items)
            self._phases.update(dict.fromkeys(filter(None, (reply.id, ask.continues)), exchange.phase))
            calls = [replace(call, turn=turn, started=ended, ended=ended) for call in reply.calls]
            self._recorder.add_asked_calls(calls, exchange.phase)
            stamped = tuple(replace(call, turn=turn, result=None, error=None) for call in reply.calls)
            self._recorder.add_reply(reply.message, stamped, recorded_ask, exchange.phase, unpaid=taped)
            self._budget.spend(usage)
            self._budget.end_request(exchange.started, ended, failed=False)
        if usage.tokens is None and reply.usage is not UNKNOWN:
            self._recorder.event(UNTOLD_TOKENS, f"{_place(exchange.request)}: a reply without counts")
        return True

    def _read_reply(self, exchange: _Exchange, response: Response, *, closed: bool) -> ModelReply:
        try:
            reply = read_reply(exchange.ask.format, exchange.request, response)
            if reply.finish == INCOMPLETE and not closed:
                raise UnreadableTraffic("the stream ended before the reply did")
            return reply
        except UnreadableTraffic as unreadable:
            if not closed or isinstance(unreadable, ModelRefused):
                raise
            self._recorder.event(UNREAD_REPLY, f"{_place(exchange.request)}: {unreadable}")
            nothing = {"role": "assistant", "content": ""}
            return ModelReply(nothing, (), UNKNOWN, finish="", reasoning="", model="")

    def _is_whole(self, request: Request, response: Response, *, broke_off: bool) -> bool:
        exchange = self._under_way.get(id(request))
        if exchange is None or response.status != 200 or (broke_off and not exchange.ask.streamed):
            return False
        try:
            return read_reply(exchange.ask.format, request, response).finish != INCOMPLETE
        except UnreadableTraffic:
            return False

    def _undo(self, exchange: _Exchange) -> None:
        """Take back a request that brought no reply: it was no step, and its place is free."""
        if exchange.refused_at is not None:  # done when its status came
            return
        with self._lock:
            self._budget.undo_step()
            self._recorder.abandon_prompt(exchange.phase)
            self._free_turns.add(exchange.turn)
            while self._recorder.turn in self._free_turns:
                self._free_turns.remove(self._recorder.turn)
                self._recorder.turn -= 1

    def _fail(self, exchange: _Exchange, why: str, *, passing: bool = True) -> None:
        """Note an attempt that failed; a ``passing`` failure says nothing of what was asked."""
        self._undo(exchange)
        with self._lock:
            ended = self._recorder.at() if exchange.refused_at is None else exchange.refused_at
            seconds = ended - exchange.started
            forgiven = why != GIVEN_UP
            # As with our own chats, a failed attempt is not the agent's time; one that it gave up is.
            if exchange.started >= self._failed_at:  # else it is one with those that failed meanwhile
                self._failed_in_a_row, self._failed_at = self._failed_in_a_row + 1, ended
            spared = forgiven and self._failed_in_a_row <= MOST_FORGIVEN
            self._budget.end_request(exchange.started, ended, failed=spared)
            self._recorder.add_failed_attempts()
            place = _place(exchange.request)
            down = ProviderDown(f"{place}: {why}")
            failed = _Outcome(exchange.ask, exchange.started, ended, down, given_up=not forgiven)
            if not passing:  # the provider's word on what was asked
                self._failures = [other for other in self._failures if not failed.covers(other)]
            elif not self._is_answered(failed):
                self._failures.append(failed)
            self._recorder.event(FAILED_REQUEST, f"{place}: {why}", {"seconds": round(seconds, 3)})

    def _is_answered(self, failed: _Outcome) -> bool:
        """Whether the same was answered meanwhile; one that was given up may be the slower of several."""
        meanwhile = (answered for answered in self._answered if answered.ended >= failed.started)
        return any(failed.given_up or answered.covers(failed) for answered in meanwhile)

    def _note_failure(
        self, exchange: _Exchange | None, request: Request, response: Response, *, passing: bool
    ) -> None:
        if is_failure(response):
            why = f"no response came: {failure_text(response)}"
        else:
            why = f"{response.status} {' '.join(text_of(response.body).split())[:300]}"
        if exchange is None:
            self._recorder.event(FAILED_REQUEST, f"{_place(request)}: {why}")
        else:
            self._fail(exchange, why, passing=passing)

    def _note_changed_prompt(self, exchange: _Exchange) -> None:
        self._recorder.event(
            CHANGED_PROMPT,
            f"ask {exchange.turn} differs from the one that was recorded; its recorded reply was played",
            {"turn": exchange.turn, "digest": prompt_identity(exchange.ask)},
        )

    def _refuse(self, request: Request) -> BaseException:
        """Say once what is missing; the same again is answered alike and at once."""
        with self._lock:
            if self._refused is None:
                broken: TrialBroken
                if self._tape is None:
                    broken = NotAllowed(f"{_place(request)}: {self._refusal}")
                else:
                    broken = self._tape.miss(request)
                if isinstance(broken, CassetteMiss):
                    self._recorder.add_miss(broken)
                self._recorder.broken = self._recorder.broken or broken
                cassette = self._tape.name if self._tape is not None else "any cassette"
                self._refused = NotRecorded(request, cassette)
            return for_this_thread(self._refused)


def _conversation(ask: ModelRequest) -> list[Mapping[str, Any]]:
    """Give what was said so far, without instructions, which differ from model to model."""
    return [without_ids(message) for message in ask.messages if message["role"] != "system"]


def _identity(ask: ModelRequest) -> tuple[bool, str]:
    return ask.streamed, prompt_identity(ask)


def _is_passing(response: Response) -> bool:
    return response.status in PASSING_FAILURES or response.status >= 500


def _instructs_alike(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> bool:
    before, now = pair
    return before["role"] == now["role"] == "system" and bool(before["content"] == now["content"])


def _result(content: str) -> Any:
    """Give what a model is shown of a tool's result: a list or a map where it is one, else the text."""
    if not content.lstrip().startswith(("{", "[")):
        return content
    try:
        return read_json(content)
    except ValueError:
        return content


def _place(request: Request) -> str:
    return request.uri.partition("?")[0]
