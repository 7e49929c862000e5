"""What trials from Python need around them: models, a root, who carries them out, and what comes back."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, overload

from pytest_agenteval.engine.executor import ExecutorContext
from pytest_agenteval.engine.jobs import NullObserver, TrialJob
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.records.plan import NO_PRICES, Plan, Prices
from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registration import get_registry, load_registry, open_configs
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.api.code_tasks import TaskReference, project_root, task_file
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

TICK = 0.1  # seconds that a script waits for a trial at a time, so that Ctrl-C is noticed
POLL = 0.005  # seconds between two looks at a trial from an event loop
AT_ONCE = 10
MOST_PLANS = 10_000


class Environment:
    """Where trials from Python run: a script or a notebook, whose trials stand in no run.

    ``record`` and ``record_chat`` are the modes where a call names none. ``keep_workspaces`` is the folder
    that workspaces stay in, if any.
    """

    def __init__(self, registry: Registry, root: Path, settings: Settings) -> None:
        self.registry, self.root, self.aliases, self.seed = registry, root, settings.aliases, settings.seed
        self.record, self.record_chat = settings.record, settings.record_chat
        self.live_setting = settings.live
        self.prices: Prices = FrozenMap(settings.prices) if settings.prices else NO_PRICES
        self.keep_workspaces = ""
        self.script: str | None = None

    @property
    def live(self) -> bool:
        """Whether requests of the user's own code are sent without a tape."""
        return bool(self.live_setting)

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
        return Pool(LocalExecutor(self.registry), context, NullObserver())


def _wait(pool: Pool, job: TrialJob) -> Trial:
    trial = None
    while trial is None:
        trial = pool.wait(job, TICK)
    return trial


async def _wait_on_loop(pool: Pool, job: TrialJob) -> Trial:
    """Wait for a trial of the pool's loop, without blocking this one."""
    while (trial := pool.wait(job, 0)) is None:
        await asyncio.sleep(POLL)
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
    """Give plan and environment of a trial of this process, unless very many came after it."""
    return _origins.get(_identity(trial))


def _identity(trial: Trial) -> tuple[Any, ...]:
    if not isinstance(trial, Trial):
        kind = type(trial).__name__
        raise UsageMistake(f"grade: expected one trial, as in [grade(each) for each in trials]; found {kind}")
    return trial.key, trial.attempt, trial.started_at


class Trials(Sequence[Trial]):
    """The trials of one task, in the order of their repetitions."""

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
    """Whether pytest is running in this process."""
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
