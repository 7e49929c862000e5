"""Requests to OpenAI's responses, the API of models that think before they call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.openai_responses import kind_of, messages_text
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.model_request import RESPONSES, SHARED_SETTINGS, ModelAsk
from pytest_agenteval.chat.direct.openai_chat_request import (
    SUMMARY_SETTINGS,
    chat_settings,
    known_abilities,
    takes_schema,
    takes_tools,
    wanted_summary,
    with_known_role,
)
from pytest_agenteval.chat.direct.openai_chat_request import headers_of as bearer_headers
from pytest_agenteval.chat.direct.openai_chat_request import reply_of as agent_reply
from pytest_agenteval.chat.direct.provider_schemas import openai_tool, response_format, tool_choice
from pytest_agenteval.records.tool_spec import parse_arguments

FORMAT = "openai.responses"
PATH = "/responses"
headers_of = bearer_headers

# Fields of an item that are sent back. The id is not among them: the provider may not have stored the item.
_ECHOED_FIELDS = {
    "reasoning": ("type", "summary", "content", "encrypted_content"),
    "message": ("type", "role", "phase", "content"),
    "function_call": ("type", "call_id", "name", "arguments"),
}


def items_of(message: Mapping[str, Any], echoes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a message's items; a reply with calls goes back with its thoughts, as the model gave it."""
    role, content = as_text(message.get("role")), message.get("content") or ""
    listed = content if isinstance(content, list | tuple) else [{"type": "text", "text": content}]
    parts = [_item_part(part, role) for part in listed]
    if role == "tool":
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": parts}]
    calls = maps_in(message.get("tool_calls"))
    items = [_call_item(call) for call in calls]
    echo = echoes.get(as_text(calls[0].get("id"))) if calls else None
    # An agent may have changed the reply: then it goes back as the agent wrote it.
    if echo and messages_text(echo) == as_text(content):
        echoed = [_call_identity(item) for item in echo if kind_of(item) == "function_call"]
        if echoed == list(map(_call_identity, items)):
            return list(echo)
    spoken = [{"type": "message", "role": role, "content": parts}] if content or not calls else []
    return [*spoken, *items]


def _call_identity(call: Json) -> tuple[Any, ...]:
    return call.get("call_id"), call.get("name"), parse_arguments(as_text(call.get("arguments")) or "{}")


def _call_item(call: Json) -> dict[str, Any]:
    function = as_map(call.get("function"))
    named = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"type": "function_call", "call_id": call.get("id"), **named}


def _item_part(part: Any, role: str) -> dict[str, Any]:
    """Give a part of a message in the API's form; a part of an unknown type is in that form already."""
    kind = as_map(part).get("type")
    if kind == "image_url":
        image = part[kind] if isinstance(part[kind], dict) else {"url": part[kind]}
        detail = as_text(image.get("detail")) or "auto"
        return {"type": "input_image", "image_url": image.get("url"), "detail": detail}
    if kind == "file":
        fields = ("file_id", "file_data", "filename")
        file = {name: value for name, value in as_map(part.get(kind)).items() if name in fields}
        # The API refuses the contents of a file without a name.
        named = {"filename": "file.pdf"} if "file_data" in file else {}
        return {"type": "input_file", **named, **file}
    if isinstance(part, dict) and kind != "text":
        return dict(part)
    return _text_part(as_map(part).get("text", part), role)


def _text_part(text: Any, role: str) -> dict[str, Any]:
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _further_settings(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Give what further settings add to a body, without those that the API lacks."""
    written = {name: value for name, value in further.items() if name in SHARED_SETTINGS}
    if (most := further.get("max_completion_tokens")) is not None:
        written["max_output_tokens"] = max(most, _FEWEST_TOKENS)
    if (verbosity := further.get("verbosity")) is not None:
        written["text"] = {**as_map(body.get("text")), "verbosity": verbosity}
    return written


# The lowest limit that the API accepts.
_FEWEST_TOKENS = 16


def body_of(ask: ModelAsk) -> dict[str, Any]:
    model = ask.model.removeprefix(RESPONSES)
    messages: Sequence[Mapping[str, Any]] = [with_known_role(message, ask) for message in ask.messages]
    extra = {name: value for name, value in ask.extra_body.items() if name not in SUMMARY_SETTINGS}
    # If the provider may truncate the conversation, or continues one that it stores, instructions are apart.
    stands_apart = extra.get("previous_response_id") or extra.get("truncation") == "auto"
    instructions = ""
    if stands_apart:
        texts: list[str] = []
        for message in messages:
            if message.get("role") != "system" or not isinstance(message.get("content"), str):
                break
            texts.append(message["content"])
        if len(texts) < len(messages):
            instructions, messages = " ".join(texts), messages[len(texts) :]
        elif texts:  # without a rest, the instructions are the input
            messages = [{"role": "system", "content": " ".join(texts)}]
    items = [item for message in messages for item in items_of(message, ask.echoes)]
    body = {"model": model, "input": items, **_settings(ask), **_tool_settings(ask, model)}
    if instructions:
        body["instructions"] = instructions
    if ask.response_schema is not None and takes_schema(ask):
        named = response_format(ask.response_schema)["json_schema"]
        body["text"] = {"format": {"type": "json_schema", **named}}
    if ask.streamed and known_abilities(ask).get("supports_native_streaming") is not False:
        body["stream"] = True
    body |= _further_settings(body, ask.further)
    if (effort := extra.pop("reasoning_effort", None)) is not None:
        extra["reasoning"] = _reasoning_settings(ask, effort)
    return {**body, **extra}


def echo_of(whole: Json) -> Any:
    """Give the items of a whole reply whose thoughts led to its calls, or None."""
    items = maps_in(whole.get("output"))
    kinds = set(map(kind_of, items))
    thoughts = [item for item in items if kind_of(item) == "reasoning"]
    sendable = all(as_text(item.get("encrypted_content")) for item in thoughts)
    # Thoughts that the provider cannot find again, or without what followed them, would be refused.
    if not (thoughts and sendable and "function_call" in kinds and kinds <= _ECHOED_FIELDS.keys()):
        return None
    echo = []
    for item in items:
        echoed = {name: item[name] for name in _ECHOED_FIELDS[kind_of(item)] if item.get(name) is not None}
        if echoed.get("type") == "message":
            held = {**item, "content": maps_in(echoed.get("content"))}
            echoed["content"] = [{"type": "output_text", "text": messages_text([held])}]
        echo.append(echoed)
    return echo


def reply_of(parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
    """Give a reply in the terms of the ask; raises UnreadableTraffic if it is empty."""
    reply = agent_reply(parts, ask)
    spoke = reply.content or reply.calls or any(kind_of(item) == "message" for item in reply.items.values())
    # An empty answer would be graded as the model's; as a failed attempt it is retried.
    if reply.finish == "stop" and not spoke:
        raise UnreadableTraffic("the reply holds neither a message nor a call")
    return reply


def _settings(ask: ModelAsk) -> dict[str, Any]:
    """Give the settings that the model accepts, by this API's names; it has no seed."""
    settings = chat_settings(ask)
    written: dict[str, Any] = {name: settings[name] for name in ("temperature", "top_p") if name in settings}
    most = settings.get("max_completion_tokens", settings.get("max_tokens"))
    if most is not None:
        written["max_output_tokens"] = max(most, _FEWEST_TOKENS)
    if thinking := _reasoning_settings(ask, settings.get("reasoning_effort")):
        written["reasoning"] = thinking
    return written


def _reasoning_settings(ask: ModelAsk, effort: Any) -> dict[str, Any]:
    """Give how much a model has to think, and whether it summarizes its thoughts."""
    if known_abilities(ask) and not ask.abilities.get("supports_reasoning"):
        return {}
    wanted = dict(effort) if isinstance(effort, Mapping) else {} if effort is None else {"effort": effort}
    summary = wanted_summary(ask)
    return wanted if summary is None else {"summary": summary, **wanted}


def _tool_settings(ask: ModelAsk, model: str) -> dict[str, Any]:
    """Give the tools with the choice among them, and the setting that makes thoughts returnable."""
    if not ask.tools or not takes_tools(ask):
        return {}
    # Families that accept no union of objects as a tool's schema.
    without_unions = ("gpt-4", "gpt-3.5", "chatgpt-4o", "o1", "o3", "o4")
    flat = model.rpartition("/")[2].removeprefix("ft:").startswith(without_unions)
    tools = []
    fields = ("name", "description", "parameters", "strict")
    for tool in (openai_tool(tool, flat=flat) for tool in ask.tools):
        if function := as_map(tool.get("function")):
            tools.append({"type": "function", **{name: function.get(name) for name in fields}})
        else:
            tools.append(dict(tool))
    written: dict[str, Any] = {"tools": tools}
    choice = tool_choice(chat_settings(ask).get("tool_choice"))
    if choice is not None:
        name = as_map(as_map(choice).get("function")).get("name")
        written["tool_choice"] = {"type": "function", "name": name} if name else choice
    if ask.own_host and known_abilities(ask).get("supports_reasoning"):
        # The thoughts are requested sealed, so that they can
        # return with the results of the calls they led to.
        written["include"] = ["reasoning.encrypted_content"]
    return written
