"""What the benchmark's own evaluation reports hold: figures of tasks and levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval import Grade, Run, RunHeader, Trial
from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    DETAILS,
    LOG_STATE,
    UPSTREAM_ERROR,
    naive_sum,
)
from pytest_agenteval.benchmarks.ko_agentbench.scorecard import LEVEL_METRICS, PASS_SHARE, has_levels
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import sum_figures
from pytest_agenteval.reports.leaderboard import suite_entries
from pytest_agenteval.reports.run_view import SuiteView

PASS_NAME = "pass@k"
RESPONSE_RATE = "RRR"
LABELS: Mapping[str, str] = {"SR": "SR", "EPR_CVR": "EPR_CVR", PASS_NAME: PASS_SHARE}
"""The metrics of every task that the benchmark reports, with the label that our grade has."""


class TaskReport(FrozenValue, frozen=True):
    """What the benchmark's report says of a task; ``upstream`` is true where all metrics count in its way."""

    task: str
    success: bool
    metrics: Mapping[str, Mapping[str, Any]]
    upstream: bool
    started_at: str
    seconds: float
    steps: int
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens: int | None
    first_token_s: float | None


def _task_report(level: str, trials: Sequence[Trial]) -> TaskReport | None:
    """Give the report of a task from its repetitions, None where none of them was evaluated."""
    counted = [trial for trial in trials if evaluated(trial)]
    if not counted:
        return None
    # As in the benchmark, the first repetition stands for the task; the others count in its pass@k only.
    first = counted[0]
    by_label = {grade.grader: grade for grade in first.grades}
    labels = {name: LABELS.get(name, name) for name in reported(level)}
    grades = {name: by_label[label] for name, label in labels.items() if label in by_label}
    metrics = {name: _metric(grade) for name, grade in grades.items()}
    # Its pass@k is the mean of the technical flag over the repetitions: neither the estimator of that name
    # nor the question whether one of them passed.
    if len(trials) > 1 and PASS_NAME in metrics:
        answered = sum(map(_success, counted))
        details = {"repetitions": len(trials), "actual_repetitions": len(counted), "success_count": answered}
        metrics[PASS_NAME] = {"score": answered / len(counted), "details": details}
    log = _log(first)
    prompt, completion, tokens = _tokens(first)
    marks = {DETAILS, UPSTREAM_ERROR}
    in_its_way = (each.score is None or bool(marks & each.details.keys()) for each in grades.values())
    return TaskReport(
        task=first.key.task,
        success=_success(first),
        metrics=metrics,
        upstream=all(in_its_way),
        started_at=first.started_at,
        seconds=float(log.get("execution_time", first.seconds)),
        steps=int(log.get("steps_taken", _steps(first))),
        calls=sum(call.by == "agent" for call in first.transcript.calls),
        prompt_tokens=prompt,
        completion_tokens=completion,
        tokens=tokens,
        first_token_s=_first_token_s(first),
    )


def evaluated(trial: Trial) -> bool:
    """Whether a trial counts: it did not break, or the benchmark's own log says how it ended."""
    # A trial that the benchmark saw fail is evaluated there, so it is here though it broke.
    return bool(trial.grades) and (trial.ending != "errored" or bool(_log(trial)))


def reported(level: str) -> tuple[str, ...]:
    """Give the metrics that the benchmark reports for each task of a level, in its order."""
    # The benchmark documents ProvAcc and ReuseRate, but its reports no longer have them.
    own = (name for name in LEVEL_METRICS[level] if name not in ("ProvAcc", "ReuseRate"))
    return (*LABELS, *own)


def _metric(grade: Grade) -> Mapping[str, Any]:
    """Give a score with its details: our rationale where it was not counted in the benchmark's way."""
    score = None if grade.value is None else float(grade.value)
    if UPSTREAM_ERROR in grade.details:
        return {"score": score, "error": grade.details[UPSTREAM_ERROR]}
    return {"score": score, "details": grade.details.get(DETAILS, {"reason": grade.rationale})}


def _log(trial: Trial) -> Mapping[str, Any]:
    log = trial.outcome.answer.state.get(LOG_STATE)
    return log if isinstance(log, Mapping) else {}


def _success(trial: Trial) -> bool:
    """Whether an answer came back: by the log, else by the grade for it, else by the trial itself."""
    log = _log(trial)
    if "success" in log:
        return bool(log["success"])
    grade = next((grade for grade in trial.grades if grade.grader == RESPONSE_RATE), None)
    if grade is not None and grade.score is not None:
        return grade.full
    return bool(trial.outcome.answer.text) and _steps(trial) > 0


def _steps(trial: Trial) -> int:
    # Where no requests were recorded, the replies among the messages are counted.
    asks = len(trial.transcript.asks)
    return asks or sum(m.role == "assistant" and not m.seeded for m in trial.transcript.messages)


def _tokens(trial: Trial) -> tuple[int | None, int | None, int | None]:
    log = _log(trial).get("token_usage")
    if isinstance(log, Mapping):
        prompt, completion, total = (log.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
        both = None if prompt is None or completion is None else prompt + completion
        return prompt, completion, total or both
    usage = trial.usage
    return usage.input_tokens, usage.output_tokens, usage.tokens


def _first_token_s(trial: Trial) -> float | None:
    """Give the mean time to the first token, None where no model replied.

    For a reply that was not streamed, it is the time to the whole reply, as in the benchmark.
    """
    log = _log(trial).get("ttft_stats")
    if isinstance(log, Mapping):
        return float(log.get("average") or 0.0)
    asks = trial.transcript.asks
    waits = [a.ended - a.started if a.first_token_s is None else a.first_token_s for a in asks]
    return naive_sum(waits) / len(waits) if waits else None


Evaluation = Mapping[str, Any]


def evaluation_of(run: Run, suite: SuiteView) -> Evaluation | None:
    """Evaluate a suite with one model; None where its grades are not the benchmark's.

    Trials that broke, or whose transcripts cannot be read, count in the totals but are not evaluated.
    ``mode`` is in the summary only where some metric was not counted in the benchmark's own way.
    """
    entries = suite_entries(run, suite)
    if not has_levels(entries):
        return None
    levels: dict[str, Any] = {}
    upstream = True
    for name in LEVELS:
        tasks: dict[tuple[str, str], list[Trial]] = {}
        for entry in (entry for entry in entries if entry.bucket == name):
            trials = tasks.setdefault((entry.key.task, entry.key.agent), [])
            trials += [trial] if (trial := run.trial_if_readable(entry)) else []
        reports = [report for trials in tasks.values() if (report := _task_report(name, trials))]
        group = (suite.suite, suite.model, suite.variant, name)
        planned = sum(
            each.tasks for each in run.planned if (each.suite, each.model, each.variant, each.bucket) == group
        )
        task_count = max(planned, len(tasks))
        if task_count:
            levels[name] = _level(name, run.header, suite, reports, task_count)
            upstream = upstream and all(report.upstream for report in reports)
    summary = _summary(run.header, suite, levels)
    return {"summary": summary if upstream else {**summary, "mode": "default"}, "by_level": levels}


def _summary(header: RunHeader, suite: SuiteView, levels: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": _model(header, suite),
        "judge_model": ", ".join(judge.id for judge in header.judges) or None,
        "execution_date": day_of(header),
        "evaluation_date": header.ended_at or header.started_at,
        "total_tasks": sum(level["total_tasks"] for level in levels.values()),
        "evaluated_tasks": sum(level["evaluated_tasks"] for level in levels.values()),
        "sample_size": None,
        "levels_evaluated": len(levels),
    }


def day_of(header: RunHeader) -> str:
    """Give the day on which a run was started: ``20261121``."""
    return header.started_at[:10].replace("-", "")


def _model(header: RunHeader, suite: SuiteView) -> str:
    """Give a model's id, as ``id@variant`` where it has a variant."""
    id = next((model.id for model in header.models if model.name == suite.model), suite.model)
    return f"{id}@{suite.variant}" if suite.variant else id


def _level(
    name: str, header: RunHeader, suite: SuiteView, tasks: Sequence[TaskReport], planned: int
) -> dict[str, Any]:
    return {
        "file": f"{name}.json",
        "total_tasks": planned,
        "evaluated_tasks": len(tasks),
        "metrics": dict(_means(name, tasks)),
        "metadata": _metadata(name, header, suite, tasks),
        "task_evaluations": [
            {"task_id": task.task, "success": task.success, "metrics": dict(task.metrics)} for task in tasks
        ],
    }


def _means(level: str, tasks: Sequence[TaskReport]) -> Iterator[tuple[str, float]]:
    """Give each metric's mean over the tasks that decided it, 0 where none did; then the response rate."""
    for name in reported(level):
        scores = [task.metrics[name]["score"] for task in tasks if name in task.metrics]
        # As the benchmark writes it: a metric that applies to
        # no task is 0 here, and a blank in our own tables.
        if scores:
            yield name, _mean([score for score in scores if score is not None])
    yield RESPONSE_RATE, _mean([float(task.success) for task in tasks])


def _metadata(level: str, header: RunHeader, suite: SuiteView, tasks: Sequence[TaskReport]) -> dict[str, Any]:
    """Give what the tasks of a level took, rounded as the benchmark's log is; None for what is unknown."""
    count, answered = len(tasks), sum(task.success for task in tasks)
    # An offline model is no language model: it has no tokens per second, and no time to a first token.
    offline = any(model.name == suite.model and model.offline for model in header.models)
    seconds = naive_sum(task.seconds for task in tasks)
    tokens = sum_figures([task.tokens for task in tasks]).value
    prompts = sum_figures([task.prompt_tokens for task in tasks]).value
    completions = sum_figures([task.completion_tokens for task in tasks]).value
    steps, calls = sum(task.steps for task in tasks), sum(task.calls for task in tasks)
    return {
        "timestamp": max((task.started_at for task in tasks), default=""),
        "model": _model(header, suite),
        "level": level,
        "total_tasks": count,
        "successful_tasks": answered,
        "failed_tasks": count - answered,
        "success_rate": round(_per(100 * answered, count), 2),
        "total_execution_time": round(seconds, 2),
        "average_execution_time": round(_per(seconds, count), 2),
        "total_steps": steps,
        "average_steps": round(_per(steps, count), 2),
        "total_tool_calls": calls,
        "average_tool_calls": round(_per(calls, count), 2),
        "total_tokens": tokens,
        "average_tokens_per_task": None if tokens is None else round(_per(tokens, count), 2),
        "average_prompt_tokens": None if prompts is None else round(_per(prompts, count), 2),
        "average_completion_tokens": None if completions is None else round(_per(completions, count), 2),
        # As in the benchmark: tokens of prompts and replies together, by the wall time of the whole tasks.
        "average_tps": None if tokens is None or offline else round(_per(tokens, seconds), 2),
        "ttft": _first_tokens([None if offline else task.first_token_s for task in tasks]),
    }


def _first_tokens(waits: Sequence[float | None]) -> dict[str, Any]:
    if waits and all(wait is None for wait in waits):
        return {"average": None, "min": None, "max": None, "unit": "seconds"}
    # The log of the benchmark takes only times above 0 into these figures.
    measured = [wait for wait in waits if wait]
    return {
        "average": round(_mean(measured), 4),
        "min": round(min(measured, default=0.0), 4),
        "max": round(max(measured, default=0.0), 4),
        "unit": "seconds",
    }


def _mean(values: Sequence[float]) -> float:
    # Added as its code adds, so that a report equals the published one to the last digit.
    return naive_sum(values) / len(values) if values else 0.0


def _per(whole: float, parts: float) -> float:
    return whole / parts if parts else 0.0
