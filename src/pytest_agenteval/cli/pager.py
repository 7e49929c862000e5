"""Long output in the user's pager, as git shows it: only on a terminal, and left at any moment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from pytest_agenteval.cli.output import print_lines, styled_texts
from pytest_agenteval.text.formatting import StyledLine

PAGER = "less"
SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""What pagers are told where the user's environment does not: colours, and to end where all fits."""


def page_lines(lines: Iterable[StyledLine], paged: bool = True) -> None:
    """Print lines, through the pager where a person looks at them and ``paged``."""
    command = pager_command(os.environ) if paged and sys.stdout.isatty() else ""
    if not command:
        print_lines(lines)
        return
    sys.stdout.flush()
    with _interrupts_left_to_pager():
        pager = subprocess.Popen(
            command,
            shell=True,  # as git does: PAGER may hold options
            stdin=subprocess.PIPE,
            env={**SETTINGS, **os.environ},
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
        _feed(pager, styled_texts(lines))


def pager_command(environ: Mapping[str, str]) -> str:
    """Give the command of the user's pager, else less; empty where there is none, or it is to be none."""
    if environ.get("TERM", "") == "dumb":
        return ""
    command = environ.get("PAGER", PAGER)
    program = next(iter(command.split()), "")
    if not program or command.strip() == "cat":
        return ""
    # Of "LESS=R less" only a shell can tell.
    return command if "=" in program or shutil.which(program) else ""


def _feed(pager: subprocess.Popen[str], texts: Iterable[str]) -> None:
    """Give a pager its lines as they are made, until it has seen enough; wait until it is left."""
    assert pager.stdin is not None
    try:
        with suppress(BrokenPipeError):
            for text in texts:
                pager.stdin.write(f"{text}\n")
    finally:
        with suppress(BrokenPipeError):
            pager.stdin.close()
        pager.wait()


@contextmanager
def _interrupts_left_to_pager() -> Iterator[None]:
    """Let Ctrl-C reach the pager alone, which is in the same group; when it has ended, so has its pipe.

    A handler that does nothing, for a process that is started inherits SIG_IGN, and no handler.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
