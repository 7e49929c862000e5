"""Threads that a tool starts belong to its trial: what they ask is on its tape, or refused."""

from __future__ import annotations

import asyncio
import atexit
import functools
import queue
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.http.patches import intercepted_requests, taped_http
from pytest_agenteval.cassettes.http.scope import NotRecorded, current, untaped
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.processes.threads import DaemonThreads
from tests.cassettes.http.server import Server

urllib3 = pytest.importorskip("urllib3")

Run = Callable[[Callable[[], None]], Awaitable[None]]


async def in_a_thread(function: Callable[[], None]) -> None:
    """Start a thread of one's own."""
    thread = threading.Thread(target=function)
    thread.start()
    await asyncio.to_thread(thread.join)


async def in_the_pool_of_the_loop(function: Callable[[], None]) -> None:
    """Give it to the loop's executor, as the loop of trials has one."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonThreads())
    await loop.run_in_executor(None, function)


async def in_a_pool(function: Callable[[], None]) -> None:
    """Give it to a pool of one's own."""
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, function)


@pytest.mark.parametrize("run", [in_a_thread, in_the_pool_of_the_loop, in_a_pool])
def test_a_thread_of_a_tool_asks_nobody_in_replay(tmp_path: Path, server: Server, run: Run) -> None:
    """However a tool comes by its thread: in ``none`` nothing leaves it, and the request is a miss."""
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            urllib3.request("GET", f"{server.base}/a")
        except NotRecorded as refused:
            raised.append(refused)

    async def tool() -> None:
        await run(ask)

    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
        asyncio.run(tool())

    assert server.asked == []
    assert len(raised) == len(scope.missed) == 1


@pytest.mark.parametrize("pool_of", [DaemonThreads, lambda: ThreadPoolExecutor(1)], ids=["ours", "stock"])
def test_a_pool_s_thread_belongs_to_nobody(tmp_path: Path, pool_of: Callable[[], ThreadPoolExecutor]) -> None:
    """A thread that a pool started for one trial later serves whoever gives it work, also outside of all."""
    found: list[object] = []

    async def both() -> None:
        loop, pool = asyncio.get_running_loop(), pool_of()
        with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
            await loop.run_in_executor(pool, lambda: found.append(current() is scope))
        await loop.run_in_executor(pool, lambda: found.append(current()))

    asyncio.run(both())

    assert found == [True, None]


def test_a_thread_works_for_the_trial_that_gives_it_work(tmp_path: Path) -> None:
    """One that a trial started serves others too: what it asks for their work is theirs."""
    work, found = queue.Queue[str](), queue.Queue[object]()
    tapes = Library(tmp_path)

    def work_off() -> None:
        while work.get(timeout=60):
            found.put(current())

    with taped_http(tapes.open(Path("a.yaml"), "none", "tool")) as first:
        worker = threading.Thread(target=work_off)
        worker.start()
        work.put("mine")
        assert found.get(timeout=60) is first
    with taped_http(tapes.open(Path("b.yaml"), "none", "tool")) as second:
        work.put("yours")
        assert found.get(timeout=60) is second
        work.put("")
    worker.join()


def test_what_is_handed_over_elsewhere_is_the_function_itself(tmp_path: Path) -> None:
    """Only threads get it with its scope: another process could not; a decorator gives back what it got."""

    class Elsewhere(Executor):
        def submit(self, function: object, /, *args: object, **kwargs: object) -> Future[object]:
            future: Future[object] = Future()
            future.set_result(function)
            return future

    def last() -> None:
        """Say goodbye."""

    async def hand_over() -> object:
        return await asyncio.get_running_loop().run_in_executor(Elsewhere(), last)

    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")):
        assert asyncio.run(hand_over()) is last
        assert atexit.register(last) is last
        atexit.unregister(last)


def test_a_task_that_a_trial_has_left_behind_asks_for_whoever_gives_it_work(
    tmp_path: Path, server: Server
) -> None:
    """Its requests are those of the trial that put the work into its queue: a miss there, and it lives on."""

    async def work_off(work: asyncio.Queue[asyncio.Future[object]]) -> None:
        while True:
            reply = await work.get()
            try:
                reply.set_result(urllib3.request("GET", f"{server.base}/a", retries=0))
            except Exception as refused:
                reply.set_exception(refused)

    async def twice() -> list[int]:
        work: asyncio.Queue[asyncio.Future[object]] = asyncio.Queue()
        misses = []
        with intercepted_requests(lambda: ()):
            serving = asyncio.create_task(work_off(work))
            await asyncio.sleep(0)
        for _ in range(2):
            tape = Library(tmp_path).open(Path("t.yaml"), "none", "tool")
            with intercepted_requests(lambda tape=tape: (tape,)) as scope:
                reply = asyncio.get_running_loop().create_future()
                await work.put(reply)
                with pytest.raises(urllib3.exceptions.HTTPError, match="nothing may be sent"):
                    await asyncio.wait_for(reply, 60)
            misses.append(len(scope.missed))
        serving.cancel()
        return misses

    assert asyncio.run(twice()) == [1, 1]
    assert server.asked == []


@pytest.mark.parametrize("before", [True, False], ids=["from before", "started by a trial"])
def test_an_editor_is_told_where_a_trial_stands(tmp_path: Path, server: Server, before: bool) -> None:
    """A debugger's thread works off a queue too: what trials put there is no request of theirs."""
    outcomes: queue.Queue[str] = queue.Queue()
    editor = socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10)

    def tell() -> None:
        editor.sendall(f"GET /{outcomes.get(timeout=60)} HTTP/1.1\r\nHost: editor\r\n\r\n".encode())

    writing = threading.Thread(target=tell)
    writing.is_pydev_daemon_thread = True  # type: ignore[attr-defined]  # pydevd's own sign, and debugpy's
    if before:
        writing.start()
    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
        if not before:
            writing.start()
        outcomes.put("suspended")
        writing.join()
    with editor:
        answered = editor.recv(99)

    assert answered.startswith(b"HTTP/1.")
    assert (scope.missed, server.asked) == ([], ["/suspended"])


def test_what_a_trial_takes_from_a_queue_leaves_it_the_trial_it_is(tmp_path: Path) -> None:
    """Trials may share connections or tokens: who takes one that another has put back stays who it is.

    So it is in a pool's thread, in which an agent may run, and with what is nobody's.
    """
    shared: queue.Queue[str] = queue.Queue()
    tapes = Library(tmp_path)

    def scope_after_taking() -> object:
        shared.get()
        return current()

    def put_back() -> None:
        with taped_http(tapes.open(Path("other.yaml"), "none", "tool")):
            shared.put("a token")

    with ThreadPoolExecutor(1) as pool:
        put_back()
        with taped_http(tapes.open(Path("t.yaml"), "none", "tool")) as scope:
            assert pool.submit(scope_after_taking).result() is scope
            put_back()
            assert scope_after_taking() is scope
        put_back()
        with untaped():
            assert scope_after_taking() is None


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no sockets with a path")
def test_processes_and_loops_of_ones_own_are_nobody_else(tmp_path: Path) -> None:
    """Pairs of sockets, and where multiprocessing and logging listen, are let through; a database is not."""
    listening = []
    for name in ("listener-1", "database"):
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(str(tmp_path / name))
        listening[-1].listen()
    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
        asyncio.run(asyncio.sleep(0))
        for one in socket.socketpair():
            one.close()
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(tmp_path / "listener-1"))
        with socket.socket(socket.AF_UNIX) as other, pytest.raises(NotRecorded):
            other.connect(str(tmp_path / "database"))
    for each in listening:
        each.close()

    assert [request.uri for request in scope.missed] == [f"socket://{tmp_path / 'database'}"]


def test_a_task_that_outlives_its_trial_is_cancelled_at_its_next_request(
    tmp_path: Path, server: Server
) -> None:
    """What an async agent leaves on the loop of trials neither goes on nor harms the loop."""
    httpx = pytest.importorskip("httpx")
    tape = Library(tmp_path).open(Path("t.yaml"), "all", "tool")

    async def ask_on() -> None:
        async with httpx.AsyncClient(verify=False) as client:
            while True:
                try:
                    await client.get(f"{server.base}/on")
                except Exception:
                    await asyncio.sleep(0)

    async def trial() -> bool:
        with intercepted_requests(lambda: (tape,)):
            left = asyncio.create_task(ask_on())
            while not server.asked:
                await asyncio.sleep(0.01)
        await asyncio.wait([left], timeout=20)
        return left.cancelled()

    assert asyncio.run(trial())


def test_what_instrumentations_put_around_a_patch_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry wraps `Thread.start` and `run`: if one of both were undone, no thread would run."""
    tape = Library(tmp_path).open(Path("t.yaml"), "none", "tool")
    seen: list[str] = []
    with intercepted_requests(lambda: (tape,)):
        start = threading.Thread.start

        @functools.wraps(start)
        def instrumented(thread: threading.Thread) -> None:
            seen.append(thread.name)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", instrumented)
        with intercepted_requests(lambda: (tape,)):
            thread = threading.Thread(target=lambda: seen.append(str(current() is not None)), name="worker")
            thread.start()
            thread.join()
    assert seen == ["worker", "True"]


def test_a_request_that_is_tried_again_is_one_miss(tmp_path: Path) -> None:
    """Whatever headers a client counts its attempts in."""
    tape = Library(tmp_path).open(Path("t.yaml"), "none", "tool")
    with intercepted_requests(lambda: (tape,)) as scope:
        for attempt in "123":
            with pytest.raises(NotRecorded):
                urllib3.request("GET", "http://x.test/a", headers={"x-attempt": attempt})
        with pytest.raises(NotRecorded):
            urllib3.request("GET", "http://x.test/b")
    assert [request.uri for request in scope.missed] == ["http://x.test/a", "http://x.test/b"]
    assert tape.misses == 2
