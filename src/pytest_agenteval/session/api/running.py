"""``run``, ``arun`` and ``grade``: a call's plans are carried out, or its trial is graded again."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections import OrderedDict
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

from msgspec.structs import replace

from pytest_agenteval.chat.models import resolve_all
from pytest_agenteval.engine.executor import ExecutorContext
from pytest_agenteval.engine.jobs import TrialJob, TrialObserver
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import POLL_S, WAIT_S, Pool
from pytest_agenteval.records.plan import (
    NO_PRICES,
    OWN_MODEL,
    Conditions,
    Model,
    Plan,
    PlannedTask,
    Prices,
    RecordMode,
)
from pytest_agenteval.records.record import NOTHING, FrozenMap
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registration import get_registry, load_registry, open_configs
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.code_tasks import TaskReference, plan_task, read_task, task_file
from pytest_agenteval.session.api.suite import AgentReference, CodePlace, GraderReference, calling_place
from pytest_agenteval.session.planning.parametrization import judges_named
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.suites import LoadedSuite
from pytest_agenteval.session.settings import CHAT_MODES, TOOL_MODES, Settings
from pytest_agenteval.tasks.file_names import project_root
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

# How many trials of one call run side by side.
AT_ONCE = 10
# How many trials can be graded again: the plans of the latest ones are stored.
MOST_PLANS = 10_000


class Environment:
    """Where trials from Python run: a script or a notebook, whose trials stand in no run.

    ``keep_workspaces`` is the folder that workspaces stay in, if any; ``script`` the command that starts the
    script, which messages name.
    """

    keep_workspaces = ""
    script: str | None = None

    def __init__(self, registry: Registry, root: Path, settings: Settings) -> None:
        self.registry, self.root, self.settings = registry, root, settings

    @property
    def prices(self) -> Prices:
        """What models cost, where the user has prices of their own."""
        return FrozenMap(self.settings.prices) if self.settings.prices else NO_PRICES

    def carry_out(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        """Carry out trials side by side, and wait for them."""
        pool = self._pool()
        try:
            pool.hand_over(jobs)
            return [_wait(pool, job) for job in jobs]
        finally:
            _close(pool)

    async def carry_out_async(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        """Carry out trials side by side, without blocking the event loop."""
        pool = self._pool()
        try:
            pool.hand_over(jobs)
            return [await _wait_on_loop(pool, job) for job in jobs]
        finally:
            await asyncio.to_thread(_close, pool)

    def grade(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        """Grade stored trials again, and wait for them; nothing is written down."""
        return self.carry_out(jobs)

    def _pool(self) -> Pool:
        context = ExecutorContext(
            root=str(self.root), started=time.time(), concurrency=AT_ONCE, script=self.script
        )
        return Pool(LocalExecutor(self.registry), context, TrialObserver())


def _wait(pool: Pool, job: TrialJob) -> Trial:
    trial = None
    while trial is None:
        trial = pool.wait(job, WAIT_S)
    return trial


async def _wait_on_loop(pool: Pool, job: TrialJob) -> Trial:
    """Wait for a trial of the pool's loop, without blocking this one."""
    while (trial := pool.wait(job, 0)) is None:
        await asyncio.sleep(POLL_S)
    return trial


def _close(pool: Pool) -> None:
    pool.close()
    if pool.report.unsaved:
        raise ProblemsFound(pool.report.unsaved)


_origins: OrderedDict[tuple[Any, ...], tuple[Plan, Environment]] = OrderedDict()


def remember(plan: Plan, trial: Trial, environment: Environment) -> None:
    """Remember the plan of a trial, to grade it again: a trial does not hold its task's input."""
    _origins[_identity(trial)] = plan, environment
    while len(_origins) > MOST_PLANS:
        _origins.popitem(last=False)


def origin_of(trial: Trial) -> tuple[Plan, Environment] | None:
    """Give plan and environment of a trial of this process; None once ``MOST_PLANS`` came after it."""
    return _origins.get(_identity(trial))


def _identity(trial: Trial) -> tuple[Any, ...]:
    if not isinstance(trial, Trial):
        kind = type(trial).__name__
        raise UsageMistake(f"grade: expected one trial, as in [grade(each) for each in trials]; found {kind}")
    return trial.key, trial.attempt, trial.started_at


class Trials(Sequence[Trial]):
    """The trials of one task, by repetition."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = tuple(trials)

    @overload
    def __getitem__(self, at: int) -> Trial: ...
    @overload
    def __getitem__(self, at: slice) -> Trials: ...
    def __getitem__(self, at: int | slice) -> Trial | Trials:
        """Give the trial at a place, from 0, or those of a slice."""
        return Trials(self._trials[at]) if isinstance(at, slice) else self._trials[at]

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __repr__(self) -> str:
        score = "no score" if self.score is None else f"score {self.score:.2f}"
        return f"<Trials: {self.passed} of {len(self)} passed, {score}>"

    @property
    def score(self) -> float | None:
        """The mean score, 0 to 1, of the trials that did not error; None where all did."""
        scores = [trial.score for trial in self._trials if trial.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(trial.ending == "passed" for trial in self._trials)

    @property
    def errored(self) -> int:
        """How many errored, and so say nothing of the agent."""
        return sum(trial.ending == "errored" for trial in self._trials)

    @property
    def all_passed(self) -> bool:
        """Whether every one passed: pass^k of this task."""
        return bool(self._trials) and self.passed == len(self._trials)

    def explain(self) -> str:
        """Explain each trial's ending."""
        return "\n".join(f"{number}: {trial.explain()}" for number, trial in enumerate(self._trials, start=1))


def is_in_pytest() -> bool:
    return bool(open_configs)


def script_environment(task: TaskReference) -> Environment:
    """Give the environment of a call in a script; within pytest with its registry and options."""
    if is_in_pytest():
        config = open_configs[-1]
        from pytest_agenteval.session.settings_reading import read_settings

        return Environment(get_registry(config), config.rootpath, read_settings(config))
    here = Path.cwd()
    if isinstance(task, str | Path):
        file = task_file(here / str(task).partition("::")[0], str(task))
        root = project_root(file)
        return _project_environment(_registry_of_project(file.parent, root), root)
    return _project_environment(_installed(), project_root(here))


def _project_environment(registry: Registry, root: Path) -> Environment:
    from pytest_agenteval.session.pytest_output import learn_secrets
    from pytest_agenteval.session.settings_reading import project_settings

    settings = project_settings(root)
    learn_secrets(settings)
    environment = Environment(registry, root, settings)
    environment.script = script_command()
    return environment


def script_command() -> str:
    """Give the command that starts this script; empty in a notebook or an interpreter."""
    file = sys.argv[0] if sys.argv else ""
    interactive = "ipykernel" in sys.modules or hasattr(sys, "ps1") or not os.path.isfile(file)
    return "" if interactive else f"python {shlex.quote(file)}"


@cache
def _registry_of_project(folder: Path, root: Path) -> Registry:
    """Give the registry with what conftests register, which are loaded once in a process."""
    return load_registry([folder], (f"--rootdir={root}",))


_installed = cache(installed_registry)


DEFAULT_MODEL = "rules"


class RunOptions(NamedTuple):
    """The arguments of ``run`` beside its task; a mode that is None comes from the environment."""

    agent: AgentReference | None = None
    model: str | None = None
    repetitions: int = 1
    record: str | None = None
    record_chat: str | None = None
    judge: Sequence[str] = ()
    settings: Mapping[str, Any] = NOTHING


class RunKeywords(TypedDict, total=False):
    """The arguments of ``run`` beside its task and the repetitions, as type checkers see them."""

    agent: AgentReference | None
    model: str | None
    record: str | None
    record_chat: str | None
    judge: Sequence[str]
    settings: Mapping[str, Any]


def plans_of(
    environment: Environment,
    given: TaskReference,
    options: RunOptions,
    place: CodePlace,
    owner: str = "",
    id: str = "",
) -> list[Plan]:
    """Plan the trials of a call; ``owner`` and ``id`` are suite and id of a map that has none."""
    if options.repetitions < 1:
        raise UsageMistake(f"repetitions: expected a whole number, 1 or more; found {options.repetitions!r}")
    registry, root = environment.registry, environment.root
    task, models = plan_task(registry, root, given, options.agent, options.settings, place, owner, id)
    # The call's model, else the first of the suite, else the agent's own.
    name = options.model or next(iter(models), OWN_MODEL if task.form else DEFAULT_MODEL)
    (model,) = resolve_all((name,), environment.settings.aliases, registry.offline_models)
    conditions = _conditions_of(environment, options)
    return [
        Plan(task, model, repetition=repetition, conditions=conditions)
        for repetition in range(1, options.repetitions + 1)
    ]


def _conditions_of(environment: Environment, options: RunOptions) -> Conditions:
    settings = environment.settings
    names = (options.judge,) if isinstance(options.judge, str) else tuple(options.judge)
    is_strict = "none" in (options.record, options.record_chat)
    return Conditions(
        record=mode_of("record", options.record, settings.record),
        record_chat=mode_of("record_chat", options.record_chat, settings.record_chat),
        judges=judges_named(names, settings, environment.registry),
        seed=settings.seed,
        live=settings.live,
        keep_workspaces=environment.keep_workspaces,
        prices=environment.prices,
        loopback=settings.allows_loopback and not is_strict,
    )


def mode_of(name: str, given: str | None, default: RecordMode) -> RecordMode:
    """Give the mode of a call, else the environment's ``default``; raises UsageMistake for an unknown one."""
    if given is None:
        return default
    modes: tuple[RecordMode, ...] = CHAT_MODES if name == "record_chat" else TOOL_MODES
    for mode in modes:
        if mode == given:
            return mode
    raise UsageMistake(f"{name}: expected one of {', '.join(modes)}; found {given!r}")


def regrade_in(
    environment: Environment, trial: Trial, graders: Sequence[GraderReference] | None, place: CodePlace
) -> Trial:
    origin = origin_of(trial)
    plan = origin[0] if origin else None
    if graders is None and plan is None:
        raise UsageMistake(
            "grade(trial): expected graders: the trial did not run in this process, and does not "
            "say how its task grades"
        )
    if plan is None:
        # The new grades do not see the task's input, which is unknown, so the trial has no digest of it.
        trial = replace(trial, digests=replace(trial.digests, input=""))
        key = trial.key
        task = PlannedTask(
            key.suite, key.task, key.agent, trial.kind, trial.bucket, (), file_in_root=trial.file
        )
        plan = Plan(task, Model(key.model, key.model), repetition=key.repetition, attempt=trial.attempt)
    if graders is not None:
        value = {"id": "graded", "input": {}, "graders": tuple(graders)}
        loaded = read_task(value, place, environment.registry)
        planner = Planner(environment.registry, environment.root)
        ((graded, _),) = planner.plan([loaded], LoadedSuite(None, place.file.parent, in_code=True))
        plan = replace(plan, task=replace(plan.task, graders=graded.graders))
    stored = trial
    (result,) = environment.grade([TrialJob(plan, read_stored=lambda: stored)])
    remember(plan, result, environment)
    return result


@overload
def run(task: TaskReference, *, repetitions: Literal[1] = 1, **options: Unpack[RunKeywords]) -> Trial: ...
@overload
def run(task: TaskReference, *, repetitions: int, **options: Unpack[RunKeywords]) -> Trial | Trials: ...
def run(
    task: TaskReference,
    *,
    agent: AgentReference | None = None,
    model: str | None = None,
    repetitions: int = 1,
    record: str | None = None,
    record_chat: str | None = None,
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial | Trials:
    """Run one task and return the graded trial, or ``Trials`` with ``repetitions`` above 1.

    ``task`` is the path of a task file, ``PATH::ID`` for one of several tasks, or a map as in a task file,
    which needs no id and may leave its graders to ``grade``. ``agent`` is a registered name,
    ``module:function``, a map as in suite.yaml, or an agent itself; without it the agent of the task's suite
    acts. ``model`` is an alias, a litellm id or an offline model. ``judge`` names models that judge;
    ``settings`` override those of the task. Recordings lie in ``cassettes/`` at the project's root. A mode
    that the call does not name comes from the environment (``AGENTEVAL_RECORD``, ``AGENTEVAL_RECORD_CHAT``),
    then from pyproject.toml.

    For a path, what conftests above it register is known; for a map, what is built in and what installed
    benchmarks offer. Raises UsageMistake or ProblemsFound for what cannot be tried, and where an event loop
    runs, as in a notebook: there, call ``await arun(...)``. What breaks a trial is in its record.
    """
    refuse_running_loop("run")
    options = RunOptions(agent, model, repetitions, record, record_chat, judge, settings)
    environment = script_environment(task)
    plans = plans_of(environment, task, options, calling_place())
    return single_or_trials(environment.carry_out([TrialJob(plan) for plan in plans]), plans, environment)


@overload
async def arun(
    task: TaskReference, *, repetitions: Literal[1] = 1, **options: Unpack[RunKeywords]
) -> Trial: ...
@overload
async def arun(
    task: TaskReference, *, repetitions: int, **options: Unpack[RunKeywords]
) -> Trial | Trials: ...
def arun(
    task: TaskReference,
    *,
    agent: AgentReference | None = None,
    model: str | None = None,
    repetitions: int = 1,
    record: str | None = None,
    record_chat: str | None = None,
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Coroutine[Any, Any, Trial | Trials]:
    """Run a task where an event loop runs, as in a notebook: ``trial = await arun(...)``."""
    options = RunOptions(agent, model, repetitions, record, record_chat, judge, settings)
    # The place is read here: the frames of the running coroutine do not show who called ``arun``.
    return _arun(task, options, calling_place())


async def _arun(task: TaskReference, options: RunOptions, place: CodePlace) -> Trial | Trials:
    environment = script_environment(task)
    plans = plans_of(environment, task, options, place)
    trials = await environment.carry_out_async([TrialJob(plan) for plan in plans])
    return single_or_trials(trials, plans, environment)


def grade(trial: Trial, graders: Sequence[GraderReference] | None = None) -> Trial:
    """Grade a trial again, without running its agent; return it with new grades.

    Without ``graders`` those of its task grade again, which works for trials of this process alone. Of any
    other trial, such as one of ``load_run``, graders see everything but the task's input.
    """
    refuse_running_loop("grade")
    origin = origin_of(trial)
    return regrade_in(origin[1] if origin else script_environment({}), trial, graders, calling_place())


def tool_calls(trial: Trial, name: str | None = None) -> list[ToolCall]:
    """Give an agent's tool calls of a trial in order, all or those of one tool."""
    return [
        call for call in trial.transcript.calls if call.by != "seed" and (name is None or call.tool == name)
    ]


def refuse_running_loop(function: str) -> None:
    """Raise UsageMistake where an event loop runs, which the call would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    way = "use `await arun(...)`" if function == "run" else "call it from a thread: `asyncio.to_thread(...)`"
    raise UsageMistake(f"{function}(...) would block the running event loop: {way}")


def single_or_trials(
    trials: Sequence[Trial], plans: Sequence[Plan], environment: Environment
) -> Trial | Trials:
    """Give what a call returns: one trial alone, or all of them; each can be graded again."""
    for plan, trial in zip(plans, trials, strict=True):
        remember(plan, trial, environment)
    return trials[0] if len(trials) == 1 else Trials(trials)
