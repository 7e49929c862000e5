"""Asking judges about labelled examples: side by side, under the run's conditions, each from its tape."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.calibration.calibration_file import CalibrationPlan
from pytest_agenteval.calibration.labels import CalibrationAnswers, ExampleJudgement, LabelledExample
from pytest_agenteval.engine.executor import CalibrationRequest, CalibrationResult
from pytest_agenteval.engine.tracebacks import exception_line, user_frames_first
from pytest_agenteval.engine.trial_resources import TrialJudge, chat_cassette_file, open_judge_chat
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model, Plan, PlannedTask
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import ErrorDetails
from pytest_agenteval.text.errors import AgentEvalError, ProblemsFound, TrialBroken
from pytest_agenteval.text.json_values import text_digest

# Stands in for an agent's model: no agent acts, as the outputs are in the file of labels.
LABELS = Model("labels", "labels", offline=True)


async def calibrate(request: CalibrationRequest, context: WorkerContext, at_once: int) -> CalibrationResult:
    """Ask the judges about every example, and return their answers, or what broke."""
    recorder = Recorder(lambda: 0.0, request.conditions.prices)
    try:
        # At most ``at_once`` examples are judged side by side.
        usage: dict[str, Usage] = {judge.name: Usage() for judge in request.conditions.judges}
        room = asyncio.Semaphore(at_once)

        async def ask(example: LabelledExample, repetition: int) -> ExampleJudgement:
            async with room:
                # A seed for each example, so that they do not wait equally long between retries.
                seed = request.conditions.seed + int(text_digest(example.id)[:8], 16)
                seeded = replace(request.conditions, seed=seed)
                task = _calibration_task(request.plan, dict(example.values))
                example_plan = Plan(task, LABELS, repetition=repetition, conditions=seeded)
                judges = _judges(example_plan, example, context, recorder)
                judgement = await ask_judges(request.plan.rubric, example.values, judges)
            for judge in judges:
                usage[judge.model.name] += judge.chat.usage
            return ExampleJudgement(example, repetition, judgement)

        try:
            judgements = await _all_or_none(
                [
                    ask(example, repetition)
                    for example in request.plan.examples
                    for repetition in range(1, request.plan.repeats + 1)
                ]
            )
        finally:
            # Also after an error: what was recorded until then is saved.
            context.save_cassettes(calibration_cassettes(request.plan))
        answers = CalibrationAnswers(request.conditions.judges, tuple(judgements), usage)
        return CalibrationResult(answers, paid=recorder.paid)
    except (TrialBroken, ProblemsFound) as broken:
        error = ErrorDetails(broken.cause, str(broken))
    except AgentEvalError as refused:
        error = ErrorDetails("calibration", str(refused))
    # A judge may be a user's own: its author's frames come first, as for a grader.
    except Exception as raised:
        error = ErrorDetails("judge_crash", exception_line(raised), user_frames_first(raised))
    return CalibrationResult(error=error, paid=recorder.paid)


def calibration_cassettes(plan: CalibrationPlan) -> tuple[str, ...]:
    """Return the cassette files of a calibration's chats, one for each repetition."""
    task = _calibration_task(plan, {})
    return tuple(
        chat_cassette_file(Plan(task, LABELS, repetition=repetition))
        for repetition in range(1, plan.repeats + 1)
    )


async def _all_or_none(asks: Sequence[Coroutine[Any, Any, ExampleJudgement]]) -> list[ExampleJudgement]:
    """Wait for all; if one fails, the others are stopped, as their answers would be of no use."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask) for ask in asks]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _judges(
    plan: Plan, example: LabelledExample, context: WorkerContext, recorder: Recorder
) -> tuple[TrialJudge, ...]:
    """Return the judges of one example, each with a chat whose recordings are this example's."""
    budget = Budget(Allowance())
    judges = []
    for model in plan.conditions.judges:
        role = f"{model.name}: {example.id}"
        judges.append(TrialJudge(model, open_judge_chat(model, plan, context, budget, recorder, [], role)))
    return tuple(judges)


def _calibration_task(plan: CalibrationPlan, values: dict[str, str]) -> PlannedTask:
    return PlannedTask(
        suite="calibration",
        id=plan.id,
        agent="labels",
        kind="regression",
        bucket=plan.rubric.name,
        graders=(),
        input=values,
        file=plan.file,
        line=plan.line,
        cassette=plan.cassette,
    )
