"""What the card and PKM graders of our own see: facts, numbers, dates, strays, titles, other entries."""

from __future__ import annotations

import time
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
from pytest_agenteval.benchmarks.memex.graders.pkm_completion import PkmCompletion, PkmFactsFiled
from pytest_agenteval.benchmarks.memex.text_search import mentions
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.transcript import Transcript
from tests.benchmarks.memex.graders.sample_trials import (
    CARD_SAVED,
    FACT,
    FILED,
    SKIPPED,
    Files,
    grade_of,
    insight,
    tree,
    trial,
)

ENTRY = "Ferry drill on Saturday 07:20, pier C. Bring 12 vests; Wanda counts twice, forty last year."
MARK = f"<!-- fact_id: {FACT} -->"
OLD: Files = {"Areas/Ferry.md": "# Ferry\n\n- 2026-09-01: new ropes\n", "Inbox.md": "- buy twine\n"}
NEW = OLD["Areas/Ferry.md"] + f"- 2026-09-17: drill on Sat 19 September, 7:20 am; a dozen vests\n{MARK}\n"
DAY = (
    '## <id:ts_1> 20:00:00 "{}"\n\n'
    + ENTRY
    + '\n\n## <id:ts_2> 21:00:00 "{}"\n\nPlanted seven tulips beside the shed.\n'
)
FACTS = PkmFactsFiled(["drill", ["12", "dozen"], "2026-09-19", "07:20"])


def filing(after: Files, entry: str = ENTRY, **more: Any) -> Evidence:
    """Give a trial about this entry that left these notes."""
    evidence = trial(OLD, after, **{"calls": [insight()], **more})
    return replace(evidence, task_input={"fact_id": FACT, "content": entry})


def with_day(evidence: Evidence) -> Evidence:
    """Put the journal of the day into both workspaces."""
    day = tree({"2026/09/17.md": DAY}, "Facts/").files
    outcome = evidence.outcome
    before, after = (Tree({**snapshot.files, **day}) for snapshot in (outcome.before, outcome.after))
    return replace(evidence, outcome=replace(outcome, before=before, after=after))


def card(title: str, *configs: Mapping[str, Any], entry: str = ENTRY) -> Evidence:
    """Give a trial that left this card."""
    lines = [f"fact_id: {FACT!r}", "status: completed", f"title: {title!r}", f"ui_configs: {list(configs)!r}"]
    state = {
        **CARD_SAVED,
        "template_ids": [config["template_id"] for config in configs],
        "card_yaml_blob": "\n".join(lines),
    }
    return Evidence({"fact_id": FACT, "content": entry}, Transcript(), Outcome(Answer("", state)))


EVENT = {"template_id": "event", "data": {"start_time": "2026-09-19T07:20:00", "seats": 12}}


def test_facts_count_where_lines_are_new() -> None:
    """Each fact is found in one of its wordings, in any spelling; what stood there before says nothing."""
    assert grade_of(FACTS, filing({**OLD, "Areas/Ferry.md": NEW})).score == 1.0

    grade = grade_of(PkmFactsFiled(["drill", "new ropes"]), filing({**OLD, "Areas/Ferry.md": NEW}))
    assert (grade.score, grade.passed) == (4 / 5, False)
    assert "no: the notes newly say 'new ropes'" in grade.rationale


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({**OLD, "Areas/Ferry.md": f"{OLD['Areas/Ferry.md']}{MARK}\n"}, "drill"),
        ({**OLD, "Areas/Ferry.md": NEW.replace("; a dozen vests", "")}, "12 or dozen"),
        ({**OLD, "Areas/Ferry.md": NEW.replace("19 September", "20 September")}, "2026-09-19"),
        ({**OLD, "Areas/Ferry.md": NEW.replace("a dozen", "112")}, "12 or dozen"),
        ({**OLD, "Areas/Ferry.md": NEW.replace("2026-09-17:", "2026-09-18:")}, "nothing is dated a day off"),
        ({**OLD, "Areas/Ferry.md": NEW.replace("2026-09-17:", "09-16:")}, "nothing is dated a day off"),
        ({**OLD, "Areas/Ferry.md": f"{NEW}- {ENTRY}\n"}, "worked in, not pasted"),
        ({**OLD, "Areas/Ferry.md": NEW, "Stray.md": "# More\n\nlater\n"}, "Stray.md"),
    ],
    ids=["only-the-id", "half", "date", "number", "dated-after", "dated-before", "pasted", "stray"],
)
def test_each_wrong_thing_is_named(after: Files, words: str) -> None:
    """Facts left out, another date or number, a wrong day, a pasted entry, a stray file: each costs."""
    grade = grade_of(FACTS, filing(after))

    assert grade.passed is False
    assert words in grade.rationale


def test_a_day_that_somebody_named_and_a_file_that_was_moved_are_right() -> None:
    """``days`` and the entry may name the day before; a moved file is not new; a few words may be pasted."""
    before = {**OLD, "Areas/Ferry.md": NEW.replace("2026-09-17:", "2026-09-16:")}
    moved = {"Archives/Ferry.md": NEW, "Resources/Inbox.md": OLD["Inbox.md"]}

    assert grade_of(replace(FACTS, days=["2026-09-16"]), filing(before)).passed
    assert grade_of(FACTS, filing(before, f"{ENTRY} (16 September)")).passed
    assert grade_of(FACTS, filing(moved)).passed
    assert grade_of(
        PkmFactsFiled(["a new belt"]), filing({**OLD, "A.md": f"a new belt {MARK}"}, "a new belt")
    ).passed


def test_of_a_skipped_entry_nothing_is_asked() -> None:
    """Whether skipping was right, pkm_completion says."""
    assert grade_of(FACTS, filing(OLD, state=SKIPPED, calls=[])).score is None


@pytest.mark.parametrize(
    ("grader", "message"),
    [
        (lambda: PkmFactsFiled(["a", " "]), "facts: a blank text is said everywhere"),
        (lambda: PkmFactsFiled([[]]), "facts: a blank text is said everywhere"),
        (lambda: PkmFactsFiled("abc"), "facts must be a list of texts"),
        (lambda: PkmFactsFiled(["a"], ["soon"]), "days must be dates, not 'soon'"),
        (lambda: CardNumbersGiven(days=["soon"]), "days must be dates, not 'soon'"),
        (lambda: CardTemplateChoice(["task"], only="yes"), "only must be true or false, not 'yes'"),
        (lambda: CardTemplateChoice(["task"], "upstream", only=True), "only: there is no such thing in mode"),
        (lambda: CardMustContain([["a", "b"]], "upstream"), "substrings must be a list of texts"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(grader: Any, message: str) -> None:
    """Blank facts, dates that are none, flags that are none: each is named."""
    with pytest.raises(ValueError, match=message):
        grader()


@pytest.mark.parametrize("mark", ["", "<!-- fact_id: 2026/09/17.md#ts_2 -->"], ids=["by-words", "by-id"])
def test_another_entry_of_the_day_that_was_filed_too_is_seen(mark: str) -> None:
    """By its id or by its words; the task's own entry alone passes."""
    alone = with_day(filing({**OLD, "Areas/Ferry.md": NEW}))
    both = with_day(filing({**OLD, "Areas/Ferry.md": f"{NEW}- seven tulips planted by the shed {mark}\n"}))

    assert grade_of(PkmCompletion("persist"), alone).score == 1.0
    grade = grade_of(PkmCompletion("persist"), both)
    assert (grade.score, grade.passed) == (0.8, False)
    assert "2026/09/17.md#ts_2" in grade.rationale


def test_a_line_of_any_other_file_that_is_gone_is_seen() -> None:
    """Filing one entry well is no licence to clear another file."""
    grade = grade_of(PkmCompletion("persist"), filing({"Areas/Ferry.md": NEW, "Inbox.md": "- nothing\n"}))

    assert grade.passed is False
    assert "no line that was there is gone (expected none, found Inbox.md)" in grade.rationale


def test_a_project_that_was_removed_and_not_archived_is_seen() -> None:
    """A new file in the archive holds the entry, and nothing of what the project's own file said."""
    project = "# Fair\n\n- book the tent\n- ask the band for a date\n"
    before, closed = {**OLD, "Projects/Fair.md": project}, f"- The fair is over.\n{MARK}\n"
    moved = trial(before, {**OLD, "Archives/Fair.md": project + closed}, calls=[insight()])
    removed = trial(before, {**OLD, "Archives/Fair.md": f"# Closed\n\n{closed}"}, calls=[insight()])

    assert grade_of(PkmCompletion("persist"), moved).score == 1.0
    grade = grade_of(PkmCompletion("persist"), removed)
    assert grade.passed is False
    assert "expected none, found Projects/Fair.md" in grade.rationale


@pytest.mark.parametrize(
    ("outcome", "filed_score", "skipped_score"),
    [
        ({"wrote_para": True}, 1.0, 0.0),
        ({"wrote_para": False, "skipped_pkm": True}, 0.0, 1.0),
        ({"is_complete": True}, 1.0, 1.0),
        (None, 1.0, 1.0),
    ],
)
def test_the_expected_outcome_says_which_ending(
    outcome: Mapping[str, Any] | None, filed_score: float, skipped_score: float
) -> None:
    """Where no path is said, the task's outcome says it; where that says nothing, either is right."""
    grader = PkmCompletion(expected_outcome=outcome)
    filed = filing({**OLD, "Areas/Ferry.md": NEW}, state=FILED)
    skipped = filing(OLD, state=SKIPPED, calls=[])

    assert grade_of(grader, filed).passed is (filed_score == 1.0)
    assert grade_of(grader, skipped).passed is (skipped_score == 1.0)
    assert grade_of(PkmCompletion("either", expected_outcome=outcome), skipped).passed


def test_a_card_may_hold_the_entrys_numbers_and_no_others() -> None:
    """By value, words included; dates, times and addresses are no numbers; what is worked out is said."""
    good = card(
        "12 vests, 40 last year", EVENT, {"template_id": "link", "data": {"url": "https://a.example/99"}}
    )
    assert grade_of(CardNumbersGiven(), good).score == 1.0

    wrong = card("112 vests", EVENT)
    assert "112 comes from the entry" in grade_of(CardNumbersGiven(), wrong).rationale
    assert grade_of(CardNumbersGiven(["112"]), wrong).passed
    assert grade_of(CardNumbersGiven(), card("vests", {"template_id": "task", "data": {}})).score is None


def test_a_day_of_the_entry_and_its_year_are_no_numbers_from_elsewhere() -> None:
    """However the day is written: 19.9. is the 19th of September, and 20.9. is not."""
    drill = "Drill on 19 September, 12 vests"

    assert grade_of(CardNumbersGiven(), card("Drill 19.9., season 2026", EVENT, entry=drill)).score == 1.0
    assert "20.9" in grade_of(CardNumbersGiven(), card("Drill 20.9.", EVENT, entry=drill)).rationale
    assert "2025" in grade_of(CardNumbersGiven(), card("Season 2025", EVENT, entry=drill)).rationale


def test_where_days_are_given_every_date_on_a_card_is_one_of_them() -> None:
    """The entry's own day is one too; a day off is not."""
    assert grade_of(CardNumbersGiven(days=["2026-09-19"]), card("Drill (17 September)", EVENT)).passed
    assert not grade_of(CardNumbersGiven(days=["2026-09-20"]), card("Drill", EVENT)).passed


def test_only_asks_for_no_second_template() -> None:
    """An unexpected second one, or the same twice, halves the score; half credit does not pass then."""
    other = {"template_id": "procedure", "data": {"steps": ["a"]}}
    grader = CardTemplateChoice(["event", "task"], only=True)

    assert grade_of(grader, card("x", EVENT)).score == 1.0
    for configs in ([EVENT, other], [EVENT, EVENT]):
        assert (
            grade_of(grader, card("x", *configs)).score,
            grade_of(grader, card("x", *configs)).passed,
        ) == (
            0.5,
            False,
        )
    assert grade_of(CardTemplateChoice(["event"]), card("x", EVENT, other)).score == 1.0


def test_a_title_is_more_than_the_entry_over_again() -> None:
    """A long entry is no title, whatever its spaces; a few words may be; upstream does not ask."""
    assert grade_of(CardCompletion(), card(f" {ENTRY}  ", EVENT)).passed is False
    assert grade_of(CardCompletion("upstream"), card(ENTRY, EVENT)).passed
    assert grade_of(CardCompletion(), card("hello", EVENT, entry="hello")).passed


def test_another_entrys_card_that_was_saved_too_is_seen() -> None:
    """Only the card of the task's entry may change."""
    own, other = "Cards/2026/09/17_ts_1.yaml", "Cards/2026/09/17_ts_2.yaml"
    base = card("Drill", EVENT)
    blob = str(base.state["card_yaml_blob"])

    def evidence_of(*paths: str) -> Evidence:
        after = tree(dict.fromkeys(paths, blob), "")
        return replace(base, outcome=replace(base.outcome, after=after))

    assert grade_of(CardCompletion(), evidence_of(own)).passed
    grade = grade_of(CardCompletion(), evidence_of(own, other))
    assert grade.passed is False
    assert other in grade.rationale


@pytest.mark.parametrize("text", ["a", "1 ", "a.", "1:", "\u200d", "가", "- ", "1-", "a@", "/a"])
def test_a_long_text_is_searched_in_no_time(text: str) -> None:
    """No needle makes the search go back and forth: what takes seconds for 8,000 letters is a fault."""
    began = time.perf_counter()
    for needle in ("word", "7", "18:45", "2026-09-18", "example.com/a", "가나"):
        assert not mentions(text * (8_000 // len(text)), needle)
    assert time.perf_counter() - began < 4
