"""What a grader returned, taken as a grade where it can be."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping
from numbers import Real
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.graders.grader import own_threshold
from pytest_agenteval.records.evidence import UNDECIDED, Check, Grade
from pytest_agenteval.text.errors import CAUSES, AgentEvalError

EXPECTED = "expected a Grade, a bool or a number from 0 to 1"
ROUNDING = 1e-9
REASONS = UNDECIDED.keys() | CAUSES.keys()

_bounded = reprlib.Repr()
_bounded.maxstring = _bounded.maxother = 120


class InvalidGrade(AgentEvalError):
    """What a grader returned, or says of itself, cannot be taken as a grade."""


def as_grade(label: str, returned: Any) -> Grade:
    """Take what a grader returned as a grade: a bool is 1 or 0, a number its score.

    Raises InvalidGrade for anything else, and for a grade with a part that is not what it should be.
    """
    if isinstance(returned, Grade):
        return _sound_grade(returned)
    if isinstance(returned, Real):
        return Grade(label, _score(returned, "returned"), f"returned {_short_repr(returned)}")
    raise InvalidGrade(f"returned {_short_repr(returned)}: {EXPECTED}")


def threshold_of(grader: Any) -> float:
    """Give the threshold that a grader says of itself, else 1; raises InvalidGrade for no number."""
    own = own_threshold(grader)
    if _is_share(own):
        return float(own)
    raise InvalidGrade(f"has the threshold {_short_repr(own)}: expected a number from 0 to 1")


def _short_repr(value: object) -> str:
    """Write a value in one short line, with its type where that is not plain to see."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    text = " ".join(_bounded.repr(value).split())
    return f"{text} ({type(value).__name__})"


def _score(value: Any, where: str) -> float:
    """Give a score from 0 to 1; what rounding carries past an end, as in twenty times 0.05, is that end."""
    if isinstance(value, Real) and -ROUNDING <= value <= 1 + ROUNDING:  # type: ignore[operator]  # as below
        return min(max(float(value), 0.0), 1.0) + 0.0  # -0.0 becomes 0.0
    raise InvalidGrade(f"{where} {_short_repr(value)}: {EXPECTED}")


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and abs(value) <= sys.float_info.max  # type: ignore[operator]  # as below


def _is_share(value: Any) -> bool:
    if type(value) is float:
        return 0 <= value <= 1
    return isinstance(value, Real) and bool(0 <= value <= 1)  # type: ignore[operator]  # Real has no order


def _sound_grade(grade: Grade) -> Grade:
    """Give a grade whose parts are what they should be; most are already, and stay the same object."""
    if grade.score is not None and not (type(grade.score) is float and 0 < grade.score <= 1):
        grade = replace(grade, score=_score(grade.score, "returned a Grade with the score"))
    if not isinstance(grade.rationale, str):
        raise InvalidGrade(
            f"returned a Grade with the rationale {_short_repr(grade.rationale)}: expected a text"
        )
    if not isinstance(grade.details, dict | Mapping):
        raise InvalidGrade(
            f"returned a Grade with the details {_short_repr(grade.details)}: expected a mapping"
        )
    if grade.undecided and (grade.score is not None or grade.undecided not in REASONS):
        raise InvalidGrade(
            f"returned a Grade with the score {_short_repr(grade.score)} that is undecided for the reason "
            f"{_short_repr(grade.undecided)}: expected a score, or none and one of {', '.join(UNDECIDED)}"
        )
    if grade.unclamped is not None and not _is_finite(grade.unclamped):
        raise InvalidGrade(
            f"returned a Grade with {_short_repr(grade.unclamped)} unclamped: expected a number"
        )
    if not isinstance(grade.checks, tuple) or not all(map(_is_plain, grade.checks)):
        grade = replace(grade, checks=tuple(map(_plain, _list_of_checks(grade.checks))))
    return grade


def _list_of_checks(checks: Any) -> list[Any]:
    if isinstance(checks, list | tuple) and all(isinstance(check, Check) for check in checks):
        return list(checks)
    raise InvalidGrade(f"returned a Grade with the checks {_short_repr(checks)}: expected a list of Check")


def _is_plain(check: Any) -> bool:
    if not isinstance(check, Check) or type(check.passed) is not bool:
        return False
    return type(check.claim) is type(check.expected) is type(check.found) is str


def _plain(check: Check) -> Check:
    """Write the sides of a check as texts: people compare numbers, and reports show words."""
    sides = (check.claim, check.expected, check.found)
    claim, expected, found = (side if isinstance(side, str) else _bounded.repr(side) for side in sides)
    return Check(claim, bool(check.passed), expected, found)
