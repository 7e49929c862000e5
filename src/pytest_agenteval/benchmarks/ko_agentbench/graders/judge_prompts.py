"""What judges of the Korean metrics get to see of a trial, as texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_agenteval import ABSENT, cut_middle, join_within, parse_path, value_at
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import UpstreamError
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask, as_json
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_results import is_valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoMessage, KoTrace

MAX_RESULT_CHARS = 3_000
MAX_TURN_CHARS = 4_000
MAX_TOOL_TURN_CHARS = 600
UPSTREAM_TURN_CHARS = 500

_ROLES = {"user": "사용자", "assistant": "비서", "tool": "도구 결과"}


def value_text(value: Any) -> str:
    """Write a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else as_json(value)


def calls_with_results(calls: Sequence[KoCall]) -> str:
    """Write calls with what came of them."""
    return join_within(
        f"{number}. {_call_text(call)}\n{_result_text(call)}" for number, call in enumerate(calls, 1)
    )


def calls_alone(calls: Sequence[KoCall]) -> str:
    """Write calls with nothing but whether they worked."""
    told = (f"{_call_text(call)}: {'성공' if call.success else '실패'}" for call in calls)
    return join_within(f"{number}. {text}" for number, text in enumerate(told, 1))


def facts(task: KoTask, trace: KoTrace) -> str:
    """Write what stands, in results, at the paths that the task names for their tools."""
    return join_within(_facts(task, trace), "\n")


def _facts(task: KoTask, trace: KoTrace) -> Iterator[str]:
    for wanted in task.golden_fields or ():
        for call in trace.calls:
            if call.tool == wanted["tool"] and is_valid(call):
                for path in wanted["fields"]:
                    value = value_at(call.result, parse_path(path))
                    if value is not ABSENT:
                        yield f"{call.tool} {path}: {cut_middle(value_text(value), MAX_TOOL_TURN_CHARS)}"


def conversation(messages: Sequence[KoMessage] | None) -> str:
    """Write a conversation, its messages numbered, and those that were given marked."""
    said = enumerate(messages or (), 1)
    return join_within((_turn(number, message) for number, message in said if message.content), "\n")


def before_the_question(trace: KoTrace) -> str:
    """Write what was said before the last question; empty where it was the first."""
    messages = trace.messages or ()
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    return conversation(messages[: users[-1]]) if users else ""


def conversation_upstream(messages: Sequence[KoMessage]) -> tuple[str, int]:
    """Write a conversation as the benchmark shows it, and give how many messages that shows.

    Tools' messages are left out but counted, the assistant's are cut, and nothing says what was given.
    """
    shown = []
    for number, message in enumerate(messages, 1):
        if message.role == "user":
            shown.append(f"[{number}] {_ROLES['user']}: {message.content}")
        elif message.role == "assistant":
            if message.content is None:
                raise UpstreamError("an assistant's message has no text, and it cuts the text")
            shown.append(f"[{number}] {_ROLES['assistant']}: {message.content[:UPSTREAM_TURN_CHARS]}")
    return join_within(shown, "\n"), len(shown)


def _turn(number: int, message: KoMessage) -> str:
    most = MAX_TOOL_TURN_CHARS if message.role == "tool" else MAX_TURN_CHARS
    given = " (주어짐)" if message.seeded and message.role != "user" else ""
    who = _ROLES.get(message.role, message.role)
    # No further line begins as a turn does: nobody can put words into another's mouth.
    text = "\n    ".join(cut_middle(message.content or "", most).splitlines())
    return f"[{number}] {who}{given}: {text}"


def _call_text(call: KoCall) -> str:
    given = " (주어짐)" if call.seeded else ""
    return f"{call.tool}({cut_middle(value_text(dict(call.args)), MAX_RESULT_CHARS)}){given}"


def _result_text(call: KoCall) -> str:
    if not call.worked:
        return f"실패: {call.error or ''}"
    return f"결과: {cut_middle(value_text(call.result), MAX_RESULT_CHARS)}"
