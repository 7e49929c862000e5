"""Matchers: each says whether a value that was found is one that was meant.

``str`` of a matcher is the *expected* side of a check. A value that is not there is ABSENT, which only
``NoValue`` matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Protocol

from pytest_agenteval.graders.grader_settings import WrongSetting, brief, pattern_at, text_at, value_path_at
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import KeyPath, did_you_mean
from pytest_agenteval.text.json_values import (
    ABSENT,
    fold_texts,
    is_part_of,
    json_equal,
    normal_texts,
    number_of,
    value_at,
)
from pytest_agenteval.text.patterns import Pattern

# Decimals as they are written: 0.4 lies within 0.1 of 0.3, which it does not in binary.
_EXACTLY = Context(prec=400)


class Matcher(Protocol):
    """Tells the values that were meant from others."""

    def matches(self, found: Any) -> bool:
        """Whether this value is one that was meant."""
        ...


class Exact(FrozenValue, frozen=True):
    """The value is this one."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the value is equal; 1 is 1.0, but true is not 1."""
        return json_equal(*_fold_both(self.value, found, fold=self.fold))

    def __str__(self) -> str:
        return brief(self.value)


class Subset(FrozenValue, frozen=True):
    """The value holds at least this."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the map's keys, or the list's items, are all there."""
        return is_part_of(*_fold_both(self.value, found, fold=self.fold))

    def __str__(self) -> str:
        return f"at least {brief(self.value)}"


class Contains(FrozenValue, frozen=True):
    """The value is a text that contains this text, or a list that has this item."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the text or the item is in there; what is neither text nor list contains nothing."""
        expected, found = _fold_both(self.value, found, fold=self.fold)
        if isinstance(found, str):
            return isinstance(expected, str) and expected in found
        return isinstance(found, list | tuple) and any(json_equal(expected, item) for item in found)

    def __str__(self) -> str:
        return f"a value that contains {brief(self.value)}"


class OneOf(FrozenValue, frozen=True):
    """The value is one of these."""

    values: tuple[Any, ...]
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the value is equal to one of them."""
        return any(Exact(value, self.fold).matches(found) for value in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(brief, self.values))}"


class NearNumber(FrozenValue, frozen=True):
    """The value is this number, or a text that is one, give or take a margin."""

    number: int | float
    margin: int | float = 0
    relative: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the number lies within the margin, its ends included."""
        number, wanted = number_of(found), number_of(self.number)
        if number is None or wanted is None:
            return False
        whole = wanted.copy_abs() if self.relative else Decimal(1)
        margin = _EXACTLY.multiply(Decimal(str(self.margin)), whole)
        return _EXACTLY.subtract(number, wanted).copy_abs() <= margin

    def __str__(self) -> str:
        share = " of it" if self.relative else ""
        return f"{self.number} ± {self.margin}{share}" if self.margin else f"the number {self.number}"


class MatchesPattern(FrozenValue, frozen=True):
    """The value is a text in which this pattern is found."""

    pattern: Pattern

    def matches(self, found: Any) -> bool:
        """Whether the pattern is found anywhere in the text; what is no text does not match."""
        return isinstance(found, str) and self.pattern.matches(found)

    def __str__(self) -> str:
        return f"a text that matches {brief(self.pattern.pattern)}"


class AnyValue(FrozenValue, frozen=True):
    """There is a value, whatever it is."""

    def matches(self, found: Any) -> bool:
        """Whether there is one; null is one."""
        return found is not ABSENT

    def __str__(self) -> str:
        return "any value"


class NoValue(FrozenValue, frozen=True):
    """There is no value."""

    def matches(self, found: Any) -> bool:
        """Whether there is none; null is one."""
        return found is ABSENT

    def __str__(self) -> str:
        return "nothing"


def _fold_both(expected: Any, found: Any, *, fold: bool) -> tuple[Any, Any]:
    expected, found = normal_texts(expected), normal_texts(found)
    return (fold_texts(expected), fold_texts(found)) if fold else (expected, found)


PathMatchers = tuple[tuple[str, KeyPath, Matcher], ...]
Setting = Mapping[str, Any]


def matcher_of(setting: Any, place: KeyPath) -> Matcher:
    """Read a matcher; ``place`` is where it stands."""
    if not isinstance(setting, Mapping):
        return Exact(setting)
    kinds = [key for key in setting if key in _KINDS]
    wrong = next((key for key in setting if key not in _KINDS and key not in _MODIFIERS), None)
    if wrong is not None:
        options = (*_KINDS, *_MODIFIERS)
        hint = did_you_mean(wrong, options) or "a map that is meant as it stands is written {exact: {...}}"
        raise WrongSetting((*place, wrong), f"one of {', '.join(options)}", f"unknown key {wrong!r}", hint)
    if len(kinds) != 1:
        expected = f"exactly one of {', '.join(_KINDS)}"
        raise WrongSetting(place, expected, " and ".join(kinds) or "none of them")
    for key in setting:
        if key in _MODIFIERS and kinds[0] not in _MODIFIERS[key]:
            raise WrongSetting((*place, key), f"{key} beside {' or '.join(_MODIFIERS[key])}", kinds[0])
    return _KINDS[kinds[0]](setting, place)


def matchers(name: str, given: Setting) -> dict[str, Matcher]:
    """Read a map from names to matchers, with at least one entry."""
    if not isinstance(given, Mapping) or not given:
        raise WrongSetting((name,), "a map with at least one entry", brief(given))
    return {key: matcher_of(setting, (name, key)) for key, setting in given.items()}


def values(name: str, given: Setting) -> PathMatchers:
    """Read a map from paths into a value to matchers, with at least one entry."""
    read = matchers(name, given)
    return tuple((text, value_path_at((name, text), text), matcher) for text, matcher in read.items())


def check_value(claim: str, matcher: Matcher, value: Any) -> Check:
    """Check whether a value, which may be ABSENT, is one that was meant."""
    found_text = "nothing" if value is ABSENT else brief(value)
    return Check(claim, matcher.matches(value), str(matcher), found_text)


def check_values(
    where: str, entries: PathMatchers, readings: Sequence[Any], problem: str = ""
) -> tuple[Check, ...]:
    """Check each value at its path, in any reading of the document.

    Where there is a problem, none is as meant, not even an absent one.
    """
    checks = []
    for text, path, matcher in entries:
        claim = f"{where}: {text}"
        if problem:
            checks.append(Check(claim, False, str(matcher), problem))
            continue
        read = [check_value(claim, matcher, value_at(reading, path)) for reading in readings]
        checks.append(next((check for check in read if check.passed), read[0]))
    return tuple(checks)


def _folding(setting: Setting, place: KeyPath) -> bool:
    fold = setting.get("fold", False)
    if not isinstance(fold, bool):
        raise WrongSetting((*place, "fold"), "true or false", brief(fold))
    return fold


def _contains(setting: Setting, place: KeyPath) -> Matcher:
    part = setting["contains"]
    if isinstance(part, str):
        text_at((*place, "contains"), part)
    return Contains(part, _folding(setting, place))


def _one_of(setting: Setting, place: KeyPath) -> Matcher:
    options = setting["one_of"]
    if not isinstance(options, list | tuple) or not options:
        raise WrongSetting((*place, "one_of"), "a list of at least one value", brief(options))
    return OneOf(tuple(options), _folding(setting, place))


def _near(setting: Setting, place: KeyPath) -> Matcher:
    if "tolerance" in setting and "relative" in setting:
        raise WrongSetting(place, "tolerance or relative", "both")
    margin = "relative" if "relative" in setting else "tolerance"
    for key in {"number", margin} & setting.keys():
        value = setting[key]
        if isinstance(value, str) or number_of(value) is None or (key == margin and value < 0):
            expected = "a number" if key == "number" else "a number, 0 or more"
            raise WrongSetting((*place, key), expected, brief(value))
    return NearNumber(setting["number"], setting.get(margin, 0), margin == "relative")


def _just(key: str, matcher: Matcher) -> Callable[[Setting, KeyPath], Matcher]:
    """Read a matcher whose only value is true."""

    def read(setting: Setting, place: KeyPath) -> Matcher:
        if setting[key] is not True:
            raise WrongSetting((*place, key), "true", brief(setting[key]))
        return matcher

    return read


_KINDS: Mapping[str, Callable[[Setting, KeyPath], Matcher]] = {
    "exact": lambda setting, place: Exact(setting["exact"], _folding(setting, place)),
    "subset": lambda setting, place: Subset(setting["subset"], _folding(setting, place)),
    "contains": _contains,
    "one_of": _one_of,
    "number": _near,
    "regex": lambda setting, place: MatchesPattern(pattern_at((*place, "regex"), setting["regex"])),
    "any": _just("any", AnyValue()),
    "absent": _just("absent", NoValue()),
}
_MODIFIERS: Mapping[str, tuple[str, ...]] = {
    "fold": ("exact", "subset", "contains", "one_of"),
    "tolerance": ("number",),
    "relative": ("number",),
}
