"""Errors of model APIs, read in any provider's shape and written in each one's own."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.json_body import as_map, as_text, text_of_body
from pytest_agenteval.cassettes.wire.streams import parts_of
from pytest_agenteval.cassettes.wire.traffic import Json, ModelRefused, UnreadableTraffic
from pytest_agenteval.text.canonical import compact

_GOOGLE_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_response(format: str, status: int, kind: str, message: str) -> Response:
    """Write an error as the provider of a format would, so that its clients can tell what it says.

    ``kind`` is one word, such as ``not_recorded``. Clients of OpenAI and Anthropic are told not to ask again.
    """
    headers = {"Content-Type": ("application/json",), "x-should-retry": ("false",)}
    if format.startswith("bedrock."):
        headers["x-amzn-ErrorType"] = (kind,)
    return Response(status, "", headers, compact(_body(format, status, kind, message)))


def _body(format: str, status: int, kind: str, message: str) -> dict[str, Any]:
    if format.startswith("anthropic."):
        return {"type": "error", "error": {"type": kind, "message": message}}
    if format == "gemini":
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": kind, "domain": "agenteval"}
        word = _GOOGLE_WORDS.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": message, "status": word, "details": [reason]}}
    if format.startswith("ollama."):
        return {"error": f"{kind}: {message}"}
    if format.startswith("bedrock."):
        return {"message": message}
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def refusal_of(response: Response) -> ModelRefused:
    """Read a response whose status says that it is an error; a body that is no JSON is quoted."""
    try:
        words, message = _error_parts(parts_of(response).objects[0])
    except (UnreadableTraffic, IndexError):
        words, message = (), text_of_body(response.body).strip() or response.message
    header = next((it[0] for name, it in response.headers.items() if name.lower() == "x-amzn-errortype"), "")
    kinds = words or tuple(filter(None, (header.partition(":")[0],)))
    return ModelRefused(response.status, kinds, message)


def refusal_in(status: int, event: Json) -> ModelRefused | None:
    """Give the error that a body or an event of a stream tells, though the status says that all is well."""
    told = as_map(event.get("response")) or event
    if not told.get("error") and event.get("type") != "error":
        return None
    return ModelRefused(status, *_error_parts(told))


def _error_parts(body: Json) -> tuple[tuple[str, ...], str]:
    """Give an error's words, the most telling last, and its message."""
    error = body.get("error", body)
    if not isinstance(error, dict):
        return (), as_text(error) or compact(error)
    words = (as_text(error.get(name)) for name in ("type", "status", "code", "__type"))
    message = as_text(error.get("message")) or as_text(error.get("Message"))
    return tuple(word for word in words if word and word != "error"), message or compact(error)
