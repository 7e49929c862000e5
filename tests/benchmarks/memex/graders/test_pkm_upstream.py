"""The PKM graders bit for bit against Memex's (tests/oracle/memex_pkm.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import PkmNoOverwrite
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmReadBeforeWrite, PkmRoutedCorrectly
from pytest_agenteval.records.evidence import Evidence
from tests.benchmarks.memex.graders.sample_trials import call, grade_of, tree, trial
from tests.yaml_files import read_yaml

Case = Mapping[str, Any]

ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_pkm.yaml")
GRADERS: Mapping[str, Any] = {
    "pkm_completion": PkmCompletion,
    "pkm_routed_correctly": PkmRoutedCorrectly,
    "pkm_read_before_write": PkmReadBeforeWrite,
    "pkm_no_overwrite": PkmNoOverwrite,
}


def evidence(case: Case) -> Evidence:
    """Give a trial whose state, calls and changed files are the case's."""
    changes = case.get("diff") or {}
    created, modified, deleted = (changes.get(kind, []) for kind in ("created", "modified", "deleted"))
    return trial(
        tree(dict.fromkeys([*modified, *deleted], "as it was")),
        tree(dict.fromkeys([*created, *modified], "as it is")),
        state=case.get("state", {}),
        calls=[
            call(made["t"], turn, failed=made.get("err", False), **made["a"])
            for turn, made in enumerate(case.get("calls", []), 1)
        ],
    )


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["id"])
def test_upstream_mode_scores_as_memex_does(case: Case) -> None:
    """Score, verdict and every check are those of the original, in its order; where it throws, undecided."""
    grader, expect = GRADERS[case["grader"]](**case.get("config", {}), mode="upstream"), case["expect"]
    if expect.get("raises"):
        unreadable = grade_of(grader, evidence(case))
        assert (unreadable.score, unreadable.undecided) == (None, "unreadable")
        return
    grade = grade_of(grader, evidence(case))

    assert grade.score == pytest.approx(expect["value"], abs=ORACLE["float_tolerance"])
    assert grade.passed == expect["passed"]
    assert [check.passed for check in grade.checks] == expect["assertions"]
    if expect.get("rationale_branch") == "no_changes":
        assert "nothing new was written" in grade.rationale
    assert grade.rationale


def test_every_grader_of_the_file_is_exercised() -> None:
    """No grader may fall out of the file, and none may be left untested."""
    assert {case["grader"] for case in ORACLE["cases"]} == set(GRADERS)


def test_an_expected_file_outside_every_bucket_is_a_hit_for_both() -> None:
    """Memex lets a file vouch for its bucket, wherever it lies."""
    grade = grade_of(
        PkmRoutedCorrectly(["Areas/"], ["Inbox.md"], mode="upstream"),
        trial({}, {"Inbox.md": "new"}, state={}),
    )

    assert (grade.score, [check.passed for check in grade.checks]) == (1.0, [True, True])


def test_the_calls_of_one_turn_count_in_the_order_in_which_they_were_listed() -> None:
    """Memex knows no turns: a Read beside an Edit counts as before it, where it is listed first."""
    read, edit = call("Read", 1, file_path="A.md"), call("Edit", 1, file_path="A.md")
    grader = PkmReadBeforeWrite("A.md", mode="upstream")

    assert grade_of(grader, trial({"A.md": "a"}, calls=[read, edit])).score == 1.0
    assert grade_of(grader, trial({"A.md": "a"}, calls=[edit, read])).score == 0.0


def test_the_texts_at_the_end_come_from_the_workspace_where_the_state_has_none() -> None:
    """Our agent's state holds no copy of the tree; a marker outside the knowledge base is not in it."""
    grader = PkmNoOverwrite("seed_garden_01", mode="upstream")

    assert grade_of(grader, trial({}, {"B.md": "x seed_garden_01"}, state={})).score == 1.0
    assert grade_of(grader, trial({}, tree({"1.md": "seed_garden_01"}, "Facts/"), state={})).score == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PkmReadBeforeWrite(mode="upstream"), "required_read_path: mode upstream asks for one"),
        (lambda: PkmNoOverwrite(mode="upstream"), "seed_marker: mode upstream asks for one"),
        (lambda: PkmCompletion("skip", mode="upstream"), "expected_path: mode upstream takes either ending"),
        (lambda: PkmRoutedCorrectly(["A/"], every_bucket=True, mode="upstream"), "every_bucket: there is no"),
        (lambda: PkmRoutedCorrectly(["A/"], only=True, mode="upstream"), "only: there is no such thing"),
    ],
)
def test_upstream_mode_takes_the_settings_of_memex_and_no_others(make: Any, message: str) -> None:
    """What Memex demands is demanded, and what it does not know is refused, not passed over."""
    with pytest.raises(ValueError) as caught:
        make()

    assert message in str(caught.value)
