"""One way to write a JSON value, so that equal values have equal digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"

DIGEST_CHARS = 16


def plain(value: object) -> object:
    """Turn read-only mappings and sets into what JSON knows; sets come out sorted."""
    if isinstance(value, Mapping | MappingProxyType):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"not a JSON value: {value!r} ({type(value).__name__})")


# Kept: making an encoder for each line costs more than the line.
_canonical = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain
).encode
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain).encode


def canonical(value: object) -> str:
    """Write a JSON value with sorted keys and no spaces: equal values, equal text."""
    return _canonical(value)


def compact(value: object) -> str:
    """Write a JSON value in one line, its keys in their own order."""
    return _compact(value)


def digest(value: object) -> str:
    """Give 16 hex digits of the SHA-256 of a JSON value's canonical text."""
    return digest_text(_canonical(value))


def digest_text(text: str) -> str:
    """Give 16 hex digits of the SHA-256 of a text."""
    # Models send halves of surrogate pairs: a text that holds one has a digest like any other.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
