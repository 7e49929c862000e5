"""The examples of docs/guides/frameworks.md: lines from the page, below the agents that they are added to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.extended.frameworks.environments import ROOT

PAGE = ROOT / "docs" / "guides" / "frameworks.md"
AGENTS = Path(__file__).with_name("agents")
MOST_LINES = 5

_EXAMPLE = re.compile(
    r"^<!-- example: ([^\n]+) -->$(.*?)(?=^<!-- example: |^## |\Z)", re.MULTILINE | re.DOTALL
)
_BLOCK = re.compile(r"^```\w+\n(?:#|//) ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CALL = "agent: {call: bot:answer}\n"


class Example(NamedTuple):
    """One framework's: the agent as somebody has it, and what is added to its file and to suite.yaml."""

    agent: str
    added: str
    suite: str

    @property
    def lines(self) -> int:
        """How many lines are added, those of suite.yaml among them."""
        return sum(bool(line.strip()) for line in f"{self.added}\n{self.suite}".splitlines())

    @property
    def module(self) -> str:
        """The whole file."""
        return f"{self.agent}\n\n{self.added}"


def read_examples() -> dict[str, Example]:
    """Give each framework's example by the framework's name; several names may share one example."""
    page = PAGE.read_text(encoding="utf-8")
    return {
        name: _example(name, text) for names, text in _EXAMPLE.findall(page) for name in names.split(", ")
    }


def read_tool() -> str:
    """Give the module that every example imports."""
    return (AGENTS / "weather.py").read_text(encoding="utf-8")


def _example(name: str, text: str) -> Example:
    blocks = dict(_BLOCK.findall(text))
    (agent,) = AGENTS.glob(f"{name.replace('-', '_')}.*")
    try:
        return Example(
            agent.read_text(encoding="utf-8"),
            blocks["add below your agent"],
            blocks.get("in suite.yaml", _CALL),
        )
    except KeyError as missing:
        raise ValueError(f"docs/guides/frameworks.md: the example {name} has no block {missing}") from None
