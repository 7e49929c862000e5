"""Every pytest that pytest-agenteval starts itself: its arguments and variables, and how it ends.

A recheck, ``audit``, ``calibrate`` and ``improve`` start it in a process; ``validate`` calls it in its own.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, BinaryIO

from pytest_agenteval.processes.process_groups import GROUP, end_group
from pytest_agenteval.processes.signals import interrupt
from pytest_agenteval.store.run_folder import HEADER
from pytest_agenteval.text.errors import AgentEvalError

# The user's cache stays as the user's own run left it, and ``addopts`` are meant for that run.
UNCACHED = ("-p", "no:cacheprovider", "-o", "addopts=")

QUIET = ("-q", "-p", "agenteval", *UNCACHED)
NO_REPORTS = tuple(f"--agent-{name}=none" for name in ("baseline", "gate", "report", "comment"))

# The variable that names the run made at the same time: both together are one look at held-out tasks.
BESIDE = "AGENTEVAL_BESIDE"

GRACE = 20  # seconds that an inner pytest has after Ctrl-C to write its journal

# The variable that names the file into which a pytest writes the path of its run's folder when it ends.
RUN_FOLDER_TO = "AGENTEVAL_RUN_FOLDER_TO"

# The variable that names the process which started an inner pytest. When that process is killed, the inner
# pytest ends by itself.
STARTED_BY = "AGENTEVAL_STARTED_BY"

# These variables are meant for the run that the user started. An inner pytest is given options instead, or
# none.
NOT_INHERITED = frozenset(
    {
        BESIDE,
        RUN_FOLDER_TO,
        "PYTEST_ADDOPTS",
        "PYTEST_CURRENT_TEST",
        "GITHUB_STEP_SUMMARY",
        *(f"AGENTEVAL_{name}" for name in ("ONLY", "SAMPLE", "REGRADE", "BASELINE", "GATE", "REPORT")),
        *(f"AGENTEVAL_{name}" for name in ("RESULTS", "RUN_NAME", "REPETITIONS", "MAX_TRIALS", "SEED")),
        *(f"AGENTEVAL_{name}" for name in ("SPLIT", "COMMENT", "PROMPT", "AUDIT", "SHARD")),
    }
)


def inner_environment(*inherited: str) -> dict[str, str]:
    """Give this process's variables without those meant for the user's own run, except ``inherited`` ones."""
    left_out = NOT_INHERITED.difference(inherited)
    return {name: value for name, value in os.environ.items() if name not in left_out}


def start_pytest(
    arguments: Sequence[str],
    *,
    output: BinaryIO | int | None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    **group: Any,
) -> subprocess.Popen[bytes]:
    """Start pytest in a process of its own; without an ``output`` it shares this process's streams."""
    streams: dict[str, Any] = {}
    if output is not None:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, **streams, **group)


def pytest_here(arguments: Sequence[str], plugin: object) -> tuple[int, str]:
    """Call pytest in this process, for a plugin to look at it; give the exit status and what it printed."""
    import pytest

    from pytest_agenteval.registry.registration import without_addopts

    output = io.StringIO()
    with redirect_stdout(output), without_addopts():
        status = pytest.main([*UNCACHED, *arguments], plugins=[plugin])
    return int(status), output.getvalue()


class InnerPytest:
    """A pytest whose run lies in ``results / name``; its output goes to a file.

    ``arguments`` are paths, node ids and options; ``folder`` is where it works; ``inherited`` are variables
    of the user's own run that it gets too. Several may run side by side: each has a group of its own, so that
    Ctrl-C reaches it once, through the process that waits for it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        results: Path,
        name: str,
        output: Path,
        variables: Mapping[str, str] | None = None,
        inherited: Sequence[str] = (),
    ) -> None:
        self.run, self.output = results / name, output
        own = (*QUIET, *NO_REPORTS, f"--agent-results={results}", f"--agent-run-name={name}")
        environment = {**inner_environment(*inherited), STARTED_BY: str(os.getpid()), **(variables or {})}
        with output.open("ab") as file:
            self._process = start_pytest(
                [*own, *arguments], output=file, folder=folder, environment=environment, **GROUP
            )

    def wait(self) -> int:
        """Wait until it has ended and give its exit status; raises AgentEvalError where it left no run."""
        try:
            status = self._process.wait()
        except KeyboardInterrupt:
            self.end()
            raise
        if not (self.run / HEADER).is_file():
            raise AgentEvalError(f"pytest left no run (exit status {status}): {last_line(self.output)}")
        return status

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """End it as Ctrl-C does, so that what it knows is written down; kill it after a while."""
        try:
            if self._process.poll() is None:
                interrupt(self._process)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE)
        # This also runs when Ctrl-C is pressed once more.
        finally:
            end_group(self._process, 0)


def last_line(path: Path) -> str:
    """Give the last line of a file that says what is wrong, else the last that is not blank."""
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # pytest writes to two streams that share the file, so the last line may belong to either.
    telling = [line for line in lines if line.startswith("ERROR:")] or lines
    return telling[-1].strip() if telling else "it printed nothing"
