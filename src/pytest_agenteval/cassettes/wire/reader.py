"""The door to reading model traffic: pure functions on recorded requests and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from struct import error as StructError
from typing import Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.cassettes.wire.classification import model_in_path, streamed_by_path
from pytest_agenteval.cassettes.wire.normal_form import ReplyParts, model_reply
from pytest_agenteval.cassettes.wire.response_bodies import body_parts, refusal_in, refusal_of
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelReply,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    json_object,
)
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.replies import split_thoughts
from pytest_agenteval.text.json_values import DIGEST_CHARS, json_digest, mend_surrogates_in, plain_json

FORMATS = {
    "openai.chat": "openai_chat",
    "openai.responses": "openai_responses",
    "anthropic.messages": "anthropic_messages",
    "gemini": "gemini",
    "ollama.chat": "ollama_chat",
    "bedrock.converse": "bedrock_converse",
}
"""The wire formats, and the module beside this one that reads each."""

_sorted = msgspec.json.Encoder(enc_hook=plain_json, order="sorted").encode

IGNORED_SETTINGS = frozenset({
    "user", "metadata", "store", "safety_identifier", "service_tier",
    "prompt_cache_key", "prompt_cache_retention", "client_metadata",
})  # fmt: skip
"""Settings that clients make up anew for each run, or that have no effect on the reply."""

# A body may hold anything, at any depth: whatever a reader raises means that it is not in the format.
_STUMBLES = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, StructError)


class WireFormat(Protocol):
    """The functions of a module that reads one format."""

    NUMBERED: bool
    """Whether calls have no ids on this wire."""

    def read_request(self, body: Json, model: str, streamed: bool) -> ModelRequest:
        """Read a request's body; ``model`` and ``streamed`` are what the path says of both."""

    def read_reply(self, body: Json) -> ReplyParts:
        """Read a whole reply, or one that ``join`` made; raises UnreadableTraffic."""

    def join(self, events: Iterable[Json]) -> Json:
        """Give the whole reply that a stream's events make."""


def read_request(format: str, request: Request, items: Mapping[str, Json] = NOTHING) -> ModelRequest:
    """Read a request to a model; raises UnreadableTraffic where the body does not fit the format.

    ``items`` are those of earlier replies: a request may name them in place of repeating what they say.
    """
    try:
        body = json_object(request.body)
        # Clients of OpenAI's Responses may leave the history to the provider, and name its items by ids.
        listed = body.get("input")
        if items and isinstance(listed, list):
            body = {**body, "input": [_referred(item, items) for item in listed]}
        return _reader(format).read_request(body, model_in_path(request.uri), streamed_by_path(request.uri))
    except _STUMBLES as problem:
        raise UnreadableTraffic(f"no request in the format {format}: {problem}") from problem


def read_reply(format: str, request: Request, response: Response) -> ModelReply:
    """Read what a model replied, whole or streamed.

    Raises ModelRefused for an error of the provider's, be it the status or an event in the stream, and
    UnreadableTraffic for what is not in the format.
    """
    parts = read_parts(format, whole_reply(format, response))

    def read() -> ModelRequest | None:
        with suppress(UnreadableTraffic):
            return read_request(format, request)
        return None  # the reply is readable all the same

    try:
        return model_reply(parts, read, numbered=_reader(format).NUMBERED)
    except _STUMBLES as problem:
        raise UnreadableTraffic(f"no reply in the format {format}: {problem}") from problem


def whole_reply(format: str, response: Response, *, streamed: bool = True) -> Json:
    """Give a reply's body as one JSON object, be it whole or streamed; raises as ``read_reply`` does.

    ``streamed`` is False where the request is known to want no stream.
    """
    try:
        if response.status >= 400:
            raise refusal_of(response)
        # Most bodies are one JSON object, which needs no look at its form. Halves of surrogate pairs, which
        # are mended below, are nothing that msgspec reads.
        with suppress(msgspec.MsgspecError, UnicodeError):
            whole = msgspec.json.decode(response.body or b"")
            if isinstance(whole, dict):
                if refused := refusal_in(response.status, whole):
                    raise refused
                return whole
        parts = body_parts(response, streamed=streamed)
        # A stream begins with the status 200, and may still report an error later.
        for event in parts.objects:
            if refused := refusal_in(response.status, event):
                raise refused
        whole = _reader(format).join(parts.objects) if parts.streamed else parts.objects[0]
        return cast(Json, mend_surrogates_in(whole))
    except _STUMBLES as problem:
        raise UnreadableTraffic(f"no reply in the format {format}: {problem}") from problem


def read_parts(format: str, whole: Json) -> ReplyParts:
    """Read a whole reply, with its thoughts apart from its text; raises UnreadableTraffic."""
    try:
        parts = _reader(format).read_reply(whole)
        text, thought = split_thoughts(parts.content)
    except _STUMBLES as problem:
        raise UnreadableTraffic(f"no reply in the format {format}: {problem}") from problem
    if text is parts.content:
        return parts
    reasoning = "\n\n".join(filter(None, (parts.reasoning, thought)))
    return replace(parts, content=text, reasoning=reasoning)


def prompt_identity(request: ModelRequest) -> str:
    """Give a digest of model, messages, tools and settings, without the ids that clients make up."""
    tools = [(spec.name, spec.description, spec.parameters) for spec in request.tools]
    settings = {name: value for name, value in request.settings.items() if name not in IGNORED_SETTINGS}
    messages = [without_ids(message) for message in request.messages]
    content = {"model": request.model, "messages": messages, "tools": tools, "settings": settings}
    # msgspec writes a long prompt ten times as quickly, and raises for the halves of surrogate pairs that
    # models send.
    with suppress(UnicodeError, TypeError):
        return sha256(_sorted(content)).hexdigest()[:DIGEST_CHARS]
    return json_digest(content)


def _referred(item: Any, items: Mapping[str, Json]) -> Any:
    refers = as_map(item).get("type") == "item_reference"
    return items.get(as_text(item.get("id")), item) if refers else item


def without_ids(message: Json) -> dict[str, Any]:
    """Give a message of normal form without ids of calls, which differ from run to run."""
    rest = {name: value for name, value in message.items() if name not in ("tool_calls", "tool_call_id")}
    if calls := message.get("tool_calls"):
        rest["calls"] = [call["function"] for call in calls]
    return rest


@cache
def _reader(format: str) -> WireFormat:
    if format not in FORMATS:
        raise UnreadableTraffic(f"the wire format {format!r} is not known: {', '.join(FORMATS)}")
    return cast(WireFormat, import_module(f"{__package__}.{FORMATS[format]}"))
