"""Listens to a streamed reply as it comes: when its first token is there, and when it is whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in

REST_S = 0.05
"""For how long the end of a response is waited for whose reply is whole."""

_TOLD_FIELDS = ("content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call")
_ENDINGS = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
)
_ENDING_WORDS = (
    b"message_stop",
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
    b'"error"',
)
_CALLS = ("tool_use", "function_call", "custom_tool_call")


class EventListener:
    """Takes a stream's body piece by piece; reads of it only what tells its first token and its end."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._pieces: list[bytes] = []
        self._open_line: list[bytes] = []
        self.first_token_s: float | None = None
        self.ended = False

    @property
    def body(self) -> bytes:
        """All that has come."""
        return b"".join(self._pieces)

    def add(self, piece: bytes) -> None:
        """Take what has come."""
        self._pieces.append(piece)
        if b"\r" in piece:  # ends a line as well; an empty line more says nothing
            piece = piece.replace(b"\r", b"\n")
        if b"\n" not in piece:  # a long line: joined once, and not for each of its pieces
            self._open_line.append(piece)
            return
        *lines, rest = b"".join([*self._open_line, piece]).split(b"\n")
        self._open_line = [rest]
        for line in lines:
            if line.startswith(b"data:"):
                self._hear(line[5:].strip())

    def _hear(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.ended = True
        elif self.first_token_s is None or any(word in data for word in _ENDING_WORDS):
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                event = as_map(msgspec.json.decode(data))
                self.ended |= as_text(event.get("type")) in _ENDINGS or bool(event.get("error"))
                if self.first_token_s is None and says_something(event):
                    self.first_token_s = time.perf_counter() - self._began


def says_something(event: Json) -> bool:
    """Whether an event of a stream brings a part of what the model says, thinks or calls."""
    for choice in maps_in(event.get("choices")):
        if any(as_map(choice.get("delta")).get(field) for field in _TOLD_FIELDS):
            return True
    delta: Any = event.get("delta")
    if isinstance(delta, dict):  # Anthropic's
        return any(delta.get(field) for field in ("text", "thinking", "partial_json"))
    if isinstance(delta, str):
        return bool(delta)
    begun = as_map(event.get("content_block") or event.get("item"))
    return begun.get("type") in _CALLS


async def read_stream(response: Any, began: float) -> tuple[bytes, float | None]:
    """Read a response to its reply's end; give its body, and the seconds from ``began`` to the first token.

    They are None where nothing was said. A server that keeps the line open behind a whole reply is left.
    """
    listener = EventListener(began)
    pieces: AsyncIterator[bytes] = response.content.iter_any()
    try:
        async for piece in pieces:
            listener.add(piece)
            if listener.ended:
                break
    except Exception:
        # A line that breaks behind a reply's end comes ahead of what has arrived and was not read yet.
        listener.add(b"".join(getattr(response.content, "_buffer", ())))
        if not listener.ended:
            raise
    await _read_rest(response)
    return listener.body, listener.first_token_s


async def _read_rest(response: Any) -> None:
    """Read what is behind a whole reply, so that its connection can be used again; it may be broken."""
    with suppress(Exception):
        async with asyncio.timeout(REST_S):
            await response.content.read()
