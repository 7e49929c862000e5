"""The command that a missing recording is told with: typed as it stands, it records what was missed."""

from __future__ import annotations

import shlex
from dataclasses import replace

from pytest_agenteval.engine.trial_resources import open_tool_tape
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Conditions, Model, Plan
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import plan, registry

LOOK = Tool(ToolSpec("look", taped=True), lambda args: None)


def command(planned: Plan, *, names_models: bool = True) -> list[str]:
    """Give the words of the command that a miss of this trial names."""
    tape = open_tool_tape(planned, WorkerContext(registry(), names_models=names_models))
    report = str(tape.miss(ToolCall("c", 1, 0, "look", {"q": "서울"}), LOOK))
    return shlex.split(report.partition("record it:")[2])


def test_the_same_model_is_asked_again() -> None:
    """Another model would ask something else, and the missed call would still be missing."""
    planned = replace(
        plan("L1-001", file="evals/a.yaml", cassette="cassettes/a"), model=Model("gpt", "openai/x")
    )
    assert command(planned) == [
        "pytest",
        "evals/a.yaml",
        "-k",
        "L1-001",
        "--agent-record=new_episodes",
        "--agent-model=gpt",
    ]


def test_what_nobody_chose_need_not_be_named() -> None:
    """An agent asks its own models unless settings say otherwise; then the command has to."""
    planned = replace(plan(file="evals/a.yaml", cassette="cassettes/a"), model=Model("own", "own"))
    assert command(planned, names_models=False)[-1] == "--agent-record=new_episodes"
    assert command(planned)[-1] == "--agent-model=own"


def test_judges_are_asked_again_too() -> None:
    """Their recordings may be what is missing; no other judges would make those."""
    judged = Conditions(judges=(Model("gpt", "openai/x"), Model("claude", "anthropic/y")))
    assert command(plan(file="evals/a.yaml", cassette="cassettes/a", conditions=judged))[-1] == (
        "--agent-judge=gpt,claude"
    )


def test_a_path_with_a_space_is_one_word() -> None:
    """A shell would take it for two files."""
    assert command(plan(file="evals/my tasks/a.yaml", cassette="cassettes/a"))[1] == "evals/my tasks/a.yaml"
