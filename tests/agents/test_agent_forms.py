"""An agent that a suite says by its form: what fits acts, what does not is told before anything starts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pytest_agenteval import ProblemsFound
from pytest_agenteval import run as run_task
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
def answer(question):
    return question


def misnamed(q, temperature, history=()):
    return q


also_misnamed = misnamed


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
        "  hint:     give each a value: `agent: {call: bot:misnamed, args: {q: content}}`; *",
    ],
    "call: bot:NoRun": [
        "evals/1/suite.yaml:2: agent",
        "  expected: package.module:name of the agent: a function, *",
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
    "call: bot:also_misnamed, args: {q: contnt, question: content}": [
        "evals/7/suite.yaml:2: agent.args.q",
        "  expected: one of question, content, *",
        "  found:    'contnt'",
        "  hint:     did you mean 'content'?",
        "evals/7/suite.yaml:2: agent.args.question",
        "  expected: a parameter of bot:also_misnamed: q, temperature, history",
    ],
    "call: needy:answer": [
        "evals/8/suite.yaml:2: agent",
        "  found:    'needy:answer': ModuleNotFoundError: No module named 'nobodys' (*needy.py:1)",
        "[!h ]*",  # no hint: where it is looked for is not what is wrong
    ],
    "call: bot:misnammed": ["evals/9/suite.yaml:2: agent", "  hint:     did you mean 'misnamed'?"],
    'command: [python, "--ask={content}"]': [
        "evals/10/suite.yaml:2: agent.command[[]1[]]",
        "  found:    '--ask={content}'",
        "  hint:     a command reads the task as a line of JSON from its standard input, *",
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


def hidden(function: Any) -> Any:
    """Decorate a function so that nobody sees its parameters."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return called


def warm(q: str, temperature: float) -> str:
    """Answer, at a temperature that a setting says."""
    return f"{q} at {temperature}"


@pytest.mark.parametrize(
    ("agent", "settings", "answer"),
    [
        (lambda q: q, {}, "hi"),
        (lambda q, /: q, {}, "hi"),
        (lambda q, history=(): f"{q}{len(history)}", {}, "hi0"),
        (lambda q, model: f"{q} {model}", {}, "hi None"),
        (warm, {"temperature": 0.5}, "hi at 0.5"),
        (hidden(lambda q: q), {}, "hi"),
        (partial(warm, temperature=1), {}, "hi at 1"),
    ],
)
def test_the_one_parameter_that_nothing_fills_is_what_the_task_asks(
    agent: Any, settings: dict[str, Any], answer: str
) -> None:
    """A function that somebody has needs no wrapper for what its parameter is called."""
    assert run_task({"input": "hi"}, agent=agent, settings=settings).outcome.answer.text == answer


@pytest.mark.parametrize("agent", [lambda question, k: k, lambda a, b: a, lambda ctx, q: q])
def test_a_second_unknown_parameter_is_refused(agent: Any) -> None:
    """Which of several is meant nobody can tell: the refusal shows how to say it."""
    with pytest.raises(ProblemsFound, match=r"args: \{. ?: content\}"):
        run_task({"input": "hi"}, agent=agent)


def test_args_say_what_parameters_of_any_name_are_given(pytester: pytest.Pytester) -> None:
    """In a conversation too, turn by turn."""
    bot = "def answer(q, said, k=1):\n    return f'{q} {len(said)} {k}'\n"
    form = "name: own\nagent: {call: bot:answer, args: {q: content, said: messages}}\nsettings: {k: 2}\n"
    wants = {"graders": [{"name": "answer_contains", "config": {"text": "hi 1 2"}}]}
    talk = {
        "input": {"turns": ["ho", "hi"]},
        "graders": [{"name": "answer_contains", "config": {"text": "hi 3 2"}}],
    }
    tasks = {"evals/one.yaml": {**TASK, **wants}, "evals/two.yaml": {**TASK, **talk, "id": "talk"}}
    write(pytester.path, {"pytest.ini": "[pytest]\n", "bot.py": bot, "evals/suite.yaml": form, **tasks})

    run(pytester, "evals").assert_outcomes(passed=2)
