"""The model server in a process of its own, so that it does not share an interpreter with what it serves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(
    latency_ms: int = 0, text: str = "It is so.", tool: tuple[str, str] | None = None
) -> Iterator[str]:
    """Serve for as long as the block lasts; give the server's address.

    A tool is its name and its arguments in JSON: it is called until a request holds a result.
    """
    command = [sys.executable, "-m", "tests.loopback.model_server", "--port", "0"]
    command += ["--latency-ms", str(latency_ms), "--text", text]
    command += ["--tool", tool[0], "--tool-args", tool[1]] if tool else []
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(5)
