"""Trials from Python within a pytest session: they stand in its run, and in its summary."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.api.environment import ScriptEnvironment
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.session.report_hooks import call_trial_finished


class SessionEnvironment(ScriptEnvironment):
    """What a session has registered, its settings, its journal and its pool, for the trials of one item."""

    def __init__(self, evals: EvalSession, item: pytest.Item) -> None:
        super().__init__(evals.registry, evals.config.rootpath, evals.settings)
        self._evals, self._item = evals, item
        self.keep_workspaces = str(evals.folder / "workspaces") if evals.settings.keep_workspaces else ""

    def carry_out(self, slots: Sequence[TrialJob]) -> list[Trial]:
        """Carry out trials side by side, and wait for them."""
        return self._call_hooks(self._evals.runner.carry_out(slots, self._item))

    async def carry_out_async(self, slots: Sequence[TrialJob]) -> list[Trial]:
        """Carry out trials side by side, without holding up the loop that asks."""
        return self._call_hooks(await self._evals.runner.carry_out_async(slots, self._item))

    def grade(self, slots: Sequence[TrialJob]) -> list[Trial]:
        """Grade stored trials again, and wait for it; the run holds what came of them first."""
        trials = super().carry_out(slots)
        for trial in trials:
            self._evals.runner.note_paid(trial)
        return trials

    def begin_test(self, plan: Plan) -> Plan:
        """Write down that the test begins, which is itself a trial."""
        return self._evals.runner.begin_test(plan, self._item)

    def end_test(self, plan: Plan, trial: Trial) -> Trial:
        """Write down how the test ended, and give the trial as it is kept."""
        (kept,) = self._call_hooks([self._evals.runner.end_test(plan, trial)])
        return kept

    def _call_hooks(self, trials: list[Trial]) -> list[Trial]:
        for trial in trials:
            call_trial_finished(self._evals.config, trial, self._evals.failed_hooks)
        return trials
