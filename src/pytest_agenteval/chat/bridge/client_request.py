"""Reads a client's request to a model, in any of six wire formats, as an ask of our own chats.

Unlike ``cassettes.wire``, which reads requests for people and for comparison, nothing is shortened here: what
cannot be put into an ask raises NotExpressible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import normal_role
from pytest_agenteval.cassettes.wire.reader import IGNORED_SETTINGS
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in, wrapped_result
from pytest_agenteval.chat.chat import ChatSettings
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.json_values import compact_json, plain_json

Message = dict[str, Any]
IN_NAMESPACE = "__"  # between a namespace of OpenAI's responses and the name of a tool in it


class NotExpressible(TrialBroken):
    """A request holds something that cannot be passed to another model; the text names it."""

    cause = "bridge"


class ClientAsk(NamedTuple):
    """A request as an ask; ``left_out`` names its settings that are not passed on.

    Messages are in the shape of OpenAI's chat completions, pictures included.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    response_schema: Mapping[str, Any] | None
    settings: ChatSettings
    left_out: Sequence[str] = ()


class Earlier(NamedTuple):
    """What a request to OpenAI's responses may refer to: items, and conversations, by their ids."""

    items: Mapping[str, Json] = NOTHING
    conversations: Mapping[str, Sequence[Message]] = NOTHING


def read_client_request(format: str, body: Json, earlier: Earlier = Earlier()) -> ClientAsk:  # noqa: B008  # frozen
    """Read the body of a request; raises NotExpressible."""
    messages, rest = _READERS[format](body, earlier)
    return ClientAsk(messages, *rest)


# The names under which the formats have settings that are passed on.
_SETTING_NAMES: Mapping[str, Sequence[str]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "max_tokens": (
        "max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens",
        "num_predict",
    ),
    "seed": ("seed",),
    "stop": ("stop", "stop_sequences", "stopSequences"),
    "parallel_tool_calls": ("parallel_tool_calls",),
}  # fmt: skip
_IN_EXTRA = ("stop", "parallel_tool_calls")
# Values that request no more than the usual reply.
_USUAL: Mapping[str, Sequence[Any]] = {"n": (1,), "candidateCount": (1,), "modalities": (["text"],)}
_NOTHING_ASKED: tuple[Any, ...] = (None, False, 0, "", [], {})
# What would change the reply, and cannot be passed on.
_REFUSED = frozenset({
    "n", "logprobs", "top_logprobs", "modalities", "audio", "functions", "function_call",
    "web_search_options", "background", "prompt", "conversation", "mcp_servers", "container",
    "guardrailConfig", "promptVariables",
    "candidateCount", "responseModalities", "responseLogprobs", "speechConfig", "cachedContent",
})  # fmt: skip

_Rest = tuple[Sequence[ToolSpec], Mapping[str, Any] | None, ChatSettings, Sequence[str]]
_Read = tuple[list[Message], _Rest]


def _rest(
    settings: Json,
    read: Sequence[str],
    tools: Sequence[ToolSpec],
    choice: str | None,
    schema: Json | None,
    **extra: Any,
) -> _Rest:
    """Give what a request holds beside its messages; ``read`` are the keys that were read already."""
    found: dict[str, Any] = {}
    left_out: list[str] = []
    names = {name: setting for setting, given in _SETTING_NAMES.items() for name in given}
    for name, value in settings.items():
        if name in names:
            if value is not None:
                found.setdefault(names[name], value)
        elif name in _REFUSED:
            if value not in (*_NOTHING_ASKED, *_USUAL.get(name, ())):
                raise NotExpressible(f"the setting {name!r} cannot be passed to another model")
        elif name not in (*read, *IGNORED_SETTINGS) and value not in _NOTHING_ASKED:
            left_out.append(name)
    extra |= {name: found.pop(name) for name in _IN_EXTRA if name in found}
    most = found.pop("max_tokens", None)
    # Ollama has -1 for no limit.
    limit = most if isinstance(most, int) and most > 0 else None
    return tools, schema, ChatSettings(**found, max_tokens=limit, tool_choice=choice, extra=extra), left_out


def _content(parts: Sequence[Message]) -> str | list[Message]:
    """Give parts as a message holds them: as one text, unless there are pictures."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


def _system(instructions: str | list[Message]) -> list[Message]:
    return [{"role": "system", "content": instructions}] if instructions else []


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _image(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


def _data_image(mime: str, data: str) -> Message:
    return _image(f"data:{mime};base64,{data}")


def _call(id: str, name: str, arguments: Any) -> Message:
    written = arguments if isinstance(arguments, str) else compact_json(arguments or {})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def _assistant(text: str, calls: Sequence[Message]) -> Message:
    message: Message = {"role": "assistant", "content": text or None}
    return {**message, "tool_calls": list(calls)} if calls else {**message, "content": text}


def _result(id: str, content: str | list[Message], *, failed: bool = False) -> Message:
    # OpenAI's shape has no mark for a failure, so the text says it.
    if failed and isinstance(content, str) and "error" not in content.lower():
        content = f"Error: {content}"
    return {"role": "tool", "tool_call_id": id, "content": content}


def with_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """Give a message whose calls have other ids, by those that they have now."""
    if "tool_call_id" in message:
        return {**message, "tool_call_id": ids.get(message["tool_call_id"], message["tool_call_id"])}
    if "tool_calls" not in message:
        return message
    calls = [{**call, "id": ids.get(call["id"], call["id"])} for call in message["tool_calls"]]
    return {**message, "tool_calls": calls}


def _unknown(what: str, kind: str) -> NotExpressible:
    return NotExpressible(f"the {what} {kind!r} cannot be passed to another model")


def _function(name: Any, description: Any, parameters: Any) -> ToolSpec:
    return ToolSpec(as_text(name), as_text(description), as_map(parameters))


def _parts(content: Any, read: Callable[[Json], Message | None]) -> list[Message]:
    """Read content that is a text or a list of parts; ``read`` gives None for a part to be left out."""
    if isinstance(content, str):
        return [_text(content)] if content else []
    return [part for part in map(read, maps_in(content)) if part is not None]


def _plain_text(parts: Sequence[Message]) -> str:
    return "".join(part.get("text", "") for part in parts)


# OpenAI's chat completions


def _chat_part(part: Json) -> Message | None:
    kind = as_text(part.get("type"))
    if kind in ("text", "refusal"):
        return _text(as_text(part.get(kind)))
    if kind == "image_url":
        return {"type": kind, kind: plain_json(part.get(kind))}
    raise _unknown("content", kind)


def _chat_message(message: Json) -> Message:
    role = normal_role(as_text(message.get("role")))
    parts = _parts(message.get("content") or message.get("refusal"), _chat_part)
    if role == "tool":
        return _result(as_text(message.get("tool_call_id")), _content(parts))
    if role != "assistant":
        return {"role": role, "content": _content(parts)}
    calls = []
    for call in maps_in(message.get("tool_calls")):
        if call.get("type", "function") != "function":
            raise _unknown("call", as_text(call.get("type")))
        function = as_map(call.get("function"))
        calls.append(_call(as_text(call.get("id")), as_text(function.get("name")), function.get("arguments")))
    if message.get("function_call"):
        raise _unknown("call", "function_call")
    return _assistant(_plain_text(parts), calls)


def _openai_tools(tools: Any) -> list[ToolSpec]:
    specs: list[ToolSpec] = []
    for tool in maps_in(tools):
        if tool.get("type") == "namespace":
            space, inner = as_text(tool.get("name")), _openai_tools(tool.get("tools"))
            specs += [replace(each, name=f"{space}{IN_NAMESPACE}{each.name}") for each in inner]
            continue
        if tool.get("type", "function") != "function":
            raise _unknown("tool", as_text(tool.get("type")))
        function = as_map(tool.get("function")) or tool
        specs.append(_function(function.get("name"), function.get("description"), function.get("parameters")))
    return specs


def _openai_choice(choice: Any) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    named = as_text((as_map(as_map(choice).get("function")) or as_map(choice)).get("name"))
    if not named:
        raise _unknown("tool_choice", as_text(as_map(choice).get("type")))
    return named


def _openai_format(format: Json) -> tuple[Json | None, dict[str, Any]]:
    kind = as_text(format.get("type"))
    if kind == "json_schema":
        return as_map((as_map(format.get("json_schema")) or format).get("schema")), {}
    return None, {"response_format": {"type": kind}} if kind == "json_object" else {}


def _read_chat(body: Json, earlier: Earlier) -> _Read:
    schema, extra = _openai_format(as_map(body.get("response_format")))
    tools, choice = _openai_tools(body.get("tools")), _openai_choice(body.get("tool_choice"))
    read = ("model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options")
    messages = [_chat_message(message) for message in maps_in(body.get("messages"))]
    return messages, _rest(body, read, tools, choice, schema, **extra)


# OpenAI's responses


def _item_part(part: Json) -> Message | None:
    kind = as_text(part.get("type"))
    if kind in ("input_text", "output_text", "text", "refusal"):
        return _text(as_text(part.get("text")) or as_text(part.get("refusal")))
    if kind == "input_image" and (url := as_text(part.get("image_url"))):
        return _image(url)
    raise _unknown("content", kind)


def _item_messages(items: Sequence[Json], earlier: Earlier) -> Iterator[Message]:
    for item in items:
        kind = as_text(item.get("type")) or "message"
        if kind == "item_reference":
            known = earlier.items.get(as_text(item.get("id")))
            if known is None:
                raise _unknown("item_reference", as_text(item.get("id")))
            yield from _item_messages([known], earlier)
        elif kind == "message":
            role, parts = normal_role(as_text(item.get("role"))), _parts(item.get("content"), _item_part)
            is_reply = role == "assistant"
            yield (
                _assistant(_plain_text(parts), ()) if is_reply else {"role": role, "content": _content(parts)}
            )
        elif kind == "function_call":
            name = IN_NAMESPACE.join(filter(None, map(as_text, (item.get("namespace"), item.get("name")))))
            yield _assistant("", [_call(as_text(item.get("call_id")), name, item.get("arguments"))])
        elif kind == "function_call_output":
            output = item.get("output")
            is_parts = isinstance(output, str | list)
            content = _content(_parts(output, _item_part)) if is_parts else compact_json(output)
            yield _result(as_text(item.get("call_id")), content)
        elif kind != "reasoning":
            raise _unknown("item", kind)


def _with_joined_replies(messages: Iterator[Message]) -> list[Message]:
    """Join the text and the calls of one reply, which are items of their own in OpenAI's responses."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else {}
        if message.get("tool_calls") and last.get("role") == "assistant":
            calls = [*last.get("tool_calls", ()), *message["tool_calls"]]
            joined[-1] = _assistant(last.get("content") or "", calls)
        else:
            joined.append(message)
    return joined


def _read_responses(body: Json, earlier: Earlier) -> _Read:
    listed, previous = body.get("input"), as_text(body.get("previous_response_id"))
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else maps_in(listed)
    if previous and previous not in earlier.conversations:
        raise _unknown("previous_response_id", previous)
    messages = _system(as_text(body.get("instructions")))
    messages += earlier.conversations.get(previous, ())
    messages += _with_joined_replies(_item_messages(items, earlier))
    schema, extra = _openai_format(as_map(as_map(body.get("text")).get("format")))
    tools, choice = _openai_tools(body.get("tools")), _openai_choice(body.get("tool_choice"))
    read = (
        "model", "input", "instructions", "tools", "tool_choice", "stream", "stream_options", "text",
        "previous_response_id", "include",
    )  # fmt: skip
    return messages, _rest(body, read, tools, choice, schema, **extra)


# Anthropic's messages


def _anthropic_part(block: Json) -> Message | None:
    kind, source = as_text(block.get("type")), as_map(block.get("source"))
    if kind == "text":
        return _text(as_text(block.get("text")))
    if kind == "image" and source.get("type") == "base64":
        return _data_image(as_text(source.get("media_type")), as_text(source.get("data")))
    if kind == "image" and source.get("type") == "url":
        return _image(as_text(source.get("url")))
    if kind in ("thinking", "redacted_thinking", "tool_use", "tool_result"):
        return None
    raise _unknown("content", kind)


def _turn(
    role: str, parts: Sequence[Message], calls: Sequence[Message], results: Sequence[Message]
) -> list[Message]:
    """Give the messages of one turn: a reply with its calls, or results of tools and what the user adds."""
    if role == "assistant":
        return [_assistant(_plain_text(parts), calls)]
    spoken = [{"role": role, "content": _content(parts)}] if parts or not results else []
    return [*results, *spoken]


def _anthropic_turn(message: Json) -> list[Message]:
    content, calls, results = message.get("content"), [], []
    for block in maps_in(content):
        if block.get("type") == "tool_use":
            calls.append(_call(as_text(block.get("id")), as_text(block.get("name")), block.get("input")))
        elif block.get("type") == "tool_result":
            result, failed = _content(_parts(block.get("content"), _anthropic_part)), block.get("is_error")
            results.append(_result(as_text(block.get("tool_use_id")), result, failed=failed is True))
    parts = _parts(content, _anthropic_part)
    return _turn(normal_role(as_text(message.get("role"))), parts, calls, results)


_CHOICES = {
    "auto": "auto", "any": "required", "none": "none", "AUTO": "auto", "ANY": "required", "NONE": "none",
}  # fmt: skip


def _read_anthropic(body: Json, earlier: Earlier) -> _Read:
    system = _content(_parts(body.get("system"), _anthropic_part))
    messages = _system(system)
    for message in maps_in(body.get("messages")):
        messages += _anthropic_turn(message)
    tools = []
    for tool in maps_in(body.get("tools")):
        if tool.get("type", "custom") not in ("custom", None):
            raise _unknown("tool", as_text(tool.get("type")))
        tools.append(_function(tool.get("name"), tool.get("description"), tool.get("input_schema")))
    wanted = as_map(body.get("tool_choice"))
    choice = as_text(wanted.get("name")) or _CHOICES.get(as_text(wanted.get("type")))
    extra = {"parallel_tool_calls": False} if wanted.get("disable_parallel_tool_use") is True else {}
    format = as_map(body.get("output_format") or as_map(body.get("output_config")).get("format"))
    schema = as_map(format.get("schema")) or None
    read = (
        "model", "messages", "system", "tools", "tool_choice", "stream", "output_format", "output_config",
        "anthropic_version",
    )  # fmt: skip
    return messages, _rest(body, read, tools, choice, schema, **extra)


# Bedrock's converse


def _bedrock_part(block: Json) -> Message | None:
    if "text" in block:
        return _text(as_text(block["text"]))
    if image := as_map(block.get("image")):
        data = as_text(as_map(image.get("source")).get("bytes"))
        if data:
            return _data_image(f"image/{as_text(image.get('format'))}", data)
    if "json" in block:
        return _text(compact_json(block["json"]))
    if block.keys() & {"toolUse", "toolResult", "cachePoint", "reasoningContent"}:
        return None
    raise _unknown("content", next(iter(block), ""))


def _bedrock_turn(message: Json) -> list[Message]:
    blocks, calls, results = maps_in(message.get("content")), [], []
    for block in blocks:
        if use := as_map(block.get("toolUse")):
            calls.append(_call(as_text(use.get("toolUseId")), as_text(use.get("name")), use.get("input")))
        elif result := as_map(block.get("toolResult")):
            content, failed = _parts(result.get("content"), _bedrock_part), result.get("status") == "error"
            results.append(_result(as_text(result.get("toolUseId")), _content(content), failed=failed))
    return _turn(as_text(message.get("role")), _parts(blocks, _bedrock_part), calls, results)


def _read_bedrock(body: Json, earlier: Earlier) -> _Read:
    system = _content(_parts(body.get("system"), _bedrock_part))
    messages = _system(system)
    for message in maps_in(body.get("messages")):
        messages += _bedrock_turn(message)
    config, tools = as_map(body.get("toolConfig")), []
    for tool in maps_in(config.get("tools")):
        spec = as_map(tool.get("toolSpec"))
        if spec:
            schema = as_map(spec.get("inputSchema")).get("json")
            tools.append(_function(spec.get("name"), spec.get("description"), schema))
        elif "cachePoint" not in tool:
            raise _unknown("tool", next(iter(tool), ""))
    wanted = as_map(config.get("toolChoice"))
    choice = as_text(as_map(wanted.get("tool")).get("name")) or next(
        (_CHOICES[kind] for kind in wanted if kind in _CHOICES), None
    )
    read = ("messages", "system", "toolConfig", "inferenceConfig", "modelId")
    settings = {**as_map(body.get("inferenceConfig")), **body}
    return messages, _rest(settings, read, tools, choice, None)


# Gemini


def _either(holder: Json, name: str) -> Any:
    """Give what is written in camel case or, as the API also takes it, in snake case."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return holder.get(name, holder.get(snake))


def _camel(settings: Json) -> dict[str, Any]:
    """Give settings with names in camel case, however they were written."""
    return {
        "".join([head, *(word.title() for word in rest)]): value
        for (head, *rest), value in ((name.split("_"), value) for name, value in settings.items())
    }


def _gemini_part(part: Json) -> Message | None:
    if part.get("thought") is True:
        return None
    data, file = as_map(_either(part, "inlineData")), as_map(_either(part, "fileData"))
    mime = as_text(_either(data or file, "mimeType"))
    if mime.startswith("image/"):
        return _data_image(mime, as_text(data.get("data"))) if data else _image(_either(file, "fileUri"))
    if "text" in part:
        return _text(as_text(part["text"]))
    if _either(part, "functionCall") or _either(part, "functionResponse"):
        return None
    raise _unknown("content", mime or next(iter(part), ""))


class _ConversationWithoutIds:
    """Gives calls without ids an id each, and each result that of the call that it answers."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._open: list[tuple[str, str]] = []
        self._calls = 0

    def add_reply(self, text: str, calls: Iterable[tuple[str, str, Any]]) -> None:
        """Add a reply; calls come as id, name and arguments."""
        written = []
        for given, name, arguments in calls:
            self._calls += 1
            id = given or f"call_{self._calls}"
            self._open.append((id, name))
            written.append(_call(id, name, arguments))
        self.messages.append(_assistant(text, written))

    def add_result(self, id: str, name: str, content: str, *, failed: bool = False) -> None:
        for place, (open_id, called) in enumerate(self._open):
            if (id and id == open_id) or (not id and name in ("", called)):
                del self._open[place]
                id = open_id
                break
        self.messages.append(_result(id, content, failed=failed))


def _add_gemini_content(conversation: _ConversationWithoutIds, content: Json) -> None:
    listed = content.get("parts")
    blocks = [listed] if isinstance(listed, dict) else maps_in(listed)
    parts = _parts(blocks, _gemini_part)
    if normal_role(as_text(content.get("role"))) == "assistant":
        called = filter(None, (as_map(_either(block, "functionCall")) for block in blocks))
        calls = [(as_text(call.get("id")), as_text(call.get("name")), call.get("args")) for call in called]
        conversation.add_reply(_plain_text(parts), calls)
        return
    responses = [*filter(None, (as_map(_either(block, "functionResponse")) for block in blocks))]
    for response in responses:
        result, failed = wrapped_result(response.get("response"))
        id, name = as_text(response.get("id")), as_text(response.get("name"))
        conversation.add_result(id, name, result, failed=failed)
    if parts or not responses:
        conversation.messages.append({"role": "user", "content": _content(parts)})


def _lower_types(schema: Any) -> Any:
    """Write a schema's types in small letters: Gemini's own schemas have them in capitals."""
    if isinstance(schema, Mapping):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else _lower_types(value)
            for key, value in schema.items()
        }
    return [_lower_types(item) for item in schema] if isinstance(schema, list) else schema


def _gemini_tools(tools: Any) -> Iterator[ToolSpec]:
    for tool in maps_in(tools):
        declared = _either(tool, "functionDeclarations")
        if declared is None and tool:
            raise _unknown("tool", next(iter(tool)))
        for function in maps_in(declared):
            schema = _either(function, "parametersJsonSchema") or _lower_types(function.get("parameters"))
            yield _function(function.get("name"), function.get("description"), schema)


def _gemini_choice(body: Json) -> str | None:
    config = as_map(_either(as_map(_either(body, "toolConfig")), "functionCallingConfig"))
    allowed = _either(config, "allowedFunctionNames")
    if allowed and len(allowed) > 1:
        raise _unknown("setting", "allowedFunctionNames")
    return allowed[0] if allowed else _CHOICES.get(as_text(config.get("mode")).upper())


def _read_gemini(body: Json, earlier: Earlier) -> _Read:
    conversation = _ConversationWithoutIds()
    system, contents = _either(body, "systemInstruction"), body.get("contents")
    blocks = [{"text": system}] if isinstance(system, str) else maps_in(as_map(system).get("parts"))
    conversation.messages += _system(_content(_parts(blocks, _gemini_part)))
    for content in [contents] if isinstance(contents, dict) else maps_in(contents):
        _add_gemini_content(conversation, content)
    config = _camel(as_map(_either(body, "generationConfig")))
    schema = config.get("responseJsonSchema") or _lower_types(config.get("responseSchema"))
    is_json = config.get("responseMimeType") == "application/json" and not schema
    extra = {"response_format": {"type": "json_object"}} if is_json else {}
    if config.get("responseModalities") == ["TEXT"]:
        del config["responseModalities"]
    read = (
        "model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig",
        "responseJsonSchema", "responseSchema", "responseMimeType",
    )  # fmt: skip
    tools = list(_gemini_tools(body.get("tools")))
    rest = _rest({**config, **_camel(body)}, read, tools, _gemini_choice(body), schema or None, **extra)
    return conversation.messages, rest


# Ollama's chat

_IMAGES_BEGIN = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklGR": "image/webp"}


def _read_ollama(body: Json, earlier: Earlier) -> _Read:
    conversation = _ConversationWithoutIds()
    for message in maps_in(body.get("messages")):
        role, text = normal_role(as_text(message.get("role"))), as_text(message.get("content"))
        if role == "assistant":
            functions = (as_map(call.get("function")) for call in maps_in(message.get("tool_calls")))
            calls = [("", as_text(function.get("name")), function.get("arguments")) for function in functions]
            conversation.add_reply(text, calls)
        elif role == "tool":
            name = as_text(message.get("tool_name")) or as_text(message.get("name"))
            conversation.add_result("", name, text)
        else:
            images = [_ollama_image(as_text(data)) for data in message.get("images") or ()]
            conversation.messages.append({"role": role, "content": _content([_text(text), *images])})
    format = body.get("format")
    schema = format if isinstance(format, dict) else None
    extra = {"response_format": {"type": "json_object"}} if format == "json" else {}
    read = ("model", "messages", "tools", "stream", "format", "options", "keep_alive")
    settings = {**as_map(body.get("options")), **body}
    return conversation.messages, _rest(
        settings, read, _openai_tools(body.get("tools")), None, schema, **extra
    )


def _ollama_image(data: str) -> Message:
    mime = next((mime for begin, mime in _IMAGES_BEGIN.items() if data.startswith(begin)), "image/png")
    return _data_image(mime, data)


_READERS: Mapping[str, Callable[[Json, Earlier], _Read]] = {
    "openai.chat": _read_chat,
    "openai.responses": _read_responses,
    "anthropic.messages": _read_anthropic,
    "bedrock.converse": _read_bedrock,
    "gemini": _read_gemini,
    "ollama.chat": _read_ollama,
}
