"""Messages, calls and replies in one form, so that a reply and its echo in the next request are equal.

Clients send a reply back in their own way: arguments written anew, no text or an empty one, thoughts or none,
an id where there was none. What they may change is brought into one form here, for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pytest_agenteval.cassettes.wire.traffic import Json, ModelReply, ModelRequest
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import UNKNOWN, PricedApart, finish_of, split_thoughts
from pytest_agenteval.records.tool_spec import parse_arguments
from pytest_agenteval.records.transcript import ToolCall, ToolError, Usage
from pytest_agenteval.text.json_values import (
    canonical_json,
    compact_json,
    mend_surrogates,
    text_digest,
    whole_numbers,
)

CALLS_MARK, OBSERVATION_MARK = "Calling tools:\n", "Observation:\n"
_CODE = "python_interpreter"
_OPENED, _CLOSED = "<code>", "</code>"


def written_calls(content: str) -> tuple[str, Sequence[Any]]:
    """Split a text from the calls that smolagents writes behind it, as maps of OpenAI's shape.

    A text without calls is given whole. Code that was run is no call: the model wrote it into its text.
    """
    text, mark, listed = content.rpartition(CALLS_MARK)
    if not mark or not listed.startswith("["):
        return content, ()
    calls = _python_list(listed)
    names = [call["function"]["name"] for call in calls if _is_call(call)]
    if not names or len(names) < len(calls):
        return content, ()
    return text, () if names == [_CODE] else calls


def with_closed_code(content: str) -> str:
    """Close the code that a stop word cut off, as smolagents does before it sends a reply back."""
    if content.rfind(_OPENED) > content.rfind(_CLOSED):
        return content + _CLOSED
    return content.removesuffix(_CLOSED).rstrip() + _CLOSED if content.endswith(_CLOSED) else content


def _python_list(text: str) -> list[Any]:
    """Read a list as Python writes it; any other text gives the empty one."""
    from ast import literal_eval

    try:
        value = literal_eval(text.strip())
    # Python warns of unknown escapes in what it parses, and ``-W error`` makes a warning an exception.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return []
    return value if isinstance(value, list) else []


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and "arguments" in function


# Where an API takes objects only, litellm and pydantic-ai wrap arguments that are no object under this key.
_WRAPPED = "INVALID_JSON"
_ROLES = {"developer": "system", "model": "assistant", "function": "tool"}


class WireCall(FrozenValue, frozen=True):
    """A tool call as a format holds it: ``arguments`` are a text or a JSON value, ``id`` may be empty."""

    id: str
    name: str
    arguments: Any
    by: Literal["agent", "provider"] = "agent"
    result: Any = None
    error: ToolError | None = None

    @property
    def arguments_text(self) -> str:
        """The arguments as a text, which is no JSON object where the model wrote none."""
        if isinstance(self.arguments, str):
            return self.arguments.strip() or "{}"
        if self.arguments is None:
            return "{}"
        try:
            return compact_json(self.arguments)
        # NaN or infinity, which JSON does not have: these are no arguments, and are shown as they were sent.
        except ValueError:
            return json.dumps(self.arguments, ensure_ascii=False)


class Conversation:
    """Collects the messages of a request in normal form.

    ``numbered`` says that ids are made of a call's place, whatever the wire says: where a format has none,
    clients invent some.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self.calls = 0
        self._numbered = numbered
        self._open: list[tuple[str, str, str]] = []
        self._in_text: list[str] = []

    def add(self, role: str, content: str) -> None:
        """Add a message of the system or the user; one with results that smolagents wrote becomes those."""
        if self._in_text and content.startswith(OBSERVATION_MARK):
            text = content.removeprefix(OBSERVATION_MARK)
            # smolagents writes a line for each call. Where the number of lines is another, a result has
            # line breaks of its own: then each call gets all of the text.
            lines = text.split("\n")
            if len(lines) != len(self._in_text):
                lines = [text] * len(self._in_text)
            for id, result in zip(self._in_text, lines, strict=True):
                self.add_result(id, result)
            self._in_text = []
            return
        self.messages.append({"role": normal_role(role), "content": content})

    def add_reply(self, content: str, calls: Sequence[WireCall] = ()) -> None:
        """Add a model's message; calls of its provider's are left out."""
        own = [call for call in calls if call.by == "agent"]
        if not own and CALLS_MARK in content:
            content, written = written_calls(content)
            functions = [(str(call.get("id") or ""), call["function"]) for call in written]
            own = [WireCall(id, function["name"], function["arguments"]) for id, function in functions]
            self._in_text = [call.id for call in own]
        ids = normal_ids(own, self.calls, numbered=self._numbered)
        self.calls += len(own)
        self.messages.append(assistant_message(content, own, ids))
        # A result without an id belongs to the latest calls: earlier ones that have no id either are closed.
        self._open = [] if self._numbered else [call for call in self._open if call[0]]
        self._open += [(call.id, call.name, id) for call, id in zip(own, ids, strict=True)]

    def add_result(self, id: str, content: str, *, name: str = "", failed: bool = False) -> None:
        """Add a tool's result: for the call with that id, else the first open call, of that name if given."""
        message = {"role": "tool", "content": content, "tool_call_id": self._answered(id, name)}
        self.messages.append({**message, "error": True} if failed else message)

    def _answered(self, id: str, name: str) -> str:
        for place, (wire_id, called, normal_id) in enumerate(self._open):
            if wire_id == id if id and wire_id else called == name or not name:
                del self._open[place]
                return normal_id
        return id


def normal_role(role: str) -> str:
    """Give one of system, user, assistant, tool; any other role becomes a user."""
    role = _ROLES.get(role, role)
    return role if role in ("system", "user", "assistant", "tool") else "user"


def assistant_message(content: str, calls: Sequence[WireCall], ids: Sequence[str]) -> dict[str, Any]:
    """Write a model's message, without its thoughts and without blanks at either end: clients drop both."""
    text = split_thoughts(mend_surrogates(content)).text.strip()
    message: dict[str, Any] = {"role": "assistant", "content": with_closed_code(text)}
    if calls:
        message["tool_calls"] = []
        for call, id in zip(calls, ids, strict=True):
            function = {"name": call.name, "arguments": canonical_arguments(call.arguments_text)}
            message["tool_calls"].append({"id": id, "type": "function", "function": function})
    return message


def normal_ids(calls: Sequence[WireCall], prior: int, *, numbered: bool = False) -> list[str]:
    """Give an id to each call of one reply: the wire's own, unless an earlier call of the reply has it too.

    Else the id is made of the call's place in the conversation, its name and its arguments, so that it is
    the same in each later request. ``prior`` counts the calls that were made before.
    """
    ids: list[str] = []
    for place, call in enumerate(calls, start=prior + 1):
        own = "" if numbered or call.id in ids else call.id
        if not own:
            signature = f"{call.name} {canonical_arguments(call.arguments_text)}"
            own = f"call_{place}_{text_digest(signature)[:8]}"
        ids.append(own)
    return ids


def canonical_arguments(text: str) -> str:
    """Write arguments in one form, however a client has written them."""
    args, raw = parse_arguments(text)
    if raw is not None:
        return raw
    wrapped = args.get(_WRAPPED)
    if len(args) == 1 and isinstance(wrapped, str):
        return wrapped
    return canonical_json(whole_numbers(args))


class ReplyParts(FrozenValue, frozen=True):
    """What a format's reader takes out of a response."""

    content: str = ""
    calls: Sequence[WireCall] = ()
    usage: Usage = UNKNOWN
    finish: str = "stop"
    refused: bool = False
    reasoning: str = ""
    model: str = ""
    id: str = ""
    items: Mapping[str, Json] = NOTHING
    priced_apart: PricedApart = PricedApart()


def model_reply(
    parts: ReplyParts, read: Callable[[], ModelRequest | None], *, numbered: bool = False
) -> ModelReply:
    """Give a reply in normal form; ``numbered`` says that the format has no ids of calls.

    ``read`` gives the request that it answers, None where that cannot be read. It is called only where the
    reply names no model, or where an id has to be made of how many calls the conversation holds.
    """
    own = [call for call in parts.calls if call.by == "agent"]
    unnamed = numbered or len({call.id for call in own if call.id}) < len(own)
    request = read() if unnamed or not parts.model else None
    prior = 0
    if unnamed and request is not None:
        prior = sum(len(message.get("tool_calls", ())) for message in request.messages)
    ids = normal_ids(own, prior, numbered=numbered)
    calls, own_ids = [], iter(ids)
    for place, call in enumerate(parts.calls):
        args, raw = parse_arguments(call.arguments_text)
        id = next(own_ids) if call.by == "agent" else call.id
        calls.append(ToolCall(id, 0, place, call.name, args, raw, call.result, call.error, by=call.by))
    return ModelReply(
        assistant_message(parts.content, own, ids),
        tuple(calls),
        parts.usage,
        finish_of(parts.finish, calls=bool(own), refused=parts.refused),
        parts.reasoning,
        parts.model or (request.model if request else ""),
        parts.id,
        parts.items,
        parts.priced_apart,
    )
