"""Agents that ask tools from threads and loops of their own: what one of them records is not lost."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.engine.trial_resources import open_tool_tape
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Conditions, Plan, PlannedGrader
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool
from pytest_agenteval.tools.tool_tape import ToolTape
from pytest_agenteval.tools.toolbox import ToolBox
from tests.engine.executing import execute, plan, registry

THREADS = 32
ANY_ANSWER = PlannedGrader("answer_contains", "answer", {"text": "seen"})


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns as often as the interpreter can manage: a race that is there is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class InALoopOfItsOwn:
    """The natural bridge from a plain function to the tool box."""

    tools = ("look",)

    def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        """Look once."""
        look = ToolCall("c", 1, 0, "look", {"at": task_input["content"]})
        return asyncio.run(ctx.tools.call(look)).content


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Have it done in all threads, which begin together."""
    together = threading.Barrier(THREADS)

    def begun(number: int) -> Any:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begun, range(THREADS)))


def open_slowly(planned: Plan, equipment: WorkerContext, opened: list[ToolTape]) -> ToolTape:
    """Open a trial's tape, and leave the other threads time to come to the same door."""
    time.sleep(0.01)
    opened.append(open_tool_tape(planned, equipment))
    return opened[-1]


def test_what_sync_agents_record_is_on_disk(tmp_path: Path, quick_switches: None) -> None:
    """Thirty-two trials side by side, each in a thread and loop of its own: as many files."""
    known = registry()
    known.agent("own", InALoopOfItsOwn)
    known.tool(Tool(ToolSpec("look", taped=True), lambda args: "seen"))
    plans = [
        plan(
            f"t{number}",
            ANY_ANSWER,
            agent="own",
            cassette=str(tmp_path / f"t{number}"),
            conditions=Conditions(record="once"),
        )
        for number in range(THREADS)
    ]

    trials = execute(known, *plans)

    assert [trial.message for trial in trials if trial.ending != "passed"] == []
    assert sum(trial.tool_tape.recorded for trial in trials) == THREADS
    assert sorted(path.stem for path in tmp_path.glob("*.yaml")) == sorted(each.task.id for each in plans)


def test_the_library_is_made_once(quick_switches: None) -> None:
    """Whoever asks first: of two libraries only one would be saved."""
    for _ in range(20):
        equipment = WorkerContext(registry())
        libraries = at_once(lambda number, equipment=equipment: equipment.library)  # type: ignore[misc]
        assert len({id(library) for library in libraries}) == 1


def test_calls_from_several_threads_of_one_trial_keep_their_places(
    tmp_path: Path, quick_switches: None
) -> None:
    """Each call has its own result in the transcript, and all of them one tape."""
    for turn in range(5):
        recorder, equipment = Recorder(lambda: 0.0), WorkerContext(registry())
        planned = plan(cassette=str(tmp_path / f"t{turn}"), conditions=Conditions(record="once"))
        opened: list[ToolTape] = []
        box = ToolBox(recorder, tape=partial(open_slowly, planned, equipment, opened))
        box.offer(Tool(ToolSpec("look", taped=True, blocking=False), lambda args: args["at"]))

        def look(number: int, box: ToolBox = box) -> None:
            asyncio.run(box.call(ToolCall(f"c{number}", 1, 0, "look", {"at": number})))

        at_once(look)

        assert sorted(call.args["at"] for call in recorder.calls) == list(range(THREADS))
        assert all(call.result == call.args["at"] for call in recorder.calls)
        assert opened == [box.tape]
        assert opened[0].recorded == THREADS


class Lingering(list[ToolCall]):
    """A list at which the other threads have their turn as soon as something was put into it."""

    def append(self, call: ToolCall) -> None:
        """Put a call in, and wait a little."""
        super().append(call)
        time.sleep(0.001)


def test_no_two_calls_are_given_one_place() -> None:
    """What comes of a call is put where it stands: in another's place it would be that one's."""
    recorder = Recorder(lambda: 0.0)
    recorder._calls = Lingering()

    places = at_once(lambda number: recorder.begin_call(ToolCall("c", 1, 0, "look", {})))

    assert sorted(places) == list(range(THREADS))
