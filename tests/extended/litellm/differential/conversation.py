"""What a conversation of the differential test is: what is asked, what the server answers, how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatSettings
from pytest_agenteval.records.plan import ModelPrice
from pytest_agenteval.records.tool_spec import ToolSpec
from tests.loopback.model_server import RawReply as RawReply
from tests.loopback.model_server import ReplyPlan as ReplyPlan

Wire = Literal["chat", "messages"]
Form = Literal["whole", "streamed"]
WIRES: tuple[Wire, ...] = ("chat", "messages")
FORMS: tuple[Form, ...] = ("whole", "streamed")

USUAL: Mapping[Wire, str] = {
    "chat": "openai/gpt-4.1",
    "messages": "anthropic/claude-sonnet-4-5",
}
"""Which model is asked where a conversation says nothing of it."""


@dataclass(frozen=True)
class Body:
    """A reply as the whole body that a provider would send; streamed, the same is told by events."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = ReplyPlan | RawReply | Body
PerWire: TypeAlias = Mapping[Wire, Any]


@dataclass(frozen=True)
class Ask:
    """One ask: the messages that are added to what was said before, and what is asked for beside them.

    Before ``messages`` come the ``results`` of the calls of the last reply, in their order.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[ToolSpec] = ()
    schema: Mapping[str, Any] | None = None
    settings: ChatSettings = DEFAULT_SETTINGS
    results: Sequence[Any] = ()


@dataclass(frozen=True)
class Conversation:
    """A model, what it is asked, and what its server answers; the last answer repeats.

    ``answers`` and ``ends`` are for all wires, or a map with those of each: a wire that is not in a map of
    answers is not asked. ``ends`` says of each ask how it ends: by the reply's ``finish``, or ``!`` and the
    cause of its failure. ``model`` names another model than the usual one of a wire, ``price`` is the user's.
    ``host`` is the name under which the server is asked, with a port where it is not the server's.
    """

    name: str
    asks: Sequence[Ask]
    answers: Sequence[Answer] | PerWire
    ends: str | PerWire = "stop"
    model: Mapping[Wire, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    price: ModelPrice | None = None
    forms: Sequence[Form] = FORMS
    wires: Sequence[Wire] = WIRES
    api_key_env: str = ""
    host: str = "127.0.0.1"

    def on(self, wire: Wire) -> bool:
        """Whether it is led on a wire."""
        return wire in self.wires and (not isinstance(self.answers, Mapping) or wire in self.answers)

    def answers_on(self, wire: Wire) -> Sequence[Answer]:
        """Give what the server answers."""
        answers: Sequence[Answer] = self.answers[wire] if isinstance(self.answers, Mapping) else self.answers
        return answers

    def ends_on(self, wire: Wire, form: Form) -> list[str]:
        """Give how each ask ends, the last word for all that are left."""
        ends: Any = self.ends
        if isinstance(ends, Mapping):
            ends = ends.get(f"{wire} {form}", ends.get(wire, ends.get(form, ends.get("", ""))))
        words = str(ends).split()
        return [words[min(place, len(words) - 1)] for place in range(len(self.asks))]

    def model_on(self, wire: Wire) -> str:
        """Give the id of the model."""
        return self.model.get(wire, USUAL[wire])


def user(*parts: Any, **more: Any) -> dict[str, Any]:
    """Give what a user says: a text, or parts."""
    return {"role": "user", "content": parts[0] if len(parts) == 1 else list(parts), **more}


def system(text: Any) -> dict[str, Any]:
    """Give an instruction."""
    return {"role": "system", "content": text}


def said(text: Any, **more: Any) -> dict[str, Any]:
    """Give what the model said before."""
    return {"role": "assistant", "content": text, **more}


def called(*calls: tuple[str, str, str], text: Any = "") -> dict[str, Any]:
    """Give calls that the model made before: id, tool and arguments as text."""
    made = [
        {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}
        for id, tool, arguments in calls
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(id: str, content: Any) -> dict[str, Any]:
    """Give what came of a call."""
    return {"role": "tool", "tool_call_id": id, "content": content}


def text(words: str) -> dict[str, Any]:
    """Give a part that is a text."""
    return {"type": "text", "text": words}


def once(*messages: Mapping[str, Any], **more: Any) -> tuple[Ask]:
    """Give a single ask."""
    return (Ask(messages or (user("What is 1 + 2?"),), **more),)


def settings(**named: Any) -> ChatSettings:
    """Give the settings of an ask."""
    return ChatSettings(**named)


def tool(name: str, description: str = "does it", **properties: Any) -> ToolSpec:
    """Give a tool with arguments that all have to be given."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return ToolSpec(name, description, {**schema, "required": list(properties)} if properties else schema)


ADD = tool("add", "adds two numbers", a={"type": "integer"}, b={"type": "integer"})
WEATHER = tool("get_weather", "tells the weather", city={"type": "string", "description": "where"})
OK = ReplyPlan(text="3")
