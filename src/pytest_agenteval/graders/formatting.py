"""Writing values so that a line of a report can hold them."""

from __future__ import annotations

import json
from typing import Any

from pytest_agenteval.text.json_values import plain_json

MAX_CHARS = 200


def cut(text: str, most: int = MAX_CHARS) -> str:
    """Give a text, or its beginning where it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def brief(value: Any) -> str:
    """Write a JSON value in one short line; texts stand in quotes, and everything else is JSON."""
    if isinstance(value, str):
        return repr(cut(value))
    try:
        return cut(json.dumps(value, ensure_ascii=False, default=plain_json))
    except (TypeError, ValueError):
        return cut(repr(value))
