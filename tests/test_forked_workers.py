"""The workers and programs of tests, which are forked, and those that are started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from execnet import gateway_io

from tests.forked_workers import ForkedIO, ForkedPython, can_fork
from tests.suites import run, write

pytest_plugins = ["pytester"]

WORKER = """
import json, os, random, signal, stat, sys, threading
from pathlib import Path

PASSING = ("LINES", "COLUMNS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_TESTRUNUID")


def opened():
    handles = Path("/proc/self/fd")
    return sorted(stat.S_IFMT(each.stat().st_mode) for each in handles.iterdir() if each.exists())


def test_in_a_worker():
    state = {
        "environ": {name: value for name, value in os.environ.items() if name not in PASSING},
        "folder": os.getcwd(),
        "path": sys.path,
        "arguments": sys.argv,
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "input": os.read(0, 1).decode(),
        "opened": opened(),
        "bytecode": sys.dont_write_bytecode,
        "tests": [name for name in sys.modules if name.split(".")[0] == "tests"],
    }
    Path("state.json").write_text(json.dumps(state))
    Path("random.txt").open("a").write(f"{random.random()}\\n")
"""


pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are forked on Linux alone")


def test_a_forked_worker_starts_as_any_other(
    pytester: pytest.Pytester, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same folder, environment, paths, streams and signals; chances of its own, and nothing of the tests."""
    write(pytester.path, {"test_worker.py": WORKER})
    states = []
    for start in (ForkedIO, ForkedIO, ForkedIO.__base__):
        monkeypatch.setenv("EARLIER", "1") if not states else monkeypatch.delenv("EARLIER", raising=False)
        monkeypatch.setattr(gateway_io, "Popen2IOMaster", start)
        assert run(pytester, "-q", workers=1).ret == 0
        states.append(json.loads((pytester.path / "state.json").read_text()))

    assert states[1] == states[2]
    assert len({*(pytester.path / "random.txt").read_text().split()}) == 3


@pytest.mark.parametrize(
    "program",
    [
        "import os; print(os.getcwd(), os.environ['EARLIER'], sys.path[0], sys.argv, sys.stdin.read())",
        "print('one'); sys.exit(3)",
        "sys.exit(-1)",
        "sys.exit('gone')",
        "raise ValueError('no')",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_a_forked_program_ends_as_any_other(tmp_path: Path, program: str) -> None:
    """With the same exit status, prints and last words; what a test asserts of it rests on that."""
    ends = []
    for start in (ForkedPython, subprocess.Popen):
        command = [sys.executable, "-c", f"import sys; {program}", "word"]
        environ = {**os.environ, "EARLIER": "1"}
        with start(command, cwd=tmp_path, env=environ, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
            printed, errors = process.communicate("typed", timeout=60)
        ends.append((process.returncode, printed, errors.splitlines()[-1:]))

    assert ends[0] == ends[1]
