"""A trial's conversation as every report sees it: each reply with what it took, each call with its result.

A transcript keeps messages, calls and asks apart, in the order in which they happened. Readers want them
together: as steps, each reply with what it took, each call with what came of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from math import inf
from typing import Any, Literal, TypeAlias, TypeVar

from pytest_agenteval.records.record import FrozenValue, same_fields
from pytest_agenteval.records.tool_spec import shown_value
from pytest_agenteval.records.transcript import (
    Ask,
    Message,
    Role,
    TapeStatus,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)
from pytest_agenteval.text.json_values import json_digest, jsonable
from pytest_agenteval.tools.tool import ToolResult

ViewT = TypeVar("ViewT", bound=FrozenValue)
Place: TypeAlias = tuple[int, int]
"""A call by the number of the message that asks for it, and its own number there."""


class ConversationCall(FrozenValue, frozen=True):
    """A call as a message requests it.

    ``execution`` is the same call with its result, None where it was never carried out. ``answer`` is the
    message that holds the result in the conversation, None where there is none.
    """

    request: ToolCall
    execution: ToolCall | None = None
    answer: Message | None = None

    @property
    def reply(self) -> str | None:
        """The text of the result in the conversation; None without one, which is not the same as empty."""
        return None if self.answer is None else self.answer.content

    @property
    def content(self) -> str | None:
        """The text that the model was shown of the result, else the result as text; None without any."""
        if self.reply is None and self.execution is not None:
            return result_text(self.execution)
        return self.reply


class ConversationStep(FrozenValue, frozen=True):
    """One message with what belongs to it; without a message, calls that no message requested.

    ``ask`` is set where the message is a model's reply. A message that ``is_context`` was not produced at
    this place: the task holds it, the agent wrote it in a model's name, or it was part of an earlier
    conversation of the trial too, as when an agent starts a new one with messages of the last.
    """

    message: Message | None
    ask: Ask | None = None
    calls: tuple[ConversationCall, ...] = ()
    is_context: bool = False


def conversation_steps(transcript: Transcript) -> tuple[ConversationStep, ...]:
    """Put a transcript's messages, calls and asks together; no message and no call is in two steps."""
    messages = transcript.messages
    replies = reply_asks(transcript)
    reply_messages, answers = _reply_messages(messages)
    executions, unclaimed = _executions(transcript, replies)
    repeated = _repeated(messages)
    steps: list[ConversationStep] = []
    for number, message in enumerate(messages):
        # Calls of an agent's own code stand where their turn ends.
        steps += _steps_of_turns(unclaimed, before=message.turn)
        # A tool's message stands with its call.
        if number in answers:
            continue
        calls = [
            ConversationCall(call, executions.get((number, at)), reply_messages.get((number, at)))
            for at, call in enumerate(call_requests(message))
        ]
        is_foreign = (message.role == "assistant" and bool(replies)) or number in repeated or message.seeded
        is_context = number not in replies and is_foreign
        steps.append(ConversationStep(message, replies.get(number), tuple(calls), is_context))
    return (*steps, *_steps_of_turns(unclaimed))


def result_text(call: ToolCall) -> str:
    """Give the result of a call as the text that a model is shown by default."""
    return ToolResult(call.result, call.error).content


def call_requests(message: Message) -> tuple[ToolCall, ...]:
    """Give the calls that a message requests: only an assistant's message can."""
    return message.calls if message.role == "assistant" else ()


def reply_asks(transcript: Transcript) -> Mapping[int, Ask]:
    """Give the number of each message that is a model's reply, with its ask.

    Requests that overlapped have replies that all bear the last turn: these are in the order of the asks.
    """
    # From the end: in front of a reply stand the messages of its turn that were sent with the request, which
    # may be an assistant's too.
    candidates = [
        number
        for number, message in enumerate(transcript.messages)
        if message.role == "assistant"
        and not (message.seeded or any(call.by == "seed" for call in message.calls))
    ]
    replies: dict[int, Ask] = {}
    for ask in reversed(transcript.asks):
        at = len(candidates) - 1
        while at >= 0 and transcript.messages[candidates[at]].turn > ask.turn:
            at -= 1
        if at < 0 or transcript.messages[candidates[at]].turn < ask.turn:
            # The last reply of a later turn, if any.
            at = len(candidates) - 1 if at < len(candidates) - 1 else -1
        if at >= 0:
            replies[candidates[at]] = ask
            del candidates[at:]
    return replies


def _reply_messages(messages: Sequence[Message]) -> tuple[Mapping[Place, Message], set[int]]:
    """Give the message that answers each call, and the numbers of these messages."""
    waiting: dict[tuple[int, str], list[Place]] = defaultdict(list)
    replies: dict[Place, Message] = {}
    answers: set[int] = set()
    for number, message in enumerate(messages):
        for at, call in enumerate(call_requests(message)):
            waiting[message.phase, call.id].append((number, at))
        # Some models number the calls of each reply from 1 again, and some give parallel calls one id: an
        # answer belongs to the last message that requested this id, and there to the first call without one.
        if message.role == "tool" and (places := waiting[message.phase, message.call_id]):
            last = places[-1][0]
            place = next(place for place in places if place[0] == last)
            places.remove(place)
            replies[place] = message
            answers.add(number)
    return replies, answers


def _executions(
    transcript: Transcript, replies: Mapping[int, Ask]
) -> tuple[Mapping[Place, ToolCall], list[ToolCall]]:
    """Give the call that was carried out for each request, and the calls that no message requested."""
    remaining = dict(enumerate(transcript.calls))
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, call in remaining.items():
        alike[call.id, call.tool].append(place)
    executions: dict[Place, ToolCall] = {}
    # Replies of models claim their calls first, before messages that were only sent along with a request.
    for number in sorted(range(len(transcript.messages)), key=lambda number: number not in replies):
        message = transcript.messages[number]
        for at, request in enumerate(call_requests(message)):
            if same := alike[request.id, request.tool]:
                place = next((place for place in same if remaining[place].turn == message.turn), same[0])
                same.remove(place)
                executions[number, at] = remaining.pop(place)
    return executions, list(remaining.values())


def _steps_of_turns(unclaimed: list[ToolCall], before: float = inf) -> Iterator[ConversationStep]:
    """Take calls that no message requested out of ``unclaimed``, up to a turn; gives a step for each turn."""
    taken = list(takewhile(lambda call: call.turn < before, unclaimed))
    del unclaimed[: len(taken)]
    for _, calls in groupby(taken, lambda call: call.turn):
        yield ConversationStep(None, calls=tuple(ConversationCall(call, call) for call in calls))


def _repeated(messages: Iterable[Message]) -> set[int]:
    """Give the numbers of messages that an earlier phase has too."""
    first_phases: dict[tuple[str, str, tuple[str, ...], str], int] = {}
    repeated = set()
    for number, message in enumerate(messages):
        identity = message.role, message.content, tuple(call.id for call in message.calls), message.call_id
        if first_phases.setdefault(identity, message.phase) < message.phase:
            repeated.add(number)
    return repeated


class CallView(FrozenValue, frozen=True):
    """A tool call with what came of it; see ``ToolCall``.

    ``reply`` is the text that the model got, where that is not just ``result`` or ``error`` written out.
    ``executed`` is False where nothing says that the requested call was carried out. ``mark`` is the same for
    calls that are equal in all but their times and ids.
    """

    tool: str
    args: Mapping[str, Any]
    raw_args: str | None
    result: Any
    error: ToolError | None
    started: float
    ended: float
    by: Literal["agent", "seed", "provider"]
    tape: TapeStatus
    turn: int
    index: int
    reply: str = ""
    executed: bool = True
    mark: str = ""

    @property
    def failure(self) -> str:
        """The error's type and message; empty where the call did not fail."""
        return f"{self.error.type}: {self.error.message}" if self.error else ""


class MessageView(FrozenValue, frozen=True):
    """A message with the calls that it requested, and what the model took to write it.

    Two trials are compared step by step. A message without its calls is a step, and so is each call. ``mark``
    is the same for equal messages; it is empty where a message is nothing but its calls, and no step.
    """

    role: Role
    content: str
    turn: int
    phase: int
    seeded: bool
    reasoning: str = ""
    calls: tuple[CallView, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None
    mark: str = ""


def message_views(transcript: Transcript) -> Iterator[MessageView]:
    """Give the messages in order, with the calls that no message requested where their turn ends."""
    phase = 1
    for step in conversation_steps(transcript):
        if step.message is None:
            calls = tuple(map(_call, step.calls))
            seeded = all(call.by == "seed" for call in calls)
            yield MessageView("assistant", "", calls[0].turn, phase, seeded=seeded, calls=calls)
            continue
        message, ask, phase = step.message, step.ask, step.message.phase
        # Messages of others than assistants, who can ask for none, hold their calls themselves.
        calls = tuple(map(_call, step.calls or map(ConversationCall, message.calls)))
        is_step = bool(message.content) or not calls
        yield make_view(
            MessageView,
            message,
            reasoning=ask.reasoning if ask else "",
            calls=calls,
            usage=ask.usage if ask else None,
            seconds=ask.ended - ask.started if ask else None,
            mark=json_digest([message.role, message.content]) if is_step else "",
        )


def _call(step: ConversationCall) -> CallView:
    call, reply = step.execution or step.request, step.reply or ""
    result = jsonable(call.result)
    # Calls that a task's history holds were not carried out here: only messages tell their results.
    if step.execution is None:
        result, reply = shown_value(reply) if reply else None, ""
    args, reply = jsonable(call.args), "" if _repeats_result(reply, call, result) else reply
    executed = step.execution is not None or step.reply is not None
    error = [call.error.type, call.error.message] if call.error else []
    mark = json_digest([call.tool, args, call.raw_args, result, error, reply, executed])
    own = {"args": args, "result": result, "reply": reply, "executed": executed, "mark": mark}
    return make_view(CallView, call, **own)


def _repeats_result(reply: str, call: ToolCall, result: Any) -> bool:
    """Whether a reply is no more than the result, or the error, written out."""
    if not reply or reply == result_text(call):
        return True
    if error := call.error:
        return reply.strip() in (error.message.strip(), f"{error.type}: {error.message}".strip())
    return not isinstance(result, str) and bool(shown_value(reply) == result)


def make_view(kind: type[ViewT], source: object, **own: Any) -> ViewT:
    """Make a view whose fields are those of a record, but for its ``own``."""
    return kind(**same_fields(source, (name for name in kind.__struct_fields__ if name not in own)), **own)
