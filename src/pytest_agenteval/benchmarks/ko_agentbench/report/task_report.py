"""A task of a run in the benchmark's terms: its metrics with details, its flag, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval import Grade, Trial
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import naive_sum
from pytest_agenteval.benchmarks.ko_agentbench.levels import LEVEL_METRICS, PASS_SHARE
from pytest_agenteval.records.record import FrozenValue

PASS_NAME = "pass@k"
RESPONSE_RATE = "RRR"
LABELS: Mapping[str, str] = {"SR": "SR", "EPR_CVR": "EPR_CVR", PASS_NAME: PASS_SHARE}
"""The metrics of every task that the benchmark reports, with the label that our grade has."""

RETIRED = ("ProvAcc", "ReuseRate")
"""Metrics that the benchmark documents and no longer reports."""

DETAILS, UPSTREAM_ERROR = "upstream", "upstream_error"
"""Where a grade's details hold what the benchmark would report beside the score, or how its code broke."""

LOGGED = "ko_agentbench"
"""Where an imported trial's state holds what the benchmark's log says of it."""


class TaskReport(FrozenValue, frozen=True):
    """What the benchmark would say of one task; ``upstream`` when every metric was worked out in its way."""

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


def task_report(level: str, trials: Sequence[Trial]) -> TaskReport | None:
    """Give the report of a task from its repetitions, None where none of them was evaluated.

    As in the benchmark the first one stands for the task, and the others count in its pass@k only.
    """
    counted = [trial for trial in trials if evaluated(trial)]
    if not counted:
        return None
    first = counted[0]
    metrics = _metrics(level, first)
    if len(trials) > 1 and PASS_NAME in metrics:
        metrics[PASS_NAME] = _repeated_share(counted, len(trials))
    log = _log(first)
    prompt, completion, tokens = _tokens(first)
    return TaskReport(
        task=first.key.task,
        success=_success(first),
        metrics=metrics,
        upstream=all(map(_is_upstream, _reported_grades(level, first).values())),
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
    """Say whether a trial counts: it did not break, or the benchmark's own log tells how it ended."""
    return bool(trial.grades) and (trial.ending != "errored" or bool(_log(trial)))


def reported(level: str) -> tuple[str, ...]:
    """Give the metrics that the benchmark reports for each task of a level, in its order."""
    return (*LABELS, *(name for name in LEVEL_METRICS[level] if name not in RETIRED))


def _reported_grades(level: str, trial: Trial) -> dict[str, Grade]:
    """Give the grades that are reported, by the benchmark's names."""
    grades = {grade.grader: grade for grade in trial.grades}
    labels = {name: LABELS.get(name, name) for name in reported(level)}
    return {name: grades[label] for name, label in labels.items() if label in grades}


def _metrics(level: str, trial: Trial) -> dict[str, Mapping[str, Any]]:
    return {name: _metric(grade) for name, grade in _reported_grades(level, trial).items()}


def _metric(grade: Grade) -> Mapping[str, Any]:
    """Give a score with its details, which are our rationale where the benchmark's way was not gone."""
    score = None if grade.value is None else float(grade.value)
    if UPSTREAM_ERROR in grade.details:
        return {"score": score, "error": grade.details[UPSTREAM_ERROR]}
    return {"score": score, "details": grade.details.get(DETAILS, {"reason": grade.rationale})}


def _is_upstream(grade: Grade) -> bool:
    return grade.score is None or DETAILS in grade.details or UPSTREAM_ERROR in grade.details


def _repeated_share(counted: Sequence[Trial], repetitions: int) -> Mapping[str, Any]:
    answered = sum(map(_success, counted))
    details = {
        "repetitions": repetitions,
        "actual_repetitions": len(counted),
        "success_count": answered,
    }
    return {"score": answered / len(counted), "details": details}


def _log(trial: Trial) -> Mapping[str, Any]:
    log = trial.outcome.answer.state.get(LOGGED)
    return log if isinstance(log, Mapping) else {}


def _success(trial: Trial) -> bool:
    """Say whether an answer came back, as the log or the grade of it says; else look for one."""
    log = _log(trial)
    if "success" in log:
        return bool(log["success"])
    grade = next((grade for grade in trial.grades if grade.grader == RESPONSE_RATE), None)
    if grade is not None and grade.score is not None:
        return grade.full
    return bool(trial.outcome.answer.text) and _steps(trial) > 0


def _steps(trial: Trial) -> int:
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

    Of a reply that was not streamed, it is the time to all of it.
    """
    log = _log(trial).get("ttft_stats")
    if isinstance(log, Mapping):
        return float(log.get("average") or 0.0)
    asks = trial.transcript.asks
    waits = [a.ended - a.started if a.first_token_s is None else a.first_token_s for a in asks]
    return naive_sum(waits) / len(waits) if waits else None
