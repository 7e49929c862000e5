"""OpenAI's chat completions, which most servers speak: Azure, vLLM, OpenRouter, groq, DeepSeek, llama.cpp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall, normal_role
from pytest_agenteval.cassettes.wire.response_bodies import DONE, refusal_in
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    data_placeholder,
    function_spec,
    joined_text,
    maps_in,
    placeholder,
    rest_of,
    url_placeholder,
)
from pytest_agenteval.cassettes.wire.usage import as_count, read_usage
from pytest_agenteval.records.tool_spec import parse_arguments


def join_call(calls: list[dict[str, Any]], piece: Json) -> int:
    """Add a piece to the call that it continues, or begin a call with it; give the call's place."""
    function = as_map(piece.get("function") or piece.get("custom"))
    written = {**function, "arguments": function.get("arguments", function.get("input"))}
    place = _place_of(calls, piece, written)
    call = calls[place]
    call["id"] = call["id"] or as_text(piece.get("id"))
    join_function(call["function"], written)
    return place


def join_function(function: dict[str, Any], piece: Json) -> None:
    """Add a piece of name and arguments to those before it."""
    name, arguments = as_text(piece.get("name")), piece.get("arguments")
    # Some servers repeat the whole name with each piece.
    if name != function["name"]:
        function["name"] += name
    if isinstance(arguments, str) and isinstance(function["arguments"], str):
        # Some servers begin with an empty object, and bring the arguments behind it.
        is_first = function["arguments"].strip() == "{}" and arguments.lstrip().startswith("{")
        function["arguments"] = arguments if is_first else function["arguments"] + arguments
    elif isinstance(arguments, dict):
        function["arguments"] = arguments


def _place_of(calls: list[dict[str, Any]], piece: Json, written: Json) -> int:
    """Find the call of a piece, or begin one; give its place.

    Some servers give calls no number, or each the number 0. Others give each piece an id of its own: a piece
    that names no function continues the call before.
    """
    index, id = piece.get("index"), as_text(piece.get("id"))
    for place in reversed(range(len(calls))):
        started = calls[place]
        same_place = index is None or started["index"] == index
        same_id = not id or not started["id"] or id == started["id"] or not written.get("name")
        if same_place and same_id:
            if _begins_another(started["function"], written):
                break
            return place
    calls.append({"index": index, "id": "", "function": {"name": "", "arguments": ""}})
    return len(calls) - 1


def _begins_another(started: Json, written: Json) -> bool:
    """Whether a piece names a function and cannot continue a call, as that has all of its arguments.

    A piece that only repeats the call's name begins no other.
    """
    name, added = as_text(written.get("name")), written.get("arguments")
    if not name or not (name != started["name"] or added):
        return False
    before = started["arguments"]
    if isinstance(before, str):
        return before.rstrip().endswith("}") and parse_arguments(before)[1] is None
    return True


# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "openai.chat"
NUMBERED = False

_READ = ("model", "messages", "tools", "functions", "stream", "stream_options")
_THOUGHTS = ("reasoning_content", "reasoning")
_TEXTS = frozenset({"content", "refusal", *_THOUGHTS})


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    conversation = Conversation()
    for message in maps_in(body.get("messages")):
        role, content = normal_role(as_text(message.get("role"))), message.get("content")
        if role == "assistant":
            conversation.add_reply(_spoken_text(message), _calls(message))
        elif role == "tool":
            id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
            conversation.add_result(id, text_of(content), name=name)
        else:
            conversation.add(role, text_of(content))
    specs = [*maps_in(body.get("tools")), *({"function": spec} for spec in maps_in(body.get("functions")))]
    return ModelRequest(
        FORMAT,
        as_text(body.get("model")) or model,
        tuple(conversation.messages),
        tuple(map(function_spec, specs)),
        bool(body.get("stream")) or streamed,
        rest_of(body, *_READ),
    )


def text_of(content: Any, between: str = "\n") -> str:
    """Give a message's content as a text, be it one, or parts of which some are no text."""
    return joined_text(content, _part, between)


def _part(part: Json) -> str:
    kind = as_text(part.get("type"))
    held: Any = part.get(kind)
    if kind == "image_url":
        return url_placeholder("image", held.get("url") if isinstance(held, dict) else held)
    if kind == "input_audio":
        return base64_placeholder("audio", as_map(held).get("data"), as_text(as_map(held).get("format")))
    if kind in ("video_url", "audio_url"):
        return url_placeholder(kind[:5], as_map(held).get("url"))
    if kind == "file":
        file = as_map(held)
        name = as_text(file.get("filename"))
        if data := as_text(file.get("file_data")):
            return data_placeholder("file", data, name)
        return placeholder("file", name, as_text(file.get("file_id")))
    return as_text(part.get("text")) or as_text(part.get("refusal"))


def _spoken_text(message: Json) -> str:
    """Give an assistant's text; its parts are joined without a break, as the pieces of a stream are."""
    text = message.get("content") or ""
    if not isinstance(text, str):
        text = text_of(text, "")
    if text:
        return text
    audio = message.get("audio")
    return as_text(message.get("refusal")) or (as_text(as_map(audio).get("transcript")) if audio else "")


def _calls(message: Json) -> list[WireCall]:
    calls = []
    for call in maps_in(message.get("tool_calls")):
        function = as_map(call.get("function") or call.get("custom"))
        arguments = function.get("arguments", function.get("input"))
        calls.append(WireCall(as_text(call.get("id")), as_text(function.get("name")), arguments))
    # The older form of the API has one call, without an id.
    if not calls and (legacy := message.get("function_call")) and isinstance(legacy, dict):
        calls.append(WireCall("", as_text(legacy.get("name")), legacy.get("arguments")))
    return calls


def read_reply(body: Json) -> ReplyParts:
    """Read a whole reply; of several choices the first, as clients do."""
    choices = maps_in(body.get("choices"))
    if not choices:
        raise UnreadableTraffic("the reply holds no choices")
    choice = choices[0]
    if len(choices) > 1:
        choice = min(choices, key=lambda choice: as_count(choice.get("index")))
    message, reason = choice.get("message"), as_text(choice.get("finish_reason"))
    # OpenRouter reports the failure of its own provider within a choice.
    if choice.get("error") and (refused := refusal_in(200, choice)):
        raise refused
    if reason == "error":
        raise UnreadableTraffic("the provider failed in the midst of its reply")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list | None):
        raise UnreadableTraffic("the reply holds no message")
    counts = as_map(body.get("usage") or choice.get("usage"))
    usage, priced_apart = read_usage(FORMAT, counts, body.get("service_tier"))
    return ReplyParts(
        _spoken_text(message),
        _calls(message),
        usage,
        reason,
        bool(message.get("refusal")),
        _thoughts(message),
        as_text(body.get("model")),
        as_text(body.get("id")),
        priced_apart=priced_apart,
    )


def _thoughts(message: Json) -> str:
    """Give the thoughts of a reply, which are in a field of their own or, with Mistral, in parts."""
    for name in _THOUGHTS:
        if isinstance(thoughts := message.get(name), str) and thoughts:
            return thoughts
    content = message.get("content")
    if not isinstance(content, list):
        return ""
    return "".join(text_of(part.get("thinking"), "") for part in maps_in(content))


def join(events: Iterable[Json]) -> Json:
    message = _StreamedMessage()
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    for event in events:
        if event is DONE:
            choice.setdefault("finish_reason", "stop")
        for name in ("id", "model", "usage", "service_tier"):
            if value := event.get(name):
                whole[name] = value
        # Groq sends the usage of a stream under a key of its own.
        if "x_groq" in event and (served := as_map(event["x_groq"]).get("usage")):
            whole["usage"] = served
        for piece in maps_in(event.get("choices")):
            # Of several choices only the first is read, as of a whole reply.
            if as_count(piece.get("index")):
                continue
            for name, value in piece.items():
                if value is not None and name not in ("delta", "message", "index", "logprobs"):
                    choice[name] = value
            message.add(as_map(piece.get("delta") or piece.get("message")))
            whole["choices"] = [choice]
    choice.setdefault("finish_reason", "incomplete")
    choice["message"] = message.whole()
    return whole


class _StreamedMessage:
    """Joins the pieces of a streamed message: there may be tens of thousands of them."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": []}
        self._calls: list[dict[str, Any]] = []
        self._legacy: dict[str, Any] = {}

    def add(self, delta: Json) -> None:
        """Add a piece; null and empty values in it are passed over."""
        for name, value in delta.items():
            if not value:
                continue
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            # Mistral streams content as parts.
            elif name == "content":
                self._texts["content"].append(text_of(value, ""))
                # Some servers send thoughts in parts and in a field of their own: they are read once.
                if not any(as_text(delta.get(name)) for name in _THOUGHTS):
                    self._texts.setdefault("reasoning", []).append(_thoughts({"content": value}))
            elif name == "audio":
                self._texts.setdefault("transcript", []).append(as_text(as_map(value).get("transcript")))
            elif name == "tool_calls":
                for call in maps_in(value):
                    join_call(self._calls, call)
            elif name == "function_call" and isinstance(value, dict):
                self._legacy = self._legacy or {"name": "", "arguments": ""}
                join_function(self._legacy, value)

    def whole(self) -> Json:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        audio = {"transcript": texts.pop("transcript", "")}
        return {**texts, "audio": audio, "tool_calls": self._calls, "function_call": self._legacy}
