"""Carrying out plans in other processes, one trial at a time in each: for graders that compute."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from time import monotonic, sleep
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
    result_of,
)
from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.engine.worker import Worker, pickle_refusal, pickle_request, pickle_result, read_result
from pytest_agenteval.processes.process_groups import end_with_parent
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

# Seconds between two looks at whether the run has been stopped.
STOP_CHECK_S = 0.1


class _Here:
    """The worker of this process; if it could not be made, the reason."""

    worker: Worker | None = None
    broken = "nothing was started"
    stopping: Event


def start_worker(context: ExecutorContext, stopping: Event) -> None:
    """Prepare for requests; never raises, which would only look as if the process were gone."""
    _Here.stopping = stopping
    # A terminal sends Ctrl-C to all processes, and the parent process handles it. This is a function, as
    # programs that tools start would inherit a signal that is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    # The parent blocked the signal while this process came up.
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Nobody would see the results of a process whose parent was killed.
    end_with_parent()
    try:
        _Here.worker = Worker(context)
    except UsageMistake as mistake:
        _Here.broken = str(mistake)
    # A conftest may raise anything.
    except BaseException as raised:
        _Here.broken = exception_line(raised)


def carry_out(pickled: bytes) -> bytes:
    """Carry out a pickled request; returns the pickled result, or nothing if the run was stopped."""
    worker = _Here.worker
    if worker is None:
        return pickle_refusal(pickled, _Here.broken)
    try:
        request = worker.read(pickled)
    except ExecutorBroken as broken:
        return pickle_refusal(pickled, str(broken))
    future = worker.begin(request)
    while not wait([future], STOP_CHECK_S).done:
        if _Here.stopping.is_set():
            return b""
    return pickle_result(future.result(), request)


def close_worker() -> ExecutorReport:
    return ExecutorReport() if _Here.worker is None else _Here.worker.close()


# The default number of processes; ``--agent-executor=processes:8`` sets another.
PROCESSES = 2
EXPECTED = "a number of processes, 1 or more"

# Seconds that a process has to close; one that computes without end is then killed.
CLOSING_S = 2.0

# Seconds that a process has to end once it has closed: a library may have something to write at exit.
ENDING_S = 1.0

# Seconds until the exit status of an ended process is surely noted.
NOTED_S = 1.0


class ProcessExecutor:
    """Runs each plan in a spawned process, which loads the session's conftests and knows nothing else.

    A process is started when all others are busy. One that dies takes only its own trial with it; the next
    trial gets a new process.
    """

    def __init__(self, registry: Registry) -> None:
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._processes: list[_Process] = []
        self._stopping: Event = get_context("spawn").Event()

    @staticmethod
    def check_argument(argument: str) -> None:
        """Raise UsageMistake for anything but a number of processes."""
        number_argument("processes", argument, EXPECTED, PROCESSES)

    async def ready(self, context: ExecutorContext) -> int:
        """Return how many processes there may be; none is started yet."""
        number = min(number_argument("processes", context.argument, EXPECTED, PROCESSES), context.concurrency)
        self._processes = [_Process(context, self._stopping) for _ in range(number)]
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
        self._stopping.set()
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
    """One process, started when first needed, and again after it has died.

    It is a pool of the standard library with one worker: in a pool of several, one that dies breaks all.
    """

    def __init__(self, context: ExecutorContext, stopping: Event) -> None:
        self._context, self._stopping = context, stopping
        self._pool: ProcessPoolExecutor | None = None
        self._process: BaseProcess | None = None
        self._came_up: Future[int] | None = None
        self.has_died = False

    async def do(self, pickled: bytes) -> bytes:
        try:
            pool = self._pool or self._start()
            return await result_of(pool.submit(carry_out, pickled))
        except BrokenProcessPool:
            raise ExecutorBroken(f"the process that carried it out died{self._forget()}") from None

    async def close(self) -> ExecutorReport:
        if self._pool is None:
            return ExecutorReport()
        try:
            closing = result_of(self._pool.submit(close_worker))
            return await asyncio.wait_for(closing, CLOSING_S)
        except (TimeoutError, BrokenProcessPool):
            self.has_died = True
            self._kill()
            return ExecutorReport()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            if self._process is not None:
                await asyncio.to_thread(self._process.join, ENDING_S)
                self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            _exit_code(self._process)

    def _start(self) -> ProcessPoolExecutor:
        starting = _Starting()
        initargs = (self._context, self._stopping)
        pool = self._pool = ProcessPoolExecutor(1, starting, start_worker, initargs)
        try:
            with _interrupts_held_back(), _main_hidden():
                self._came_up = pool.submit(os.getpid)
        # No memory, or too many processes.
        except OSError as refused:
            self._pool = None
            raise ExecutorBroken(f"no process could be started: {exception_line(refused)}") from None
        # Known before the process has come up: a conftest that takes minutes there must not hold up the end.
        self._process = starting.process
        return pool

    def _forget(self) -> str:
        """Drop a process that has died; return in words how it ended, if that is known."""
        self.has_died = True
        process, pool = self._process, self._pool
        self._process = self._pool = None
        if pool is not None:
            pool.shutdown(wait=False)
        if process is None:
            return ""
        code, came_up = _exit_code(process), self._came_up
        if came_up is None or not came_up.done() or came_up.exception() is not None:
            return " while it came up"
        return "" if code is None else f" (by signal {-code})" if code < 0 else f" (exit status {code})"


def _exit_code(process: BaseProcess) -> int | None:
    """Wait for a process that is ending, and return its exit code; None if it has not ended."""
    process.join(ENDING_S)
    # The pool's own thread waits for it too: the second one gets no status until the first has noted it.
    until = monotonic() + NOTED_S
    while process.exitcode is None and monotonic() < until:
        sleep(0.005)
    return process.exitcode


class _Starting(SpawnContext):
    """Spawns as multiprocessing does, and remembers the process."""

    process: BaseProcess | None = None

    def Process(self, *args: Any, **more: Any) -> SpawnProcess:  # type: ignore[override]
        process = SpawnProcess(*args, **more)
        self.process = process
        return process


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


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block Ctrl-C in processes that start here until they can ignore it: its traceback helps nobody."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
