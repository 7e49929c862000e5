"""Servers of three makers work through each version of the package, and are replayed without starting."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.trial import Trial
from tests.extended.mcp_servers.installs import (
    OLDEST_ALLOWED,
    VERSIONS,
    node_server,
    packages_of,
    place,
    python_with,
)
from tests.journals import trials
from tests.suites import write

ROOT = Path(__file__).parents[3]
LIBRARY = Path(__file__).with_name("library.py")
SECONDS = 300

SUITE = """
name: real
kind: regression
defaults: {{model: scripted}}
tools:
- mcp: {{command: [{time}, -m, mcp_server_time]}}
  only: [convert_time]
- mcp: {{command: [{python}, library.py]}}
- mcp: {{command: [node, {node}]}}
  only: [echo, get-structured-content, get-tiny-image]
  share: session
- mcp: {{url: "${{LIBRARY_URL}}/mcp", headers: {{X-Reader: me}}}}
  prefix: far_
"""
CALLS = [
    ("convert_time", {"source_timezone": "Asia/Seoul", "time": "09:00", "target_timezone": "Asia/Tokyo"}),
    ("convert_time", {"source_timezone": "Nowhere/X", "time": "09:00", "target_timezone": "Asia/Tokyo"}),
    ("find_book", {"title": "Moby Dick"}),
    ("lend", {"title": "Moby Dick"}),
    ("lend", {"title": "Moby Dick"}),
    ("cover", {}),
    ("echo", {"message": "안녕"}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-tiny-image", {}),
    ("far_find_book", {"title": "Emma"}),
]


def task(id: str) -> dict[str, Any]:
    """Give a task that calls each tool in turn."""
    return {
        "id": id,
        "input": {"content": "Ask them all."},
        "script": [*({"calls": [{"tool": tool, "args": args}]} for tool, args in CALLS), {"text": "done"}],
        "graders": [{"name": "answer_contains", "config": {"text": "done"}}],
    }


class Project:
    """A folder of suites, and runs of pytest there with one version of the package."""

    def __init__(self, folder: Path, packages: Path | None) -> None:
        self.folder, self._packages = folder, packages

    def run(self, *args: str, **variables: str) -> str:
        """Run pytest in a process of its own, and give what it prints; the run before is forgotten."""
        shutil.rmtree(self.folder / ".agenteval", ignore_errors=True)
        path = {"PYTHONPATH": str(self._packages)} if self._packages else {}
        environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **path, **variables}
        command = [sys.executable, "-m", "pytest", "-p", "agenteval", "-p", "xdist.plugin", "evals", *args]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def trials(self) -> dict[str, Trial]:
        """Give the trials of the last run."""
        return trials(self.folder)


@contextmanager
def library_at_an_address(python: Path) -> Iterator[str]:
    """Start the library's server at an address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([str(python), str(LIBRARY), str(port)])
    try:
        end = time.monotonic() + SECONDS
        while server.poll() is None and time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("version", VERSIONS)
def test_servers_are_recorded_and_replayed_without_them(tmp_path: Path, version: str) -> None:
    """Python ones by a command and by an address, and one in JavaScript; two workers record at once."""
    requirement = "mcp" if version == "newest" else f"mcp=={version}"
    python = python_with(requirement)
    project = Project(tmp_path, packages_of(python))
    suite = SUITE.format(time=python_with("mcp-server-time==2026.10.19"), python=python, node=node_server())
    write(
        tmp_path,
        {
            "pytest.ini": "[pytest]\n",
            "evals/suite.yaml": suite,
            "evals/library.py": LIBRARY.read_text(encoding="utf-8"),
            **{f"evals/{id}.json": task(id) for id in "abc"},
        },
    )
    with library_at_an_address(python) as url:
        project.run("--agent-record=once", "-n2", LIBRARY_URL=url)
    recorded = project.trials()
    for trial in recorded.values():
        results = [call.result for call in trial.transcript.calls]
        errors = [call.error.message if call.error else "" for call in trial.transcript.calls]
        assert results[0]["time_difference"] == "+0.0h"
        assert "Nowhere/X" in errors[1]
        assert (results[2]["title"], results[2]["year"], results[2]["lent_to"]) == ("Moby Dick", 1851, None)
        assert results[3] in ({"result": 1}, "1")  # each trial has a server of its own
        assert "lend" in errors[4]  # from 2.0 on the server keeps the reason to itself
        assert results[5] == "[image: image/png, 8 bytes, not shown]"
        assert (results[6], sorted(results[7])) == ("Echo: 안녕", ["conditions", "humidity", "temperature"])
        assert re.search(r"\[image: image/png, \d+ bytes, not shown\]", results[8])
        assert results[9]["title"] == "Emma"
        assert [call.tape for call in trial.transcript.calls] == ["live"] * len(CALLS)

    (tmp_path / "evals" / "library.py").unlink()
    project.run(PATH="/nowhere", LIBRARY_URL="http://127.0.0.1:1")
    for id, trial in project.trials().items():
        replayed, before = trial.transcript.calls, recorded[id].transcript.calls
        assert [(call.result, call.error) for call in replayed] == [
            (call.result, call.error) for call in before
        ]
        assert {call.tape for call in replayed} == {"hit"}


def test_other_processes_record_and_replay_too(tmp_path: Path) -> None:
    """Plans that travel to processes of their own find the servers there."""
    project = Project(tmp_path, None)
    entry = f"{{mcp: {{command: [{python_with('mcp')}, library.py]}}}}"
    suite = f"name: s\nkind: regression\ndefaults: {{model: scripted}}\ntools: [{entry}]\n"
    calls = [{"calls": [{"tool": "lend", "args": {"title": "Emma"}}]}, {"text": "done"}]
    write(
        tmp_path,
        {
            "pytest.ini": "[pytest]\n",
            "evals/suite.yaml": suite,
            "evals/library.py": LIBRARY.read_text(encoding="utf-8"),
            **{f"evals/{id}.json": {**task(id), "script": calls} for id in "ab"},
        },
    )
    project.run("--agent-record=once", "--agent-executor=processes")
    assert [trial.transcript.calls[0].result for trial in project.trials().values()] == [{"result": 1}] * 2
    (tmp_path / "evals" / "library.py").unlink()
    project.run("--agent-executor=processes")
    assert [trial.transcript.calls[0].tape for trial in project.trials().values()] == ["hit"] * 2


def test_the_oldest_version_is_the_one_that_is_allowed() -> None:
    """Else it would be another that is tried."""
    assert f'"mcp>={OLDEST_ALLOWED.rpartition(".")[0]},<3"' in (ROOT / "pyproject.toml").read_text(
        encoding="utf-8"
    )
    assert place() != ROOT
