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
from typing import TYPE_CHECKING, Any

from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.formatting import (
    Span,
    StyledLine,
    clamp_width,
    few_names,
    first_few,
    in_actions,
    without_commands,
)
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.records.record import Document
    from pytest_agenteval.store.run_reader import Run

RUNS_FOLDER = ".agenteval/runs"
RESULTS_HELP = f"the folder of stored runs (default: {RUNS_FOLDER}, here or above in the repository)"
# Explains, below a verb's options, how a run can be named.
RUN_HELP = "RUN is a run's folder, its name or the beginning of it, latest, or MODEL@YYYYMMDD."

MODEL_HELP = "only trials of this model"
VARIANT_HELP = "only trials of this prompt variant"
AGAIN_HELP = "; may be repeated"

# What a user writes instead of a file's name.
STDOUT = "-"

ANSI_STYLES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "green": "32", "cyan": "36"}

PAGER = "less"
# Settings of pagers, unless the user's environment has others: show colours, and end at once if everything
# fits.
PAGER_SETTINGS = {"LESS": "FRX", "LV": "-c"}


def add_results_option(parser: argparse.ArgumentParser) -> None:
    # pytest stores runs below its rootdir, from whichever folder it is started. So the default is the nearest
    # folder of runs above, within the repository, else one at the top; without git it is one here.
    here = Path.cwd()
    above = (here, *here.parents)
    top = next((place for place in above if (place / ".git").exists()), here)
    inside = above[: above.index(top) + 1]
    holding = next((place for place in inside if (place / RUNS_FOLDER).is_dir()), top)
    nearest = os.path.relpath(holding / RUNS_FOLDER, here)
    parser.add_argument("--results", default=nearest, metavar="DIR", help=RESULTS_HELP)


def find_named_run(results: Path, name: str) -> Path:
    """Give the folder of a named run; print the other runs of the day where MODEL@DAY has several."""
    # Imported here and below: agenteval --help needs neither the store nor msgspec.
    from pytest_agenteval.store.run_folder import find_run

    folder = find_run(results, name)
    print_other_runs_of_day(results, name)
    return folder


def print_other_runs_of_day(results: Path, name: str) -> None:
    """Print on the standard error which run MODEL@YYYYMMDD is, where the model has others of that day."""
    from pytest_agenteval.store.run_folder import MOST_LISTED, runs_of_day

    newest, *others = runs_of_day(results, name) or [""]
    if others:
        listed = few_names(others, MOST_LISTED)
        print(f"{name} is {newest}, the newest of that day; also there: {listed}", file=sys.stderr)


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


def add_side_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what of runs is put beside each other."""
    add = parser.add_argument
    add("--models", metavar="A,B", help="compare these models")
    add("--variants", metavar="A,B", help="compare these prompt variants (base: the agent's own)")


def name_list(text: str | None, flag: str) -> tuple[str, ...]:
    """Give the names behind a flag, in their order; none where it was not given."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageMistake(f"{flag}: expected different names, as in {flag} a,b; found {text!r}")
    return names


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """Declare ``--json FILE``: what the verb prints, as one document for programs."""
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")


def write_document(file: str, document: Document | Mapping[str, Any]) -> None:
    """Write a document to a file, or with ``-`` to the standard output, where nothing else may be written.

    Raises UsageMistake where the file cannot be written; what was there stays.
    """
    from pytest_agenteval.reports.exports.document_text import document_text
    from pytest_agenteval.reports.exports.row_files import export_file

    text = document_text(document)
    if file == STDOUT:
        # GitHub's runner obeys lines of a job's log that look like its commands, whoever wrote them.
        sys.stdout.write(without_commands(text) if in_actions() else text)
        return
    with export_file(Path(file)) as place:
        # UTF-8 cannot encode half a surrogate pair; backslashreplace writes its JSON escape.
        place.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_result(file: str | None, document: Document, lines: Iterable[StyledLine | str]) -> None:
    """Write a verb's document to the file of ``--json``, and print its lines unless that is the screen."""
    if file:
        write_document(file, document)
    if file != STDOUT:
        print_lines(StyledLine(line) if isinstance(line, str) else line for line in lines)


def apart(parts: Iterable[Iterable[StyledLine | str]]) -> Iterator[StyledLine | str]:
    """Give the lines of several parts, with a blank line between any two."""
    for number, part in enumerate(parts):
        yield from ("", *part) if number else part


def write_text(file: str, text: str) -> None:
    """Write a text to a file, whose folder is made, or with ``-`` to the standard output.

    Raises UsageMistake where it cannot be written.
    """
    # What is a known secret now may not have been one when the run was stored.
    text = KNOWN_SECRETS.text(text)
    if file == STDOUT:
        sys.stdout.write(without_commands(text) if in_actions() else text)
        return
    with writing(file):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def print_unreadable(name: object, run: Run) -> None:
    """Print on the standard error which lines and files of a run could not be read."""
    from pytest_agenteval.store.run_reader import first_unreadable

    for line in first_unreadable(run.odd):
        print(f"{name}: {line}", file=sys.stderr)


def terminal_width() -> int:
    return clamp_width(shutil.get_terminal_size().columns)


def indented_lines(items: Sequence[object], most: int) -> list[str]:
    """Give one indented line for each of the first items, and how many more there are."""
    return [f"  {line}" for line in first_few(items, most)]


def print_lines(lines: Iterable[StyledLine]) -> None:
    """Print lines, in colour on a terminal."""
    for text in _styled_texts(lines):
        print(text)


def _styled_texts(lines: Iterable[StyledLine]) -> Iterator[str]:
    """Give lines as they are printed: without secrets, and in colour on a terminal."""
    # NO_COLOR is a convention of many programs; a dumb terminal would show the codes themselves.
    looked_at = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    read_by_actions = in_actions()
    for line in lines:
        look = ANSI_STYLES.get(line.style) if looked_at else None
        text = KNOWN_SECRETS.text(line.text)
        # GitHub's runner would obey commands in an agent's words.
        if read_by_actions:
            text = without_commands(text)
        if looked_at and line.spans and text == line.text:
            yield "".join(_painted(line))
        else:
            yield f"\x1b[{look}m{text}\x1b[0m" if look else text


def _painted(line: StyledLine) -> Iterator[str]:
    """Give the parts of a line, each in its colour."""
    start = 0
    for part in (*line.spans, Span(len(line.text), len(line.text), "")):
        for low, high, style in ((start, part.start, line.style), part):
            look, text = ANSI_STYLES.get(style), line.text[low:high]
            yield f"\x1b[{look}m{text}\x1b[0m" if look and text else text
        start = part.end


def wrapped(line: str, width: int = 100) -> Iterator[str]:
    """Break a long line between words, never within a name."""
    yield from textwrap.wrap(
        line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def page_lines(lines: Iterable[StyledLine], paged: bool = True) -> None:
    """Print lines, on a terminal through the user's pager unless ``paged`` is False."""
    command = pager_command(os.environ) if paged and sys.stdout.isatty() else ""
    if not command:
        print_lines(lines)
        return
    # What was printed before has to stand above what the pager shows.
    sys.stdout.flush()
    with _interrupts_for_pager():
        pager = subprocess.Popen(
            command,
            # By a shell, as git does it: PAGER may hold options.
            shell=True,
            stdin=subprocess.PIPE,
            env={**PAGER_SETTINGS, **os.environ},
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
        texts = _styled_texts(lines)
        assert pager.stdin is not None
        try:
            # Lines are made as the pager takes them; one that is left early closes the pipe.
            with suppress(BrokenPipeError):
                for text in texts:
                    pager.stdin.write(f"{text}\n")
        finally:
            with suppress(BrokenPipeError):
                pager.stdin.close()
            # The pager has the terminal until the person leaves it.
            pager.wait()


def pager_command(environ: Mapping[str, str]) -> str:
    """Give the command of the user's pager, else less; empty for no pager."""
    if environ.get("TERM", "") == "dumb":
        return ""
    command = environ.get("PAGER", PAGER)
    program = next(iter(command.split()), "")
    # An empty PAGER, or cat, is how users switch paging off.
    if not program or command.strip() == "cat":
        return ""
    # Only a shell finds the program in "LESS=R less".
    return command if "=" in program or shutil.which(program) else ""


@contextmanager
def _interrupts_for_pager() -> Iterator[None]:
    """Let Ctrl-C reach the pager alone, which is in the same process group.

    When the pager has ended, writing to its pipe ends as well.
    """
    # A handler that does nothing, and not SIG_IGN: the pager would inherit SIG_IGN, but no handler.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
