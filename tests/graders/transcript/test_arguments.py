"""The grader of the arguments of calls."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.tool_calls import CallArguments, CallsInOrder, ToolCalled, ToolNotCalled
from tests.graders.sample_evidence import call, did

TRIAL = did(
    call("search", {"q": "boat", "size": 3, "page": 1}),
    call("fetch", {"id": 9}),
    call("search", {"q": "Boat ", "size": 5}),
    call("search", {"q": "car", "size": 5}, error="timeout"),
    call("search", {"q": "plane", "size": 7}, by="seed"),
)
ARGS = {"q": {"exact": "BOAT", "fold": True}, "size": 5}


@pytest.mark.parametrize(
    ("which", "score"),
    [("any", 1.0), ("first", 0.5), ("last", 1.0), (1, 0.5), (2, 1.0), (3, 0.0), ("every", 0.75)],
)
def test_which_call_is_asked(which: Any, score: float) -> None:
    """The best, the first, the last, the n-th, or each argument of every call."""
    assert CallArguments("search", ARGS, which).grade(TRIAL).score == score


def test_the_first_and_the_last_are_not_the_best() -> None:
    """A better call elsewhere does not help."""
    trial = did(call("search", {"q": "a"}), call("search", {"q": "b"}), call("search", {"q": "c"}))

    assert CallArguments("search", {"q": "b"}).grade(trial).score == 1.0
    assert CallArguments("search", {"q": "b"}, "first").grade(trial).score == 0.0
    assert CallArguments("search", {"q": "b"}, "last").grade(trial).score == 0.0


def test_other_arguments_may_be_there_unless_they_are_to_be_absent() -> None:
    """Only what is named is looked at."""
    assert CallArguments("search", {"q": "boat", "page": {"absent": True}}, "first").grade(TRIAL).score == 0.5
    assert CallArguments("search", {"q": "boat"}, "first").grade(TRIAL).score == 1.0


def test_errors_count_only_where_they_are_asked_for() -> None:
    """A call that failed said its arguments all the same; the task's own calls never count."""
    assert CallArguments("search", {"q": "car"}).grade(TRIAL).score == 0.0
    assert CallArguments("search", {"q": "car"}, succeeded=False).grade(TRIAL).score == 1.0
    assert CallArguments("search", {"q": "plane"}, succeeded=False).grade(TRIAL).score == 0.0


@pytest.mark.parametrize("which", ["any", "first", "last", 1])
def test_a_call_that_was_wanted_and_not_made_scores_0(which: Any) -> None:
    """Every argument is missed, also one that should be absent."""
    grade = CallArguments("paint", {"q": "x", "page": {"absent": True}}, which).grade(TRIAL)

    assert grade.score == 0.0
    assert [check.found for check in grade.checks] == ["no call", "no call"]


def test_every_of_no_calls_is_undecided() -> None:
    """Where nothing was called, nothing was called wrongly; tool_called asks for the call itself."""
    grade = CallArguments("paint", {"q": "x"}, "every").grade(TRIAL)

    assert (grade.score, grade.rationale) == (None, "paint was not called: nothing to check")


def test_the_argument_that_differs_is_named() -> None:
    """Tool, number of the call, argument, and both sides."""
    grade = CallArguments("search", {"q": "boat", "size": {"number": 9, "tolerance": 1}}, 1).grade(TRIAL)

    assert grade.rationale == "no: search, call 1: size (expected 9 ± 1, found 3)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CallArguments("", {"q": 1}), "tool: expected a text that is not blank"),
        (lambda: CallArguments("t", {}), "args: expected a map with at least one entry"),
        (lambda: CallArguments("t", {"q": {"regexp": "a"}}), "did you mean 'regex'?"),
        (lambda: CallArguments("t", {"q": 1}, "all"), "which: expected any, every, first, last or a number"),  # type: ignore[arg-type]  # wrong on purpose
        (
            lambda: CallArguments("t", {"q": 1}, 0),
            "which: expected any, every, first, last or a number from 1",
        ),
        (lambda: CallArguments("t", {"q": 1}, True), "which: expected"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)


@pytest.mark.parametrize("named", ["NFC", "NFD"])
@pytest.mark.parametrize("called", ["NFC", "NFD"])
def test_tools_are_called_however_unicode_spells_them(named: str, called: str) -> None:
    """NFC and NFD of a tool's name are one name for every grader; so are those of an argument's name."""
    tool, made = (unicodedata.normalize(form, "검색") for form in (named, called))  # type: ignore[arg-type]
    trial = did(call(made, {made: 1}))

    assert CallArguments(tool, {tool: 1}).grade(trial).score == 1.0
    assert ToolCalled([tool]).grade(trial).score == 1.0
    assert CallsInOrder([tool], exact=True).grade(trial).score == 1.0
    assert ToolNotCalled([tool]).grade(trial).score == 0.0
    assert trial.in_normal_form().calls[0].tool == unicodedata.normalize("NFC", made)


def test_arguments_whose_names_differ_in_spelling_alone_are_two() -> None:
    """Where a call has both, each is compared under its own spelling."""
    composed, apart = "\u00e9", "e\u0301"
    trial = did(call("t", {apart: 1, composed: 2}))

    assert CallArguments("t", {apart: 1, composed: 2}).grade(trial).score == 1.0
