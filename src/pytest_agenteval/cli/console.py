"""What verbs share: options in the same words, and output to the terminal, to a pager or to a file."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, clamp_width, in_actions, without_commands
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.records.record import Document
    from pytest_agenteval.store.run_reader import Run

RUNS_FOLDER = ".agenteval/runs"
RESULTS_HELP = f"the folder that keeps runs (default: {RUNS_FOLDER}, here or above in the repository)"
RUN_HELP = "RUN is a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD."
"""What may stand for a run, below a verb's options."""

MODEL_HELP = "this model's trials only"
VARIANT_HELP = "this prompt variant's trials only"
AGAIN_HELP = "; may be given again"

STDOUT = "-"
"""What a user writes in the place of a file's name."""

ANSI_STYLES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32", "cyan": "36"}

PAGER = "less"
PAGER_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""What pagers get unless the user's environment has it: colours, and to end where all fits."""


def add_results_option(parser: argparse.ArgumentParser) -> None:
    """Declare the folder in which runs are looked up."""
    # pytest keeps runs at its own root, from whichever folder below it is started: the nearest folder of
    # runs above in the repository, else the one at its top. Without git it is the one here.
    here = Path.cwd()
    above = (here, *here.parents)
    top = next((place for place in above if (place / ".git").exists()), here)
    inside = above[: above.index(top) + 1]
    holding = next((place for place in inside if (place / RUNS_FOLDER).is_dir()), top)
    nearest = os.path.relpath(holding / RUNS_FOLDER, here)
    parser.add_argument("--results", default=nearest, metavar="DIR", help=RESULTS_HELP)


def find_named_run(results: Path, name: str) -> Path:
    """Give the folder of the run that is meant, and name the others of the day where it has several."""
    from pytest_agenteval.store.run_folder import find_run

    folder = find_run(results, name)
    print_other_runs_of_day(results, name)
    return folder


def print_other_runs_of_day(results: Path, name: str) -> None:
    """Say on the standard error which run MODEL@YYYYMMDD is, where the model has others of that day."""
    from pytest_agenteval.store.run_folder import MOST_LISTED, runs_of_day

    newest, *others = runs_of_day(results, name) or [""]
    if others:
        more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
        listed = ", ".join(others[:MOST_LISTED])
        print(f"{name} is {newest}, the newest of that day; also there: {listed}{more}", file=sys.stderr)


def positive_int(text: str) -> int:
    """Read a whole number, 1 or more, as the ``type`` of an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more; found {text!r}")
    return int(text)


def positive_seconds(text: str) -> float:
    """Read a number of seconds above 0, as the ``type`` of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0; found {text!r}")
    return value


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


def print_unreadable(name: object, run: Run) -> None:
    """Print on the standard error what could not be read of a run."""
    from pytest_agenteval.store.run_reader import first_unreadable

    for line in first_unreadable(run.odd):
        print(f"{name}: {line}", file=sys.stderr)


def terminal_width() -> int:
    """Give the columns that tables are made for."""
    return clamp_width(shutil.get_terminal_size().columns)


def indented_lines(items: Sequence[object], most: int) -> list[str]:
    """Give one indented line for each of the first items, and how many more there are."""
    more = [f"  and {len(items) - most} more"] if len(items) > most else []
    return [*(f"  {item}" for item in items[:most]), *more]


def print_lines(lines: Iterable[StyledLine]) -> None:
    """Print lines, in colour where a person looks at them."""
    for text in _styled_texts(lines):
        print(text)


def _styled_texts(lines: Iterable[StyledLine]) -> Iterator[str]:
    """Give lines as they are printed: without secrets, and in colour where a person looks at them."""
    looked_at = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    read_by_actions = in_actions()
    for line in lines:
        look = ANSI_STYLES.get(line.style) if looked_at else None
        text = KNOWN_SECRETS.text(line.text)
        if read_by_actions:  # whose runner would obey an agent's words
            text = without_commands(text)
        yield f"\x1b[{look}m{text}\x1b[0m" if look else text


def wrapped(line: str, width: int = 100) -> Iterator[str]:
    """Break a long line between words, never within a name."""
    yield from textwrap.wrap(
        line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def page_lines(lines: Iterable[StyledLine], paged: bool = True) -> None:
    """Print lines, through the pager where a person looks at them and ``paged``."""
    command = pager_command(os.environ) if paged and sys.stdout.isatty() else ""
    if not command:
        print_lines(lines)
        return
    sys.stdout.flush()
    with _interrupts_for_pager():
        pager = subprocess.Popen(
            command,
            shell=True,  # as git does: PAGER may hold options
            stdin=subprocess.PIPE,
            env={**PAGER_SETTINGS, **os.environ},
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
        texts = _styled_texts(lines)
        assert pager.stdin is not None
        try:
            with suppress(BrokenPipeError):
                for text in texts:
                    pager.stdin.write(f"{text}\n")
        finally:
            with suppress(BrokenPipeError):
                pager.stdin.close()
            pager.wait()


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


@contextmanager
def _interrupts_for_pager() -> Iterator[None]:
    """Let Ctrl-C reach the pager alone, which is in the same group; when it has ended, so has its pipe.

    A handler that does nothing, for a process that is started inherits SIG_IGN, and no handler.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
