"""An agent that a suite says by its form: what fits acts, what does not is told before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval import run as run_task
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
def answer(question):
    return question


def misnamed(q, temperature, history=()):
    return q


class NoRun:
    pass
"""
TASK = {
    "id": "hi",
    "input": {"content": "hi"},
    "graders": [{"name": "answer_contains", "config": {"text": "hi"}}],
}
WRONG = {
    "call: bot:misnamed": [
        "evals/0/suite.yaml:2: agent",
        "  expected: parameters that are filled by their names: question, content, *",
        "  found:    bot:misnamed(q, temperature)",
        "  hint:     any other needs a default, or a value: `settings: {q: ...}`",
    ],
    "call: bot:NoRun": [
        "evals/1/suite.yaml:2: agent",
        "  expected: package.module:name of what acts: a function, *",
        "  found:    bot:NoRun is <class 'bot.NoRun'>, which is no function, and has no run",
    ],
    "call: bto:answer": [
        "evals/2/suite.yaml:2: agent",
        "  found:    'bto:answer': ModuleNotFoundError: No module named 'bto'",
        "  hint:     modules are looked for in * and wherever Python looks",
    ],
    "call: bot:answer, output: text": [
        "evals/3/suite.yaml:2: agent.output",
        "  expected: no such key: only an agent by `command` has it",
        "  found:    an agent by `call`",
    ],
    "command: [python], answer: text": [
        "evals/4/suite.yaml:2: agent.answer",
        "  expected: no such key: only an agent by `http` has it",
    ],
    'http: "http://127.0.0.1:9/"}\nproxy: {API: "http://127.0.0.1:9"': [
        "evals/5/suite.yaml:3: proxy",
        "  expected: no such key: only an agent by `command` has it",
    ],
    "command: [python]}\nenv: {PORT: 8000": ["evals/6/suite.yaml:3: env.PORT", "  expected: a text"],
    "call: needy:answer": [
        "evals/7/suite.yaml:2: agent",
        "  found:    'needy:answer': ModuleNotFoundError: No module named 'nobodys' (*needy.py:1)",
        "[!h ]*",  # no hint: where it is looked for is not what is wrong
    ],
}


def test_what_is_wrong_with_a_form_is_told_at_its_key(pytester: pytest.Pytester) -> None:
    """No suite with a form that cannot act, or with keys that nothing looks at, starts a trial."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "bot.py": BOT, "needy.py": "import nobodys\n"})
    for at, form in enumerate(WRONG):
        write(pytester.path, {f"evals/{at}/suite.yaml": f"name: s{at}\nagent: {{{form}}}\n"})
        write(pytester.path, {f"evals/{at}/hi.yaml": TASK})

    result = run(pytester, "evals", "--continue-on-collection-errors")

    result.assert_outcomes(errors=len(WRONG))
    for lines in WRONG.values():
        result.stdout.fnmatch_lines(lines)


class Polite:
    """Acts when it is called, and not by ``run``."""

    def __init__(self, word: str = "please") -> None:
        self.word = word

    def __call__(self, question: str) -> str:
        """Answer."""
        return f"{question} {self.word}"


def by_place(question: str, /) -> str:
    """Answer."""
    return f"{question} please"


@pytest.mark.parametrize("agent", [Polite, Polite("please"), by_place])
def test_whatever_can_be_called_acts(agent: Any) -> None:
    """Classes and objects that are called, and parameters that have no name for callers, need no wrapper."""
    assert run_task({"input": "hi"}, agent=agent).outcome.answer.text == "hi please"
