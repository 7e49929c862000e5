"""The program in which the evals prove that they need no network, also where the system is another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "without_sockets.py"

AS_ON_WINDOWS = """
import socket
def socketpair():
    listening = socket.create_server(("127.0.0.1", 0))
    one = socket.socket()
    one.connect(listening.getsockname())
    return one, listening.accept()[0]
del socket.AF_UNIX
socket.socketpair = socketpair
"""

ASKING = """
import asyncio, runpy, sys
program = runpy.run_path(sys.argv[1], run_name="program")
sys.argv[1:] = ["--version"]
program["main"]()
asyncio.run(asyncio.sleep(0))
try:
    socket.socket().connect(("127.0.0.1", 9))
except AssertionError:
    print("refused")
"""


@pytest.mark.parametrize("system", ["", AS_ON_WINDOWS], ids=["this system", "no AF_UNIX"])
def test_a_loop_runs_and_nothing_connects(system: str) -> None:
    """A loop needs a pair of sockets, which Windows makes by connecting one to the other."""
    code = f"import socket\n{system}{ASKING}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(PROGRAM)], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines()[-1:] == ["refused"], done.stderr
