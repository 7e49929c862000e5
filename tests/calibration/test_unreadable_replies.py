"""A calibration that could read nothing proves nothing: an error that says why, never a pass."""

from __future__ import annotations

import pytest

from tests.calibration.judges import found_in, project, rows
from tests.suites import run

pytest_plugins = ["pytester"]


def page(root: pytest.Pytester) -> str:
    """Give the page of the only calibration."""
    (path,) = (root.path / ".agenteval" / "runs").glob("2*/calibration-tidy.html")
    return path.read_text(encoding="utf-8")


def test_a_judge_that_cannot_be_read_at_all_is_an_error(letters: pytest.Pytester) -> None:
    """The problem of its replies is told, and no page speaks of agreement."""
    project(letters.path, examples=rows(4))

    result = run(letters, "evals", "--agent-judge=mumbling")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*unreadable: mumbling: 4 of 4 replies cannot be read: *",
            "  mumbling: 4 of 4 replies cannot be read: *",
            "  not reached: scored of order 2 or more (found 0)",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    found = found_in(letters.path)
    assert found["passed"] is False
    assert found["judges"][0]["unread"]["count"] == 4
    assert "every score is the label" not in page(letters)
    assert "No example has a score: there is nothing to compare." in page(letters)


def test_one_unreadable_judge_of_several_is_an_error_too(letters: pytest.Pytester) -> None:
    """The others speak for themselves; what this one is worth was asked, and is not known."""
    result = run(letters, "evals", "--agent-judge=perfect,mumbling")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unreadable: mumbling: 15 of 15 replies cannot be read: *"])
    found = found_in(letters.path)
    assert found["passed"] is False
    assert "unread" not in found["judges"][0]


def test_too_few_scored_examples_fail(letters: pytest.Pytester) -> None:
    """Half of them where nobody says how many; the file may say so, for all dimensions or for one."""
    failed = run(letters, "evals", "--agent-judge=hoarse")  # it speaks up about letters 0 and 10
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "tidy: 2 of 2 thresholds not reached",
            "  scored of order 8 or more (found 2)",
            "  hoarse: 13 of 15 replies cannot be read: *",
            "  order: no score for 13 of 15 examples",
        ]
    )
    assert "There is none among the 4 scores; 26 labels have none beside them." in page(letters)

    project(letters.path, "thresholds: {scored: 2}\n")
    run(letters, "evals", "--agent-judge=hoarse").assert_outcomes(passed=1)
    project(letters.path, "thresholds: {scored: {order: 3, tone: 2}}\n")
    short = run(letters, "evals", "--agent-judge=hoarse")
    short.assert_outcomes(failed=1)
    short.stdout.fnmatch_lines(
        ["tidy: 1 of 2 thresholds not reached", "  scored of order 3 or more (found 2)"]
    )


def test_a_judge_that_can_tell_nothing_fails(letters: pytest.Pytester) -> None:
    """Its replies can be read, and say nothing: no error of ours, and no pass either."""
    result = run(letters, "evals", "--agent-judge=blind")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  scored of order 8 or more (found 0)"])


def test_a_judge_that_crashes_is_an_error_with_its_own_frames_first(letters: pytest.Pytester) -> None:
    """As a grader that crashes is: the author's line, and none of pytest's."""
    result = run(letters, "evals", "--agent-judge=crashing")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["judge_crash: ZeroDivisionError: *", "Traceback*", "*conftest.py*in ask", "ZeroDivisionError: *"]
    )
    result.stdout.no_fnmatch_line("*_pytest*")
