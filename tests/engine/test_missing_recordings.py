"""The command that a missing recording is told with: typed as it stands, it records what was missed."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from pytest_agenteval.engine.executor import ExecutorContext
from pytest_agenteval.engine.trial_resources import open_tool_tape
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Conditions, Model, Plan, Variant
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import plan, registry

LOOK = Tool(ToolSpec("look", taped=True), lambda args: None)
LOOKED = ToolCall("c", 1, 0, "look", {"q": "서울"})


def command(planned: Plan, *, names_models: bool = True) -> list[str]:
    """Give the words of the command that a miss of this trial names."""
    tape = open_tool_tape(planned, WorkerContext(registry(), ExecutorContext(names_models=names_models)))
    report = str(tape.miss(LOOKED, LOOK))
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


def test_what_selected_the_trial_selects_it_again() -> None:
    """A command without it would record the task's other trials, or nothing."""
    planned = plan(file="evals/a.yaml", cassette="cassettes/a", split="held_out")
    variant = Variant("my short", {"system": "Be short."}, "prompts/short v2.md")
    planned = replace(planned, variant=variant, repetition=3, conditions=Conditions(seed=7))

    assert command(planned)[-4:] == [
        "--repetitions=3",
        "--agent-prompt=my short=prompts/short v2.md",
        "--agent-split=held_out",
        "--agent-seed=7",
    ]


def test_repetitions_are_those_of_the_run() -> None:
    """The trials of a task that miss the same name the same command; a task's own number needs no option."""
    planned = plan(file="evals/a.yaml", cassette="cassettes/a", repetitions=2)
    context = WorkerContext(registry(), ExecutorContext(repetitions=4))

    assert "--repetitions=4" in str(open_tool_tape(planned, context).miss(LOOKED, LOOK))
    assert "--repetitions" not in " ".join(command(replace(planned, repetition=2)))


@pytest.mark.parametrize("id", ["a@b", "not", "#1", "f(x)"])
def test_a_task_that_no_keyword_finds_is_named_by_its_node_id(id: str) -> None:
    """``-k`` reads a language of its own."""
    assert command(plan(id, file="evals/a.yaml", cassette="cassettes/a"))[1] == f"evals/a.yaml::{id}"
