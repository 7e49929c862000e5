"""In GitHub Actions: task files are annotated, and nothing that an agent says is a workflow command."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.actions_runner import Command, commands_in
from tests.forked_workers import run_python
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

HOSTILE = """
import logging
import os

COMMANDS = "::stop-commands::mine\\n  ::add-mask::a\\n::set-output name=x::y\\r::error::z\\nx ##[error]old"


class Hostile:
    def run(self, task_input, ctx):
        print(COMMANDS)
        logging.getLogger("agent").warning(COMMANDS)
        if task_input["content"] == "raise":
            raise RuntimeError(COMMANDS)
        if task_input["content"] == "write":  # as a program does that it starts
            os.write(1, f"{COMMANDS}\\nends in no line".encode())
            os.write(2, f"{COMMANDS}\\nends in no line".encode())
        return COMMANDS


def pytest_agenteval_register(registry):
    registry.agent("hostile", Hostile)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Agents that print, log, answer and raise commands; one misses, one fails, one is errored."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    strict = task("strict", agent="hostile")
    write(
        pytester.path,
        {
            "evals/conftest.py": HOSTILE,
            "evals/suite.yaml": "name: hostile\nkind: capability\n",
            "evals/misses.json": task("misses", agent="hostile"),
            "evals/raises.json": task("raises", agent="hostile", input={"content": "raise"}),
            "evals/more/suite.yaml": "name: more\nkind: regression\n",
            "evals/more/strict.json": strict,
        },
    )
    return pytester.path


def our_commands(output: str) -> list[Command]:
    """Give the commands that a runner obeys, without our own that stop all others."""
    return [each for each in commands_in(output) if re.fullmatch("[0-9a-f]{32}", each.data) is None]


@pytest.mark.parametrize(("args", "workers"), [(("-vv",), 1), (("-q", "-rA"), 0)], ids=str)
def test_only_our_own_commands_reach_the_runner(
    pytester: pytest.Pytester, project: Path, args: tuple[str, ...], workers: int
) -> None:
    """What agents print, log, answer and raise is shown, and acts on nothing; three tasks are annotated."""
    result = run(pytester, "evals", "--agent-model=scripted", *args, workers=workers)
    result.assert_outcomes(failed=1, xfailed=1, errors=1)
    output = str(result.stdout)
    commands = our_commands(output)

    assert ":\\u003astop-commands::mine" in output
    assert sorted((each.name, each.properties["file"], each.properties["line"]) for each in commands) == [
        ("error", "evals/more/strict.json", "12"),
        ("error", "evals/raises.json", "2"),
        ("warning", "evals/misses.json", "12"),
    ]
    assert commands_in(str(result.stderr)) == []


@pytest.mark.parametrize("args", [("-s",), ("-n1", "-s", "-p", "xdist.plugin")])
def test_what_programs_write_past_pytest_is_no_command(project: Path, args: tuple[str, ...]) -> None:
    """A program that an agent starts has the job's log for its output, and pytest never sees it."""
    write(project, {"evals/more/strict.json": task("strict", agent="hostile", input={"content": "write"})})
    words = ("-m", "pytest", "evals/more", "--agent-model=scripted", "-q", *args)
    log = run_python(*words, stderr=subprocess.STDOUT)
    commands = our_commands(log.stdout)

    assert "add-mask" in log.stdout
    assert [each.properties.get("file") for each in commands] == ["evals/more/strict.json"]


def test_annotations_can_be_left_out_and_are_made_nowhere_else(
    pytester: pytest.Pytester, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--agent-annotations=no`` prints none; outside of Actions nothing is changed either."""
    result = run(pytester, "evals", "--agent-model=scripted", "--agent-annotations=no")
    assert our_commands(str(result.stdout)) == []
    monkeypatch.delenv("GITHUB_ACTIONS")
    output = str(run(pytester, "evals/more", "--agent-model=scripted").stdout)
    assert "::error file" not in output
    assert "\n::stop-commands::mine\n" in output


def test_a_verb_that_shows_a_run_prints_no_command(
    pytester: pytest.Pytester, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that looks at a stored run reads the same foreign texts."""
    run(pytester, "evals", "--agent-model=scripted")
    capsys.readouterr()
    main(["report", "latest", "-v"])

    assert "add-mask" in (text := capsys.readouterr().out)
    assert commands_in(text) == []
