"""Graders of tool calls: which, how often, in which order, with which arguments; and ceilings."""

from __future__ import annotations

import unicodedata
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.tool_calls import (
    CallArguments,
    CallCeiling,
    CallsInOrder,
    StepCeiling,
    TokenCeiling,
    ToolCalled,
    ToolNotCalled,
    budget_score,
    common_subsequence,
)
from tests.graders.sample_evidence import call, did, replies_evidence

TRIAL = did("search", call("fetch", error="timeout"), "search", call("save", by="seed"), call("fetch"))


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"tools": ["search"]}, 1.0),
        ({"tools": ["search", "save"]}, 0.5),
        ({"tools": ["search"], "at_least": 3}, 0.0),
        ({"tools": ["search"], "at_most": 1}, 0.0),
        ({"tools": ["search", "fetch"], "at_most": 1}, 0.5),
        ({"tools": ["fetch"], "at_least": 2}, 0.0),
        ({"tools": ["fetch"], "at_least": 2, "succeeded": False}, 1.0),
        ({"tools": ["paint"], "at_least": 0, "at_most": 2}, 1.0),
    ],
)
def test_tools_are_counted(settings: dict[str, Any], score: float) -> None:
    """Each tool counts alike; errors and the task's own calls do not count, unless errors are asked for."""
    assert ToolCalled(**settings).grade(TRIAL).score == score


@pytest.mark.parametrize(
    ("tools", "succeeded", "score"),
    [
        (["paint", "save"], False, 1.0),
        (["paint", "search"], False, 0.5),
        (["fetch"], False, 0.0),
        (["lost"], False, 0.0),
        (["lost"], True, 1.0),
        (["fetch"], True, 0.0),
    ],
)
def test_tools_are_left_alone(tools: list[str], succeeded: bool, score: float) -> None:
    """To have tried is not to leave alone, unless only success is asked about."""
    trial = did(*TRIAL.calls, call("lost", error="unknown_tool"))

    assert ToolNotCalled(tools, succeeded).grade(trial).score == score
    assert ToolNotCalled(tools) == ToolNotCalled(tools, succeeded=False)


def test_without_calls_none_was_made() -> None:
    """There is always something to judge: what was wanted is missed, what was forbidden was left alone."""
    assert ToolCalled(["a", "b"]).grade(did()).score == 0.0
    assert ToolNotCalled(["a", "b"]).grade(did()).score == 1.0


@pytest.mark.parametrize(
    ("settings", "expected", "words"),
    [
        ({}, "once or more", "fetch was not called (found never, and once with an error)"),
        ({"at_least": 2}, "2 times or more", "not met: fetch was called 2 times or more (found never, and "),
        ({"at_most": 1}, "once", "not met: fetch was called once (found 4 times, and "),
        (
            {"at_least": 0, "at_most": 3},
            "0 to 3 times",
            "not met: fetch was called 0 to 3 times (found 4 times, ",
        ),
    ],
)
def test_a_miss_says_how_often(settings: dict[str, Any], expected: str, words: str) -> None:
    """Failed calls are told, for they are the likely reason; what is plain is not said twice."""
    trial = did(call("fetch", error="timeout"), *(["fetch"] * 4 if "at_most" in settings else []))

    (check,) = ToolCalled(["fetch"], **settings).grade(trial).checks

    assert check.expected == expected
    assert check.found.endswith("and once with an error")
    assert not check.passed
    assert str(check).startswith(words)
    (never,) = ToolCalled(["save"]).grade(trial).checks
    (called,) = ToolNotCalled(["fetch"]).grade(trial).checks
    assert str(never) == "save was not called"
    assert str(called).startswith("fetch was called (found ")


TOOLS = st.lists(st.sampled_from("abc"), max_size=8)


@pytest.mark.parametrize(
    ("tools", "called", "score", "exact"),
    [
        (["search", "fetch", "save"], ["search", "fetch", "save"], 1.0, 1.0),
        (["search", "fetch", "save"], ["fetch", "save"], 2 / 3, 2 / 3),
        (["search", "fetch", "save"], ["search", "look", "fetch", "save"], 1.0, 3 / 4),
        (["search", "fetch", "save"], ["save", "fetch", "search"], 1 / 3, 1 / 3),
        (["search", "search"], ["search"], 1 / 2, 1 / 2),
        (["search"], ["search"] * 5, 1.0, 1 / 5),
        (["search"], [], 0.0, 0.0),
    ],
)
def test_the_steps_in_order_are_counted(
    tools: list[str], called: list[str], score: float, exact: float
) -> None:
    """A missing first step costs one step, not all; with exact, so does each call between."""
    assert CallsInOrder(tools).grade(did(*called)).score == pytest.approx(score)
    assert CallsInOrder(tools, exact=True).grade(did(*called)).score == pytest.approx(exact)


def test_errors_and_the_tasks_own_calls_are_passed_over() -> None:
    """A failed call is no step, unless it is asked for."""
    trial = did(call("a", by="seed"), call("a", error="x"), "b")

    assert CallsInOrder(["a", "b"]).grade(trial).score == 0.5
    assert CallsInOrder(["a", "b"], succeeded=False).grade(trial).score == 1.0
    assert CallsInOrder(["b"], exact=True).grade(trial).score == 1.0


def test_the_missing_steps_are_named() -> None:
    """Each step is one check; what was called instead stands beside it."""
    grade = CallsInOrder(["search", "save"], exact=True).grade(did("look", "save"))

    assert grade.score == 0.5
    assert grade.rationale == (
        "not met: step 1: search (found look, save); not met: no other call (expected no call, found look)"
    )
    assert CallsInOrder(["save"]).grade(did("look", "save")).rationale == "all 1 checks passed"


@given(TOOLS, TOOLS)
def test_no_common_subsequence_is_longer(expected: list[str], found: list[str]) -> None:
    """Against trying every choice of steps; and what is given is one, in both orders."""
    pairs = common_subsequence(expected, found)

    assert len(pairs) == _longest(expected, found)
    assert all(expected[i] == found[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


def _longest(expected: list[str], found: list[str]) -> int:
    sizes = range(len(expected), 0, -1)
    return next((n for n in sizes if any(_in_order(some, found) for some in combinations(expected, n))), 0)


def _in_order(steps: tuple[str, ...], found: list[str]) -> bool:
    rest = iter(found)
    return all(step in rest for step in steps)


@given(TOOLS.filter(bool), TOOLS, st.sampled_from("abc"))
def test_one_more_call_never_costs_unless_exact_is_asked(
    expected: list[str], found: list[str], more: str
) -> None:
    """Calls between are free; the exact score is never above the free one."""
    free, exact = CallsInOrder(expected), CallsInOrder(expected, exact=True)
    before, after = free.grade(did(*found)).score or 0.0, free.grade(did(*found, more)).score or 0.0

    assert after >= before
    assert (exact.grade(did(*found)).score or 0.0) <= before


SEARCHES = did(
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
    assert CallArguments("search", ARGS, which).grade(SEARCHES).score == score


def test_the_first_and_the_last_are_not_the_best() -> None:
    """A better call elsewhere does not help."""
    trial = did(call("search", {"q": "a"}), call("search", {"q": "b"}), call("search", {"q": "c"}))

    assert CallArguments("search", {"q": "b"}).grade(trial).score == 1.0
    assert CallArguments("search", {"q": "b"}, "first").grade(trial).score == 0.0
    assert CallArguments("search", {"q": "b"}, "last").grade(trial).score == 0.0


def test_other_arguments_may_be_there_unless_they_are_to_be_absent() -> None:
    """Only what is named is looked at."""
    assert (
        CallArguments("search", {"q": "boat", "page": {"absent": True}}, "first").grade(SEARCHES).score == 0.5
    )
    assert CallArguments("search", {"q": "boat"}, "first").grade(SEARCHES).score == 1.0


def test_errors_count_only_where_they_are_asked_for() -> None:
    """A call that failed said its arguments all the same; the task's own calls never count."""
    assert CallArguments("search", {"q": "car"}).grade(SEARCHES).score == 0.0
    assert CallArguments("search", {"q": "car"}, succeeded=False).grade(SEARCHES).score == 1.0
    assert CallArguments("search", {"q": "plane"}, succeeded=False).grade(SEARCHES).score == 0.0


@pytest.mark.parametrize("which", ["any", "first", "last", 1])
def test_a_call_that_was_wanted_and_not_made_scores_0(which: Any) -> None:
    """Every argument is missed, also one that should be absent."""
    grade = CallArguments("paint", {"q": "x", "page": {"absent": True}}, which).grade(SEARCHES)

    assert grade.score == 0.0
    assert [check.found for check in grade.checks] == ["no call", "no call"]


def test_every_of_no_calls_is_undecided() -> None:
    """Where nothing was called, nothing was called wrongly; tool_called asks for the call itself."""
    grade = CallArguments("paint", {"q": "x"}, "every").grade(SEARCHES)

    assert (grade.score, grade.rationale) == (None, "paint was not called: nothing to check")


def test_the_argument_that_differs_is_named() -> None:
    """Tool, number of the call, argument, and both sides."""
    grade = CallArguments("search", {"q": "boat", "size": {"number": 9, "tolerance": 1}}, 1).grade(SEARCHES)

    assert grade.rationale == "not met: search, call 1: size (expected 9 ± 1, found 3)"


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


@pytest.mark.parametrize(
    ("used", "score"), [([10], 1.0), ([10, 10], 1.0), ([10] * 4, 0.5), ([10] * 8, 0.25)], ids=str
)
def test_twice_as_much_is_worth_half(used: list[int], score: float) -> None:
    """Up to the ceiling all is well; beyond it counts the ceiling's share, of steps and tokens alike."""
    assert StepCeiling(2).grade(replies_evidence(used)).score == score
    assert TokenCeiling(20).grade(replies_evidence(used)).score == score


def test_calls_of_the_agent_are_counted_with_their_errors() -> None:
    """A failed call took as much as any; the task's own calls are not the agent's."""
    trial = did("a", call("b", error="x"), "a", "a", call("c", by="seed"))

    assert CallCeiling(4).grade(trial).score == 1.0
    assert CallCeiling(2).grade(trial).score == 0.5
    assert CallCeiling(0).grade(trial).score == 0.0
    assert CallCeiling(0).grade(did()).score == 1.0


def test_what_was_not_counted_is_undecided() -> None:
    """Replies without usage, and agents whose asks nobody saw, keep no ceiling and break none."""
    assert TokenCeiling(20).grade(replies_evidence([10, 0])).score is None
    assert TokenCeiling(20).grade(replies_evidence([])).score is None
    assert StepCeiling(2).grade(replies_evidence([])).score is None
    assert StepCeiling(2).grade(replies_evidence([0, 0])).score == 1.0


def test_the_reason_says_how_much_was_used() -> None:
    """Also where the ceiling was kept."""
    assert StepCeiling(3).grade(replies_evidence([1, 1])).rationale == "2 of at most 3 steps"
    assert TokenCeiling(3).grade(replies_evidence([4])).rationale == "not met: at most 3 tokens (found 4)"
    assert TokenCeiling(3).grade(replies_evidence([4, 0])).rationale == "1 of 2 replies have no token counts"


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_ceiling_falls_evenly(ceiling: int, used: int, more: int) -> None:
    """Using more never pays, a higher ceiling never costs, and full marks are for keeping it only."""
    score = budget_score(ceiling, used)

    assert 0.0 <= budget_score(ceiling, used + more) <= score <= budget_score(ceiling + more, used) <= 1.0
    assert (score == 1.0) is (used <= ceiling)
