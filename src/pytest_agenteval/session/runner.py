"""The trials of one process: each item is given its own, begun ahead or in its turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.engine.executors.executor import CalibrationRequest, CalibrationResult, ExecutorReport
from pytest_agenteval.engine.pool import Pool, Slot
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry import Registry
from pytest_agenteval.session.executor_setup import executor_context, make_executor
from pytest_agenteval.session.parametrization import Attempts, run_conditions, trial_key
from pytest_agenteval.session.prefetch import Prefetcher
from pytest_agenteval.session.progress_line import ProgressLine
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.run_journal import RunJournal
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.stop_signal import StopListener, watch_controller, watch_interrupts
from pytest_agenteval.trial_output import redirect_trial_output

if TYPE_CHECKING:
    from pytest_agenteval.calibration.plan import CalibrationPlan
    from pytest_agenteval.session.regrade_source import StoredTrials

TICK = 0.1
"""Seconds between two looks at the world while pytest waits for a trial."""


class TrialRunner:
    """The trials of this process, from the first that is asked for to the end of the session.

    Only here do pytest's items and the pool meet: what begins ahead is the prefetcher's, which attempt it is
    the attempts', what is kept of it the journal's. ``folder`` is where the run is written down.
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
        self._config, self._folder, self._stored = config, folder, stored
        self._attempts = Attempts(settings, run_conditions(settings, judges, folder))
        self.journal = RunJournal(config, folder)
        self.prefetcher = Prefetcher(config, settings.concurrency, self._attempts, self._next_slot)
        self.stop = StopListener(config, folder)
        self._progress = ProgressLine(config)
        self._closing = ExitStack()
        executor = make_executor(settings.executor, registry)
        context = executor_context(config, settings, get_run_info(config).started)
        # Before the pool's thread is there: what it prints belongs to its trials from the first.
        undo_redirection = redirect_trial_output(config)
        self._pool = Pool(executor, context, self.journal)
        if hasattr(config, "workerinput"):
            watch_controller(get_run_info(config).controller, self._pool.close)
        # Undone last first: trials end, the journal closes, then prints are pytest's again.
        for undo in (watch_interrupts(config, folder), undo_redirection, self.journal.close):
            self._closing.callback(undo)
        self._closing.callback(self._pool.close)

    @property
    def workspaces(self) -> str:
        """The folder that keeps workspaces; empty where none are kept."""
        return self._attempts.conditions.keep_workspaces

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
        slot = self.prefetcher.take(key)
        if slot is None and not self._attempts.has_begun(key):
            inherited = self.journal.inherited(key)
            if inherited is not None:
                self._attempts.take_over(inherited)
                return inherited
        if slot is None:
            slot = self._slot(self._attempts.next(change(item.task), item.case), given)
            # Before those begun ahead: pytest waits for this one and for no other.
            self._pool.hand_over([slot], first=True)
        return self._wait(slot, item)

    @property
    def report(self) -> ExecutorReport:
        """What the executor had left to tell, once the run is closed: unsaved and unused recordings."""
        return self._pool.report

    def calibrate(self, item: Any, plan: CalibrationPlan) -> CalibrationResult:
        """Have judges asked about labelled examples under the conditions of this run, and wait for it."""
        self.stop.raise_if_stopped(item.session)
        done = self._pool.calibrate(CalibrationRequest(plan, self._attempts.conditions))
        while not wait([done], TICK).done:
            self.stop.raise_if_stopped(item.session)
        return done.result()

    def close(self) -> None:
        """Stop what is still running; what ended is in the journal."""
        self._progress.clear()
        self._closing.close()

    def _begin_ahead(self, item: Any, *, waiting: bool = False) -> None:
        begun = self.prefetcher.begin(item, waiting=waiting)
        if begun:  # else the loop need not wake
            self._pool.hand_over(begun)

    def _next_slot(self, item: Any) -> Slot | None:
        """Give the trial of an item that is begun ahead of it, unless it is inherited."""
        if self.journal.is_inherited(trial_key(item)):
            return None
        return self._slot(self._attempts.next(item.task, item.case))

    def _slot(self, plan: Plan, given: Path | None = None) -> Slot:
        return Slot(plan, given, self._stored.reader(plan.key) if self._stored else None)

    def _wait(self, slot: Slot, item: Any) -> Trial:
        try:
            return self._when_ended(slot, item)
        except OSError as failed:  # a full disk: what cannot be written down is not given out
            problem = f"the run cannot be written to {self._folder}: {failed.strerror or failed}"
            if not hasattr(self._config, "workerinput"):
                item.session.shouldstop = f"{problem}; nothing more is begun"
            pytest.fail(problem, pytrace=False)

    def _when_ended(self, slot: Slot, item: Any) -> Trial:
        trial = self._pool.wait(slot, 0)  # mostly it has ended long ago: no line is shown, nothing looked at
        while trial is None:
            self._progress.show(len(self._pool.running), self.journal.totals)
            trial = self._pool.wait(slot, TICK)
            if trial is None:
                self.stop.raise_if_stopped(item.session)
                # The controller may have sent more items meanwhile.
                self._begin_ahead(item, waiting=True)
        self._progress.clear()
        return trial
