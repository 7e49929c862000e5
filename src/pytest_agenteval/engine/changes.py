"""What is not what it was when a trial was carried out, as its digests tell it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from pytest_agenteval.engine.agent_side import AgentSide
from pytest_agenteval.records.trial import NO_TOOLS, Digests

SEEN = {
    "input": "task input",
    "fixture": "fixture",
    "settings": "settings, clock or limits",
    "model": "model",
    "acted_out": "script",
}
"""Digests of what an agent sees, and which model it is, as far as the plan tells; and what people call it."""


class Changes(NamedTuple):
    """What is not what it was, in words: of what the ``agent`` sees and is, and of the ``ruler``."""

    agent: tuple[str, ...] = ()
    ruler: tuple[str, ...] = ()


def changes(old: Digests, new: Digests, side: AgentSide, prompts_read: Mapping[str, str]) -> Changes:
    """Say what has changed since a trial; ``side`` is what its agent would be today.

    ``prompts_read`` are the digests of the prompts that the trial is known to have read, by name.
    """
    agent = tuple(_of_agent(old, new, side, prompts_read))
    return Changes(agent, tuple(_of_ruler(old, new)) if not agent else ())


def _of_agent(old: Digests, new: Digests, side: AgentSide, read: Mapping[str, str]) -> Iterator[str]:
    for name, words in SEEN.items():
        if getattr(old, name) != getattr(new, name):
            yield f"{words} changed"
    if old.prompt != side.prompt:
        yield f"{_prompts(read, side.prompts)} changed"
    if old.code != side.code:
        yield "agent code changed"
    before = old.tools if not old.offered else "" if old.offered == NO_TOOLS else old.offered
    if before != side.tools:
        yield "tools changed"
    elif old.tool_code != side.tool_code:
        yield "tool code changed"


def _prompts(read: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Name the prompts whose texts are others, as far as the trial has read them."""
    names = [name for name, digest in read.items() if now.get(name) != digest]
    return f"prompt {_listed(names)}" if names else "prompts"


def _of_ruler(old: Digests, new: Digests) -> Iterator[str]:
    if old.ruler == new.ruler:
        if named := [label for label in new.grader_code if _code_changed(label, old, new)]:
            yield f"code of grader {_listed(named)}"
        return
    before, after = old.graders, new.graders
    named = [_grader(label, before.get(label, ""), after.get(label, "")) for label in {**before, **after}]
    words = [word for word in named if word]
    yield f"grader {_listed(words)}" if words else "graders changed"


def _code_changed(label: str, old: Digests, new: Digests) -> bool:
    return old.grader_code.get(label, "") != new.grader_code[label]


def _grader(label: str, before: str, after: str) -> str:
    if before == after:
        return ""
    if not before:
        return f"{label} is new"
    if not after:
        return f"{label} is gone"
    was, now = before.rpartition(":")[0], after.rpartition(":")[0]
    return f"{label} {was} -> {now}" if was != now else f"{label} configured or judged otherwise"


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
