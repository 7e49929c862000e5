"""Arguments as the tool's schema has them: defaults filled in, and each value of its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_SCALARS = frozenset({str, int, bool, float})
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def settled(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments as two ways to write one call have them in common.

    What has no default stays absent, what cannot be of its type stays as it is, and what the schema does not
    know is left out. A schema without properties knows nothing, and changes nothing.
    """
    properties = schema.get("properties")
    if not properties:
        return dict(args)
    whole = {name: known["default"] for name, known in properties.items() if _has_default(known)}
    whole.update({name: value for name, value in args.items() if name in properties})
    return {name: _typed(value, properties[name]) for name, value in whole.items()}


def _has_default(known: Any) -> bool:
    return isinstance(known, dict | Mapping) and "default" in known


def _typed(value: Any, known: Any) -> Any:
    if type(value) not in _SCALARS:
        return value
    kind = known.get("type") if isinstance(known, dict | Mapping) else None
    if isinstance(kind, list | tuple):
        kind = next((word for word in kind if word != "null"), None)
    with suppress(ValueError, OverflowError):
        return _AS[kind](value) if kind in _AS else value
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and not value.is_integer():
        return value
    return value if isinstance(value, bool) else int(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else value


def _boolean(value: Any) -> Any:
    word = str(value).casefold()
    return word in _YES if word in (*_YES, *_NO) else value


_AS: Mapping[str | None, Any] = {"integer": _integer, "number": _number, "boolean": _boolean, "string": str}
