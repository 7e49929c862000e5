"""What a model wrote, told apart: what it thought, what it calls, what it says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from pytest_agenteval.chat.local.written.bare_calls import bare_json, bare_python, fenced
from pytest_agenteval.chat.local.written.marked_calls import (
    deepseek,
    function_tags,
    functionary,
    hermes_like,
    llama,
    mistral,
)
from pytest_agenteval.chat.local.written.typed_calls import gemma, glm, invoke_tags, qwen_coder
from pytest_agenteval.chat.local.written.written_call import CallsInText, WrittenCall
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import harmony_messages, split_thoughts
from pytest_agenteval.records.tool import ToolSpec

Format: TypeAlias = Callable[[str, Collection[ToolSpec]], CallsInText | None]

FORMATS: Sequence[Format] = (
    deepseek,
    invoke_tags,
    gemma,
    qwen_coder,
    function_tags,
    glm,
    mistral,
    hermes_like,
    llama,
    functionary,
    fenced,
    bare_json,
    bare_python,
)
"""How calls are written, the plainest mark first: the first that finds a call has read the reply."""


class WrittenReply(FrozenValue, frozen=True):
    """What a model said, thought and called."""

    text: str
    reasoning: str = ""
    calls: tuple[WrittenCall, ...] = ()


OPENINGS = (">>>", "<think>", "[THINK]", "<seed:think>", "<|channel>thought", "◁think▷")
"""What a prompt may end with that is the beginning of the reply."""


def opening_of(prompt: str) -> str:
    """Give the beginning of the reply that a prompt ends with; empty for none."""
    end = prompt[-40:].rstrip()
    return next((opening for opening in OPENINGS if end.endswith(opening)), "")


def read_reply_text(text: str, tools: Collection[ToolSpec]) -> WrittenReply:
    """Read a whole reply, with its special tokens; calls only where ``tools`` are offered."""
    if harmony := harmony_messages(text) if "<|channel|>" in text else []:
        calls = [
            WrittenCall(it.recipient, it.body.strip() or "{}") for it in harmony if it.recipient and tools
        ]
        reply = split_thoughts("".join(it.written for it in harmony if not it.recipient))
        return WrittenReply(reply.text.strip(), reply.reasoning, tuple(calls))
    rest, reasoning = split_thoughts(text)
    for read in FORMATS if tools else (functionary,):
        written = read(rest, tools)
        if written is not None and (written.calls or written.text != rest):
            return WrittenReply(written.text.strip(), reasoning, written.calls if tools else ())
    return WrittenReply(rest.strip(), reasoning)
