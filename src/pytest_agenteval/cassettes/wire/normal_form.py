"""Messages and calls in one form, so that a reply and its echo in the next request are equal.

Clients send a reply back in their own way: arguments written anew, no text or an empty one, thoughts or none,
an id where there was none. What they may change is brought into one form here, for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pytest_agenteval.cassettes.wire.smolagents_text import (
    CALLING,
    OBSERVED,
    observed,
    with_closed_code,
    written_calls,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import split_thoughts
from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.canonical import canonical, compact, digest_text
from pytest_agenteval.text.json_values import whole_text

# So litellm and pydantic-ai wrap what a model wrote in place of an object, where the API takes objects only.
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
            return compact(self.arguments)
        except ValueError:  # a number that JSON does not know: no arguments, and shown as they were written
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
        """Add what a system or a user says."""
        if self._in_text and content.startswith(OBSERVED):
            for id, result in zip(self._in_text, observed(content, len(self._in_text)), strict=True):
                self.add_result(id, result)
            self._in_text = []
            return
        self.messages.append({"role": normal_role(role), "content": content})

    def add_reply(self, content: str, calls: Sequence[WireCall] = ()) -> None:
        """Add what a model said; calls of its provider's are left out."""
        own = [call for call in calls if call.by == "agent"]
        if not own and CALLING in content:
            content, written = written_calls(content)
            own = [_written_call(call) for call in written]
            self._in_text = [call.id for call in own]
        ids = normal_ids(own, self.calls, numbered=self._numbered)
        self.calls += len(own)
        self.messages.append(assistant_message(content, own, ids))
        # A result without an id comes right after its call.
        self._open = [] if self._numbered else [call for call in self._open if call[0]]
        self._open += [(call.id, call.name, id) for call, id in zip(own, ids, strict=True)]

    def add_result(self, id: str, content: str, *, name: str = "", failed: bool = False) -> None:
        """Add what a tool gave: for the call with that id, else the first one open, by that name if given."""
        message = {"role": "tool", "content": content, "tool_call_id": self._answered(id, name)}
        self.messages.append({**message, "error": True} if failed else message)

    def _answered(self, id: str, name: str) -> str:
        for place, (wire_id, called, normal_id) in enumerate(self._open):
            if wire_id == id if id and wire_id else called == name or not name:
                del self._open[place]
                return normal_id
        return id


def _written_call(call: Mapping[str, Any]) -> WireCall:
    return WireCall(str(call.get("id") or ""), call["function"]["name"], call["function"]["arguments"])


def normal_role(role: str) -> str:
    """Give one of system, user, assistant, tool; who is none of them is a user."""
    role = _ROLES.get(role, role)
    return role if role in ("system", "user", "assistant", "tool") else "user"


def assistant_message(content: str, calls: Sequence[WireCall], ids: Sequence[str]) -> dict[str, Any]:
    """Write what a model said, without its thoughts and without blanks at either end: clients drop both."""
    text = split_thoughts(whole_text(content)).text.strip()
    message: dict[str, Any] = {"role": "assistant", "content": with_closed_code(text)}
    if calls:
        message["tool_calls"] = [_entry(call, id) for call, id in zip(calls, ids, strict=True)]
    return message


def tool_calls(calls: Iterable[WireCall], ids: Mapping[int, str]) -> tuple[ToolCall, ...]:
    """Write calls as a transcript holds them; ``ids`` are those of the agent's calls, by their place."""
    return tuple(_tool_call(call, place, ids.get(place, call.id)) for place, call in enumerate(calls))


def normal_ids(calls: Sequence[WireCall], prior: int, *, numbered: bool = False) -> list[str]:
    """Give an id to each call of one reply: the wire's own where it is there, and no other's.

    Else it is made of the call's place in the conversation and of what it asks, so that it is the same in
    each later request. ``prior`` counts the calls that were made before.
    """
    ids: list[str] = []
    for place, call in enumerate(calls, start=prior + 1):
        own = "" if numbered or call.id in ids else call.id
        ids.append(own or _id_of_place(call, place))
    return ids


def _id_of_place(call: WireCall, place: int) -> str:
    asked = f"{call.name} {canonical_arguments(call.arguments_text)}"
    return f"call_{place}_{digest_text(asked)[:8]}"


def canonical_arguments(text: str) -> str:
    """Write arguments in the one way that every client's spelling of them comes to."""
    args, raw = parse_arguments(text)
    if raw is not None:
        return raw
    wrapped = args.get(_WRAPPED)
    if len(args) == 1 and isinstance(wrapped, str):
        return wrapped
    return canonical(_whole_numbers(args))


def _entry(call: WireCall, id: str) -> dict[str, Any]:
    arguments = canonical_arguments(call.arguments_text)
    return {"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _tool_call(call: WireCall, place: int, id: str) -> ToolCall:
    args, raw = parse_arguments(call.arguments_text)
    return ToolCall(id, 0, place, call.name, args, raw, call.result, call.error, by=call.by)


def _whole_numbers(value: Any) -> Any:
    """Write 5.0 as 5: JavaScript and Go do, and a call's echo is the call."""
    if isinstance(value, dict):
        return {name: _whole_numbers(it) for name, it in value.items()}
    if isinstance(value, list):
        return list(map(_whole_numbers, value))
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
