"""Conversations as chat templates take them, and what is done where a template lacks a part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.text.canonical import compact

HOW_TO_CALL = """You may call tools. Each line between <tools> and </tools> describes one:
<tools>
{tools}
</tools>
To call one, write a JSON object with its name and arguments between tags, and nothing after it:
<tool_call>
{{"name": "…", "arguments": {{…}}}}
</tool_call>"""
HOW_TO_ANSWER = "Answer with one JSON object and nothing else. It has to fit this JSON Schema: {schema}"
INVALID = "INVALID_JSON"


class NoText(ValueError):
    """A message holds something else than text."""


def template_messages(
    messages: Sequence[Mapping[str, Any]],
    response_schema: Mapping[str, Any] | None = None,
    thoughts: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Give a conversation as templates want it: arguments as objects, ids of nine letters, tools by name.

    Mistral's template takes no other ids. ``thoughts`` led to the call of that id, and are shown again.
    Raises NoText for an image.
    """
    names: dict[str, str] = {}
    short_ids: dict[str, str] = {}
    ready = [_message(message, names, short_ids, thoughts or {}) for message in messages]
    if response_schema is not None:
        _add_to_system(ready, HOW_TO_ANSWER.format(schema=compact(response_schema)))
    return ready


def _message(
    message: Mapping[str, Any],
    names: dict[str, str],
    short_ids: dict[str, str],
    thoughts: Mapping[str, str],
) -> dict[str, Any]:
    role, text = message["role"], _text(message.get("content"))
    if role == "tool":
        id = str(message.get("tool_call_id", ""))
        return {
            "role": role,
            "content": text,
            "tool_call_id": short_ids.get(id, id),
            "name": names.get(id, ""),
        }
    calls = message.get("tool_calls") or ()
    ready: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": text}
    if not calls:
        return ready
    for call in calls:
        names[call["id"]] = call["function"]["name"]
        short_ids.setdefault(call["id"], f"call{len(short_ids):05d}")
    ready["tool_calls"] = [_call(call, short_ids[call["id"]]) for call in calls]
    thought = thoughts.get(calls[0]["id"])
    if thought:  # Qwen's and DeepSeek's word for it, and GPT-OSS's, which takes no text beside it
        ready |= (
            {"reasoning_content": thought} if text else {"reasoning_content": thought, "thinking": thought}
        )
    return ready


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    if None in parts:
        raise NoText("a message holds something else than text, which models in this process do not read")
    return "\n".join(parts)


def _call(call: Mapping[str, Any], id: str) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    args, raw = parse_arguments(arguments) if isinstance(arguments, str) else (arguments, None)
    function = {"name": call["function"]["name"], "arguments": dict(args) if raw is None else {INVALID: raw}}
    return {"id": id, "type": "function", "function": function}


def with_tools_in_words(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Give the conversation for a template without tools: they are described, calls and results are texts."""
    words = [_in_words(message) for message in messages]
    described = "\n".join(compact(tool["function"]) for tool in tools)
    _add_to_system(words, HOW_TO_CALL.format(tools=described))
    return _alternating(words)


def _in_words(message: Mapping[str, Any]) -> dict[str, Any]:
    role, text = message["role"], message["content"]
    if role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"}
    calls = [_call_in_words(call["function"]) for call in message.get("tool_calls", ())]
    return {"role": role, "content": "\n".join(part for part in (text, *calls) if part)}


def _call_in_words(function: Mapping[str, Any]) -> str:
    written = compact({"name": function["name"], "arguments": function["arguments"]})
    return f"<tool_call>\n{written}\n</tool_call>"


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give the conversation for a template that takes no system message: it begins the user's first."""
    as_user = [
        {**message, "role": "user"} if message["role"] == "system" else {**message} for message in messages
    ]
    return _alternating(as_user)


def _alternating(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put messages of one role together: many templates take user and assistant in turn, and nothing else."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        plain = "tool_calls" not in message and message["role"] != "tool"
        if merged and plain and merged[-1]["role"] == message["role"] and "tool_calls" not in merged[-1]:
            merged[-1]["content"] += f"\n\n{message['content']}"
        else:
            merged.append(message)
    return merged


def _add_to_system(messages: list[dict[str, Any]], text: str) -> None:
    """Say something more in the system message, which may have to be made."""
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{text}"
    else:
        messages.insert(0, {"role": "system", "content": text})


def renderings(
    messages: Sequence[dict[str, Any]], tools: Sequence[Mapping[str, Any]], *, knows_tools: bool
) -> Iterator[tuple[list[dict[str, Any]], Sequence[Mapping[str, Any]]]]:
    """Give what a template may be asked to write, the truest first, for as long as it refuses."""
    has_calls = any(message["role"] == "tool" or "tool_calls" in message for message in messages)
    ways: list[tuple[list[dict[str, Any]], Sequence[Mapping[str, Any]]]] = []
    if knows_tools or not (tools or has_calls):
        ways.append(([*messages], tools))
    if tools or has_calls:
        ways.append((with_tools_in_words(messages, tools) if tools else _words_alone(messages), ()))
    without: Callable[[Any], Any] = without_system
    yield from ways
    yield from ((without(said), offered) for said, offered in ways)


def _words_alone(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return _alternating([_in_words(message) for message in messages])
