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


class StepCall(FrozenValue, frozen=True):
    """A call as it was asked for.

    ``made`` is the same call with what came of it, None where it was never made. ``shown`` is the text of its
    result in the conversation, None where there is none.
    """

    asked: ToolCall
    made: ToolCall | None = None
    shown: str | None = None

    @property
    def content(self) -> str | None:
        """The text that the model was shown of the result, else the result as text; None without any."""
        if self.shown is None and self.made is not None:
            return result_text(self.made)
        return self.shown


class Step(FrozenValue, frozen=True):
    """One message with what belongs to it; without a message, calls that no message asked for.

    ``ask`` is there where the message is a model's reply. ``given`` messages were not said at this place: the
    task gave them, the agent put them into a model's mouth, or they stood in an earlier conversation of the
    trial too, as where an agent starts anew with what it takes along.
    """

    message: Message | None
    ask: Ask | None = None
    calls: tuple[StepCall, ...] = ()
    given: bool = False


def conversation_steps(transcript: Transcript) -> tuple[Step, ...]:
    """Put a transcript's messages, calls and asks together; no message and no call is in two steps."""
    messages = transcript.messages
    replies = reply_asks(transcript)
    shown, answers = _shown_results(messages)
    made, unclaimed = _made_calls(transcript, replies)
    repeated = _repeated(messages)
    steps: list[Step] = []
    for number, message in enumerate(messages):
        steps += _steps_of_turns(unclaimed, before=message.turn)
        if number in answers:
            continue
        calls = [
            StepCall(call, made.get((number, at)), shown.get((number, at)))
            for at, call in enumerate(asked_calls(message))
        ]
        unsaid = (message.role == "assistant" and bool(replies)) or number in repeated or message.seeded
        steps.append(Step(message, replies.get(number), tuple(calls), number not in replies and unsaid))
    return (*steps, *_steps_of_turns(unclaimed))


def result_text(call: ToolCall) -> str:
    """Give what came of a call as the text that a model is shown, where nothing else writes it."""
    return ToolResult(call.result, call.error).content


def asked_calls(message: Message) -> tuple[ToolCall, ...]:
    """Give the calls that a message asks for: an assistant's, as nobody else can ask for any."""
    return message.calls if message.role == "assistant" else ()


def reply_asks(transcript: Transcript) -> Mapping[int, Ask]:
    """Give the number of each message that is a model's reply, with its ask.

    From the end: before a reply stand the messages of its turn that were given with the request, also by
    assistants. Of asks that overlapped, all replies bear the last turn: there they stand in the asks' order.
    """
    spoken = [number for number, message in enumerate(transcript.messages) if _may_be_reply(message)]
    replies: dict[int, Ask] = {}
    for ask in reversed(transcript.asks):
        at = len(spoken) - 1
        while at >= 0 and transcript.messages[spoken[at]].turn > ask.turn:
            at -= 1
        if at < 0 or transcript.messages[spoken[at]].turn < ask.turn:
            at = len(spoken) - 1 if at < len(spoken) - 1 else -1  # the last reply of a later turn, if any
        if at >= 0:
            replies[spoken[at]] = ask
            del spoken[at:]
    return replies


def _may_be_reply(message: Message) -> bool:
    given = message.seeded or any(call.by == "seed" for call in message.calls)
    return message.role == "assistant" and not given


def _shown_results(messages: Sequence[Message]) -> tuple[Mapping[Place, str], set[int]]:
    """Give the text that answers each call, and the numbers of the messages that hold these texts."""
    waiting: dict[tuple[int, str], list[Place]] = defaultdict(list)
    shown: dict[Place, str] = {}
    answers: set[int] = set()
    for number, message in enumerate(messages):
        for at, call in enumerate(asked_calls(message)):
            waiting[message.phase, call.id].append((number, at))
        if message.role == "tool" and (places := waiting[message.phase, message.call_id]):
            place = _next_place(places)
            places.remove(place)
            shown[place] = message.content
            answers.add(number)
    return shown, answers


def _next_place(waiting: Sequence[Place]) -> Place:
    """Give the call that a tool's message answers: of the last message that asks, the first one."""
    last = waiting[-1][0]
    return next(place for place in waiting if place[0] == last)


def _made_calls(
    transcript: Transcript, replies: Mapping[int, Ask]
) -> tuple[Mapping[Place, ToolCall], list[ToolCall]]:
    """Give the call that was made of each that was asked for, and those that no message asked for."""
    left = dict(enumerate(transcript.calls))
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, call in left.items():
        alike[call.id, call.tool].append(place)
    made: dict[Place, ToolCall] = {}
    for number in sorted(range(len(transcript.messages)), key=lambda number: number not in replies):
        message = transcript.messages[number]
        for at, asked in enumerate(asked_calls(message)):
            if same := alike[asked.id, asked.tool]:
                place = next((place for place in same if left[place].turn == message.turn), same[0])
                same.remove(place)
                made[number, at] = left.pop(place)
    return made, list(left.values())


def _steps_of_turns(unclaimed: list[ToolCall], before: int | None = None) -> Iterator[Step]:
    """Take calls that no message asked for out of the list, up to a turn; a step for each turn's."""
    while unclaimed and (before is None or unclaimed[0].turn < before):
        turn, calls = unclaimed[0].turn, []
        while unclaimed and unclaimed[0].turn == turn:
            calls.append(unclaimed.pop(0))
        yield Step(None, calls=tuple(StepCall(call, call) for call in calls))


def _repeated(messages: Iterable[Message]) -> set[int]:
    """Give the numbers of messages that stood in an earlier phase too."""
    first_phases: dict[tuple[str, str, tuple[str, ...], str], int] = {}
    repeated = set()
    for number, message in enumerate(messages):
        said = message.role, message.content, tuple(call.id for call in message.calls), message.call_id
        if first_phases.setdefault(said, message.phase) < message.phase:
            repeated.add(number)
    return repeated
