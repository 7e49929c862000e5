"""What judges get to see of a trial: readable texts made of the evidence, none without end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pytest_agenteval.records.evidence import Evidence, Tree, unified
from pytest_agenteval.records.transcript import Message, ToolCall

MAX_CHARS = 24_000
MAX_CHARS_OF_ONE = 6_000


def cut_middle(text: str, most: int = MAX_CHARS_OF_ONE) -> str:
    """Give a text, or its first and last part with a line between them that says how much is left out."""
    if len(text) <= most:
        return text
    first, last = most * 2 // 3, most // 3
    return f"{text[:first]}\n[… {len(text) - first - last} characters left out …]\n{text[-last:]}"


def join_within(parts: Iterable[str], between: str = "\n\n", most: int = MAX_CHARS) -> str:
    """Put parts one after another until there are enough; then say how many are left out."""
    all_of, size = list(parts), 0
    pieces: list[str] = []
    for part in all_of:
        size += len(part) + len(between)
        if pieces and size > most:
            break
        pieces.append(cut_middle(part, most))
    left = len(all_of) - len(pieces)
    return between.join([*pieces, f"[… {left} more left out …]"] if left else pieces)


def diffs(before: Tree, after: Tree, paths: Iterable[str]) -> list[str]:
    """Write each file's change as a unified diff, none of them without end."""
    return [cut_middle("\n".join(unified(before, after, path))) for path in paths]


def task(evidence: Evidence) -> str:
    """Write the task's input: its only text as it is, several values each by name."""
    values = evidence.task_input
    if len(values) == 1:
        return _value(next(iter(values.values())))
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items())


def answer(evidence: Evidence) -> str:
    """Give the agent's last words."""
    return evidence.answer


def calls(evidence: Evidence) -> str:
    """Write every tool call that the agent made, with what came of it."""
    made = [call for call in evidence.calls if call.by == "agent"]
    return join_within(f"{number}. {_call(call)}" for number, call in enumerate(made, 1))


def changes(evidence: Evidence) -> str:
    """Write what became of the workspace's files, as unified diffs."""
    diff = evidence.diff
    paths = sorted((*diff.created, *diff.modified, *diff.deleted))
    return join_within(diffs(evidence.before, evidence.after, paths))


def conversation(evidence: Evidence) -> str:
    """Write what was said, without the instructions that the agent was given."""
    return join_within(_message(message) for message in evidence.messages if message.role != "system")


SHOWABLE: Mapping[str, Callable[[Evidence], str]] = MappingProxyType(
    {"task": task, "answer": answer, "calls": calls, "changes": changes, "conversation": conversation}
)
"""What a rubric may show, by name."""


def _call(call: ToolCall) -> str:
    head = f"{call.tool}({_args(call)})"
    if call.error is not None:
        return f"{head}\nfailed: {cut_middle(call.error.message)}"
    return f"{head}\ngave: {cut_middle(_value(call.result))}"


def _args(call: ToolCall) -> str:
    return cut_middle(_value(dict(call.args)) if call.raw_args is None else call.raw_args)


def _message(message: Message) -> str:
    calls = [f"calls {call.tool}({_args(call)})" for call in message.calls]
    content = [message.content] if message.content.strip() or not calls else []
    return cut_middle("\n".join([f"{message.role}:", *content, *calls]))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
