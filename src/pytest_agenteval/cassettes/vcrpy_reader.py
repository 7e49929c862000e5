"""Reads what vcrpy wrote and our own reader refuses: by vcrpy's own deserialiser, loaded only then.

Its releases, and the clients it records, differ in a file-like or iterated body (a Python tag), in a map
for what aiohttp sent, and in httpx's responses before vcrpy 6. vcrpy's loader makes plain values: no tag
runs code.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.text.canonical import compact

MIGRATE = "vcrpy before 1.0 wrote it; bring it up to date:  python -m vcr.migration {name}"

_BODY_KEYS = frozenset({"string", "base64_string", "encoding"})


class NotOfVcrpy(Exception):
    """No cassette of vcrpy's that can be read; ``hint`` says what to do, where there is something."""

    def __init__(self, hint: str = "") -> None:
        super().__init__(hint)
        self.hint = hint


def may_be_of_vcrpy(text: str) -> bool:
    """Whether vcrpy may have written this: what holds tools or chats is ours, and is told as we read it."""
    return "request" in text and "response" in text and "tool://" not in text and "chat://" not in text


def read_with_vcrpy(text: str, is_json: bool, name: str) -> Mapping[str, Any]:
    """Give the content of a cassette of vcrpy's in the form that our own reader takes; raises NotOfVcrpy."""
    # Not at the top: vcrpy imports every HTTP library that it finds, a quarter of a second for each process.
    import vcr
    from vcr.serialize import deserialize

    serializer = vcr.VCR().serializers["json" if is_json else "yaml"]
    try:
        requests, responses, *_ = deserialize(text, serializer)
        pairs = zip(requests, responses, strict=True)
        return {
            "interactions": [
                {"request": _request(request), "response": _response(response)} for request, response in pairs
            ]
        }
    except Exception as why:  # of a file that somebody made, anything may be wrong
        oldest = "migration script" in str(why) or "!!python/object:vcr.request.Request" in text
        raise NotOfVcrpy(MIGRATE.format(name=name) if oldest else "") from None


def _request(request: Any) -> dict[str, Any]:
    return {
        "method": request.method,
        "uri": request.uri,
        "body": _request_body(request.body),
        "headers": dict(request.headers),
    }


def _request_body(body: Any) -> Any:
    if hasattr(body, "read"):
        return body.read()
    if isinstance(body, Mapping):
        # aiohttp's ``json`` and ``data`` are both kept as the map that was given, and no longer told apart.
        return _of_map(body) if body and body.keys() <= _BODY_KEYS else compact(dict(body))
    if body is None or isinstance(body, str | bytes):
        return body
    return b"".join(part.encode() if isinstance(part, str) else part for part in body)


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    if "status_code" in response:  # of httpx, by vcrpy 4 and 5
        content = response.get("content")
        return {
            "status": {"code": response["status_code"], "message": ""},
            "headers": response.get("headers"),
            "body": {"string": content},
        }
    return {**response, "body": {"string": _of_map(response.get("body") or {})}}


def _of_map(body: Mapping[str, Any]) -> Any:
    """Give the body out of its map; base64 and an encoding beside the text are how Ruby's VCR writes one."""
    if not body.keys() <= _BODY_KEYS:
        raise NotOfVcrpy
    if "base64_string" in body:
        return base64.b64decode(body["base64_string"])
    return body.get("string")
