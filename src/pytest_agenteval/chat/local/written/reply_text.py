"""What a model wrote, told apart: what it thought, what it calls, what it says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from pytest_agenteval.chat.local.written.bare_calls import bare_json, bare_python, fenced
from pytest_agenteval.chat.local.written.harmony import MARK, read_harmony
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

THOUGHTS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought\n", "<channel|>"),
    ("◁think▷", "◁/think▷"),
)
"""Marks around what a model thinks before it speaks."""


class WrittenReply(FrozenValue, frozen=True):
    """What a model said, thought and called."""

    text: str
    reasoning: str = ""
    calls: tuple[WrittenCall, ...] = ()


OPENINGS = (">>>", *(opened.strip() for opened, _ in THOUGHTS))
"""What a prompt may end with that is the beginning of the reply."""


def opening_of(prompt: str) -> str:
    """Give the beginning of the reply that a prompt ends with; empty for none."""
    end = prompt[-40:].rstrip()
    return next((opening for opening in OPENINGS if end.endswith(opening)), "")


def read_reply_text(text: str, tools: Collection[ToolSpec]) -> WrittenReply:
    """Read a whole reply, with its special tokens; calls only where ``tools`` are offered."""
    if MARK in text:
        harmony = read_harmony(text)
        return WrittenReply(harmony.text, harmony.reasoning, harmony.calls if tools else ())
    reasoning, rest = split_thought(text)
    for read in FORMATS if tools else (functionary,):
        written = read(rest, tools)
        if written is not None and (written.calls or written.text != rest):
            return WrittenReply(written.text.strip(), reasoning, written.calls if tools else ())
    return WrittenReply(rest.strip(), reasoning)


def split_thought(text: str) -> tuple[str, str]:
    """Give what was thought, and the rest; a thought that does not end goes to the end."""
    start = text.lstrip()
    for opened, closed in THOUGHTS:
        if start.startswith(opened.strip()):
            thought, _, rest = start.removeprefix(opened.strip()).partition(closed)
            return thought.strip(), rest
        before, mark, rest = text.partition(closed)
        if mark and opened not in before:
            return before.strip(), rest
    return "", text
