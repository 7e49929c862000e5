"""What an agent is told of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.records.frozen import NOTHING
from pytest_agenteval.records.record import Record


@dataclass(frozen=True, slots=True)
class ToolSpec(Record):
    """A tool's name, what it is for, and the JSON Schema of its arguments.

    ``checked``: arguments are checked against ``parameters`` before the tool is called; a tool that says no
    does it itself. ``taped``: the tool asks the outside world, so its answers are played from cassettes.
    ``blocking``: its function waits, so it runs in a thread of its own.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default=NOTHING, hash=False)
    checked: bool = True
    taped: bool = False
    blocking: bool = True

    def declaration(self) -> dict[str, Any]:
        """Give the tool as chat-completion APIs want it."""
        parameters = dict(self.parameters) or {"type": "object", "properties": {}}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}
