"""Plays the Korean tasks without an agent: answers by a task's facts, calls by its recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.graders.answers import AnswerMatches
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult
from pytest_agenteval.tools.tool_tape import ToolTape
from tests.graders.sample_evidence import files_evidence
from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[4]
HERE = Path(__file__).parent
TOOLS = korean_tools()
HELD = Library(ROOT)


@cache
def read(file: Path) -> Any:
    """Read a YAML file once."""
    return read_yaml(file)


def names(levels: Iterable[str]) -> list[str]:
    """Give the tasks of some levels, in order."""
    return sorted(file.stem for level in levels for file in (ROOT / "evals" / "ko" / level).iterdir())


def task(name: str) -> Any:
    """Give a task as its file has it."""
    return read(ROOT / "evals" / "ko" / name[:2] / f"{name}.yaml")


def tape(name: str) -> ToolTape:
    """Open the recordings of a task alone."""
    held = HELD.open(Path("cassettes", "ko", name[:2], f"{name}.yaml"), "none", "tool")
    return ToolTape(held, retry_command="")


def says_the_facts(name: str, answer: str) -> bool:
    """Does an answer say the facts of a task? Nothing else of the task is asked."""
    facts = next(grader for grader in task(name)["graders"] if grader["name"] == "answer_matches")
    assert facts["require"]
    return AnswerMatches(**facts["config"]).grade(files_evidence(answer=answer)).score == 1.0


def recorded_result(box: ToolTape, tool: str, args: Mapping[str, Any]) -> ToolResult | None:
    """Give what a tool's recording answers to a call, or None."""
    return box.play(ToolCall("c", 1, 0, tool, args), TOOLS[tool])


def unanswered(name: str, calls: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Give the calls, each of an offered tool, that have no recording or are answered with an error."""
    box = tape(name)
    for tool, args in (item for call in calls for item in call.items()):
        assert tool in task(name)["settings"]["tools"]
        result = recorded_result(box, tool, args)
        if result is None or result.error is not None:
            yield tool, args


def texts_before_last_question(name: str) -> Iterator[str]:
    """Give all that was said and found before the last question of a task, each piece as a text."""
    for turn in task(name)["input"].get("turns", ()):
        yield str(turn.get("content", ""))
        yield from (str(call["result"]) for call in turn.get("calls", ()))
