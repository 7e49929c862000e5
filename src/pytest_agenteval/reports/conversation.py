"""A transcript as steps: each reply with what it took, each call with what came of it, in one place.

A transcript keeps messages, calls and asks apart, in the order in which they happened. Readers want them
together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, Transcript
from pytest_agenteval.tools.tool import ToolResult

Place: TypeAlias = tuple[int, int]
"""A call by the number of the message that asks for it, and its own number there."""


class ConversationCall(FrozenValue, frozen=True):
    """A call as a message requests it.

    ``execution`` is the same call with what came of it, None where it was never carried out. ``answer`` is
    the message that tells its result in the conversation, None where there is none.
    """

    request: ToolCall
    execution: ToolCall | None = None
    answer: Message | None = None

    @property
    def reply(self) -> str | None:
        """The text of its result in the conversation, None where there is none."""
        return None if self.answer is None else self.answer.content

    @property
    def content(self) -> str | None:
        """The text that the model was shown of the result, else the result as text; None without any."""
        if self.reply is None and self.execution is not None:
            return result_text(self.execution)
        return self.reply


class ConversationStep(FrozenValue, frozen=True):
    """One message with what belongs to it; without a message, calls that no message asked for.

    ``ask`` is there where the message is a model's reply. A message that ``is_context`` was not said at this
    place: the task gave it, the agent put it into a model's mouth, or it stood in an earlier conversation of
    the trial too, as where an agent starts anew with what it takes along.
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
        steps += _steps_of_turns(unclaimed, before=message.turn)
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
    """Give what came of a call as the text that a model is shown, where nothing else writes it."""
    return ToolResult(call.result, call.error).content


def call_requests(message: Message) -> tuple[ToolCall, ...]:
    """Give the calls that a message requests: only an assistant's message can."""
    return message.calls if message.role == "assistant" else ()


def reply_asks(transcript: Transcript) -> Mapping[int, Ask]:
    """Give the number of each message that is a model's reply, with its ask.

    From the end: before a reply stand the messages of its turn that were given with the request, also by
    assistants. Of asks that overlapped, all replies bear the last turn: there they stand in the asks' order.
    """
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
    for number in sorted(range(len(transcript.messages)), key=lambda number: number not in replies):
        message = transcript.messages[number]
        for at, request in enumerate(call_requests(message)):
            if same := alike[request.id, request.tool]:
                place = next((place for place in same if remaining[place].turn == message.turn), same[0])
                same.remove(place)
                executions[number, at] = remaining.pop(place)
    return executions, list(remaining.values())


def _steps_of_turns(unclaimed: list[ToolCall], before: int | None = None) -> Iterator[ConversationStep]:
    """Take calls that no message requested out of the list, up to a turn; a step for each turn."""
    while unclaimed and (before is None or unclaimed[0].turn < before):
        turn, calls = unclaimed[0].turn, []
        while unclaimed and unclaimed[0].turn == turn:
            calls.append(unclaimed.pop(0))
        yield ConversationStep(None, calls=tuple(ConversationCall(call, call) for call in calls))


def _repeated(messages: Iterable[Message]) -> set[int]:
    """Give the numbers of messages that stood in an earlier phase too."""
    first_phases: dict[tuple[str, str, tuple[str, ...], str], int] = {}
    repeated = set()
    for number, message in enumerate(messages):
        identity = message.role, message.content, tuple(call.id for call in message.calls), message.call_id
        if first_phases.setdefault(identity, message.phase) < message.phase:
            repeated.add(number)
    return repeated
