"""Reads a stream of litellm's into an answer as it comes whole; knows its shape, and does not import it.

What litellm makes of a stream's chunks says more than the provider did (an estimate where no tokens were
told, an end where the line was cut) and less (no refusal, no call without an id). Both are put right here.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Self, TypeAlias

from pytest_agenteval.cassettes.wire.openai_chat import join_call
from pytest_agenteval.text.json_values import whole_text

Builder: TypeAlias = Callable[..., Any]
"""litellm's ``stream_chunk_builder``: makes one answer of chunks."""

STREAMED: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
CONTENT_FIELDS = ("content", "reasoning_content", "thinking_blocks", "tool_calls", "function_call")

_BYTES = re.compile(r"""\bb(['"]).*\1""")


async def read_stream(stream: Any, build: Builder, began: float, call_ids: str) -> tuple[Any, float | None]:
    """Wait for the end of a stream; give its answer, and the seconds from ``began`` to its first token.

    They are None where nothing was said. ``began`` is by ``time.perf_counter``. A call without an id of its
    own gets ``call_ids`` and its place.
    """
    refusal = _listen_for_refusal(stream)
    first_token_s, finish = None, ""
    try:
        async for chunk in stream:
            if first_token_s is None and _says_something(chunk):
                first_token_s = time.perf_counter() - began
            finish = next((reason for choice in chunk.choices if (reason := choice.finish_reason)), finish)
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
    if not (stream.received_finish_reason or stream.intermittent_finish_reason):
        raise ValueError("the stream ended before the reply did")
    return _answer(stream, build, call_ids, finish, "".join(refusal)), first_token_s


def original_error(raised: Exception) -> Exception:
    """Give what went wrong within a stream, out of litellm's wrapping; anything else as it is.

    Where a provider refuses to stream, litellm quotes its words as bytes: they become text.
    """
    cause: Any = getattr(raised, "original_exception", None) or raised
    if isinstance(message := getattr(cause, "message", None), str):
        cause.message = _BYTES.sub(_as_text, message)
    return cause  # type: ignore[no-any-return]  # whatever litellm wrapped is an exception


def _as_text(match: re.Match[str]) -> str:
    try:
        return str(ast.literal_eval(match[0]).decode("utf-8", "replace"))
    except (ValueError, SyntaxError, AttributeError):
        return match[0]


class _RefusalListener:
    """A provider's own chunks on their way to litellm, which drops a refusal unless it comes as content."""

    def __init__(self, chunks: Any, refusal: list[str]) -> None:
        self._chunks, self._next, self._refusal = chunks, aiter(chunks), refusal

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self._next)
        for delta in _deltas((chunk,)):
            if refusal := getattr(delta, "refusal", None):
                self._refusal.append(refusal)
                delta.content = refusal
        return chunk

    async def aclose(self) -> None:
        """Let go of the connection, which litellm does for some providers."""
        for held in (self._chunks, getattr(self._chunks, "streaming_response", None)):
            close = getattr(held, "aclose", None) or getattr(held, "close", None)
            if close is not None and isawaitable(closing := close()):
                await closing


def _listen_for_refusal(stream: Any) -> list[str]:
    """Listen in; give the list that holds a refusal's pieces once the stream has been read."""
    refusal: list[str] = []
    if hasattr(stream.completion_stream, "__aiter__"):
        stream.completion_stream = _RefusalListener(stream.completion_stream, refusal)
    return refusal


def _says_something(chunk: Any) -> bool:
    return any(getattr(delta, name, None) for delta in _deltas((chunk,)) for name in CONTENT_FIELDS)


def _deltas(chunks: Iterable[Any]) -> Iterator[Any]:
    for chunk in chunks:
        for choice in getattr(chunk, "choices", None) or ():
            if getattr(choice, "delta", None) is not None:
                yield choice.delta


def _answer(stream: Any, build: Builder, call_ids: str, finish: str, refusal: str) -> Any:
    """Put the chunks together, with the counts that the provider told and no others."""
    # These still have their usage; what the stream gives out has lost it, or has an estimate in its place.
    chunks = stream.chunks
    counted = [chunk for chunk in chunks if getattr(chunk, "usage", None)]
    calls = _number_calls(chunks, call_ids)
    _join_characters(chunks)
    _state_no_reasoning(counted)
    answer = build(chunks, logging_obj=stream.logging_obj)
    for built, joined in zip(answer.choices[0].message.tool_calls or (), calls, strict=False):
        built.function.name, built.function.arguments = joined["name"], joined["arguments"]
    answer.choices[0].finish_reason = finish
    if refusal:
        answer.choices[0].message.refusal = refusal
    if not counted:
        answer.usage = None
        answer._hidden_params.pop("response_cost", None)
    return answer


def _number_calls(chunks: Iterable[Any], call_ids: str) -> list[dict[str, Any]]:
    """Give each call an id and a place, as some providers do not; give the function that each calls."""
    calls: list[dict[str, Any]] = []
    pieces = [piece for delta in _deltas(chunks) for piece in getattr(delta, "tool_calls", None) or ()]
    places = [join_call(calls, piece.model_dump()) for piece in pieces]
    for piece, place in zip(pieces, places, strict=True):
        piece.index, piece.id = place, calls[place]["id"] or f"{call_ids}_{place}"
    return [call["function"] for call in calls]


def _join_characters(chunks: Iterable[Any]) -> None:
    """Put half a character at a piece's end before the next piece; litellm cannot count tokens of halves."""
    halves: dict[Any, str] = {}
    last: dict[Any, tuple[Any, str]] = {}
    for delta in _deltas(chunks):
        texts = [(delta, name, name) for name in ("content", "reasoning_content")]
        pieces = getattr(delta, "tool_calls", None) or ()
        texts += [(piece.function, "arguments", piece.index) for piece in pieces]
        for holder, name, key in texts:
            if not (text := getattr(holder, name, None)):
                continue
            text = halves.pop(key, "") + text
            if "\ud800" <= text[-1] <= "\udbff":
                halves[key], text = text[-1], text[:-1]
            setattr(holder, name, whole_text(text))
            last[key] = holder, name
    for key, half in halves.items():
        holder, name = last[key]
        setattr(holder, name, whole_text(getattr(holder, name) + half))


def _state_no_reasoning(counted: Sequence[Any]) -> None:
    """Say that there are no reasoning tokens where the provider does not count them: litellm would guess."""
    details = [getattr(chunk.usage, "completion_tokens_details", None) for chunk in counted]
    if not counted or any(getattr(detail, "reasoning_tokens", None) is not None for detail in details):
        return
    last = counted[-1]
    counts = {**(last.usage.model_dump().get("completion_tokens_details") or {}), "reasoning_tokens": 0}
    last.usage = type(last.usage)(**{**last.usage.model_dump(), "completion_tokens_details": counts})
