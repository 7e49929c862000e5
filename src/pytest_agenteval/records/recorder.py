"""The transcript while it is being written: by chat and tool box, so that it survives a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_agenteval.errors import CassetteMiss, dotted
from pytest_agenteval.records.bounds import bounded, bounded_call, bounded_text
from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.records.transcript import (
    NOTHING,
    PROMPT_READ,
    Ask,
    Event,
    Message,
    ToolCall,
    Transcript,
    Usage,
)


class Recorder:
    """Everything said and called so far in one trial.

    ``at`` gives the seconds since the trial began.
    """

    def __init__(self, at: Callable[[], float]) -> None:
        self.at = at
        self.turn = 0
        self.phase = 1
        self._conversation: list[Mapping[str, Any]] = []
        self._messages: list[Message] = []
        self._calls: list[ToolCall] = []
        self._asks: list[Ask] = []
        self._events: list[Event] = []
        self._prompts_read: dict[str, int] = {}
        self.usage = Usage()
        self.broken: BaseException | None = None
        self.seeded = 0
        self.last_words = ""
        self._placing = threading.Lock()

    def add_prompt(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Write down the messages of a request that were not there before.

        A conversation that does not go on from the last one begins a new phase. The first ``seeded`` messages
        were given by the task, not said in the trial: an agent that gives the model a history says how long.
        """
        recorded = len(self._conversation)
        # An agent may rewrite its history, as by a summary: what it dropped was said all the same.
        if not _goes_on(self._conversation, messages):
            self._conversation, recorded = [], 0
            self.phase += 1
        for number, message in enumerate(messages[recorded:], start=recorded):
            self._conversation.append(message)
            self._messages.append(self._message(message, number < self.seeded))

    def add_reply(self, message: Mapping[str, Any], calls: tuple[ToolCall, ...], ask: Ask) -> None:
        """Write down a model's reply and what it took."""
        self._conversation.append(message)
        content = bounded_text(message.get("content") or "")
        self.last_words = content or self.last_words
        calls = tuple(map(bounded_call, calls))  # before anything keeps them: a call may hold itself
        self._messages.append(Message("assistant", content, calls, self.turn, phase=self.phase))
        self._asks.append(ask)
        self.usage = self.usage + ask.usage

    def begin_call(self, call: ToolCall) -> int:
        """Keep a call's place in the order in which the model listed it; give the place."""
        with self._placing:  # calls may come from several threads
            self._calls.append(bounded_call(call))
            return len(self._calls) - 1

    def end_call(self, place: int, call: ToolCall) -> None:
        """Put what came of a call into its place."""
        self._calls[place] = bounded_call(call)

    def add_miss(self, miss: CassetteMiss) -> None:
        """Write down what was asked and not recorded, and what there is in its place."""
        problem = miss.problem
        details = {
            "file": problem.file,
            "asked": dotted(problem.path),
            "expected": problem.expected,
            "found": problem.found,
            "hint": problem.hint,
        }
        self.event("cassette_miss", str(miss).partition("\n")[0], details)

    def prompt_read(self, name: str, digest: str) -> None:
        """Write down that the agent reads a prompt: once between two replies of the model."""
        if self._prompts_read.get(name) != self.turn:
            self._prompts_read[name] = self.turn
            self.event(PROMPT_READ, name, {"digest": digest, "turn": self.turn + 1})

    def event(self, kind: str, text: str, details: Mapping[str, Any] = NOTHING) -> None:
        """Write down something worth knowing."""
        self._events.append(Event(self.at(), kind, bounded_text(text), bounded(details)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls made so far."""
        return tuple(self._calls)

    def transcript(self) -> Transcript:
        """Give what has been written so far."""
        return Transcript(
            tuple(self._messages), tuple(self._calls), tuple(self._asks), tuple(self._events), self.usage
        )

    def _message(self, message: Mapping[str, Any], seeded: bool) -> Message:
        return Message(
            message["role"],
            bounded_text(_text(message.get("content"))),
            tuple(_seed_call(call, index) for index, call in enumerate(message.get("tool_calls") or ())),
            self.turn,
            seeded,
            self.phase,
            message.get("tool_call_id", ""),
        )


def _goes_on(conversation: list[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the messages begin with everything that was said."""
    if len(messages) < len(conversation):
        return False
    return all(old is new or old == new for old, new in zip(conversation, messages, strict=False))


def _text(content: Any) -> str:
    """Give a message's content as text; content in parts gives the text parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts = [part.get("text", "") for part in content if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if part)


def _seed_call(call: Mapping[str, Any], index: int) -> ToolCall:
    """Read a call out of an assistant message that was given, not said."""
    function = call["function"]
    args, raw = parse_arguments(function.get("arguments") or "{}")
    return ToolCall(call["id"], 0, index, function["name"], args, raw, by="seed")
