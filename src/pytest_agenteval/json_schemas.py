"""JSON Schemas that authors write: their patterns are searched for where they can be ended."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agenteval.patterns import Pattern

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@lru_cache(maxsize=16)
def with_bounded_patterns(validator: type[Validator]) -> type[Validator]:
    """Give the validator class whose patterns end in time: they raise PatternTooSlow.

    Its keywords are those of jsonschema, which takes its ``re`` from us.
    """
    from jsonschema import validators

    extend: Any = validators.extend  # not typed
    keywords: dict[str, Any] = dict(validator.VALIDATORS)
    spaces: dict[str, dict[str, Any]] = {}
    made: type[Validator] = extend(
        validator, {name: _with_our_re(one, spaces) for name, one in keywords.items()}
    )
    return made


class _Re:
    """What jsonschema uses of ``re``."""

    @staticmethod
    def search(pattern: str, text: str) -> Any:
        """Search for a pattern as ``re`` does, for as long as anyone waits."""
        return Pattern(pattern).search(text)


def _with_our_re(function: Any, spaces: dict[str, dict[str, Any]]) -> Any:
    """Give a copy of a function of jsonschema that finds our ``re`` by that name, as do those it calls."""
    if not isinstance(function, FunctionType) or not function.__module__.startswith("jsonschema."):
        return function
    space = _space(function.__module__, spaces)
    own = FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return own


def _space(module: str, spaces: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Give the names that functions of a module see."""
    if module not in spaces:
        names = spaces[module] = dict(vars(sys.modules[module]))
        names |= {name: _with_our_re(each, spaces) for name, each in names.items()}
        if "re" in names:
            names["re"] = _Re
    return spaces[module]
