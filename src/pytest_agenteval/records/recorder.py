"""The transcript while chat and tool box write it, so that it survives a crash."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.records.plan import NO_PRICES, Prices
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import ToolSpec, declared_tool, parse_arguments
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    NOT_FINISHED,
    OTHER_ROLES,
    PROMPT_READ,
    ROLES,
    UNSEEN_CALLS,
    UNSEEN_USAGE,
    Ask,
    Event,
    Message,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
    models_of,
)
from pytest_agenteval.records.truncation import truncated, truncated_call, truncated_text
from pytest_agenteval.text.errors import CassetteMiss, key_path_text


def is_ended(call: ToolCall) -> bool:
    """Whether the outcome of a call is known."""
    return call.error.type != NOT_FINISHED if call.error else call.result is not None


# Clients of MCP put the server's name before that of the tool.
_SERVER = re.compile(r"__|[./]")


def counterparts(
    calls: Sequence[ToolCall], others: Sequence[ToolCall], *identities: Callable[[ToolCall], Any]
) -> list[ToolCall | None]:
    """Give for each call the one of the others that is the same: by the first identity, else by the next."""
    left = list(others)
    found: dict[int, ToolCall] = {}
    for identity in identities:
        for at, call in enumerate(calls):
            if at not in found:
                place = next((n for n, each in enumerate(left) if identity(each) == identity(call)), None)
                if place is not None:
                    found[at] = left.pop(place)
    return [found.get(at) for at in range(len(calls))]


def _by_id(call: ToolCall) -> Any:
    return call.tool, call.id


def _by_arguments(call: ToolCall) -> Any:
    return call.tool, call.args, call.raw_args


def _by_bare_name(call: ToolCall) -> Any:
    return _SERVER.split(call.tool)[-1]


class _Conversation:
    """The messages of one conversation; while ``busy``, a reply to it is under way."""

    __slots__ = ("busy", "messages", "phase")

    def __init__(self, phase: int) -> None:
        self.phase, self.busy = phase, False
        self.messages: list[Mapping[str, Any]] = []


class AddedPrompt(NamedTuple):
    """Where a request's messages stand in the transcript: the phase, and which were new."""

    phase: int
    messages: Sequence[Mapping[str, Any]]


class Recorder:
    """The messages and calls of a running trial; safe for threads.

    ``at`` gives the seconds since the trial began, ``prices`` are the user's own prices of models.
    """

    def __init__(self, at: Callable[[], float], prices: Prices = NO_PRICES) -> None:
        self.at, self.prices = at, prices
        self.turn = 0
        self.requested_models: set[str] = set()
        self._conversations = [_Conversation(1)]
        self._messages: list[Message] = []
        self._calls: list[ToolCall] = []
        self._asks: list[Ask] = []
        self._events: list[Event] = []
        self._prompts_read: dict[str, int] = {}
        self.usage = self.paid = self.returned_usage = Usage()
        self.broken: BaseException | None = None
        self.seeded = 0
        self.last_words = self.answer_so_far = ""
        # Reentrant: ``add_returned`` calls ``offer_tools``, which takes it too.
        self._lock = threading.RLock()
        self._pending_calls: dict[int, int] = {}
        self._untimed_calls: set[int] = set()
        self._unlisted_calls: list[int] = []
        self._has_requested_calls = False
        self._tools: tuple[ToolSpec, ...] = ()
        self._offered: Sequence[ToolSpec] = ()

    @property
    def phase(self) -> int:
        """How many conversations there have been."""
        return len(self._conversations)

    def add_prompt(self, messages: Sequence[Mapping[str, Any]], *, concurrent: bool = False) -> AddedPrompt:
        """Write down the messages of a request that are new; return them and where they are.

        A request continues the conversation of which it holds all messages, the longest where there are
        several. Any other request begins a new phase. Where requests are ``concurrent``, it joins none that
        waits for a reply. The task gave the first ``seeded`` messages: an agent that gives the model a
        history sets that number.
        """
        with self._lock:
            # An agent may rewrite its history, as by a summary: what it dropped stays in the transcript.
            free = [each for each in self._conversations if not (concurrent and each.busy)]
            known = [each for each in reversed(free) if _goes_on(each.messages, messages)]
            if not known:
                known = [_Conversation(self.phase + 1)]
                self._conversations += known
            # Of conversations of one length this is the latest, for they were reversed.
            conversation = known[0] if len(known) == 1 else max(known, key=lambda each: len(each.messages))
            recorded = len(conversation.messages)
            for number, message in enumerate(messages[recorded:], start=recorded):
                conversation.messages.append(message)
                self._messages.append(self._message(message, number < self.seeded, conversation.phase))
            conversation.busy = concurrent
            return AddedPrompt(conversation.phase, messages[recorded:])

    def messages_of(self, phase: int) -> list[Mapping[str, Any]]:
        """Return the messages of a conversation so far."""
        return list(self._conversations[phase - 1].messages)

    def add_usage(self, usage: Usage, *, is_paid: bool = False) -> None:
        """Add what requests took that brought no reply, or none that can be read."""
        with self._lock:
            self.usage = self.usage + usage
            self.paid = self.paid + usage if is_paid else self.paid

    def pay(self, usage: Usage) -> None:
        """Count usage that is really paid in this run; a reply from a tape costs nothing again."""
        with self._lock:
            self.paid = self.paid + usage

    def abandon_prompt(self, phase: int) -> None:
        """Wait no longer for a reply in this conversation: the request failed, and may be made again."""
        self._conversations[phase - 1].busy = False

    def add_reply(
        self,
        message: Mapping[str, Any],
        calls: tuple[ToolCall, ...],
        ask: Ask,
        phase: int | None = None,
        *,
        unpaid: bool = False,
    ) -> None:
        """Write down a model's reply and what it took; in the last conversation, if ``phase`` names none.

        An ``unpaid`` reply, such as one from a recording, costs nothing.
        """
        content = truncated_text(message.get("content") or "")
        # Cut before they are stored anywhere: the arguments of a call may hold themselves.
        calls = tuple(map(truncated_call, calls))
        with self._lock:
            conversation = self._conversations[-1 if phase is None else phase - 1]
            conversation.messages.append(message)
            conversation.busy = False
            self.last_words = content or self.last_words
            # An agent that uses the trial's own chat answers with the last message.
            if phase is None:
                self.answer_so_far = self.last_words
            self._messages.append(Message("assistant", content, calls, ask.turn, phase=conversation.phase))
            self._asks.append(ask)
            before, self.usage = self.usage, self.usage + ask.usage
            # Where everything was paid, both are one sum.
            if not unpaid:
                self.paid = self.usage if self.paid is before else self.paid + ask.usage

    def begin_call(self, call: ToolCall) -> int:
        """Reserve a place for a call in the order in which the model listed it; return the place.

        A call that was already in a model's reply (same id, else same tool and arguments) has its place, and
        gets no second one.
        """
        with self._lock:  # calls may come from several threads
            place = self._pending_place(call) if self._pending_calls else None
            if place is not None:
                self._untimed_calls.discard(place)
                return place
            self._calls.append(call)  # ``end_call`` cuts it
            self._unlisted_calls.append(len(self._calls) - 1)
            return len(self._calls) - 1

    def end_call(self, place: int, call: ToolCall) -> None:
        """Put the outcome of a call into its place."""
        with self._lock:
            listed = self._calls[place]
            if (listed.id, listed.turn, listed.index) != (call.id, call.turn, call.index):
                # The model's reply decides to which turn the call belongs.
                call = replace(call, id=listed.id, turn=listed.turn, index=listed.index)
            self._calls[place] = truncated_call(call)

    def begin_call_event(self, call: ToolCall, places: Collection[int]) -> int:
        """Reserve the place of a call that a program reports, and return it.

        It is the place of the call with this id in a model's reply, else of one with the same tool and
        arguments that waits for its result, else a new one. ``places`` are those of the program's other
        calls.
        """
        with self._lock:
            seen = (at for at, other in enumerate(self._calls) if other.id == call.id and at not in places)
            place = next(seen, None)
            place = self._pending_place(call) if place is None else place
            if place is None:
                self._calls.append(truncated_call(call))
                return len(self._calls) - 1
            self._calls[place] = replace(self._calls[place], started=call.started)
            return place

    def end_call_event(self, place: int, result: Any, error: ToolError | None, ended: float) -> None:
        """Put the result that a program reports into its call's place, unless an outcome was seen."""
        with self._lock:
            listed = self._calls[place]
            self._pending_calls.pop(place, None)
            if not is_ended(listed):
                listed = replace(listed, result=result, error=error)
            self._calls[place] = truncated_call(replace(listed, ended=ended))

    def add_asked_calls(self, calls: Sequence[ToolCall], phase: int = 1) -> None:
        """Write down calls of a reply that somebody else makes: ``answer_call`` ends each of the agent's.

        ``phase`` is that of the reply's conversation: calls of several conversations may have the same id.
        """
        with self._lock:
            for call in calls:
                if (place := self._early_place(call)) is not None:
                    early = self._calls[place]
                    self._calls[place] = replace(early, id=call.id, turn=call.turn, index=call.index)
                    continue
                self._calls.append(truncated_call(call))
                self._untimed_calls.add(len(self._calls) - 1)
                # Calls that the provider made itself have no later request with a result.
                if call.by == "agent":
                    self._has_requested_calls = True
                    self._pending_calls[len(self._calls) - 1] = phase

    def _early_place(self, call: ToolCall) -> int | None:
        """Give the place of a call that a program made while the reply that asks for it was arriving."""
        calls = self._calls
        for at in self._unlisted_calls:
            if calls[at].turn == call.turn and _is_made(calls[at], call):
                self._unlisted_calls.remove(at)
                return at
        return None

    def answer_call(
        self, id: str, result: Any, error: ToolError | None, ended: float, phase: int | None = None
    ) -> None:
        """Put the result that a model is shown into its call, unless the call has one already.

        Of several calls that wait, it is the one of the conversation ``phase``.
        """
        with self._lock:
            place = self._pending_of(id, phase)
            if place is not None:
                del self._pending_calls[place]
                answered = replace(self._calls[place], result=result, error=error, ended=ended)
                self._calls[place] = truncated_call(answered)

    def _pending_of(self, id: str, phase: int | None = None) -> int | None:
        """Give the place of a pending call with this id, preferably one of this conversation."""
        places = [place for place in self._pending_calls if self._calls[place].id == id]
        own = [place for place in places if self._pending_calls[place] == phase]
        return next(iter(own or places), None)

    def _pending_place(self, call: ToolCall) -> int | None:
        """Give the place of the pending call that this call is, which is then no longer pending."""
        place = self._pending_of(call.id)
        if place is None:
            alike = [at for at in self._pending_calls if _is_made(call, self._calls[at])]
            # Of several, the one with the same arguments and no more.
            place = max(alike, key=lambda at: (self._calls[at].args == call.args, -at), default=None)
        if place is not None:
            del self._pending_calls[place]
        return place

    def leave_open(self, places: Iterable[int]) -> None:
        """Let these calls wait for a result, except those whose outcome is known."""
        with self._lock:
            for place in places:
                call = self._calls[place]
                if call.error is None and call.result is None and not call.ended:
                    self._pending_calls.setdefault(place, self.phase)

    def end_pending_calls(self, *, cut_off: bool) -> None:
        """Close the calls of which nobody reported a result.

        Where the agent was ``cut_off``, they did not end. An agent that ended by itself may have answered
        with a result that no model was shown: then the result is unknown, and that is no error.
        """
        with self._lock:
            for place in self._pending_calls if cut_off else ():
                error = ToolError(NOT_FINISHED, "the call did not end")
                self._calls[place] = replace(self._calls[place], error=error)
            self._pending_calls.clear()

    def offer_tools(self, tools: Sequence[ToolSpec]) -> None:
        """Write down which tools a model is offered; of two with the same name the first counts."""
        # Most requests offer the same tools as the one before.
        if not tools or tools is self._offered:
            return
        with self._lock:
            self._offered = tools
            names = {tool.name for tool in self._tools}
            self._tools += tuple(declared_tool(tool) for tool in tools if tool.name not in names)

    def add_returned(self, returned: Transcript) -> None:
        """Add what an agent reports of its own course.

        Where replies of models were seen, they count, and only results and times of calls are added, by the
        calls' ids. Calls that no reply requested are added only where no reply requested any: such an agent
        reads them in texts. Where no reply was seen, everything is taken over, and the outcome of a seen call
        stays. A call without a reported result waits for one, as a call that was seen does.
        """
        is_open = [call.error is not None and call.error.type == NOT_FINISHED for call in returned.calls]
        pairs = zip(returned.calls, is_open, strict=True)
        calls = [replace(call, error=None) if waits else call for call, waits in pairs]
        with self._lock:
            if self._asks:
                same = counterparts(calls, self._calls, _by_id, _by_arguments, _by_bare_name)
                unseen = [call for call, seen in zip(calls, same, strict=True) if seen is None]
                self._complete(calls)
                if unseen and self._has_requested_calls:
                    names = ", ".join(dict.fromkeys(call.tool for call in unseen))
                    self.event(UNSEEN_CALLS, f"the agent reports calls that no reply contains: {names}")
                elif unseen:
                    self._calls += map(truncated_call, unseen)
                    self.leave_open(range(len(self._calls) - len(unseen), len(self._calls)))
                open_places = [place for place in self._pending_calls if not is_ended(self._calls[place])]
                self._pending_calls = {place: self._pending_calls[place] for place in open_places}
                return
            self._calls = list(map(truncated_call, self._united(calls)))
            self.leave_open(place for place, waits in enumerate(is_open) if waits)
            for message in returned.messages:
                content, inner = truncated_text(message.content), tuple(map(truncated_call, message.calls))
                self._messages.append(replace(message, content=content, calls=inner))
            self._asks += returned.asks
            self._events += returned.events
            usage = returned.usage
            if usage == NO_USAGE and any(message.role == "assistant" for message in returned.messages):
                # A transcript of the agent's own form: it has replies, and not what they took.
                usage = UNSEEN_USAGE
            self.usage = self.usage + usage
            self.returned_usage = self.returned_usage + usage
            self.turn = max([ask.turn for ask in returned.asks], default=self.turn)
            self.offer_tools(returned.tools)
            self.last_words = returned.last_words or self.last_words

    def _complete(self, returned: Sequence[ToolCall]) -> None:
        """Take results and times of returned calls with equal ids into the calls that nobody saw being made.

        A reply requested these, and a later request had their results: when they were made in between is
        unknown.
        """
        for at, other in enumerate(counterparts(self._calls, returned, _by_id)):
            if other is not None and at in self._untimed_calls:
                call = self._calls[at]
                timed, outcome = other if other.ended else call, call if is_ended(call) else other
                result, error = outcome.result, outcome.error
                self._calls[at] = replace(
                    call, result=result, error=error, started=timed.started, ended=timed.ended
                )

    def _united(self, returned: Sequence[ToolCall]) -> list[ToolCall]:
        """Give all calls: those that are returned, in their order, then those that only were seen.

        An outcome that was seen is preferred to one that the agent reports.
        """
        same = counterparts(returned, self._calls, _by_id, _by_arguments)
        names = ("result", "error", "started", "ended", "tape")
        united = [
            call if seen is None else replace(call, **{name: getattr(seen, name) for name in names})
            for call, seen in zip(returned, same, strict=True)
        ]
        return [*united, *(call for call in self._calls if not any(call is seen for seen in same))]

    def add_miss(self, miss: CassetteMiss) -> None:
        """Write down a request that is not recorded, and what is recorded instead."""
        problem = miss.problem
        details = {
            "file": problem.file,
            "asked": key_path_text(problem.path),
            "expected": problem.expected,
            "found": problem.found,
            "hint": problem.hint,
        }
        self.event("cassette_miss", str(miss).partition("\n")[0], details)

    def prompt_read(self, name: str, digest: str) -> None:
        """Write down that the agent reads a prompt: once between two replies of the model."""
        if self._prompts_read.get(name) != self.turn:
            self._prompts_read[name] = self.turn
            self.event(PROMPT_READ, name, {"digest": digest, "turn": self.turn + 1})

    def event(self, kind: str, text: str, details: Mapping[str, Any] = NOTHING) -> None:
        """Write down something worth knowing, with the current time; texts and details are cut to fit."""
        self._events.append(Event(self.at(), kind, truncated_text(text), truncated(details)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls made so far."""
        return tuple(self._calls)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the agent called by itself so far."""
        return models_of(self._asks)

    def transcript(self) -> Transcript:
        """Give what has been written so far."""
        messages, calls = tuple(self._messages), tuple(self._calls)
        asks, events = tuple(self._asks), tuple(self._events)
        return Transcript(messages, calls, asks, events, self.usage, self._tools)

    def _message(self, message: Mapping[str, Any], seeded: bool, phase: int) -> Message:
        calls = []
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            args, raw = parse_arguments(function.get("arguments") or "{}")
            calls.append(ToolCall(call["id"], 0, index, function["name"], args, raw, by="seed"))
        role = OTHER_ROLES.get(message["role"], message["role"])
        return Message(
            # A role of the agent's own making: the message was sent to the model, as a user's is.
            role if role in ROLES else "user",
            truncated_text(_text(message.get("content"))),
            tuple(calls),
            self.turn,
            seeded,
            phase,
            message.get("tool_call_id", ""),
        )


def _is_made(call: ToolCall, listed: ToolCall) -> bool:
    """Whether a call that was made is one that a model listed; programs leave out arguments of their own.

    Such are OpenHands' ``security_risk`` and ``summary``.
    """
    same = call.raw_args == listed.raw_args and call.args.items() <= listed.args.items()
    return same and _is_name_of(call.tool, listed.tool)


def _is_name_of(tool: str, listed: str) -> bool:
    """Whether a tool was declared to a model by this name, perhaps with that of its server before it.

    Clients of MCP write such names: ``mcp__agenteval__weather``, ``agenteval.weather``,
    ``agenteval_weather``.
    """
    return listed == tool or listed.endswith((f"__{tool}", f".{tool}", f"/{tool}", f"agenteval_{tool}"))


def _goes_on(conversation: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> bool:
    if len(messages) < len(conversation):
        return False
    # Most agents send the very same objects again, which need not be compared.
    return all(old is new or old == new for old, new in zip(conversation, messages, strict=False))


def _text(content: Any) -> str:
    """Give a message's content as text; content in parts gives the text parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts = [part.get("text", "") for part in content if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if part)
