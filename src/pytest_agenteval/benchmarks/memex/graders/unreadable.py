"""What an agent left in a shape that cannot be read: the grade is undecided, as in the original."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade

_Grader = TypeVar("_Grader")


class Unreadable(TypeError):
    """Raised where a value is of another type than it must be; the message names it and what it is."""

    def __init__(self, what: str, expected: str, value: Any) -> None:
        super().__init__(f"{what} must be {expected}, not {value!r}")


def undecided_where_unreadable(
    name: str,
) -> Callable[[Callable[[_Grader, Evidence], Grade]], Callable[[_Grader, Evidence], Grade]]:
    """Make a grader's ``grade`` say that it could not tell where it meets something unreadable."""

    def decorated(grade: Callable[[_Grader, Evidence], Grade]) -> Callable[[_Grader, Evidence], Grade]:
        @wraps(grade)
        def graded(self: _Grader, evidence: Evidence) -> Grade:
            try:
                return grade(self, evidence)
            except Unreadable as unreadable:
                return unreadable_grade(name, unreadable)

        return graded

    return decorated


def unreadable_grade(name: str, unreadable: Unreadable) -> Grade:
    """Give the undecided grade that says what could not be read."""
    return Grade(name, None, str(unreadable), details={"undecided": "unreadable"})
