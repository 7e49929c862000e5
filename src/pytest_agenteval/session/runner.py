"""Who has a say in which trials of a run begin."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.chat.models import rate_limits_of
from pytest_agenteval.engine.digests import digests_agents
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorContext,
    ExecutorReport,
    make_executor,
)
from pytest_agenteval.engine.jobs import Admission, Admissions, TrialJob
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.processes.captured_output import redirect_trial_output
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.inner_pytest import STARTED_BY
from pytest_agenteval.session.item_reports import skip_item
from pytest_agenteval.session.planning.parametrization import (
    Attempts,
    PlannedItem,
    name_of_task,
    run_conditions,
    trial_key,
)
from pytest_agenteval.session.prefetch import Prefetcher, replaces_task
from pytest_agenteval.session.run_info import SERVERS_FOLDER, get_run_info
from pytest_agenteval.session.run_journal import RunJournal
from pytest_agenteval.session.run_signals import StopListener, end_with_controller, watch_run_interrupts
from pytest_agenteval.session.settings import RATE_OPTIONS, Settings
from pytest_agenteval.session.stash import budget_key
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.calibration.calibration_file import CalibrationPlan
    from pytest_agenteval.chat.rate_shares import ModelStanding
    from pytest_agenteval.engine.run_budget import RunBudget
    from pytest_agenteval.session.adaptive_repetitions import ExtraItems
    from pytest_agenteval.session.earlier_trials import EarlierTrials, RegradedTrials
    from pytest_agenteval.session.reuse import ReuseAction, ReuseDecision, ReusePlan


def admissions(
    config: pytest.Config, settings: Settings, context: ExecutorContext, registry: Registry
) -> Admissions:
    """Give all that were asked for; what counts with the others, as money does, comes last."""
    breaker = _provider_admission(context, registry)
    if settings.max_cost is None and settings.max_tokens is None:
        return Admissions([breaker])
    from pytest_agenteval.session.run_costs import get_run_budget

    budget = get_run_budget(config, settings)
    return Admissions([breaker] if budget is None else [breaker, budget])


def _provider_admission(context: ExecutorContext, registry: Registry) -> Admission:
    from pytest_agenteval.engine.jobs import ProviderAdmission

    return ProviderAdmission(lambda: _standings(context.rates), registry)


def _standings(rates: str) -> Mapping[str, ModelStanding]:
    """Give how the models fare: as this process knows it, or all that have asked."""
    from pytest_agenteval.engine.jobs import standings_of_run

    return standings_of_run(rates)


TICK = 0.1
"""Seconds between two looks at the world while pytest waits for a trial.

One long wait would keep the thread from Ctrl-C, from the controller's word to stop, and from items that xdist
sends meanwhile.
"""

POLL = 0.005
"""Seconds between two such looks while a test's own event loop waits."""

QUICK_S = 0.0005
MOST_LEFT_S = 0.04
"""Seconds for which pytest leaves the interpreter to each trial that has just begun, and to all of them."""


class TrialRunner:
    """The trials of this process, from the first that is asked for to the end of the session.

    Only here do pytest's items and the pool meet: what begins ahead is the prefetcher's, which attempt it is
    the attempts', what is kept of it the journal's. ``folder`` is where the run is written down; trials that
    run ``apart`` begin when their item's turn has come.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        registry: Registry,
        folder: Path,
        judges: tuple[Model, ...] = (),
        stored: RegradedTrials | None = None,
        extra: ExtraItems | None = None,
        user: Model | None = None,
        earlier: EarlierTrials | None = None,
        apart: Container[TrialKey] = (),
    ) -> None:
        self._config, self._folder, self._stored = config, folder, stored
        earlier_attempts = earlier.attempts if earlier is not None else None
        self._attempts = Attempts(settings, run_conditions(settings, judges, user, folder), earlier_attempts)
        self.journal = RunJournal(config, folder, earlier_attempts)
        concurrency = settings.concurrency
        self.prefetcher = Prefetcher(config, concurrency, self._attempts, self._next_slot, extra, apart)
        self.stop = StopListener(config, folder)
        self._current: PlannedItem | None = None
        self._closing = ExitStack()
        executor, info = make_executor(settings.executor_name, registry), get_run_info(config)
        context = executor_context(config, settings, info.started)
        # Before the pool's thread is there: what it prints belongs to its trials from the first.
        undo_redirection = redirect_trial_output(config)
        admission = admissions(config, settings, context, registry)
        self._pool = Pool(executor, context, self.journal, admission, self._attempts.numbered)
        self.budget: RunBudget | None = config.stash.get(budget_key, None)
        self.reuse: ReusePlan | None = None
        if earlier is not None:
            from pytest_agenteval.session.reuse import ReusePlan

            teller = executor if digests_agents(executor) else LocalExecutor(registry, run=context)
            self.reuse = ReusePlan(
                earlier, registry, lambda plan: self._pool.agent_side(teller, plan).result()
            )
        if hasattr(config, "workerinput"):
            end_with_controller(info.controller, self._pool.close)
        elif (starter := os.environ.get(STARTED_BY, "")).isdecimal():
            end_with_controller(int(starter), self._pool.close)
        # Undone last first: trials end, the journal closes, then prints are pytest's again.
        unwatch = watch_run_interrupts(config, folder, info.is_kept)
        for undo in (unwatch, undo_redirection, self.journal.close):
            self._closing.callback(undo)
        self._closing.callback(self._pool.close)

    @property
    def workspaces(self) -> str:
        """The folder that keeps workspaces; empty where none are kept."""
        return self._attempts.conditions.keep_workspaces

    def get_trial(
        self, item: PlannedItem, change: Callable[[PlannedTask], PlannedTask], workspace: Path | None
    ) -> Trial:
        """Give an item its finished trial, waiting for it where it is still on its way.

        An item that comes again, as under ``--reruns``, is given a new attempt. Under ``--setup-only``
        nobody would look at the trial: nothing is begun.
        """
        if self._config.getoption("setuponly", False):
            pytest.skip("--setup-only: no trial is begun")
        self.stop.raise_if_stopped(item.session)
        self._let_go_of_task(item)
        # Others first: they run while this one is waited for. This one may be among them, and is then taken.
        self._begin_ahead(item)
        key = trial_key(item)
        slot = self.prefetcher.take(key)
        if slot is None and not self._attempts.was_planned(key):
            inherited = self.journal.inherited(key)
            if inherited is not None:
                self._attempts.take_over(inherited)
                return inherited
        if slot is None:
            task = change(item.task)
            plan = self._attempts.plan(task, item.case)
            decision = self._decide(plan, task_changed=task is not item.task)
            unchanged = decision.unchanged_trial() if decision else None
            if unchanged is not None:
                self._attempts.take_over(unchanged)
                return unchanged
            slot = self._slot(self._attempts.numbered(plan), workspace, decision)
            # Before those begun ahead: pytest waits for this one and for no other.
            self._pool.hand_over([slot], first=True)
        return self._wait(slot, item)

    def _let_go_of_task(self, item: PlannedItem) -> None:
        """Keep no more of the task of the item before this one than its name and where it stands.

        Not when that item ends: a plugin may run it again. Tasks are most of what a large run would hold.
        """
        before, self._current = self._current, item
        if before is not None and before is not item:
            before.task = name_of_task(before.task)

    def carry_out(self, slots: Sequence[TrialJob], item: pytest.Item) -> list[Trial]:
        """Carry out trials that a test asks for, before those begun ahead, and wait for them."""
        self.stop.raise_if_stopped(item.session)
        self._pool.hand_over(self._to_carry_out(slots), first=True)
        return [self._wait(slot, item) for slot in slots]

    def _to_carry_out(self, slots: Sequence[TrialJob]) -> list[TrialJob]:
        """Give the slots whose trials have not finished in this run before; the others have them already."""
        for slot in slots:
            plan = self._attempts.plan_of_test(slot.plan)
            decision = self._decide(plan)
            slot.trial = decision.unchanged_trial() if decision else None
            if slot.trial is not None:
                self._attempts.take_over(slot.trial)
                continue
            slot.plan = self._attempts.numbered(plan)
            if decision:
                decision.fill(slot)
        return [slot for slot in slots if slot.trial is None]

    async def carry_out_async(self, slots: Sequence[TrialJob], item: pytest.Item) -> list[Trial]:
        """Carry out trials that a test asks for, and let its event loop go on meanwhile."""
        self.stop.raise_if_stopped(item.session)
        self._pool.hand_over(self._to_carry_out(slots), first=True)
        while not all(self._pool.wait(slot, 0) or slot.not_run for slot in slots):
            await asyncio.sleep(POLL)
        return [self._wait(slot, item) for slot in slots]

    def begin_test(self, plan: Plan, item: pytest.Item) -> Plan:
        """Write down that a test begins which is itself a trial; give its plan with its attempt's number."""
        plan = self._attempts.numbered(plan)
        if self.budget is not None and (why := self.budget.refusal()) is not None:
            self._pool.note_not_run(plan, why)
            skip_item(item, why)
        self._pool.note_started(plan)
        return plan

    def end_test(self, plan: Plan, trial: Trial) -> Trial:
        """Write down how such a test ended, and give the trial as it is kept."""
        self.note_paid(trial)
        return self._pool.note_finished(plan, trial)

    def note_paid(self, trial: Trial) -> None:
        """Count what a trial took that the pool has not carried out."""
        if self.budget is not None:
            self.budget.note(trial.spending, trial.key.model)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that was given out."""
        earlier = self.reuse.transcripts(trial) if self.reuse is not None else ""
        return earlier or self.journal.transcripts(trial)

    def trial_origin_label(self, trial: Trial) -> str:
        """Give ``resumed``, ``reused`` or ``regraded``; empty for a trial that this process carried out."""
        return self.reuse.trial_origin_label(trial) if self.reuse is not None else ""

    def reuse_action(self, item: PlannedItem) -> ReuseAction:
        """Say what becomes of an item's trial; what a fixture may change yet is run."""
        if replaces_task(item):
            return "run"
        decision = self._decide(self._attempts.plan(item.task, item.case))
        return decision.action if decision else "run"

    def reuse_summary(self, items: Sequence[PlannedItem], *, perhaps: int) -> str:
        """Say in one line what becomes of the items' trials, and why; ``perhaps`` so many more are tried."""
        if self.reuse is None:
            return ""
        fixed = [item for item in items if not replaces_task(item)]
        plans = (self._attempts.plan(item.task, item.case) for item in fixed)
        return self.reuse.summary(plans, later=len(items) - len(fixed), perhaps=perhaps)

    @property
    def report(self) -> ExecutorReport:
        """What the executor had left to tell, once the run is closed: unsaved and unused recordings."""
        return self._pool.report

    def calibrate(self, item: pytest.Item, plan: CalibrationPlan) -> CalibrationResult:
        """Have judges asked about labelled examples under the conditions of this run, and wait for it."""
        self.stop.raise_if_stopped(item.session)
        if self.budget is not None and (why := self.budget.refusal()) is not None:
            skip_item(item, why)
        conditions = self._attempts.conditions
        future = self._pool.calibrate(CalibrationRequest(plan, conditions))
        while not wait([future], TICK).done:
            self.stop.raise_if_stopped(item.session)
        result = future.result()
        if self.budget is not None:
            self.budget.note(result.paid, ", ".join(judge.name for judge in conditions.judges))
        return result

    def close(self) -> None:
        """Stop what is still running; what ended is in the journal."""
        self._closing.close()

    def _begin_ahead(self, item: pytest.Item, *, waiting: bool = False) -> None:
        begun = self.prefetcher.begin(item, waiting=waiting)
        if begun:  # else the loop need not wake
            self._pool.hand_over(begun)
            self._leave_interpreter(len(begun))

    def _leave_interpreter(self, trials: int) -> None:
        """Let trials that have just begun end, if they are quick.

        Two threads that both want the interpreter take it from each other, each on a processor of its own:
        that costs a tenth of a run. Not where the first failure ends it: others would begin meanwhile.
        """
        option = self._config.option
        if not (getattr(option, "maxfail", 0) or getattr(option, "stepwise", False)):
            self._pool.wait_until_idle(min(QUICK_S * trials, MOST_LEFT_S))

    def _next_slot(self, item: PlannedItem, key: TrialKey) -> TrialJob | None:
        """Give the trial of an item that is begun ahead of it, unless it has finished in this run."""
        if self.journal.is_inherited(key) or (self.reuse is not None and self.reuse.keeps(key)):
            return None
        plan = self._attempts.plan(item.task, item.case)
        decision = self._decide(plan)
        if decision and decision.action == "keep":
            return None
        return self._slot(self._attempts.numbered(plan), None, decision)

    def _slot(self, plan: Plan, workspace: Path | None, decision: ReuseDecision | None) -> TrialJob:
        slot = TrialJob(plan, workspace, self._stored.reader(plan.key) if self._stored else None)
        if decision:
            decision.fill(slot)
        return slot

    def _decide(self, plan: Plan, *, task_changed: bool = False) -> ReuseDecision | None:
        """Decide what is reused of an earlier trial; None where it simply runs.

        A trial that has begun here already, as under ``--reruns``, runs again.
        """
        if self.reuse is None or self._attempts.was_planned(plan.key):
            return None
        return self.reuse.decide(plan, task_changed=task_changed)

    def _wait(self, slot: TrialJob, item: pytest.Item) -> Trial:
        try:
            return self._wait_until_ended(slot, item)
        except OSError as failed:  # a full disk: what cannot be written down is not given out
            problem = f"the run cannot be written to {self._folder}: {failed.strerror or failed}"
            if not hasattr(self._config, "workerinput"):
                item.session.shouldstop = f"{problem}; nothing more is begun"
            pytest.fail(problem, pytrace=False)

    def _wait_until_ended(self, slot: TrialJob, item: pytest.Item) -> Trial:
        trial = self._pool.wait(slot, 0)  # mostly it has ended long ago: nothing is looked at
        while trial is None:
            trial = self._pool.wait(slot, TICK)
            if slot.not_run is not None:
                skip_item(item, slot.not_run)
            if trial is None:
                self.stop.raise_if_stopped(item.session)
                # The controller may have sent more items meanwhile.
                self._begin_ahead(item, waiting=True)
        return trial


def executor_context(config: pytest.Config, settings: Settings, started: float) -> ExecutorContext:
    """Give what the executor is told of this run; ``started`` is when it began, in seconds since 1970."""
    values, patterns = KNOWN_SECRETS.all_known()
    between = settings.repetition_range
    return ExecutorContext(
        root=str(config.rootpath),
        started=started,
        concurrency=settings.concurrency,
        argument=settings.executor_argument,
        conftests=tuple(_conftest_folders(config)),
        pytest_options=tuple(_loading_options(config)),
        captures_output=config.getoption("capture", "fd") != "no",
        log_level=getattr(config.pluginmanager.get_plugin("logging-plugin"), "log_level", None),
        secrets=values,
        secret_patterns=patterns,
        names_models=bool(settings.models),
        repetitions=settings.fixed_repetitions or (between.low if between else 0),
        servers=str(get_run_info(config).folder / SERVERS_FOLDER),
        controller=get_run_info(config).controller,
        limits=rate_limits_of(settings.aliases, {name: getattr(settings, name) for name in RATE_OPTIONS}),
        rates=str(get_run_info(config).rates),
        is_alone=settings.executor_name == "local" and not hasattr(config, "workerinput"),
        # Under -v, and while anything is recorded: elsewhere nobody wants to know.
        reports_unused=config.getoption("verbose", 0) > 0
        or not {settings.record, settings.record_chat} <= {"none", "off"},
    )


def _conftest_folders(config: pytest.Config) -> Iterator[str]:
    """Give the folders of the conftests that this session has loaded, the outermost first."""
    names = (name for name, plugin in config.pluginmanager.list_name_plugin() if plugin is not None)
    folders = {str(Path(name).parent) for name in names if Path(name).name == "conftest.py"}
    yield from sorted(folders, key=lambda folder: (len(Path(folder).parts), folder))


def _loading_options(config: pytest.Config) -> Iterator[str]:
    """Give the options that decide which conftests and plugins there are, and how they are imported."""
    yield f"--rootdir={config.rootpath}"
    if config.inipath is not None:
        yield f"-c{config.inipath}"
    yield f"--import-mode={config.getoption('importmode')}"
    for plugin in config.getoption("plugins", None) or ():
        yield f"-p{plugin}"
