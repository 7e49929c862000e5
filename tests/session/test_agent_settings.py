"""Settings that an agent does not take: told with file, line and key, wherever and however it is made."""

from __future__ import annotations

import re

import pytest

from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

AGENTS = '''
from dataclasses import dataclass
from typing import Literal

import pydantic


class Typed:
    def __init__(self, *, tone: Literal["dry", "wet"] = "dry", size: "int" = 3):
        self.size = size + 1

    def run(self, task_input, ctx):
        return "Mina"


class Inherits(Typed):
    def __init__(self, **settings):
        super().__init__(**settings)


class Placed:
    def __init__(self, tone, /):
        """By its place only."""

    run = Typed.run


class Model(pydantic.BaseModel):
    size: int = pydantic.Field(default=3, ge=1)

    @pydantic.field_validator("size")
    def is_odd(cls, value):
        if value % 2 == 0:
            raise ValueError("sizes are odd")
        return value

    def run(self, question):
        return "Mina"


@dataclass
class Data:
    size: int = 3

    def run(self, question):
        return "Mina"


class Made:
    def __new__(cls, tone="dry"):
        return object.__new__(cls)

    def run(self, question):
        return "Mina"


class Called:
    def __init__(self, tone="dry"):
        """Takes a setting."""

    def __call__(self, question, size=1):
        return "Mina"


class Static:
    @staticmethod
    def run(question):
        return "Mina"


class AnyOf:
    def __init__(self, **settings):
        if settings.keys() - {"tone"}:
            raise TypeError("only tone")

    def run(self, question):
        return "Mina"


class Idle:
    """Does nothing."""


def makes(size: int = 3):
    return Typed(size=size)


def acts(question, tone, size: int = 3):
    return "Mina"


def placed(question, /, tone="dry"):
    return "Mina"


def takes_any(question, **settings):
    return "Mina"


def pytest_agenteval_register(registry):
    for agent in (Typed, Inherits, Placed, makes):
        registry.agent(agent.__name__.lower(), agent)
    registry.agent("model", type("Acting", (Model,), {"run": Typed.run}))
'''

REFUSED = [
    ("typed", "{tune: dry}", "settings.tune", "one of size, tone", "unknown key 'tune'", "'tone'?"),
    ("makes", "{tune: 3.5}", "settings.tune", "one of size", "unknown key 'tune'"),
    ("placed", "{tone: dry}", "agent", "an agent: a class", "Placed, whose tone cannot be given by name"),
    (
        "{call: bots:acts}",
        "{}",
        "agent",
        "parameters that are filled by their names: question",
        "bots:acts(tone)",
    ),
    ("{call: bots:takes_any}", "{question: x}", "settings.question", "no setting: ", "'question'"),
    ("{call: bots:Data}", "{size: big}", "settings.size", "a valid integer", "'big' (text)"),
    ("{call: bots:Made}", "{tune: x}", "settings.tune", "one of tone", "unknown key 'tune'", "'tone'?"),
    ("{call: bots:Idle}", "{}", "agent", "package.module:name of what acts", "bots:Idle is <class"),
]
"""What the suite says of its agent, its settings, the key, and what is expected and found there."""

TAKEN = [
    ("typed", "{size: 4, tone: wet}"),
    ("model", "{size: 1}"),
    ("{call: bots:Model}", "{size: 5}"),
    ("{call: bots:Made}", "{tone: wet}"),
    ("{call: bots:Called}", "{tone: wet, size: 2}"),
    ("{call: bots:Static}", "{}"),
    ("{call: bots:AnyOf}", "{tone: wet}"),
    ("{call: bots:placed}", "{tone: wet}"),
    ("{call: bots:takes_any}", "{anything: 1}"),
]
TASK = "id: t\ninput: {content: x}\ngraders: [{name: answer_contains, config: {text: Mina}}]\n"


def a_suite(name: str, agent: str, of_suite: str = "", of_task: str = "") -> dict[str, str]:
    """Give a suite of one task, with lines of the suite's and of the task's."""
    suite = f"name: {name}\nkind: capability\nagent: {agent}\n{of_suite}"
    return {f"evals/{name}/suite.yaml": suite, f"evals/{name}/t.yaml": f"{TASK}{of_task}"}


def test_what_is_not_taken_is_told_when_tasks_are_collected(pytester: pytest.Pytester) -> None:
    """Of classes, models, dataclasses, factories and functions, registered and named by ``call``."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    for number, (agent, settings, *_) in enumerate(REFUSED):
        write(pytester.path, a_suite(f"s{number:02}", agent, of_task=f"settings: {settings}\n"))
    pytester.syspathinsert()

    result = run(pytester, "evals")

    result.assert_outcomes(errors=len(REFUSED))
    screen = result.stdout.str().partition("short test summary")[0]
    parts = re.split(r"^(?=evals/)", screen, flags=re.MULTILINE)[1:]
    for number, ((_, _, key, expected, found, *hint), part) in enumerate(zip(REFUSED, parts, strict=True)):
        place, line, key_there = re.match(r"(\S+):(\d+): (\S+)\n", part).groups()
        file, at = ("suite.yaml", "3") if key == "agent" else ("t.yaml", "4")
        assert (place, line, key_there) == (f"evals/s{number:02}/{file}", at, key)
        assert f"\n  expected: {expected}" in part
        assert f"\n  found:    {found}" in part
        assert all(f"did you mean {each}" in part for each in hint)
    assert "Traceback" not in screen


def test_what_is_taken_reaches_the_agent(pytester: pytest.Pytester) -> None:
    """By name or by place, in the constructor or in the call, whatever is the agent."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    for number, (agent, settings) in enumerate(TAKEN):
        write(pytester.path, a_suite(f"s{number:02}", agent, of_task=f"settings: {settings}\n"))
    pytester.syspathinsert()
    run(pytester, "evals").assert_outcomes(passed=len(TAKEN))


def test_what_a_constructor_refuses_is_told_without_a_traceback(pytester: pytest.Pytester) -> None:
    """Nobody knows it before a trial begins; it is told where the settings stand, in task or suite."""
    write(pytester.path, {"conftest.py": "from bots import *\n", "bots.py": AGENTS})
    write(pytester.path, a_suite("a", "inherits", of_task="settings:\n  tune: dry\n"))
    write(pytester.path, a_suite("b", "{call: bots:AnyOf}", of_suite="settings: {tune: dry}\n"))
    write(pytester.path, a_suite("c", "inherits", of_suite="defaults:\n  settings: {size: big}\n"))
    write(pytester.path, a_suite("d", "model", of_task="settings: {size: 2}\n"))
    pytester.syspathinsert()

    result = run(pytester, "evals")

    result.assert_outcomes(errors=4)
    told = [
        "file_problem: evals/a/t.yaml:4: settings",
        "  expected: settings that the agent 'inherits' can be made with",
        """  found:    {"tune":"dry"}, and it raised TypeError: *argument 'tune' (*bots.py:*)""",
        "file_problem: evals/b/suite.yaml:4: settings",
        """  found:    {"tune":"dry"}, and it raised TypeError: only tone (*bots.py:*)""",
        "file_problem: evals/c/suite.yaml:5: defaults.settings",
        """  found:    {"size":"big"}, and it raised TypeError: *""",
        "file_problem: evals/d/t.yaml:4: settings",
        """  found:    {"size":2}, and it raised ValidationError: *""",
    ]
    result.stdout.fnmatch_lines(told)
    result.stdout.no_fnmatch_line("*Traceback*")
