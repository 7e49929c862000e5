"""When two calls of a tool are the same although their arguments differ: a rule for each parameter."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.interaction import NOTHING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.errors import UsageMistake, nearest
from pytest_agenteval.text.json_values import equal, fold_compact, number_of

WORDS = ("exact", "folded", "ignore", "contains")
RULES = "exact, folded, ignore, contains or {number: TOLERANCE}"
_AS_THEY_ARE = frozenset({str, int, bool, type(None)})
_NONE = object()


class ParamMatcher(FrozenValue, frozen=True):
    """One of the four words, or ``number`` with how far two numbers may be apart."""

    word: str
    tolerance: Decimal = Decimal(0)

    def same(self, recorded: Any, argument: Any) -> bool:
        """Are two values the same under this rule?"""
        if self.word == "ignore" or equal(recorded, argument):
            return True
        if self.word == "folded":
            return equal(_folded(recorded), _folded(argument))
        if self.word == "contains":
            return _is_contained(recorded, argument)
        return self.word == "number" and _near(recorded, argument, self.tolerance)


EXACT = ParamMatcher("exact")
FAR = Decimal("Infinity")
Nearness: TypeAlias = tuple[bool, int, int, Decimal]


class ParamMatchers:
    """What a tool's ``matching`` says, by parameter; ``exact`` where it says nothing.

    ``folded`` leaves out case, width and all white space, ``contains`` asks that one text be found in the
    other once both are folded, ``{"number": 0.001}`` lets numbers, and texts that are numbers, be that far
    apart, ``ignore`` takes any value, and none. A parameter that only one side has differs otherwise.
    """

    def __init__(self, matching: Mapping[str, Any] = NOTHING, *, where: str = "matching") -> None:
        self._rules = {name: _read_matcher(rule, f"{where}.{name}") for name, rule in matching.items()}
        self.ident = canonical(matching)
        self._folded = {name for name, rule in self._rules.items() if rule.word == "folded"}
        self.texts = frozenset(name for name, rule in self._rules.items() if rule.word == "contains")
        self.numbers = {name: rule.tolerance for name, rule in self._rules.items() if rule.word == "number"}
        # What a word takes for the same can be told from one value alone for these two only.
        self._left_out = {name for name, rule in self._rules.items() if rule.word not in ("exact", "folded")}

    def key(self, args: Mapping[str, Any]) -> Hashable:
        """Give what accepted calls share: the parameters whose rule can be told from one value alone."""
        return canonical(
            {
                name: _folded(value) if name in self._folded else _whole(value)
                for name, value in args.items()
                if name not in self._left_out
            }
        )

    def accepts(self, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
        """Does the recorded call answer the one that is asked?"""
        return all(self._same(name, recorded, args) for name in recorded.keys() | args.keys())

    def nearness(self, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> Nearness:
        """Rank accepted calls: equal in all, in how many parameters, how near in their texts and numbers."""
        same = sum(name in recorded and equal(recorded[name], value) for name, value in args.items())
        letters = sum(_letters_apart(recorded[name], args[name]) for name in self.texts if name in args)
        numbers = (_numbers_apart(recorded[name], args[name]) for name in self.numbers if name in args)
        return same == len(recorded.keys() | args.keys()), same, -letters, -sum(numbers, Decimal(0))

    def ignores(self, name: str) -> bool:
        """May the parameter be anything?"""
        return self._rules.get(name, EXACT).word == "ignore"

    def _same(self, name: str, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
        rule = self._rules.get(name, EXACT)
        if rule.word == "ignore":
            return True
        there, here = recorded.get(name, _NONE), args.get(name, _NONE)
        return there is not _NONE and here is not _NONE and rule.same(there, here)


def _folded(value: Any) -> Any:
    """Give texts without case, width and white space, also those in lists; other values stay."""
    if isinstance(value, str):
        return fold_compact(value)
    return [_folded(item) for item in value] if isinstance(value, list | tuple) else _whole(value)


def _whole(value: Any) -> Any:
    """Write whole numbers one way: JSON knows one kind of number."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def _is_contained(recorded: Any, argument: Any) -> bool:
    """Find one text in the other; an empty text, which is in every other, says nothing."""
    if not isinstance(recorded, str) or not isinstance(argument, str):
        return False
    there, here = _folded(recorded), _folded(argument)
    return there == here or (bool(there and here) and (there in here or here in there))


def _letters_apart(recorded: Any, argument: Any) -> int:
    return abs(len(_folded(recorded)) - len(_folded(argument)))


def _near(recorded: Any, argument: Any, tolerance: Decimal) -> bool:
    return _numbers_apart(recorded, argument) <= tolerance


def _numbers_apart(recorded: Any, argument: Any) -> Decimal:
    there, here = number_of(recorded), number_of(argument)
    return FAR if there is None or here is None else abs(there - here)


def _read_matcher(rule: Any, place: str) -> ParamMatcher:
    if isinstance(rule, str) and rule in WORDS:
        return ParamMatcher(rule)
    if isinstance(rule, Mapping) and list(rule) == ["number"]:
        return ParamMatcher("number", _tolerance(rule["number"], place))
    hint = nearest(rule, WORDS) if isinstance(rule, str) else ""
    if rule == "number":
        hint = "say how far two numbers may be apart: {number: 0.001}"
    raise UsageMistake(f"{place}: a rule is {RULES}, not {rule!r}{f'; {hint}' if hint else ''}")


def _tolerance(value: Any, place: str) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return Decimal(str(value))
    raise UsageMistake(f"{place}: number is how far two numbers may be apart, 0 or more, not {value!r}")
