"""``agenteval review``: a person scores a run's trials, as judges would, and the labels go into a file."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.options import RUN, add_results_option, find_named_run
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document
from pytest_agenteval.cli.pager import page_lines
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.store.runs import LATEST
from pytest_agenteval.text.errors import UsageMistake, nearest
from pytest_agenteval.text.formatting import StyledLine, clamp_width, printable

if TYPE_CHECKING:
    from pytest_agenteval.graders.judge.prompt import Rubric
    from pytest_agenteval.loop.review.dialog import Review
    from pytest_agenteval.loop.review.planned_tasks import PlannedTasks
    from pytest_agenteval.loop.review.shown_trials import ShownTrial
    from pytest_agenteval.loop.review.summary import ReviewSummary

INTERRUPTED = 130
JINJA = ".jinja"
NAMES = ("bucket", "task", "model", "variant")
SPLITS = {"dev": ("dev",), "held_out": ("held_out",), "all": ("dev", "held_out")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.epilog = RUN
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("--rubric", default="", metavar="R", help="a rubric that graders of the run use, a registered one, or a .jinja file (default: the only one that they use)")  # fmt: skip  # noqa: E501
    for name in NAMES:
        add(f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {name}, or those that a pattern with * matches; may be repeated")  # fmt: skip  # noqa: E501
    add("--only", default="", metavar="WORDS", help="only trials that are one of these, with commas between: passed, missed, failed, errored, limited, undecided")  # fmt: skip  # noqa: E501
    add("--split", choices=SPLITS, default="dev", help="of which tasks (default: dev; held-out ones stay unseen)")  # fmt: skip  # noqa: E501
    add("--sample", type=int, metavar="N", help="so many of them, drawn by the seed")
    add("--seed", type=int, default=0, metavar="N", help="what the order is shuffled by (default: 0)")
    add("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="the numbers to type (default: the rubric's own scale)")  # fmt: skip  # noqa: E501
    add("--labeller", default="", metavar="NAME", help="who labels: each has a file of their own")
    add("--blind", action=argparse.BooleanOptionalAction, default=True, help="hide judges' scores and models until a trial is scored (default)")  # fmt: skip  # noqa: E501
    add("-o", "--output", metavar="FILE", help="the file of labels, .jsonl (default: labels/RUBRIC.jsonl in the suite's folder)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add("--no-pager", action="store_true", help="print it all, also on a terminal")
    add_results_option(parser)


def review(args: argparse.Namespace) -> int:
    """Ask a person about the trials that are meant; 0 where that was ended or left, 130 after Ctrl-C."""
    words = _words(args)
    run = load_run(find_named_run(Path(args.results), args.run))
    if not run.entries:
        raise UsageMistake(f"the run {run.name} has no trial that ended; agenteval runs lists others")
    with redirect_stdout(sys.stderr if args.json == STDOUT else sys.stdout):
        status, summary = _review(run, args, words)
    if args.json:
        write_document(args.json, summary)
    return status


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.loop.review.summary import ReviewSummary
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("review", ReviewSummary)


def _words(args: argparse.Namespace) -> list[str]:
    """Give the words of ``--only``; raises UsageMistake for what cannot be obeyed."""
    from pytest_agenteval.loop.review.selection import WORDS

    if args.sample is not None and args.sample < 1:
        raise UsageMistake(f"--sample {args.sample}: expected a number above 0")
    if args.scale and not args.scale[0] < args.scale[1]:
        raise UsageMistake("--scale: expected two numbers, the lower one first")
    if {*args.labeller} & {*'/\\:*?"<>|'}:
        raise UsageMistake(f"--labeller {args.labeller}: expected a name that files may have")
    words = [word for word in args.only.split(",") if word]
    for word in words:
        if word not in WORDS:
            raise UsageMistake(f"--only {word}: expected {', '.join(WORDS)}. {nearest(word, WORDS)}".strip())
    return words


def _review(run: Run, args: argparse.Namespace, words: Sequence[str]) -> tuple[int, ReviewSummary]:
    """Hold the sitting, say what came of it, and give it with the exit status."""
    from pytest_agenteval.calibration.label_file import LabelFile
    from pytest_agenteval.loop.review.dialog import Review
    from pytest_agenteval.loop.review.planned_tasks import PlannedTasks
    from pytest_agenteval.loop.review.selection import chosen_entries, chosen_trials
    from pytest_agenteval.loop.review.shown_trials import review_pool
    from pytest_agenteval.loop.review.summary import (
        calibrate_command,
        closing_lines,
        default_file,
        opening_lines,
        summarize,
    )

    entries = chosen_entries(run, {name: getattr(args, name) for name in NAMES}, words)
    tasks = PlannedTasks(entries)
    pool = review_pool(run, entries, tasks, _rubric(args.rubric), SPLITS[args.split], "errored" in words)
    trials = chosen_trials(pool.trials, words, args.sample, args.seed)
    scale = tuple(args.scale) if args.scale else (pool.rubric.low, pool.rubric.high)
    folder = _folder(trials, tasks)
    path = Path(args.output) if args.output else default_file(folder, pool.rubric.name, args.labeller)
    labels = LabelFile(path, pool.rubric, scale, args.labeller)
    sitting = Review(pool.rubric, trials, labels, lambda each: run.trial_if_readable(each.entry), args.blind)
    command = calibrate_command(path, pool.rubric, args.rubric, folder, tasks)
    _print(opening_lines(summarize(run.name, pool, sitting, labels, command), labels.repaired))
    if sitting.left:
        labels.check_writable()
    status = _sit(sitting, args) if sitting.left else 0
    summary = summarize(run.name, pool, sitting, labels, command)
    _print(closing_lines(summary))
    for odd in first_unreadable(run.odd):
        print(f"{run.name}: {odd}", file=sys.stderr)
    return status, summary


def _rubric(named: str) -> Rubric | str:
    """Read the rubric where a file is named; else give the name."""
    if not named.endswith(JINJA):
        return named
    from pytest_agenteval.graders.judge.rubric import read_rubric
    from pytest_agenteval.tasks.documents import read_bytes, short_path

    path = Path(named)
    if not path.is_file():
        raise UsageMistake(f"--rubric {named}: expected a file; there is none")
    return read_rubric(read_bytes(path).decode("utf-8", errors="replace"), short_path(path))


def _folder(trials: Sequence[ShownTrial], tasks: PlannedTasks) -> Path:
    """Give the folder of the trials' suite, or the one that holds all of their suites."""
    folders = dict.fromkeys(tasks.suite_folder(trial.entry) for trial in trials)
    return Path(commonpath(folders)) if folders else tasks.root


def _print(lines: Iterable[str]) -> None:
    """Print lines as they are, for commands and paths are there to be copied."""
    print_lines(StyledLine(printable(line)) for line in lines)


def _width() -> int:
    return clamp_width(shutil.get_terminal_size().columns)


def _sit(sitting: Review, args: argparse.Namespace) -> int:
    """Ask until the person has had enough; what was answered is kept, whatever ends it."""
    if isinstance(sys.stdin, io.TextIOWrapper):  # what no encoding knows must not end a sitting
        sys.stdin.reconfigure(errors="replace")
    paged = not args.no_pager and args.json != STDOUT
    try:
        sitting.sit(_Desk(paged))
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    return 0


class _Desk:
    """The terminal, or the pipe, that asks and answers come through."""

    def __init__(self, paged: bool) -> None:
        self._paged = paged

    @property
    def width(self) -> int:
        """The columns of the terminal, asked for each time: it may have been made wider."""
        return _width()

    def show(self, lines: Iterable[StyledLine]) -> None:
        """Print lines."""
        print_lines(lines)

    def page(self, lines: Iterable[StyledLine]) -> None:
        """Show lines in the user's pager."""
        page_lines(lines, paged=self._paged)

    def ask(self, prompt: str) -> str | None:
        """Give what is typed; None at the end of the input."""
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        if not line or not sys.stdin.isatty():
            print()
        return line.strip() if line else None
