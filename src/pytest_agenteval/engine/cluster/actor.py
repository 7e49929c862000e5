"""What an actor does: it unpacks the project, loads its conftests, and carries out what it is sent.

It knows nothing of the cluster that it belongs to.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval import __version__
from pytest_agenteval.chat.rate_shares import LimiterReport, RateShare
from pytest_agenteval.engine.calibration_run import calibration_cassettes
from pytest_agenteval.engine.cluster.transfer import (
    PathMapping,
    PlanInterning,
    make_folder,
    pack_workspace,
    unpack_project,
)
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
)
from pytest_agenteval.engine.jobs import NullObserver, TrialJob
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.engine.process_executor import (
    WORKER_CLOSING_S,
    hide_secrets,
    pickle_trial,
    redirect_output,
)
from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.engine.trial_resources import cassette_files
from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.processes.process_groups import end_owned_groups
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.text.errors import UsageMistake

# Seconds after which an actor without any result returns, to show that it is still there.
BEAT_S = 5.0

# Seconds after which an actor that nobody calls ends: the caller is gone, or the connection is broken.
DESERTED_S = 180.0

FOLDER = "agenteval-actor"


class ActorSetup(Record, frozen=True):
    """The setup of an actor. Paths are below ``context.root``, the project's folder where pytest runs."""

    context: ExecutorContext
    folder: str = ""  # where it works
    python_path: tuple[str, ...] = ()  # folders of the project that Python looks in
    variables: Mapping[str, str] = NOTHING


class ActorStarted(Record, frozen=True):
    """How an actor came up; if it did not, ``broken`` says why."""

    broken: str = ""
    package: str = __version__
    python: str = platform.python_version()


class Arrival(Record, frozen=True):
    """The result of one request: a pickled Trial or CalibrationResult, and what was written beside it."""

    number: int
    result: bytes
    recorded: Mapping[str, bytes] = NOTHING  # cassettes that have changed, by their path from the root
    workspace: bytes = b""  # an archive


class ActorQuestion(Record, frozen=True):
    """What an actor reports of a model to the process that sends it work, which answers with a share."""

    number: int
    report: LimiterReport


class _RemoteShares:
    """Shares the limits of models through the process where pytest runs, for all actors together."""

    def __init__(self, ask: Callable[[LimiterReport], Future[Any]]) -> None:
        self._ask = ask

    def exchange(self, report: LimiterReport) -> RateShare:
        share: RateShare = self._ask(report).result()
        return share


class _ActorJob(TrialJob):
    """A trial whose end is passed to its actor."""

    __slots__ = ("_arrive",)

    def __init__(self, request: TrialRequest, arrive: Callable[[Trial], None]) -> None:
        stored = request.stored
        super().__init__(request.plan, None, None if stored is None else lambda: stored)
        self._arrive = arrive

    def end(self, trial: Trial) -> None:
        super().end(trial)
        self._arrive(trial)


class TrialActor:
    """Carries out many requests at once in a copy of the project, and stores results until they are fetched.

    Everything is sent as bytes, so that an unreadable request is an error of its own trial only.
    """

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._seen: set[int] = set()
        self._unacknowledged: list[tuple[int, Arrival | ActorQuestion]] = []
        self._open_questions: dict[int, Future[Any]] = {}
        self._serial = 0
        self._lock = threading.Lock()
        self._news = asyncio.Event()
        self._called_at = time.monotonic()
        self._stamps: dict[str, tuple[int, int]] = {}

    async def start(self, setup: bytes, project: bytes) -> bytes:
        """Prepare for requests; never raises, which would only look as if the actor were gone."""
        self._loop = asyncio.get_running_loop()
        try:
            self._come_up(pickle.loads(setup), project)
        except UsageMistake as mistake:
            return pickle.dumps(ActorStarted(str(mistake)))
        # A conftest may raise anything.
        except BaseException as raised:
            return pickle.dumps(ActorStarted(exception_line(raised)))
        threading.Thread(target=self._end_when_deserted, name="agenteval-deserted", daemon=True).start()
        return pickle.dumps(ActorStarted())

    def _come_up(self, setup: ActorSetup, project: bytes) -> None:
        here = make_folder(FOLDER)
        self._here, home = here, setup.context.root
        self._paths = PathMapping(home, str(here / "project"))
        unpack_project(project, here / "project")
        os.environ.update(setup.variables)
        os.chdir(self._paths.path(setup.folder))
        sys.path[:0] = map(self._paths.path, setup.python_path)
        # Servers of models end with this process, the ``controller`` here.
        context = self._paths.context(setup.context, servers=str(here / "servers"), controller=os.getpid())
        registry = load_registry(map(Path, context.conftests), context.pytest_options)
        hide_secrets(context)
        # Also under ``-s``: nobody sees an actor's terminal, and Ray would store all of it on the machine.
        redirect_output(replace(context, captures_output=True))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
        self._interning = PlanInterning(self._paths.task)
        executor = LocalExecutor(registry, _RemoteShares(self._ask))
        self._pool = Pool(executor, context, NullObserver())
        # What was imported lives until the end, so the collector need not look through it.
        gc.freeze()

    async def begin(self, requests: Sequence[tuple[int, bytes]], variables: Mapping[str, str]) -> None:
        """Begin these requests, with these variables; one that was sent twice begins once."""
        self._called_at = time.monotonic()
        os.environ.update(variables)
        for number, pickled in requests:
            if number not in self._seen:
                self._seen.add(number)
                self._begin(number, pickled)

    async def fetch(self, received: int) -> tuple[int, list[Arrival | ActorQuestion]]:
        """Return what has come, as soon as there is anything; forget what was ``received``.

        If nothing comes for a while, nothing is returned: so the caller knows that the actor is there.
        """
        self._called_at = time.monotonic()
        with self._lock:
            self._unacknowledged = [each for each in self._unacknowledged if each[0] > received]
            if not self._unacknowledged:
                self._news.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), BEAT_S)
        with self._lock:
            given = list(self._unacknowledged)
        return (given[-1][0] if given else received), [each for _, each in given]

    async def answer(self, number: int, answer: bytes) -> None:
        self._called_at = time.monotonic()
        waiting = self._open_questions.pop(number, None)
        if waiting is not None:
            waiting.set_result(pickle.loads(answer))

    async def close(self) -> bytes:
        """Stop what is still running, write what was recorded, and return the report and last recordings."""
        if self._pool is None:
            return pickle.dumps((ExecutorReport(), {}))
        await asyncio.to_thread(self._pool.close, WORKER_CLOSING_S)
        recorded = self._changed(list(self._stamps))
        end_owned_groups()
        remove_tree(self._here)
        return pickle.dumps((self._pool.report, recorded))

    def _begin(self, number: int, pickled: bytes) -> None:
        # ``start`` would have reported a pool that could not be made.
        assert self._pool is not None
        request = None
        try:
            request = pickle.loads(pickled)
            if isinstance(request, CalibrationRequest):
                self._calibrate(number, request, self._pool)
                return
            plan = self._interning.plan(request.plan)
            here = self._paths.conditions(plan.conditions, str(self._here / "workspaces"))
            plan = plan if here is plan.conditions else replace(plan, conditions=here)
            request = replace(request, plan=plan)
        # It may hold an object of a class that only the sending process can import.
        except Exception as raised:
            problem = str(raised) if isinstance(raised, ExecutorBroken) else exception_line(raised)
            self._give(number, pickle.dumps(_refusal(request, problem)))
            return
        self._note_stamps(cassette_files(request.plan))
        self._pool.hand_over([_ActorJob(request, lambda trial: self._arrive(number, request.plan, trial))])

    def _calibrate(self, number: int, request: CalibrationRequest, pool: Pool) -> None:
        plan = replace(request.plan, cassette=self._paths.cassette(request.plan.cassette))
        self._note_stamps(calibration_cassettes(plan))
        future = pool.calibrate(replace(request, plan=plan))

        def give(_: object) -> None:
            try:
                result = future.result()
            except BaseException as raised:
                result = CalibrationResult(error=ErrorDetails(ExecutorBroken.cause, exception_line(raised)))
            self._give(number, pickle.dumps(result), self._changed(list(self._stamps)))

        future.add_done_callback(give)

    def _arrive(self, number: int, plan: Plan, trial: Trial) -> None:
        """Store how a trial ended, with what it wrote; called on the pool's thread."""
        try:
            workspace = pack_workspace(Path(trial.workspace)) if trial.workspace else b""
            result = pickle_trial(self._paths.at_home(trial), plan)
            recorded = self._changed(cassette_files(plan))
        # Without any result, the caller would wait for ever.
        except Exception as raised:
            problem = f"what came of the trial cannot be sent: {exception_line(raised)}"
            self._give(number, pickle.dumps(errored_trial(plan, ExecutorBroken(problem))))
            return
        self._give(number, result, recorded, workspace)

    def _give(
        self, number: int, result: bytes, recorded: Mapping[str, bytes] = NOTHING, workspace: bytes = b""
    ) -> None:
        self._send(lambda _: Arrival(number, result, recorded, workspace))

    def _ask(self, report: LimiterReport) -> Future[Any]:
        """Send a question to the process that sent the work; called on any thread."""
        waiting: Future[Any] = Future()

        def question(serial: int) -> ActorQuestion:
            self._open_questions[serial] = waiting
            return ActorQuestion(serial, report)

        self._send(question)
        return waiting

    def _send(self, make: Callable[[int], Arrival | ActorQuestion]) -> None:
        with self._lock:
            self._serial += 1
            self._unacknowledged.append((self._serial, make(self._serial)))
        # If the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)

    def _note_stamps(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._stamps.setdefault(path, _stamp(path))

    def _changed(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the content of those of these cassettes that have changed since they were last returned."""
        changed: dict[str, bytes] = {}
        for path in paths:
            stamp = _stamp(path)
            if stamp != self._stamps.get(path, stamp):
                self._stamps[path] = stamp
                with suppress(OSError):
                    changed[Path(path).relative_to(self._paths.here).as_posix()] = Path(path).read_bytes()
        return changed

    def _end_when_deserted(self) -> None:
        while time.monotonic() < self._called_at + DESERTED_S:
            time.sleep(1)
        end_owned_groups()
        remove_tree(self._here)
        os._exit(1)


def _refusal(request: TrialRequest | CalibrationRequest | None, problem: str) -> object:
    """Return the result of a request that cannot begin here."""
    if isinstance(request, TrialRequest):
        return errored_trial(request.plan, ExecutorBroken(problem))
    message = f"what was sent cannot be read by an actor: {problem}"
    error = ErrorDetails(ExecutorBroken.cause, message if request is None else problem)
    return CalibrationResult(error=error)


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
