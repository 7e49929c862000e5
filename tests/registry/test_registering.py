"""Agents, graders, models and tools that a project offers from its conftests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

POLITE = """
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agenteval.records.evidence import Check, Grade

if TYPE_CHECKING:
    from nowhere import Manners

@dataclass(frozen=True)
class Polite:
    word: str = "please"
    version: str = "1"

    def grade(self, evidence):
        found = self.word in evidence.answer
        return Grade.from_checks("polite", [Check("is polite", found, self.word, evidence.answer)])

def pytest_agenteval_register(registry):
    registry.grader("polite", Polite)
"""
ACTING = """
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool

class Parrot:
    def run(self, task_input, ctx):
        return Answer(task_input["content"])

class Yes:
    async def ask(self, messages, **more):
        return Reply("yes")

def pytest_agenteval_register(registry):
    registry.agent("parrot", Parrot)
    registry.model("yes", lambda model, plan: Yes())
    registry.tool(Tool(ToolSpec("clock", "Tells the time.", {"type": "object"}), lambda args: "noon"))
"""


def polite(id: str, **config: Any) -> dict[str, Any]:
    """Give a task whose grader a conftest offers."""
    return task(id, says="Tea, please!", graders=[{"name": "polite", "config": config}])


def test_a_conftest_offers_graders(pytester: pytest.Pytester) -> None:
    """A grader of the root's conftest serves every suite, with its own settings."""
    tasks = {"evals/a/task.json": polite("fine"), "evals/b/task.json": polite("rude", word="kindly")}
    write(pytester.path, {"conftest.py": POLITE, "evals/suite.yaml": suite(), **tasks})

    result = run(pytester)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*is polite*"])


def test_a_conftests_settings_are_checked_like_ours(pytester: pytest.Pytester) -> None:
    """A dataclass needs no more than its fields to have its settings checked, names and types."""
    write(pytester.path, {"conftest.py": POLITE, "evals/suite.yaml": suite()})
    write(pytester.path, {"evals/many.json": [polite("a", wrod="x"), polite("b", word=5)]})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*?0?.graders?0?.config.wrod",
            "*one of word",
            "*",
            "*did you mean 'word'?",
            "*?1?.graders?0?.config.word",
            "*a text",
            "*5 (number)",
        ]
    )


def test_a_conftest_further_down_offers_graders_to_what_lies_beside_it(pytester: pytest.Pytester) -> None:
    """It is loaded before the task files beside it; files collected before it do not know the name."""
    files = {
        "evals/suite.yaml": suite(),
        "evals/early/task.json": polite("early"),
        "evals/late/conftest.py": POLITE,
        "evals/late/task.json": polite("late"),
    }
    write(pytester.path, files)

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["evals/early/task.json:*: graders?0?.name", "*", "*'polite'"])


def test_a_conftest_offers_agents_models_and_tools(pytester: pytest.Pytester) -> None:
    """An agent that is no coroutine, an offline model of one's own, a tool by its name."""
    parrot = task("echo", agent="parrot", wants="Say hello")
    clock = [{"calls": [{"tool": "clock"}]}, {"text": "It is noon."}]
    offered = task("time", settings={"tools": ["clock"]}, script=clock, wants="noon")
    asked = task("ask", wants="yes", says="no")
    write(pytester.path, {"conftest.py": ACTING, "evals/suite.yaml": suite()})
    write(pytester.path, {"evals/a.json": parrot, "evals/b.json": offered, "evals/c.json": asked})

    result = run(pytester, "-k", "not ask", "--agent-record=new_episodes", workers=2)
    result.assert_outcomes(passed=2)

    run(pytester, "evals/c.json", "--agent-model=yes").assert_outcomes(passed=1)


def test_a_second_claim_further_down_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """Also where the second conftest is loaded in the midst of collecting: both are shown, nothing is run."""
    files = {"conftest.py": POLITE, "evals/suite.yaml": suite(), "evals/task.json": polite("fine")}
    write(pytester.path, {**files, "evals/down/conftest.py": POLITE, "evals/down/task.json": polite("other")})

    result = run(pytester)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (pytester.path / ".agenteval").exists()
    text = str(result.stdout) + str(result.stderr)
    assert "registry.py" not in text
    assert f"'polite' is taken: by {pytester.path}/conftest.py:20" in text
    assert f"and again by {pytester.path}/evals/down/conftest.py:20" in text


@pytest.mark.parametrize("folder", ["", "down/"])
def test_a_built_in_name_cannot_be_claimed_again(pytester: pytest.Pytester, folder: str) -> None:
    """Nobody gets another grader than the one that a task file names.

    What a conftest offers is taken when it is loaded, and not only when a task first needs a name.
    """
    conftest = POLITE.replace('"polite", Polite', '"answer_contains", Polite')
    write(pytester.path, {f"{folder}conftest.py": conftest, "down/test_plain.py": "def test_plain(): pass\n"})

    result = pytester.runpytest()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = str(result.stdout) + str(result.stderr)
    assert re.search(
        r"'answer_contains' is taken: by .*installed.py:\d+, and again by .*conftest.py:20", text
    )
    assert "Traceback" not in text


BOT = """
class Bot:
    def run(self, task_input, ctx):
        return "Hello, Mina!"
"""
REGISTERING = "def pytest_agenteval_register(registry):\n    {body}\n"


def registering(body: str, folder: str = "evals") -> dict[str, Any]:
    """Give a project with a package of its own, and a conftest below it whose hook does this."""
    return {
        "bots/__init__.py": "",
        "bots/bot.py": BOT,
        "bots/broken.py": "\nimport no_such_module\n",
        "evals/suite.yaml": suite(),
        "evals/down/task.json": task("greet", agent="bot"),
        f"{folder}/conftest.py": REGISTERING.format(body=body),
    }


@pytest.mark.parametrize("folder", ["evals", "evals/down"])
def test_a_conftest_further_down_imports_the_projects_own_package(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Modules are looked for in the root, as those that ``call:`` in suite.yaml names."""
    monkeypatch.syspath_prepend(pytester.mkdir("elsewhere"))  # which restores the path afterwards
    write(pytester.path, registering("from bots.bot import Bot; registry.agent('bot', Bot)", folder))

    run(pytester, "--rootdir=.", "evals").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("folder", "body", "says"),
    [
        ("evals", "raise ValueError('boom')", "raised ValueError: boom"),
        ("evals/down", "registry.nosuch()", "raised AttributeError: *nosuch*"),
        ("evals", "import bots.broken", "raised ModuleNotFoundError: *no_such_module*broken.py:2)"),
        ("evals/down", "import pytest; pytest.skip('not today')", "raised Skipped: not today*"),
    ],
)
def test_a_hook_that_raises_is_one_line_with_its_place(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, folder: str, body: str, says: str
) -> None:
    """The author's mistake shows no traceback, whenever the conftest is loaded."""
    monkeypatch.syspath_prepend(pytester.mkdir("elsewhere"))
    write(pytester.path, registering(body, folder))

    result = run(pytester, "--rootdir=.", "evals")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{folder}/conftest.py:2: pytest_agenteval_register {says}"])
    text = str(result.stdout) + str(result.stderr)
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


def test_a_misspelt_hook_is_told_with_the_name_that_is_near(pytester: pytest.Pytester) -> None:
    """Nobody would ever call it."""
    misspelt = "def pytest_agenteval_registr(registry): pass\n"
    write(pytester.path, {"conftest.py": misspelt, "evals/task.json": task("greet")})

    result = run(pytester)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *conftest.py: unknown hook *did you mean 'pytest_agenteval_register'?"]
    )
