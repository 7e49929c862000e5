"""The requests that an agent sends to models by itself: counted, transcribed, replayed and recorded.

Requests come from a patched client or from a server on loopback; this module treats both alike.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.exchange import failure_text, is_failure
from pytest_agenteval.cassettes.http.scope import (
    BROKE_OFF,
    GIVEN_UP,
    NotRecorded,
    answering,
    for_this_thread,
    is_loopback,
)
from pytest_agenteval.cassettes.interaction import Body, Request, Response, text_of
from pytest_agenteval.cassettes.wire.classification import classify, may_ask_a_model, may_be_of_a_model
from pytest_agenteval.cassettes.wire.prompt_replacement import PromptReplacement
from pytest_agenteval.cassettes.wire.reader import prompt_identity, read_reply, read_request, without_ids
from pytest_agenteval.cassettes.wire.response_bodies import error_response
from pytest_agenteval.cassettes.wire.traffic import (
    Classified,
    ModelRefused,
    ModelReply,
    ModelRequest,
    UnreadableTraffic,
)
from pytest_agenteval.chat.bridge.client_ask import NotExpressible
from pytest_agenteval.chat.bridge.model_bridge import AnsweredBy, ModelBridge, status_of
from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.chat.model_tape import ModelTape, identity_of
from pytest_agenteval.records.limits import Budget, TimeSpan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.replies import INCOMPLETE, UNKNOWN
from pytest_agenteval.records.tool_spec import shown_value
from pytest_agenteval.records.transcript import (
    CHANGED_PROMPT,
    LEFT_OUT,
    UNREAD_REPLY,
    UNREAD_REQUEST,
    UNREAD_USAGE,
    UNTOLD_TOKENS,
    Ask,
    ToolError,
    Usage,
    unanswered_usage,
)
from pytest_agenteval.text.errors import (
    CassetteMiss,
    LimitIgnored,
    LimitReached,
    ProviderDown,
    TrialBroken,
)

# Requests for pictures and sounds, which no chat answers.
_MAKES_MEDIA = re.compile(r"/(?:images|audio|videos)/")
# Kinds of events: an attempt that failed, and a reply that the agent closed before its end.
FAILED_REQUEST, CUT_REPLY = "model_request_failed", "cut_reply"


class NotAllowed(TrialBroken):
    """An agent sent requests to its own model without permission."""

    cause = "not_allowed"


class _Exchange(NamedTuple):
    """One request to a model that is under way, with the number of its reply and its conversation.

    ``refused_at`` is when a status arrived that means that there will be no reply.
    """

    request: Request
    ask: ModelRequest
    turn: int
    phase: int
    started: float
    span: TimeSpan
    refused_at: float | None = None


class _Outcome(NamedTuple):
    """How one request ended; ``ended`` is when the reply or the failure came."""

    ask: ModelRequest
    started: float
    ended: float
    failure: ProviderDown | None = None
    given_up: bool = False

    def covers(self, other: _Outcome) -> bool:
        """Whether this ask holds the other's conversation, and perhaps more; their models may differ."""
        ours, theirs = _conversation(self.ask), _conversation(other.ask)
        return ours[: len(theirs)] == theirs


class ModelTraffic:
    """The model requests of one trial's agent; they may come from several threads at once.

    ``tape`` replays and records them, and is None where chats are not recorded. ``sends`` is True if a
    request that is not replayed may be sent; else it is refused with the message ``refusal``. With
    ``loopback``, a request to this machine is sent too where chats are not recorded. Every request to
    ``model_hosts`` counts as a model's. ``sends_others`` is for requests that are no asks. The budget is
    checked before each request: one beyond it ends the agent. ``prompts`` are replaced in requests of an
    agent that reads them by itself. With a ``bridge``, another model answers each ask in place of its
    own.
    """

    def __init__(
        self,
        recorder: Recorder,
        budget: Budget,
        tape: ModelTape | None,
        *,
        sends: bool,
        sends_others: bool | None = None,
        refusal: str,
        loopback: bool = False,
        prompts: PromptReplacement | None = None,
        model_hosts: Collection[str] = (),
        bridge: ModelBridge | None = None,
    ) -> None:
        self._recorder, self._budget, self._tape, self._bridge = recorder, budget, tape, bridge
        self._sends, self._refusal, self._model_hosts = sends, refusal, tuple(model_hosts)
        self._loopback, self._prompts = loopback, prompts
        self._sends_others = sends if sends_others is None else sends_others
        self._lock = threading.RLock()
        self._under_way: dict[int, _Exchange] = {}
        self._classified = threading.local()
        self._phases: dict[str, int] = {}
        self._failed: list[tuple[ModelRequest, Request, Response]] = []
        self._unread: set[tuple[str, str, Body]] = set()
        self._items: dict[str, Mapping[str, Any]] = {}
        self._failures: list[_Outcome] = []
        self._left_out: set[str] = set()
        self._answered: list[_Outcome] = []
        self._failed_at = 0.0
        self._failed_in_a_row = 0
        self._refused: BaseException | None = None
        self._free_turns: set[int] = set()
        self.asks = 0

    @property
    def sends(self) -> bool:
        return self._sends if self._tape is None else self._tape.recording

    def _may_send(self, request: Request, *, ask: bool = True) -> bool:
        sends = self.sends if ask or self._tape is not None else self._sends_others
        return sends or (self._loopback and self._tape is None and is_loopback(request.uri))

    def claims(self, request: Request) -> bool:
        """Whether a request asks a model, or requests something else from a model's server."""
        return self._classify(request).kind != "other"

    def with_prompts(self, request: Request) -> Request:
        """Give an ask with the prompts of the trial's variant; the same object where they change nothing."""
        if self._prompts is None or self._classify(request).kind != "ask":
            return request
        return self._prompts.in_request(request)

    def play(self, request: Request) -> Response | None:
        """Give the recorded response; None if the caller has to send the request and call ``record``.

        Raises an error that ends the agent if a limit is reached, or if there is no recording and nothing may
        be sent.
        """
        classified = self._classify(request)
        ask = None
        if classified.kind == "ask":
            try:
                ask = read_request(classified.format, request, self._items)
            except UnreadableTraffic as unreadable:
                self._note_unread_as(request, unreadable)
        if ask is None:  # also embeddings, counts of tokens and lists of models
            return self._play_other(request, classified)
        exchange = self._begin(request, ask)
        recorded = None
        if self._tape is not None:
            # What refers to earlier replies was read with them; the tape compares requests as they stand.
            alone = not self._items or "item_reference" not in text_of(request.body)
            recorded = self._tape.find_ask(request, ask if alone else None)
        if recorded is not None:
            if recorded.prompt_differs:
                text = "differs from the recorded one; its recorded reply was replayed"
                details = {"turn": exchange.turn, "digest": prompt_identity(ask)}
                self._recorder.event(CHANGED_PROMPT, f"ask {exchange.turn} {text}", details)
            # A replay gives the client the failures of the recording too, so that it retries as it did then.
            if recorded.response.status >= 300:
                self._note_failure(exchange, request, recorded.response)
            else:
                self._finish(exchange, recorded.response, None, taped=True)
            return recorded.response
        if not self._may_send(request):
            self._undo(exchange)
            exchange.span.kind = "uncharged"
            exchange.span.end()
            raise self._refuse(request)
        self._under_way[id(request)] = exchange
        return None

    def _play_other(self, request: Request, classified: Classified) -> Response | None:
        """As ``play``, for a request of which it is not known that it asks a model."""
        if classified.kind == "unread":
            self._note_unread_as(request, "of no known format")
        response = None if self._tape is None else self._tape.find_other(request)
        is_foreign = response is None and self._bridge is not None and classified.kind != "auxiliary"
        if is_foreign and not _MAKES_MEDIA.search(_place(request)):
            text = "a request in no known format cannot be answered by another model"
            return self._break(NotExpressible(f"{_place(request)}: {text}"), classified.format)
        if response is None and not self._may_send(request, ask=False):
            raise self._refuse(request)
        if classified.kind != "auxiliary":  # it may be an ask
            self._recorder.add_usage(UNREAD_USAGE, is_paid=response is None)
        return response

    def bridges(self, request: Request) -> bool:
        """Whether another model answers a request that has no recording."""
        return self._bridge is not None and self._classify(request).kind == "ask"

    def bridge(self, request: Request) -> Response | None:
        """Have the run's model answer an ask that ``play`` gave no recording for; None where it is sent."""
        exchange = self._under_way.get(id(request))
        if self._bridge is None or exchange is None:
            return None
        # Our chat charges the seconds of its attempts itself, and none of its waits.
        exchange.span.kind, format = "waiting", exchange.ask.format
        try:
            bridged = self._bridge.answer(request, exchange.ask, self._items)
        # The agent may handle it, as it may handle a failure of its own provider.
        except ProviderDown as down:
            response = error_response(format, status_of(down), down.cause, str(down))
            self._fail_as(request, response, down)
            return response
        # Also a mistake of ours: raised here it would reach the client as a failure of its provider's.
        except Exception as broken:
            if self._under_way.pop(id(request), None) is not None:
                self._undo(exchange)
                exchange.span.end()
            return self._break(broken, format)
        if bridged is None or id(request) not in self._under_way:
            answering()  # raises what ends a thread whose trial has ended
            self.cut(request, Response(0, GIVEN_UP))
            return error_response(format, 400, "given_up", GIVEN_UP)
        if bridged.seconds is not None:  # without queues, waits and failed attempts
            started = self._recorder.at() - bridged.seconds
            self._under_way[id(request)] = exchange._replace(started=started)
        self.record(request, bridged.response, bridged.first_token_s)
        return bridged.response

    def _fail_as(self, request: Request, response: Response, down: ProviderDown) -> None:
        """Note that the run's model failed in every attempt, and record the client's response."""
        exchange = self._under_way.pop(id(request), None)
        if exchange is None:
            return
        # An agent can do something about these. Any other refusal may be one of what another client wrote.
        passing = getattr(down.__cause__, "cause", "") not in ("context_length", "content_policy")
        self._fail(exchange, str(down), passing=passing)
        if passing:
            self._keep_failure(exchange, request, response)
        elif self._tape is not None and self._tape.recording:
            self._tape.record(request, response)

    def _break(self, broken: Exception, format: str) -> Response:
        """Break the trial; give an error that the client does not answer with another attempt."""
        self._recorder.broken = self._recorder.broken or broken
        return error_response(format, 400, getattr(broken, "cause", "crash"), str(broken))

    def begin_response(self, request: Request, status: int) -> None:
        """Undo a request that brings no reply, since the client may retry before it reads the body."""
        exchange = self._under_way.get(id(request))
        if status >= 300 and exchange is not None:
            self._undo(exchange)
            exchange.span.stop()
            self._under_way[id(request)] = exchange._replace(refused_at=self._recorder.at())

    def record(self, request: Request, response: Response, first_byte_s: float | None = None) -> None:
        """Read the response to a request that was sent, and record it unless it only asks for a retry."""
        exchange = self._under_way.pop(id(request), None)
        if response.status >= 300:
            self._note_failure(exchange, request, response)
            if _is_passing(response):
                # ``close`` records it if no later attempt at the same ask succeeded.
                self._keep_failure(exchange, request, response)
                return
        elif exchange is not None and not self._finish(exchange, response, first_byte_s):
            return
        if self._tape is not None and self._tape.recording:
            self._tape.record(request, response)

    def cut(self, request: Request, response: Response) -> None:
        """Read a response that ended early; status 0 means that it never began.

        It is not recorded: a replay could not know how much of it the client read.
        """
        broke_off = response.message == BROKE_OFF
        # After the provider's last event, such as [DONE], a stream is whole. Many clients close it then,
        # without waiting for the connection to end.
        if self._is_whole(request, response, broke_off=broke_off):
            self.record(request, response)
            return
        exchange = self._under_way.pop(id(request), None)
        if exchange is None:
            return
        if self._bridge is not None:
            self._bridge.cancel(request)
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
        """Read a response that never came whole, and store the failure that the client raised."""
        exchange = self._under_way.get(id(request))
        whole = self._is_whole(request, cut, broke_off=cut.message == BROKE_OFF)
        self.cut(request, cut)
        if not whole:
            self._keep_failure(exchange, request, failure)

    def _keep_failure(self, exchange: _Exchange | None, request: Request, response: Response) -> None:
        if exchange is not None:
            with self._lock:
                self._failed.append((exchange.ask, request, response))

    def close(self) -> None:
        """End requests without a response; the trial breaks if one of its asks was never answered."""
        with self._lock:
            left, self._under_way = self._under_way, {}
        if self._bridge is not None:
            self._bridge.close()
        for exchange in left.values():
            self._fail(exchange, GIVEN_UP)
        # What the agent gave up because its own limit was reached is no failure of the provider's: nobody
        # knows whether it would have answered.
        seconds_left = self._budget.seconds_left
        out_of_time = self._budget.reached is not None or (seconds_left is not None and seconds_left <= 0)
        failures = [each for each in self._failures if not (each.given_up and out_of_time)]
        if left or failures:
            self._recorder.add_usage(unanswered_usage(0))  # each was counted when it failed
        if failures:
            self._recorder.broken = self._recorder.broken or failures[-1].failure
        elif self._failed and self._tape is not None and self._tape.recording:
            # The agent went on after these failures; those of asks that were answered later are left out.
            answered = {identity_of(each.ask) for each in self._answered}
            for ask, request, response in self._failed:
                if identity_of(ask) not in answered:
                    self._tape.record(request, response)

    def _classify(self, request: Request) -> Classified:
        # Each request is classified about three times on its way, while other threads work on others.
        latest: tuple[Request, Classified] | None = getattr(self._classified, "latest", None)
        if latest is None or latest[0] is not request:
            latest = self._classified.latest = (request, classify(request, self._model_hosts))
            if latest[1].kind == "other" and may_ask_a_model(request):
                self._note_unread(request)
        return latest[1]

    def note_reply(self, request: Request, response: Response) -> None:
        """Note the request of a response that is on no cassette but looks like a model's."""
        if may_be_of_a_model(response):
            self._note_unread(request)

    def _note_unread(self, request: Request) -> None:
        with self._lock:
            key = (request.method, request.uri, request.body)
            if key not in self._unread:  # each layer of a client reports it
                self._unread.add(key)
                self._note_unread_as(request, "of no known format")
                self._recorder.add_usage(UNREAD_USAGE)  # the tapes count those that were sent

    def _note_unread_as(self, request: Request, why: object) -> None:
        self._recorder.event(UNREAD_REQUEST, f"{request.method} {_place(request)}: {why}")

    def _begin(self, request: Request, ask: ModelRequest) -> _Exchange:
        with self._lock:
            try:
                self._budget.step()
            except (LimitReached, LimitIgnored) as reached:
                # Not an Exception: clients catch those, wait and ask again.
                raise for_this_thread(LimitIgnored(str(reached))) from None
            recorder = self._recorder
            recorder.offer_tools(ask.tools)
            recorder.requested_models.add(ask.model)
            phase, added = recorder.add_prompt(self._whole_prompt(ask), concurrent=True)
            for message in reversed(added):  # of equal ids the latest is that of the call that waits
                if message["role"] == "tool":
                    content, failed = message.get("content", ""), message.get("error")
                    error = ToolError("tool_error", content) if failed else None
                    result = None if failed else shown_value(content)
                    id, ended = message.get("tool_call_id", ""), recorder.at()
                    recorder.answer_call(id, result, error, ended, phase)
            if self._free_turns:  # the number of a request without a reply is free again
                turn = min(self._free_turns)
                self._free_turns.remove(turn)
            else:
                recorder.turn += 1
                turn = recorder.turn
            span = self._budget.time.span("charged")
            return _Exchange(request, ask, turn, phase, recorder.at(), span)

    def _whole_prompt(self, ask: ModelRequest) -> Sequence[Mapping[str, Any]]:
        """Give the messages of the stored conversation that an ask continues, followed by its own."""
        phase = self._phases.get(ask.continues) if ask.continues else None
        before = [] if phase is None else self._recorder.messages_of(phase)
        # The provider does not store instructions, so clients send them again: repeated ones are dropped.
        repeated = 0
        for old, new in zip(before, ask.messages, strict=False):
            if not (old["role"] == new["role"] == "system" and old["content"] == new["content"]):
                break
            repeated += 1
        return [*before, *ask.messages[repeated:]]

    def _finish(
        self,
        exchange: _Exchange,
        response: Response,
        first_byte_s: float | None,
        *,
        taped: bool = False,
        closed: bool = False,
    ) -> bool:
        """Record a reply; give False if the provider did not send a whole one.

        If the agent ``closed`` the response before its end, the reply is what can be read of it.
        """
        ask, turn = exchange.ask, exchange.turn
        try:
            reply = self._read_reply(exchange, response, closed=closed)
        except UnreadableTraffic as unreadable:
            self._fail(exchange, str(unreadable))
            return False
        if (by := AnsweredBy.of(response)) is not None:
            model, usage = by.model, by.usage
            for name in {*by.left_out} - self._left_out:
                self._left_out.add(name)
                self._recorder.event(LEFT_OUT, name)
            reply = replace(reply, reasoning=by.reasoning)
        else:
            model, prices = reply.model or ask.model, self._recorder.prices
            usage = with_price(model, reply.usage, reply.priced_apart, prices, ask.model)
        first_token_s = first_byte_s if ask.streamed or by is not None else None
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
            if self._bridge is not None:
                self._bridge.remember(exchange.request, ask.format, reply, self._items)
            # Clients such as Vercel's SDK name the items of
            # earlier replies by id instead of sending them again.
            self._items.update(reply.items)
            # OpenAI's responses let a later request name a reply to continue, in place of its messages.
            self._phases.update(dict.fromkeys(filter(None, (reply.id, ask.continues)), exchange.phase))
            calls = [replace(call, turn=turn, started=ended, ended=ended) for call in reply.calls]
            self._recorder.add_asked_calls(calls, exchange.phase)
            stamped = tuple(replace(call, turn=turn, result=None, error=None) for call in reply.calls)
            # A replayed reply costs nothing again, so it is recorded as unpaid.
            self._recorder.add_reply(reply.message, stamped, recorded_ask, exchange.phase, unpaid=taped)
            self._budget.spend(usage)
            exchange.span.end()
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
        """Undo a request without a reply: it does not count as a step, and its number can be used again."""
        if exchange.refused_at is not None:  # it was taken back when its status came
            return
        with self._lock:
            self._budget.undo_step()
            self._recorder.abandon_prompt(exchange.phase)
            # Concurrent requests end in any order. Freed numbers are
            # used again, so that replies are numbered without gaps.
            self._free_turns.add(exchange.turn)
            while self._recorder.turn in self._free_turns:
                self._free_turns.remove(self._recorder.turn)
                self._recorder.turn -= 1

    def _fail(self, exchange: _Exchange, why: str, *, passing: bool = True) -> None:
        """Note a failed attempt; a ``passing`` failure says nothing about the request itself."""
        self._undo(exchange)
        with self._lock:
            ended = self._recorder.at() if exchange.refused_at is None else exchange.refused_at
            seconds = ended - exchange.started
            forgiven = why != GIVEN_UP
            # As with our own chats, a failed attempt is not charged; one that the agent gave up is.
            if exchange.started >= self._failed_at:  # else it counts with those that failed meanwhile
                self._failed_in_a_row, self._failed_at = self._failed_in_a_row + 1, ended
            # Only ten in a row: else an agent could ask for ever.
            is_bridged = exchange.span.kind == "waiting"
            if not forgiven or self._failed_in_a_row > 10:
                exchange.span.kind = "charged"
            elif not is_bridged:
                exchange.span.kind = "uncharged"
            exchange.span.end()
            place = _place(exchange.request)
            # The chat of a model that answers in place of another counts its attempts itself.
            if is_bridged and self._bridge is not None:
                place = f"{self._bridge.name} in place of {place}"
            else:
                self._recorder.add_usage(Usage(attempts=1))
            down = ProviderDown(f"{place}: {why}")
            failed = _Outcome(exchange.ask, exchange.started, ended, down, given_up=not forgiven)
            if not passing:  # the provider has answered this conversation
                self._failures = [other for other in self._failures if not failed.covers(other)]
            else:
                # The same may have been answered meanwhile; one that was given up may be the slower of two.
                meanwhile = (answered for answered in self._answered if answered.ended >= failed.started)
                if not any(failed.given_up or answered.covers(failed) for answered in meanwhile):
                    self._failures.append(failed)
            self._recorder.event(FAILED_REQUEST, f"{place}: {why}", {"seconds": round(seconds, 3)})

    def _note_failure(
        self, exchange: _Exchange | None, request: Request, response: Response, *, passing: bool = False
    ) -> None:
        if is_failure(response):
            why = f"no response came: {failure_text(response)}"
        else:
            why = f"{response.status} {' '.join(text_of(response.body).split())[:300]}"
        if exchange is None:
            self._recorder.event(FAILED_REQUEST, f"{_place(request)}: {why}")
        else:
            self._fail(exchange, why, passing=passing or _is_passing(response))

    def _refuse(self, request: Request) -> BaseException:
        """Make the error for the first request that may not be sent; later ones get the same."""
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
    # Without instructions, which differ from model to model.
    return [without_ids(message) for message in ask.messages if message["role"] != "system"]


def _is_passing(response: Response) -> bool:
    # These say nothing about the request: it may be answered another time.
    return response.status in (401, 403, 404, 408, 409, 425, 429, 498) or response.status >= 500


def _place(request: Request) -> str:
    return request.uri.partition("?")[0]
