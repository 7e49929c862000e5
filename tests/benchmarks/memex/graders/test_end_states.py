"""End states: what an agent tells, what its workspace shows, and both beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.graders.card import (
    CardCompletion,
    CardMustContain,
    CardNumbersGiven,
    CardTemplateChoice,
)
from pytest_agenteval.benchmarks.memex.graders.end_state import Insight, insight_of
from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion
from pytest_agenteval.benchmarks.memex.graders.pkm_judged import PkmInsightQuality
from pytest_agenteval.benchmarks.memex.graders.pkm_routing import PkmReadBeforeWrite
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.transcript import Transcript
from tests.benchmarks.memex.graders.sample_trials import (
    CARD_SAVED,
    FACT,
    FILED,
    SKIPPED,
    file,
    insight,
    trial,
)

PATH = "Cards/2026/09/17_ts_1.yaml"
PENDING = f"fact_id: {FACT}\nstatus: pending\ntags: []\nui_configs: []\n"
DONE = f"""fact_id: {FACT}
status: completed
ui_configs:
  - template_id: event
    data: {{title: Lantern walk, start_time: "2026-09-18T19:00:00"}}
  - data: {{text: bring the long scarf}}
title: Lantern walk
"""
TOLD: Mapping[str, Any] = {
    **CARD_SAVED,
    "template_ids": ["event", "classic_card"],
    "card_yaml_blob": DONE,
}
NOTE = {"Areas/Walks.md": "# Walks\n\n- The dyke in May.\n"}
MORE = {"Areas/Walks.md": f"# Walks\n\n- The dyke in May.\n- The lanterns.\n<!-- fact_id: {FACT} -->\n"}


def card(after: str | None, state: Mapping[str, Any] | None = None, before: str | None = PENDING) -> Evidence:
    """Give a trial that left this text as the entry's card."""
    trees = [Tree({} if text is None else {PATH: file(text)}) for text in (before, after)]
    outcome = Outcome(Answer("", state or {}), *trees)
    return Evidence({"fact_id": FACT, "content": "x"}, Transcript(), outcome)


def with_card(evidence: Evidence, text: str) -> Evidence:
    """Put a card beside the knowledge base that a trial left behind."""
    outcome = evidence.outcome
    return replace(evidence, outcome=replace(outcome, after=Tree({**outcome.after.files, PATH: file(text)})))


@pytest.mark.parametrize("mode", ["default", "upstream"])
@pytest.mark.parametrize("state", [{}, {"mood": "fine"}, TOLD], ids=["none", "other", "told"])
def test_a_finished_card_is_finished_whoever_wrote_it(mode: Any, state: Mapping[str, Any]) -> None:
    """The file says as much as the state does: each card grader gives 1 for a card that is right."""
    graders = (CardCompletion(mode), CardTemplateChoice(["event"], mode), CardMustContain(["scarf"], mode))
    assert [grader.grade(card(DONE, state)).score for grader in graders] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("after", "score", "missing"),
    [
        (PENDING, 0.0, "matching_successful_save_timeline_card_tool_call, status_completed, title_present"),
        (DONE.replace("completed", "processing"), 0.6, "status_completed"),
        (DONE.replace("title: Lantern walk\n", 'title: " "\n'), 0.6, "title_present"),
        (DONE.replace("ts_1", "ts_2"), 0.8, "persisted_fact_id_matches"),
        ("- no card\n", 0.2, "persisted_fact_id_matches, status_completed, title_present"),
        (None, 0.0, "matching_successful_save_timeline_card_tool_call, card_file_exists"),
    ],
    ids=["untouched", "unfinished", "untitled", "another", "broken", "gone"],
)
def test_what_a_card_lacks_is_seen_on_the_disk(after: str | None, score: float, missing: str) -> None:
    """An agent that tells nothing is asked the same five questions, of the file."""
    grade = CardCompletion().grade(card(after))
    assert grade.score == pytest.approx(score)
    assert missing in grade.rationale


def test_a_card_that_is_only_told_is_none() -> None:
    """Where state and file differ the check fails, in every card grader, and both sides are shown."""
    grade = CardCompletion().grade(card(PENDING, TOLD))
    assert grade.score == 0.0
    assert "found completed in the agent's state, pending in the workspace" in grade.rationale
    assert "a complete card in the agent's state, matching_successful_save" in grade.rationale
    for grader in (CardTemplateChoice(["event"]), CardMustContain(["scarf"])):
        grade = grader.grade(card(DONE.replace("event", "task").replace("scarf", "coat"), TOLD))
        assert grade.score is not None
        assert grade.score < grader.threshold
        assert "in the agent's state is what the workspace shows" in grade.rationale
    assert CardCompletion().grade(card(DONE, {**TOLD, "status": "pending"})).score == 0.8
    assert CardCompletion("upstream").grade(card(PENDING, TOLD)).score == 1.0


def test_what_is_only_told_is_the_check_that_fails() -> None:
    """A template and a number that only the agent tells of earn nothing, and no check fails that is met."""
    evidence = card(PENDING, {**TOLD, "card_yaml_blob": DONE.replace("Lantern walk", "Lantern walk 7")})

    chosen = CardTemplateChoice(("event",)).grade(evidence)
    numbers = CardNumbersGiven(also=("7",)).grade(evidence)

    assert chosen.score == 0.0
    assert [check.expected for check in chosen.checks if not check.passed] == ["[]"]
    assert numbers.score is not None
    assert numbers.score < 1.0
    assert "in the agent's state" in str(numbers.rationale)


@pytest.mark.parametrize("grader", [CardCompletion(), CardMustContain(["walk"]), PkmCompletion("persist")])
def test_an_id_that_no_card_can_have_is_named(grader: Any) -> None:
    """Of a task whose fact_id is of another form nothing can be told from files: no score is made up."""
    evidence = replace(card(DONE), task_input={"fact_id": "walk-7", "content": "x"})

    assert grader.grade(evidence).score is None
    assert "fact_id in the task's input must be an id such as" in grader.grade(evidence).rationale


def test_a_workspace_without_any_file_says_nothing() -> None:
    """Of an agent that keeps its cards elsewhere only the state is read."""
    assert CardCompletion().grade(card(None, TOLD, before=None)).score == 1.0
    assert CardCompletion().grade(card(None, {}, before=None)).score == 0.0


@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_an_entry_that_was_filed_by_hand_is_filed(mode: Any) -> None:
    """The id newly in a file and an insight newly on the card: no call and no state is needed."""
    filed = with_card(trial(NOTE, MORE, state={}), PENDING + "insight: {text: Light again.}\n")
    assert PkmCompletion(mode=mode).grade(filed).score == 1.0
    assert PkmCompletion(mode=mode).grade(with_card(filed, PENDING)).score != 1.0
    assert PkmCompletion(mode=mode).grade(trial(NOTE, state={})).score == 1.0  # left alone: skipped
    if mode == "default":
        assert PkmCompletion("persist").grade(trial(NOTE, state={})).score == 0.25
        assert PkmCompletion("skip").grade(filed).score == 0.25
        assert PkmCompletion("skip").grade(trial(NOTE, state={})).score == 1.0


def test_what_is_told_of_filing_and_what_is_there_are_both_shown() -> None:
    """A state that denies what lies there fails as one that claims what does not."""
    denial = {**FILED, "wrote_para": False, "updated_insight": False}
    denied = trial(NOTE, MORE, state=denial, calls=[insight()])
    grade = PkmCompletion("persist").grade(denied)
    assert grade.score == 0.5
    assert "found no in the agent's state, Areas/Walks.md in the workspace" in grade.rationale
    assert PkmCompletion("skip").grade(trial(NOTE, MORE, state=SKIPPED)).score == 0.75


def test_the_insight_is_the_call_s_else_the_one_that_is_new_on_the_card() -> None:
    """Judges see what the user gets to read; an insight that stood there before is none of this trial."""
    text = "insight: {text: ' Light again. ', related_facts: [{id: 2026/05/01.md#ts_2}]}\n"
    filed = with_card(trial(NOTE, MORE, state={}), PENDING + text)
    assert insight_of(filed) == Insight("Light again.", ("2026/05/01.md#ts_2",))
    assert insight_of(trial(NOTE, MORE, calls=[insight()])) == Insight("so it is")
    old = replace(filed, outcome=replace(filed.outcome, before=filed.after))
    assert insight_of(old) is None
    grades = [asyncio.run(PkmInsightQuality().grade(evidence)) for evidence in (filed, old)]
    assert [grade.score for grade in grades] == [None, 0.0]


@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_reading_that_nobody_saw_is_not_judged(mode: Any) -> None:
    """An agent with tools of its own leaves no calls: whether it read first cannot be told."""
    grader = PkmReadBeforeWrite("Areas/Walks.md", mode)
    assert grader.grade(trial(NOTE, MORE, state={})).score is None
    assert grader.grade(trial(NOTE, state={})).score == 0.0


@pytest.mark.parametrize(
    "blob", ["a: &a [1]\n*a : 2", "{", "\x00", "a: 2026-13-45", "[" * 3000], ids=range(5)
)
def test_a_card_that_cannot_be_read_is_an_empty_one(blob: str) -> None:
    """Whatever stands in the file, grading goes on."""
    assert CardCompletion().grade(card(blob)).score == pytest.approx(0.2)
    assert insight_of(replace(card(blob), transcript=Transcript())) is None
