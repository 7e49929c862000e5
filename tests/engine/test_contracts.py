"""What agents and graders may say of themselves: documented in one protocol each, and read in one place."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from pytest_agenteval.agents.agent import AgentTraits
from pytest_agenteval.closers import close_at_end, close_clients
from pytest_agenteval.graders.grader import GraderTraits

SOURCE = Path(__file__).parents[2] / "src" / "pytest_agenteval"
METHODS = ("with_judges", "end_state", "prepared", "input_problems")
READERS = {"agents/agent.py", "graders/grader.py"}
OTHERS = {"factories.py", "prompts.py"}
"""A function that was registered as a grader; an exception of jinja2."""


def test_a_trait_is_read_in_one_place() -> None:
    """No ``getattr`` elsewhere in core knows a name that an author has to find in a protocol's docstring."""
    names = "|".join((*METHODS, *GraderTraits.__annotations__, *AgentTraits.__annotations__))
    reads = re.compile(rf'(?:get|has)attr\([^"\n]*"(?:{names})"')
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads.search(path.read_text(encoding="utf-8")) and "benchmarks" not in path.parts
    }
    assert found == READERS | OTHERS


@pytest.mark.parametrize("traits", [GraderTraits, AgentTraits])
def test_every_trait_is_documented(traits: type) -> None:
    """What it means, its default and when it is read stand in the protocol's docstring."""
    assert [name for name in traits.__annotations__ if f"``{name}``" not in (traits.__doc__ or "")] == []


def test_what_is_to_be_closed_is_closed_once_and_all_of_it() -> None:
    """One that cannot be closed keeps no other open, and is told."""
    closed: list[str] = []

    async def good() -> None:
        closed.append("good")

    async def bad() -> None:
        raise OSError("gone")

    for close in (good, bad, good):
        close_at_end(close)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(close_clients())
    asyncio.run(close_clients())
    assert closed == ["good"]
