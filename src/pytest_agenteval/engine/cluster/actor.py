"""What an actor does: it unpacks the project, loads its conftests, and carries out what it is sent.

It knows nothing of the cluster that it belongs to.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval import __version__
from pytest_agenteval.chat.rate_shares import LimiterReport, RateShare
from pytest_agenteval.engine.calibration_run import calibration_cassettes
from pytest_agenteval.engine.cluster.transfer import PathMapping, make_folder, pack_workspace, unpack_project
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
)
from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.engine.trial_resources import cassette_files
from pytest_agenteval.engine.worker import Request, Result, Worker, pickle_refusal, pickle_result
from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.processes.process_groups import end_owned_groups
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.errors import UsageMistake

FOLDER = "agenteval-actor"


class ActorSetup(Record, frozen=True):
    """The setup of an actor. Paths are below ``context.root``, the project's folder where pytest runs."""

    context: ExecutorContext
    folder: str = ""  # where it works
    python_path: tuple[str, ...] = ()  # folders of the project that Python looks in
    variables: Mapping[str, str] = NOTHING


class Arrival(Record, frozen=True):
    """What came of one request: its pickled result, and what was written beside it."""

    result: bytes
    recorded: Mapping[str, bytes] = NOTHING  # cassettes that have changed, by their path from the root
    workspace: bytes = b""  # an archive


class ActorQuestion(Record, frozen=True):
    """What an actor reports of a model to the process that sends it work, which answers with a share."""

    number: int
    report: LimiterReport


class ActorLost(Exception):
    """An actor is gone, with all that it was carrying out; the text says why, as far as Ray knows."""


class TrialActor:
    """Carries out many requests at once in a copy of the project.

    Everything is sent as bytes, so that an unreadable request is an error of its own trial only.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._shares = _RemoteShares()
        self._stamps: dict[str, tuple[int, int]] = {}

    async def start(self, setup: bytes, project: bytes, package: str) -> str:
        """Prepare for requests; return what is wrong, for an exception would look as if the actor were gone.

        ``package`` is the version of the package where pytest runs.
        """
        if package != __version__:
            return f"an actor has pytest-agenteval {__version__}: expected {package}, as on this machine"
        self._shares.loop = asyncio.get_running_loop()
        try:
            self._come_up(pickle.loads(setup), project)
        except UsageMistake as mistake:
            return str(mistake)
        # A conftest may raise anything.
        except BaseException as raised:
            return exception_line(raised)
        return ""

    def _come_up(self, setup: ActorSetup, project: bytes) -> None:
        self._here = make_folder(FOLDER)
        self._paths = PathMapping(setup.context.root, str(self._here / "project"))
        unpack_project(project, self._here / "project")
        os.environ.update(setup.variables)
        os.chdir(self._paths.path(setup.folder))
        sys.path[:0] = map(self._paths.path, setup.python_path)
        # Servers of models end with this process, the ``controller`` here. Output is captured also under
        # ``-s``: nobody sees an actor's terminal, and Ray would store all of it on the machine.
        more = {"servers": str(self._here / "servers"), "controller": os.getpid(), "captures_output": True}
        self._worker = Worker(self._paths.context(setup.context, **more), self._shares, self._arrived)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    async def run(self, pickled: bytes, variables: Mapping[str, str]) -> Arrival:
        """Carry out a request, with these variables."""
        # ``start`` would have reported a worker that could not be made.
        assert self._worker is not None
        os.environ.update(variables)
        try:
            request = self._worker.read(pickled)
        except ExecutorBroken as broken:
            return Arrival(pickle_refusal(pickled, str(broken)))
        names = _cassettes(request)
        for name in names:
            self._stamps.setdefault(name, _stamp(name))
        try:
            result: Result = await asyncio.wrap_future(self._worker.begin(request))
            workspace = b""
            if isinstance(result, Trial):
                workspace = pack_workspace(Path(result.workspace)) if result.workspace else b""
                result = self._paths.at_home(result)
            return Arrival(pickle_result(result, request), self._changed(names), workspace)
        # Without any result, the caller would take the actor for lost.
        except Exception as raised:
            return Arrival(pickle_refusal(pickled, f"its result cannot be sent: {exception_line(raised)}"))

    async def questions(self) -> list[ActorQuestion]:
        """Return what the caller is to answer, as soon as there is anything."""
        return await self._shares.questions()

    async def answer(self, number: int, answer: bytes) -> None:
        self._shares.answer(number, answer)

    async def close(self) -> bytes:
        """Stop what is still running, write what was recorded, and return the report and last recordings."""
        if self._worker is None:
            return pickle.dumps((ExecutorReport(), {}))
        report = await asyncio.to_thread(self._worker.close)
        recorded = self._changed(list(self._stamps))
        end_owned_groups()
        remove_tree(self._here)
        return pickle.dumps((report, recorded))

    def _arrived(self, request: Request) -> Request:
        """Return a request with the paths of the copy."""
        if isinstance(request, CalibrationRequest):
            cassette = self._paths.cassette(request.plan.cassette)
            return replace(request, plan=replace(request.plan, cassette=cassette))
        plan, conditions = request.plan, request.plan.conditions
        # Workspaces that are to stay are first stored here.
        if conditions.keep_workspaces:
            conditions = replace(conditions, keep_workspaces=str(self._here / "workspaces"))
        return replace(request, plan=replace(plan, task=self._paths.task(plan.task), conditions=conditions))

    def _changed(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the content of those of these cassettes that have changed since they were last returned."""
        changed: dict[str, bytes] = {}
        for path in paths:
            stamp = _stamp(path)
            if stamp != self._stamps.get(path, stamp):
                self._stamps[path] = stamp
                with suppress(OSError):
                    changed[Path(path).relative_to(self._paths.here).as_posix()] = Path(path).read_bytes()
        return changed


def _cassettes(request: Request) -> tuple[str, ...]:
    if isinstance(request, CalibrationRequest):
        return calibration_cassettes(request.plan)
    return cassette_files(request.plan)


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


class _RemoteShares:
    """Shares the limits of models through the process where pytest runs, for all actors together.

    It asks by way of ``questions``, which that process calls again and again.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._new: list[ActorQuestion] = []
        self._open: dict[int, Future[RateShare]] = {}
        self._news = asyncio.Event()
        self._last = 0

    def exchange(self, report: LimiterReport) -> RateShare:
        """Wait for the answer; called on threads that may wait."""
        waiting: Future[RateShare] = Future()

        def put() -> None:
            self._last += 1
            self._open[self._last] = waiting
            self._new.append(ActorQuestion(self._last, report))
            self._news.set()

        self.loop.call_soon_threadsafe(put)
        return waiting.result()

    async def questions(self) -> list[ActorQuestion]:
        await self._news.wait()
        self._news.clear()
        new, self._new = self._new, []
        return new

    def answer(self, number: int, answer: bytes) -> None:
        self._open.pop(number).set_result(pickle.loads(answer))
