"""The evaluation of one model in the shape of the benchmark's ``evaluation_report.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval import Run, RunHeader, Trial
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import naive_sum
from pytest_agenteval.benchmarks.ko_agentbench.levels import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.report.task_report import (
    RESPONSE_RATE,
    TaskReport,
    reported,
    task_report,
)
from pytest_agenteval.benchmarks.ko_agentbench.scorecard import has_levels
from pytest_agenteval.records.transcript import sum_figures
from pytest_agenteval.reports.leaderboard import suite_entries
from pytest_agenteval.reports.run_view import SuiteView

Evaluation = Mapping[str, Any]
DEFAULT_MODE = "default"


def evaluation_of(run: Run, suite: SuiteView) -> Evaluation | None:
    """Evaluate a suite with one model; None where its grades are not the benchmark's.

    Trials that broke, or whose transcripts cannot be read, are counted in the totals and evaluated nowhere.
    ``mode`` is in the summary only where some metric was not worked out in the benchmark's own way.
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
        reports = [report for trials in tasks.values() if (report := task_report(name, trials))]
        planned = max(_planned_tasks(run, suite, name), len(tasks))
        if planned:
            levels[name] = _level(name, run.header, suite, reports, planned)
            upstream = upstream and all(report.upstream for report in reports)
    summary = _summary(run.header, suite, levels)
    return {
        "summary": summary if upstream else {**summary, "mode": DEFAULT_MODE},
        "by_level": levels,
    }


def _planned_tasks(run: Run, suite: SuiteView, level: str) -> int:
    group = (suite.suite, suite.model, suite.variant, level)
    return sum(
        planned.tasks
        for planned in run.planned
        if (planned.suite, planned.model, planned.variant, planned.bucket) == group
    )


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
    """Give the id of a model, with its variant where it has one."""
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
        # As it writes them: what was not applicable to any task is 0 here, and a blank in our own tables.
        if scores:
            yield name, _mean([score for score in scores if score is not None])
    yield RESPONSE_RATE, _mean([float(task.success) for task in tasks])


def _metadata(level: str, header: RunHeader, suite: SuiteView, tasks: Sequence[TaskReport]) -> dict[str, Any]:
    """Give what the tasks of a level took, rounded as the benchmark's log is; None is what nobody knows.

    An offline model is no language model: it has no tokens per second, and no time to a first token.
    """
    count, answered = len(tasks), sum(task.success for task in tasks)
    offline = any(model.name == suite.model and model.offline for model in header.models)
    seconds, tokens = (
        naive_sum(task.seconds for task in tasks),
        sum_figures([task.tokens for task in tasks]).value,
    )
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
        "average_tps": None if tokens is None or offline else round(_per(tokens, seconds), 2),
        "ttft": _first_tokens([None if offline else task.first_token_s for task in tasks]),
    }


def _first_tokens(waits: Sequence[float | None]) -> dict[str, Any]:
    if waits and not any(wait is not None for wait in waits):
        return {"average": None, "min": None, "max": None, "unit": "seconds"}
    measured = [wait for wait in waits if wait]
    return {
        "average": round(_mean(measured), 4),
        "min": round(min(measured, default=0.0), 4),
        "max": round(max(measured, default=0.0), 4),
        "unit": "seconds",
    }


def _mean(values: Sequence[float]) -> float:
    return naive_sum(values) / len(values) if values else 0.0


def _per(whole: float, parts: float) -> float:
    return whole / parts if parts else 0.0
