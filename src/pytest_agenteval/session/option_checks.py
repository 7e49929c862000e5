"""Whether what was asked for can be done with the selected trials: looked at before the first starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import CaseFactory, PlannedItem
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.preflight import CalibrationTest, Preflight
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.tasks.gate_spec import NO_GATE
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.session.resume.earlier_trials import EarlierTrials
    from pytest_agenteval.store.run_gates import SuiteGate


class OptionChecks:
    """Looks at what was asked for, in the light of what was collected; each check raises UsageMistake.

    ``agents_act`` is False where stored trials are graded again.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        planner: Planner,
        cases: CaseFactory,
        agents_act: bool,
    ) -> None:
        self._config, self._settings, self._planner = config, settings, planner
        self._cases, self._agents_act = cases, agents_act

    def check_promoted(self) -> None:
        """See that what suites have promoted is there, where all of a suite was to be collected."""
        problems = self._planner.promoted.problems(self._collected())
        if problems:
            raise UsageMistake(str(ProblemsFound(problems)))

    def planned_gates(self) -> tuple[SuiteGate, ...]:
        """Work out what suites have to reach, where a file or an option says so."""
        asked, suites = self._settings.gate or self._settings.baseline, self._planner.suites
        met = {
            name: tasks
            for name, tasks in self._planner.met.items()
            if asked or _has_gate(suites.suite_of_name(name))
        }
        if not met:
            return ()
        from pytest_agenteval.session.gates.suite_gates import SuiteTasks, planned_gates

        option = self._config.option
        passed_over = getattr(option, "ignore", None) or getattr(option, "ignore_glob", None)
        tasks = SuiteTasks(met, () if passed_over else self._collected(), suites)
        return tuple(planned_gates(self._settings, tasks, self._config.rootpath))

    def check_resumed(self, earlier: EarlierTrials | None, selected: Sequence[PlannedItem]) -> None:
        """See that a run that goes on is asked for nothing that it has not set out to do."""
        if earlier is None or not earlier.is_own:
            return
        from pytest_agenteval.session.resume.plan_check import check_first_failures, check_plan

        (run,) = earlier.runs
        check_plan(run, self._settings, selected, self._cases.judges, self._cases.user)
        check_first_failures(self._config, self._settings, run, selected)

    def check_repetitions(self, gates: Sequence[SuiteGate]) -> None:
        """See that there is a baseline, where it decides how often tasks are repeated."""
        settings = self._settings
        if settings.repetition_range is not None and self._agents_act:
            from pytest_agenteval.session.extra_repetitions import check_baseline

            check_baseline(settings, get_run_info(self._config), gates, self._config.rootpath)
        elif settings.places.get("max_trials") == Settings.max_trials.flag and self._agents_act:
            raise UsageMistake("--agent-max-trials: expected --repetitions=LOW..HIGH beside it, as in 2..6")

    def check_before_first(
        self, registry: Registry, selected: Sequence[PlannedItem], calibrations: Sequence[CalibrationTest]
    ) -> str:
        """See that nothing is missing that would break every trial; in a dry run that is only given."""
        preflight = Preflight(registry, self._settings, self._cases.judges, self._cases.user)
        try:
            preflight.check(selected, calibrations, agents_act=self._agents_act)
        except UsageMistake as mistake:
            if not self._settings.dry_run:
                raise
            return KNOWN_SECRETS.text(str(mistake))
        return ""

    def _collected(self) -> tuple[Path, ...]:
        """Give the paths of which everything was to be collected."""
        start = self._config.invocation_params.dir
        named = (argument for argument in self._config.args if "::" not in argument)
        return tuple(Path(os.path.normpath(start / argument)) for argument in named)


def _has_gate(suite: Suite | None) -> bool:
    return suite is not None and suite.gate != NO_GATE
