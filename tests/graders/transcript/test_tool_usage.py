"""Graders of which tools were called, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.graders.tool_calls import ToolCalled, ToolNotCalled
from tests.graders.sample_evidence import call, did

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
    ("settings", "expected"),
    [
        ({}, "once or more"),
        ({"at_least": 2}, "2 times or more"),
        ({"at_most": 1}, "once"),
        ({"at_least": 0, "at_most": 3}, "0 to 3 times"),
    ],
)
def test_a_miss_says_how_often(settings: dict[str, Any], expected: str) -> None:
    """Failed calls are told, for they are the likely reason."""
    trial = did(call("fetch", error="timeout"), *(["fetch"] * 4 if "at_most" in settings else []))

    (check,) = ToolCalled(["fetch"], **settings).grade(trial).checks

    assert check.expected == expected
    assert check.found.endswith("and once with an error")
    assert not check.passed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToolCalled([]), "tools: expected at least one text"),
        (lambda: ToolCalled("search"), "tools: expected a list of texts, found 'search'"),
        (
            lambda: ToolCalled(["a"], at_least=0),
            "at_least: expected 1 or more, or at_most beside it, found 0",
        ),
        (lambda: ToolCalled(["a"], at_least=-1), "at_least: expected a whole number, 0 or more, found -1"),
        (lambda: ToolCalled(["a"], 3, 2), "at_most: expected a whole number, 3 or more, found 2"),
        (lambda: ToolNotCalled(["a", ""]), "tools[1]: expected a text that is not blank"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A wrong setting is told by its key, with both sides."""
    with pytest.raises(WrongSetting) as caught:
        make()

    assert message in str(caught.value)
