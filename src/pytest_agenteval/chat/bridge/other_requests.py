"""Requests of the clients of Anthropic, Bedrock, Gemini and Ollama as asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.gemini import either
from pytest_agenteval.cassettes.wire.normal_form import normal_role
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    as_map,
    as_text,
    json_object,
    maps_in,
    tool_spec,
    wrapped_result,
)
from pytest_agenteval.chat.bridge.client_ask import (
    ClientAsk,
    Earlier,
    Message,
    assistant,
    call_of,
    client_ask,
    content_of,
    data_image,
    image_part,
    not_passed,
    parts_of,
    result_of,
    system_messages,
    text_part,
    turn,
)
from pytest_agenteval.chat.bridge.openai_requests import openai_tools
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.json_values import compact_json

_CHOICES = {"any": "required", "auto": "auto", "none": "none", "validated": "auto"}


def read_anthropic(body: Json, earlier: Earlier) -> ClientAsk:
    messages = system_messages(parts_of(body.get("system"), _anthropic_part))
    for message in maps_in(body.get("messages")):
        messages += _anthropic_turn(message)
    tools = []
    for tool in maps_in(body.get("tools")):
        if tool.get("type", "custom") not in ("custom", None):
            raise not_passed("tool", as_text(tool.get("type")))
        tools.append(tool_spec(as_text(tool.get("name")), tool.get("description"), tool.get("input_schema")))
    wanted, config = as_map(body.get("tool_choice")), as_map(body.get("output_config"))
    choice = as_text(wanted.get("name")) or _CHOICES.get(as_text(wanted.get("type")))
    schema = as_map(as_map(body.get("output_format") or config.get("format")).get("schema")) or None
    read = ("model", "messages", "system", "tools", "tool_choice", "output_format", "output_config")
    one_call = wanted.get("disable_parallel_tool_use") is True
    settings = {**body, "effort": config.get("effort"), "parallel_tool_calls": False if one_call else None}
    return client_ask(messages, settings, read, tools=tools, choice=choice, schema=schema)


def _anthropic_part(block: Json) -> Message | None:
    kind, source = as_text(block.get("type")), as_map(block.get("source"))
    if kind == "text":
        return text_part(as_text(block.get("text")))
    if kind == "image" and source.get("type") == "base64":
        return data_image(as_text(source.get("media_type")), as_text(source.get("data")))
    if kind == "image" and source.get("type") == "url":
        return image_part(as_text(source.get("url")))
    if kind in ("thinking", "redacted_thinking", "tool_use", "tool_result"):
        return None
    raise not_passed("content", kind)


def _anthropic_turn(message: Json) -> list[Message]:
    content, calls, results = message.get("content"), [], []
    for block in maps_in(content):
        if block.get("type") == "tool_use":
            calls.append(call_of(as_text(block.get("id")), as_text(block.get("name")), block.get("input")))
        elif block.get("type") == "tool_result":
            parts, failed = parts_of(block.get("content"), _anthropic_part), block.get("is_error") is True
            results.append(result_of(as_text(block.get("tool_use_id")), parts, failed=failed))
    parts = parts_of(content, _anthropic_part)
    return turn(normal_role(as_text(message.get("role"))), parts, calls, results)


def read_bedrock(body: Json, earlier: Earlier) -> ClientAsk:
    messages = system_messages(parts_of(body.get("system"), _bedrock_part))
    for message in maps_in(body.get("messages")):
        messages += _bedrock_turn(message)
    config, tools = as_map(body.get("toolConfig")), []
    for tool in maps_in(config.get("tools")):
        if spec := as_map(tool.get("toolSpec")):
            parameters = as_map(spec.get("inputSchema")).get("json")
            tools.append(tool_spec(as_text(spec.get("name")), spec.get("description"), parameters))
        elif "cachePoint" not in tool:
            raise not_passed("tool", next(iter(tool), ""))
    wanted = as_map(config.get("toolChoice"))
    choice = as_text(as_map(wanted.get("tool")).get("name")) or _CHOICES.get(next(iter(wanted), ""))
    format = as_map(as_map(body.get("outputConfig")).get("textFormat"))
    written = as_text(as_map(as_map(format.get("structure")).get("jsonSchema")).get("schema"))
    read = ("messages", "system", "toolConfig", "inferenceConfig", "modelId", "outputConfig")
    settings = {**as_map(body.get("inferenceConfig")), **body}
    schema = json_object(written) if written else None
    return client_ask(messages, settings, read, tools=tools, choice=choice, schema=schema)


def _bedrock_part(block: Json) -> Message | None:
    if "text" in block:
        return text_part(as_text(block["text"]))
    image = as_map(block.get("image"))
    if data := as_text(as_map(image.get("source")).get("bytes")):
        return data_image(f"image/{as_text(image.get('format'))}", data)
    if "json" in block:
        return text_part(compact_json(block["json"]))
    if block.keys() & {"toolUse", "toolResult", "cachePoint", "reasoningContent"}:
        return None
    raise not_passed("content", next(iter(block), ""))


def _bedrock_turn(message: Json) -> list[Message]:
    blocks, calls, results = maps_in(message.get("content")), [], []
    for block in blocks:
        if use := as_map(block.get("toolUse")):
            calls.append(call_of(as_text(use.get("toolUseId")), as_text(use.get("name")), use.get("input")))
        elif result := as_map(block.get("toolResult")):
            parts, failed = parts_of(result.get("content"), _bedrock_part), result.get("status") == "error"
            results.append(result_of(as_text(result.get("toolUseId")), parts, failed=failed))
    return turn(as_text(message.get("role")), parts_of(blocks, _bedrock_part), calls, results)


class _CallsWithoutIds:
    """Gives calls without ids an id each, and each result that of the call that it answers."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        self._calls = 0

    def calls(self, calls: Iterable[Json], arguments: str) -> list[Message]:
        """Give a reply's calls; ``arguments`` is the key of their arguments."""
        written = []
        for call in calls:
            self._calls += 1
            id, name = as_text(call.get("id")) or f"call_{self._calls}", as_text(call.get("name"))
            self._open.append((id, name))
            written.append(call_of(id, name, call.get(arguments)))
        return written

    def answered(self, id: str, name: str) -> str:
        """Give the id of the call that a result answers: that of this id, else the first of this name."""
        same = [each for each in self._open if id and each[0] == id]
        found = same or [each for each in self._open if name in ("", each[1])]
        if not found:
            return id
        self._open.remove(found[0])
        return found[0][0]


def read_gemini(body: Json, earlier: Earlier) -> ClientAsk:
    system, contents, ids = either(body, "systemInstruction"), body.get("contents"), _CallsWithoutIds()
    messages = system_messages(parts_of(system if isinstance(system, str) else _blocks(system), _gemini_part))
    for content in [contents] if isinstance(contents, dict) else maps_in(contents):
        messages += _gemini_turn(content, ids)
    config = _camel(as_map(either(body, "generationConfig")))
    schema = config.get("responseJsonSchema") or _json_schema(config.get("responseSchema")) or None
    mime = as_text(config.get("responseMimeType"))
    if mime not in ("", "text/plain", "application/json"):
        raise not_passed("responseMimeType", mime)
    calling = as_map(either(as_map(either(body, "toolConfig")), "functionCallingConfig"))
    names = either(calling, "allowedFunctionNames") or ()
    mode = as_text(calling.get("mode")).lower() or ("any" if names else "")
    tools = list(_gemini_tools(body.get("tools")))
    all_names = {tool.name for tool in tools}
    read = (
        "model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
        "responseJsonSchema", "responseSchema", "responseMimeType",
    )  # fmt: skip
    return client_ask(
        messages,
        {**config, **_camel(body)},
        read,
        tools=tools,
        choice=_CHOICES.get(mode),
        # Clients that want any call name all tools.
        callable_tools=() if mode == "none" or (len(names) > 1 and all_names <= {*names}) else names,
        schema=schema,
        is_json=mime == "application/json" and not schema,
    )


def _blocks(content: Any) -> list[Json]:
    listed = as_map(content).get("parts")
    return [listed] if isinstance(listed, dict) else maps_in(listed)


def _gemini_part(part: Json) -> Message | None:
    if part.get("thought") is True:
        return None
    data, file = as_map(either(part, "inlineData")), as_map(either(part, "fileData"))
    mime = as_text(either(data or file, "mimeType"))
    if mime.startswith("image/"):
        return data_image(mime, as_text(data.get("data"))) if data else image_part(either(file, "fileUri"))
    if "text" in part:
        return text_part(as_text(part["text"]))
    if either(part, "functionCall") or either(part, "functionResponse"):
        return None
    raise not_passed("content", mime or next(iter(part), ""))


def _gemini_turn(content: Json, ids: _CallsWithoutIds) -> list[Message]:
    blocks, results = _blocks(content), []
    for response in filter(None, (as_map(either(block, "functionResponse")) for block in blocks)):
        text, failed = wrapped_result(response.get("response"))
        id = ids.answered(as_text(response.get("id")), as_text(response.get("name")))
        attached = parts_of(response.get("parts"), _gemini_part)
        results.append(result_of(id, [text_part(text), *attached], failed=failed))
    called = filter(None, (as_map(either(block, "functionCall")) for block in blocks))
    role = normal_role(as_text(content.get("role")))
    calls = ids.calls(called, "args") if role == "assistant" else []
    return turn(role, parts_of(blocks, _gemini_part), calls, results)


def _gemini_tools(tools: Any) -> Iterator[ToolSpec]:
    for tool in map(_camel, maps_in(tools)):
        if own := next((name for name in tool if name != "functionDeclarations"), ""):
            raise not_passed("tool", own)
        for function in maps_in(tool.get("functionDeclarations")):
            schema = either(function, "parametersJsonSchema") or _json_schema(function.get("parameters"))
            yield tool_spec(as_text(function.get("name")), function.get("description"), schema)


def _camel(settings: Json) -> dict[str, Any]:
    """Give settings with names in camel case, however they were written."""
    pairs = ((name.split("_"), value) for name, value in settings.items())
    return {"".join([head, *(word.title() for word in rest)]): value for (head, *rest), value in pairs}


_COUNTS = frozenset(
    f"{least}{what}" for least in ("min", "max") for what in ("Items", "Length", "Properties")
)


def _json_schema(schema: Any) -> Any:
    """Give a schema of Gemini's own kind as JSON Schema: it has types in capitals, and counts as texts."""
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in _camel(schema).items():
        if key == "type":
            made[key] = value.lower() if isinstance(value, str) else value
        elif key == "properties":
            made[key] = {name: _json_schema(each) for name, each in as_map(value).items()}
        elif key in ("items", "additionalProperties"):
            made[key] = _json_schema(value)
        elif key in ("anyOf", "prefixItems"):
            made[key] = [_json_schema(each) for each in value]
        elif key in _COUNTS:
            made[key] = int(value)
        elif key not in ("nullable", "propertyOrdering"):
            made[key] = value
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made


_IMAGES_BEGIN = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklGR": "image/webp"}


def read_ollama(body: Json, earlier: Earlier) -> ClientAsk:
    messages: list[Message] = []
    ids = _CallsWithoutIds()
    for message in maps_in(body.get("messages")):
        role, text = normal_role(as_text(message.get("role"))), as_text(message.get("content"))
        parts = [text_part(text), *map(_ollama_image, map(as_text, message.get("images") or ()))]
        if role == "assistant":
            called = [as_map(call.get("function")) for call in maps_in(message.get("tool_calls"))]
            messages.append(assistant(parts, ids.calls(called, "arguments")))
        elif role == "tool":
            name = as_text(message.get("tool_name")) or as_text(message.get("name"))
            messages.append(result_of(ids.answered(as_text(message.get("tool_call_id")), name), parts))
        else:
            messages.append({"role": role, "content": content_of(parts)})
    format = body.get("format")
    return client_ask(
        messages,
        {**as_map(body.get("options")), **body},
        ("model", "messages", "tools", "format", "options"),
        tools=openai_tools(body.get("tools")),
        schema=format if isinstance(format, dict) else None,
        is_json=format == "json",
    )


def _ollama_image(data: str) -> Message:
    mime = next((mime for begin, mime in _IMAGES_BEGIN.items() if data.startswith(begin)), "image/png")
    return data_image(mime, data)
