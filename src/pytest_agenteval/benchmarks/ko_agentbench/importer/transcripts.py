"""A logged result as a transcript and an outcome of ours; what the log does not say is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask, actions
from pytest_agenteval.benchmarks.ko_agentbench.importer.conversation import given, named_turn
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import Logged
from pytest_agenteval.benchmarks.ko_agentbench.importer.telling import Telling
from pytest_agenteval.canonical import compact
from pytest_agenteval.records.evidence import Answer, Outcome
from pytest_agenteval.records.transcript import Ask, Event, Message, Transcript, Usage

STATE = "ko_agentbench"
LOGGED = (
    "success",
    "error",
    "repetitions",
    "repetition_results",
    "steps_taken",
    "execution_time",
    "ttft_stats",
    "token_usage",
    "category",
    "expected_tools",
)


def task_input(task: SourceTask | None, logged: Logged) -> dict[str, Any]:
    """Give what the benchmark gave its agent: a question, or the turns up to the one that it names."""
    if task is not None and task.turns:
        return {"turns": given(task, named_turn(task))}
    return {"content": str(logged.fields.get("instruction") or "")}


def outcome_of(logged: Logged) -> Outcome:
    """Give the answer, and as the state what the log says beside calls and messages."""
    said, log = logged.fields.get("final_response"), logged.fields
    text = said if isinstance(said, str) else "" if said is None else compact(said)
    state = {key: log.get(key) for key in LOGGED}
    state |= {"task_level": log.get("level"), "conversation": bool(log.get("conversation_log"))}
    return Outcome(Answer(text, {STATE: state}))


def transcript_of(task: SourceTask | None, logged: Logged) -> Transcript:
    """Give messages, calls, asks and events."""
    log = logged.fields
    telling = Telling(log.get("tool_calls") or ())
    conversation = log.get("conversation_log") or {}
    messages = conversation.get("messages") or []
    seeded = _seeded(task, messages) if task is not None else 0
    telling.seed(task, messages[:seeded])
    for message in messages[seeded:]:
        telling.tell(message)
    telling.call_the_rest()
    if not messages and not (task is not None and task.turns):
        telling.messages.append(Message("user", str(log.get("instruction") or "")))
    asks = tuple(_asks(log.get("ttft_stats") or {}))
    return Transcript(
        tuple(telling.messages), tuple(telling.calls), asks, tuple(_events(log)), _usage(log, len(asks))
    )


def _seeded(task: SourceTask, messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the first messages that the task gave; the user's turn that is answered is not one of them."""
    place = 0
    for turn in task.turns[: named_turn(task)]:
        here = messages[place] if place < len(messages) else {}
        if here.get("role") != turn.get("role") or here.get("content") != (turn.get("content") or ""):
            break
        place += 1
        for action in actions(turn):
            follows = place < len(messages) and messages[place].get("role") == "tool"
            place += follows and action.get("result") is not None
    last = messages[place - 1] if place else {}
    return place - 1 if last.get("role") == "user" else place


def _asks(stats: Mapping[str, Any]) -> Iterator[Ask]:
    """Give one ask for each that was counted, as long as the log's least, most and mean say.

    The log keeps no single times: those between the least and the most all get what is left of the mean. It
    calls them times to the first token; they are those of whole replies.
    """
    count, mean = int(stats.get("count") or 0), float(stats.get("average") or 0)
    least, most = float(stats.get("min") or 0), float(stats.get("max") or 0)
    between = max(0.0, mean * count - least - most) / max(1, count - 2)
    took = [mean] if count == 1 else [least, *[between] * (count - 2), most]
    began = 0.0
    for turn, seconds in enumerate(took[:count], start=1):
        yield Ask(turn, began, began + seconds, Usage(asks=1, attempts=1, cost_usd=None))
        began += seconds


def _usage(log: Mapping[str, Any], asks: int) -> Usage:
    used = log.get("token_usage") or {}
    tokens_in, tokens_out = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
    return Usage(tokens_in, tokens_out, cost_usd=None, asks=asks, attempts=asks)


def _events(log: Mapping[str, Any]) -> Iterator[Event]:
    """Say what broke a trial: it is kept all the same, as the benchmark counts it."""
    at = float(log.get("execution_time") or 0)
    if log.get("error"):
        yield Event(at, "agent_error", str(log["error"]))
    elif not log.get("steps_taken"):
        repeated = log.get("final_response")
        told = "; its answer is the last text that the task gave" if repeated else ""
        yield Event(at, "agent_error", f"the log tells of no step, and not why{told}")
    for call in log.get("tool_calls") or ():
        if call.get("success") and call.get("error"):
            yield Event(at, "odd_call", f"{call.get('tool_name')} is marked as successful: {call['error']}")
