"""A judge in one line: what is no name and no path is the question itself."""

from __future__ import annotations

import pytest

from pytest_agenteval.graders.judge.judge_grader import JudgeGrader
from pytest_agenteval.graders.judge.rubric import is_question, packaged_rubric, question_rubric
from tests.graders.judge.judges import judge, run
from tests.graders.judge.test_grader import evidence, prompt
from tests.journals import latest_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run as run_pytest
from tests.suites import write

pytest_plugins = ["pytester"]

QUESTION = 'Is the reply polite,\n  and "to the point" {{ task }}?'


def test_the_judge_is_asked_the_question() -> None:
    """Between request, calls and reply, from 1 to 5; the question is data and no template."""
    asked = judge('{"reply": 4, "rationale": "friendly"}')
    grade = run(JudgeGrader(QUESTION).with_judges((asked,)).grade(evidence()))
    assert (grade.score, grade.rationale) == (0.75, "reply 0.75: friendly")
    text = prompt(asked)
    assert '- reply: Is the reply polite, and "to the point" {{ task }}?' in text
    assert 'name="task">\nSay hello.\n<' in text
    assert 'name="answer">\nHello, Mina!\n<' in text
    assert '1. look({"at": "Mina"})' in text


def test_every_question_is_a_rubric_of_its_own() -> None:
    """Its digest is part of the ruler's; line breaks and spaces make no other question."""
    digests = {
        question_rubric(text).digest() for text in ("Is it polite?", "Is it  polite?\n", "Is it kind?")
    }
    assert len(digests) == 2
    assert question_rubric(QUESTION).dimensions[0].says == " ".join(QUESTION.split())
    assert packaged_rubric("task_fulfilment").name == "task_fulfilment"


@pytest.mark.parametrize(
    "text", ["Is it polite?", "Polite?", "예의 바른가요?", "丁寧ですか", "Is it polite and/or kind"]
)
def test_a_question_needs_no_form(text: str) -> None:
    """Any text that is neither like a name nor like a path is one, in any language."""
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    ["polite", "rubrics/polit.jinja", "my rubrics/polit.jinja", "rubrics/polite.md", "a/b", "정중.jinja"],
)
def test_a_name_or_path_is_no_question(text: str) -> None:
    """So that a misspelt one stays a mistake."""
    assert not is_question(text)


@pytest.mark.usefixtures("quick")
def test_a_misspelt_file_is_a_problem_and_an_absent_judge_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a judge the trial is no pass; the run's last command, with a model in it, has it judged."""
    task = """id: hello
input: Say hello to Mina.
script: [{text: "Hello, Mina!"}]
graders: [{name: judge, config: {rubric: RUBRIC}}]
"""
    suite = "name: letters\nkind: regression\ndefaults: {model: scripted}\n"
    write(
        pytester.path,
        {
            "evals/suite.yaml": suite,
            "evals/rubrics/polite.jinja": "",
            "evals/hello.yaml": task.replace("RUBRIC", "rubrics/polit.jinja"),
        },
    )
    result = run_pytest(pytester, "evals")
    result.stdout.fnmatch_lines(
        ["evals/hello.yaml:4: graders[[]0[]].config.rubric", "*did you mean 'rubrics/polite.jinja'?"]
    )
    write(pytester.path, {"evals/hello.yaml": task.replace("RUBRIC", "rubrics/polite.md")})
    result = run_pytest(pytester, "evals")
    result.stdout.fnmatch_lines(
        ["*config.rubric", "*found: *'rubrics/polite.md'", "*the name of a rubric's file ends in .jinja"]
    )
    write(pytester.path, {"evals/hello.yaml": task.replace("RUBRIC", "Is it polite?")})
    result = run_pytest(pytester, "evals")
    result.stdout.fnmatch_lines(
        [
            "*no judge: add --agent-judge=MODEL*",
            "next: pytest evals --agent-regrade=* --agent-judge=MODEL*",
        ]
    )
    (line,) = [line for line in result.outlines if line.startswith("next: ")]
    with ModelServer([ReplyPlan(text='{"reply": 2, "rationale": "It is curt."}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        judged = run_pytest(pytester, *line.replace("MODEL", "openai/gpt-5-mini").split()[2:5])
    judged.stdout.fnmatch_lines(["*judge  0.25, needs 0.60  reply 0.25: It is curt."])
    (entry,) = latest_run(pytester.path).entries
    assert entry.grades[0].rationale == "reply 0.25: It is curt."
