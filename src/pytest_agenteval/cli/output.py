"""Where what a verb has to say goes: the terminal, the standard output, or a file."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.text.workflow_commands import in_actions, without_commands

if TYPE_CHECKING:
    from pytest_agenteval.records.record import Document
    from pytest_agenteval.text.formatting import StyledLine

STDOUT = "-"
"""What a user writes in the place of a file's name."""

LOOKS = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32", "cyan": "36"}


class TakesOptions(Protocol):
    """A parser, or a group of options in it."""

    def add_argument(self, flag: str, *, metavar: str, help: str) -> Any:
        """Declare an option."""


def add_json_option(parser: TakesOptions) -> None:
    """Declare ``--json FILE``, which all verbs have: what they say, as one document for programs."""
    parser.add_argument("--json", metavar="FILE", help="write it all as JSON (- for the standard output)")


def write_document(file: str, document: Document | Mapping[str, Any]) -> None:
    """Write a document to a file, or with ``-`` to the standard output, where nothing else may be written.

    Raises UsageMistake where the file cannot be written; what was there stays.
    """
    from pytest_agenteval.reports.exports.document_text import document_text
    from pytest_agenteval.reports.exports.row_files import export_file

    if file == STDOUT:
        for piece in document_text(document):
            sys.stdout.write(without_commands(piece) if in_actions() else piece)
        return
    with (
        export_file(Path(file)) as place,
        # Half a surrogate pair, which UTF-8 does not know, becomes its JSON escape.
        place.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as written,
    ):
        written.writelines(document_text(document))


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
