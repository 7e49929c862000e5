"""Parts of an answer, by their path or by a mere name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_PART = re.compile(r"(?:^|\.)(\w+)|\[(\d+)\]")
MOST_DEEP = 6


def value_at(data: Any, path: str) -> Any:
    """Give what stands at a path such as ``items[0].title``; None where there is nothing."""
    for part in _PART.finditer(path):
        try:
            data = data[int(part[2])] if part[2] else data[part[1]]
        except (LookupError, TypeError):
            return None
    return data


def named(data: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Give what stands at a path, else under a key of that name, in the first entries of lists too."""
    found = value_at(data, name)
    if found is not None:
        yield name, found
    elif re.fullmatch(r"\w+", name):
        yield from _keys(data, name, "", 0)


def _keys(data: Any, name: str, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > MOST_DEEP:
        return
    if isinstance(data, list) and data:
        yield from _keys(data[0], name, f"{path}[0]", depth + 1)
    if isinstance(data, dict):
        if name in data:
            yield f"{path}.{name}".lstrip("."), data[name]
        for key, inner in data.items():
            yield from _keys(inner, name, f"{path}.{key}".lstrip("."), depth + 1)
