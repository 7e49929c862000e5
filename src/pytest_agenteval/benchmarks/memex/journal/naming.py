"""Naming a value in a complaint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def named(value: Any) -> str:
    """Name a value that was found in another's place."""
    if isinstance(value, str):
        return f"{value[:40]!r} (text)" if value else "an empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return "an object" if isinstance(value, Mapping) else repr(value)
