"""Puts logged messages and logged calls together again: the log keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask, actions
from pytest_agenteval.canonical import compact
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError


@dataclass(slots=True)
class Telling:
    """A log's messages and calls, retold in order; give the seeded messages first."""

    logged: Sequence[Mapping[str, Any]]
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    turn: int = 0
    phase: int = 1
    waiting: list[int] = field(default_factory=list)
    told: set[int] = field(default_factory=set)

    def seed(self, task: SourceTask | None, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take over the messages that the task gave, with the calls that the log leaves out."""
        turns = iter(task.turns if task is not None else ())
        number = 0
        open_calls: list[ToolCall] = []
        for message in messages:
            if message["role"] == "tool":
                content, id = message.get("content"), str(message.get("tool_call_id") or "")
                self.messages.append(Message("tool", _text(content), (), 0, True, call_id=id))
                if open_calls:
                    self.calls.append(replace(open_calls.pop(0), id=id, result=content))
                continue
            turn, number = next(turns), number + 1
            asked = tuple(_seeded_calls(turn, number)) if message["role"] == "assistant" else ()
            open_calls = list(asked)
            self.messages.append(Message(message["role"], _text(message.get("content")), asked, 0, True))

    def tell(self, message: Mapping[str, Any]) -> None:
        """Take over one message of the trial itself."""
        role = message["role"]
        if role == "tool":
            self._answered(message)
        elif role == "assistant":
            self._replied(message)
        else:
            self.messages.append(Message(role, _text(message.get("content")), phase=self.phase))

    def call_the_rest(self) -> None:
        """Take over calls that no message tells of."""
        for place in range(len(self.logged)):
            if place not in self.told:
                self._made(place, "")

    def _replied(self, message: Mapping[str, Any]) -> None:
        """Begin a turn; a reply right after one that called nothing is that of a second conversation."""
        before = self.messages[-1] if self.messages else None
        if before is not None and before.role == "assistant" and not before.seeded:
            self.phase += 1
        self.turn += 1
        self.waiting = [place for place, call in enumerate(self.logged) if call.get("step") == self.turn]
        asked = tuple(self._asked(place, index) for index, place in enumerate(self.waiting))
        content = _text(message.get("content"))
        self.messages.append(Message("assistant", content, asked, self.turn, phase=self.phase))

    def _answered(self, message: Mapping[str, Any]) -> None:
        id, kind = str(message.get("tool_call_id") or ""), ""
        content = message.get("content")
        if isinstance(content, Mapping):
            kind = str(content.get("error_type") or "")
        if self.waiting:
            self._made(self.waiting.pop(0), id, kind)
        told = Message("tool", _text(content), (), self.turn, phase=self.phase, call_id=id)
        self.messages.append(told)

    def _asked(self, place: int, index: int) -> ToolCall:
        call = self.logged[place]
        args, raw = _args(call.get("arguments"))
        return ToolCall(_id(place), self.turn, index, str(call.get("tool_name")), args, raw)

    def _made(self, place: int, id: str, kind: str = "") -> None:
        """Take over a call with what came of it, and give it the name that its answer has."""
        call = self.logged[place]
        self.told.add(place)
        step = call.get("step")
        turn = step if isinstance(step, int) else self.turn
        index = sum(1 for other in self.logged[:place] if other.get("step") == step)
        args, raw = _args(call.get("arguments"))
        self.calls.append(
            ToolCall(
                id or _id(place),
                turn,
                index,
                str(call.get("tool_name")),
                args,
                raw,
                result=call.get("result"),
                error=_error(call, kind),
            )
        )
        if id:
            self._name(_id(place), id)

    def _name(self, old: str, new: str) -> None:
        for place in range(len(self.messages) - 1, -1, -1):
            message = self.messages[place]
            if any(call.id == old for call in message.calls):
                named = (replace(call, id=new) if call.id == old else call for call in message.calls)
                self.messages[place] = replace(message, calls=tuple(named))
                return


def _seeded_calls(turn: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    for index, action in enumerate(actions(turn)):
        args, raw = _args(action.get("args"))
        yield ToolCall(f"seed_call_{number}_{index + 1}", 0, index, action["tool"], args, raw, by="seed")


def _args(given: Any) -> tuple[Mapping[str, Any], str | None]:
    if isinstance(given, dict):
        return given, None
    return {}, None if given is None else given if isinstance(given, str) else compact(given)


def _error(call: Mapping[str, Any], kind: str) -> ToolError | None:
    if call.get("success"):
        return None
    return ToolError(kind or "tool_error", str(call.get("error") or "the call failed"))


def _id(place: int) -> str:
    return f"call_{place + 1}"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "" if content is None else compact(content)
