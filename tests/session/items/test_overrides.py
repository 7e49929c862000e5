"""pytest fixtures of ours that a conftest replaces, and fixtures that a user adds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

# Says what it finds in its workspace, and what it is asked.
LOOKING = """
import pytest
from dataclasses import replace
from pathlib import Path
from pytest_agenteval.records.evidence import Answer

class Looker:
    async def run(self, task_input, ctx):
        found = sorted(path.name for path in Path(ctx.workspace.path).rglob("*"))
        return Answer(" ".join([task_input["content"], *found]))

def pytest_agenteval_register(registry):
    registry.agent("looker", Looker)
"""


def looking(conftest: str, wants: str, **more: Any) -> dict[str, Any]:
    """Give a suite whose agent says what it sees, below a conftest."""
    return {
        "conftest.py": LOOKING + conftest,
        "evals/suite.yaml": suite(more="agent: looker\n"),
        "evals/look/task.json": task("look", wants=wants, trials_per_run=2, **more),
        "evals/look/workspace/notes/own.md": "mine",
    }


ADDED = """
@pytest.fixture
def workspace(workspace):
    (workspace / "added").touch()
    return workspace
"""
NEW = """
@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "new").touch()
    return tmp_path
"""
OTHER = """
@pytest.fixture
def task(task):
    return replace(task, input={"content": "Other!"})
"""


READS_ENDING = """
@pytest.fixture
def trial(trial):
    with open("seen", "a") as seen:
        seen.write(trial.ending)
    return trial
"""


@pytest.mark.parametrize(
    ("conftest", "wants", "workers"),
    [
        ("", "own.md", 0),
        (ADDED, "added", 0),
        (NEW, "new", 1),
        (OTHER, "Other!", 0),
        (READS_ENDING, "own.md", 0),
    ],
    ids=["plain", "changed workspace", "new workspace", "changed task", "the trial that ended"],
)
def test_a_conftest_changes_what_the_agent_is_given(
    pytester: pytest.Pytester, conftest: str, wants: str, workers: int
) -> None:
    """``workspace`` and ``task`` may be replaced, or filled by one's own fixture, for each trial anew.

    A ``trial`` fixture of its own is called too; where trials cannot begin ahead, each is run once.
    """
    write(pytester.path, looking(conftest, wants))

    run(pytester, workers=workers).assert_outcomes(passed=2)

    assert journaled(pytester.path) == ["look[scripted-1]", "look[scripted-2]"]
    assert conftest != READS_ENDING or (pytester.path / "seen").read_text() == "passed" * 2


def test_a_conftest_changes_the_cassette(pytester: pytest.Pytester) -> None:
    """Where tools are played from is a fixture too."""
    conftest = "@pytest.fixture\ndef cassette(tmp_path):\n    return tmp_path / 'elsewhere.yaml'"
    searching = """
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool

def pytest_agenteval_register(registry):
    registry.tool(Tool(ToolSpec("search", taped=True), lambda args: "found"))
"""
    script = [{"calls": [{"tool": "search"}]}, {"text": "Mina"}]
    greet = task("greet", script=script, settings={"tools": ["search"]})
    files = {"conftest.py": f"import pytest\n{searching}\n{conftest}\n", "evals/suite.yaml": suite()}
    write(pytester.path, files | {"evals/task.json": greet})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*elsewhere.yaml: search()*"])


@pytest.mark.parametrize("scope", ["class", "session"])
def test_a_workspace_that_trials_would_share_is_refused(pytester: pytest.Pytester, scope: str) -> None:
    """At collection, at the fixture's own line, with what to use instead."""
    conftest = f"@pytest.fixture(scope='{scope}')\ndef workspace(tmp_path_factory):\n    return None\n"
    write(pytester.path, looking(conftest, "hello"))

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "conftest.py:14: workspace",
            "  expected: a fixture of function scope: nothing is shared between trials",
            f"  found: *scope '{scope}'",
            "  hint: *base_fixture*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


PARAMETRIZED = """
@pytest.fixture(autouse=True, params=["sun", "rain"])
def weather(request):
    return request.param
"""
GENERATING = """
def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("weather")
    metafunc.parametrize("weather", ["sun", "rain"])
"""


@pytest.mark.parametrize(
    ("conftest", "workers"),
    [(PARAMETRIZED, 1), (GENERATING, 0)],
    ids=["fixture-one-worker", "hook"],
)
def test_somebody_elses_parameters_multiply_the_trials(
    pytester: pytest.Pytester, conftest: str, workers: int
) -> None:
    """Each combination is a trial of its own variant: run once, journaled once, found by its name."""
    write(pytester.path, looking(conftest, "own.md"))
    write(pytester.path, {"evals/again.json": task("again", wants="hello")})

    names = [name.rpartition("::")[2] for name in collected_ids(pytester)]
    result = run(pytester, workers=workers)

    assert len(names) == len(set(names)) == 6
    assert all(("sun" in name) != ("rain" in name) for name in names)
    result.assert_outcomes(passed=6)
    assert journaled(pytester.path) == sorted(
        f"{task}[scripted@{weather}-{repetition}]"
        for task, repetition in (("again", 1), ("look", 1), ("look", 2))
        for weather in ("rain", "sun")
    )
