"""Files that only a trial comes upon: broken ones, and cassettes that cannot be written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.engine.executor import ExecutorContext, ExecutorReport, TrialRequest
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import Conditions, Plan
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import execute, plan, registry

LOOK = {"script": ({"calls": [{"tool": "look"}]}, {"text": "Hello, Mina!"})}
RECORDING = Conditions(record="once")


def looking(id: str, **more: Any) -> Plan:
    """Plan a trial that calls a taped tool once, and then says hello."""
    settings = {"tools": ["look"]}
    return plan(id, cassette=f"cassettes/{id}", conditions=RECORDING, settings=settings, **LOOK, **more)


def run_plans(root: Path, *plans: Plan) -> tuple[list[Trial], ExecutorReport]:
    """Carry out plans one after the other, as a run does, and close."""
    known = registry()
    known.agent("careless", Careless)
    known.tool(Tool(ToolSpec("look", taped=True), lambda args: "seen"))
    executor = LocalExecutor(known)

    async def all_of_them() -> tuple[list[Trial], ExecutorReport]:
        await executor.ready(ExecutorContext(root=str(root)))
        trials = [await executor.run(TrialRequest(each)) for each in plans]
        return trials, await executor.close()

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("broken", ["cassettes/t.yaml", "tools.yaml"])
def test_a_broken_file_is_told_with_its_line_and_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """It is no crash: whoever wrote the file can mend it, and the cause says that it is a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cassettes").mkdir()
    (tmp_path / broken).write_text("interactions: [{a: }\n: b\n", encoding="utf-8")
    planned = looking("t") if "cassettes" in broken else looking("t", tools=(str(tmp_path / broken),))

    (trial,), _ = run_plans(tmp_path, planned)

    assert (trial.ending, trial.cause, trial.traceback) == ("errored", "file_problem", "")
    assert trial.message.startswith(f"{broken}:")
    assert "  expected: " in trial.message


@dataclass(frozen=True)
class Careless:
    """An agent that takes every failure of a tool for an answer."""

    tools: Sequence[str] = ()

    async def run(self, task_input: Any, ctx: Any) -> Answer:
        with suppress(Exception):
            await ctx.tools.call(ToolCall("c", 1, 0, "look", {}))
        return Answer("Hello, Mina!")


def test_an_agent_that_swallows_it_hides_no_broken_cassette(tmp_path: Path) -> None:
    """The right answer was given without the tool: there is nothing to grade."""
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "t.yaml").write_text("interactions: [{a: }\n: b\n", encoding="utf-8")

    (trial,), _ = run_plans(tmp_path, looking("t", agent="careless"))

    assert (trial.ending, trial.cause) == ("errored", "file_problem")


def test_a_cassette_that_cannot_be_written_breaks_its_own_trial_only(tmp_path: Path) -> None:
    """What that trial did is kept all the same, the others' recordings are, and the end tells it again."""
    (tmp_path / "cassettes" / ".b.yaml.lock").mkdir(parents=True)  # where its lock would be

    (a, b, c), report = run_plans(tmp_path, looking("a"), looking("b"), looking("c"))

    assert [(each.ending, each.cause) for each in (a, b, c)] == [
        ("passed", ""),
        ("errored", "file_problem"),
        ("passed", ""),
    ]
    assert "a file that can be written" in b.message
    assert [call.result for call in b.transcript.calls] == ["seen"]
    assert sorted(path.name for path in (tmp_path / "cassettes").glob("*.yaml")) == ["a.yaml", "c.yaml"]
    assert [problem.file for problem in report.unsaved] == ["cassettes/b.yaml"]


class Sheltered:
    """Goes on with an answer of its own whatever breaks in what it is given."""

    templates: ClassVar[dict[str, str]] = {"hello": "Say hello to {{ name }}."}

    async def run(self, task_input: object, ctx: AgentContext) -> Answer:
        """Ask for the workspace and for a prompt, and then say hello to Mina."""
        with suppress(Exception):
            ctx.path.joinpath("note.txt").write_text("Mina")
        with suppress(Exception):
            ctx.prompts.render("hello", name="Mina")
        return Answer("Hello, Mina!")


def fifo_below(folder: Path) -> dict[str, Any]:
    """Give a task a starting tree that holds a pipe, which cannot be copied."""
    (folder / "start").mkdir()
    os.mkfifo(folder / "start" / "pipe")
    return {"layers": (str(folder / "start"),)}


BREAKS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "a workspace": (fifo_below, "fixture"),
    "a prompt": (lambda folder: {"prompts": {"hello": "Say {{ nothing }}."}}, "prompt"),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_what_breaks_in_what_an_agent_is_given_breaks_the_trial_though_it_goes_on(
    tmp_path: Path, broken: str
) -> None:
    """An answer without the workspace or the prompt that the task has says nothing of the agent."""
    known = registry()
    known.agent("sheltered", Sheltered)
    made, cause = BREAKS[broken]

    (trial,) = execute(known, plan("t", agent="sheltered", **made(tmp_path)))

    assert (trial.ending, trial.cause) == ("errored", cause), trial.message
