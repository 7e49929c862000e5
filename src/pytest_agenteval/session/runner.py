"""The trials of a process: started ahead or in an item's turn, or reused; items wait for them here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_agenteval.chat.models import rate_limits_of
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorContext,
    ExecutorReport,
    make_executor,
)
from pytest_agenteval.engine.jobs import Admission, ProviderAdmission, TrialJob, standings_of_run
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import POLL_S, WAIT_S, Pool
from pytest_agenteval.processes.captured_output import redirect_trial_output
from pytest_agenteval.processes.process_groups import end_with_parent
from pytest_agenteval.records.plan import Conditions, Plan, PlannedTask, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.inner_pytest import STARTED_BY
from pytest_agenteval.session.item_reports import skip_item
from pytest_agenteval.session.planning.parametrization import (
    AttemptPlanner,
    PlannedItem,
    name_of_task,
    trial_key,
)
from pytest_agenteval.session.prefetch import Prefetcher, replaces_task
from pytest_agenteval.session.run_info import SERVERS_FOLDER, get_run_info
from pytest_agenteval.session.run_journal import RunJournal
from pytest_agenteval.session.run_signals import StopListener, watch_run_interrupts
from pytest_agenteval.session.settings import RATE_OPTIONS, Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import budget_key, progress_key
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.calibration.calibration_file import CalibrationPlan
    from pytest_agenteval.engine.run_budget import RunBudget
    from pytest_agenteval.session.adaptive_repetitions import ExtraItems
    from pytest_agenteval.session.reuse import EarlierTrials, ReuseAction, ReuseDecision, ReusePlan


def admissions(
    config: pytest.Config, settings: Settings, context: ExecutorContext, registry: Registry
) -> Sequence[Admission]:
    """Give what decides whether a trial may begin: the state of its provider, and the run's budget."""
    breaker = ProviderAdmission(lambda: standings_of_run(context.rates), registry)
    if settings.max_cost is None and settings.max_tokens is None:
        return [breaker]
    from pytest_agenteval.session.run_costs import get_run_budget

    budget = get_run_budget(config, settings)
    # The budget last: it reserves money for a trial that nothing else refuses.
    return [breaker] if budget is None else [breaker, budget]


QUICK_S = 0.0005
# Seconds for which pytest leaves the interpreter to each trial that has just started, and to all.
MOST_LEFT_S = 0.04


class TrialRunner:
    """The trials of this process, from the first that an item needs to the end of the session.

    Only here do pytest's items meet the pool. The prefetcher chooses the trials that begin ahead,
    ``AttemptPlanner`` numbers them, and the journal writes them down. Trials in ``apart`` begin in their
    item's turn.
    """

    def __init__(
        self,
        config: pytest.Config,
        conditions: Conditions,
        earlier: EarlierTrials | None,
        extra: ExtraItems | None,
        apart: Container[TrialKey],
    ) -> None:
        settings, registry, info = read_settings(config), get_registry(config), get_run_info(config)
        self._config, self._folder = config, info.folder
        earlier_attempts = earlier.attempts if earlier is not None else lambda key: 0
        self._attempts = AttemptPlanner(settings, conditions, earlier_attempts)
        self.journal = RunJournal(config, info.folder, earlier_attempts)
        concurrency = settings.concurrency
        self.prefetcher = Prefetcher(config, concurrency, self._attempts, self._next_job, extra, apart)
        self.stop = StopListener(config, info.folder)
        self._current: PlannedItem | None = None
        self._closing = ExitStack()
        executor = make_executor(settings.executor_name, registry)
        context = _executor_context(config, settings, info.started)
        # This comes before the pool's thread starts: whatever that prints belongs to its trials from the
        # start.
        undo_redirection = redirect_trial_output(config)
        admission = admissions(config, settings, context, registry)
        self._pool = Pool(executor, context, self.journal, admission, self._attempts.numbered)
        self.budget: RunBudget | None = config.stash.get(budget_key, None)
        self.reuse: ReusePlan | None = None
        if earlier is not None:
            from pytest_agenteval.session.reuse import ReusePlan

            teller = executor if isinstance(executor, LocalExecutor) else LocalExecutor(registry, run=context)
            self.reuse = ReusePlan(
                earlier, registry, lambda plan: self._pool.agent_side(teller, plan).result()
            )
        # Otherwise a worker whose controller was killed would go on calling models, and nobody would see it.
        if hasattr(config, "workerinput"):
            end_with_parent(info.controller, self._pool.close)
        elif (starter := os.environ.get(STARTED_BY, "")).isdecimal():
            end_with_parent(int(starter), self._pool.close)
        # Callbacks run in reverse order: trials end, the journal closes, then what is printed is pytest's
        # again.
        unwatch = watch_run_interrupts(config, info.folder, info.is_saved)
        for undo in (unwatch, undo_redirection, self.journal.close):
            self._closing.callback(undo)
        self._closing.callback(self._pool.close)

    @property
    def workspaces(self) -> str:
        """The folder in which workspaces stay; empty where they are deleted."""
        return self._attempts.conditions.keep_workspaces

    def get_trial(
        self, item: PlannedItem, change: Callable[[PlannedTask], PlannedTask], workspace: Path | None
    ) -> Trial:
        """Give an item its finished trial, waiting for it where it is still running."""
        # An item that runs again, as under ``--reruns``, gets a new attempt. Under ``--setup-only`` no trial
        # begins, as nobody would look at it.
        if self._config.getoption("setuponly", False):
            pytest.skip("--setup-only: no trial is started")
        self.stop.raise_if_stopped(item.session)
        # Only the name of the last item's task stays in memory: tasks are most of what a large run would
        # hold. Not earlier, when that item ended: a plugin may have run it again.
        before, self._current = self._current, item
        if before is not None and before is not item:
            before.task = name_of_task(before.task)
        # Other trials are started first: they run while pytest waits for this one, which may be among them.
        self._begin_ahead(item)
        key = trial_key(item)
        job = self.prefetcher.take(key)
        if job is None and not self._attempts.was_planned(key):
            inherited = self.journal.inherited(key)
            if inherited is not None:
                self._attempts.take_over(inherited)
                return inherited
        if job is None:
            task = change(item.task)
            job = TrialJob(self._attempts.plan(task, item.case), workspace)
            self._prepare(job, task_changed=task is not item.task)
            if job.trial is not None:
                return job.trial
            # This job comes before those that began ahead: pytest waits for it and for no other.
            self._pool.hand_over([job], first=True)
        return self._wait(job, item)

    def carry_out(self, jobs: Sequence[TrialJob], item: pytest.Item) -> list[Trial]:
        """Carry out a test's own trials, before those that begin ahead, and wait for them."""
        self.stop.raise_if_stopped(item.session)
        self._pool.hand_over(self._to_carry_out(jobs), first=True)
        return [self._wait(job, item) for job in jobs]

    def _to_carry_out(self, jobs: Sequence[TrialJob]) -> list[TrialJob]:
        """Give the jobs that have to run; jobs whose trial is reused receive that trial here."""
        for job in jobs:
            job.plan = replace(job.plan, task=self._attempts.with_limits(job.plan.task))
            self._prepare(job)
        return [job for job in jobs if job.trial is None]

    async def carry_out_async(self, jobs: Sequence[TrialJob], item: pytest.Item) -> list[Trial]:
        """Carry out a test's own trials, and let its event loop go on meanwhile."""
        self.stop.raise_if_stopped(item.session)
        self._pool.hand_over(self._to_carry_out(jobs), first=True)
        while not all(self._pool.wait(job, 0) or job.not_run for job in jobs):
            await asyncio.sleep(POLL_S)
        return [self._wait(job, item) for job in jobs]

    def begin_test(self, plan: Plan, item: pytest.Item) -> Plan:
        """Write down that a marked test begins, which is a trial itself; give its plan with its attempt."""
        plan = self._attempts.numbered(plan)
        if self.budget is not None and (why := self.budget.refusal()) is not None:
            self._pool.on_loop(lambda: self.journal.not_run(plan, why))
            skip_item(item, why)
        self._pool.on_loop(lambda: self.journal.started([plan]))
        return plan

    def end_test(self, plan: Plan, trial: Trial) -> Trial:
        """Write down how a marked test ended, and give the trial as it was written."""
        self.note_paid(trial)
        return self._pool.note_finished(plan, trial)

    def note_paid(self, trial: Trial) -> None:
        """Count the spending of a trial that the pool has not carried out."""
        if self.budget is not None:
            self.budget.note(trial.spending, trial.key.model)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that an item received."""
        earlier = self.reuse.transcripts(trial) if self.reuse is not None else ""
        return earlier or self.journal.transcripts(trial)

    def trial_origin_label(self, trial: Trial) -> str:
        """Give ``resumed``, ``reused`` or ``regraded``; empty for a trial that this process carried out."""
        return self.reuse.trial_origin_label(trial) if self.reuse is not None else ""

    def reuse_action(self, item: PlannedItem) -> ReuseAction:
        # A fixture may still change the task, in the item's turn.
        if replaces_task(item):
            return "run"
        decision = self._decide(self._attempts.plan(item.task, item.case))
        return decision.action if decision else "run"

    def reuse_summary(self, items: Sequence[PlannedItem], *, perhaps: int) -> str:
        """Report in one line what becomes of the items' trials, and why; ``perhaps`` counts further ones."""
        if self.reuse is None:
            return ""
        fixed = [item for item in items if not replaces_task(item)]
        plans = (self._attempts.plan(item.task, item.case) for item in fixed)
        return self.reuse.summary(plans, later=len(items) - len(fixed), perhaps=perhaps)

    @property
    def report(self) -> ExecutorReport:
        """What the executor reports once it is closed: unsaved and unused recordings."""
        return self._pool.report

    def calibrate(self, item: pytest.Item, plan: CalibrationPlan) -> CalibrationResult:
        """Have judges judge labelled examples under the conditions of this run, and wait for them."""
        self.stop.raise_if_stopped(item.session)
        if self.budget is not None and (why := self.budget.refusal()) is not None:
            skip_item(item, why)
        conditions = self._attempts.conditions
        future = self._pool.calibrate(CalibrationRequest(plan, conditions))
        while not wait([future], WAIT_S).done:
            self.stop.raise_if_stopped(item.session)
        result = future.result()
        if self.budget is not None:
            self.budget.note(result.paid, ", ".join(judge.name for judge in conditions.judges))
        return result

    def close(self) -> None:
        """Stop what is still running; finished trials are in the journal."""
        self._closing.close()

    def _begin_ahead(self, item: pytest.Item, *, waiting: bool = False) -> None:
        started = self.prefetcher.begin(item, waiting=waiting)
        # Nothing is handed over, so the loop of the pool need not wake up.
        if not started:
            return
        self._pool.hand_over(started)
        # Wait a moment for quick trials to end: two threads that both want the interpreter take it from each
        # other, which costs a tenth of a run. Not where the first failure ends the run: others would begin.
        option = self._config.option
        if not (getattr(option, "maxfail", 0) or getattr(option, "stepwise", False)):
            self._pool.wait_until_idle(min(QUICK_S * len(started), MOST_LEFT_S))

    def _next_job(self, item: PlannedItem, key: TrialKey) -> TrialJob | None:
        """Give the job of an item that begins ahead; None where its trial is reused."""
        if self.journal.inherited_entry(key) or (self.reuse is not None and self.reuse.keeps(key)):
            return None
        job = TrialJob(self._attempts.plan(item.task, item.case))
        decision = self._decide(job.plan)
        if decision and decision.action == "keep":  # its item reads it
            return None
        self._prepare(job)
        return job

    def _prepare(self, job: TrialJob, *, task_changed: bool = False) -> None:
        """Give a job the trial that stays as it is, or the number of its attempt and what it reuses."""
        decision = self._decide(job.plan, task_changed=task_changed)
        job.trial = decision.unchanged_trial() if decision else None
        if job.trial is not None:
            self._attempts.take_over(job.trial)
            return
        job.plan = self._attempts.numbered(job.plan)
        if decision:
            decision.fill(job)

    def _decide(self, plan: Plan, *, task_changed: bool = False) -> ReuseDecision | None:
        """Decide what is reused of an earlier trial; None where it simply runs."""
        # A trial that has run here already, as under ``--reruns``, runs again; a stored one is graded again.
        if self.reuse is None or (self._attempts.was_planned(plan.key) and not self.reuse.is_regrading):
            return None
        return self.reuse.decide(plan, task_changed=task_changed)

    def _wait(self, job: TrialJob, item: pytest.Item) -> Trial:
        try:
            trial = self._pool.wait(job, 0)  # most have ended long ago
            while trial is None:
                trial = self._pool.wait(job, WAIT_S)
                if progress_key in self._config.stash:
                    self._config.stash[progress_key].show()
                if job.not_run is not None:
                    skip_item(item, job.not_run)
                if trial is None:
                    self.stop.raise_if_stopped(item.session)
                    # The controller may have sent more items meanwhile.
                    self._begin_ahead(item, waiting=True)
            return trial
        # A full disk, perhaps: a trial that is not written down is not given to its item.
        except OSError as failed:
            problem = f"the run cannot be written to {self._folder}: {failed.strerror or failed}"
            if not hasattr(self._config, "workerinput"):
                item.session.shouldstop = f"{problem}; no further trial is started"
            pytest.fail(problem, pytrace=False)


def _executor_context(config: pytest.Config, settings: Settings, started: float) -> ExecutorContext:
    """Describe this run for an executor; ``started`` is when it began, in seconds since 1970."""
    values, patterns = KNOWN_SECRETS.all_known()
    between, info = settings.repetition_range, get_run_info(config)
    names = (name for name, plugin in config.pluginmanager.list_name_plugin() if plugin is not None)
    folders = {str(Path(name).parent) for name in names if Path(name).name == "conftest.py"}
    return ExecutorContext(
        root=str(config.rootpath),
        started=started,
        concurrency=settings.concurrency,
        argument=settings.executor_argument,
        # The outermost first, as pytest loads them.
        conftests=tuple(sorted(folders, key=lambda folder: (len(Path(folder).parts), folder))),
        pytest_options=(
            f"--rootdir={config.rootpath}",
            *([f"-c{config.inipath}"] if config.inipath is not None else []),
            f"--import-mode={config.getoption('importmode')}",
            *(f"-p{plugin}" for plugin in config.getoption("plugins", None) or ()),
        ),
        captures_output=config.getoption("capture", "fd") != "no",
        log_level=getattr(config.pluginmanager.get_plugin("logging-plugin"), "log_level", None),
        secrets=values,
        secret_patterns=patterns,
        command=info.command,
        names_models=bool(settings.models),
        repetitions=settings.fixed_repetitions or (between.low if between else 0),
        servers=str(info.folder / SERVERS_FOLDER),
        controller=info.controller,
        limits=rate_limits_of(settings.aliases, {name: getattr(settings, name) for name in RATE_OPTIONS}),
        rates=str(info.rates),
        is_alone=settings.executor_name == "local" and not hasattr(config, "workerinput"),
        # Unused recordings are reported only under -v, or while anything is recorded.
        reports_unused=config.getoption("verbose", 0) > 0
        or not {settings.record, settings.record_chat} <= {"none", "off"},
    )
