"""Calling the PKM tools as an agent does, through a tool box, in a small knowledge base."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import pkm_tools
from pytest_agenteval.records.evidence import Tree
from pytest_agenteval.records.limits import Clock
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tasks.workspace import Workspace, snapshot
from pytest_agenteval.tools.tool import ToolResult
from pytest_agenteval.tools.toolbox import ToolBox

NOW = "2026-09-17T20:30:00+00:00"
FACT = "2026/09/17.md#ts_1"

FILES: Mapping[str, str] = {
    "Facts/2026/09/17.md": '## <id:ts_1> 09:00:00 "{}"\n\nA new varnish.\n',
    "PKM/Inbox.md": "- a thought\n",
    "PKM/Projects/Kayak.md": "# Kayak\n\n- bought the varnish\n- sanded the hull\n",
    "PKM/Areas/Choir/Voice.md": "# Voice\n\n- hum first\n",
    "PKM/Areas/Choir/Repertoire.md": "# Repertoire\n\n- two madrigals\n",
    "PKM/Resources/Bread.md": "# Bread\n\n- 12 h in the fridge\n",
}


class Called:
    """One trial's tools, at a given tree."""

    def __init__(self, root: Path, files: Mapping[str, str] = FILES) -> None:
        self.root = root
        for path, text in files.items():
            self.put(path, text.encode())
        self.workspace = Workspace([], at=root)
        self._box = ToolBox(Recorder(lambda: 0.0))
        self._box.offer(*pkm_tools(self.workspace, Clock(NOW)))

    def put(self, path: str, content: bytes = b"") -> Path:
        """Put a file into the tree by hand."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def call(self, tool: str, args: Mapping[str, Any]) -> ToolResult:
        """Call a tool."""
        return asyncio.run(self._box.call(ToolCall("c", 1, 0, tool, args)))

    def ok(self, tool: str, **args: Any) -> str:
        """Call a tool that does what it is asked; give what it says."""
        result = self.call(tool, args)
        assert result.error is None, result.error
        assert isinstance(result.value, str)
        return result.value

    def refused(self, tool: str, **args: Any) -> tuple[str, str]:
        """Call a tool that says no; give the error's type and text."""
        result = self.call(tool, args)
        assert result.error is not None, result.value
        return result.error.type, result.error.message

    def file(self, path: str) -> bytes:
        """Read a file of the knowledge base by hand."""
        return (self.root / "PKM" / path).read_bytes()

    def tree(self) -> Tree:
        """Look at the whole workspace."""
        return snapshot(self.root)
