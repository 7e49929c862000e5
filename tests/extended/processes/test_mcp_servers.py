"""A run that ends while an MCP server of one of its trials hangs."""

from __future__ import annotations

import pytest

from pytest_agenteval.processes.process_groups import is_running
from tests.suites import run, write
from tests.tools.mcp.test_served_tools import NOTED, SERVER, asking, served

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

WAITS = """
import time
from pathlib import Path

NOTES = Path({notes!r})


def wait(task_input, ctx):
    while "hangs" not in (NOTES.read_text() if NOTES.exists() else ""):
        time.sleep(0.01)
    return "no"


def pytest_agenteval_register(registry):
    registry.agent("waits", wait)
"""


def test_a_run_that_is_cut_short_leaves_no_server(pytester: pytest.Pytester) -> None:
    """As by -x or Ctrl-C, which cancel what is under way."""
    notes = pytester.path / "starts.txt"
    files = {
        "suite.yaml": served(where=NOTED).replace("STARTS_FILE", str(notes)),
        "server.py": SERVER.read_text(encoding="utf-8"),
        "conftest.py": WAITS.format(notes=str(notes)),
        "a.json": asking(id="a", agent="waits"),
        "b.json": asking("hang", id="b"),
    }
    write(pytester.path, {f"evals/{name}": content for name, content in files.items()})
    run(pytester, "evals", "--agent-record=once", "-x").assert_outcomes(failed=1)
    (line,) = (line for line in notes.read_text(encoding="utf-8").splitlines() if "hangs" in line)
    processes = [int(number) for number in line.split()[1:]]
    assert len(processes) == 2
    assert not any(map(is_running, processes))
