"""What a process needs to carry out plans: things made once, and time that no agent is charged for."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.agents.agent import Agent, agent_trait, is_adapter
from pytest_agenteval.engine.digests import DigestCache, code_digest
from pytest_agenteval.engine.executor import ExecutorContext, UnusedRecordings
from pytest_agenteval.engine.grading import GradingService
from pytest_agenteval.engine.jobs import limiters_of_run
from pytest_agenteval.processes.threads import DaemonThread, close_clients
from pytest_agenteval.records.factories import AGENT
from pytest_agenteval.records.limits import Budget, StoppedTime
from pytest_agenteval.records.plan import McpServer, Model, Plan, PlannedTask, Variant
from pytest_agenteval.records.prompts import Prompts
from pytest_agenteval.records.record import NOTHING, FrozenMap
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.registry.lazy_names import exception_with_place
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.file_names import find_suite
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, TrialBroken
from pytest_agenteval.text.json_values import canonical_json
from pytest_agenteval.tools.tool import Tool
from pytest_agenteval.tools.toolsets import load_tools

# Seconds between two looks. A loop that looks later than that by as much again was busy with something else.
LOOK_S = 0.05
# The least seconds between two looks at threads: with hundreds of them one takes a third of a millisecond.
LEAST_LOOK_S = 0.02
IMPORTING = "<frozen importlib._bootstrap>"


class TimeWatch:
    """Counts the time in which agents are stopped, by looking at loop and threads while any agent acts.

    Agents on the loop of all trials are stopped while that is busy: by the setup of other trials, a huge
    reply, thousands of calls that begin together. Agents in threads are stopped while modules are imported
    there.
    """

    def __init__(self) -> None:
        self._on_loop = StoppedTime(self.catch_up)
        self._in_threads: set[Budget] = set()
        self._looked = self._due = 0.0
        self._acting = 0
        self._thread = 0

    @contextmanager
    def agent_running(self, budget: Budget, *, on_loop: bool) -> Iterator[None]:
        """Start a trial's clock, and count its agent among those that act."""
        budget.time.begin(self._on_loop if on_loop else StoppedTime(self.catch_up))
        if not on_loop:
            self._in_threads.add(budget)
        self._acting += 1
        if not self._thread:
            self._thread = threading.get_ident()
            self._look_later()
        try:
            yield
        finally:
            self._in_threads.discard(budget)
            self._acting -= 1

    def hold_up(self, seconds: float) -> None:
        """Charge no agent on the loop for what held it up just now, such as the setup of another trial."""
        self._on_loop.seconds += seconds
        self._due += seconds

    def catch_up(self) -> None:
        """Count what has stopped agents since the last look; does nothing outside the loop's thread."""
        if threading.get_ident() != self._thread:
            return
        now = time.monotonic()
        if now - self._due > LOOK_S:
            self._on_loop.seconds += now - self._due
            self._due = now
        passed = now - self._looked
        if self._in_threads and passed >= LEAST_LOOK_S:
            self._looked, places = now, _importing_places()
            for budget in self._in_threads:
                if not places.isdisjoint(budget.time.stopped.places):
                    budget.time.stopped.seconds += min(passed, budget.at)

    def _look_later(self) -> None:
        self._due = time.monotonic() + LOOK_S
        asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self.catch_up()
        if self._acting:
            self._look_later()
        else:
            self._thread = 0


def _importing_places() -> set[int]:
    """Return the threads that import something, or wait for an import, and the loops that they work for."""
    idents = {ident for ident, frame in sys._current_frames().items() if _is_importing(frame)}
    if not idents:
        return idents
    # A thread of ``asyncio.to_thread`` works for the agent whose loop started it.
    workers = [
        each for each in threading.enumerate() if isinstance(each, DaemonThread) and each.ident in idents
    ]
    return idents | {id(worker.loop) for worker in workers}


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


# The most seconds that others wait for the first trial: its first reply may take a while, or never come.
LONGEST_FIRST_USE_S = 5.0

_TURN_CHECK_S = 0.02


class FirstUse:
    """The first trial of one agent in this process, for which others wait before their clocks start.

    Libraries import and build more when they are first used, and not always so that several threads may.
    """

    def __init__(self) -> None:
        self._first: Recorder | None = None
        self._until = 0.0
        self._is_over = False

    @asynccontextmanager
    async def turn(self, recorder: Recorder) -> AsyncIterator[None]:
        """Let the first trial go on at once, others once it has read a reply; ``recorder`` is the trial's."""
        if self._first is None:
            self._first, self._until = recorder, time.monotonic() + LONGEST_FIRST_USE_S
            try:
                yield
            finally:
                self._is_over = True
            return
        # Until the first has ended, has had its time, or sends its second request: then it has read a reply.
        while not (self._is_over or self._first.turn > 1 or time.monotonic() > self._until):
            await asyncio.sleep(_TURN_CHECK_S)
        self._is_over = True
        yield


if TYPE_CHECKING:
    from pytest_agenteval.cassettes.tape import Library
    from pytest_agenteval.chat.local.vllm_chat import ModelServers
    from pytest_agenteval.chat.rate_limiter import RateLimiter, RateLimiters
    from pytest_agenteval.chat.rate_shares import ShareStore
    from pytest_agenteval.tools.mcp_tools import ProcessServers, TrialServers


# ``trials`` is the loop of all trials, for built-in agents; ``own`` is one for each trial; ``shared`` is one
# for all agents that choose it.
LoopKind = Literal["trials", "own", "shared"]


def loop_kind(agent: object, run: Callable[..., Any]) -> LoopKind:
    """Return on which loop an agent runs; by default, only built-in ones run on the loop of all trials."""
    wanted: LoopKind | None = agent_trait(agent, "loop")
    if wanted is not None and wanted in ("own", "shared"):
        return wanted
    ours = str(getattr(run, "__module__", "")).startswith("pytest_agenteval.")
    return "trials" if ours and inspect.iscoroutinefunction(run) else "own"


# What an agent raises over a setting: a class that raises anything else has another problem.
REFUSALS = (TypeError, ValueError, AssertionError)


class NoAgent(TrialBroken):
    """The object that an agent's factory made cannot act."""

    cause = "agent"


def _place_of_settings(task: PlannedTask) -> tuple[str, int, KeyPath]:
    # The files may have changed since the task was planned.
    with suppress(ProblemsFound):
        task_file = Path(task.file)
        suite_file = find_suite(task_file.parent.absolute(), Path(task_file.absolute().anchor))
        for file in filter(None, (task_file, suite_file)):
            document = read_document(file)
            for path in (("settings",), ("defaults", "settings")):
                value = document.value
                for step in path:
                    value = value.get(step) if isinstance(value, Mapping) else None
                if value is not None:
                    return short_path(file), document.line_of(path), path
    return task.row_file or task.file, task.line, ("settings",)


# The agent with which offline models act if the suite's own agent calls its own model.
STAND_IN = "tool_calling"


class AgentInstance(NamedTuple):
    """An agent with its prompts in a task and a variant, for all trials with the same."""

    agent: Agent
    prompts: Prompts
    prompt_digest: str
    code_digest: str  # of the agent's own source files
    loop: LoopKind
    prompt_maps: tuple[object, object]  # of task and variant: while they are held, nothing else has their ids


class WorkerContext:
    """Registered names, agents, prompts and cassettes of one process of the run that ``run`` describes.

    ``store`` shares real models among the run's processes, None for the run's own file.
    """

    def __init__(
        self,
        registry: Registry,
        run: ExecutorContext = ExecutorContext(),  # noqa: B008  # a frozen value: no run in particular
        *,
        store: ShareStore | None = None,
    ) -> None:
        self.registry, self.run = registry, run
        self._store = store
        self._limiters: RateLimiters | None = None
        self.grading = GradingService(registry)
        self.digest_cache = DigestCache()
        self.time = TimeWatch()
        self._library: Library | None = None
        # The files of trials that have sent all their requests.
        self.whole_chats: set[str] = set()
        self._opening, self._making = threading.Lock(), threading.Lock()
        self._tools: dict[tuple[str | McpServer, ...], Mapping[str, Tool]] = {}
        self._servers: ProcessServers | None = None
        self._model_servers: ModelServers | None = None
        self._agents: dict[tuple[str, str, int], Agent] = {}
        self._first_uses: defaultdict[str, FirstUse] = defaultdict(FirstUse)
        self._instances: dict[tuple[str, str, int, int, int], AgentInstance] = {}

    @property
    def library(self) -> Library:
        """The cassettes of this process, made when the first is opened."""
        # Agents call tools from threads of their own: of two libraries, one would not be saved.
        with self._opening:
            if self._library is None:
                from pytest_agenteval.cassettes.tape import Library

                root = Path(self.run.root) if self.run.root else None
                self._library = Library(root, started=self.run.started)
            return self._library

    @property
    def has_cassettes(self) -> bool:
        """Whether any cassette was opened in this process."""
        return self._library is not None

    @property
    def model_servers(self) -> ModelServers:
        """The model servers of this run, made for the first model that needs one."""
        with self._opening:
            if self._model_servers is None:
                from pytest_agenteval.chat.local.vllm_chat import ModelServers
                from pytest_agenteval.chat.models import known_key_names

                # vLLM needs HF_TOKEN to download models behind a licence, and no other key.
                keys = {*known_key_names()} - {"HF_TOKEN"}
                self._model_servers = ModelServers(self.run.servers, self.run.controller, keys)
            return self._model_servers

    def rate_limiter(self, model: Model) -> RateLimiter:
        """Return the limiter that every request to this model waits for, whoever sends it."""
        from pytest_agenteval.chat.rate_limiter import limiter_of

        with self._opening:
            if self._limiters is None:
                self._limiters = limiters_of_run(self.run, self._store)
        return limiter_of(self._limiters, model, self.run.limits)

    def agent_instance(self, task: PlannedTask, variant: Variant) -> AgentInstance | None:
        """Return the agent with its prompts here; None if code of its author has to run first."""
        return self._instances.get(_instance_key(task, variant))

    def make_agent_instance(self, task: PlannedTask, variant: Variant) -> AgentInstance:
        """Make the task's agent, once for each set of settings, and read its prompts here.

        May be called from any thread: users' agents are imported and made one after the other.
        """
        if not self.has_own_agent(task):
            return self._new_instance(task, variant)
        with self._making:
            # Another trial may have waited for the same agent.
            instance = self.agent_instance(task, variant)
            return instance or self._new_instance(task, variant)

    def first_use(self, task: PlannedTask) -> FirstUse | None:
        """Return what a trial of a user's function waits for; None for any other agent."""
        return self._first_uses[task.agent] if task.form.get("call") else None

    def _new_instance(self, task: PlannedTask, variant: Variant) -> AgentInstance:
        changed = {**task.prompts, **variant.prompts}
        agent = self._agent(task, changed)
        prompts = Prompts(agent_trait(agent, "templates") or {}, changed)
        factory = self._agent_factory(task)
        code = self.digest_cache.once("code", type(agent), lambda: code_digest(agent, factory), id(factory))
        maps, loop = (task.prompts, variant.prompts), loop_kind(agent, agent.run)
        instance = AgentInstance(agent, prompts, prompts.digest(), code, loop, maps)
        self._instances[_instance_key(task, variant)] = instance
        return instance

    def _agent(self, task: PlannedTask, prompts: Mapping[str, str]) -> Agent:
        factory = self._agent_factory(task)
        made_with_prompts = getattr(factory, "made_with_prompts", None)
        if made_with_prompts and (parameters := made_with_prompts(prompts)):
            task = replace(task, settings=FrozenMap({**task.settings, **parameters}))
        key = _agent_key(task)
        if key not in self._agents:
            try:
                agent: Agent = factory(**task.settings)
            except REFUSALS as refused:
                # Without settings, the fault is the class's own.
                if not task.settings:
                    raise
                file, line, path = _place_of_settings(task)
                expected = f"settings that the agent {task.agent!r} can be made with"
                found = f"{canonical_json(task.settings)}, and it raised {exception_with_place(refused)}"
                raise ProblemsFound([Problem(file, line, path, expected, found)]) from None
            if not callable(getattr(agent, AGENT.method, None)):
                raise NoAgent(f"the agent {task.agent!r} was made as {agent!r}; expected {AGENT.how}")
            self._agents[key] = agent
        return self._agents[key]

    def acting_task(self, plan: Plan) -> PlannedTask:
        """Return the task with the agent that acts: an offline model may get a built-in one.

        A user's agent that calls a model of its own would never use the offline model.
        """
        task = plan.task
        if not task.form or not plan.model.offline:
            return task
        if agent_trait(self._agent_factory(task), "asks_through_context"):
            return task
        return replace(task, agent=STAND_IN, form=NOTHING, settings=NOTHING)

    def _agent_factory(self, task: PlannedTask) -> Callable[..., Agent]:
        # A process that carries out plans has read no suite.
        if task.form:
            return self.registry.factory_of_form(task.agent, task.form)
        return self.registry.agent_factory(task.agent)

    def tools(self, task: PlannedTask) -> Mapping[str, Tool]:
        """Return the tools that the task may offer, by name: its suite's and the registered ones."""
        return {**self.registry.tools, **self.suite_tools(task)} if task.tools else self.registry.tools

    def has_own_agent(self, task: PlannedTask) -> bool:
        """Whether the task's agent is not built in, and may send requests by itself."""
        return bool(task.form) or self.registry.is_own_agent(task.agent)

    def suite_tools(self, task: PlannedTask) -> Mapping[str, Tool]:
        """Return the tools that the task's suite declares, by name and in its order."""
        if not task.tools:
            return {}
        if task.tools not in self._tools:
            loaded = map(self._tools_of, task.tools)
            self._tools[task.tools] = {name: tool for tools in loaded for name, tool in tools.items()}
        return self._tools[task.tools]

    def _tools_of(self, entry: str | McpServer) -> Mapping[str, Tool]:
        if isinstance(entry, McpServer):
            from pytest_agenteval.tools.mcp_tools import recorded_tools

            return recorded_tools(entry)
        return load_tools(entry, toolsets=self.registry.toolsets)

    def servers_for(self, task: PlannedTask, budget: Budget) -> TrialServers | None:
        """Return the servers whose tools a trial of the task may call; None if its suite names none."""
        if not any(isinstance(entry, McpServer) for entry in task.tools):
            return None
        from pytest_agenteval.tools.mcp_tools import ProcessServers

        with self._opening:
            if self._servers is None:
                self._servers = ProcessServers()
        return self._servers.of_trial(budget)

    def unused_recordings(self) -> dict[str, UnusedRecordings]:
        """Return the recordings, of cassettes that this process has opened, that nobody had a use for.

        A stale call is one that no tool of the run can make any more: another name, address or schema.
        """
        # The chats of a trial are in a file of its own, with its model, variant and repetition. Once it has
        # sent all its requests, nobody will replay the rest. Shared cassettes are left out.
        if self._library is None:
            return {}
        unused: dict[str, UnusedRecordings] = {}
        library = self._library.cassettes
        if cassettes := [cassette for cassette in library if cassette.kind == "tool" and len(cassette)]:
            from pytest_agenteval.tools.tool_tape import can_replay

            suites = (tool for tools in self._tools.values() for tool in tools.values())
            tools = (*self.registry.tools.values(), *suites)
            # An agent that is not built in may send any request by itself.
            kinds = [each if isinstance(each, type) else type(each) for each in self._agents.values()]
            are_ours = all(str(kind.__module__).startswith("pytest_agenteval.") for kind in kinds)
            any_adapter = any(map(is_adapter, self._agents.values()))
            can = can_replay(tools, agents=any_adapter or not are_ours)
            for cassette in cassettes:
                stale = [place for place, request in enumerate(cassette.requests) if not can(request)]
                places = tuple(sorted(cassette.unused_slots))
                unused[cassette.name] = UnusedRecordings(len(cassette), places, tuple(stale))
        for cassette in self._library.cassettes_at(map(Path, self.whole_chats)):
            from pytest_agenteval.cassettes.interaction import CHAT

            # The file also holds what judges and simulated users were sent; these may be others in each run.
            requests = enumerate(cassette.requests)
            own = {place for place, request in requests if not request.uri.startswith(CHAT)}
            places = tuple(sorted(cassette.unused_slots & own))
            unused[cassette.name] = UnusedRecordings(len(own), places, kind="chat")
        return unused

    def note_trial(self, names: Iterable[str], trial: str, *, broken: bool) -> None:
        """Note how a trial ended that may have recorded into these files."""
        if self._library is not None:
            self._library.note_trial(map(Path, names), trial, broken=broken)

    def save_cassettes(self, names: Iterable[str]) -> None:
        """Write what was recorded into these files; raises ProblemsFound for one that cannot be written."""
        if self._library is not None:
            self._library.save(map(Path, names))

    async def close(self) -> None:
        """Write what was recorded and release everything; raises ProblemsFound for unwritable files."""
        try:
            if self._library is not None:
                self._library.save()
        finally:
            self.grading.close()
            if self._limiters is not None:
                await self._limiters.close()
            if self._servers is not None:
                await self._servers.close()
            await close_clients()


def _agent_key(task: PlannedTask) -> tuple[str, str, int]:
    settings = canonical_json(task.settings) if task.settings else ""
    return task.agent, settings, task.form.get("given", -1) if task.form else -1


def _instance_key(task: PlannedTask, variant: Variant) -> tuple[str, str, int, int, int]:
    return *_agent_key(task), id(task.prompts), id(variant.prompts)
