"""Insights and additions: Memex's figures in upstream mode, and what judges get to see in default mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.pkm_judged import (
    PkmAppendCoherence,
    PkmInsightQuality,
    parse_upstream_reply,
)
from pytest_agenteval.graders.judge.verdicts import UnreadableReply
from pytest_agenteval.records.evidence import Evidence, Grade, Tree
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.text.errors import ProviderDown
from tests.benchmarks.memex.graders.sample_trials import SKIPPED, call, tree, trial
from tests.graders.judge.judges import TestJudge, judge, rubric, run
from tests.yaml_files import read_yaml

Case = Mapping[str, Any]

ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_pkm_judged.yaml")
GRADERS: Mapping[str, Any] = {
    "pkm_insight_quality": PkmInsightQuality,
    "pkm_append_coherence": PkmAppendCoherence,
}
GOOD = '{"groundedness": 1, "non_redundancy": 0.5, "expression_quality": 0.9, "conciseness": 0.8}'
FITS = '{"coherence": 0.8, "rationale": "in its voice"}'
LOG = "# Bread\n\n- 2 Sep: light.\n"
LONGER = f"{LOG}- 17 Sep: dense.\n"


def grade_of(grader: Any, evidence: Evidence, *judges: TestJudge) -> Grade:
    """Grade with these judges, with the grader's own threshold."""
    grade: Grade = run(grader.with_judges(judges).grade(evidence))
    return replace(grade, threshold=grader.threshold)


def prompt(judge: TestJudge) -> str:
    """Give what the judge was told of the trial."""
    return str(judge.chat.asked[0][1]["content"])


def insight(text: str = "So it is.", *, failed: bool = False, **more: Any) -> Any:
    """Give the call that writes the insight."""
    return call("update_timeline_card_insight", 3, failed=failed, insight_text=text, **more)


def _calls(case: Case) -> list[Any]:
    return [
        call(made["t"], turn, failed=made.get("err", False), **made["a"])
        for turn, made in enumerate(case.get("calls", []), 1)
    ]


def _judges(reply: str) -> tuple[TestJudge, ...]:
    if reply == "__none__":
        return ()
    return (judge(ProviderDown("nobody there") if reply == "__raise__" else reply),)


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["id"])
def test_upstream_mode_scores_as_memex_does(case: Case) -> None:
    """Score, verdict, checks and whether the judge is asked are those of the original; one ask, no repair."""
    grader, expect, judges = GRADERS[case["grader"]](mode="upstream"), case["expect"], _judges(case["judge"])
    evidence = trial(state=case.get("state", {}), calls=_calls(case))
    if expect.get("raises"):
        with pytest.raises(ProviderDown):
            grade_of(grader, evidence, *judges)
        return
    grade = grade_of(grader, evidence, *judges)

    assert grade.score == (
        None if expect["value"] is None else pytest.approx(expect["value"], abs=ORACLE["float_tolerance"])
    )
    assert grade.passed == expect["passed"]
    assert [check.passed for check in grade.checks] == expect["assertions"]
    assert [len(judge.chat.asked) for judge in judges] == [int(expect["judge_called"])] * len(judges)
    assert grade.rationale.startswith("unreadable:") == (expect.get("rationale_branch") == "unparseable")


def test_upstream_mode_cannot_tell_of_an_insight_that_is_no_text() -> None:
    """Memex casts the insight to a text, which throws for anything else: undecided, and no judge is asked."""
    insight_call, silent_judge = call("update_timeline_card_insight", insight_text=4), judge()
    grade = grade_of(PkmInsightQuality("upstream"), trial(calls=[insight_call]), silent_judge)

    assert (grade.score, grade.rationale) == (None, "the call's insight_text must be a text, not 4")
    assert silent_judge.chat.asked == []
    assert grade_of(PkmInsightQuality(), trial(calls=[insight_call])).score == 0.0


def test_upstream_mode_takes_the_mean_of_several_judges() -> None:
    """Memex has one judge; of several the mean of each dimension counts."""
    judges = judge('{"coherence": 1}', name="kind"), judge('{"coherence": 0.5}', name="stern")
    edit = call("Edit", old_string="a", new_string="a b")

    assert grade_of(PkmAppendCoherence("upstream"), trial(calls=[edit]), *judges).score == 0.75


def test_upstream_mode_takes_an_edit_of_blank_text_for_a_new_file() -> None:
    """White space alone is nothing that an addition could fit."""
    edit, silent_judge = call("Edit", old_string=" \n", new_string="b"), judge()
    grade = grade_of(PkmAppendCoherence("upstream"), trial(calls=[edit]), silent_judge)

    assert (grade.score, grade.rationale) == (None, "the first edit made a new file")


@pytest.mark.parametrize("grader", [PkmInsightQuality(), PkmAppendCoherence()])
def test_without_a_judge_it_says_what_decides(grader: Any) -> None:
    """No judge is no miss: the grade is undecided, and says which option decides it."""
    evidence = trial({"Bread.md": LOG}, {"Bread.md": LONGER}, calls=[insight()])

    for grade in (run(grader.grade(evidence)), grade_of(grader, evidence)):
        assert (grade.score, grade.rationale) == (None, "no judge: add --agent-judge=MODEL")
        assert grade.undecided == "no_judge"


@pytest.mark.parametrize("grader", [PkmInsightQuality(), PkmAppendCoherence()])
def test_a_skipped_entry_has_nothing_to_judge(grader: Any) -> None:
    """Nobody is asked about an entry that was to be left alone."""
    silent_judge = judge()
    grade = grade_of(grader, trial(state=SKIPPED, calls=[insight()]), silent_judge)

    assert (grade.score, silent_judge.chat.asked) == (None, [])
    assert "the entry was skipped" in grade.rationale


@pytest.mark.parametrize(
    "calls", [[], [insight(" \n")], [insight(failed=True)], [insight("good"), insight("")], [insight(5)]]
)
def test_an_insight_that_is_not_there_scores_nothing(calls: list[Any]) -> None:
    """The last insight that was really written counts; a missing or blank one is 0, with no judge asked."""
    silent_judge = judge()
    grade = grade_of(PkmInsightQuality(), trial(calls=calls), silent_judge)

    assert (grade.score, grade.passed, silent_judge.chat.asked) == (0.0, False, [])
    assert [check.passed for check in grade.checks] == [False]


def test_what_could_not_be_told_is_no_check() -> None:
    """An unknown dimension is in no mean and no check; the record shows it all the same."""
    unsaid = '"groundedness": "unknown", "conciseness": "unknown"'
    reply = f'{{{unsaid}, "non_redundancy": 0.5, "expression_quality": 1, "rationale": "ok"}}'
    grade = grade_of(PkmInsightQuality(), trial(calls=[insight()]), judge(reply))

    assert (grade.score, grade.passed) == (0.75, True)
    assert [(check.claim, check.passed) for check in grade.checks] == [
        ("non_redundancy is good enough", False),
        ("expression_quality is good enough", True),
    ]
    assert grade.details["judgement"]["scores"]["groundedness"] is None
    assert (
        grade.rationale
        == "groundedness unknown, non_redundancy 0.50, expression_quality 1.00, conciseness unknown: ok"
    )


def test_nothing_that_could_be_told_is_undecided() -> None:
    """All dimensions unknown is no score, and not for want of a judge."""
    reply = (
        '{"groundedness": null, "non_redundancy": "unknown", "expression_quality": null, "conciseness": null}'
    )
    grade = grade_of(PkmInsightQuality(), trial(calls=[insight()]), judge(reply))

    assert (grade.score, grade.checks) == (None, ())
    assert grade.undecided == ""


def test_a_judge_of_insights_sees_what_they_rest_on() -> None:
    """Entry, insight, what was read, what the named entries say, files as they were, and all that changed."""
    base = {
        "Areas/Bread.md": LOG,
        "Areas/Oven.md": "The oven runs hot.\n",
        "Areas/Tea.md": "Tea is tea.\n",
        "Resources/a.md": "Flour from Zug.\n",
        "Resources/b.md": "Salt, 2 %. <!-- fact_id: 2026/08/01.md#ts_2 -->\n",
        "Resources/c.md": "Nothing of it. <!-- fact_id: 2026/08/01.md#ts_21 -->\n",
    }
    entries = {"ts_1": "Rain.", "ts_2": "Baked with Ida.", "ts_21": "Snow."}
    day = "\n".join(f'## <id:{id}> 09:00:00 "{{}}"\n\n{text}\n' for id, text in entries.items())
    before = Tree({**tree(base).files, **tree({"Facts/2026/08/01.md": day}, "").files})
    after = Tree({**before.files, **tree({"Areas/Bread.md": LONGER, "Inbox.md": "Later.\n"}).files})
    calls = [
        call("Read", file_path="/Areas/Oven.md"),
        call("BatchRead", file_patterns=["Resources/a*"]),
        call("Read", failed=True, file_path="/Areas/Tea.md"),
        insight("It is the cold.", related_fact_ids=["2026/08/01.md#ts_2", "nowhere", 7]),
    ]
    one_judge = judge(GOOD)
    grade_of(PkmInsightQuality(), trial(before, after, calls=calls), one_judge)
    question = prompt(one_judge)

    for text in ("Baked with Ida.", "The oven runs hot.", "Flour from Zug.", "Salt, 2 %.", "It is the cold."):
        assert text in question
    assert "Areas/Bread.md:\n# Bread\n\n- 2 Sep: light.\n" in question
    assert "--- Areas/Bread.md\n+++ Areas/Bread.md\n" in question
    assert "+- 17 Sep: dense." in question
    assert "--- /dev/null\n+++ Inbox.md\n@@ -0,0 +1 @@\n+Later." in question
    for text in ("Tea is tea.", "Rain.", "Snow.", "Nothing of it.", "PKM/"):
        assert text not in question


def test_a_large_knowledge_base_does_not_make_an_endless_prompt() -> None:
    """However much was read and changed, a judge is shown a bounded part, which says what is left out."""
    base = {f"Areas/{number}.md": f"{number} " + "x" * 9_000 for number in range(40)}
    after = {path: text + "\nmore" for path, text in base.items()}
    judges = judge(GOOD), judge(FITS)
    evidence = trial(base, after, calls=[insight()])
    grade_of(PkmInsightQuality(), evidence, judges[0])
    grade_of(PkmAppendCoherence(), evidence, judges[1])

    assert len(prompt(judges[0])) < 70_000
    assert len(prompt(judges[1])) < 70_000
    assert "more left out …]" in prompt(judges[0])
    assert "characters left out …]" in prompt(judges[1])


def test_a_judge_of_additions_sees_the_file_and_one_diff_of_all_edits() -> None:
    """The whole file as it was, and what all tools together did to it: several edits, and writing it anew."""
    calls = [
        call("Edit", old_string="", new_string="x", file_path="Inbox.md"),
        call("Write", file_path="Areas/Bread.md", content=LONGER),
    ]
    before = {"Areas/Bread.md": f"{LOG}- 9 Sep: fine.\n"}
    after = {"Areas/Bread.md": f"{LONGER}- 18 Sep: better.\n", "Inbox.md": "x"}
    one_judge = judge(FITS)
    grade = grade_of(PkmAppendCoherence(), trial(before, after, calls=calls), one_judge)

    assert (grade.score, grade.passed) == (0.8, True)
    question = prompt(one_judge)
    assert ">\n# Bread\n\n- 2 Sep: light.\n- 9 Sep: fine.\n\n<" in question
    assert question.count("--- Areas/Bread.md") == 1
    assert "-- 9 Sep: fine.\n+- 17 Sep: dense.\n+- 18 Sep: better." in question
    assert "Inbox" not in question


@pytest.mark.parametrize("lines", [1, 9_000])
def test_several_files_that_were_added_to_are_told_apart(lines: int) -> None:
    """Each file stands with its path above what it was, and one that fills the prompt leaves room for it."""
    one_judge = judge(FITS)
    before = {"a.md": "one\n" * lines, "b.md": "two\n" * lines, "c.md": "three\n"}
    after = {**before, **{path: f"{before[path]}more\n" for path in ("a.md", "b.md")}}
    grade_of(PkmAppendCoherence(), trial(before, after), one_judge)

    assert "a.md:\none\n" in prompt(one_judge)
    assert "b.md:\ntwo\n" in prompt(one_judge)
    assert "three" not in prompt(one_judge)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"a.md": "one"}, {"a.md": "one", "b.md": "new"}, "no file that was there before was changed"),
        ({"a.md": "one"}, {}, "no file that was there before was changed"),
        ({"a.md": "one\ntwo"}, {"a.md": "one"}, "nothing was added to a file that was there before"),
        ({"a.md": "one"}, {"a.md": "one\n\n"}, "nothing was added to a file that was there before"),
        ({"a.md": " \n"}, {"a.md": "one"}, "nothing was added to a file that was there before"),
        ({"a.md": b"\xff"}, {"a.md": "one"}, "nothing was added to a file that was there before"),
        ({"a.md": "one"}, {"a.md": b"\xff"}, "nothing was added to a file that was there before"),
    ],
)
def test_where_nothing_was_added_there_is_nothing_to_judge(before: Any, after: Any, why: str) -> None:
    """New files, deletions and blank lines have no form to meet: undecided, with the reason, nobody asked."""
    silent_judge = judge()
    grade = grade_of(PkmAppendCoherence(), trial(before, after), silent_judge)

    assert (grade.score, grade.rationale, silent_judge.chat.asked) == (None, why, [])


def test_files_outside_the_knowledge_base_are_not_judged() -> None:
    """Journal and cards are not the knowledge base."""
    before, after = tree({"Facts/x.md": "one"}, ""), tree({"Facts/x.md": "one\ntwo"}, "")

    assert grade_of(PkmAppendCoherence(), trial(before, after), judge()).score is None


@pytest.mark.parametrize("grader", [PkmInsightQuality, PkmAppendCoherence])
def test_judged_graders_are_values(grader: Any) -> None:
    """Settings are fields; version, threshold and what judges are told are said for the ruler's digest."""
    assert grader() == grader(mode="default")
    assert (grader.version in ("2", "3"), grader.threshold) == (True, 0.6)
    assert len(grader().rubric_digest) == 16
    assert PkmInsightQuality().rubric_digest != PkmAppendCoherence().rubric_digest
    with pytest.raises(ValueError, match="mode must be default or upstream, not 'strict'"):
        grader(mode="strict")


def test_the_rubrics_have_the_names_that_labels_use() -> None:
    """Labels are written for these values and dimensions."""
    rubrics = installed_registry()
    insight, append = rubrics.rubric("pkm_insight_quality"), rubrics.rubric("pkm_append_coherence")
    three = rubrics.rubric("pkm_insight_quality_upstream").names
    assert three == ("groundedness", "non_redundancy", "expression_quality")
    assert insight.names == (*three, "conciseness")
    assert (list(insight.shows), insight.output) == (["fact", "notes", "changes", "insight"], "insight")
    assert (append.names, list(append.shows)) == (("coherence",), ["fact", "before", "changes"])
    assert append.output == "changes"
    assert {(made.low, made.high) for made in (insight, append)} == {(0, 1)}


RUBRIC = rubric()
SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


VALUES = st.dictionaries(st.sampled_from(["warmth", "clarity", "x"]), SCALARS | st.lists(SCALARS))


@given(st.text() | VALUES.map(json.dumps))
@example("{}")
@example('{"warmth": ' + "[" * 5000 + "]" * 5000 + "}")
def test_no_reply_breaks_the_reading(reply: str) -> None:
    """Whatever a judge writes, it is a verdict with a score for each dimension, 0 to 1, or unreadable."""
    with suppress(UnreadableReply):
        scores = parse_upstream_reply(reply, RUBRIC).scores
        assert list(scores) == ["warmth", "clarity"]
        assert all(score is None or 0 <= score <= 1 for score in scores.values())


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"warmth": 7, "clarity": -1}', {"warmth": 1.0, "clarity": 0.0}),
        ('{"warmth": 1' + "0" * 400 + ', "clarity": {}}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": true, "clarity": "high"}', {"warmth": None, "clarity": None}),
        ('{"warmth": [1]}', {"warmth": None, "clarity": None}),
        ('{"warmth": "Infinity", "clarity": "NaN"}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": "1_0", "clarity": " 5e-1 "}', {"warmth": None, "clarity": 0.5}),
        ('x ```json\n{"warmth": 1}\n``` {"clarity": 1}', {"warmth": 1.0, "clarity": None}),
        ('```\n{"warmth": 1}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": 1, "rationale": null}', {"warmth": 1.0, "clarity": None}),
    ],
)
def test_upstream_bends_what_it_reads(reply: str, scores: dict[str, float | None]) -> None:
    """Memex clamps numbers, takes what is no number for unknown, and looks into the first fence only."""
    assert parse_upstream_reply(reply, RUBRIC).scores == scores


@pytest.mark.parametrize(
    "reply", ['{"warmth": 1, "rationale": 5}', '{"warmth": NaN}', "[1]", '}{"warmth": 1', "```{}```"]
)
def test_upstream_gives_up_on_what_is_no_single_object(reply: str) -> None:
    """From the first brace to the last there has to be one object, whose rationale is text if it is there."""
    with pytest.raises(UnreadableReply, match="no verdict in: "):
        parse_upstream_reply(reply, RUBRIC)


def test_upstream_quotes_the_start_of_what_it_could_not_read() -> None:
    """The first 120 characters, as Memex does."""
    with pytest.raises(UnreadableReply) as caught:
        parse_upstream_reply("ab" * 100, RUBRIC)

    assert str(caught.value) == "no verdict in: " + "ab" * 60
