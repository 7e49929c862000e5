"""The examples of docs/guides/agents.md: taken from the page, counted, and given as files to run."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.extended.frameworks.environments import ROOT

PAGE = ROOT / "docs" / "guides" / "agents.md"
MOST_LINES = 5

_EXAMPLE = re.compile(r"^<!-- example: (\S+) -->$(.*?)(?=^<!-- example: |^## |\Z)", re.MULTILINE | re.DOTALL)
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
    """Give each framework's example by the framework's name."""
    page = PAGE.read_text(encoding="utf-8")
    return {name: _example(name, text) for name, text in _EXAMPLE.findall(page)}


def read_tool() -> str:
    """Give the module that every example imports."""
    blocks = dict(_BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    return blocks["weather.py"]


def _example(name: str, text: str) -> Example:
    blocks = dict(_BLOCK.findall(text))
    try:
        return Example(blocks["your agent"], blocks["added"], blocks.get("added to suite.yaml", _CALL))
    except KeyError as missing:
        raise ValueError(f"docs/guides/agents.md: the example {name} has no block {missing}") from None
