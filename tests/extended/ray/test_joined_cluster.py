"""A cluster that others use: what a run leaves behind there."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extended.ray.projects import carried_out, looking, project
from tests.journals import trials

pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")

RAY = "--agent-executor=ray:1"
KEY = "sk-proj-0123456789"
PRINTING = """
import os
import subprocess
import sys


class Agent:
    async def run(self, task_input, ctx):
        from pytest_agenteval import Answer

        key = os.environ["OPENAI_API_KEY"]
        print("printed", key)
        os.write(2, f"written {key}\\n".encode())
        subprocess.run([sys.executable, "-c", f"print('a program says {key}')"])
        return Answer("Mina")


def pytest_agenteval_register(registry):
    registry.agent("looking", lambda **settings: Agent())
"""


@pytest.fixture
def logs() -> Iterator[tuple[str, Path]]:
    """Start a cluster of one machine; give its address, and the folder of all that it writes."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # the path of a socket has to be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--head --port={port} --num-cpus=1 --include-dashboard=false --block --disable-usage-stats"
    server = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", *options.split(), f"--temp-dir={folder}"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert any("Ray runtime started" in line for line in server.stdout)
        yield f"127.0.0.1:{port}", folder
    finally:
        server.terminate()  # it ends what it has started
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_no_key_stays_in_the_logs_of_a_cluster(tmp_path: Path, logs: tuple[str, Path]) -> None:
    """What a trial prints comes home with it, also under -s; what programs print beside it goes nowhere."""
    address, folder = logs
    root = project(tmp_path, looking("a", "bread"), conftest=PRINTING)
    env = {"RAY_ADDRESS": address, "RAY_AUTH_MODE": "disabled", "OPENAI_API_KEY": KEY}

    said = carried_out(root, RAY, env=env)
    (root / ".agenteval").rename(tmp_path / "first")
    said += carried_out(root, RAY, "-s", env=env)

    assert said.count("1 passed") == 2
    assert KEY not in said
    assert "printed <redacted>" in trials(root)["a"].output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("worker-" in path.name for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
