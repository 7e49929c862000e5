"""Grading a trial again from Python: no agent acts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.api.code_place import CodePlace
from pytest_agenteval.session.api.code_tasks import read_task
from pytest_agenteval.session.api.environment import Environment, plan_of, remember
from pytest_agenteval.session.api.given import GraderGiven
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.suites import LoadedSuite
from pytest_agenteval.text.errors import UsageMistake


def regraded(
    environment: Environment, trial: Trial, graders: Sequence[GraderGiven] | None, place: CodePlace
) -> Trial:
    """Grade a trial again in an environment, as ``grade`` says."""
    plan = plan_of(trial)
    if graders is None and plan is None:
        raise UsageMistake(
            "grade(trial): expected graders: the trial was not carried out in this process, and does not "
            "say how its task grades"
        )
    if plan is None:
        trial = replace(trial, digests=replace(trial.digests, input=""))  # nobody knows what was asked
        plan = _plan_of_stored(trial)
    if graders is not None:
        plan = replace(plan, task=replace(plan.task, graders=_planned_graders(graders, environment, place)))
    stored = trial
    (result,) = environment.grade([TrialJob(plan, read_stored=lambda: stored)])
    remember(plan, result, environment)
    return result


def _plan_of_stored(trial: Trial) -> Plan:
    """Give a plan for a trial of which nothing is known but what it holds."""
    key = trial.key
    task = PlannedTask(key.suite, key.task, key.agent, trial.kind, trial.bucket, (), file_in_root=trial.file)
    return Plan(task, Model(key.model, key.model), repetition=key.repetition, attempt=trial.attempt)


def _planned_graders(
    given: Sequence[GraderGiven], environment: Environment, place: CodePlace
) -> tuple[PlannedGrader, ...]:
    value = {"id": "graded", "input": {}, "graders": tuple(given)}
    loaded = read_task(value, place, environment.registry)
    planner = Planner(environment.registry, environment.root)
    ((task, _),) = planner.plan([loaded], LoadedSuite(None, place.file.parent, in_code=True))
    return task.graders
