"""The user's coding agent: any command, given feedback, left to work in a tree, ended when it hangs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import uuid4

from pytest_agenteval.loop.improve.repository import git_environment
from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.process_groups import GROUP, end_group, ending_orphans
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.redaction import KNOWN_SECRETS

GRACE_S = 5.0
"""Seconds that the command has to end once it is asked to."""
LOOK_S = 0.1
MOST_BYTES = 50_000_000
"""What a command may print: one that prints without end would fill the disk before its time is over."""
LAST_CHARACTERS = 8_000
MARK = "AGENTEVAL_CODING_AGENT"
_ASSIGNMENT, _PLAIN = re.compile(r"\w+="), re.compile(r"[\w./+-]+")


class CodingAgentEnding(FrozenValue, frozen=True):
    """How the command ended: by itself with a status, or ended by us for its time or for all that it printed.

    ``last_line`` is the last line that it printed, empty where it printed none.
    """

    how: Literal["ended", "timeout", "too much output"]
    status: int
    seconds: float
    last_line: str


def missing_command(command: str, folder: Path) -> str:
    """Give the name with which a shell's line begins, where it is a plain one that nothing bears."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    name = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    if not POSIX or not _PLAIN.fullmatch(name):
        return ""
    asked = ("/bin/sh", "-c", 'command -v -- "$1"', "sh", name)
    known = subprocess.run(asked, cwd=folder, capture_output=True, check=False).returncode == 0
    return "" if known else name


def run_coding_agent(
    command: str, *, folder: Path, feedback: Path, output: Path, variables: Mapping[str, str], timeout: float
) -> CodingAgentEnding:
    """Have a shell run the command in a folder, with a file as its input and its output in another.

    It has the user's environment. When it has ended, or its time is over, whatever it started is ended too,
    known by a variable of its own; on Ctrl-C as well.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)  # where the user stands may be unknown to git
    mark = str(uuid4())
    with ending_orphans(), feedback.open("rb") as told, output.open("w+b") as printed:
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env={**git_environment(), **variables, MARK: mark},
            stdin=told,
            stdout=printed,
            stderr=subprocess.STDOUT,
            **GROUP,
        )
        try:
            how = _wait(process, printed, began + timeout)
        finally:
            end_group(process, GRACE_S, f"{MARK}={mark}")
        # Read where it was printed to: the agent may have put another thing in the file's place.
        text = KNOWN_SECRETS.text(_text(printed))
    replace_text(output, text)
    return CodingAgentEnding(how, process.returncode, time.monotonic() - began, _last_line(text))


def _wait(
    process: subprocess.Popen[bytes], printed: BinaryIO, end: float
) -> Literal["ended", "timeout", "too much output"]:
    while True:
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                return "timeout"
            if os.fstat(printed.fileno()).st_size > MOST_BYTES:
                return "too much output"
        else:
            return "ended"


def _text(printed: BinaryIO) -> str:
    """Give what was printed, but for what is beyond all measure."""
    printed.seek(0)
    return printed.read(MOST_BYTES).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = text[-LAST_CHARACTERS:].splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
