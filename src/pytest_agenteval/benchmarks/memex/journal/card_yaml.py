"""Writing a card as YAML that people and substring graders can read, and reading it back.

Two spaces of indent, lists in block form, no line is ever folded; a text stands in double quotes only where
it has to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:
    _Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

_KEYWORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", "+.inf", "=", "<<"}
_SPECIAL_FIRST = frozenset("-?,[]{}&*!|>%@`.")
_MARKS = re.compile("[:#\"'\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_NUMERIC = re.compile(r"\+?[0-9][-+0-9_.xXoOa-fA-F]*|\+\.[0-9].*")
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write(card: Mapping[str, Any]) -> str:
    """Write a card; its keys stay in their order."""
    return "\n".join(_map_lines(card, 0)) + "\n"


def read(text: str | None) -> dict[str, Any] | None:
    """Read a card; None where there is no text, and an empty card where it is no YAML map."""
    if text is None:
        return None
    try:
        card = yaml.load(text, _Loader)  # a safe loader, the fast one where there is one
    except (yaml.YAMLError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def _map_lines(values: Mapping[Any, Any], depth: int) -> Iterator[str]:
    for key, value in values.items():
        yield from _value_lines(" " * depth + f"{_text(str(key))}:", value, depth + 2)


def _list_lines(values: list[Any], depth: int) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            lines = list(_map_lines(value, depth + 2))
            yield " " * depth + "- " + lines[0].lstrip(" ")
            yield from lines[1:]
        else:
            yield from _value_lines(" " * depth + "-", value, depth + 2)


def _value_lines(before: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield before
        yield from _map_lines(value, depth)
    elif isinstance(value, list | tuple) and value:
        yield before
        yield from _list_lines(list(value), depth)
    else:
        yield f"{before} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, list | tuple) else _text(str(value))


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, e, power = repr(value).partition("e")
    return digits if not e else f"{digits if '.' in digits else digits + '.0'}e{power}"


def _text(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"' if _needs_quotes(text) else text


def _needs_quotes(text: str) -> bool:
    return (
        not text
        or text != text.strip()
        or text[0] in _SPECIAL_FIRST
        or _MARKS.search(text) is not None
        or _NUMERIC.fullmatch(text) is not None
        or text.lower() in _KEYWORDS
    )


def _escape(match: re.Match[str]) -> str:
    mark = match.group()
    code = ord(mark)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"  # half a character: no file can hold it
    return _SHORT.get(mark) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")
