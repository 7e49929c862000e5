"""Ctrl-C while a gate is decided."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.greeters import latest_header, set_mood, task_names, write_tried_greeters

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
NIGHT = task_names("night")


@pytest.mark.posix
@pytest.mark.parametrize("mood", ["slow", "slow again"])
def test_ctrl_c_stays_an_interrupted_run(pytester: pytest.Pytester, mood: str) -> None:
    """While trials run, and while broken ones are tried again: exit status 2, and nothing is judged."""
    write_tried_greeters(pytester, {"recheck": 2, "errored": 0.5})
    started = pytester.path / "started"
    conftest = pytester.path / "conftest.py"
    when = "True" if mood == "slow" else "'--agent-gate=none' in sys.argv"
    wait = f"""
    if mood == 'asleep' and {when}:
        import time
        Path({str(started)!r}).touch()
        time.sleep(60)
"""
    conftest.write_text(conftest.read_text().replace("    again =", f"{wait}    again ="))
    set_mood(pytester.path, "asleep", NIGHT[:1])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "evals",
        "--repetitions=3",
        "--agent-model=nop",
        "--agent-baseline=latest",
    ]
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)
    _wait_for(started)
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=60)[0].decode()

    assert process.returncode == pytest.ExitCode.INTERRUPTED
    why = "the run was interrupted" if mood == "slow" else "the recheck was interrupted"
    assert f"gate: not judged, {why}" in out
    assert latest_header(pytester.path)["exit_status"] == 2


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
