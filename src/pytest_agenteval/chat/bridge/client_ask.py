"""A client's request as an ask of our own chats: its messages, tools and settings, or the reason why not.

Unlike ``cassettes.wire``, which reads requests for people and for comparison, nothing is shortened here: what
cannot be put into an ask raises NotExpressible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.wire.reader import IGNORED_SETTINGS
from pytest_agenteval.cassettes.wire.traffic import Json, maps_in
from pytest_agenteval.chat.chat import ChatSettings
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.json_values import compact_json

Message = dict[str, Any]


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


def not_passed(what: str, name: str) -> NotExpressible:
    return NotExpressible(f"the {what} {name!r} cannot be passed to another model")


# The names under which the formats have settings that are passed on.
_SETTINGS: Mapping[str, str] = {
    name: setting
    for setting, names in {
        "temperature": "temperature",
        "top_p": "top_p topP",
        "max_tokens": "max_completion_tokens max_tokens max_output_tokens maxOutputTokens maxTokens "
        "num_predict",
        "seed": "seed",
        "stop": "stop stop_sequences stopSequences",
        "parallel_tool_calls": "parallel_tool_calls",
    }.items()
    for name in names.split()
}
# What would change the reply, and cannot be passed on, with the values that request no more than usual.
_REFUSED: Mapping[str, Sequence[Any]] = {
    "n": (1,), "candidateCount": (1,), "modalities": (["text"],), "responseModalities": (["TEXT"],),
    **dict.fromkeys((
        "logprobs", "top_logprobs", "audio", "functions", "function_call", "background", "prompt",
        "conversation", "mcp_servers", "container", "guardrailConfig", "promptVariables", "responseLogprobs",
        "speechConfig", "cachedContent",
    ), ()),
}  # fmt: skip
_UNSET: tuple[Any, ...] = (None, False, 0, "", [], {})
# Says nothing about the reply, or only what a provider does beside it.
_WITHOUT_EFFECT = IGNORED_SETTINGS | {
    "stream", "stream_options", "include", "safetySettings", "safety_settings", "labels", "cache_control",
    "anthropic_version", "anthropic_beta", "betas", "truncation", "context_management", "requestMetadata",
    "performanceConfig", "serviceTier", "keep_alive",
}  # fmt: skip


def client_ask(
    messages: Sequence[Message],
    settings: Json,
    read: Sequence[str],
    *,
    tools: Sequence[ToolSpec] = (),
    choice: str | None = None,
    callable_tools: Sequence[str] = (),
    schema: Json | None = None,
    is_json: bool = False,
) -> ClientAsk:
    """Give an ask; ``read`` are keys of its settings that were read already.

    If there are ``callable_tools``, only these may be called. ``is_json``: the reply is to be a JSON object.
    """
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in settings.items():
        if name in _SETTINGS:
            if value is not None:
                found.setdefault(_SETTINGS[name], value)
        # An empty map of options turns the search on.
        elif (name in _REFUSED and value not in (*_UNSET, *_REFUSED[name])) or (
            name == "web_search_options" and value is not None
        ):
            raise not_passed("setting", name)
        elif name not in (*read, *_WITHOUT_EFFECT, *_REFUSED) and value not in _UNSET:
            left_out.append(name)
    if schema is not None and schema.get("type", "object") != "object":
        raise not_passed("schema of the root type", str(schema["type"]))
    extra: dict[str, Any] = {"response_format": {"type": "json_object"}} if is_json else {}
    if stop := found.pop("stop", None):
        extra["stop"] = [stop] if isinstance(stop, str) else stop
    # Providers refuse it without tools, and true is the default.
    if found.pop("parallel_tool_calls", True) is False and tools:
        extra["parallel_tool_calls"] = False
    most = found.pop("max_tokens", None)
    # Ollama has -1 for no limit.
    found["max_tokens"] = most if isinstance(most, int) and most > 0 else None
    if callable_tools:
        if len(callable_tools) == 1 and choice == "required":
            choice = callable_tools[0]
        else:
            tools = [tool for tool in tools if tool.name in callable_tools]
    return ClientAsk(
        messages, tools, schema, ChatSettings(**found, tool_choice=choice, extra=extra), left_out
    )


def content_of(parts: Sequence[Message]) -> str | list[Message]:
    """Give parts as a message holds them: as one text, unless there are pictures."""
    # Lines of their own, as the wire's readers join them; not every server takes a list.
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


def text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def image_part(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


def data_image(mime: str, data: str) -> Message:
    return image_part(f"data:{mime};base64,{data}")


def parts_of(content: Any, read: Callable[[Json], Message | None]) -> list[Message]:
    """Read content that is a text or a list of parts; ``read`` gives None for a part to be left out."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [part for part in map(read, maps_in(content)) if part is not None]


def system_messages(parts: Sequence[Message]) -> list[Message]:
    return [{"role": "system", "content": content_of(parts)}] if parts else []


def call_of(id: str, name: str, arguments: Any) -> Message:
    written = arguments if isinstance(arguments, str) else compact_json(arguments or {})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def assistant(parts: Sequence[Message], calls: Sequence[Message] = ()) -> Message:
    """Give a model's message; texts of one reply are pieces of one text."""
    if any(part["type"] != "text" for part in parts):
        raise not_passed("content", "a picture in a model's message")
    text = "".join(part["text"] for part in parts)
    if calls:
        return {"role": "assistant", "content": text or None, "tool_calls": list(calls)}
    return {"role": "assistant", "content": text}


def result_of(id: str, parts: Sequence[Message], *, failed: bool = False) -> Message:
    # OpenAI's shape has no mark for a failure, so the text says it.
    begins = parts[0].get("text", "") if parts else ""
    if failed and not begins.lower().startswith("error"):
        rest = parts[1:] if begins else parts
        parts = [text_part(f"Error: {begins}"), *rest]
    return {"role": "tool", "tool_call_id": id, "content": content_of(parts)}


def turn(
    role: str, parts: Sequence[Message], calls: Sequence[Message], results: Sequence[Message]
) -> list[Message]:
    """Give the messages of one turn: a reply with its calls, or results of tools and what the user adds."""
    if role == "assistant":
        return [assistant(parts, calls)]
    spoken = [{"role": role, "content": content_of(parts)}] if parts or not results else []
    return [*results, *spoken]


def with_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """Give a message whose calls have other ids, by those that they have now."""
    if "tool_call_id" in message:
        return {**message, "tool_call_id": ids.get(message["tool_call_id"], message["tool_call_id"])}
    if "tool_calls" not in message:
        return message
    calls = [{**call, "id": ids.get(call["id"], call["id"])} for call in message["tool_calls"]]
    return {**message, "tool_calls": calls}
