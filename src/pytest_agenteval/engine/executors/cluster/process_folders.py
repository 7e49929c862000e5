"""Folders that belong to one process, named by it: what a killed one has left is seen, and removed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pytest_agenteval.processes.process_table import is_running
from pytest_agenteval.processes.tree_removal import remove_tree


def make_folder(name: str, parent: str | None = None) -> Path:
    """Make a folder of this process's own, after removing those of the name whose processes are gone."""
    for left in Path(parent or tempfile.gettempdir()).glob(f"{name}-*"):
        pid = left.name.removeprefix(f"{name}-").partition("-")[0]
        if pid.isdecimal() and not is_running(int(pid)):
            remove_tree(left)
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=parent)).resolve()
