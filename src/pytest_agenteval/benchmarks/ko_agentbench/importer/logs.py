"""The benchmark's logs: which results belong to a run of a model, and what reports and tasks say of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Any

from pytest_agenteval import Problem, ProblemsFound, misshapen
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    LEVELS,
    Clone,
    Fields,
    Finding,
    SourceTask,
    read_object,
)
from pytest_agenteval.records.record import FrozenValue

STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)")
REPORT = "evaluation_report.json"
ROLES = ("system", "user", "assistant", "tool")
MAPS = ("conversation_log", "token_usage", "ttft_stats")
NUMBERS = ("execution_time", "steps_taken")
EVALUATED_KEYS = (
    "instruction",
    "golden_action",
    "arg_schema",
    "resp_schema",
    "minimum_steps",
    "data_flow",
    "error_injection",
    "fallback_options",
)
"""The keys of a task that the benchmark's evaluator takes from the log."""


class LoggedResult(FrozenValue, frozen=True):
    """One result of a log, where it stands, and when it was begun, as far as the log can say."""

    level: str
    file: Path
    fields: Fields
    started_at: str

    @property
    def task(self) -> str:
        """The id of its task."""
        return str(self.fields["task_id"])


class LoggedRun(FrozenValue, frozen=True):
    """What one model did: the latest log of each level. Times are as the log has them, without a zone."""

    model: str
    started_at: str
    ended_at: str
    results: tuple[LoggedResult, ...]


class Report(FrozenValue, frozen=True):
    """A published evaluation: who judged, and each task's metrics by their names."""

    file: Path
    model: str
    judge: str
    date: str
    metrics: Mapping[str, Mapping[str, Fields]]


def logged_runs(clone: Clone) -> list[LoggedRun]:
    """Read the logs of every model, the one that ran first first."""
    folders = [path for path in sorted(clone.logs.glob("*")) if path.is_dir()]
    runs = _read_each(folders, _run_of)
    return sorted((run for run in runs if run is not None), key=lambda run: (run.started_at, run.model))


def reports(clone: Clone) -> list[Report]:
    """Read every evaluation, newest first."""
    evaluations = _read_each(sorted(clone.reports.glob(f"*/{REPORT}")), _report)
    return sorted(evaluations, key=lambda report: report.date, reverse=True)


def report_of(run: LoggedRun, evaluations: Sequence[Report]) -> Report | None:
    """Give the evaluation of a run: that of its day, else the newest of its model."""
    day = run.started_at[:10].replace("-", "")
    of_model = [report for report in evaluations if report.model == run.model]
    return next((report for report in of_model if report.date == day), of_model[0] if of_model else None)


def _read_each(paths: Sequence[Path], read: Any) -> list[Any]:
    values, problems = [], list[Problem]()
    for path in paths:
        try:
            values.append(read(path))
        except ProblemsFound as broken:
            problems += broken.problems
    if problems:
        raise ProblemsFound(problems)
    return values


def _run_of(folder: Path) -> LoggedRun | None:
    files = _latest(folder)
    if not files:
        return None
    logs = {path: read_object(path) for path in files.values()}
    for path, log in logs.items():
        _check(path, log)
    results = [result for level, path in files.items() for result in _results(level, path, logs[path])]
    ended = [str(log["metadata"]["timestamp"]) for log in logs.values()]
    began = [_stamp(path.parent.name) for path in files.values()]
    first = next(iter(logs.values()))["metadata"]
    starts = [stamp for stamp in began if stamp] or [min(ended)]
    return LoggedRun(str(first["model"]), min(starts), max(ended), tuple(results))


def _latest(folder: Path) -> dict[str, Path]:
    """Give each level's log of the latest folder that has one."""
    newest: dict[str, Path] = {}
    # Folders are named by their time, and a run may have only the levels that were run again: level by
    # level the last one goes.
    for stamped in sorted(path for path in folder.iterdir() if path.is_dir()):
        newest.update({level: path for level in LEVELS if (path := stamped / f"{level}.json").is_file()})
    return {level: newest[level] for level in LEVELS if level in newest}


def _check(path: Path, log: Fields) -> None:
    about = log.get("metadata")
    if not isinstance(about, dict) or not about.get("model") or not about.get("timestamp"):
        raise misshapen(path, "a map with model and timestamp", about, "metadata")
    if _time(str(about["timestamp"])) is None:
        raise misshapen(path, "a time", about["timestamp"], "metadata", "timestamp")
    if not isinstance(log.get("results"), list):
        raise misshapen(path, "a list of results", log.get("results"), "results")
    for index, result in enumerate(log["results"]):
        if not isinstance(result, dict) or not isinstance(result.get("task_id"), str):
            raise misshapen(path, "a result: a map with task_id", result, "results", index)
        _check_kinds(path, index, result)
        _check_messages(path, index, result)


def _check_kinds(path: Path, index: int, result: Fields) -> None:
    for name in MAPS:
        if result.get(name) and not isinstance(result[name], dict):
            raise misshapen(path, "a map", result[name], "results", index, name)
    for name in NUMBERS:
        number = result.get(name) or 0
        if not isinstance(number, int | float) or not isfinite(number):
            raise misshapen(path, "a number", number, "results", index, name)


def _check_messages(path: Path, index: int, result: Fields) -> None:
    messages = (result.get("conversation_log") or {}).get("messages") or []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            expected = f"a message with a role: {', '.join(ROLES)}"
            raise misshapen(path, expected, message, "results", index, "conversation_log", "messages")
    for call in result.get("tool_calls") or []:
        if not isinstance(call, dict):
            raise misshapen(path, "a call: a map", call, "results", index, "tool_calls")


def _results(level: str, path: Path, log: Fields) -> Iterator[LoggedResult]:
    """Give the results of a level; when each began follows from the end and from how long each took."""
    ended = _time(str(log["metadata"]["timestamp"])) or datetime.min
    results = log["results"]
    seconds = [float(result.get("execution_time") or 0) for result in results]
    for place, result in enumerate(results):
        began = ended - timedelta(seconds=sum(seconds[place:]))
        yield LoggedResult(level, path, result, began.isoformat(timespec="milliseconds"))


def _report(path: Path) -> Report:
    whole = read_object(path)
    about, levels = whole.get("summary"), whole.get("by_level")
    if not isinstance(about, dict) or not isinstance(levels, dict):
        raise misshapen(path, "an evaluation: summary and by_level", ", ".join(whole))
    metrics = {task: own for name, level in levels.items() for task, own in _task_metrics(path, name, level)}
    date = str(about.get("execution_date") or "")
    return Report(path, str(about.get("model")), str(about.get("judge_model") or "judge"), date, metrics)


def _task_metrics(path: Path, name: str, level: Any) -> Iterator[tuple[str, Mapping[str, Fields]]]:
    """Give the metrics of each task of a level."""
    if not isinstance(level, dict):
        raise misshapen(path, "a level: a map", level, "by_level", name)
    for index, task in enumerate(level.get("task_evaluations") or ()):
        metrics = task.get("metrics") or {} if isinstance(task, dict) else None
        if not isinstance(metrics, dict) or not all(map(_is_metric, metrics.values())):
            expected = "a task: task_id, and metrics with a score and a map of details each"
            raise misshapen(path, expected, task, "by_level", name, "task_evaluations", index)
        yield str(task.get("task_id")), metrics


def _is_metric(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("details"), dict | None)


def _stamp(name: str) -> str:
    match = STAMP.fullmatch(name)
    return "{}-{}-{}T{}:{}:{}".format(*match.groups()) if match else ""


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def task_changes(tasks: Mapping[str, SourceTask], runs: Sequence[LoggedRun]) -> Iterator[Finding]:
    """Say of each task which of its keys had another value in how many of the logged runs."""
    changed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for logged in (logged for run in runs for logged in run.results if logged.task in tasks):
        fields = tasks[logged.task].fields
        for key in EVALUATED_KEYS:
            # Logs write every key, empty where the task has none.
            if (logged.fields.get(key) or None) != (fields.get(key) or None):
                changed[logged.task][key] += 1
    for task, keys in changed.items():
        counts = ", ".join(f"{key} in {count} of {len(runs)} logged runs" for key, count in keys.items())
        yield Finding(task, f"was another when it was tried: {counts}")
