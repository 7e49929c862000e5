"""The card graders: bit for bit against Memex's in upstream mode, and what is mended in default mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.graders.card import CardCompletion, CardMustContain, CardTemplateChoice
from pytest_agenteval.graders.grader import Grader
from pytest_agenteval.records.evidence import Answer, Evidence, Grade, Outcome
from pytest_agenteval.records.transcript import Transcript
from tests.yaml_files import read_yaml

Case = Mapping[str, Any]

ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_card.yaml")
GRADERS: Mapping[str, Any] = {
    "card_completion": CardCompletion,
    "card_template_choice": CardTemplateChoice,
    "card_must_contain": CardMustContain,
}
CASES = [case for case in ORACLE["cases"] if case["grader"] in GRADERS]
COMPLETION = [case for case in CASES if case["grader"] == "card_completion"]
CARD = """fact_id: "2026/09/17.md#ts_3"
timestamp: 1789635600
status: completed
tags:
  - Trip
ui_configs:
  - template_id: event
    data:
      title: "Camp:  July 3\u20135"
      seats: 40
      price: 118.50
      outdoors: true
      stops:
        - name: "Caf\u00e9 \uff21"
      note: null
title: Stra\u00dfe to the sea
"""


def evidence(state: Mapping[str, Any]) -> Evidence:
    """Give evidence with nothing but an end state."""
    return Evidence({}, Transcript(), Outcome(Answer("", state)))


def grade_of_state(grader: Any, state: Mapping[str, Any]) -> Grade:
    """Grade an end state, with the grader's own threshold."""
    grade: Grade = grader.grade(evidence(state))
    return replace(grade, threshold=grader.threshold)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_upstream_mode_scores_as_memex_does(case: Case) -> None:
    """Score, verdict and every check are those of the original, in its order; where it throws, undecided."""
    grader = GRADERS[case["grader"]](**case.get("config", {}), mode="upstream")
    expect = case["expect"]
    if expect.get("raises"):
        unreadable = grade_of_state(grader, case.get("state", {}))
        assert (unreadable.score, unreadable.undecided) == (None, "unreadable")
        return
    grade = grade_of_state(grader, case.get("state", {}))

    assert grade.score == pytest.approx(expect["value"], abs=ORACLE["float_tolerance"])
    assert grade.passed == expect["passed"]
    assert [check.passed for check in grade.checks] == expect["assertions"]
    assert ("no template was chosen" in grade.rationale) == (expect.get("rationale_branch") == "no_template")


def test_upstream_mode_cannot_tell_of_a_status_that_is_no_text() -> None:
    """Memex casts the status to a text, which throws for anything else; by default it is not completed."""
    state = {"card_save_tool_called": True, "status": 1, "has_title": True, "has_ui_configs": True}
    upstream, default = (grade_of_state(CardCompletion(mode), state) for mode in ("upstream", "default"))

    assert (upstream.score, upstream.rationale) == (None, "status in the agent's state must be a text, not 1")
    assert default.passed is False


def test_upstream_mode_fails_a_task_without_needles() -> None:
    """Memex scores an empty list of texts 0; in default mode there is nothing to decide."""
    assert CardMustContain([], mode="upstream").grade(evidence({"card_yaml_blob": "a"})).score == 0.0
    assert CardMustContain([]).grade(evidence({"card_yaml_blob": "a"})).score is None


@pytest.mark.parametrize("case", COMPLETION, ids=[case["id"] for case in COMPLETION])
def test_completion_is_alike_in_both_modes(case: Case) -> None:
    """There is nothing to mend in completion: both modes give the same grade."""
    state = case["state"]

    assert CardCompletion().grade(evidence(state)) == CardCompletion("upstream").grade(evidence(state))


def test_completion_says_which_of_the_five_is_missing() -> None:
    """Each miss is one clause with both sides."""
    grade = CardCompletion().grade(
        evidence({"is_complete": False, "missing_requirements": ["title_present"]})
    )

    assert "no: the card has a title (expected yes, found no)" in grade.rationale
    assert "no: nothing is missing (expected a complete card, found title_present)" in grade.rationale


def test_completion_refuses_a_missing_list_that_is_none() -> None:
    """A state of the wrong shape makes the grade undecided, not zero."""
    grade = CardCompletion().grade(evidence({"missing_requirements": "title_present"}))

    assert grade.score is None
    assert "missing_requirements in the agent's state must be a list" in grade.rationale


@pytest.mark.parametrize(
    ("picked", "score", "why"),
    [
        (["quote", "task"], 1.0, "quote comes first, as expected"),
        (["event", "quote"], 0.5, "quote is expected, but not first in: event, quote"),
        (["event"], 0.0, "expected quote or snippet, found event"),
        ([], 0.0, "no template was chosen; expected quote or snippet"),
    ],
)
def test_half_credit_passes_and_full_credit_is_said(picked: list[str], score: float, why: str) -> None:
    """A second choice scores one half, which is enough; only a first choice is full."""
    grade = grade_of_state(CardTemplateChoice(["quote", "snippet"]), {"template_ids": picked})

    assert (grade.score, grade.rationale) == (score, why)
    assert grade.passed is (score >= 0.5)
    assert grade.details == {"full": score == 1.0}
    assert grade.checks[0].expected == "quote or snippet"


@pytest.mark.parametrize(
    ("needle", "is_said"),
    [
        ("camp: july 3-5", True),
        ("CAF\u00c9 A", True),
        ("strasse  to\nthe sea", True),
        ("118.50", True),
        ("40", True),
        ("july 3-5 40", False),
        ("event", False),
        ("seats", False),
        ("ts_3", False),
        ("1789635600", False),
        ("completed", False),
        ("Trip", False),
        ("true", False),
        ("null", False),
    ],
)
def test_default_mode_looks_at_what_the_card_says(needle: str, is_said: bool) -> None:
    """Title and values count, each by itself and folded; keys, ids, tags, times and truth values do not."""
    grade = CardMustContain([needle]).grade(evidence({"card_yaml_blob": CARD}))

    assert grade.score == float(is_said)


def test_a_miss_names_the_text_and_shows_the_card() -> None:
    """The reason is short; the check holds what the card does say."""
    grade = CardMustContain(["sea", "boat", "tent"]).grade(evidence({"card_yaml_blob": CARD}))

    assert grade.score == pytest.approx(1 / 3)
    assert grade.rationale == "not on the card: 'boat', 'tent'"
    assert grade.checks[1].found.startswith("Stra\u00dfe to the sea | Camp:  July 3\u20135")


@pytest.mark.parametrize(
    "blob", ["", "a: b: c", "- a", "title: [x]\nui_configs: 5", "ui_configs: [5, {data: 3}]"]
)
def test_a_card_that_cannot_be_read_says_nothing(blob: str) -> None:
    """No card, and a card that is no YAML or of another shape, contains no text, and breaks nothing."""
    assert CardMustContain(["boat"]).grade(evidence({"card_yaml_blob": blob})).score == 0.0


@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_a_card_of_the_wrong_type_leaves_it_undecided(mode: Any) -> None:
    """A blob that is no text is our fault or the agent's, not a bad card."""
    grade = CardMustContain(["kg"], mode=mode).grade(evidence({"card_yaml_blob": 5}))

    assert grade.score is None
    assert "card_yaml_blob in the agent's state must be a text" in grade.rationale


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CardMustContain([""]), "a blank text is said everywhere"),
        (lambda: CardMustContain(["a", " \n"]), "a blank text is said everywhere"),
        (lambda: CardMustContain("kg"), "substrings must be a list of texts, not 'kg'"),
        (lambda: CardMustContain([349]), "substrings must be a list of texts"),  # type: ignore[list-item]  # wrong on purpose
        (lambda: CardTemplateChoice([]), "must name at least one template"),
        (lambda: CardTemplateChoice(["quoet"]), "no template 'quoet'; did you mean 'quote'?"),
        (lambda: CardTemplateChoice(["zzz"]), "no template 'zzz'; known: link, person"),
        (lambda: CardTemplateChoice("quote"), "expected_template_ids must be a list of texts"),
        (lambda: CardCompletion("strict"), "mode must be default or upstream, not 'strict'"),  # type: ignore[arg-type]  # wrong on purpose
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A mistake in a task's config shows when the task is loaded, with a hint where one is near."""
    with pytest.raises(ValueError) as caught:
        make()

    assert message in str(caught.value)


def test_graders_are_values() -> None:
    """Settings are fields: equal settings make equal graders, lists become tuples, versions are said."""
    graders: list[Grader] = [CardCompletion(), CardTemplateChoice(["task"]), CardMustContain(["a"])]

    assert CardMustContain(["a"]) == CardMustContain(("a",))
    assert (
        repr(graders[1]) == "CardTemplateChoice(expected_template_ids=('task',), mode='default', only=False)"
    )
    assert [grader.threshold for grader in graders] == [1.0, 0.5, 1.0]
    assert {GRADERS[name].version for name in GRADERS} == {"3"}
