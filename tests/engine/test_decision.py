"""Whether an agent acted: by what it left behind and what it called."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_agenteval.engine.grading import has_acted
from pytest_agenteval.records.evidence import Outcome, Tree
from pytest_agenteval.records.plan import Label, PlannedTask
from pytest_agenteval.records.transcript import ToolCall, ToolError, Transcript
from tests.store.samples import file

BEFORE = Tree({"notes/a.md": file("a"), "b.md": file("b")})
NOTES = {"acting_files": ("notes/**",)}


def task(acts: Mapping[str, tuple[str, ...]], label: Label = "negative") -> PlannedTask:
    """Give a task with a label."""
    return PlannedTask("s", "t", "a", "mixed", "b", (), label=label, **acts)


@pytest.mark.parametrize(
    ("after", "acted"),
    [
        ({"notes/a.md": file("a"), "b.md": file("b")}, False),
        ({"notes/a.md": file("a"), "b.md": file("other")}, False),
        ({"notes/a.md": file("other"), "b.md": file("b")}, True),
        ({"b.md": file("b")}, True),
        ({"notes/a.md": file("a"), "notes/deep/c.md": file("c"), "b.md": file("b")}, True),
    ],
    ids=["nothing", "elsewhere", "changed", "gone", "came"],
)
def test_a_file_that_counts_is_an_act(after: dict[str, object], acted: bool) -> None:
    """Come, changed or gone; a file that does not fit is none."""
    outcome = Outcome(before=BEFORE, after=Tree(after))  # type: ignore[arg-type]

    assert has_acted(task(NOTES), Transcript(), outcome) is acted


@pytest.mark.parametrize(
    ("call", "acted"),
    [
        (ToolCall("1", 1, 0, "save", {}, result="ok"), True),
        (ToolCall("1", 1, 0, "save", {}, error=ToolError("failed", "full")), False),
        (ToolCall("1", 1, 0, "save", {}, result="ok", by="seed"), False),
        (ToolCall("1", 1, 0, "read", {}, result="ok"), False),
    ],
    ids=["called", "failed", "seeded", "another"],
)
def test_a_call_that_counts_is_an_act(call: ToolCall, acted: bool) -> None:
    """One that the agent made and that was answered."""
    decision = has_acted(task({"acting_tools": ("save",)}), Transcript(calls=(call,)), Outcome())

    assert decision is acted


def test_without_a_label_or_acts_there_is_no_decision() -> None:
    """Nobody asked for one."""
    changed = Outcome(before=BEFORE, after=Tree())

    assert has_acted(task(NOTES, ""), Transcript(), changed) is None
    assert has_acted(task({}), Transcript(), changed) is None
    assert has_acted(task(NOTES), Transcript(), changed) is True
