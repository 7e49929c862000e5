"""Carrying out plans in other processes, one trial at a time in each: for graders that compute."""

from __future__ import annotations

import asyncio
import pickle
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import SpawnProcess
from threading import Thread
from types import ModuleType
from typing import Any

from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
    UnusedRecordings,
    merge_unused,
    number_argument,
)
from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.engine.worker import Worker, pickle_refusal, pickle_request, pickle_result, read_result
from pytest_agenteval.processes.process_groups import end_with_parent
from pytest_agenteval.processes.signals import interrupts_held_back
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

# Seconds between two looks at whether the run has been stopped.
STOP_CHECK_S = 0.1
# Seconds between two looks at whether a process still runs.
ALIVE_CHECK_S = 1.0
# What a process sends once it is there.
CAME_UP = b"up"


def serve(pipe: Connection, context: ExecutorContext) -> None:
    """Be a process that carries out requests: load the conftests, then answer what comes."""
    # A terminal sends Ctrl-C to all processes, and the parent process handles it. This is a function, as
    # programs that tools start would inherit a signal that is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    # The parent blocked the signal while this process came up.
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Nobody would see the results of a process whose parent was killed.
    end_with_parent()
    worker: Worker | str
    try:
        worker = Worker(context)
    except UsageMistake as mistake:
        worker = str(mistake)
    # A conftest may raise anything.
    except BaseException as raised:
        worker = exception_line(raised)
    pipe.send_bytes(CAME_UP)
    answer_requests(pipe, worker)


def answer_requests(pipe: Connection, worker: Worker | str) -> None:
    """Answer pickled requests until an empty one, which is answered by the report.

    In place of a worker there may be the reason why it could not be made.
    """
    while pickled := pipe.recv_bytes():
        try:
            if isinstance(worker, str):
                raise ExecutorBroken(worker)
            request = worker.read(pickled)
        except ExecutorBroken as broken:
            pipe.send_bytes(pickle_refusal(pickled, str(broken)))
            continue
        future = worker.begin(request)
        while not wait([future], STOP_CHECK_S).done:
            if pipe.poll():  # the run has been stopped
                break
        else:
            pipe.send_bytes(pickle_result(future.result(), request))
    pipe.send_bytes(pickle.dumps(ExecutorReport() if isinstance(worker, str) else worker.close()))


# The default number of processes; ``--agent-executor=processes:8`` sets another.
PROCESSES = 2
EXPECTED = "a number of processes, 1 or more"

# Seconds that a process has to close; one that computes without end is then killed.
CLOSING_S = 2.0

# Seconds that a process has to end once it has closed: a library may have something to write at exit.
ENDING_S = 1.0


class ProcessExecutor:
    """Runs each plan in a spawned process, which loads the session's conftests and knows nothing else.

    A process is started when all others are busy. One that dies takes only its own trial with it; the next
    trial gets a new process.
    """

    def __init__(self, registry: Registry) -> None:
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._processes: list[_Process] = []

    @staticmethod
    def check_argument(argument: str) -> None:
        """Raise UsageMistake for anything but a number of processes."""
        number_argument("processes", argument, EXPECTED, PROCESSES)

    async def ready(self, context: ExecutorContext) -> int:
        """Return how many processes there may be; none is started yet."""
        number = min(number_argument("processes", context.argument, EXPECTED, PROCESSES), context.concurrency)
        self._processes = [_Process(context) for _ in range(number)]
        # The queue is last in, first out: the first process is to be taken first.
        for process in reversed(self._processes):
            self._idle.put_nowait(process)
        return number

    async def run(self, request: TrialRequest) -> Trial:
        """Have one plan carried out, or a stored trial graded again; raises ExecutorBroken."""
        trial: Trial = read_result(await self._in_idle_process(request))
        return trial

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        try:
            result: CalibrationResult = read_result(await self._in_idle_process(request))
        except ExecutorBroken as broken:
            return CalibrationResult(error=ErrorDetails(broken.cause, str(broken)))
        return result

    async def close(self) -> ExecutorReport:
        """Stop what is still running, and merge the reports of the processes."""
        reports = await asyncio.gather(*(process.close() for process in self._processes))
        unsaved = [problem for report in reports for problem in report.unsaved]
        unused: dict[str, UnusedRecordings] = {}
        # A process that died cannot report what it has replayed.
        if not any(process.has_died for process in self._processes):
            for report in reports:
                unused = merge_unused(unused, report.unused_recordings)
        return ExecutorReport(tuple(dict.fromkeys(unsaved)), unused)

    async def _in_idle_process(self, request: TrialRequest | CalibrationRequest) -> bytes:
        pickled = pickle_request(request)
        process = await self._idle.get()
        try:
            return await process.do(pickled)
        finally:
            self._idle.put_nowait(process)


class _Process:
    """One process, started when first needed, and again after it has died."""

    def __init__(self, context: ExecutorContext) -> None:
        self._context = context
        self._process: SpawnProcess | None = None
        self._came_up = self.has_died = False

    async def do(self, pickled: bytes) -> bytes:
        if self._process is None:
            self._start()
        await self._send(pickled)
        while (arrived := await self._news.get()) == CAME_UP:
            self._came_up = True
        if arrived is None:
            raise ExecutorBroken(f"the process that ran it died{self._forget()}")
        return arrived

    async def close(self) -> ExecutorReport:
        if self._process is None:
            return ExecutorReport()
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._send(b"")
                while (arrived := await self._news.get()) is not None:
                    # The result of a trial that nobody waits for any more may come first.
                    if arrived != CAME_UP and isinstance(report := pickle.loads(arrived), ExecutorReport):
                        return report
        except TimeoutError:
            self._process.kill()
        finally:
            await in_daemon_thread(self._process.join, ENDING_S)
            self._process.kill()
        self.has_died = True
        return ExecutorReport()

    async def _send(self, message: bytes) -> None:
        # In a thread: what does not fit into the pipe waits until the process has come up. The reader notices
        # one that is gone.
        with suppress(OSError):
            await in_daemon_thread(self._pipe.send_bytes, message)

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        process = SpawnProcess(target=serve, args=(theirs, self._context), name="agenteval-trials")
        try:
            with interrupts_held_back(), _main_hidden():
                process.start()
        # No memory, or too many processes.
        except OSError as refused:
            raise ExecutorBroken(f"no process could be started: {exception_line(refused)}") from None
        theirs.close()
        self._process, self._came_up = process, False
        self._news: asyncio.Queue[bytes | None] = asyncio.Queue()
        reading = (asyncio.get_running_loop(), self._pipe, process, self._news)
        Thread(target=_read, args=reading, name="agenteval-process", daemon=True).start()

    def _forget(self) -> str:
        """Drop a process that has died; return in words how it ended, if that is known."""
        process, self._process, self.has_died = self._process, None, True
        assert process is not None
        process.join(ENDING_S)
        if not self._came_up:
            return " while it started"
        code = process.exitcode
        return "" if code is None else f" (by signal {-code})" if code < 0 else f" (exit status {code})"


def _read(
    loop: asyncio.AbstractEventLoop,
    pipe: Connection,
    process: SpawnProcess,
    news: asyncio.Queue[bytes | None],
) -> None:
    """Pass on what a process sends, and None at its end."""
    # A loop that is closed waits for no news.
    with suppress(RuntimeError):
        with suppress(EOFError, OSError):
            # What the agent has forked holds pipe and sentinel open, so the process itself is looked at, too.
            while (ready := wait_for([pipe, process.sentinel], ALIVE_CHECK_S)) or process.is_alive():
                if pipe in ready:
                    loop.call_soon_threadsafe(news.put_nowait, pipe.recv_bytes())
                elif ready:
                    break
        loop.call_soon_threadsafe(news.put_nowait, None)


class _MainStandIn(ModuleType):
    """The main module without the file and the name by which a spawned process would run it again."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__(main.__name__)
        self._main = main

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":
            raise AttributeError(name)
        return getattr(self._main, name)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Keep processes that start here from running the main module again.

    A script that calls pytest would do so in each of them, and try every trial once more, unless its author
    checks ``__name__``.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = _MainStandIn(main)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
