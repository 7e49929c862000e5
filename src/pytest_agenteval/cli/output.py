"""Where what a verb has to say goes: the terminal, the standard output, or a file."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.reports.github.workflow_commands import in_actions, without_commands

if TYPE_CHECKING:
    from pytest_agenteval.reports.text_width import StyledLine

STDOUT = "-"
"""What a user writes in the place of a file's name."""

LOOKS = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32", "cyan": "36"}


def write_text(file: str, text: str) -> None:
    """Write a text to a file, or with ``-`` to the standard output; raises UsageMistake where it cannot."""
    text = KNOWN_SECRETS.text(text)  # a run may be older than what is known of secrets now
    if file == STDOUT:
        sys.stdout.write(without_commands(text) if in_actions() else text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        raise UsageMistake(f"{file}: cannot be written ({refused.strerror})") from None


def print_lines(lines: Iterable[StyledLine]) -> None:
    """Print lines, in colour where a person looks at them."""
    for text in styled_texts(lines):
        print(text)


def styled_texts(lines: Iterable[StyledLine]) -> Iterator[str]:
    """Give lines as they are printed: without secrets, and in colour where a person looks at them."""
    looked_at = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    read_by_actions = in_actions()
    for line in lines:
        look = LOOKS.get(line.style) if looked_at else None
        text = KNOWN_SECRETS.text(line.text)
        if read_by_actions:  # whose runner would obey an agent's words
            text = without_commands(text)
        yield f"\x1b[{look}m{text}\x1b[0m" if look else text


def wrapped(line: str, width: int = 100) -> Iterator[str]:
    """Break a long line between words, never within a name."""
    yield from textwrap.wrap(
        line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
