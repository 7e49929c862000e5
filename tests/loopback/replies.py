"""What the loopback model server is told to answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """One answer of the server, told without the words of a wire format.

    The arguments of a call are a mapping, or a string that is sent as it is: that is how a model sends
    malformed JSON. Anthropic's ``input`` is an object, so there a string that is no JSON object arrives as
    ``{"INVALID_JSON": string}``, the wrapping which Anthropic's own documentation proposes; streamed, it
    arrives as it is in either format.

    Tokens are counted as OpenAI counts them: ``input_tokens`` includes ``cached_tokens``, and
    ``output_tokens`` includes ``reasoning_tokens``. Anthropic's ``input_tokens`` are sent without the
    cached ones, as Anthropic does.

    ``cache_writes`` are a part of ``input_tokens`` too, beside the cached ones. A ``refusal`` is what the
    model says in place of a text: OpenAI has a field for it, Anthropic tells it as text that ends so.

    With a status of 400 or more, ``text`` is the message of the error and ``error_code`` its code (OpenAI)
    or type (Anthropic); without them the usual ones of that status are sent.
    """

    text: str = ""
    calls: tuple[tuple[str, Json | str], ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    latency_s: float | None = None
    drop: bool = False
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    reasoning: str = ""
    reasoning_tokens: int = 0
    finish_reason: str = ""
    error_code: str = ""
    refusal: str = ""
    cache_writes: int = 0

    @property
    def finish(self) -> str:
        """Say in OpenAI's words why the reply ends."""
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


@dataclass(frozen=True, slots=True)
class RawReply:
    """One answer of the server as the bytes of its body, for what no provider should send.

    A stream (``streamed``) comes in one chunk. ``ending`` says what follows the body: its proper end, the end
    of the connection before that (``cut``), or nothing at all (``silence``).
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    streamed: bool = False
    ending: Literal["whole", "cut", "silence"] = "whole"


Answered: TypeAlias = ReplyPlan | RawReply
Chooser: TypeAlias = Callable[[Json, int], Answered]
Replies: TypeAlias = Sequence[Answered] | Chooser


class Wire(Protocol):
    """How one provider writes a reply; each wire module is one."""

    def reply(self, plan: ReplyPlan, request: Json, n: int) -> Json:
        """Give the body of a whole reply."""

    def stream(self, plan: ReplyPlan, request: Json, n: int) -> Iterable[bytes]:
        """Give the server-sent events of a streamed reply, each one complete."""

    def error(self, status: int, message: str, code: str, n: int) -> Json:
        """Give the body of an error; an empty message or code means the usual one."""


def chooser(replies: Replies) -> Chooser:
    """Give the function that picks the reply to request ``n``, counted from 0.

    A sequence is used up in the order of the requests, and its last reply repeats.
    """
    if callable(replies):
        return replies
    plans = tuple(replies)
    if not plans:
        raise ValueError("replies: expected 1 reply or more, or a callable; found an empty sequence")
    return lambda request, n: plans[min(n, len(plans) - 1)]


def tool_then_text(text: str, tool: str, args: Json) -> Chooser:
    """Call the tool first; say the text once a request holds a result."""
    call, end = ReplyPlan(calls=((tool, args),)), ReplyPlan(text=text)
    return lambda request, n: end if _holds_result(request) else call


def arguments_text(args: Json | str) -> str:
    """Give the arguments of a call as the text that a model would have written."""
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)


def pieces(text: str, size: int = 12) -> list[str]:
    """Cut a text into the deltas of a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def _holds_result(request: Json) -> bool:
    return any(
        message.get("role") == "tool"
        or (isinstance(content := message.get("content"), list) and _tool_results(content))
        for message in request.get("messages", ())
    )


def _tool_results(blocks: Sequence[Json]) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks)
