"""Several processes and one file, as with xdist's workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.interaction import tool_call, tool_request, tool_response
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.processes import files

WORKER = """
import sys
from pathlib import Path
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.cassettes.interaction import tool_request, tool_response
path, mode, me, started = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
if sys.argv[5:] == ["portable"]:
    from pytest_agenteval.processes import files
    files.fcntl = None
library = Library(started=started)
tape = library.open(path, mode, "tool")
print("open", flush=True)
sys.stdin.readline()
for n in range(20):
    for tool in ("shared", f"mine{me}"):
        tape.record(tool_request(tool, {"n": n}), tool_response([me, n]))
    library.save()
"""


def start(path: Path, mode: str, worker: int, started: float, *more: str) -> subprocess.Popen[str]:
    """Start a worker, which says when it has opened the file and then waits."""
    arguments = [sys.executable, "-c", WORKER, str(path), mode, str(worker), str(started), *more]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_that_record_one_file_at_once_lose_nothing(tmp_path: Path) -> None:
    """This one and another save twenty times meanwhile; ``tests/extended/processes`` has more of them."""
    path, started = tmp_path / "a.yaml", time.time()
    library = Library(started=started)
    tape = library.open(path, "once", "tool")
    worker = start(path, "once", 1, started)
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stdout.readline() == "open\n"
    worker.stdin.write("go\n")
    worker.stdin.flush()
    for n in range(20):
        for tool in ("shared", "mine2"):
            tape.record(tool_request(tool, {"n": n}), tool_response([2, n]))
        library.save()
    worker.communicate()
    assert worker.returncode == 0
    check_recorded(path)


def check_recorded(path: Path) -> None:
    """Check that all calls are there, those of both once, and that nothing else stays."""
    held = Library().open(path, "none", "tool").cassette.interactions
    calls = sorted((tool, args["n"]) for tool, args in (tool_call(it.request) for it in held))
    assert calls == [(tool, n) for tool in ("mine1", "mine2", "shared") for n in range(20)]
    assert os.listdir(path.parent) == ["a.yaml"]


def test_a_lock_left_by_a_dead_process_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With flock the file alone locks nothing; without it, an old one is thrown away."""
    lock = tmp_path / ".a.yaml.lock"
    for portable in (False, True):
        lock.write_text("")
        os.utime(lock, (time.time() - 120,) * 2)
        if portable:
            monkeypatch.setattr(files, "fcntl", None)
        with files.file_lock(tmp_path / "a.yaml"):
            assert lock.exists()
        assert not lock.exists()
