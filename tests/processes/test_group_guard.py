"""Process groups that end with the process that owns them, though it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

OWNER = """
import os, subprocess, time
from pytest_agenteval.processes.process_groups import GROUP, own_group

stubborn = "trap '' TERM INT HUP; echo on; while :; do sleep 0.1; done"
own_group(subprocess.Popen(["bash", "-c", stubborn], **GROUP))
os.write(1, b"owned\\n")  # at once: the program beside it writes into the same pipe
time.sleep(600)
"""


@pytest.mark.posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_owned_ends(number: signal.Signals) -> None:
    """Nothing in the process itself can see to it: a command would go on, and cost money."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert {owner.stdout.readline(), owner.stdout.readline()} == {b"on\n", b"owned\n"}

    owner.send_signal(number)

    assert owner.communicate(timeout=20) == (b"", None)  # until all have closed their output
    assert owner.returncode == -number
