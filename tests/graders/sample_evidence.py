"""Small pieces of evidence, for tests of graders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_agenteval.records.evidence import Answer, Evidence, FileText, Outcome, Tree
from pytest_agenteval.records.transcript import Ask, ToolCall, ToolError, Transcript, Usage

Content = str | FileText

BINARY = FileText("b1", 4, None, "binary")
LARGE = FileText("b2", 300_000, None, "too large")
LINK = FileText("b3", 8, None, "link")


def tree(files: Mapping[str, Content]) -> Tree:
    """Give a tree of these texts, and of files that are something else."""
    return Tree({path: _file(content) for path, content in files.items()})


def _file(content: Content) -> FileText:
    if isinstance(content, FileText):
        return content
    data = content.encode()
    return FileText(hashlib.sha256(data).hexdigest()[:16], len(data), content)


def files_evidence(
    after: Mapping[str, Content] | None = None, before: Mapping[str, Content] | None = None, answer: str = ""
) -> Evidence:
    """Give evidence of a trial that left these files and this answer."""
    return Evidence({}, Transcript(), Outcome(Answer(answer), tree(before or {}), tree(after or {})))


def call(
    tool: str,
    args: Mapping[str, Any] | None = None,
    *,
    error: str = "",
    by: Literal["agent", "seed"] = "agent",
) -> ToolCall:
    """Give a tool call, as it stands in a transcript."""
    failed = ToolError("failed", error) if error else None
    return ToolCall("c", 1, 0, tool, args or {}, error=failed, by=by)


def did(*calls: ToolCall | str) -> Evidence:
    """Give evidence of a trial that made these calls; a text is the name of a tool."""
    made = tuple(call(one) if isinstance(one, str) else one for one in calls)
    return Evidence({}, Transcript(calls=made), Outcome())


def replies_evidence(tokens: Sequence[int]) -> Evidence:
    """Give evidence of a trial whose model replied so often, each reply taking so many tokens."""
    asks = tuple(Ask(turn, 0.0, 1.0, Usage(count, asks=1)) for turn, count in enumerate(tokens, start=1))
    return Evidence({}, Transcript(asks=asks), Outcome())
