"""Models that act out what an author wrote: a script, a reference solution whole or spoilt, or nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from pytest_agenteval.chat.chat import ChatMessage, Reply
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool_spec import parse_arguments
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import NothingToActOut, ScriptEnded
from pytest_agenteval.text.json_values import compact_json

ArgumentFiller = Callable[[Any], Any]
# ``$1.files[0]`` in an argument stands for a part of the first result; ``$$`` stands for a dollar sign.
RESULT_REFERENCE = re.compile(r"\$\$|\$(\d+)((?:\.\w+|\[\d+\])*)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


class ScriptedReplies:
    """Turns an author's turns into replies; call ids are numbered through the whole chat, so none repeats."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def reply(self, turn: Mapping[str, Any], fill: ArgumentFiller = lambda args: args) -> Reply:
        """Give one turn as a reply; ``fill`` is applied to the arguments of each call."""
        calls = []
        for index, call in enumerate(turn.get("calls") or ()):
            args, raw = call.get("args") or {}, None
            if isinstance(args, str):  # a text stays as it is, like a model's malformed arguments
                args, raw = parse_arguments(args)
            else:
                args = fill(args)
            calls.append(ToolCall(f"call_{next(self._numbers)}", 0, index, call["tool"], args, raw))
        sent, written = int(turn.get("input_tokens") or 0), int(turn.get("output_tokens") or 0)
        return Reply(
            text=turn.get("text") or "",
            calls=tuple(calls),
            usage=Usage(sent, written, asks=1, attempts=1),
            finish="tool_calls" if calls else "stop",
        )


class ScriptedChat:
    """Gives one entry of the script for each ask, after the entry's ``seconds``."""

    def __init__(self, script: Sequence[Mapping[str, Any]], file: str) -> None:
        self._script, self._file = script, file
        self._replies = ScriptedReplies()
        self._asks = 0

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        """Give the next entry; raises ScriptEnded beyond the last, NothingToActOut without a script."""
        if not self._script:
            raise NothingToActOut(f"the task has no script: add `script` to {self._file}")
        self._asks += 1
        if self._asks > len(self._script):
            entries = "1 entry" if len(self._script) == 1 else f"{len(self._script)} entries"
            raise ScriptEnded(f"{self._file}: the script has {entries}, and the agent requested one more")
        entry = self._script[self._asks - 1]
        seconds = entry.get("seconds") or 0.0
        if seconds > 0:
            await asyncio.sleep(seconds)
        return self._replies.reply(entry)


def scripted(model: Model, plan: Plan) -> ScriptedChat:
    return ScriptedChat(plan.task.script or (), plan.task.file or plan.task.id)


class OracleChat:
    """Acts out the turns of a reference solution, one for each ask; afterwards it repeats its last text.

    Arguments may refer to earlier results: ``$1.documents[0].id`` is a part of the first call's result,
    counted over all results in the conversation. A text that is one reference becomes the value itself;
    within a longer text the value is written out. ``$$`` is a dollar sign.
    """

    def __init__(self, turns: Sequence[Mapping[str, Any]], file: str) -> None:
        self._turns, self._file = turns, file
        self._replies = ScriptedReplies()
        self._asks = 0

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        """Give the next turn; raises NothingToActOut without one, or if a reference leads nowhere."""
        if not self._turns:
            raise NothingToActOut(
                f"the task has no reference turns: add `reference_solution.turns` to {self._file}"
            )
        self._asks += 1
        if self._asks > len(self._turns):
            return Reply(text=self._turns[-1].get("text") or "")
        results = [message.get("content") for message in messages if message["role"] == "tool"]
        return self._replies.reply(self._turns[self._asks - 1], partial(self._filled, results))

    def _filled(self, results: list[Any], value: Any) -> Any:
        """Replace references by results, at any depth."""
        if isinstance(value, str):
            if (whole := RESULT_REFERENCE.fullmatch(value)) is not None:
                return self._referred(results, whole)

            def reference_text(match: re.Match[str]) -> str:
                part = self._referred(results, match)
                return part if isinstance(part, str) else compact_json(part)

            return RESULT_REFERENCE.sub(reference_text, value)
        if isinstance(value, Mapping):
            return {key: self._filled(results, inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(results, inner) for inner in value]
        return value

    def _referred(self, results: list[Any], reference: re.Match[str]) -> Any:
        if reference[0] == "$$":
            return "$"
        number = int(reference[1])
        place = f"{self._file}: reference_solution.turns[{self._asks - 1}]: {reference[0]}"
        if not 1 <= number <= len(results):
            raise NothingToActOut(f"{place} has no target: there are {len(results)} results so far")
        value = results[number - 1]
        with suppress(TypeError, ValueError):  # a tool message is a text where it is no JSON
            value = json.loads(value)
        for step in _STEP.finditer(reference[2]):
            try:
                value = value[int(step[2])] if step[2] else dict(value)[step[1]]
            except (LookupError, TypeError, ValueError):
                text = compact_json(value)
                held = text if len(text) <= 80 else f"{text[:79]}…"
                raise NothingToActOut(f"{place} has no target: no {step[0]} in {held}") from None
        return value


def oracle(model: Model, plan: Plan) -> OracleChat:
    return OracleChat((plan.task.reference or {}).get("turns") or (), plan.task.file or plan.task.id)


class NopChat:
    """Gives empty replies without calls."""

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        return Reply()


def nop(model: Model, plan: Plan) -> NopChat:
    return NopChat()


# In a text, stands for all messages of the user and results of the tools.
EVERYTHING = "\0everything\0"


class SpoilerChat(OracleChat):
    """Acts out turns as the oracle does; ``EVERYTHING`` becomes all messages of users and tools."""

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        if self._turns:
            place = min(self._asks, len(self._turns) - 1)
            given = (message for message in messages if message["role"] in ("user", "tool"))
            conversation = "\n".join(str(message.get("content") or "") for message in given)
            turn = self._turns[place]
            text = _with_conversation_texts(turn.get("text") or "", conversation)
            # In arguments a dollar sign would refer to a result.
            calls = _with_conversation_texts(turn.get("calls") or (), conversation.replace("$", "$$"))
            turn = {**turn, "text": text, "calls": calls}
            self._turns = [*self._turns[:place], turn, *self._turns[place + 1 :]]
        return await super().ask(messages)


def _with_conversation_texts(value: Any, conversation: str) -> Any:
    if isinstance(value, str):
        return value.replace(EVERYTHING, conversation)
    if isinstance(value, Mapping):
        return {key: _with_conversation_texts(inner, conversation) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_conversation_texts(inner, conversation) for inner in value]
    return value


def spoiler(model: Model, plan: Plan) -> SpoilerChat:
    return SpoilerChat((plan.task.reference or {}).get("turns") or (), plan.task.file or plan.task.id)
