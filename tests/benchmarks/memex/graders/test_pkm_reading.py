"""Were files read before they were changed? In default mode every file and every kind of change counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmReadBeforeWrite
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.transcript import Message, ToolCall
from tests.benchmarks.memex.graders.sample_trials import call, grade_of, seeded_message, trial

OLD = {
    "Inbox.md": "a",
    "Areas/Home/Garden.md": "b",
    "Areas/Home/Roof.md": "c",
    "Areas/家/庭.md": "d",
    "Projects/Shed [old].md": "e",
}
GARDEN, ROOF = "/Areas/Home/Garden.md", "/Areas/Home/Roof.md"


def read_call(path: str, turn: int, **more: Any) -> ToolCall:
    """Give a Read."""
    return call("Read", turn, file_path=path, **more)


def edit(path: str, turn: int, **more: Any) -> ToolCall:
    """Give an Edit."""
    return call("Edit", turn, file_path=path, old_string="x", new_string="y", **more)


def score(*calls: ToolCall, **settings: Any) -> float | None:
    """Give the score of these calls."""
    return grade_of(PkmReadBeforeWrite(**settings), trial(OLD, calls=calls)).score


def grade_of_calls(*calls: ToolCall, **settings: Any) -> Grade:
    """Give the grade of these calls."""
    return grade_of(PkmReadBeforeWrite(**settings), trial(OLD, calls=calls))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([read_call(GARDEN, 1), edit(GARDEN, 2)], 1.0),
        ([edit(GARDEN, 1), read_call(GARDEN, 2)], 0.0),
        ([read_call(GARDEN, 1), edit(GARDEN, 1)], 0.0),
        ([read_call(GARDEN, 1), edit(GARDEN, 2), edit(GARDEN, 2), edit(GARDEN, 5)], 1.0),
        ([edit(GARDEN, 1), read_call(GARDEN, 2), edit(GARDEN, 3)], 0.0),
        ([read_call(ROOF, 1), edit(GARDEN, 2)], 0.0),
        ([read_call("/areas/home/garden.md", 1), edit(GARDEN, 2)], 0.0),
        ([read_call("Areas/Home/Garden.md", 1), edit("//Areas/./Home/Garden.md", 2)], 1.0),
        ([call("Read", 1, path=GARDEN), edit(GARDEN, 2)], 1.0),
        ([read_call(GARDEN, 1, offset=1, limit=2), edit(GARDEN, 2)], 1.0),
        ([call("Grep", 1, pattern="b", path=GARDEN), edit(GARDEN, 2)], 0.0),
        ([call("read", 1, file_path=GARDEN), edit(GARDEN, 2)], 0.0),
    ],
    ids=[
        "before",
        "after",
        "beside",
        "later",
        "too-late",
        "other",
        "case",
        "spelling",
        "path-argument",
        "part",
        "grep",
        "tool-name",
    ],
)
def test_a_read_counts_from_the_next_turn_on(calls: list[ToolCall], expected: float) -> None:
    """What was asked for in the same turn was not seen yet; the first change of a file is what counts."""
    assert score(*calls) == expected


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (edit(GARDEN, 2), ["Areas/Home/Garden.md"]),
        (call("Write", 2, file_path=GARDEN, content="n"), ["Areas/Home/Garden.md"]),
        (call("Remove", 2, path=GARDEN, confirm=True), ["Areas/Home/Garden.md"]),
        (
            call("Remove", 2, path="/Areas/Home/", confirm=True),
            ["Areas/Home/Garden.md", "Areas/Home/Roof.md"],
        ),
        (call("Remove", 2, path="/", confirm=True), sorted(OLD)),
        (call("Move", 2, source_path=GARDEN, destination_path="/Inbox.md", overwrite=True), ["Inbox.md"]),
        (call("Move", 2, source_path="/Inbox.md", destination_path="/Archives/Inbox.md"), []),
        (call("Write", 2, file_path="/Areas/New.md", content="n"), []),
        (call("Edit", 2, file_path="/New.md", old_string="", new_string="n"), []),
        (call("Read", 2, file_path=GARDEN), []),
        (call("Remove", 2, path=GARDEN, confirm=True, failed=True), []),
        (call("Remove", 2, confirm=True), []),
        (call("Edit", 2, file_path=None), []),
        (call("Move", 2, source_path=GARDEN), []),
    ],
    ids=[
        "edit",
        "write",
        "remove",
        "folder",
        "root",
        "over",
        "move",
        "new",
        "create",
        "read",
        "failed",
        "no-path",
        "none",
        "half",
    ],
)
def test_a_file_is_changed_when_what_it_held_may_be_gone(change: ToolCall, changed: list[str]) -> None:
    """Edited, overwritten, moved over or removed; not moved, not new, and not by a call that failed."""
    grade = grade_of_calls(change)

    assert [check.claim for check in grade.checks] == [
        f"{path} was read before it was changed" for path in changed
    ]
    assert grade.score == (0.0 if changed else None)


@pytest.mark.parametrize(
    ("calls", "finding"),
    [
        ([read_call(GARDEN, 1), edit(GARDEN, 2)], "a read first"),
        ([edit(ROOF, 1), read_call(GARDEN, 2)], "a write before it"),
        ([edit(GARDEN, 2)], "no read"),
    ],
    ids=["first", "second", "never"],
)
def test_upstream_mode_says_what_came_before_the_first_write(calls: list[ToolCall], finding: str) -> None:
    """Both sides of its one check are told, whether it passed or not."""
    (check,) = grade_of_calls(*calls, mode="upstream", required_read_path=GARDEN).checks

    assert (check.passed, check.expected, check.found) == (finding == "a read first", "a read first", finding)


def test_each_changed_file_is_asked_about() -> None:
    """The score is the share of files that were read first, and the others are named with both turns."""
    grade = grade_of_calls(
        read_call(GARDEN, 1), edit(GARDEN, 2), edit(ROOF, 2), read_call(ROOF, 3), edit("/Inbox.md", 3)
    )

    assert grade.score == pytest.approx(1 / 3)
    assert (
        "no: Areas/Home/Roof.md was read before it was changed (expected a read before turn 2"
        in grade.rationale
    )
    assert "found a read in turn 3" in grade.rationale
    assert "no: Inbox.md was read before it was changed" in grade.rationale


@pytest.mark.parametrize(
    ("patterns", "reads"),
    [
        ([GARDEN], True),
        (["Areas/Home/*.md"], True),
        (["/**/*.md"], True),
        (["Inbox.md", "./Areas/{Home,Work}/G*.md"], True),
        ("Areas/Home/Garden.md", True),
        (["*.md"], False),
        (["Areas/Home"], False),
        ([5], False),
        (None, False),
    ],
)
def test_reading_in_a_batch_is_reading(patterns: Any, reads: bool) -> None:
    """Paths and globs mean the files that they meant to the tool."""
    assert score(call("BatchRead", 1, file_patterns=patterns), edit(GARDEN, 2)) == float(reads)


def test_a_name_that_looks_like_a_pattern_is_a_name_first() -> None:
    """Brackets in a file's name do not keep it from being read in a batch."""
    path = "Projects/Shed [old].md"

    assert score(call("BatchRead", 1, file_patterns=[path]), edit(path, 2)) == 1.0


@pytest.mark.parametrize("first", [read_call(GARDEN, 1), call("BatchRead", 1, file_patterns=[GARDEN])])
def test_a_read_that_failed_is_none(first: ToolCall) -> None:
    """The agent saw an error, not the file."""
    failed = call(first.tool, 1, failed=True, **first.args)

    assert score(failed, edit(GARDEN, 2)) == 0.0
    assert score(failed, read_call(GARDEN, 2), edit(GARDEN, 3)) == 1.0


def test_what_the_task_gave_to_read_was_read() -> None:
    """A read in the conversation that the task began with counts; a change there changed nothing here."""
    evidence = trial(
        OLD, calls=[edit(GARDEN, 1)], messages=[seeded_message(read_call(GARDEN, 0), edit(ROOF, 0))]
    )

    grade = grade_of(PkmReadBeforeWrite(), evidence)
    assert grade.score == 1.0
    assert len(grade.checks) == 1


def test_what_the_agent_asked_for_is_no_read_by_itself() -> None:
    """The conversation holds every call without what came of it: a read that failed stays one."""
    request = Message("assistant", "", (read_call(GARDEN, 1),), 1)
    calls = [read_call(GARDEN, 1, failed=True), edit(GARDEN, 2)]

    assert grade_of(PkmReadBeforeWrite(), trial(OLD, calls=calls, messages=[request])).score == 0.0


def test_a_file_stays_the_same_file_when_it_is_moved() -> None:
    """Read under one name, it may be edited under the next; unread, a new name is no excuse."""
    move = call("Move", 2, source_path="/Areas/Home", destination_path="/Archives/Home")
    into = call("Move", 2, source_path="/Areas/Home", destination_path="/Projects")

    assert score(read_call(GARDEN, 1), move, edit("/Archives/Home/Garden.md", 3)) == 1.0
    assert score(move, read_call("/Archives/Home/Garden.md", 3), edit("/Archives/Home/Garden.md", 4)) == 1.0
    assert score(move, edit("/Archives/Home/Garden.md", 3)) == 0.0
    assert score(into, edit("/Projects/Home/Garden.md", 3)) == 0.0
    assert (
        score(
            read_call("/Inbox.md", 1),
            call("Move", 2, source_path=ROOF, destination_path="/"),
            edit("/Roof.md", 3),
        )
        == 0.0
    )


def test_folders_come_and_go_during_a_trial() -> None:
    """Whether a move goes into a folder depends on what stands there at that moment."""
    made = [
        call("Write", 1, file_path="/New/a.md"),
        call("Move", 2, source_path=ROOF, destination_path="/New"),
    ]
    gone = [
        call("BatchRead", 1, file_patterns=["Areas/Home/*"]),
        call("Remove", 2, path="/Areas/Home", confirm=True),
        call("Move", 3, source_path="/Inbox.md", destination_path="/Areas/Home"),
    ]

    assert score(*made, edit("/New/Roof.md", 3)) == 0.0
    assert score(*gone, edit("/Areas/Home", 4)) == pytest.approx(2 / 3)


def test_a_file_of_this_trial_needs_no_read() -> None:
    """What the agent wrote it knows, also in the place of a file that it moved away or removed."""
    away = call("Move", 1, source_path=GARDEN, destination_path="/Archives/Garden.md")
    removed = [read_call(GARDEN, 1), call("Remove", 2, path=GARDEN, confirm=True)]

    assert score(call("Write", 1, file_path="/New.md"), edit("/New.md", 1), edit("/New.md", 2)) is None
    assert score(away, call("Write", 2, file_path=GARDEN), edit(GARDEN, 3)) is None
    assert score(*removed, call("Write", 3, file_path=GARDEN), edit(GARDEN, 4)) == 1.0


def test_without_a_change_there_is_nothing_to_judge() -> None:
    """A trial that touched no file of the user's is undecided, not passed."""
    grade = grade_of_calls(read_call(GARDEN, 1))

    assert (grade.score, grade.rationale) == (None, "no call changed a file that was there before")


def test_a_required_file_must_have_been_read() -> None:
    """Changed or not, it is one of the files that are asked about, and never twice."""
    required = {"required_read_path": "/Areas/Home/Garden.md"}

    assert score(**required) == 0.0
    assert score(read_call(GARDEN, 1), **required) == 1.0
    assert score(read_call("/Inbox.md", 1), edit("/Inbox.md", 2), **required) == 0.5
    assert len(grade_of_calls(edit(GARDEN, 1), **required).checks) == 1


@given(
    st.lists(
        st.sampled_from([(tool, path) for tool in ("Read", "Edit") for path in (GARDEN, ROOF, "Inbox.md")])
    )
)
def test_who_reads_everything_first_is_never_to_blame(steps: list[tuple[str, str]]) -> None:
    """After a turn in which every file was read, no order of reads and edits costs anything."""
    everything = call("BatchRead", 1, file_patterns=["**"])
    calls = [call(tool, turn, file_path=path) for turn, (tool, path) in enumerate(steps, 2)]
    edits = any(tool == "Edit" for tool, _ in steps)

    assert score(everything, *calls) == (1.0 if edits else None)
    assert score(*calls) in (
        [None] if not edits else [0.0, pytest.approx(1 / 3), 0.5, pytest.approx(2 / 3), 1.0]
    )


@pytest.mark.parametrize("path", ["", "/", 5])
def test_a_required_path_that_is_none_is_refused(path: Any) -> None:
    """A mistake in a task's config shows when the task is loaded."""
    with pytest.raises(ValueError, match="required_read_path must be the path of a file"):
        PkmReadBeforeWrite(path)
