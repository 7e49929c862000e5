"""The card graders: bit for bit against Memex's in upstream mode, and what is mended in default mode."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.graders.card import (
    CardCompletion,
    CardMustContain,
    CardNumbersGiven,
    CardTemplateChoice,
)
from pytest_agenteval.benchmarks.memex.graders.end_state import Insight, insight_of
from pytest_agenteval.benchmarks.memex.graders.pkm_judged import PkmInsightQuality
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.transcript import Transcript
from tests.benchmarks.memex.graders.sample_trials import (
    CARD_SAVED,
    FACT,
    call,
    file,
    grade_of,
    insight,
    trial,
)
from tests.yaml_files import read_yaml

ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_card.yaml")
GRADERS: Mapping[str, Any] = {
    "card_completion": CardCompletion,
    "card_template_choice": CardTemplateChoice,
    "card_must_contain": CardMustContain,
}
CASES = [case for case in ORACLE["cases"] if case["grader"] in GRADERS]
SEA = """fact_id: "2026/09/17.md#ts_3"
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
TOLD = {**CARD_SAVED, "template_ids": ["event", "classic_card"], "card_yaml_blob": DONE}
ENTRY = "Ferry drill on Saturday 07:20, pier C. Bring 12 vests; Wanda counts twice, forty last year."
EVENT = {"template_id": "event", "data": {"start_time": "2026-09-19T07:20:00", "seats": 12}}


def told(state: Mapping[str, Any]) -> Evidence:
    """Give evidence with nothing but an end state."""
    return Evidence({}, Transcript(), Outcome(Answer("", state)))


def left(after: str | None, state: Mapping[str, Any] | None = None, before: str | None = PENDING) -> Evidence:
    """Give a trial that left this text as the entry's card."""
    trees = [Tree({} if text is None else {PATH: file(text)}) for text in (before, after)]
    outcome = Outcome(Answer("", state or {}), *trees)
    return Evidence({"fact_id": FACT, "content": "x"}, Transcript(), outcome)


def card(title: str, *configs: Mapping[str, Any], entry: str = ENTRY) -> Evidence:
    """Give a trial about an entry that tells of this card."""
    lines = [f"fact_id: {FACT!r}", "status: completed", f"title: {title!r}", f"ui_configs: {list(configs)!r}"]
    ids = [config["template_id"] for config in configs]
    state = {**CARD_SAVED, "template_ids": ids, "card_yaml_blob": "\n".join(lines)}
    return Evidence({"fact_id": FACT, "content": entry}, Transcript(), Outcome(Answer("", state)))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_upstream_mode_scores_as_memex_does(case: Mapping[str, Any]) -> None:
    """Score, verdict and every check are those of the original, in its order; where it throws, undecided.

    There is nothing to mend in the five questions of completion: both modes give the same grade.
    """
    grader, state = GRADERS[case["grader"]](**case.get("config", {}), mode="upstream"), case.get("state", {})
    expect, grade = case["expect"], grade_of(grader, told(state))
    if expect.get("raises"):
        assert (grade.score, grade.undecided) == (None, "unreadable")
        return
    assert grade.score == pytest.approx(expect["value"], abs=ORACLE["float_tolerance"])
    assert grade.passed == expect["passed"]
    assert [check.passed for check in grade.checks] == expect["assertions"]
    assert ("no template was chosen" in grade.rationale) == (expect.get("rationale_branch") == "no_template")
    if case["grader"] == "card_completion":
        assert CardCompletion().grade(told(state)) == CardCompletion("upstream").grade(told(state))


@pytest.mark.parametrize(
    ("grader", "state", "score", "why"),
    [
        # Memex casts the status to a text, which throws for anything else; by default it is not completed.
        (
            CardCompletion("upstream"),
            {"status": 1},
            None,
            "status in the agent's state must be a text, not 1",
        ),
        (CardCompletion(), {"status": 1}, 0.0, "the card's status is completed"),
        (CardCompletion(), {"missing_requirements": "title_present"}, None, "must be a list"),
        (CardCompletion(), {}, 0.0, "not met: the card has a title"),
        (
            CardCompletion(),
            {"missing_requirements": ["title_present"]},
            0.0,
            "not met: nothing is missing (expected a complete card, found title_present)",
        ),
        # Memex scores an empty list of texts 0; by default there is nothing to decide.
        (CardMustContain([], mode="upstream"), {"card_yaml_blob": "a"}, 0.0, ""),
        (CardMustContain([]), {"card_yaml_blob": "a"}, None, "nothing to check"),
        *(
            (CardMustContain(["kg"], mode=mode), {"card_yaml_blob": 5}, None, "card_yaml_blob in the agent's")
            for mode in ("default", "upstream")
        ),
        (
            CardMustContain(["sea", "boat", "tent"]),
            {"card_yaml_blob": SEA},
            1 / 3,
            "not on the card: 'boat', 'tent'",
        ),
        # A second choice scores one half, which is enough.
        *(
            (CardTemplateChoice(["quote", "snippet"]), {"template_ids": ids}, score, why)
            for ids, score, why in [
                (["quote", "task"], 1.0, "quote comes first, as expected"),
                (["event", "quote"], 0.5, "quote is expected, but not first in: event, quote"),
                (["event"], 0.0, "expected quote or snippet, found event"),
                ([], 0.0, "no template was chosen; expected quote or snippet"),
            ]
        ),
        # No card, and a card that is no YAML or of another shape, contains no text, and breaks nothing.
        *(
            (CardMustContain(["boat"]), {"card_yaml_blob": blob}, 0.0, "not on the card: 'boat'")
            for blob in ("", "a: b: c", "- a", "title: [x]\nui_configs: 5", "ui_configs: [5, {data: 3}]")
        ),
    ],
)
def test_an_end_state_is_graded(grader: Any, state: Mapping[str, Any], score: float | None, why: str) -> None:
    """Score and reason of what an agent tells."""
    grade = grade_of(grader, told(state))
    assert grade.score == (None if score is None else pytest.approx(score))
    assert why in grade.rationale
    if isinstance(grader, CardTemplateChoice) and score is not None:
        assert (grade.passed, grade.details) == (score >= 0.5, {"full": score == 1.0})


@pytest.mark.parametrize(
    ("needle", "is_said"),
    [
        *(
            (needle, True)
            for needle in ("camp: july 3-5", "CAF\u00c9 A", "strasse  to\nthe sea", "118.50", "40")
        ),
        *((needle, False) for needle in ("july 3-5 40", "event", "seats", "ts_3", "1789635600", "completed")),
        *((needle, False) for needle in ("Trip", "true", "null")),
    ],
)
def test_default_mode_looks_at_what_the_card_says(needle: str, is_said: bool) -> None:
    """Title and values count, each by itself and folded; keys, ids, tags, times and truth values do not."""
    assert CardMustContain([needle]).grade(told({"card_yaml_blob": SEA})).score == float(is_said)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CardMustContain([""]), "every text contains a blank text"),
        (lambda: CardMustContain(["a", " \n"]), "every text contains a blank text"),
        (lambda: CardMustContain("kg"), "substrings must be a list of texts, not 'kg'"),
        (lambda: CardMustContain([349]), "substrings must be a list of texts"),  # type: ignore[list-item]  # wrong on purpose
        (lambda: CardMustContain([["a", "b"]], "upstream"), "substrings must be a list of texts"),
        (lambda: CardTemplateChoice([]), "must name at least one template"),
        (lambda: CardTemplateChoice(["quoet"]), "no template 'quoet'; did you mean 'quote'?"),
        (lambda: CardTemplateChoice(["zzz"]), "no template 'zzz'; known: link, person"),
        (lambda: CardTemplateChoice("quote"), "expected_template_ids must be a list of texts"),
        (lambda: CardTemplateChoice(["task"], only="yes"), "only must be true or false, not 'yes'"),  # type: ignore[arg-type]  # as above
        (lambda: CardTemplateChoice(["task"], "upstream", only=True), "only: there is no such thing in mode"),
        (lambda: CardCompletion("strict"), "mode must be default or upstream, not 'strict'"),  # type: ignore[arg-type]  # as above
        (lambda: CardNumbersGiven(days=["soon"]), "days must be dates, not 'soon'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, message: str) -> None:
    """A mistake in a task's config shows when the task is loaded, with a hint where one is near."""
    with pytest.raises(ValueError) as caught:
        make()
    assert message in str(caught.value)


def test_graders_are_values() -> None:
    """Settings are fields: equal settings make equal graders, lists become tuples, versions are said."""
    graders = [CardCompletion(), CardTemplateChoice(["task"]), CardMustContain(["a"]), CardNumbersGiven()]
    assert CardMustContain(["a"]) == CardMustContain(("a",))
    text = "CardTemplateChoice(expected_template_ids=('task',), mode='default', only=False)"
    assert repr(graders[1]) == text
    assert [grader.threshold for grader in graders] == [1.0, 0.5, 1.0, 1.0]
    assert [grader.version for grader in graders] == ["3", "3", "3", "2"]


@pytest.mark.parametrize("mode", ["default", "upstream"])
@pytest.mark.parametrize("state", [{}, {"mood": "fine"}, TOLD], ids=["none", "other", "told"])
def test_a_finished_card_is_finished_whoever_wrote_it(mode: Any, state: Mapping[str, Any]) -> None:
    """The file says as much as the state does: each card grader gives 1 for a card that is right."""
    graders = (CardCompletion(mode), CardTemplateChoice(["event"], mode), CardMustContain(["scarf"], mode))
    assert [grader.grade(left(DONE, state)).score for grader in graders] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("after", "score", "missing"),
    [
        (PENDING, 0.0, "matching_successful_save_timeline_card_tool_call, status_completed, title_present"),
        (DONE.replace("completed", "processing"), 0.6, "status_completed"),
        (DONE.replace("title: Lantern walk\n", 'title: " "\n'), 0.6, "title_present"),
        (DONE.replace("ts_1", "ts_2"), 0.8, "persisted_fact_id_matches"),
        ("- no card\n", 0.2, "persisted_fact_id_matches, status_completed, title_present"),
        (None, 0.0, "matching_successful_save_timeline_card_tool_call, card_file_exists"),
        *(
            (blob, 0.2, "status_completed")
            for blob in ("a: &a [1]\n*a : 2", "{", "\x00", "a: 2026-13-45", "[" * 3000)
        ),
    ],
    ids=range(11),
)
def test_what_a_card_lacks_is_seen_on_the_disk(after: str | None, score: float, missing: str) -> None:
    """An agent that tells nothing is asked the same five questions, of the file, whatever stands in it."""
    grade = CardCompletion().grade(left(after))
    assert grade.score == pytest.approx(score)
    assert missing in grade.rationale
    assert insight_of(left(after)) is None


def test_a_card_that_is_only_told_is_none() -> None:
    """Where state and file differ the check fails, in every card grader, and both sides are shown."""
    grade = CardCompletion().grade(left(PENDING, TOLD))
    assert grade.score == 0.0
    assert "found completed in the agent's state, pending in the workspace" in grade.rationale
    assert "a complete card in the agent's state, matching_successful_save" in grade.rationale
    for grader in (CardTemplateChoice(["event"]), CardMustContain(["scarf"])):
        grade = grade_of(grader, left(DONE.replace("event", "task").replace("scarf", "coat"), TOLD))
        assert grade.passed is False
        assert "in the agent's state is what the workspace shows" in grade.rationale
    assert CardCompletion().grade(left(DONE, {**TOLD, "status": "pending"})).score == 0.8
    assert CardCompletion("upstream").grade(left(PENDING, TOLD)).score == 1.0
    seven = left(PENDING, {**TOLD, "card_yaml_blob": DONE.replace("Lantern walk", "Lantern walk 7")})
    chosen, numbers = (
        CardTemplateChoice(["event"]).grade(seven),
        grade_of(CardNumbersGiven(also=["7"]), seven),
    )
    assert (chosen.score, [check.expected for check in chosen.checks if not check.passed]) == (0.0, ["[]"])
    assert numbers.passed is False
    assert "in the agent's state" in numbers.rationale


def test_of_some_trials_nothing_can_be_told_from_files() -> None:
    """An id that no card can have is named; without any file only the state is read."""
    wrong = replace(left(DONE), task_input={"fact_id": "walk-7", "content": "x"})
    for grader in (CardCompletion(), CardMustContain(["walk"])):
        grade = grader.grade(wrong)
        assert (grade.score, "fact_id in the task's input must be an id such as" in grade.rationale) == (
            None,
            True,
        )
    for state, score in ((TOLD, 1.0), ({}, 0.0)):
        assert CardCompletion().grade(left(None, state, before=None)).score == score


def test_a_card_that_was_saved_as_it_was_is_saved() -> None:
    """An unchanged file may still have been saved: then the calls show it, for this very entry."""
    for fact, failed, score in ((FACT, False, 1.0), ("2026/09/17.md#ts_2", False, 0.6), (FACT, True, 0.6)):
        calls = (call("save_timeline_card", failed=failed, fact_id=fact),)
        evidence = replace(left(DONE, before=DONE), transcript=Transcript(calls=calls))
        assert CardCompletion().grade(evidence).score == pytest.approx(score)


def test_the_insight_is_the_calls_else_the_one_that_is_new_on_the_card() -> None:
    """Judges see what the user gets to read; an insight that stood there before is none of this trial."""
    on_card = "insight: {text: ' Light again. ', related_facts: [{id: 2026/05/01.md#ts_2}]}\n"
    new, old = left(PENDING + on_card), left(PENDING + on_card, before=PENDING + on_card)
    assert insight_of(new) == Insight("Light again.", ("2026/05/01.md#ts_2",))
    assert insight_of(trial({}, calls=[insight()])) == Insight("so it is")
    assert insight_of(old) is None
    scores = [asyncio.run(PkmInsightQuality().grade(evidence)).score for evidence in (new, old)]
    assert scores == [None, 0.0]


TASK = {"template_id": "task", "data": {}}
LINK = {"template_id": "link", "data": {"url": "https://a.example/99"}}
DRILL = "Drill on 19 September, 12 vests"


@pytest.mark.parametrize(
    ("grader", "evidence", "score", "why"),
    [
        # By value, words included; dates, times and addresses are no numbers; what is worked out is said.
        (CardNumbersGiven(), card("12 vests, 40 last year", EVENT, LINK), 1.0, ""),
        (CardNumbersGiven(), card("112 vests", EVENT), 0.5, "112 comes from the entry"),
        (CardNumbersGiven(["112"]), card("112 vests", EVENT), 1.0, ""),
        (CardNumbersGiven(), card("vests", TASK), None, "the card has no number to look at"),
        # However the entry's day is written, it and its year are no numbers from elsewhere.
        (CardNumbersGiven(), card("Drill 19.9., season 2026", EVENT, entry=DRILL), 1.0, ""),
        (CardNumbersGiven(), card("Drill 20.9.", EVENT, entry=DRILL), 0.5, "20.9"),
        (CardNumbersGiven(), card("Season 2025", EVENT, entry=DRILL), 0.5, "2025"),
        (CardNumbersGiven(), card("Scale 0 1 10 100", TASK), 1.0, ""),
        # Where days are given every date on a card is one of them, or the entry's own day.
        (CardNumbersGiven(days=["2026-09-19"]), card("Drill (17 September)", EVENT), 1.0, ""),
        (CardNumbersGiven(days=["2026-09-20"]), card("Drill", EVENT), 0.5, "is a day that was meant"),
        # An unexpected second template, or the same twice, halves the score; half credit does not pass then.
        (CardTemplateChoice(["event", "task"], only=True), card("x", EVENT), 1.0, ""),
        (CardTemplateChoice(["event", "task"], only=True), card("x", EVENT, LINK), 0.5, "no other template"),
        (CardTemplateChoice(["event", "task"], only=True), card("x", EVENT, EVENT), 0.5, "no other template"),
        (CardTemplateChoice(["event"]), card("x", EVENT, LINK), 1.0, ""),
        # A long entry is no title, whatever its spaces; a few words may be; upstream does not ask.
        (CardCompletion(), card(f" {ENTRY}  ", EVENT), 5 / 6, "the title is more than the entry over again"),
        (CardCompletion("upstream"), card(ENTRY, EVENT), 1.0, ""),
        (CardCompletion(), card("hello", EVENT, entry="hello"), 1.0, ""),
    ],
)
def test_a_card_is_held_against_its_entry(grader: Any, evidence: Evidence, score: Any, why: str) -> None:
    """Numbers, days, second templates and titles."""
    grade = grade_of(grader, evidence)
    assert grade.score == (None if score is None else pytest.approx(score)), grade.rationale
    assert why in grade.rationale
    assert grade.passed is (None if score is None else score == 1.0)


def test_another_entrys_card_that_was_saved_too_is_seen() -> None:
    """Only the card of the task's entry may change."""
    for paths, passed in (([PATH], True), ([PATH, "Cards/2026/09/17_ts_2.yaml"], False)):
        base = card("Drill", EVENT)
        after = Tree({path: file(str(base.state["card_yaml_blob"])) for path in paths})
        grade = grade_of(CardCompletion(), replace(base, outcome=replace(base.outcome, after=after)))
        assert (grade.passed, paths[-1] in grade.rationale) == (passed, not passed)
