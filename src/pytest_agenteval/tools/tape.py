"""Tool calls on tape: tools that ask the outside world are played, by name and arguments."""

from __future__ import annotations

from dataclasses import asdict

from pytest_agenteval.cassettes.interaction import Request, tool_answer, tool_request, tool_response
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.errors import CassetteMiss
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tools.tool import ToolResult


class ToolTape:
    """One trial's recorded tool calls; a tool that failed when recorded fails the same way when played."""

    def __init__(self, tape: Tape, *, retry_command: str) -> None:
        self._tape, self._retry_command = tape, retry_command

    @property
    def live(self) -> bool:
        """Whether a call that was not played may be made."""
        return self._tape.recording

    @property
    def hits(self) -> int:
        """How many calls were played."""
        return self._tape.hits

    @property
    def misses(self) -> int:
        """How many calls were neither played nor could be made."""
        return self._tape.misses

    @property
    def recorded(self) -> int:
        """How many calls were recorded."""
        return self._tape.recorded

    def play(self, call: ToolCall) -> ToolResult | None:
        """Give the recorded result, or None."""
        played = self._tape.play(_request(call))
        if played is None:
            return None
        answer = tool_answer(played)
        if answer.error is None:
            return ToolResult(answer.result)
        return ToolResult(error=_error(answer.error.get("type"), answer.error.get("message")))

    def record(self, call: ToolCall, result: ToolResult) -> None:
        """Keep what a call really gave."""
        error = None if result.error is None else asdict(result.error)
        self._tape.record(_request(call), tool_response(result.value, error=error))

    def miss(self, call: ToolCall) -> CassetteMiss:
        """Make the error that names the nearest recorded call, and how to record this one."""
        return self._tape.miss(_request(call), self._retry_command)


def _request(call: ToolCall) -> Request:
    return tool_request(call.tool, call.args)


def _error(type: object, message: object) -> ToolError:
    return ToolError(str(type or "tool_error"), str(message or ""))
