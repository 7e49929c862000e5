"""A vLLM on the PATH that is none: tests/stand_ins/vllm_program.py."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("vllm_program.py")


class StandIn:
    """What a test knows of the servers that were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plan(self, **plan: Any) -> None:
        """Say how the servers behave that are started from now on."""
        (self.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")

    @property
    def starts(self) -> Sequence[dict[str, Any]]:
        """What each server was started with: ``pid``, ``child``, ``args``, ``env``."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("start-*.json")]

    @property
    def asks(self) -> Sequence[dict[str, Any]]:
        """The bodies of all requests."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("ask-*.json")]


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Put the program ``vllm`` into a folder of its own at the head of the PATH."""
    told, programs = folder / "told", folder / "programs"
    for path in (told, programs):
        path.mkdir(parents=True)
    program = programs / "vllm"
    command = shlex.join([sys.executable, "-S", str(PROGRAM)])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8", newline="\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(told))
    return StandIn(told)
