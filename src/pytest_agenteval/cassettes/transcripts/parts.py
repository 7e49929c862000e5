"""What transcripts of other programs are made of: values with their places, messages, calls and usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.usage import COUNT_NAMES, read_usage, usage_format
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import split_thoughts
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments, shown_value
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    NOT_FINISHED,
    Ask,
    Message,
    Role,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)
from pytest_agenteval.text.errors import KeyPath, TrialBroken
from pytest_agenteval.text.json_values import compact_json, format_path, jsonable

MOST_CHARS = 60


class UnreadableTranscript(TrialBroken):
    """What an agent gave as its transcript is none; the text names the place, in one line."""

    cause = "answer"


class Place:
    """A value within a transcript; ``path`` leads to it from what the agent gave."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: KeyPath = ()) -> None:
        self.value, self.path = value, path

    def wrong(self, expected: str) -> UnreadableTranscript:
        """Give the error that names this place, what was expected there, and what was found."""
        if self.value is None:
            found = "nothing"
        elif isinstance(self.value, Mapping):
            keys = ", ".join(map(str, list(self.value)[:8]))
            found = f"a map (keys: {keys})" if keys else "an empty map"
        elif isinstance(self.value, list | tuple):
            found = f"a list of {len(self.value)}"
        else:
            found = repr(jsonable(self.value))
            found = found if len(found) <= MOST_CHARS else f"{found[:MOST_CHARS]}…"
        return UnreadableTranscript(f"{format_path(self.path)}: expected {expected}, found {found}")

    def get(self, key: str) -> Place | None:
        """Give the value under a key of this map, None where that is missing or null."""
        value = self.map().get(key)
        return None if value is None else Place(value, (*self.path, key))

    def at(self, key: str, expected: str) -> Place:
        """Give the value under a key; raises UnreadableTranscript where that is missing or null."""
        place = self.get(key)
        if place is None:
            raise Place(None, (*self.path, key)).wrong(expected)
        return place

    def map(self) -> Mapping[str, Any]:
        """Give the map that this is; an SDK's own object is the map that it dumps."""
        if not isinstance(self.value, Mapping) and hasattr(self.value, "model_dump"):
            self.value = self.value.model_dump()
        if not isinstance(self.value, Mapping):
            raise self.wrong("a map")
        return self.value

    def items(self) -> Iterator[Place]:
        if not isinstance(self.value, list | tuple):
            raise self.wrong("a list")
        return (Place(item, (*self.path, at)) for at, item in enumerate(self.value))

    def items_of(self, key: str) -> Iterator[Place]:
        """Give the places of the list under a key; none where there is no such key."""
        place = self.get(key)
        return iter(()) if place is None else place.items()

    def text(self, expected: str = "a text") -> str:
        if not isinstance(self.value, str):
            raise self.wrong(expected)
        return self.value

    def text_of(self, key: str) -> str:
        """Give the text under a key, an empty one where there is no such key."""
        place = self.get(key)
        return "" if place is None else place.text()

    def number_of(self, key: str) -> float | None:
        """Give the number under a key, None where there is no such key."""
        place = self.get(key)
        if place is None:
            return None
        # In Python, ``True`` is an int.
        if isinstance(place.value, bool) or not isinstance(place.value, int | float):
            raise place.wrong("a number")
        return place.value

    def count_of(self, key: str) -> int:
        """Give the whole number from 0 on under a key, 0 where there is no such key."""
        number = self.number_of(key) or 0
        if number < 0 or number != int(number):
            raise Place(number, (*self.path, key)).wrong("a whole number, 0 or more")
        return int(number)

    def known_count_of(self, key: str) -> int | None:
        """Give the whole number from 0 on under a key, None where there is none."""
        return None if self.number_of(key) is None else self.count_of(key)


UNKNOWN_USAGE = Usage(None, None, None, None, None, asks=1, attempts=None)
"""The usage of a reply for which nothing states it."""

UNFINISHED = ToolError(NOT_FINISHED, "the call did not end")


class CallRequest(FrozenValue, frozen=True):
    """A call as a reply requests it; ``raw_args`` is the text of its arguments if that is no JSON object."""

    id: str
    tool: str
    args: Mapping[str, Any] = NOTHING
    raw_args: str | None = None
    by: Literal["agent", "provider"] = "agent"


class TranscriptBuilder:
    """Puts a transcript together; a call is answered by the first result with its id that comes after it.

    ``phase`` is the number of the conversation to which what is added belongs.
    """

    def __init__(self) -> None:
        self.replies, self.phase = 0, 1
        self._messages: list[Message] = []
        self._calls: list[ToolCall] = []
        self._asks: list[Ask] = []
        self._tools: tuple[ToolSpec, ...] = ()

    def say(self, role: Role, content: str, call_id: str = "", *, seeded: bool = False) -> None:
        """Add a message that is no reply."""
        self._messages.append(Message(role, content, (), self.replies + 1, seeded, self.phase, call_id))

    def request(
        self, requests: Sequence[CallRequest], turn: int, *, seeded: bool = False
    ) -> tuple[ToolCall, ...]:
        """Add calls; each counts as unfinished until its result is read."""
        calls = tuple(
            ToolCall(it.id, turn, index, it.tool, it.args, it.raw_args, by="seed" if seeded else it.by)
            for index, it in enumerate(requests)
        )
        self._calls += [replace(call, error=UNFINISHED) for call in calls]
        return calls

    def put_in_mouth(self, content: str, requests: Sequence[CallRequest], *, seeded: bool) -> None:
        """Add an assistant's message that is no reply of a model."""
        calls = self.request(requests, 0, seeded=True)
        self._messages.append(Message("assistant", content, calls, self.replies + 1, seeded, self.phase))

    def reply(self, content: str, requests: Sequence[CallRequest] = (), **ask: Any) -> None:
        """Add a model's reply with the calls that it requests; ``ask`` are fields of its ``Ask``.

        Thoughts that a server left in the text are split off, as of replies that were seen.
        """
        content, thought = split_thoughts(content)
        ask["reasoning"] = "\n\n".join(filter(None, (ask.get("reasoning", ""), thought)))
        self.replies += 1
        calls = self.request(requests, self.replies)
        self._messages.append(Message("assistant", content, calls, self.replies, phase=self.phase))
        fields = {
            "started": 0.0,
            "ended": 0.0,
            "usage": UNKNOWN_USAGE,
            "finish": "tool_calls" if calls else "stop",
            **ask,
        }
        self._asks.append(Ask(self.replies, **fields))

    def result(self, call_id: str, content: str, *, failed: bool = False, is_shown: bool = True) -> None:
        """Add what came of a call; ``is_shown`` is whether the model saw it."""
        if is_shown:
            self.say("tool", content, call_id)
        for place, call in enumerate(self._calls):
            if call.id == call_id and call.error is UNFINISHED:
                error = ToolError("tool_error", content) if failed else None
                result = None if failed else shown_value(content)
                self._calls[place] = replace(call, result=result, error=error)
                return

    def offer(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tuple(tools) or self._tools

    def transcript(self, total: Usage | None = None) -> Transcript:
        """Give what has been added; ``total`` is what all replies together took, where they do not say."""
        usage = sum((ask.usage for ask in self._asks), NO_USAGE)
        if total is not None and not usage.known_tokens:
            usage = replace(total, asks=self.replies)
        return Transcript(
            tuple(self._messages), tuple(self._calls), tuple(self._asks), usage=usage, tools=self._tools
        )


def shown_text(value: Any) -> str:
    """Give a value as the text that a model is shown: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else compact_json(jsonable(value))


def moment_of(at: Place) -> datetime:
    """Read a time in ISO 8601, which is UTC where it does not say otherwise."""
    try:
        read = datetime.fromisoformat(at.text("a time in ISO 8601"))
    except ValueError:
        raise at.wrong("a time in ISO 8601") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


TEXT_KEYS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Where the text of a part stands, by the part's type."""


def content_text(content: Place | None) -> str:
    """Give content as text: parts are joined by line breaks, ``[image]`` stands for one that is no text."""
    if content is None:
        return ""
    if isinstance(content.value, str):
        return content.value
    if not isinstance(content.value, list | tuple):
        raise content.wrong("a text or a list of parts")
    return "\n".join(filter(None, map(part_text, content.items())))


def part_text(part: Place) -> str:
    """Give a part of content as text; one of an unknown type as its type in brackets."""
    if isinstance(part.value, str):
        return part.value
    kind = part.at("type", "the type of a part, such as text").text()
    return part.text_of(TEXT_KEYS[kind]) if kind in TEXT_KEYS else f"[{kind}]"


def call_request(call: Place) -> CallRequest:
    """Read a call in any dialect.

    OpenAI's ``{id, function: {name, arguments}}``, Anthropic's ``{id, name, input}``, items of Responses
    ``{call_id, name, arguments}``, and plain ``{tool, args}``.
    """
    function = call.get("function")
    body = call if function is None else function
    name = body.get("name") or body.get("tool") or body.at("name", "the name of a tool")
    id = call.get("call_id") or call.get("id")
    return CallRequest("" if id is None else id.text(), name.text(), *_arguments(body))


def _arguments(body: Place) -> tuple[Mapping[str, object], str | None]:
    """Read arguments: a map, or the text that a model wrote, be it JSON or not."""
    for key in ("arguments", "args", "input"):
        place = body.get(key)
        if place is None:
            continue
        if isinstance(place.value, str):
            return parse_arguments(place.value or "{}")
        if not isinstance(place.value, Mapping):
            raise place.wrong("a map, or a JSON object as text")
        return {str(name): value for name, value in place.value.items()}, None
    return NOTHING, None


def returned_usage(place: Place | None) -> Usage | None:
    """Read what a reply took, in the words of any provider or in ours; None where there is no usage.

    Raises UnreadableTranscript where a count is no whole number from 0 on, or the cost is no number.
    """
    if place is None:
        return None
    format = usage_format(place.map())
    names = COUNT_NAMES[format]
    for name in filter(None, (*names.input, names.output, *names.cached, names.reasoning)):
        _known_count(place, name)
    usage, _ = read_usage(format, jsonable(place.value))
    cached, reasoning = (place.known_count_of(name) for name in ("cached_tokens", "reasoning_tokens"))
    cost = place.number_of("cost_usd")
    return replace(
        usage,
        cached_tokens=cached if usage.cached_tokens is None else usage.cached_tokens,
        reasoning_tokens=reasoning if usage.reasoning_tokens is None else usage.reasoning_tokens,
        cost_usd=usage.cost_usd if cost is None else cost,
    )


def _known_count(place: Place, name: str) -> int | None:
    *maps, key = name.split(".")
    for part in maps:
        within = place.get(part)
        if within is None:
            return None
        place = within
    return place.known_count_of(key)


def result_text(place: Place | None) -> str:
    """Give what a tool gave back as the text that a model is shown: parts as text, other values as JSON."""
    if place is None:
        return ""
    # A list of maps without types is a tool's own value, and no list of parts.
    is_parts = isinstance(place.value, list | tuple) and all(
        isinstance(part, Mapping) and "type" in part for part in place.value
    )
    return content_text(place) if is_parts else shown_text(place.value)
