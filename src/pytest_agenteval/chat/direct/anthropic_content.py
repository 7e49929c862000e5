"""What a message holds, as blocks of Anthropic's: texts, images, files, calls and their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.records.tool import parse_arguments

Block = dict[str, Any]

EMPTY = "[System: Empty message content sanitised to satisfy protocol]"
"""Stands for a text that is blank, which the provider refuses; the words are litellm's."""

NO_ID = "tool_use_id"
UNREADABLE = "INVALID_JSON"
"""The one key of the object that holds arguments that are none."""

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_DOCUMENTS = ("application/pdf", "text/plain")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def text_block(text: str) -> Block:
    """Give a text as a block."""
    return {"type": "text", "text": text}


def marked(block: Block, source: Mapping[str, Any]) -> Block:
    """Put onto a block what its source says of the provider's cache."""
    mark = source.get("cache_control")
    return {**block, "cache_control": dict(mark)} if isinstance(mark, Mapping) else block


def system_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the texts of a system message; a blank one, which the provider refuses, is left out."""
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(content), message)] if content.strip() else []
    texts = (part for part in _parts(content) if part.get("type") == "text")
    texts = (part for part in texts if as_text(part.get("text")).strip())
    return [marked(text_block(part["text"]), part) for part in texts]


def user_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give what a user says and shows."""
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(_unblank(content)), message)]
    return list(_visible_blocks(_parts(content), blank=EMPTY))


def result_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the result of one call: its text, or what it shows."""
    content = message.get("content")
    shown = isinstance(content, list | tuple)
    told = list(_visible_blocks(_parts(content), blank="")) if shown else as_text(content)
    result = {"type": "tool_result", "tool_use_id": wire_id(message.get("tool_call_id")), "content": told}
    return [marked(result, message)]


def said_blocks(message: Mapping[str, Any]) -> Iterator[Block]:
    """Give what the model said, without its calls; a blank text is left out beside anything else."""
    content = message.get("content")
    blank = "" if _holds_more_than_text(message) else EMPTY
    if isinstance(content, str) and (text := content if content.strip() else blank):
        yield marked(text_block(text), message)
    for part in _parts(content):
        if part.get("type") != "text":
            if _goes_back(part):
                yield dict(part)
        elif text := as_text(part.get("text")) if as_text(part.get("text")).strip() else blank:
            yield marked(text_block(text), part)


def _holds_more_than_text(message: Mapping[str, Any]) -> bool:
    """Whether a reply would hold something without its text: it is taken so."""
    calls = message.get("tool_calls") or ()
    called = any(call.get("type", "function") == "function" for call in calls)
    return called or any(map(_goes_back, _parts(message.get("content"))))


def _goes_back(part: Mapping[str, Any]) -> bool:
    """Whether a part of a reply that is no text goes back to the provider."""
    kind = as_text(part.get("type"))
    return kind == "server_tool_use" or kind.endswith("_tool_result") or _is_own_thought(part)


def _is_own_thought(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "thinking" and is_signed(part)


def is_signed(block: Mapping[str, Any]) -> bool:
    """Whether a thought can go back: the provider looks for its own signature."""
    return block.get("type") != "thinking" or bool(as_text(block.get("signature")))


def call_blocks(calls: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[Block]:
    """Give the calls that the model made, under the names that its tools have on the wire."""
    for call in calls:
        function = as_map(call.get("function"))
        name = as_text(function.get("name"))
        args = arguments_of(as_text(function.get("arguments")))
        use = {"type": "tool_use", "id": wire_id(call.get("id")), "name": names.get(name, name)}
        if call.get("type", "function") == "function":
            yield marked({**use, "input": args}, call)


def arguments_of(text: str) -> Mapping[str, Any]:
    """Give a call's arguments as an object; a text that is none stands in one."""
    args, raw = parse_arguments(text)
    return dict(args) if raw is None else {UNREADABLE: raw}


def wire_id(id: Any) -> str:
    """Give the id of a call in the provider's alphabet."""
    return _FOREIGN.sub("_", as_text(id)) or NO_ID


def _parts(content: Any) -> Sequence[Mapping[str, Any]]:
    listed = content if isinstance(content, list | tuple) else ()
    return [part for part in listed if isinstance(part, Mapping)]


def _unblank(text: Any) -> str:
    return text if isinstance(text, str) and text.strip() else EMPTY


def _visible_blocks(parts: Iterable[Mapping[str, Any]], *, blank: str) -> Iterator[Block]:
    """Give the blocks of parts; ``blank`` stands for a text that is, where it says something."""
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            yield marked(text_block(_unblank(part.get("text")) if blank else as_text(part.get("text"))), part)
        elif kind == "image_url":
            yield marked(_image(part.get("image_url")), part)
        elif kind == "document":
            yield dict(part)
        elif kind == "file":
            yield marked(_file(as_map(part.get("file"))), part)


def _image(image: Any) -> Block:
    """Give an image by its address or its data; data that is a document's makes a document."""
    url = as_text(image) or as_text(as_map(image).get("url"))
    source = _source(url, as_text(as_map(image).get("format")))
    return {"type": "document" if source.get("media_type") in _DOCUMENTS else "image", "source": source}


def _source(url: str, media_type: str) -> Block:
    said, encoded, data = url.removeprefix("data:").partition(";base64,")
    if not url.startswith("data:") or not encoded:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type or said.replace("\\/", "/"), "data": data}


def _file(file: Mapping[str, Any]) -> Block:
    """Give a file by its data, or by the id that it has with the provider, else by its address."""
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
