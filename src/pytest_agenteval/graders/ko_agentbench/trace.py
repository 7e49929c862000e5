"""What a trial did, in the plain shape in which the Korean benchmark's metrics look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.transcript import NOTHING, ToolCall

IMPORTED = "ko_agentbench"
"""The key of the agent's state where a trial imported from the benchmark's logs holds what they say."""


@dataclass(frozen=True, slots=True)
class KoCall:
    """One tool call; ``step`` counts the model's replies, and ``seeded`` calls were given, not made."""

    step: Any
    tool: str
    args: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    success: bool = True
    error: str | None = None
    result: Any = None
    seeded: bool = False

    @property
    def worked(self) -> bool:
        """Whether it ended without an error."""
        return bool(self.success) and not self.error


@dataclass(frozen=True, slots=True)
class KoMessage:
    """One message of the conversation; ``seeded`` ones were given, not said."""

    role: str
    content: str | None
    seeded: bool = False


@dataclass(frozen=True, slots=True)
class KoTrace:
    """One trial: its calls in order, its answer, and what the benchmark's log would say of it.

    ``success`` is the benchmark's technical flag: there was a reply. ``messages`` is None where the log holds
    no conversation. ``level`` and ``instruction`` are what the log, or the task's input, says; a task's own
    words come first.
    """

    calls: tuple[KoCall, ...] = ()
    final_response: Any = None
    success: bool = True
    repetition_results: tuple[bool, ...] = ()
    repetitions: int | None = None
    messages: tuple[KoMessage, ...] | None = None
    level: Any = None
    instruction: str = ""

    @property
    def own(self) -> tuple[KoCall, ...]:
        """The calls that the agent made."""
        return tuple(call for call in self.calls if not call.seeded)

    @property
    def answer(self) -> str:
        """The agent's own last words; a run that broke off has none, whatever its log repeats."""
        if not self.success or self.final_response is None:
            return ""
        return str(self.final_response).strip()

    @property
    def question(self) -> str:
        """What was asked last."""
        asked = [one.content or "" for one in self.messages or () if one.role == "user"]
        return asked[-1] if asked else self.instruction


def trace_of(evidence: Evidence) -> KoTrace:
    """Give a trial in the shape of the metrics."""
    log = evidence.state.get(IMPORTED)
    imported: Mapping[str, Any] = log if isinstance(log, Mapping) else NOTHING
    success = bool(imported["success"]) if "success" in imported else _replied(evidence)
    return KoTrace(
        calls=tuple(map(_call, evidence.calls)),
        final_response=evidence.answer or None,
        success=success,
        repetition_results=_flags(imported.get("repetition_results"), success),
        repetitions=imported.get("repetitions"),
        messages=_messages(evidence) if imported.get("conversation", True) else None,
        level=imported.get("task_level"),
        instruction=_instruction(evidence),
    )


def _replied(evidence: Evidence) -> bool:
    return any(message.role == "assistant" and not message.seeded for message in evidence.messages)


def _flags(given: Any, success: bool) -> tuple[bool, ...]:
    return tuple(given) if isinstance(given, list | tuple) and given else (success,)


def _call(call: ToolCall) -> KoCall:
    error = None if call.error is None else call.error.message or call.error.type
    seeded = call.by == "seed"
    return KoCall(call.turn, call.tool, dict(call.args), call.error is None, error, call.result, seeded)


def _messages(evidence: Evidence) -> tuple[KoMessage, ...]:
    said = (message for message in evidence.messages if message.role != "system")
    return tuple(KoMessage(message.role, message.content, message.seeded) for message in said)


def _instruction(evidence: Evidence) -> str:
    """Give the task's text, or that of the first user turn."""
    given = evidence.task_input
    turns = given.get("turns")
    if isinstance(turns, Sequence) and not isinstance(turns, str):
        users = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
        given = users[0] if users else NOTHING
    content = given.get("content")
    return content if isinstance(content, str) else ""
