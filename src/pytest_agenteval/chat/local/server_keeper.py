"""A process that runs one model server beside the run, and ends it with the run.

``python -m pytest_agenteval.chat.local.server_keeper FOLDER NAME OWNER COMMAND...``. Workers may be killed
one by one; the server runs until the process ``OWNER`` is gone, or the file ``NAME.stop`` exists.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_agenteval.processes.process_groups import GROUP, end_group, is_running
from pytest_agenteval.processes.signals import signals_as_ctrl_c

LOOK_S = 0.1
GRACE_S = 10.0
# Marks the server's processes in their environment, even those that leave its process group.
VARIABLE = "AGENTEVAL_SERVER"


def process_marker(folder: Path, name: str) -> str:
    """Give the variable that marks a server's processes, as ``NAME=value``."""
    return f"{VARIABLE}={(folder / name).as_posix()}"


def keep_server(folder: Path, name: str, owner: int, command: Sequence[str]) -> None:
    """Run the server until it ends or has to end, and write the reason into ``NAME.ended``."""
    stop = folder / f"{name}.stop"
    with (folder / f"{name}.log").open("ab") as log:
        try:
            server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **GROUP
            )
        except OSError as failed:
            _write_ending(folder, name, f"it cannot be started: {failed.strerror or failed}")
            return
    try:
        while server.poll() is None and is_running(owner) and not stop.exists():
            time.sleep(LOOK_S)
        _write_ending(
            folder, name, "it was ended" if server.poll() is None else f"exit status {server.poll()}"
        )
    finally:
        # Processes that left the server's group are found by the variable in their environment.
        end_group(server, GRACE_S, process_marker(folder, name))


def _write_ending(folder: Path, name: str, how: str) -> None:
    if folder.is_dir():  # a run without a folder of its own has removed it
        (folder / f"{name}.ended").write_text(how, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    with signals_as_ctrl_c():
        keep_server(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
