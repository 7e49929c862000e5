"""Evidence of trials with a knowledge base, made by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_agenteval.records.evidence import Answer, Evidence, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript

FACT = "2026/09/17.md#ts_1"

FILED: Mapping[str, Any] = {
    "is_complete": True,
    "wrote_para": True,
    "updated_insight": True,
    "skipped_pkm": False,
    "successful_pkm_mutation": True,
    "missing_requirements": [],
}
SKIPPED: Mapping[str, Any] = {
    **FILED,
    "wrote_para": False,
    "updated_insight": False,
    "skipped_pkm": True,
    "successful_pkm_mutation": False,
}
NOTHING_DONE: Mapping[str, Any] = {
    **SKIPPED,
    "is_complete": False,
    "skipped_pkm": False,
    "missing_requirements": [
        "wrote_para_with_fact_id",
        "updated_timeline_card_insight",
        "skip_pkm_organization",
    ],
}
CARD_SAVED: Mapping[str, Any] = {
    "is_complete": True,
    "card_save_tool_called": True,
    "status": "completed",
    "has_title": True,
    "has_ui_configs": True,
    "missing_requirements": [],
}

Files = Mapping[str, str | bytes]


def file(content: str | bytes) -> FileText:
    """Give a file as a snapshot has it; bytes are no text."""
    raw = content.encode() if isinstance(content, str) else content
    text = content if isinstance(content, str) else None
    return FileText(hashlib.sha256(raw).hexdigest(), len(raw), text, "" if text is not None else "binary")


def tree(files: Files, above: str = "PKM/") -> Tree:
    """Give a workspace whose knowledge base holds these files."""
    return Tree({above + path: file(content) for path, content in files.items()})


def call(tool: str, turn: int = 1, *, failed: bool = False, **args: Any) -> ToolCall:
    """Give a call of a tool."""
    error = ToolError("tool_error", "no") if failed else None
    return ToolCall(f"{tool}-{turn}", turn, 0, tool, args, result="done", error=error)


def insight(fact: str = FACT, *, failed: bool = False) -> ToolCall:
    """Give the call that gives an entry its insight."""
    return call("update_timeline_card_insight", 2, failed=failed, fact_id=fact, insight_text="so it is")


def seeded_message(*calls: ToolCall) -> Message:
    """Give a message that the task's conversation began with, with calls in it."""
    return Message(
        "assistant", "", tuple(replace(tool_call, turn=0, by="seed") for tool_call in calls), seeded=True
    )


def trial(
    before: Files | Tree | None = None,
    after: Files | Tree | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    calls: Iterable[ToolCall] = (),
    messages: Sequence[Message] = (),
) -> Evidence:
    """Give the evidence of a trial; where nothing is said of the end, nothing changed."""
    was = before if isinstance(before, Tree) else tree(before or {})
    now = was if after is None else after if isinstance(after, Tree) else tree(after)
    outcome = Outcome(Answer("", FILED if state is None else state), was, now)
    return Evidence({"fact_id": FACT, "content": "x"}, Transcript(tuple(messages), tuple(calls)), outcome)


def grade_of(grader: Any, evidence: Evidence) -> Grade:
    """Grade, with the grader's own threshold."""
    grade: Grade = grader.grade(evidence)
    return replace(grade, threshold=grader.threshold)
