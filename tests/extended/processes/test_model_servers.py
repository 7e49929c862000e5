"""A model server of several processes of a run, which are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from pytest_agenteval.chat.local.vllm_chat import ModelServers
from pytest_agenteval.processes.process_groups import is_running
from tests.chat.local.test_model_servers import LONG_S, TINY, _gone, _keeper, folder, pytestmark, vllm
from tests.stand_ins.vllm import StandIn

__all__ = ["folder", "pytestmark", "vllm"]  # fixtures


def test_a_server_outlives_the_worker_that_started_it_and_not_the_run(vllm: StandIn, folder: Path) -> None:
    """SIGKILL of a worker leaves the server to the others; SIGKILL of the controller ends it all the same."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as controller:
        code = (
            "import asyncio, os, signal; from pytest_agenteval.chat.local.loading import Loading\n"
            "from pytest_agenteval.chat.local.vllm_chat import ModelServers\n"
            f"asyncio.run(ModelServers({str(folder)!r}, {controller.pid}).address(Loading('org/tiny'), 60))\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        worker = subprocess.run([sys.executable, "-c", code], check=False)
        assert worker.returncode == -signal.SIGKILL
        (start,) = vllm.starts
        address = asyncio.run(ModelServers(str(folder), controller.pid).address(TINY, LONG_S))
        assert len(vllm.starts) == 1
        assert address
        controller.kill()
    keeper = _keeper(folder)
    while is_running(keeper):
        os.sched_yield()
    assert _gone(start)
