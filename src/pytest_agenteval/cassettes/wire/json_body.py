"""Bodies as JSON, and values in them that may be anything: what is odd is read as the empty value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.interaction import Body
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic
from pytest_agenteval.records.record import NOTHING


def read_json(text: str) -> Any:
    """Read a JSON text; raises UnreadableTraffic for what is none, NaN and bottomless nesting included."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as odd:
        raise UnreadableTraffic(f"the body is no JSON: {odd}") from None


def json_object(body: Body) -> Json:
    """Read a body that is a JSON object; raises UnreadableTraffic for any other."""
    value = read_json(text_of_body(body))
    if not isinstance(value, dict):
        raise UnreadableTraffic("the body is no JSON object")
    return value


def text_of_body(body: Body) -> str:
    """Give a body as text; a byte that is no UTF-8 becomes a question mark of Unicode's."""
    return body.decode("utf-8-sig", "replace") if isinstance(body, bytes) else (body or "").lstrip("\ufeff")


def as_map(value: Any) -> Json:
    """Give a map, or the empty one."""
    return value if isinstance(value, Mapping) else NOTHING


def maps(value: Any) -> list[Json]:
    """Give the maps of a list, without what is none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Give a text, or the empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """Give a whole number, or 0; a float that is whole is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if value == value and abs(value) < 1e18 else 0


def rest_of(body: Json, *read: str) -> dict[str, Any]:
    """Give what a body holds besides the keys that were read; what is null counts as absent."""
    return {name: value for name, value in body.items() if name not in read and value is not None}


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
