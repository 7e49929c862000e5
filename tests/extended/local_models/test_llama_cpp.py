"""A server of another kind, driven for real: llama.cpp's, by its base URL, where one is on the PATH."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.suites import write

from .gguf_file import write_gguf
from .test_runs import FUNCTIONS, SUITE, WEATHER, fresh, run_apart, trials_of

__all__ = ["fresh"]

SERVER = shutil.which("llama-server")
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(SERVER is None, reason="no llama-server on the PATH")


@pytest.fixture
def llama(taught: Path, tmp_path: Path) -> Iterator[str]:
    """The base URL of a server of the model that was taught."""
    pytest.importorskip("gguf")
    file = write_gguf(taught, tmp_path / "taught.gguf")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    command = [str(SERVER), "-m", str(file), "--host", "127.0.0.1", "--port", str(port), "--jinja", "-t", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        while server.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
        server.kill()


def test_a_server_is_asked_by_its_address(pytester: pytest.Pytester, llama: str) -> None:
    """Calls, their results and tokens go both ways; a second run plays what the first recorded."""
    alias = f'[tool.agenteval.models.llama]\nid = "openai/taught"\napi_base = "{llama}"\ntemperature = 0\n'
    files = {"evals/suite.yaml": SUITE, "evals/weather.py": FUNCTIONS, "evals/weather/task.json": WEATHER}
    write(pytester.path, {**files, "pyproject.toml": alias})

    live = run_apart(pytester, "--agent-model=llama", "--repetitions=4", "--agent-record-chat=once")
    live.assert_outcomes(passed=4)
    for trial in trials_of(pytester):
        assert [(call["tool"], call["args"]) for call in trial["calls"]] == [
            ("get_weather", {"city": "Oslo"})
        ]
        assert all(ask["usage"]["in"] > 20 and ask["usage"]["out"] > 10 for ask in trial["asks"])
    again = alias.replace(llama, "http://127.0.0.1:9/v1")
    write(pytester.path, {"pyproject.toml": again})
    played = run_apart(pytester, "--agent-model=llama", "--repetitions=4", "--agent-record-chat=none")
    played.assert_outcomes(passed=4)
