"""A conversation as Anthropic takes it: turns of user and model, each a list of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.records.tool_spec import parse_arguments

Block = dict[str, Any]

EMPTY_TEXT = "[System: Empty message content sanitised to satisfy protocol]"
"""Replaces a blank text, which the provider refuses; the words are litellm's."""

NO_ID = "tool_use_id"
UNREADABLE = "INVALID_JSON"
"""The key of the object that wraps arguments that are no JSON object."""

_FOREIGN_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
_DOCUMENTS = ("application/pdf", "text/plain")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def text_block(text: str) -> Block:
    """Give a text as a block."""
    return {"type": "text", "text": text}


def marked(block: Block, source: Mapping[str, Any]) -> Block:
    """Copy a cache mark onto a block from its source."""
    mark = source.get("cache_control")
    return {**block, "cache_control": dict(mark)} if isinstance(mark, Mapping) else block


def system_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the texts of a system message without blank ones, which the provider refuses."""
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(content), message)] if content.strip() else []
    texts = (part for part in _content_parts(content) if part.get("type") == "text")
    texts = (part for part in texts if as_text(part.get("text")).strip())
    return [marked(text_block(part["text"]), part) for part in texts]


def user_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give a user's texts, images and files."""
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(content if content.strip() else EMPTY_TEXT), message)]
    return list(_visible_blocks(_content_parts(content), blank=EMPTY_TEXT))


def result_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the result of one call: its text, or blocks with media."""
    content = message.get("content")
    shown = isinstance(content, list | tuple)
    blocks = list(_visible_blocks(_content_parts(content), blank="")) if shown else as_text(content)
    result = {"type": "tool_result", "tool_use_id": wire_id(message.get("tool_call_id")), "content": blocks}
    return [marked(result, message)]


def reply_blocks(message: Mapping[str, Any]) -> Iterator[Block]:
    """Give the model's texts without its calls; a blank text is left out beside anything else."""
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    called = any(call.get("type", "function") == "function" for call in calls)
    blank = "" if called or any(map(_goes_back, _content_parts(message.get("content")))) else EMPTY_TEXT
    if isinstance(content, str) and (text := content if content.strip() else blank):
        yield marked(text_block(text), message)
    for part in _content_parts(content):
        if part.get("type") != "text":
            if _goes_back(part):
                yield dict(part)
        elif text := as_text(part.get("text")) if as_text(part.get("text")).strip() else blank:
            yield marked(text_block(text), part)


def _goes_back(part: Mapping[str, Any]) -> bool:
    """Whether a part of a reply other than text goes back to the provider."""
    kind = as_text(part.get("type"))
    of_provider = kind == "server_tool_use" or kind.endswith("_tool_result")
    return of_provider or (kind == "thinking" and is_signed(part))


def is_signed(block: Mapping[str, Any]) -> bool:
    """Whether a thought can go back: the provider checks its own signature."""
    return block.get("type") != "thinking" or bool(as_text(block.get("signature")))


def call_blocks(calls: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[Block]:
    """Give the model's calls, under the names that the tools have on the wire."""
    for call in calls:
        function = as_map(call.get("function"))
        name = as_text(function.get("name"))
        args, raw = parse_arguments(as_text(function.get("arguments")))
        use = {"type": "tool_use", "id": wire_id(call.get("id")), "name": names.get(name, name)}
        if call.get("type", "function") == "function":
            yield marked({**use, "input": dict(args) if raw is None else {UNREADABLE: raw}}, call)


def wire_id(id: Any) -> str:
    """Give the id of a call in the provider's alphabet."""
    return _FOREIGN_CHARACTERS.sub("_", as_text(id)) or NO_ID


def _content_parts(content: Any) -> Sequence[Mapping[str, Any]]:
    listed = content if isinstance(content, list | tuple) else ()
    return [part for part in listed if isinstance(part, Mapping)]


def _visible_blocks(parts: Iterable[Mapping[str, Any]], *, blank: str) -> Iterator[Block]:
    """Give the blocks of parts; ``blank`` replaces a blank text, unless it is empty."""
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            text = as_text(part.get("text"))
            yield marked(text_block(text if text.strip() or not blank else blank), part)
        elif kind == "image_url":
            image = part.get("image_url")
            url = as_text(image) or as_text(as_map(image).get("url"))
            source = _source(url, as_text(as_map(image).get("format")))
            shown_as = "document" if source.get("media_type") in _DOCUMENTS else "image"
            yield marked({"type": shown_as, "source": source}, part)
        elif kind == "document":
            yield dict(part)
        elif kind == "file":
            yield marked(_file_block(as_map(part.get("file"))), part)


def _source(url: str, media_type: str) -> Block:
    media_named, encoded, data = url.removeprefix("data:").partition(";base64,")
    if not url.startswith("data:") or not encoded:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type or media_named.replace("\\/", "/"), "data": data}


def _file_block(file: Mapping[str, Any]) -> Block:
    """Give a file by its data, its id at the provider, or its address."""
    data, id, media_type = (as_text(file.get(name)) for name in ("file_data", "file_id", "format"))
    if data:
        return {"type": "document", "source": _source(data, media_type)}
    if not media_type and id.startswith("http"):
        return {"type": "document", "source": {"type": "url", "url": id}}
    if media_type in _DOCUMENTS or media_type in _IMAGES:
        kind = "document" if media_type in _DOCUMENTS else "image"
        return {"type": kind, "source": {"type": "file", "file_id": id}}
    return {"type": "container_upload", "file_id": id}


def blocks_of(messages: object) -> Iterator[Json]:
    """Give every block of a body's messages, those of results included."""
    for message in maps_in(messages):
        for block in maps_in(message.get("content")):
            yield block
            yield from maps_in(block.get("content"))


SYSTEM_NOTE = (
    "Operator note (not from the user): the following was originally a mid-conversation system-role reminder."
)
"""Precedes a system message that is sent as a user's; the words are litellm's."""


class AnthropicTurn(NamedTuple):
    """The blocks of one message; ``role`` is user, result, assistant or system."""

    role: str
    blocks: list[Block]


def split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Block], Sequence[Mapping[str, Any]]]:
    """Give the system messages that a conversation begins with as blocks, and the rest of it."""
    leading = list(takewhile(lambda message: _role(message) == "system", messages))
    return [block for message in leading for block in system_blocks(message)], messages[len(leading) :]


def anthropic_messages(
    messages: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
    echoes: Mapping[str, Any],
    *,
    takes_system: bool,
) -> list[dict[str, Any]]:
    """Give the messages behind the system prompt.

    ``names`` are those of tools on the wire, ``echoes`` the thoughts that led to calls, by the id of the
    first; ``takes_system`` says that the model takes system messages in the midst of a conversation.
    """
    turns = [turn for message in messages if (turn := _turn(message, names, echoes)).blocks]
    placed = _with_system(turns) if takes_system else _without_system(turns)
    joined = [_joined_turns(role, list(run)) for role, run in groupby(placed, key=_wire_role)]
    if joined and joined[-1]["role"] == "assistant":
        # The model is to continue this reply, and the provider refuses trailing blanks there.
        joined[-1]["content"] = [
            {**block, "text": block["text"].rstrip()} if block["type"] == "text" else block
            for block in joined[-1]["content"]
        ]
    return joined


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role") or "assistant"
    return {"developer": "system", "tool": "result", "function": "result"}.get(role, role)


def _turn(message: Mapping[str, Any], names: Mapping[str, str], echoes: Mapping[str, Any]) -> AnthropicTurn:
    role = _role(message)
    if role == "assistant":
        calls = message.get("tool_calls") or ()
        blocks = [*reply_blocks(message), *call_blocks(calls, names)]
        thoughts = (echoes.get(calls[0].get("id")) if calls else None) or message.get("thinking_blocks") or ()
        if not any(block["type"] == "thinking" for block in blocks):  # else they are among its own blocks
            blocks = [*(dict(thought) for thought in thoughts if is_signed(thought)), *blocks]
        return AnthropicTurn(role, blocks)
    read = {"system": system_blocks, "result": result_blocks}.get(role, user_blocks)
    return AnthropicTurn(role, read(message))


def _wire_role(turn: AnthropicTurn) -> str:
    return "user" if turn.role == "result" else turn.role


def _without_system(turns: Iterable[AnthropicTurn]) -> Iterator[AnthropicTurn]:
    """Turn system messages into the user's; results have to come right after their calls, so before them."""
    waiting: list[AnthropicTurn] = []
    for turn in turns:
        if turn.role == "system":
            waiting.append(_as_users(turn))
            continue
        if turn.role != "result":
            yield from waiting
            waiting = []
        yield turn
    yield from waiting


def _with_system(turns: Sequence[AnthropicTurn]) -> Iterator[AnthropicTurn]:
    """Move system messages behind the user's turn beside them, where the provider accepts them.

    Between two replies and behind the last one there is no such turn: there they become the user's.
    """
    waiting: list[AnthropicTurn] = []
    speaks = [turn.role != "system" for turn in turns]
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            yield from waiting
            waiting = []
        if turn.role != "system":
            yield turn
        else:
            before = next((turns[at] for at in range(place, -1, -1) if speaks[at]), None)
            after = next((turns[at] for at in range(place, len(turns)) if speaks[at]), None)
            if any(beside is not None and _wire_role(beside) == "user" for beside in (before, after)):
                waiting.append(turn)
            else:
                yield _as_users(turn)
    yield from waiting


def _as_users(turn: AnthropicTurn) -> AnthropicTurn:
    return AnthropicTurn("user", [text_block(SYSTEM_NOTE), *turn.blocks])


def _joined_turns(role: str, turns: Iterable[AnthropicTurn]) -> dict[str, Any]:
    """Make one message of turns of one role; a second call with the same id is the same call."""
    blocks: list[Block] = []
    called: set[str] = set()
    for block in (block for turn in turns for block in turn.blocks):
        if block["type"] == "tool_use":
            if block["id"] in called:
                continue
            called.add(block["id"])
        blocks.append(block)
    return {"role": role, "content": blocks}
