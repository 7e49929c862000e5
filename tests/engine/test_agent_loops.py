"""Agents of users run beside each other: in threads of their own, what is async on loops of their own."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import aiohttp
import httpx
import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.patches import remove
from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Allowance, Conditions, Plan
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.tools.tool import Tool
from tests.cassettes.http.server import Server, serving
from tests.engine.executing import execute, plan, registry

SIDE_BY_SIDE = 8
TRUST = httpx.create_ssl_context()  # made once: it takes longer than a request
LIVE = Conditions(live=True)
SESSIONS: list[aiohttp.ClientSession] = []
"""What applications hold for good, and never close."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is really asked."""
    with serving() as started:
        yield started
    remove()
    for session in SESSIONS:
        session.detach()
    SESSIONS.clear()


def run_agent(agent: Any, *plans: Plan, count: int = 1, **more: Any) -> list[Trial]:
    """Carry out so many trials of an agent side by side."""
    known = registry()
    known.agent("mine", agent)
    known.tool(Tool(ToolSpec("look"), lambda args: "seen"))
    return execute(known, *plans, *(plan(f"t{n}", agent="mine", **more) for n in range(count)))


def one_after_the_other(agent: Any, **more: Any) -> list[Trial]:
    """Carry out two trials of an agent, the second when the first has ended."""
    known = registry()
    known.agent("mine", agent)

    async def both() -> list[Trial]:
        context = WorkerContext(known)
        try:
            return [await run_trial(plan(name, agent="mine", **more), context) for name in "ab"]
        finally:
            await context.close()

    return asyncio.run(both())


def all_passed(trials: list[Trial]) -> bool:
    """Whether each passed; says of one why not."""
    assert [trial.message for trial in trials if trial.ending != "passed"] == []
    return True


def by_httpx(base: str) -> Callable[[str], Any]:
    """Ask with one client of httpx, made before there is any loop."""
    client = httpx.AsyncClient(base_url=base, verify=TRUST)

    async def ask(path: str) -> Any:
        return (await client.get(path)).status_code

    return ask


def by_httpx2(base: str) -> Callable[[str], Any]:
    """Ask with a fork of it, on which Anthropic's client stands."""
    client = pytest.importorskip("httpx2").AsyncClient(base_url=base, verify=TRUST)

    async def ask(path: str) -> Any:
        return (await client.get(path)).status_code

    return ask


def by_aiohttp(base: str) -> Callable[[str], Any]:
    """Ask with one session, which the first who asks makes on the loop of its trial."""

    async def ask(path: str) -> Any:
        if not SESSIONS:
            SESSIONS.append(aiohttp.ClientSession(base))
        async with SESSIONS[0].get(path) as got:
            await got.read()
            return got.status

    return ask


@pytest.mark.parametrize("client", [by_httpx, by_httpx2, by_aiohttp])
def test_one_client_serves_trials_on_loops_of_their_own(server: Server, client: Callable[[str], Any]) -> None:
    """Eight side by side, and then one more, when the loops of the first are gone."""
    ask = client(server.base)

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        assert await ask("/one") == await ask("/two") == 200
        return "Mina"

    assert all_passed(run_agent(mine, count=SIDE_BY_SIDE, conditions=LIVE))
    assert len(server.asked) == 2 * SIDE_BY_SIDE
    assert all_passed(run_agent(mine, conditions=LIVE))


@pytest.mark.parametrize("client", [by_httpx, by_aiohttp])
def test_one_client_is_recorded_and_played_on_loops_of_their_own(
    tmp_path: Path, server: Server, client: Callable[[str], Any]
) -> None:
    """The second trial finds what the first has recorded, by a client whose loop is gone."""
    ask = client(server.base)

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        return f"Mina {await ask('/one')}"

    for record in ("once", "none"):
        conditions = Conditions(record=record)
        assert all_passed(run_agent(mine, conditions=conditions, cassette=str(tmp_path / "c")))
    assert server.asked == ["/one"]


def test_connections_of_a_trial_are_closed_with_its_loop(
    server: Server, recwarn: pytest.WarningsRecorder
) -> None:
    """A client that nobody closes leaves no socket open."""
    ask = by_httpx(server.base)

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        return f"Mina {await ask('/one')}"

    gc.freeze()  # only what this test makes is looked at
    assert all_passed(run_agent(mine, count=3, conditions=LIVE))
    gc.collect()
    gc.unfreeze()
    assert [str(warning.message) for warning in recwarn if warning.category is ResourceWarning] == []


class Queueing:
    """Holds a lock for all trials, which belongs to the loop of the first that has to wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        """Let one task wait for another."""
        await asyncio.gather(self.hold(), self.hold())
        return "Mina"

    async def hold(self) -> None:
        """Have the lock for a turn of the loop."""
        async with self.lock:
            await asyncio.sleep(0)


class GroupQueueing(Queueing):
    """The same in a task group, which raises what its tasks raise as one group."""

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        """Let one task of a group wait for another."""
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self.hold())
        return "Mina"


class SharedQueueing(Queueing):
    """The same on one loop for all."""

    loop = "shared"


@pytest.mark.parametrize("queueing", [Queueing, GroupQueueing])
def test_what_belongs_to_another_loop_is_told_with_the_setting_that_helps(queueing: type[Queueing]) -> None:
    """Agents that hold locks for all trials share a loop, if their class says so; in task groups, too."""
    first, second = one_after_the_other(queueing)

    assert (first.ending, second.cause) == ("passed", "crash")
    assert "is bound to a different event loop" in second.traceback
    assert '`loop = "shared"`' in second.message

    assert all_passed(one_after_the_other(SharedQueueing))


def test_shared_means_one_loop_that_is_not_the_engines() -> None:
    """All who share it meet on it; who does not has another."""
    loops: list[Any] = []

    async def own(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        loops.append(asyncio.get_running_loop())
        return "Mina"

    class Shared:
        loop = "shared"

        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            return await own(task_input, ctx)

    assert all_passed(run_agent(Shared, count=3))
    assert len({id(loop) for loop in loops}) == 1
    assert all_passed(run_agent(own, count=3))
    assert len({id(loop) for loop in loops}) == 4


def test_chat_tools_and_turns_work_on_an_agents_own_loop() -> None:
    """The model is asked on the loop that has its connections, whichever loop the agent is on."""
    loops: list[Any] = []

    class Looking:
        tools = ("look",)

        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            loops.append(asyncio.get_running_loop())
            said = await ctx.turns()
            reply = await ctx.chat.ask([{"role": "user", "content": said}])
            looked = await ctx.tools.call(ToolCall("c", 1, 0, "look", {}))
            return f"{reply.text} {looked.content} {await ctx.turns()}"

    (trial,) = run_agent(Looking)

    assert trial.outcome.answer.text == "Hello, Mina! seen None"
    assert [call.tool for call in trial.transcript.calls] == ["look"]
    assert loops[0].is_closed()


def test_a_limit_ends_all_that_an_agent_has_on_its_loop() -> None:
    """Its run is cancelled, and so are its tasks; its generators are closed, its threads let go."""
    ended: list[str] = []

    async def counting() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("generator")

    async def idling() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        generator = counting()
        await anext(generator)
        task = asyncio.create_task(idling())
        await asyncio.to_thread(lambda: None)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("run")
        return f"{task}"

    (trial,) = run_agent(mine, limits=Allowance(seconds=0.2))

    assert (trial.limit, sorted(ended)) == ("seconds", ["generator", "run", "task"])


def test_a_trial_does_not_wait_for_an_agent_that_will_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is told to end and goes on is left behind, in a thread that holds up nobody."""
    monkeypatch.setattr("pytest_agenteval.engine.agent_run.CLOSING_S", 0.05)
    over = threading.Event()

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return "Mina"

    (trial,) = run_agent(mine, limits=Allowance(seconds=0.05))

    assert trial.limit == "seconds"
    over.set()


@pytest.mark.parametrize("kind", ["own", "shared"])
@pytest.mark.filterwarnings("error")
def test_an_agent_whose_thread_ends_before_its_loop_starts_leaves_no_coroutine(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The end of a run interrupts threads wherever they are: Python warns of what was never awaited."""

    class Mine:
        loop = kind

        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            return "Mina"

    def interrupted(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("pytest_agenteval.engine.agent_run._new_loop", interrupted)
    known = registry()
    known.agent("mine", Mine)

    assert {trial.cause for trial in execute(known, plan("a", agent="mine"))} == {"crash"}
    gc.collect()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration])
def test_whatever_an_async_agent_raises_breaks_its_own_trial(kind: type[BaseException]) -> None:
    """And no other."""

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        raise kind("mine")

    other, broken = run_agent(mine, plan("o"))
    assert (broken.cause, other.ending) == ("crash", "passed")


def test_an_agent_that_computes_lets_others_talk(server: Server) -> None:
    """One never gives its loop back before another, which waits for the network, has ended."""
    others = threading.Event()

    async def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        if ctx.limits.allowed.steps == 1:
            while not others.is_set():
                sum(range(1000))
        else:
            async with httpx.AsyncClient(base_url=server.base, timeout=20, verify=TRUST) as client:
                for n in range(3):
                    assert (await client.get(f"/{n}")).status_code == 200
            others.set()
        return "Mina"

    busy = plan("busy", agent="mine", limits=Allowance(steps=1, seconds=60))
    talking = plan("talking", agent="mine", conditions=LIVE)
    known = registry()
    known.agent("mine", mine)

    assert all_passed(execute(known, busy, talking))


SLOW = """
import sys

others = sys.modules["tests.engine.test_agent_loops"].OTHERS
assert others.wait(30), "nobody else could go on"


class Agent:
    def __init__(self):
        assert others.is_set()

    async def run(self, task_input, ctx):
        return "Mina"
"""
OTHERS = threading.Event()


def test_an_import_lets_other_trials_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is done only when another trial, on the loop of all trials, has ended."""
    (tmp_path / "held_up.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "held_up", raising=False)
    known = registry()
    known.agent("slow", "held_up:Agent")

    async def both() -> list[Trial]:
        context = WorkerContext(known)
        slow = asyncio.create_task(run_trial(plan("s", agent="slow", limits=Allowance(seconds=20)), context))
        await asyncio.sleep(0)
        ended = await run_trial(plan("o"), context)
        OTHERS.set()
        return [ended, await slow]

    assert all_passed(asyncio.run(both()))


def in_a_thread(ask: Callable[[], Any]) -> None:
    """Ask on in a thread that nobody ends."""
    threading.Thread(target=ask, daemon=True).start()


def in_a_pool(ask: Callable[[], Any]) -> None:
    """Ask on in a pool's thread."""
    pool = ThreadPoolExecutor(1)
    pool.submit(ask)
    pool.shutdown(wait=False)


@pytest.mark.parametrize("leave", [in_a_thread, in_a_pool])
def test_what_an_agent_leaves_running_sends_nothing_after_its_trial(
    server: Server, leave: Callable[[Callable[[], Any]], None]
) -> None:
    """It may ask as long as the trial lasts; what comes later is refused, and reaches nobody."""
    over, refused = threading.Event(), threading.Event()

    def asking() -> None:
        try:
            urlopen(f"{server.base}/within").close()
            over.wait(30)
            urlopen(f"{server.base}/after").close()
        finally:
            refused.set()

    def mine(task_input: Mapping[str, Any], ctx: AgentContext) -> str:
        leave(asking)
        while not server.asked:
            over.wait(0.001)
        return "Mina"

    assert all_passed(run_agent(mine, conditions=LIVE))
    over.set()
    assert refused.wait(30)
    assert server.asked == ["/within"]


def test_a_task_on_the_shared_loop_sends_nothing_after_its_trial(server: Server) -> None:
    """Its loop goes on, the task ends at its next request."""
    over: list[asyncio.Event] = []
    ended = threading.Event()

    class Shared:
        loop = "shared"

        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            if not over:
                over.append(asyncio.Event())
                self.task = asyncio.create_task(self.ask())
                await asyncio.sleep(0)
            else:
                over[0].set()
                while not self.task.done():
                    await asyncio.sleep(0.001)
                ended.set()
            return "Mina"

        async def ask(self) -> None:
            await over[0].wait()
            async with httpx.AsyncClient(verify=TRUST) as client:
                await client.get(f"{server.base}/after")

    assert all_passed(one_after_the_other(Shared, conditions=LIVE))
    assert ended.is_set()
    assert server.asked == []
