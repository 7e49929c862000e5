"""What a trial did, in the plain shape in which the Korean benchmark's metrics look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval import Evidence, ToolCall
from pytest_agenteval.records.record import FrozenValue

LOG_STATE = "ko_agentbench"
"""The key of the agent's state where a trial imported from the benchmark's logs holds what they say."""


class KoCall(FrozenValue, frozen=True):
    """One tool call; ``step`` counts the model's replies, and ``seeded`` calls were given, not made.

    ``step`` is None where nobody saw the reply that asked for it: each such call is one by itself. One that
    is not ``readable`` came with arguments that are no JSON object; its ``args`` are empty.
    """

    step: Any
    tool: str
    args: Mapping[str, Any] = {}
    success: bool = True
    error: str | None = None
    result: Any = None
    seeded: bool = False
    readable: bool = True

    @property
    def worked(self) -> bool:
        """Whether it ended without an error."""
        return bool(self.success) and not self.error


class KoMessage(FrozenValue, frozen=True):
    """One message of the conversation; ``seeded`` ones were given, not said."""

    role: str
    content: str | None
    seeded: bool = False


class KoTrace(FrozenValue, frozen=True):
    """One trial: its calls in order, its answer, and what the benchmark's log would say of it.

    ``success`` is the benchmark's technical flag: there was a reply. ``messages`` is None where the log holds
    no conversation. ``level`` and ``instruction`` are what the log, or the task's input, says; a task's own
    words come first. ``offered`` names the tools that the log says were offered.
    """

    calls: tuple[KoCall, ...] = ()
    final_response: Any = None
    success: bool = True
    repetition_results: tuple[bool, ...] = ()
    repetitions: int | None = None
    messages: tuple[KoMessage, ...] | None = None
    level: Any = None
    instruction: str = ""
    offered: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[KoCall, ...]:
        """The calls that the agent made."""
        return tuple(call for call in self.calls if not call.seeded)

    @property
    def answer(self) -> str:
        """The agent's own last words; a run that broke off has none, whatever its log repeats."""
        # Where the evaluated turn broke, the log repeats the task's own last text: mostly the reference.
        if not self.success or self.final_response is None:
            return ""
        return str(self.final_response).strip()

    @property
    def question(self) -> str:
        """What was asked last."""
        questions = [message.content or "" for message in self.messages or () if message.role == "user"]
        return questions[-1] if questions else self.instruction


def trace_of(evidence: Evidence) -> KoTrace:
    """Give a trial in the shape of the metrics."""
    log = evidence.state.get(LOG_STATE)
    imported: Mapping[str, Any] = log if isinstance(log, Mapping) else {}
    success = bool(imported["success"]) if "success" in imported else _has_reply(evidence)
    return KoTrace(
        calls=tuple(map(_call, evidence.calls)),
        # The log writes an empty answer so, too.
        final_response=evidence.answer or None,
        success=success,
        repetition_results=_flags(imported.get("repetition_results"), success),
        repetitions=imported.get("repetitions"),
        messages=_messages(evidence) if imported.get("conversation", True) else None,
        level=imported.get("task_level"),
        instruction=next((turn.content or "" for turn in _task_turns(evidence) if turn.role == "user"), ""),
        offered=tuple(imported.get("expected_tools") or ()),
    )


def _has_reply(evidence: Evidence) -> bool:
    """Whether the agent said anything; one with a model of its own leaves nothing but its answer."""
    replies = (message.role == "assistant" and not message.seeded for message in evidence.messages)
    return bool(evidence.answer) or any(replies)


def _flags(results: Any, success: bool) -> tuple[bool, ...]:
    return tuple(results) if isinstance(results, list | tuple) and results else (success,)


def _call(call: ToolCall) -> KoCall:
    error = None if call.error is None else call.error.message or call.error.type
    seeded = call.by == "seed"
    step = call.turn if call.turn or seeded else None
    fine, readable = call.error is None, call.raw_args is None
    return KoCall(step, call.tool, dict(call.args), fine, error, call.result, seeded, readable)


def _messages(evidence: Evidence) -> tuple[KoMessage, ...]:
    """Give what was said or, where nobody wrote that down, what the task gave."""
    spoken = [message for message in evidence.messages if message.role != "system"]
    messages = tuple(KoMessage(message.role, message.content, message.seeded) for message in spoken)
    return messages or _task_turns(evidence)


def _task_turns(evidence: Evidence) -> tuple[KoMessage, ...]:
    """Give the turns of a task; its text is one of the user's, as is a turn that is a plain text."""
    turns = evidence.task_input.get("turns")
    if not isinstance(turns, Sequence) or isinstance(turns, str):
        turns = [evidence.task_input.get("content")]
    maps = (turn if isinstance(turn, Mapping) else {"content": turn} for turn in turns)
    texts = ((turn.get("role", "user"), turn.get("content")) for turn in maps)
    return tuple(KoMessage(role, text, seeded=True) for role, text in texts if isinstance(text, str))
