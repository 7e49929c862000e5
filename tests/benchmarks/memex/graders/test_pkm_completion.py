"""Did the entry come to its proper end? In default mode the task says which, and it is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome
from pytest_agenteval.records.transcript import Transcript
from tests.benchmarks.memex.graders.sample_trials import (
    FACT,
    FILED,
    NOTHING_DONE,
    SKIPPED,
    call,
    grade_of,
    insight,
    tree,
    trial,
)

OLD = {"Areas/Home.md": "# Home\n- a roof\n"}
NEW = {"Areas/Home.md": f"# Home\n- a roof\n<!-- fact_id: {FACT} -->\n- a gutter\n"}
PATHS: tuple[Any, ...] = ("persist", "skip", "either")


def proper_filing() -> Evidence:
    """Give an entry that was filed properly."""
    return trial(OLD, NEW, calls=[call("Edit", file_path="/Areas/Home.md", new_string=FACT), insight()])


def skipped() -> Evidence:
    """Give an entry that was skipped properly."""
    return trial(OLD, state=SKIPPED, calls=[call("skip_pkm_organization", evidence="keep it to yourself")])


@pytest.mark.parametrize(
    ("expected_path", "evidence", "score"),
    [
        ("persist", proper_filing(), 1.0),
        ("skip", skipped(), 1.0),
        ("either", proper_filing(), 1.0),
        ("either", skipped(), 1.0),
        ("persist", skipped(), 0.25),
        ("skip", proper_filing(), 0.25),
    ],
    ids=["filed", "skipped", "either-filed", "either-skipped", "skipped-to-file", "filed-to-skip"],
)
def test_the_ending_is_the_one_that_the_task_expects(
    expected_path: Any, evidence: Evidence, score: float
) -> None:
    """The right ending scores 1; the wrong one keeps the credit of what it has in common, and misses."""
    grade = grade_of(PkmCompletion(expected_path), evidence)

    assert grade.score == score
    assert grade.passed is (score == 1.0)


@pytest.mark.parametrize("expected_path", PATHS)
@pytest.mark.parametrize("files", [{}, OLD], ids=["fresh", "filled"])
def test_doing_nothing_is_no_ending(expected_path: Any, files: Mapping[str, str]) -> None:
    """An agent that calls no tool passes under no expectation, whatever tree it started from."""
    grade = grade_of(PkmCompletion(expected_path), trial(files, state=NOTHING_DONE))

    assert grade.passed is False
    assert grade.details["ending"] == "neither"


def test_an_end_state_alone_files_nothing() -> None:
    """Who says that the entry was filed, and left no trace of it, has half of the checks against it."""
    grade = grade_of(PkmCompletion("persist"), trial(OLD, state=FILED))

    assert grade.score == 0.5
    claims = {
        "newly holds the entry's id": "found yes in the agent's state, no file in the workspace",
        "an insight was given for the entry": "found yes in the agent's state, no insight in the workspace",
    }
    for claim, finding in claims.items():
        assert f"{claim} (expected 2026/09/17.md#ts_1, {finding})" in grade.rationale


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        (NEW, True),
        ({**OLD, "Inbox.md": f"见{FACT}的"}, True),
        ({**OLD, "Inbox.md": "2026/09/17.md#ts_12"}, False),
        ({**OLD, "Inbox.md": "2026/09/17.md#ts_2"}, False),
        (OLD, False),
    ],
    ids=["id", "id-between-letters", "longer-id", "other-id", "nothing"],
)
def test_what_is_filed_carries_the_id_of_this_very_entry(after: Mapping[str, str], holds: bool) -> None:
    """The id stands by itself in some file at the end; that of another entry, or a longer one, is not it."""
    grade = PkmCompletion("persist").grade(trial(OLD, after, calls=[insight()]))

    assert grade.checks[0].passed is holds


def test_an_id_that_was_there_before_is_nothing_new() -> None:
    """Moving the file that holds the id, or editing beside it, files nothing; a second place does."""
    held = {"Areas/Home.md": f"<!-- fact_id: {FACT} -->\n- a roof"}
    ends = {
        "moved": {"Archives/Home.md": held["Areas/Home.md"]},
        "edited": {"Areas/Home.md": held["Areas/Home.md"] + "\n- more"},
        "added": {**held, "Inbox.md": FACT},
    }
    is_filed = {
        name: PkmCompletion("persist").grade(trial(held, end)).checks[0].passed for name, end in ends.items()
    }

    assert is_filed == {"moved": False, "edited": False, "added": True}


def test_an_id_outside_the_knowledge_base_files_nothing() -> None:
    """The card and the daily file hold the id anyway."""
    outside = tree({"2026/09/17.md": FACT}, "Facts/")

    assert not PkmCompletion("persist").grade(trial({}, outside, calls=[insight()])).checks[0].passed


@pytest.mark.parametrize(
    ("wrong", "score"),
    [
        (insight("2026/09/17.md#ts_2"), 0.6),
        (insight("2026/09/17.md#ts_12"), 0.6),
        (insight(failed=True), 0.75),
        (call("update_timeline_card_insight", fact_id=FACT, insight_text="  "), 0.75),
    ],
    ids=["another", "longer", "failed", "blank"],
)
def test_an_insight_counts_for_the_entry_that_it_names(wrong: Any, score: float) -> None:
    """Memex takes any insight; here it must say something, for this very entry and for no other."""
    grade = grade_of(PkmCompletion("persist"), trial(OLD, NEW, calls=[wrong]))

    assert (grade.score, grade.passed) == (score, False)
    both = grade_of(PkmCompletion("persist"), trial(OLD, NEW, calls=[wrong, insight()]))
    assert both.passed is (score == 0.75)


@pytest.mark.parametrize(
    ("after", "state", "calls"),
    [
        (NEW, SKIPPED, []),
        ({}, SKIPPED, []),
        ({"Areas/Home.md": "# Home\n- a roof"}, SKIPPED, []),
        (OLD, {**SKIPPED, "successful_pkm_mutation": True}, []),
        (OLD, SKIPPED, [insight()]),
        (OLD, {**SKIPPED, "updated_insight": True}, []),
        (OLD, {**SKIPPED, "is_complete": False}, []),
        (OLD, {**SKIPPED, "missing_requirements": ["x"]}, []),
    ],
    ids=["written", "removed", "white-space", "called", "insight", "said", "incomplete", "missing"],
)
@pytest.mark.parametrize("expected_path", ["skip", "either"])
def test_a_skip_leaves_everything_alone(expected_path: Any, after: Any, state: Any, calls: Any) -> None:
    """One byte in the knowledge base, one changing call or one insight, and it is no clean skip."""
    grade = grade_of(PkmCompletion(expected_path), trial(OLD, after, state=state, calls=calls))

    assert (grade.score, grade.passed) == (0.75, False)


def test_who_skips_may_not_have_filed() -> None:
    """Filing and skipping the same entry contradict each other, whatever was expected."""
    both = {**FILED, "skipped_pkm": True}
    grades = [grade_of(PkmCompletion(path), trial(OLD, NEW, state=both, calls=[insight()])) for path in PATHS]

    assert [grade.passed for grade in grades] == [False, False, False]
    assert {grade.details["ending"] for grade in grades} == {"both"}


def test_other_parts_of_the_workspace_are_not_the_knowledge_base() -> None:
    """A skip is clean although the agent's card changed."""
    changed = tree({"2026/09/17_ts_1.yaml": "status: completed"}, "Cards/")

    assert grade_of(PkmCompletion("skip"), trial({}, changed, state=SKIPPED)).passed


@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_a_missing_list_that_is_none_leaves_it_undecided(mode: Any) -> None:
    """A state of the wrong shape is our fault or the agent's, not an entry left undone."""
    grade = PkmCompletion(mode=mode).grade(trial(state={"missing_requirements": "x"}))

    assert grade.score is None
    assert "missing_requirements in the agent's state must be a list" in grade.rationale


def test_a_task_without_an_entry_leaves_it_undecided() -> None:
    """Whose entry was filed cannot be told without its id."""
    evidence = Evidence({}, Transcript(), Outcome(Answer("", FILED)))

    grade = PkmCompletion("persist").grade(evidence)

    assert grade.score is None
    assert grade.rationale == "fact_id in the task's input must be the entry's id, not None"


def test_an_ending_that_there_is_none_of_is_refused() -> None:
    """A mistake in a task's config shows when the task is loaded."""
    with pytest.raises(ValueError, match="expected_path must be persist, skip or either, not 'file'"):
        PkmCompletion("file")  # type: ignore[arg-type]  # wrong on purpose
