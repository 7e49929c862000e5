"""One pytest run in one process: trials begin ahead of their items, and each item is given its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.executors.executor import CalibrationRequest, CalibrationResult, ExecutorReport
from pytest_agenteval.engine.pool import Pool, Slot
from pytest_agenteval.records.plan import Conditions, Model, Plan, PlannedTask
from pytest_agenteval.records.trial import Trial, TrialKey
from pytest_agenteval.registry import Registry
from pytest_agenteval.session.dead_workers import DeadWorkerTrials
from pytest_agenteval.session.executor_setup import executor_context, make_executor
from pytest_agenteval.session.fixture_readiness import FixtureReadiness
from pytest_agenteval.session.output_capture import redirect_trial_output
from pytest_agenteval.session.parametrization import Case, trial_key
from pytest_agenteval.session.prefetch import UpcomingItems, upcoming_items
from pytest_agenteval.session.progress_line import TrialTotals
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.stop_signal import StopListener
from pytest_agenteval.session.watchdogs import watch_controller, watch_interrupts
from pytest_agenteval.store.journal_writer import JournalWriter

if TYPE_CHECKING:
    from pytest_agenteval.calibration.plan import CalibrationPlan
    from pytest_agenteval.session.progress_line import ProgressLine
    from pytest_agenteval.session.regrade_source import StoredTrials

TICK = 0.1
"""Seconds between two looks at the world while pytest waits for a trial."""


class TrialRunner:
    """The trials of this process, from the first that is asked for to the end of the session.

    ``folder`` is where the run is written down. ``window`` trials at most are on their way or not yet read.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        registry: Registry,
        folder: Path,
        judges: tuple[Model, ...] = (),
        stored: StoredTrials | None = None,
    ) -> None:
        self._config = config
        self._settings = settings
        self._stored = stored
        self.folder = folder
        self._attempts: dict[TrialKey, int] = {}
        self._slots: dict[TrialKey, Slot] = {}
        self._window = max(64, 4 * settings.concurrency)
        self._stock = 0
        self._watched = _is_watched(config)
        self._upcoming: UpcomingItems | None = None
        self._coming: deque[Any] = deque()
        self.readiness = FixtureReadiness(config)
        self.stop = StopListener(config, folder)
        self._dead_workers = DeadWorkerTrials(config, folder)
        self.journal = JournalWriter(folder, process_name(config))
        self._transcripts = str(folder / f"transcripts-{process_name(config)}.jsonl")
        keep = str(folder / "workspaces") if settings.keep_workspaces else ""
        self.conditions = Conditions(
            record=settings.record,
            record_chat=settings.record_chat,
            judges=judges,
            seed=settings.seed,
            keep_workspaces=keep,
            live=settings.live,
        )
        self.totals = TrialTotals()
        executor = make_executor(settings.executor, registry)
        context = executor_context(config, settings, get_run_info(config).started)
        self._undo = redirect_trial_output(config)
        self.pool = Pool(executor, context, JournalingObserver(self.journal, self.totals))
        self._live = _live_line(config)
        if hasattr(config, "workerinput"):
            watch_controller(get_run_info(config).controller, self.pool.close)
        self._unwatch = watch_interrupts(config, folder)

    def plan(self, task: PlannedTask, case: Case) -> Plan:
        """Plan the next attempt at a trial."""
        plan = Plan(self._allowed(task), case.model, case.variant, case.repetition, 1, self.conditions)
        attempt = self._attempts[plan.key] = self._attempts.get(plan.key, 0) + 1
        return plan if attempt == 1 else replace(plan, attempt=attempt)

    def _allowed(self, task: PlannedTask) -> PlannedTask:
        """Put what the command line allows over what the task does."""
        steps, seconds = self._settings.max_steps, self._settings.timeout
        if steps is None and seconds is None:
            return task
        limits = task.limits
        return replace(
            task, limits=replace(limits, steps=steps or limits.steps, seconds=seconds or limits.seconds)
        )

    def get_trial(self, item: Any, change: Callable[[PlannedTask], PlannedTask], given: Path | None) -> Trial:
        """Give an item its finished trial, waiting for it where it is still on its way.

        An item that comes again, as under ``--reruns``, is given a new attempt. Under ``--setup-only``
        nobody would look at the trial: nothing is begun.
        """
        if self._config.getoption("setuponly", False):
            pytest.skip("--setup-only: no trial is begun")
        self.stop.raise_if_stopped(item.session)
        self._begin_ahead(item)
        key = trial_key(item)
        slot = self._slots.pop(key, None)
        inherited = None if slot or key in self._attempts else self._dead_workers.trial(key)
        if inherited is not None:  # paid for, by a worker that is dead
            self._attempts[key] = inherited.attempt
            return inherited
        if slot is None:
            slot = self._slot(self.plan(change(item.task), item.case), given)
            self.pool.hand_over([slot], first=True)
        return self._wait(slot, item)

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that was given out."""
        entry = self._dead_workers.entry(trial.key)
        if entry is not None and entry.attempt == trial.attempt:
            return self._dead_workers.transcripts(entry)
        return self._transcripts

    @property
    def report(self) -> ExecutorReport:
        """What the executor had left to tell, once the run is closed: unsaved and unused recordings."""
        return self.pool.report

    def calibrate(self, item: Any, plan: CalibrationPlan) -> CalibrationResult:
        """Have judges asked about labelled examples under the conditions of this run, and wait for it."""
        self.stop.raise_if_stopped(item.session)
        done = self.pool.calibrate(CalibrationRequest(plan, self.conditions))
        while not wait([done], TICK).done:
            self.stop.raise_if_stopped(item.session)
        return done.result()

    def close(self) -> None:
        """Stop what is still running; what ended is in the journal."""
        self._live.clear()
        self.pool.close()
        self.journal.close()
        self._undo()
        self._unwatch()

    def _slot(self, plan: Plan, given: Path | None = None) -> Slot:
        return Slot(plan, given, self._stored.reader(plan.key) if self._stored else None)

    def _wait(self, slot: Slot, item: Any) -> Trial:
        try:
            return self._waited_for(slot, item)
        except OSError as failed:  # a full disk: what cannot be written down is not given out
            told = f"the run cannot be written to {self.folder}: {failed.strerror or failed}"
            if not hasattr(self._config, "workerinput"):
                item.session.shouldstop = f"{told}; nothing more is begun"
            pytest.fail(told, pytrace=False)

    def _waited_for(self, slot: Slot, item: Any) -> Trial:
        trial = self.pool.wait(slot, 0)
        while trial is None:
            self._live.show(len(self.pool.running), self.totals)
            trial = self.pool.wait(slot, TICK)
            if trial is None:
                self.stop.raise_if_stopped(item.session)
                self._begin_ahead(item, again=True)  # the controller may have sent more meanwhile
        self._live.clear()
        return trial

    def _begin_ahead(self, current: Any, *, again: bool = False) -> None:
        """Let trials begin, in the order of their items, until the window is full.

        Looked at again only when half of what there was after the last look has been read, or while pytest
        waits: looking costs something each time, under xdist as much as the queue is long.
        """
        if self._watched or (len(self._slots) > self._stock // 2 and not again):
            return
        if self._upcoming is None:
            self._upcoming = upcoming_items(current.session)
        if current in self._coming:  # pytest has passed what stands before it
            while self._coming[0] is not current:
                self._coming.popleft()
        self._coming.extend(self._upcoming.next(self._window - len(self._coming)))
        begun: list[Slot] = []
        while self._coming and len(self._slots) < self._window:
            if not self._considered(self._coming[0], current, begun):
                break
            self._coming.popleft()
        self._stock = len(self._slots)
        if begun:
            self.pool.hand_over(begun)

    def _considered(self, item: Any, current: Any, begun: list[Slot]) -> bool:
        """Begin the item's trial if that may be; False where it has to be asked again later."""
        if not hasattr(item, "case"):
            return True
        key = trial_key(item)
        # Begun once already, be it by its own item: a second start would be paid for twice.
        if key in self._attempts:
            return True
        when = self.readiness.start_policy(item, current)
        if when == "now" and self._dead_workers.entry(key) is None:
            slot = self._slots[key] = self._slot(self.plan(item.task, item.case))
            begun.append(slot)
        return when != "later"


class JournalingObserver:
    """Writes down what begins and ends before anyone else learns of it."""

    def __init__(self, journal: JournalWriter, totals: TrialTotals) -> None:
        self._journal = journal
        self._spent = totals

    def started(self, plans: Sequence[Plan]) -> None:
        """These trials begin now."""
        self._journal.started(plans)

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """These trials have ended; gives them as they are written down."""
        written = self._journal.finished(trials)
        for trial in written:
            self._spent.add(trial)
        return written


def process_name(config: pytest.Config) -> str:
    """Name this process among those of the run: ``main``, or the xdist worker's name, with its pid."""
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    return f"{worker}-{os.getpid()}"


def _is_watched(config: pytest.Config) -> bool:
    """Whether somebody looks at one item at a time: then nothing else runs meanwhile."""
    debugged = config.getoption("usepdb", False) or config.getoption("trace", False)
    return bool(debugged) or config.getoption("capture", "") == "no"


def _live_line(config: pytest.Config) -> ProgressLine:
    from pytest_agenteval.session.progress_line import ProgressLine

    plugin = config.pluginmanager.get_plugin
    return ProgressLine(plugin("terminalreporter"), plugin("capturemanager"))
