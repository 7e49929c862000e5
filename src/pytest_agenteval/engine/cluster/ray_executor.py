"""Carrying out plans on a Ray cluster: many at once on each of its actors, and again where one is lost."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.models import known_key_names
from pytest_agenteval.chat.rate_limiter import RateLimiters, limiters_at
from pytest_agenteval.chat.rate_shares import LocalShares
from pytest_agenteval.engine.cluster.actor import ActorSetup, Arrival, TrialActor
from pytest_agenteval.engine.cluster.remote_actor import RemoteActor
from pytest_agenteval.engine.cluster.transfer import RecordingMerger, pack_project, unpack_workspace
from pytest_agenteval.engine.executor import (
    MOST_LOST,
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
from pytest_agenteval.engine.worker import pickle_request, read_result
from pytest_agenteval.processes.threads import DaemonThreads, in_daemon_thread
from pytest_agenteval.records.plan import Conditions, Plan
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import Problem, UsageMistake
from pytest_agenteval.text.formatting import pluralize

if TYPE_CHECKING:
    from pytest_agenteval.engine.cluster.ray_cluster import RayCluster


# Sent beside the usual keys of models: they decide which conftests and plugins are loaded.
ALWAYS = ("PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")

# Variables that every machine sets for itself.
OF_MACHINES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "LANG", "TERM", "TMPDIR", "HOSTNAME"}
    | {"PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
)

_VARIABLE = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")


def usual_variables() -> dict[str, str]:
    """Return what is sent in any case: keys of models, by their usual names."""
    return _set_here({*known_key_names(), *ALWAYS})


def named_variables(conditions: Conditions, plan: Plan | None = None) -> dict[str, str]:
    """Return those that judges and simulated users name, and what a plan names for model, tools and agent."""
    models = [*conditions.judges, *([conditions.user] if conditions.user else [])]
    names = {model.api_key_env for model in models}
    if plan is not None:
        names.add(plan.model.api_key_env)
        for entry in plan.task.tools:
            names |= _words_of_file(entry) if isinstance(entry, str) else _words(repr(entry))
        names |= _words(repr(plan.task.form))
    return _set_here(names)


@cache
def _words_of_file(path: str) -> frozenset[str]:
    # It may be the name of a toolset, not a file.
    with suppress(OSError):
        return _words(Path(path).read_text(encoding="utf-8", errors="replace"))
    return frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(_VARIABLE.findall(text))


def _set_here(names: set[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(names & os.environ.keys() - OF_MACHINES)}


# The default number of actors, if the cluster has no more machines.
ACTORS = 2
EXPECTED = "a number of actors, 1 or more; set the cluster with RAY_ADDRESS"

# Seconds in which the first actor has to come up: a cluster may have to start a machine for it.
COMING_UP_S = 600.0

# Seconds that the run waits for more actors, once the first has come up.
OTHERS_S = 5.0
# How many actors in a row may fail to come up before no other is tried.
MOST_FAILED = 3
# Seconds in which a cluster has to be joined or started.
JOINING_S = 120.0
# Seconds that the end of a run waits for a cluster that is still being joined.
CONNECTING_S = 3.0


class RayExecutor:
    """Runs each plan on one of several actors, each of which works in its own copy of the project."""

    # A trial whose actor is lost begins again on another; the last time alone, so that a trial that kills its
    # actor takes no other with it. A lost actor is replaced by a new one.

    # Seconds that the end may take: a cluster of our own ends with the run, which takes a second or two.
    closing_s = 12.0

    def __init__(self, registry: Registry) -> None:
        self._actors: list[RemoteActor] = []
        self._lone: RemoteActor | None = None
        self._places: list[asyncio.Task[None]] = []
        self._change = asyncio.Event()
        self._turn = asyncio.Lock()
        self._failed = 0
        self._refusal: Exception | None = None
        self._has_lost = self._has_had = False
        self._unfetched = 0
        self._cluster: RayCluster | None = None
        self._thread = DaemonThreads()
        self._connecting: asyncio.Future[int] | None = None
        self._unsaved: list[Problem] = []
        self._home = RecordingMerger(Path(), None)
        self._shares = LocalShares()

    @staticmethod
    def check_argument(argument: str) -> None:
        """Accept a number of actors, if there is Ray and no ``-n``; else raise UsageMistake."""
        number_argument("ray", argument, EXPECTED, 0)
        if find_spec("ray") is None:
            raise UsageMistake("--agent-executor=ray needs Ray: pip install 'pytest-agenteval[ray]'")
        if "PYTEST_XDIST_WORKER" in os.environ:
            raise UsageMistake(
                "--agent-executor=ray: leave out -n, as one process keeps a cluster busy; "
                "--agent-concurrency=N sets how many trials run at once"
            )

    async def ready(self, context: ExecutorContext) -> int:
        """Join the cluster or start one, and have actors come up; as many trials run as the run allows."""
        root, wanted = Path(context.root), number_argument("ray", context.argument, EXPECTED, 0)
        self._home = RecordingMerger(root, context.started)
        # The limiters of this process: whatever looks up here how models do finds them by ``rates``.
        limiters = limiters_at(context.rates, lambda: RateLimiters(most=context.concurrency))
        self._shares = limiters.shares
        project = await in_daemon_thread(pack_project, root)
        cluster, machines = await self._connect(wanted or ACTORS)
        self._setup = ActorSetup(
            context,
            folder=_below(os.getcwd(), context.root) or context.root,
            python_path=tuple(_project_places(context.root)),
            variables=usual_variables(),
        )
        self._project = cluster.share(project)
        number = min(wanted or max(ACTORS, machines), context.concurrency)
        self._places = [asyncio.create_task(self._fill_place()) for _ in range(number)]
        await self._until(1)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._until(number), OTHERS_S)
        return context.concurrency

    async def run(self, request: TrialRequest) -> Trial:
        """Have one plan carried out, or a stored trial graded again; raises TrialLost and ExecutorBroken."""
        if request.workspace:
            raise ExecutorBroken(
                "the fixture `workspace` made a folder on this machine, but the trial runs on another: "
                "use --agent-executor=local, or set `base_fixture` in the task"
            )
        models = (request.plan.model, *request.plan.conditions.judges)
        if any(not model.offline and provider_of(model.id) == "vllm" for model in models):
            raise ExecutorBroken(
                "a run starts model servers (vllm/…) on its own machine, but trials run on others: "
                "start the server yourself, and set the model's api_base to its address"
            )
        pickled, variables = pickle_request(request), named_variables(request.plan.conditions, request.plan)
        if request.lost + 1 < MOST_LOST:
            actor = await self._least_busy()
            return self._brought_home(await actor.do(pickled, variables), request.plan)
        # Its last attempt runs alone.
        async with self._turn:
            if self._lone is None or self._lone.gone.is_set():
                self._lone = await self._new_actor()
            actor = self._lone
            return self._brought_home(await actor.do(pickled, variables), request.plan)

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        try:
            actor = await self._least_busy()
            arrival = await actor.do(pickle_request(request), named_variables(request.conditions))
            self._take_recordings(arrival.recorded, request.conditions)
            result: CalibrationResult = read_result(arrival.result)
        except ExecutorBroken as broken:
            return CalibrationResult(error=ErrorDetails(broken.cause, str(broken)))
        return result

    async def close(self) -> ExecutorReport:
        """Stop what is still running, fetch what was recorded, and leave the cluster."""
        actors = [*self._actors, *([self._lone] if self._lone else [])]
        for place in self._places:
            place.cancel()
        closed = await asyncio.gather(*(actor.close() for actor in actors))
        unused: dict[str, UnusedRecordings] = {}
        for left in closed:
            if left is None:
                self._has_lost = True
                continue
            report, recorded = left
            self._unsaved += report.unsaved
            unused = merge_unused(unused, report.unused_recordings)
            self._take_recordings(recorded, None)
        remarks = [*self._home.other_answers()]
        if self._failed >= MOST_FAILED and self._has_had:
            remarks.append(f"some actors did not start; the others ran all trials: {self._refusal}")
        if self._unfetched:
            workspaces = pluralize(self._unfetched, "workspace")
            remarks.append(f"{workspaces} could not be copied from actors, and are missing")
        await self._disconnect()
        unsaved = dict.fromkeys([*self._unsaved, *self._home.problems])
        # An actor that is gone cannot say what it has played.
        return ExecutorReport(tuple(unsaved), {} if self._has_lost else unused, tuple(remarks))

    async def _connect(self, actors: int) -> tuple[RayCluster, int]:
        """Join or start the cluster, on a thread that stays; return it, and how many machines it has."""
        loop = asyncio.get_running_loop()
        self._connecting = loop.run_in_executor(self._thread, self._connect_here, actors)
        try:
            machines = await asyncio.wait_for(asyncio.shield(self._connecting), JOINING_S)
        except TimeoutError:
            raise ExecutorBroken(
                f"the Ray cluster did not start, or refused the connection, within {JOINING_S:g} s"
            ) from None
        assert self._cluster is not None
        return self._cluster, machines

    def _connect_here(self, actors: int) -> int:
        from pytest_agenteval.engine.cluster.ray_cluster import RayCluster

        self._cluster = RayCluster()
        return self._cluster.connect(actors)

    async def _disconnect(self) -> None:
        if self._connecting is None:
            return
        # It may never have been joined.
        with suppress(Exception):
            await asyncio.wait_for(asyncio.shield(self._connecting), CONNECTING_S)
            if self._cluster is not None:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._cluster.disconnect)

    async def _fill_place(self) -> None:
        """Have an actor take part, and another when it is lost, until several in a row have failed."""
        while self._failed < MOST_FAILED:
            try:
                actor = await self._new_actor()
            # Whatever Ray raises: nobody else would hear of it.
            except Exception as raised:
                self._failed += 1
                self._refusal = raised
                # At the beginning each place is tried once.
                if not (self._actors or self._has_lost):
                    break
                continue
            self._failed, self._has_had = 0, True
            self._actors.append(actor)
            self._change.set()
            await actor.gone.wait()
            self._actors.remove(actor)
            self._has_lost = True

    async def _new_actor(self) -> RemoteActor:
        """Start an actor and return it once it has come up; raises ExecutorBroken."""
        assert self._cluster is not None
        actor = RemoteActor(self._cluster, self._cluster.start_actor(TrialActor), self._shares)
        try:
            await asyncio.wait_for(actor.start(self._setup, self._project), COMING_UP_S)
        except TimeoutError:
            raise ExecutorBroken(
                f"no actor started within {COMING_UP_S:g} s: the cluster has no free CPU for one"
            ) from None
        except ExecutorBroken:
            raise
        except Exception as raised:
            raise ExecutorBroken(f"no actor started: {exception_line(raised)}") from None
        return actor

    async def _until(self, number: int) -> None:
        """Wait until so many actors are up; raises what keeps all of them from it."""
        while len(self._actors) < number:
            if all(place.done() for place in self._places):
                raise self._refusal or ExecutorBroken("no actor started")
            change = asyncio.ensure_future(self._change.wait())
            places = [place for place in self._places if not place.done()]
            await asyncio.wait([change, *places], return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
            self._change.clear()

    async def _least_busy(self) -> RemoteActor:
        await self._until(1)
        return min(self._actors, key=lambda actor: actor.under_way)

    def _brought_home(self, arrival: Arrival, plan: Plan) -> Trial:
        trial: Trial = read_result(arrival.result)
        self._take_recordings(arrival.recorded, plan.conditions)
        if trial.workspace:
            trial = replace(trial, workspace=self._workspace_home(arrival, plan))
        return trial

    def _workspace_home(self, arrival: Arrival, plan: Plan) -> str:
        """Unpack a workspace here and return its path; empty, and reported at the end, if that fails."""
        if arrival.workspace:
            # A full disk, or a name that is not allowed here.
            with suppress(OSError, tarfile.TarError):
                return str(unpack_workspace(arrival.workspace, Path(plan.conditions.keep_workspaces)))
        self._unfetched += 1
        return ""

    def _take_recordings(self, recorded: Mapping[str, bytes], conditions: Conditions | None) -> None:
        for name, content in recorded.items():
            # In the mode ``all``, recordings from before the run are replaced. The last recordings of an
            # actor, without conditions, never replace: earlier ones of this run have come already.
            tools, chats = (conditions.record, conditions.record_chat) if conditions else ("", "")
            mode = chats if ".chat" in Path(name).parent.name else tools
            self._home.take(name, content, replacing=mode == "all")


def _project_places(root: str) -> Iterator[str]:
    """Yield the folders of the project in Python's path, as for a package installed from its sources."""
    for place in sys.path:
        if _below(place, root) and not {"site-packages", "dist-packages"}.intersection(Path(place).parts):
            yield place


def _below(path: str, root: str) -> str:
    return path if path == root or path.startswith(f"{root}{os.sep}") else ""
