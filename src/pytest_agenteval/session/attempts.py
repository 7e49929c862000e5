"""Plans of trials, attempt by attempt, under the conditions of this run."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.records.plan import Conditions, Model, Plan, PlannedTask, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.parametrization import Case
from pytest_agenteval.session.settings import Settings


class Attempts:
    """Plans each attempt at a trial, and knows how many there were."""

    def __init__(self, settings: Settings, conditions: Conditions) -> None:
        self.conditions = conditions
        self._settings = settings
        self._latest: dict[TrialKey, int] = {}

    def next(self, task: PlannedTask, case: Case) -> Plan:
        """Plan the next attempt at a trial; the first is 1."""
        plan = Plan(self._limited(task), case.model, case.variant, case.repetition, 1, self.conditions)
        attempt = self._latest[plan.key] = self._latest.get(plan.key, 0) + 1
        return plan if attempt == 1 else replace(plan, attempt=attempt)

    def has_begun(self, key: TrialKey) -> bool:
        """Whether a trial was planned, or taken over, before."""
        return key in self._latest

    def take_over(self, trial: Trial) -> None:
        """Count a trial that another process carried out."""
        self._latest[trial.key] = trial.attempt

    def _limited(self, task: PlannedTask) -> PlannedTask:
        """Put the limits of the command line over the task's."""
        steps, seconds = self._settings.max_steps, self._settings.timeout
        if steps is None and seconds is None:
            return task
        limits = task.limits
        return replace(
            task, limits=replace(limits, steps=steps or limits.steps, seconds=seconds or limits.seconds)
        )


def run_conditions(settings: Settings, judges: tuple[Model, ...], folder: Path) -> Conditions:
    """Give what is the same for every trial of the run that is kept in ``folder``."""
    return Conditions(
        record=settings.record,
        record_chat=settings.record_chat,
        judges=judges,
        seed=settings.seed,
        keep_workspaces=str(folder / "workspaces") if settings.keep_workspaces else "",
        live=settings.live,
    )
