"""The grader that asks by any rubric: what judges see of a trial, and what becomes of their judgement."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_agenteval.graders.judge.judge_grader import (
    MAX_CHARS,
    MAX_CHARS_OF_ONE,
    JudgeGrader,
    cut_middle,
    join_within,
)
from pytest_agenteval.records.evidence import Answer, Evidence, Grade, Outcome
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.text.errors import UsageMistake
from tests.graders.judge.judges import BODY, TestJudge, judge, preferred_answer, rubric_text, run
from tests.graders.sample_evidence import tree

EVERYTHING = rubric_text(
    body="{{ task }}{{ answer }}{{ calls }}{{ changes }}{{ conversation }}",
    **{"  answer": "  answer: a\n  calls: b\n  changes: c\n  conversation: d"},
)
COMPARING = rubric_text(output="output: answer\ncandidates: true")
UNSHOWABLE = rubric_text(
    body=f"{BODY}{{{{ fact }}}}{{{{ before }}}}",
    shows="shows:\n  fact: the entry\n  before: what stood there",
)
GOOD = '{"warmth": 0.5, "clarity": 1, "rationale": "clear"}'


def evidence(answer: str = "Hello, Mina!", **task_input: Any) -> Evidence:
    """Give a trial in which a tool was called, failed once, and a file was changed."""
    seeded = ToolCall("s", 0, 0, "recall", {"old": 1}, result="was given", by="seed")
    look = ToolCall("1", 1, 0, "look", {"at": "Mina"}, result={"mood": "good"})
    fail = ToolCall("2", 1, 1, "shout", {}, raw_args="{", error=ToolError("bad", "too loud"))
    messages = (
        Message("system", "You are the agent called secret."),
        Message("user", "Say hello."),
        Message("assistant", "", (look, fail)),
        Message("tool", "good", call_id="1"),
        Message("assistant", answer),
    )
    before, after = tree({"a.md": "one\n", "c.md": "old\n"}), tree({"a.md": "two\n", "b.md": "new\n"})
    outcome = Outcome(Answer(answer), before, after)
    return Evidence(
        task_input or {"content": "Say hello."}, Transcript(messages, (seeded, look, fail)), outcome
    )


def grade_of(grader: JudgeGrader, found: Evidence, *judges: TestJudge) -> Grade:
    """Grade with these judges, with the grader's own threshold."""
    grade: Grade = run(grader.with_judges(judges).grade(found))
    return replace(grade, threshold=grader.threshold)


def prompt(asked: TestJudge) -> str:
    """Give what the judge was told of the trial."""
    return str(asked.chat.asked[0][1]["content"])


def test_a_judge_sees_what_the_rubric_shows() -> None:
    """Task, answer, calls with their results, changes as diffs and the conversation, each in its fence."""
    only_judge = judge(GOOD)
    grade = grade_of(JudgeGrader(EVERYTHING), evidence(), only_judge)
    prompt_text = prompt(only_judge)

    assert (grade.score, grade.passed) == (0.75, True)
    assert 'name="task">\nSay hello.\n<' in prompt_text
    assert 'name="answer">\nHello, Mina!\n<' in prompt_text
    assert (
        '1. look({"at": "Mina"})\ngave: {"mood": "good"}\n\n2. shout({)\nfailed: too loud\n<' in prompt_text
    )
    assert (
        "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-one\n+two\n\n--- /dev/null\n+++ b.md\n@@ -0,0 +1 @@\n+new"
        in prompt_text
    )
    assert "--- c.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-old" in prompt_text
    assert (
        'user:\nSay hello.\n\nassistant:\ncalls look({"at": "Mina"})\ncalls shout({)\n\ntool:\ngood'
        in prompt_text
    )


def test_instructions_and_given_calls_are_not_shown() -> None:
    """A judge sees what the agent did, not what it was told or given, so nothing names the agent."""
    only_judge = judge(GOOD)
    grade_of(JudgeGrader(EVERYTHING), evidence(), only_judge)

    assert "secret" not in prompt(only_judge)
    assert "recall" not in prompt(only_judge)


def test_a_task_of_several_values_is_shown_by_name() -> None:
    """Whatever the input is made of, it can be read."""
    only_judge = judge(GOOD)
    grade_of(
        JudgeGrader(rubric_text()),
        evidence(content="Add.", numbers=[1, 2], deep={"a": {"b": None}}),
        only_judge,
    )

    assert 'content: Add.\nnumbers: [1, 2]\ndeep: {"a": {"b": null}}\n<' in prompt(only_judge)


def test_checks_are_one_for_each_dimension() -> None:
    """Each says whether the dimension is good enough; the reason names every score."""
    grade = grade_of(JudgeGrader(rubric_text()), evidence(), judge(GOOD))

    assert [(check.claim, check.passed, check.expected, check.found) for check in grade.checks] == [
        ("warmth is good enough", False, "0.6 or more", "0.50"),
        ("clarity is good enough", True, "0.6 or more", "1.00"),
    ]
    assert grade.rationale == "warmth 0.50, clarity 1.00: clear"
    assert json.loads(json.dumps(grade.details))["judgement"]["votes"][0]["raw"] == [GOOD]


def test_a_packaged_rubric_goes_by_its_name() -> None:
    """Not everybody has to write one."""
    only_judge = judge('{"completeness": 5, "correctness": 3, "rationale": "short"}')
    grade = grade_of(JudgeGrader("task_fulfilment"), evidence(), only_judge)

    assert grade.score == 0.75
    assert "look(" in prompt(only_judge)


def test_without_a_judge_it_is_undecided() -> None:
    """The reason says which option decides it."""
    for grade in (
        grade_of(JudgeGrader(EVERYTHING), evidence()),
        run(JudgeGrader(EVERYTHING).grade(evidence())),
    ):
        assert (grade.score, grade.rationale) == (None, "no judge: add --agent-judge=MODEL")
        assert grade.undecided == "no_judge"


def test_a_blank_answer_scores_nothing_and_asks_nobody() -> None:
    """An agent that says nothing cannot be talked into a pass."""
    only_judge = judge()
    grade = grade_of(JudgeGrader(rubric_text()), evidence(" \n"), only_judge)

    assert (grade.score, only_judge.chat.asked) == (0.0, [])
    assert grade.rationale == "nothing to judge: the trial left no answer"


def test_what_no_judge_could_tell_is_undecided() -> None:
    """Unreadable twice is no score, and not for want of a judge."""
    grade = grade_of(JudgeGrader(rubric_text()), evidence(), judge("?", "?"))

    assert (grade.score, grade.checks) == (None, ())
    assert grade.undecided == ""
    assert "there is no JSON object" in grade.rationale


@pytest.mark.parametrize(
    ("own", "other", "score", "passed"),
    [(0.8, 0.2, 1.0, True), (0.5, 0.5, 0.5, False), (0.2, 0.8, 0.0, False)],
)
def test_an_answer_can_be_compared_with_another(own: float, other: float, score: float, passed: bool) -> None:
    """Preferred, on a par or not; the record keeps both scores, and the order in which they were shown."""
    grader = JudgeGrader(COMPARING, against={"reference": "Hi."})
    order = grade_of(grader, evidence(), judge("?", "?")).details["judgement"]["votes"][0]["order"]
    scores = {"answer": own, "reference": other}
    reply = {
        letter: dict.fromkeys(("warmth", "clarity"), scores[name])
        for letter, name in zip("AB", order, strict=True)
    }
    grade = grade_of(grader, evidence(), judge(json.dumps({**reply, "rationale": "so"})))

    assert (grade.score, grade.passed) == (score, passed)
    assert grade.details["judgement"]["scores"] == pytest.approx(scores)
    assert [check.passed for check in grade.checks] == [own > other]
    assert grade.rationale == f"answer {own:.2f}, reference {other:.2f}: so"


def test_a_comparison_that_could_not_be_made_is_undecided() -> None:
    """No preference is no score."""
    grade = grade_of(JudgeGrader(preferred_answer(), {"reference": "Hi."}), evidence(), judge("?", "?"))

    assert (grade.score, grade.checks) == (None, ())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rubric": "task_fulfillment"}, "unknown rubric 'task_fulfillment'; known: "),
        ({"rubric": UNSHOWABLE}, "shows fact, before; there are task, answer, calls, changes"),
        ({"rubric": rubric_text(combine="combine: best")}, "rubric, line 8: combine: expected one of mean"),
        ({"rubric": rubric_text(version="versoin: 1")}, "unknown key 'versoin' (did you mean 'version'?)"),
        ({"rubric": COMPARING}, "rubric tone needs against: texts by name"),
        ({"rubric": rubric_text(), "against": {"a": "x"}}, "compares nothing: leave against out"),
        ({"rubric": COMPARING, "against": {"answer": "x"}}, "'answer' is the agent's own"),
        (
            {"rubric": COMPARING.replace("output: answer", "output: task"), "against": {"a": "x"}},
            "must have the answer as its output, not the task",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], message: str) -> None:
    """A mistake shows when the task is loaded, with the rubric's line where it is in the rubric."""
    with pytest.raises((ValueError, UsageMistake)) as caught:
        installed_registry().grader_factory("judge")(**settings)

    assert message in str(caught.value)


def test_the_ruler_depends_on_what_judges_are_told() -> None:
    """Another rubric is another ruler; a grader is a value."""
    assert JudgeGrader("task_fulfilment") == JudgeGrader("task_fulfilment")
    assert JudgeGrader("task_fulfilment").rubric_digest != JudgeGrader(rubric_text()).rubric_digest
    assert (JudgeGrader.version, JudgeGrader.threshold, dict(JudgeGrader.files)) == (
        "2",
        0.6,
        {"rubric": ".jinja"},
    )


def test_long_texts_are_cut_in_the_middle() -> None:
    """Begin and end are kept, and how much is left out is said."""
    text = cut_middle("a" * 5_000 + "b" * 5_000)

    assert text.startswith("a" * 4_000 + "\n[… 4000 characters left out …]\nb")
    assert text.endswith("b" * 2_000)
    assert cut_middle("a" * MAX_CHARS_OF_ONE) == "a" * MAX_CHARS_OF_ONE


def test_many_parts_end_when_there_are_enough() -> None:
    """The first parts are kept whole, and how many are left out is said."""
    text = join_within(["x" * 10_000] * 5)

    assert len(text) < MAX_CHARS
    assert text.endswith("x\n\n[… 3 more left out …]")
    assert join_within(["x" * 2 * MAX_CHARS, "y"]).startswith("x" * (MAX_CHARS * 2 // 3) + "\n[…")
    assert join_within([]) == ""
    assert join_within(["a", "b"]) == "a\n\nb"
