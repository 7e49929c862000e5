"""Matchers: each says whether a value that was found is one that was meant.

``str`` of a matcher is the *expected* side of a check. A value that is not there is ABSENT, which only
``absent`` matches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Protocol

from pytest_agenteval.graders.grader_settings import (
    WrongSetting,
    brief,
    pattern_at,
    quoted_pattern,
    text_at,
    value_path_at,
)
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.record import NOTHING, FrozenValue
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

# Decimals are compared as they are written: 0.4 lies within 0.1 of 0.3, which it does not in binary.
_EXACTLY = Context(prec=400)


class Matcher(Protocol):
    """Decides which values match."""

    def matches(self, found: Any) -> bool:
        """Whether this value is one that was meant."""
        ...


class _Rule(FrozenValue, frozen=True):
    """What was meant, in words and as a value, and how another value is compared with it.

    With ``normal``, both values are compared in normal form; with ``fold``, both are folded, too.
    """

    expected: str
    value: Any
    # A function of a module and no closure: equal settings make equal rules, and rules can be pickled.
    holds: Callable[[Any, Any], bool]
    normal: bool = False
    fold: bool = False

    def matches(self, found: Any) -> bool:
        value = self.value
        if self.normal:
            value, found = normal_texts(value), normal_texts(found)
        if self.fold:
            value, found = fold_texts(value), fold_texts(found)
        return self.holds(value, found)

    def __str__(self) -> str:
        return self.expected


PathMatchers = tuple[tuple[str, KeyPath, Matcher], ...]
Setting = Mapping[str, Any]


def matcher_of(setting: Any, place: KeyPath) -> Matcher:
    """Read a matcher; ``place`` is where it is."""
    if not isinstance(setting, Mapping):
        # A plain value is short for {exact: value}.
        return _comparing(brief(setting), setting, NOTHING, place, json_equal)
    kinds = [key for key in setting if key in _KINDS]
    wrong = next((key for key in setting if key not in _KINDS and key not in _MODIFIERS), None)
    # Unknown keys come first: of a misspelt kind, "none of them" would be reported without the hint.
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

    Where there is a problem, every check fails, even one for a value that should be absent.
    """
    checks = []
    for text, path, matcher in entries:
        claim = f"{where}: {text}"
        if problem:
            checks.append(Check(claim, False, str(matcher), problem))
            continue
        read = [check_value(claim, matcher, value_at(reading, path)) for reading in readings]
        # Programs read some YAML scalars in two ways: the author
        # may mean either. A miss shows the first reading.
        checks.append(next((check for check in read if check.passed), read[0]))
    return tuple(checks)


def _comparing(
    text: str, expected: Any, setting: Setting, place: KeyPath, holds: Callable[[Any, Any], bool]
) -> Matcher:
    """Read a matcher that compares values in normal form, folded where the setting wants it."""
    fold = setting.get("fold", False)
    if not isinstance(fold, bool):
        raise WrongSetting((*place, "fold"), "true or false", brief(fold))
    return _Rule(text, expected, holds, normal=True, fold=fold)


def _exact(setting: Setting, place: KeyPath) -> Matcher:
    value = setting["exact"]
    # Unlike in Python, true does not equal 1; 1 and 1.0 are equal.
    return _comparing(brief(value), value, setting, place, json_equal)


def _subset(setting: Setting, place: KeyPath) -> Matcher:
    value = setting["subset"]
    return _comparing(f"at least {brief(value)}", value, setting, place, is_part_of)


def _contains(setting: Setting, place: KeyPath) -> Matcher:
    part = setting["contains"]
    if isinstance(part, str):
        # A blank text stands in nearly every value: such a check would not fail.
        text_at((*place, "contains"), part)
    return _comparing(f"a value that contains {brief(part)}", part, setting, place, _is_contained)


def _is_contained(part: Any, found: Any) -> bool:
    """Whether a text contains the part, or a list has it as an item; anything else contains nothing."""
    if isinstance(found, str):
        return isinstance(part, str) and part in found
    return isinstance(found, list | tuple) and any(json_equal(part, item) for item in found)


def _one_of(setting: Setting, place: KeyPath) -> Matcher:
    options = setting["one_of"]
    if not isinstance(options, list | tuple) or not options:
        raise WrongSetting((*place, "one_of"), "a list of at least one value", brief(options))
    return _comparing(f"one of {', '.join(map(brief, options))}", tuple(options), setting, place, _is_one_of)


def _is_one_of(options: Sequence[Any], found: Any) -> bool:
    return any(json_equal(value, found) for value in options)


def _near(setting: Setting, place: KeyPath) -> Matcher:
    if "tolerance" in setting and "relative" in setting:
        raise WrongSetting(place, "tolerance or relative", "both")
    kind = "relative" if "relative" in setting else "tolerance"
    for key in {"number", kind} & setting.keys():
        value = setting[key]
        # number_of also reads numbers written as text, which
        # agents may return; an author has to write a number.
        if isinstance(value, str) or number_of(value) is None or (key == kind and value < 0):
            expected = "a number" if key == "number" else "a number, 0 or more"
            raise WrongSetting((*place, key), expected, brief(value))
    number, margin = setting["number"], setting.get(kind, 0)
    share = " of it" if kind == "relative" else ""
    text = f"{number} ± {margin}{share}" if margin else f"the number {number}"
    return _Rule(text, (number, margin, kind == "relative"), _is_near)


def _is_near(wanted: tuple[int | float, int | float, bool], found: Any) -> bool:
    """Whether a number, or a text that is one, lies within the margin, both ends included."""
    number, margin, is_relative = wanted
    value, middle = number_of(found), number_of(number)
    if value is None or middle is None:
        return False
    unit = middle.copy_abs() if is_relative else Decimal(1)
    return _EXACTLY.subtract(value, middle).copy_abs() <= _EXACTLY.multiply(Decimal(str(margin)), unit)


def _regex(setting: Setting, place: KeyPath) -> Matcher:
    pattern = pattern_at((*place, "regex"), setting["regex"])
    return _Rule(f"a text that matches {quoted_pattern(pattern.pattern)}", pattern, _is_found_in)


def _is_found_in(pattern: Pattern, found: Any) -> bool:
    return isinstance(found, str) and pattern.matches(found)


def _just(key: str, matcher: Matcher) -> Callable[[Setting, KeyPath], Matcher]:
    """Make the reader of a matcher whose only setting is ``true``, as in ``{any: true}``."""

    def read(setting: Setting, place: KeyPath) -> Matcher:
        if setting[key] is not True:
            raise WrongSetting((*place, key), "true", brief(setting[key]))
        return matcher

    return read


_KINDS: Mapping[str, Callable[[Setting, KeyPath], Matcher]] = {
    "exact": _exact,
    "subset": _subset,
    "contains": _contains,
    "one_of": _one_of,
    "number": _near,
    "regex": _regex,
    "any": _just("any", _Rule("any value", ABSENT, operator.is_not)),
    "absent": _just("absent", _Rule("nothing", ABSENT, operator.is_)),
}
_MODIFIERS: Mapping[str, tuple[str, ...]] = {
    "fold": ("exact", "subset", "contains", "one_of"),
    "tolerance": ("number",),
    "relative": ("number",),
}
