"""The grader of the order of calls, and the longest common subsequence that it counts."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.tool_calls import CallsInOrder, common_subsequence
from tests.graders.sample_evidence import call, did

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
        "no: step 1: search (expected search, found look, save); "
        "no: no other call (expected no call, found look)"
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


def test_an_order_of_nothing_is_refused() -> None:
    """There have to be steps."""
    with pytest.raises(WrongSetting, match="tools: expected at least one text"):
        CallsInOrder([])
