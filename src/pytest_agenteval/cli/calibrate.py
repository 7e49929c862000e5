"""``agenteval calibrate`` and ``review``: judges against people's labels, and labels for them.

``calibrate`` starts pytest, where judges are called; nothing here calls one.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.cli.console import (
    RESULTS_HELP,
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    find_named_run,
    page_lines,
    print_lines,
    print_unreadable,
    terminal_width,
    write_document,
)
from pytest_agenteval.store.run_folder import LATEST
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import read_bytes, short_path
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.formatting import StyledLine, printable

if TYPE_CHECKING:
    from pytest_agenteval.graders.judge.rubric import Rubric
    from pytest_agenteval.loop.review import Review, ReviewSummary


STANDARD_ERROR = 2
USAGE_ERROR = 4
YAML = (".yaml", ".yml")

INTERRUPTED = 130
JINJA = ".jinja"
FILTERS = ("bucket", "task", "model", "variant")
SPLITS = {"dev": ("dev",), "held_out": ("held_out",), "all": ("dev", "held_out")}


def calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("labels", metavar="LABELS", help="labels (.jsonl, .csv), or a calibration file (.yaml)")
    add("--rubric", metavar="NAME", help="a rubric's name or .jinja file (default: LABELS')")
    add("--judge", action="append", default=[], metavar="MODEL", help="who judges; several are an ensemble")
    add("--repeats", type=int, metavar="N", help="ask so often about each, to see judges' noise")
    add("--threshold", action="append", default=[], metavar="FIGURE=N", help="to be reached: spearman=0.7, spearman.DIMENSION=0.7")  # fmt: skip  # noqa: E501
    add("--tolerance", type=float, metavar="T", help="how far from its label is near (default: 0.15)")
    add("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="the labels' scale (default: 0 1)")
    add("--seed", type=int, metavar="N", help="the seed of the intervals (default: 0)")
    add("--record-chat", metavar="MODE", help="off, none, once, new_episodes, all (docs/judges.md)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add("--results", metavar="DIR", help=RESULTS_HELP)


def calibrate(args: argparse.Namespace) -> int:
    """Start pytest on the calibration and return its exit status.

    pytest prints the figures, and where the page is.
    """
    labels = Path(args.labels)
    if not labels.is_file():
        raise UsageMistake(f"{labels}: expected a file of labels or a calibration; there is none")
    settings: dict[str, Any] = {
        "rubric": args.rubric,
        "repeats": args.repeats,
        "thresholds": dict(_thresholds(args.threshold)),
        "tolerance": args.tolerance,
        "scale": args.scale,
        "seed": args.seed,
    }
    # What was not given is left to the calibration's own defaults.
    settings = {key: value for key, value in settings.items() if value not in (None, {})}
    if labels.suffix.lower() in YAML:
        # A calibration file holds all of its settings: a second source of one would be ambiguous.
        if settings:
            raise UsageMistake(f"{labels} is a calibration file: {', '.join(settings)} is said in it")
        return _calibrate(labels, args)
    from pytest_agenteval.registry.installed import installed_registry

    rubric = labels.stem
    names = installed_registry().rubric_names if args.rubric is None else ()
    if args.rubric is None and rubric not in names:
        raise UsageMistake(f"which rubric? say --rubric=R: a .jinja file, or one of {', '.join(names)}")
    if args.rubric is not None:
        is_file = args.rubric.endswith(".jinja")
        rubric = Path(os.path.relpath(args.rubric, labels.parent)).as_posix() if is_file else args.rubric
    # The id stands in pytest's item id and in the name of the page's file.
    id = re.sub(r"[\s/\\:\[\]]+", "_", labels.stem)
    settings |= {"kind": "calibration", "id": id, "labels": labels.name, "rubric": rubric}
    # pytest collects calibration files, and no files of labels.
    with _temporary_calibration(labels, settings) as file:
        return _calibrate(file, args)


def _calibrate(file: Path, args: argparse.Namespace) -> int:
    if not args.json:
        return _run_pytest(file, args)
    # Another process makes the run, and writes down there which folder it is.
    with tempfile.TemporaryDirectory() as between:
        place = Path(between, "folder")
        status = _run_pytest(file, args, str(place))
        folder = Path(place.read_text(encoding="utf-8")) if place.exists() else None
    if status == USAGE_ERROR:  # pytest has printed why
        return status
    from pytest_agenteval.calibration.document import calibrate_document, page_path, read_calibrations

    calibrations = read_calibrations(folder) if folder else []
    pages = [(Path(short_path(page_path(folder, data["id"]))), data) for data in calibrations if folder]
    write_document(args.json, calibrate_document(Path(short_path(folder)) if folder else None, status, pages))
    return status


def _run_pytest(file: Path, args: argparse.Namespace, run_folder_to: str = "") -> int:
    """Run pytest in a process of its own.

    Where the document goes to the standard output, pytest's output goes to the standard error.
    """
    from pytest_agenteval.session.inner_pytest import RUN_FOLDER_TO, UNCACHED, start_pytest

    options = [f"--agent-judge={judge}" for judge in args.judge]
    options += [f"--agent-record-chat={args.record_chat}"] if args.record_chat else []
    options += [f"--agent-results={args.results}"] if args.results else []
    process = start_pytest(
        ["-p", "agenteval", *UNCACHED, "-rs", *options, str(file)],
        output=STANDARD_ERROR if args.json == STDOUT else None,
        # addopts of the project, say -x or workers, are meant for its other tests.
        environment={**os.environ, "PYTEST_ADDOPTS": "", RUN_FOLDER_TO: run_folder_to},
    )
    while True:
        try:
            return process.wait()
        # The terminal sends Ctrl-C to pytest as well, and pytest's own status is what counts.
        except KeyboardInterrupt:
            continue


def _thresholds(options: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Read ``spearman=0.7`` and ``spearman.coherence=0.7``."""
    thresholds: dict[str, Any] = {}
    for text in options:
        name, _, number = text.partition("=")
        metric, dot, dimension = name.strip().partition(".")
        try:
            value = float(number)
        except ValueError:
            raise UsageMistake(f"--threshold={text}: expected figure=number, as in spearman=0.7") from None
        if not dot:
            thresholds[metric] = value
        elif isinstance(thresholds.setdefault(metric, {}), dict):
            thresholds[metric][dimension] = value
        else:
            raise UsageMistake(f"--threshold={text}: {metric} is wanted of all dimensions already")
    yield from thresholds.items()


@contextmanager
def _temporary_calibration(labels: Path, content: dict[str, Any]) -> Iterator[Path]:
    """Make a calibration file for as long as it is needed."""
    import yaml

    try:
        # Beside the labels, so that pytest loads the conftests there.
        handle, name = tempfile.mkstemp(".calibration.yaml", f".{content['id']}-", labels.parent)
    except OSError as refused:
        raise UsageMistake(f"{labels.parent}: no file can be made here ({refused.strerror})") from None
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            yaml.safe_dump(content, file, allow_unicode=True, sort_keys=False)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def review_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("--rubric", default="", metavar="R", help="a rubric that graders of the run use, a registered one, or a .jinja file (default: the only one that they use)")  # fmt: skip  # noqa: E501
    for name in FILTERS:
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
    """Let a person label the trials; 0 when it is finished or left, 130 after Ctrl-C."""
    from pytest_agenteval.loop.review_pool import ENDING_WORDS

    if args.sample is not None and args.sample < 1:
        raise UsageMistake(f"--sample {args.sample}: expected a number above 0")
    if args.scale and not args.scale[0] < args.scale[1]:
        raise UsageMistake("--scale: expected two numbers, the lower one first")
    # The name becomes a part of a file's name, which has to be valid on Windows too.
    if {*args.labeller} & {*'/\\:*?"<>|'}:
        raise UsageMistake(f"--labeller {args.labeller}: expected a name that files may have")
    words = [word for word in args.only.split(",") if word]
    for word in words:
        if word not in ENDING_WORDS:
            hint = did_you_mean(word, ENDING_WORDS)
            raise UsageMistake(f"--only {word}: expected {', '.join(ENDING_WORDS)}. {hint}".strip())
    run = load_run(find_named_run(Path(args.results), args.run))
    if not run.entries:
        raise UsageMistake(f"the run {run.name} has no trial that ended; agenteval runs lists others")
    # Questions must not mix with the document.
    with redirect_stdout(sys.stderr if args.json == STDOUT else sys.stdout):
        status, summary = _hold_review(run, args, words)
    if args.json:
        write_document(args.json, summary)
    return status


def _hold_review(run: Run, args: argparse.Namespace, words: Sequence[str]) -> tuple[int, ReviewSummary]:
    from pytest_agenteval.calibration.label_file import LabelFile
    from pytest_agenteval.loop.review import (
        Review,
        calibrate_command,
        closing_lines,
        default_file,
        opening_lines,
        summarize,
    )
    from pytest_agenteval.loop.review_pool import PlannedTasks, chosen_entries, chosen_trials, review_pool

    entries = chosen_entries(run, {name: getattr(args, name) for name in FILTERS}, words)
    tasks = PlannedTasks(run, entries)
    rubric = _rubric_option(args.rubric)
    pool = review_pool(run, entries, tasks, rubric, SPLITS[args.split], "errored" in words)
    trials = chosen_trials(pool.trials, words, args.sample, args.seed)
    scale = tuple(args.scale) if args.scale else (pool.rubric.low, pool.rubric.high)
    folders = dict.fromkeys(tasks.suite_folder(trial.entry) for trial in trials)
    # Trials of several suites get one file of labels, in the folder above all of them.
    folder = Path(commonpath(folders)) if folders else tasks.root
    path = Path(args.output) if args.output else default_file(folder, pool.rubric.name, args.labeller)
    labels = LabelFile(path, pool.rubric, scale, args.labeller)
    sitting = Review(pool.rubric, trials, labels, lambda each: run.trial_if_readable(each.entry), args.blind)
    command = calibrate_command(path, pool.rubric, args.rubric, folder, tasks)
    _print_plain(opening_lines(summarize(run.name, pool, sitting, labels, command), labels.repaired))
    if sitting.left:
        # Before the first question: no answer may be lost.
        labels.check_writable()
    status = _ask_labeller(sitting, args) if sitting.left else 0
    summary = summarize(run.name, pool, sitting, labels, command)
    _print_plain(closing_lines(summary))
    print_unreadable(run.name, run)
    return status, summary


def _rubric_option(named: str) -> Rubric | str:
    if not named.endswith(JINJA):
        return named
    from pytest_agenteval.graders.judge.rubric import read_rubric

    path = Path(named)
    if not path.is_file():
        raise UsageMistake(f"--rubric {named}: expected a file; there is none")
    return read_rubric(read_bytes(path).decode("utf-8", errors="replace"), short_path(path))


def _print_plain(lines: Iterable[str]) -> None:
    """Print lines unwrapped, so that commands and paths can be copied."""
    print_lines(StyledLine(printable(line)) for line in lines)


def _ask_labeller(sitting: Review, args: argparse.Namespace) -> int:
    """Hold the sitting; 130 after Ctrl-C."""
    # Bytes that cannot be decoded must not end a sitting.
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    paged = not args.no_pager and args.json != STDOUT
    try:
        sitting.sit(_TerminalDesk(paged))
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    return 0


class _TerminalDesk:
    """The terminal, or the pipe, that shows questions and takes answers."""

    def __init__(self, paged: bool) -> None:
        self._paged = paged

    @property
    def width(self) -> int:
        """The columns of the terminal, which may have changed since the last question."""
        return terminal_width()

    def show(self, lines: Iterable[StyledLine]) -> None:
        print_lines(lines)

    def page(self, lines: Iterable[StyledLine]) -> None:
        page_lines(lines, paged=self._paged)

    def ask(self, prompt: str) -> str | None:
        """Give the typed answer; None at the end of the input."""
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        # Without a terminal nobody's Enter ends the line of the prompt.
        if not line or not sys.stdin.isatty():
            print()
        return line.strip() if line else None
