"""Commands that can be pasted: with the way to the project, and programs of the environment that runs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_agenteval.tasks.documents import path_in_root


def way_to(root: Path) -> str:
    """Say how to get to the project's root, from where commands find runs and files by short names."""
    here = Path.cwd()
    return "" if here == root else f"cd {shlex.quote(os.path.relpath(root, here))} && "


def program(name: str, root: Path) -> str:
    """Give what starts a program of this very environment, from the project's root."""
    ours = Path(sys.executable).parent
    on_path = shutil.which(name)
    if on_path and Path(on_path).parent == ours:
        return name
    beside = shutil.which(name, path=str(ours))
    words: Sequence[str] = [beside] if beside else [sys.executable, "-m", name]
    program = path_in_root(Path(words[0]), root) if Path(words[0]).is_relative_to(root) else words[0]
    return shlex.join([program, *words[1:]])
