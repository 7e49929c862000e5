"""What an agent decided: to act, or to leave things alone. By what it did, never by its score."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_agenteval.records.evidence import Outcome
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.transcript import ToolCall, Transcript


def has_acted(task: PlannedTask, transcript: Transcript, outcome: Outcome) -> bool | None:
    """Say whether a file that counts came, changed or went, or a tool that counts was called and answered.

    None where the task has no label, or its suite does not say what acting is. Calls that failed are no act,
    nor are those that were there before the agent came.
    """
    files, tools = task.acting_files, task.acting_tools
    if not task.label or not (files or tools):
        return None
    return _called(tools, transcript.calls) or _changed(files, outcome)


def _called(tools: tuple[str, ...], calls: Iterable[ToolCall]) -> bool:
    return any(call.tool in tools and call.error is None and call.by == "agent" for call in calls)


def _changed(files: tuple[str, ...], outcome: Outcome) -> bool:
    if not files:
        return False
    from pytest_agenteval.tasks.workspace.globs import matches

    diff = outcome.diff
    paths = (*diff.created, *diff.modified, *diff.deleted)
    return any(matches(glob, path) for path in paths for glob in files)
