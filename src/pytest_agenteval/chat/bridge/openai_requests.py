"""Requests of OpenAI's clients, to chat completions and to responses, as asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import normal_role
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, function_spec, maps_in
from pytest_agenteval.chat.bridge.client_ask import (
    ClientAsk,
    Earlier,
    Message,
    assistant,
    call_of,
    client_ask,
    content_of,
    image_part,
    not_passed,
    parts_of,
    result_of,
    system_messages,
    text_part,
)
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.json_values import compact_json, plain_json

_IN_NAMESPACE = "__"  # between a namespace of OpenAI's responses and the name of a tool in it


def read_chat(body: Json, earlier: Earlier) -> ClientAsk:
    messages = [_chat_message(message) for message in maps_in(body.get("messages"))]
    read = ("model", "messages", "tools", "tool_choice", "response_format")
    return client_ask(messages, body, read, **_format(body.get("response_format")), **_tools_and_choice(body))


def _chat_part(part: Json) -> Message | None:
    kind = as_text(part.get("type"))
    if kind in ("text", "refusal"):
        return text_part(as_text(part.get(kind)))
    if kind == "image_url":
        return {"type": kind, kind: plain_json(part.get(kind))}
    raise not_passed("content", kind)


def _chat_message(message: Json) -> Message:
    role = normal_role(as_text(message.get("role")))
    parts = parts_of(message.get("content") or message.get("refusal"), _chat_part)
    if role == "tool":
        return result_of(as_text(message.get("tool_call_id")), parts)
    if role != "assistant":
        return {"role": role, "content": content_of(parts)}
    calls = []
    for call in maps_in(message.get("tool_calls")):
        if call.get("type", "function") != "function":
            raise not_passed("call", as_text(call.get("type")))
        function = as_map(call.get("function"))
        name, arguments = as_text(function.get("name")), function.get("arguments")
        calls.append(call_of(as_text(call.get("id")), name, arguments))
    if message.get("function_call"):
        raise not_passed("call", "function_call")
    return assistant(parts, calls)


def openai_tools(tools: Any) -> list[ToolSpec]:
    """Read tools; those of a namespace have its name before their own."""
    specs: list[ToolSpec] = []
    for tool in maps_in(tools):
        kind, space = tool.get("type", "function"), as_text(tool.get("name"))
        if kind == "namespace":
            inner = openai_tools(tool.get("tools"))
            specs += [replace(each, name=f"{space}{_IN_NAMESPACE}{each.name}") for each in inner]
        elif kind == "function":
            specs.append(function_spec(tool))
        else:
            raise not_passed("tool", as_text(kind))
    return specs


def namespaced_tools(tools: Any) -> Mapping[str, tuple[str, str]]:
    """Give the namespace and the own name of each tool that is in one, by its name for the model."""
    groups = [tool for tool in maps_in(tools) if tool.get("type") == "namespace"]
    pairs = [(as_text(it.get("name")), spec.name) for it in groups for spec in openai_tools(it.get("tools"))]
    return {_IN_NAMESPACE.join(pair): pair for pair in pairs}


def _tools_and_choice(body: Json) -> dict[str, Any]:
    tools, choice = openai_tools(body.get("tools")), body.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return {"tools": tools, "choice": choice}
    chosen = as_map(choice)
    if chosen.get("type") == "allowed_tools":
        allowed = as_map(chosen.get("allowed_tools")) or chosen
        names = [spec.name for spec in openai_tools(allowed.get("tools"))]
        return {"tools": tools, "choice": as_text(allowed.get("mode")) or "auto", "callable_tools": names}
    name = as_text((as_map(chosen.get("function")) or chosen).get("name"))
    if not name:
        raise not_passed("tool_choice", as_text(chosen.get("type")))
    return {"tools": tools, "choice": name}


def _format(format: Any) -> dict[str, Any]:
    kind = as_text(as_map(format).get("type"))
    if kind == "json_schema":
        return {"schema": as_map((as_map(format.get("json_schema")) or format).get("schema"))}
    if kind not in ("", "text", "json_object"):
        raise not_passed("format", kind)
    return {"is_json": kind == "json_object"}


def read_responses(body: Json, earlier: Earlier) -> ClientAsk:
    listed, previous = body.get("input"), as_text(body.get("previous_response_id"))
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else maps_in(listed)
    if previous and previous not in earlier.conversations:
        raise not_passed("previous_response_id", previous)
    messages = system_messages(parts_of(body.get("instructions"), _item_part))
    messages += earlier.conversations.get(previous, ())
    messages += _with_joined_replies(_item_messages(items, earlier))
    for included in body.get("include") or ():
        if "logprobs" in included:
            raise not_passed("include", included)
    text = as_map(body.get("text"))
    read = (
        "model", "input", "instructions", "tools", "tool_choice", "text", "previous_response_id",
    )  # fmt: skip
    settings = {**body, "verbosity": text.get("verbosity")}
    return client_ask(messages, settings, read, **_format(text.get("format")), **_tools_and_choice(body))


def _item_part(part: Json) -> Message | None:
    kind = as_text(part.get("type"))
    if kind in ("input_text", "output_text", "text", "refusal"):
        return text_part(as_text(part.get("text")) or as_text(part.get("refusal")))
    if kind == "input_image" and (url := as_text(part.get("image_url"))):
        return image_part(url)
    raise not_passed("content", kind)


def _item_messages(items: Sequence[Json], earlier: Earlier) -> Iterator[Message]:
    for item in items:
        kind, id = as_text(item.get("type")) or "message", as_text(item.get("call_id"))
        if kind == "item_reference":
            known = earlier.items.get(as_text(item.get("id")))
            if known is None:
                raise not_passed("item_reference", as_text(item.get("id")))
            yield from _item_messages([known], earlier)
        elif kind == "message":
            role, parts = normal_role(as_text(item.get("role"))), parts_of(item.get("content"), _item_part)
            is_reply = role == "assistant"
            yield assistant(parts) if is_reply else {"role": role, "content": content_of(parts)}
        elif kind == "function_call":
            name = _IN_NAMESPACE.join(filter(None, map(as_text, (item.get("namespace"), item.get("name")))))
            yield assistant((), [call_of(id, name, item.get("arguments"))])
        elif kind == "function_call_output":
            output = item.get("output")
            is_read = isinstance(output, str | list)
            yield result_of(id, parts_of(output if is_read else compact_json(output), _item_part))
        elif kind != "reasoning":
            raise not_passed("item", kind)


def _with_joined_replies(messages: Iterator[Message]) -> list[Message]:
    """Join the texts and the calls of one reply, which are items of their own in OpenAI's responses."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else {}
        if last.get("role") == message["role"] == "assistant":
            texts = [text_part(each["content"]) for each in (last, message) if each["content"]]
            calls = [*last.get("tool_calls", ()), *message.get("tool_calls", ())]
            joined[-1] = assistant(texts, calls)
        else:
            joined.append(message)
    return joined
