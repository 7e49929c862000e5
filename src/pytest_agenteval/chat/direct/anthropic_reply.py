"""Replies of Anthropic's in the words of what was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts, WireCall
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.anthropic_tools import REPLY_TOOL, tool_names
from pytest_agenteval.chat.direct.model_request import ModelAsk


def echo_of(whole: Json) -> Any:
    """Give the thoughts of a whole reply: the provider wants them back with the results of its calls."""
    kinds = ("thinking", "redacted_thinking")
    return [dict(block) for block in maps_in(whole.get("content")) if block.get("type") in kinds] or None


def reply_of(parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
    """Give a reply in the words of what was asked: tools by their names, a schema's object as text."""
    own = {wire: name for name, wire in tool_names(ask.tools).items()}
    begun = _begun(ask.messages)
    content = parts.content if parts.content.startswith(begun) else begun + parts.content
    told = replace(parts, calls=tuple(_renamed(call, own) for call in parts.calls), content=content)
    return told if ask.response_schema is None else _with_object_as_text(told)


def _renamed(call: WireCall, own: Mapping[str, str]) -> WireCall:
    return replace(call, name=own[call.name]) if call.by == "agent" and call.name in own else call


def _begun(messages: Sequence[Mapping[str, Any]]) -> str:
    """Give the beginning of the reply, where the ask says that it is one."""
    last = messages[-1] if messages else {}
    begins = last.get("role") == "assistant" and last.get("prefix")
    return as_text(last.get("content")) if begins else ""


def _with_object_as_text(parts: ReplyParts) -> ReplyParts:
    """Make the reply's text of the arguments of the tool that stood for its schema."""
    objects = [call for call in parts.calls if call.name == REPLY_TOOL and call.by == "agent"]
    if not objects:
        return parts
    text = _text_of_object(objects[0].arguments)
    calls = tuple(call for call in parts.calls if call not in objects)
    if any(call.by == "agent" for call in calls):
        return replace(parts, content=parts.content + text, calls=calls)
    return replace(parts, content=text, calls=calls, finish="stop")


def _text_of_object(arguments: Any) -> str:
    """Write the object; a model that puts it below ``values`` means what stands there."""
    if isinstance(arguments, str):
        return arguments
    values = as_map(arguments).get("values")
    return json.dumps(arguments if values is None else values, ensure_ascii=False)
