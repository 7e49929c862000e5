"""Bodies as JSON, and values in them that may be anything: what is odd is read as the empty value."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from pytest_agenteval.cassettes.interaction import Body
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool import JSON_DECODER
from pytest_agenteval.text.canonical import compact


def read_json(text: str) -> Any:
    """Read a JSON text; raises UnreadableTraffic for what is none, NaN and bottomless nesting included."""
    # msgspec is much quicker, and knows no halves of surrogate pairs, which models send.
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        return msgspec.json.decode(text)
    try:
        return JSON_DECODER.decode(text)
    except (ValueError, RecursionError) as odd:
        raise UnreadableTraffic(f"the body is no JSON: {odd}") from None


def json_object(body: Body, errors: str = "replace") -> Json:
    """Read a body that is a JSON object; raises UnreadableTraffic for any other."""
    value = read_json(text_of_body(body, errors))
    if not isinstance(value, dict):
        raise UnreadableTraffic("the body is no JSON object")
    return value


def text_of_body(body: Body, errors: str = "replace") -> str:
    """Give a body as text; a byte that is no UTF-8 becomes U+FFFD, or what ``errors`` says."""
    return body.decode("utf-8-sig", errors) if isinstance(body, bytes) else (body or "").lstrip("\ufeff")


def raw_body(body: Body) -> bytes:
    """Give a body as the bytes that it was on the wire."""
    return body if isinstance(body, bytes) else (body or "").encode("utf-8", "surrogatepass")


def as_map(value: Any) -> Json:
    """Give a map, or the empty one."""
    return value if isinstance(value, dict) else NOTHING


def maps(value: Any) -> list[Json]:
    """Give the maps of a list, without what is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Give a text, or the empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """Give a whole number, or 0; a float that is whole is one, and so are digits as a text."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 18:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if value == value and abs(value) < 1e18 else 0


def rest_of(body: Json, *read: str) -> dict[str, Any]:
    """Give what a body holds besides the keys that were read; what is null counts as absent."""
    return {name: value for name, value in body.items() if name not in read and value is not None}


def wrapped_result(result: Any) -> tuple[str, bool]:
    """Give a tool's result as a text, and whether it is an error, where an API takes nothing but objects.

    Clients call the one key in their own way; what has more keys is the result itself.
    """
    if isinstance(result, dict) and len(result) == 1:
        (name, inner), *_ = result.items()
        if name in _WRAPPERS:
            return _result_text(inner), name in _FAILED
    return _result_text(result), False


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact(value)


_FAILED = ("error", "call_error")
_WRAPPERS = ("result", "output", "content", "return_value", *_FAILED)
