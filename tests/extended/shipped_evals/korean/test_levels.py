"""The Korean evals: what a level has to hold so that it measures what it is called after."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import is_error_result
from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult, invalid_arguments
from pytest_agenteval.tools.tool_tape import ToolTape, can_replay
from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[4]
FILES = sorted((ROOT / "evals" / "ko").rglob("L*-*.yaml"))
FEWEST_CANDIDATES = 4
HEAVY = ("litellm", "vcr", "jinja2", "httpx", "requests", "aiohttp", "urllib3")

Task = Mapping[str, Any]


@cache
def tasks() -> Mapping[str, Task]:
    """Read every task, by its id."""
    read = (read_yaml(file) for file in FILES)
    return {task["id"]: task for task in read}


def of_level(*levels: str) -> list[Task]:
    """Give the tasks of some levels."""
    return [task for id, task in tasks().items() if id[:2] in levels]


def metric_settings(task: Task) -> Mapping[str, Any]:
    """Give what the level's metrics know of a task."""
    (config,) = (grader["config"] for grader in task["graders"] if grader["name"] == f"ko_{task['id'][:2]}")
    return config  # type: ignore[no-any-return]  # YAML has no types


def tape_of(task: Task) -> ToolTape:
    """Open the recordings of a task alone."""
    path = Path("cassettes", "ko", task["id"][:2], f"{task['id']}.yaml")
    return ToolTape(Library(ROOT).open(path, "none", "tool"), retry_command="")


def play_action(tape: ToolTape, action: Mapping[str, Any]) -> ToolResult | None:
    """Make a call as an agent would, with arguments that the tool takes."""
    tool = korean_tools()[action["tool"]]
    assert not invalid_arguments(tool.spec, action["args"]), action
    return tape.play(ToolCall("c", 1, 0, tool.spec.name, action["args"]), tool)


@pytest.mark.parametrize("level", ["L1", "L2", "L3", "L4", "L5", "L6", "L7"])
def test_every_tool_that_is_offered_has_recordings(level: str) -> None:
    """An agent that takes another tool than the reference hears something; no recording is out of reach."""
    tools = korean_tools()
    for task in of_level(level):
        requests = tape_of(task).own.cassette.requests
        for name in task["settings"]["tools"]:
            assert any(map(can_replay([tools[name]]), requests)), (task["id"], name)
        assert all(map(can_replay(tools.values()), requests)), task["id"]


def test_the_second_level_offers_something_to_choose_from() -> None:
    """Four tools or more, the right one in no place that could be learnt, and none named in the question."""
    places = Counter[int]()
    for task in of_level("L2"):
        offered, golden = task["settings"]["tools"], metric_settings(task)["golden_action"][0]["tool"]
        assert len(offered) == len(set(offered)) >= FEWEST_CANDIDATES, task["id"]
        assert list(metric_settings(task)["available_tools"]) == list(offered), task["id"]
        assert not [name for name in offered if name in task["input"]["content"]], task["id"]
        places[offered.index(golden)] += 1
    assert len(places) >= FEWEST_CANDIDATES
    assert max(places.values()) <= len(of_level("L2")) / 2


def test_what_the_fifth_level_may_fall_back_on_works() -> None:
    """Each fault strikes the tool that is asked first; each way out is offered, recorded, and no failure."""
    for task in of_level("L5"):
        config, tape = metric_settings(task), tape_of(task)
        struck = {fault["tool"] for fault in task["faults"]}
        assert config["error_injection"]["tool"] in struck, task["id"]
        assert {action["tool"] for action in config["golden_action"]} & struck, task["id"]
        for action in config["fallback_options"]:
            assert action["tool"] in task["settings"]["tools"], task["id"]
            answer = play_action(tape, action)
            assert answer is not None, (task["id"], action)
            assert answer.error is None, (task["id"], action)
            assert not is_error_result(answer.value), (task["id"], action)


def test_conversations_have_four_to_eight_turns_with_the_agents_own() -> None:
    """They end with the user, who is answered; at level 6 what is asked for has been looked up before."""
    for task in of_level("L6", "L7"):
        turns = task["input"]["turns"]
        assert 4 <= len(turns) + 1 <= 8, task["id"]
        assert [turn["role"] for turn in turns] == [("user", "assistant")[at % 2] for at in range(len(turns))]
        given = [call for turn in turns for call in turn.get("calls", ()) if call.get("result")]
        assert given or task["id"][:2] == "L7", task["id"]


def test_collecting_them_loads_nothing_that_asks_or_renders() -> None:
    """Who looks at 91 tasks waits for no HTTP library, no model and no template."""
    look = f"import sys, pytest; pytest.main(sys.argv[1:]); print([m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", look, "--collect-only", "-q", "-p", "no:cacheprovider", "evals/ko"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "91 tests collected" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


def test_a_trial_may_take_what_the_benchmark_allows() -> None:
    """Ten steps and a minute, where nobody says otherwise."""
    suite_yaml = read_yaml(ROOT / "evals" / "ko" / "suite.yaml")
    assert suite_yaml["defaults"]["limits"] == {"steps": 10, "seconds": 60}
    assert suite_yaml["on_miss"] == "tool_error"
