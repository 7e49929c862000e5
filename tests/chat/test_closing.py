"""What the end of a run does to the connections of its models: none stays open, wherever it is held."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import aiohttp
import pytest

from pytest_agenteval.chat import litellm_chat
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.records.plan import Via

from .bench import Bench, ModelServer, ReplyPlan

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def open_sessions(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """Give the sessions that were opened on a loop and are open still."""
    alive = [one for one in gc.get_objects() if isinstance(one, aiohttp.ClientSession) and not one.closed]
    return [session for session in alive if session._loop is loop]


@pytest.mark.parametrize(
    ("wire", "via"), [("openai", "direct"), ("openai", "litellm"), ("anthropic", "litellm")]
)
def test_each_run_of_a_process_closes_its_own(wire: str, via: Via) -> None:
    """litellm's streams go through a client of the whole process, which a later run opens again."""
    close = litellm_chat.close if via == "litellm" else http_pool.close
    for _ in range(2):
        with asyncio.Runner() as runner, ModelServer([ReplyPlan(text="hello")]) as server:
            bench = Bench(runner, wire, via)
            bench.ask(bench.chat(server, stream=True))
            assert open_sessions(runner.get_loop())
            runner.run(close())
            assert open_sessions(runner.get_loop()) == []


def test_nobody_waits_for_the_logs_of_another_loop() -> None:
    """Where an agent asks litellm on a loop of its own, its worker for logs is there and goes on there."""
    with (
        asyncio.Runner() as ours,
        asyncio.Runner() as agents,
        ModelServer([ReplyPlan(text="hello")] * 2) as server,
    ):
        for runner in (ours, agents):
            bench = Bench(runner, "openai", "litellm")
            bench.ask(bench.chat(server))
        ours.run(asyncio.wait_for(litellm_chat.close(), 10))
        logging = [task for task in asyncio.all_tasks(agents.get_loop()) if "LoggingWorker" in repr(task)]
        assert [task.cancelling() for task in logging] == [0]
        agents.run(litellm_chat.close())
