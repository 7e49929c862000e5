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

Evaluation = Mapping[str, Any]


def evaluation_of(run: Run, suite: SuiteView) -> Evaluation | None:
    """Evaluate a suite with one model; None where its grades are not the benchmark's.

    Trials that broke, or whose transcripts cannot be read, count in the totals but are not evaluated.
    ``mode`` is in the summary only where some metric was not counted in the benchmark's own way.
    """
    entries, header = suite_entries(run, suite), run.header
    if not has_levels(entries):
        return None
    id = next((model.id for model in header.models if model.name == suite.model), suite.model)
    model = f"{id}@{suite.variant}" if suite.variant else id
    # An offline model is no language model: it has no tokens per second, and no time to a first token.
    offline = any(each.name == suite.model and each.offline for each in header.models)
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
        if task_count := max(planned, len(tasks)):
            metadata = {"timestamp": max((report.started_at for report in reports), default="")}
            metadata |= {"model": model, "level": name, **_metadata(reports, offline)}
            levels[name] = {
                "file": f"{name}.json",
                "total_tasks": task_count,
                "evaluated_tasks": len(reports),
                "metrics": dict(_means(name, reports)),
                "metadata": metadata,
                "task_evaluations": [
                    {"task_id": report.task, "success": report.success, "metrics": dict(report.metrics)}
                    for report in reports
                ],
            }
            upstream = upstream and all(report.upstream for report in reports)
    summary = _summary(header, model, levels)
    return {"summary": summary if upstream else {**summary, "mode": "default"}, "by_level": levels}


def _summary(header: RunHeader, model: str, levels: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": model,
        "judge_model": ", ".join(judge.id for judge in header.judges) or None,
        # The day on which the run was started: 20261121.
        "execution_date": header.started_at[:10].replace("-", ""),
        "evaluation_date": header.ended_at or header.started_at,
        "total_tasks": sum(level["total_tasks"] for level in levels.values()),
        "evaluated_tasks": sum(level["evaluated_tasks"] for level in levels.values()),
        "sample_size": None,
        "levels_evaluated": len(levels),
    }


def reported(level: str) -> tuple[str, ...]:
    """Give the metrics that the benchmark reports for each task of a level, in its order."""
    # The benchmark documents ProvAcc and ReuseRate, but its reports no longer have them.
    return (*LABELS, *(name for name in LEVEL_METRICS[level] if name not in ("ProvAcc", "ReuseRate")))


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
    tokens: tuple[int | None, int | None, int | None]
    first_token_s: float | None


def _task_report(level: str, trials: Sequence[Trial]) -> TaskReport | None:
    """Give the report of a task from its repetitions, None where none of them was evaluated."""
    # A trial that the benchmark saw fail is evaluated there, so it is here though it broke.
    counted = [trial for trial in trials if trial.grades and (trial.ending != "errored" or _log(trial))]
    if not counted:
        return None
    # As in the benchmark, the first repetition stands for the task; the others count in its pass@k only.
    first = counted[0]
    by_label = {grade.grader: grade for grade in first.grades}
    labels = {name: LABELS.get(name, name) for name in reported(level)}
    grades = {name: by_label[label] for name, label in labels.items() if label in by_label}
    metrics = {name: _metric(grade) for name, grade in grades.items()}
    if len(trials) > 1 and PASS_NAME in metrics:
        metrics[PASS_NAME] = _repeat_share(len(trials), counted)
    marks, log = {DETAILS, UPSTREAM_ERROR}, _log(first)
    return TaskReport(
        task=first.key.task,
        success=_success(first),
        metrics=metrics,
        upstream=all(each.score is None or bool(marks & each.details.keys()) for each in grades.values()),
        started_at=first.started_at,
        seconds=float(log.get("execution_time", first.seconds)),
        steps=int(log.get("steps_taken", _steps(first))),
        calls=sum(call.by == "agent" for call in first.transcript.calls),
        tokens=_tokens(first),
        first_token_s=_first_token_s(first),
    )


def _repeat_share(planned: int, counted: Sequence[Trial]) -> Mapping[str, Any]:
    """Give a task's pass@k: neither the estimator of that name nor the question whether one of them passed.

    In the benchmark it is the mean of the technical flag over the repetitions; by its documentation it is the
    share of those that succeeded, None where no judge could tell.
    """
    grades = [grade for trial in counted for grade in trial.grades if grade.grader == PASS_SHARE]
    if any(DETAILS in grade.details for grade in grades):
        found = [float(_success(trial)) for trial in counted]
    else:
        found = [grade.value for grade in grades if grade.value is not None]
    good = sum(map(bool, found))
    details = {"repetitions": planned, "actual_repetitions": len(found), "success_count": good}
    return {"score": good / len(found) if found else None, "details": details}


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
    """Give the tokens of prompts, of replies and of both; None for what is unknown."""
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
    return _mean(waits) if waits else None


def _means(level: str, tasks: Sequence[TaskReport]) -> Iterator[tuple[str, float]]:
    """Give each metric's mean over the tasks that decided it, 0 where none did; then the response rate."""
    for name in reported(level):
        scores = [task.metrics[name]["score"] for task in tasks if name in task.metrics]
        # As the benchmark writes it: a metric that applies to
        # no task is 0 here, and a blank in our own tables.
        if scores:
            yield name, _mean([score for score in scores if score is not None])
    yield RESPONSE_RATE, _mean([float(task.success) for task in tasks])


def _metadata(tasks: Sequence[TaskReport], offline: bool) -> dict[str, Any]:
    """Give what the tasks of a level took, rounded as the benchmark's log is; None for what is unknown."""
    count, answered = len(tasks), sum(task.success for task in tasks)
    seconds = naive_sum(task.seconds for task in tasks)
    prompts, completions, tokens = (sum_figures([task.tokens[at] for task in tasks]).value for at in range(3))
    steps, calls = sum(task.steps for task in tasks), sum(task.calls for task in tasks)

    def per(whole: float | None, parts: float = count) -> float | None:
        return None if whole is None else round(whole / parts if parts else 0.0, 2)

    return {
        "total_tasks": count,
        "successful_tasks": answered,
        "failed_tasks": count - answered,
        "success_rate": per(100 * answered),
        "total_execution_time": round(seconds, 2),
        "average_execution_time": per(seconds),
        "total_steps": steps,
        "average_steps": per(steps),
        "total_tool_calls": calls,
        "average_tool_calls": per(calls),
        "total_tokens": tokens,
        "average_tokens_per_task": per(tokens),
        "average_prompt_tokens": per(prompts),
        "average_completion_tokens": per(completions),
        # As in the benchmark: tokens of prompts and replies together, by the wall time of the whole tasks.
        "average_tps": None if offline else per(tokens, seconds),
        "ttft": _first_tokens([None if offline else task.first_token_s for task in tasks]),
    }


def _first_tokens(waits: Sequence[float | None]) -> dict[str, Any]:
    if waits and all(wait is None for wait in waits):
        return {"average": None, "min": None, "max": None, "unit": "seconds"}
    # The log of the benchmark takes only times above 0 into these figures.
    measured = [wait for wait in waits if wait]
    average, least, most = _mean(measured), min(measured, default=0.0), max(measured, default=0.0)
    return {"average": round(average, 4), "min": round(least, 4), "max": round(most, 4), "unit": "seconds"}


def _mean(values: Sequence[float]) -> float:
    # Added as its code adds, so that a report equals the published one to the last digit.
    return naive_sum(values) / len(values) if values else 0.0
