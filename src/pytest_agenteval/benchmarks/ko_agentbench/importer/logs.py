"""The benchmark's logs of earlier runs, and the transcripts that are made of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval import (
    Answer,
    Ask,
    Event,
    Message,
    Outcome,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
    misshapen,
    read_json,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import LOG_STATE
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Clone,
    Fields,
    Finding,
    SourceTask,
    actions,
    declared_turn,
    turns_until,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import UNKNOWN
from pytest_agenteval.text.json_values import compact_json

# The names of the folders of logs: 20251219_101500.
STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)")
EVALUATED_KEYS = (
    "instruction", "golden_action", "arg_schema", "resp_schema", "minimum_steps", "data_flow",
    "error_injection", "fallback_options",
)  # fmt: skip
"""The keys of a task that the benchmark's evaluator takes from the log."""


class LoggedResult(FrozenValue, frozen=True):
    """One result of a log, where it stands, and when it started, as far as the log shows it."""

    level: str
    file: Path
    fields: Fields
    started_at: str

    @property
    def task(self) -> str:
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
    """Read the logs of every model, in the order in which the models ran."""
    runs = [_run_of(path) for path in sorted(clone.logs.glob("*")) if path.is_dir()]
    return sorted((run for run in runs if run is not None), key=lambda run: (run.started_at, run.model))


def reports(clone: Clone) -> list[Report]:
    """Read every evaluation, newest first."""
    evaluations = [_report(path) for path in sorted(clone.root.glob("reports/*/evaluation_report.json"))]
    return sorted(evaluations, key=lambda report: report.date, reverse=True)


def report_of(run: LoggedRun, evaluations: Sequence[Report]) -> Report | None:
    """Give the evaluation of a run: that of its day, else the newest of its model."""
    day = run.started_at[:10].replace("-", "")
    of_model = [report for report in evaluations if report.model == run.model]
    return next((report for report in of_model if report.date == day), of_model[0] if of_model else None)


def _run_of(folder: Path) -> LoggedRun | None:
    files = _latest(folder)
    if not files:
        return None
    logs = {path: _read_object(path) for path in files.values()}
    results = [result for level, path in files.items() for result in _results(level, path, logs[path])]
    ended = [str(log["metadata"]["timestamp"]) for log in logs.values()]
    began = [_stamp(path.parent.name) for path in files.values()]
    first = next(iter(logs.values()))["metadata"]
    starts = [stamp for stamp in began if stamp] or [min(ended)]
    return LoggedRun(str(first["model"]), min(starts), max(ended), tuple(results))


def _latest(folder: Path) -> dict[str, Path]:
    """Give each level's log of the latest folder that has one."""
    newest: dict[str, Path] = {}
    # Folders are named by their time, and a later one may have only the levels that were run again. So the
    # last log of each level counts.
    for stamped in sorted(path for path in folder.iterdir() if path.is_dir()):
        newest.update({level: path for level in LEVELS if (path := stamped / f"{level}.json").is_file()})
    return {level: newest[level] for level in LEVELS if level in newest}


def _results(level: str, path: Path, log: Fields) -> Iterator[LoggedResult]:
    """Give the results of a level; when each began follows from the end and from how long each took."""
    ended = datetime.fromisoformat(log["metadata"]["timestamp"])
    results = log["results"]
    seconds = [float(result.get("execution_time") or 0) for result in results]
    for place, result in enumerate(results):
        began = ended - timedelta(seconds=sum(seconds[place:]))
        yield LoggedResult(level, path, result, began.isoformat(timespec="milliseconds"))


def _report(path: Path) -> Report:
    whole = _read_object(path)
    about, levels = whole["summary"], whole["by_level"].values()
    tasks = (task for level in levels for task in level.get("task_evaluations") or ())
    metrics = {str(task.get("task_id")): task.get("metrics") or {} for task in tasks}
    date = str(about.get("execution_date") or "")
    return Report(path, str(about.get("model")), str(about.get("judge_model") or "judge"), date, metrics)


def _read_object(path: Path) -> Fields:
    value = read_json(path)
    if not isinstance(value, dict):
        raise misshapen(path, "a JSON object", value)
    return value


def _stamp(name: str) -> str:
    match = STAMP.fullmatch(name)
    return "{}-{}-{}T{}:{}:{}".format(*match.groups()) if match else ""


def task_changes(tasks: Mapping[str, SourceTask], runs: Sequence[LoggedRun]) -> Iterator[Finding]:
    """Name the keys of each task that had another value in logged runs, and in how many of them."""
    changed: dict[str, Counter[str]] = defaultdict(Counter)
    for logged in (logged for run in runs for logged in run.results if logged.task in tasks):
        fields = tasks[logged.task].fields
        for key in EVALUATED_KEYS:
            # Logs write every key, empty where the task has none.
            if (logged.fields.get(key) or None) != (fields.get(key) or None):
                changed[logged.task][key] += 1
    for task, keys in changed.items():
        counts = ", ".join(f"{key} in {count} of {len(runs)} logged runs" for key, count in keys.items())
        yield Finding(task, f"differs from the logged runs: {counts}")


def _seeded(task: SourceTask | None, messages: Sequence[Fields]) -> tuple[list[Message], list[ToolCall]]:
    """Take over the messages that the task gave, with the calls that the log leaves out."""
    turns = enumerate(task.turns if task is not None else (), 1)
    shown, calls, open_calls = list[Message](), list[ToolCall](), list[ToolCall]()
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            id = str(message.get("tool_call_id") or "")
            shown.append(Message("tool", _text(content), (), 0, True, call_id=id))
            # A log has the results of seeded calls and not the
            # calls: what was called stands in the turns of the task.
            if open_calls:
                calls.append(replace(open_calls.pop(0), id=id, result=content))
            continue
        number, turn = next(turns)
        open_calls = []
        for index, action in enumerate(actions(turn) if role == "assistant" else ()):
            args, raw = _args(action.get("args"))
            # These are the ids that the benchmark gives to the calls it seeds.
            id = f"seed_call_{number}_{index + 1}"
            open_calls.append(ToolCall(id, 0, index, action["tool"], args, raw, by="seed"))
        shown.append(Message(role, _text(content), tuple(open_calls), 0, True))
    return shown, calls


def _replayed(messages: Sequence[Fields], logged: Sequence[Fields]) -> tuple[list[Message], list[ToolCall]]:
    """Take over the messages of the trial itself, with the calls of its log."""
    shown, calls, rest = list[Message](), list[ToolCall](), set(range(len(logged)))
    turn, phase = 0, 1
    for place, message in enumerate(messages):
        role, text = message["role"], _text(message.get("content"))
        if role == "assistant":
            # The benchmark starts a second conversation where the first one gave no answer, or where a call
            # failed and there are fallbacks. The log joins both and leaves out the question that begins the
            # second: a reply right after one that called nothing belongs to the second.
            phase += bool(shown) and shown[-1].role == "assistant"
            turn += 1
            # Logged calls have neither an id nor a kind of error: the messages that answer them have both.
            after = takewhile(lambda other: other["role"] != "assistant", messages[place + 1 :])
            answers = (other for other in after if other["role"] == "tool")
            # A log drops the calls of an assistant's message: those of the step with its number belong to it.
            requests = []
            for at in (at for at, call in enumerate(logged) if call.get("step") == turn):
                answer = next(answers, None)
                call = _logged_call(logged, at, turn, answer or {})
                requests.append(replace(call, result=None, error=None))
                if answer is not None:
                    calls.append(call)
                    rest.discard(at)
            shown.append(Message(role, text, tuple(requests), turn, phase=phase))
        elif role == "tool":
            id = str(message.get("tool_call_id") or "")
            shown.append(Message(role, text, (), turn, phase=phase, call_id=id))
        else:
            shown.append(Message(role, text, phase=phase))
    # Calls that no message answers come last.
    return shown, [*calls, *(_logged_call(logged, at, turn, {}) for at in sorted(rest))]


def _logged_call(logged: Sequence[Fields], place: int, turn: int, answer: Fields) -> ToolCall:
    call, content = logged[place], answer.get("content")
    step = call.get("step")
    index = sum(other.get("step") == step for other in logged[:place])
    args, raw = _args(call.get("arguments"))
    error = None
    if not call.get("success"):
        kind = str(content.get("error_type") or "") if isinstance(content, Mapping) else ""
        error = ToolError(kind or "tool_error", str(call.get("error") or "the call failed"))
    return ToolCall(
        str(answer.get("tool_call_id") or f"call_{place + 1}"),
        step if isinstance(step, int) else turn,
        index,
        str(call.get("tool_name")),
        args,
        raw,
        result=call.get("result"),
        error=error,
    )


def _args(arguments: Any) -> tuple[Mapping[str, Any], str | None]:
    if isinstance(arguments, dict):
        return arguments, None
    # A model may have written what is no JSON: then the log has its text.
    return {}, arguments if arguments is None or isinstance(arguments, str) else compact_json(arguments)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "" if content is None else compact_json(content)


STATE_KEYS = (
    "success", "error", "repetitions", "repetition_results", "steps_taken", "execution_time", "ttft_stats",
    "token_usage", "category", "expected_tools",
)  # fmt: skip


def task_input(task: SourceTask | None, logged: LoggedResult) -> dict[str, Any]:
    """Give what the benchmark gave its agent: a question, or the turns up to the one that it names."""
    if task is not None and task.turns:
        return {"turns": turns_until(task, declared_turn(task))}
    return {"content": str(logged.fields.get("instruction") or "")}


def outcome_of(logged: LoggedResult) -> Outcome:
    """Give the answer, with what else the log says of the trial as its state."""
    log = logged.fields
    state = {key: log.get(key) for key in STATE_KEYS}
    state |= {"task_level": log.get("level"), "conversation": bool(log.get("conversation_log"))}
    return Outcome(Answer(_text(log.get("final_response")), {LOG_STATE: state}))


def transcript_of(task: SourceTask | None, logged: LoggedResult) -> Transcript:
    log = logged.fields
    messages = (log.get("conversation_log") or {}).get("messages") or []
    count = _count_seeded(task, messages) if task is not None else 0
    seeded, seeded_calls = _seeded(task, messages[:count])
    shown, calls = _replayed(messages[count:], log.get("tool_calls") or ())
    # A result that broke off has no conversation in its log, but its question is known.
    if not messages and not (task is not None and task.turns):
        shown.append(Message("user", str(log.get("instruction") or "")))
    asks = tuple(_asks(log.get("ttft_stats") or {}))
    used = log.get("token_usage") or {}
    counts = (used.get("prompt_tokens"), used.get("completion_tokens"))
    read, written = (None if count is None else int(count) for count in counts)
    usage = Usage(read, written, None, None, None, asks=len(asks), attempts=len(asks))
    return Transcript((*seeded, *shown), (*seeded_calls, *calls), asks, tuple(_events(log)), usage)


def _count_seeded(task: SourceTask, messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the first messages that the task gave; the user's turn that is answered is not one of them."""
    place = 0
    for turn in task.turns[: declared_turn(task)]:
        here = messages[place] if place < len(messages) else {}
        if here.get("role") != turn.get("role") or here.get("content") != (turn.get("content") or ""):
            break
        place += 1
        for action in actions(turn):
            follows = place < len(messages) and messages[place].get("role") == "tool"
            # The benchmark seeds a message of the tool only where the action has a result.
            place += follows and action.get("result") is not None
    last = messages[place - 1] if place else {}
    return place - 1 if last.get("role") == "user" else place


def _asks(stats: Mapping[str, Any]) -> Iterator[Ask]:
    """Give one ask for each that was counted; how long each took follows from least, most and mean.

    The log has no single times: those between the least and the most all get what is left of the mean. It
    calls them times to the first token; they are those of whole replies.
    """
    count, mean = int(stats.get("count") or 0), float(stats.get("average") or 0)
    least, most = float(stats.get("min") or 0), float(stats.get("max") or 0)
    between = max(0.0, mean * count - least - most) / max(1, count - 2)
    durations = [mean] if count == 1 else [least, *[between] * (count - 2), most]
    began = 0.0
    for turn, seconds in enumerate(durations[:count], start=1):
        yield Ask(turn, began, began + seconds, UNKNOWN)
        began += seconds


def _events(log: Mapping[str, Any]) -> Iterator[Event]:
    """Say what broke a trial: it is imported all the same, as the benchmark counts it."""
    at = float(log.get("execution_time") or 0)
    if log.get("error"):
        yield Event(at, "agent_error", str(log["error"]))
    # In conversations the runner swallows errors of the evaluated
    # turn, and repeats the last text of the task as the answer.
    elif not log.get("steps_taken"):
        repeated = log.get("final_response")
        hint = "; its answer is the last text that the task gave" if repeated else ""
        yield Event(at, "agent_error", f"the log has no step, and no reason for that{hint}")
    for call in log.get("tool_calls") or ():
        if call.get("success") and call.get("error"):
            yield Event(at, "odd_call", f"{call.get('tool_name')} is marked as successful: {call['error']}")
