"""JSON and YAML that an agent left, read as the programs read it that the file is for.

Task files are read strictly, so that an author learns of each slip. An agent's file is not: merge keys,
anchors and a key that comes twice mean what they mean to others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import yaml

from pytest_agenteval.text.json_values import mend_surrogates, normal_keys

if TYPE_CHECKING:
    from yaml import SafeLoader as _Safe
else:
    _Safe = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

_DEEPEST = 200
_VALUES_PER_CHARACTER = 20
"""A text without aliases has fewer than one; aliases of aliases could stand for more than memory holds."""


class UnreadableDocument(ValueError):
    """A text that no program can read as JSON or YAML; says where and why."""


def json_value(text: str) -> Any:
    """Read JSON as Python does: of a key that comes twice the last one counts, and there is NaN."""
    try:
        return _Plain(text).value(json.loads(text.removeprefix("\ufeff")))
    except json.JSONDecodeError as error:
        raise UnreadableDocument(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableDocument(f"JSON that cannot be read: {error}") from None


def yaml_values(text: str) -> tuple[Any, ...]:
    """Read YAML in both ways that are in use, the plainer one first.

    To YAML 1.2, ``yes``, ``2026-09-17``, ``017`` and ``12:30`` are texts (the second of these to us, too); to
    YAML 1.1, as PyYAML has it, a truth value, a date (here its text), 15 and 750. Where only one way can read
    the document, that one counts.
    """
    text = text.removeprefix("\ufeff")
    readings, problem = [], ""
    for loader in (_Loader12, _Loader11):
        try:
            readings.append(_Plain(text).value(yaml.load(text, loader)))  # both are safe loaders
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
            problem = problem or _reason(error)
    if not readings:
        raise UnreadableDocument(problem)
    return tuple(readings)


def _reason(error: Exception) -> str:
    mark, reason = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = "" if mark is None else f"line {mark.line + 1}: "
    return f"{line}{reason or error or 'nested too deeply'}".splitlines()[0]


class _Loader11(_Safe):
    """PyYAML's safe loader, which does not descend for ever."""

    _depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError("nested too deeply")

    def ascend_resolver(self) -> None:
        self._depth -= 1


class _Loader12(_Loader11):
    """The same, by the scalars of YAML 1.2's core schema; numbers that begin with 0 stay texts."""


_Loader12.yaml_implicit_resolvers = {}

for _tag, _pattern, _first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", "[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", "<<", ["<"]),
):
    _Loader12.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


class _Plain:
    """Makes JSON of what was read: keys are texts in one normal form, dates are texts."""

    def __init__(self, text: str) -> None:
        self._left = _VALUES_PER_CHARACTER * (len(text) + 1)

    def value(self, value: Any) -> Any:
        """Give the value as JSON; raises ValueError for what JSON has not and for endless aliases."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("aliases of aliases without measure")
        if isinstance(value, str):
            return mend_surrogates(value)
        if isinstance(value, Mapping):
            return normal_keys({self._key(key): self.value(inner) for key, inner in value.items()})
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        if isinstance(value, date):
            return value.isoformat()
        if value is None or isinstance(value, bool | int | float):
            return value
        raise ValueError(f"a value that JSON has not: {type(value).__name__}")

    def _key(self, key: Any) -> str:
        key = self.value(key)
        return key if isinstance(key, str) else json.dumps(key)
