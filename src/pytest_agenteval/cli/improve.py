"""``agenteval improve``: a coding agent changes prompts, runs compare them, held-out tasks confirm."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec.structs import replace

from pytest_agenteval.cli.options import add_results_option, count, seconds
from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document
from pytest_agenteval.processes.interrupts import ended_like_ctrl_c
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import format_duration, one_line, pluralize
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.loop.improve.progress import Improvement
    from pytest_agenteval.store.run_schemas import Schema

NOTHING_KEPT, NOT_CONFIRMED, INTERRUPTED = 1, 3, 130
ROUNDS, REPETITIONS, CODING_TIMEOUT = 5, 3, 1800.0
WIDTH, STEP = 100, 9
MOST_LINE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.usage = (
        "agenteval improve SUITE --coding-agent COMMAND --prompts GLOB [--rounds N] [--focus BUCKET] ... "
        "[-- PYTEST OPTIONS]\n       agenteval improve --continue [NAME]"
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name, its folder or file")
    add("--coding-agent", metavar="COMMAND", help="what changes the prompts: any command, run by a shell in a worktree, with feedback on its standard input")  # fmt: skip  # noqa: E501
    add("--prompts", nargs="+", action="extend", metavar="GLOB", help="the files that it may change")
    add("--focus", action="append", metavar="BUCKET", help="the bucket that is to rise; may be given again (default: the worst)")  # fmt: skip  # noqa: E501
    add("--rounds", type=count, metavar="N", help=f"rounds at most (default: {ROUNDS})")
    add("--repetitions", type=count, metavar="N", help=f"trials of each task and side (default: {REPETITIONS})")  # fmt: skip  # noqa: E501
    add("--max-rounds", type=count, metavar="N", help="rounds that no --continue goes beyond")
    add("--max-trials", type=count, metavar="N", help="trials in all: what would go beyond is not begun")
    add("--coding-timeout", type=seconds, metavar="SECONDS", help=f"a coding agent that takes longer is ended (default: {CODING_TIMEOUT:.0f})")  # fmt: skip  # noqa: E501
    add("--run", metavar="RUN", help="a stored run for the first feedback, in the place of a first run")
    add("--continue", dest="take_up", nargs="?", const="latest", metavar="NAME", help="go on where one was interrupted (default: the newest)")  # fmt: skip  # noqa: E501
    add_results_option(parser)
    add_json_option(parser)
    parser.set_defaults(pytest_options=())


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.loop.improve.progress import Improvement
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("improve", Improvement)


def improve(args: argparse.Namespace) -> int:
    """Improve prompts: 0 confirmed, 3 kept on dev and not confirmed, 1 nothing kept, 130 interrupted."""
    from pytest_agenteval.loop.improve.beginning import at_work
    from pytest_agenteval.loop.improve.improver import Improver

    tell = _Terminal(sys.stderr if args.json == STDOUT else sys.stdout)
    repository, folder, improvement, remarks = _taken_up(args) if args.take_up else _begun(args)
    improver = Improver(repository, folder, improvement, tell)
    try:
        with at_work(folder), ended_like_ctrl_c():
            log = _short(folder / "log.md")
            tell.line(f"improve {improvement.name}: {improvement.suite}; log: {log}")
            for remark in remarks:
                tell.line(f"! {remark}")
            improvement = improver.run()
        tell.paragraph(_result(improvement))
        tell.lines(_next_steps(improvement, folder))
    except KeyboardInterrupt:
        tell.line(f"interrupted; go on: agenteval improve --continue {improvement.name}")
        return INTERRUPTED
    finally:
        tell.close()
        if args.json:
            write_document(args.json, improver.improvement)
    return {"confirmed": 0, "nothing kept": NOTHING_KEPT}.get(improvement.outcome, NOT_CONFIRMED)


def _begun(args: argparse.Namespace) -> Any:
    from pytest_agenteval.cli.suite_files import suites_meant
    from pytest_agenteval.loop.improve.beginning import Request, begin
    from pytest_agenteval.loop.improve.progress import Limits

    needed = {"SUITE": args.suite, "--coding-agent": args.coding_agent, "--prompts": args.prompts}
    if missing := [name for name, value in needed.items() if not value]:
        raise UsageMistake(f"expected {', '.join(missing)}; agenteval improve --help says what they are")
    suites = suites_meant(args.suite)
    if len(suites) > 1:
        names = ", ".join(each.suite.name for each in suites)
        raise UsageMistake(f"one suite at a time: {args.suite} holds {names}")
    limits = Limits(
        rounds=args.rounds or ROUNDS,
        max_rounds=args.max_rounds,
        max_trials=args.max_trials,
        coding_timeout=args.coding_timeout or CODING_TIMEOUT,
    )
    return begin(
        Request(
            here=Path.cwd(),
            suite_file=suites[0].path,
            command=args.coding_agent,
            globs=tuple(args.prompts),
            focus=tuple(dict.fromkeys(args.focus or ())),
            repetitions=args.repetitions or REPETITIONS,
            limits=limits,
            options=args.pytest_options,
            results=Path(os.path.abspath(args.results)),
            run=args.run or "",
        )
    )


def _taken_up(args: argparse.Namespace) -> Any:
    """Find what goes on; only how far it may go can be said anew."""
    from pytest_agenteval.loop.improve.beginning import take_up

    said = {
        "SUITE": args.suite,
        "--coding-agent": args.coding_agent,
        "--prompts": args.prompts,
        "--focus": args.focus,
        "--repetitions": args.repetitions,
        "--run": args.run,
        "--": args.pytest_options,
    }
    if anew := [name for name, value in said.items() if value]:
        raise UsageMistake(f"--continue: {', '.join(anew)} stands as it was said when the improvement began")
    repository, folder, improvement = take_up(Path.cwd(), args.take_up)
    names = ("rounds", "max_rounds", "max_trials", "coding_timeout")
    changed = {name: value for name in names if (value := getattr(args, name)) is not None}
    limits = replace(improvement.limits, **changed)
    return repository, folder, replace(improvement, limits=limits), []


def _result(improvement: Improvement) -> str:
    held_out = improvement.held_out
    spent = f"{pluralize(improvement.trials, 'trial')}, {format_duration(improvement.seconds)}"
    words = "better on held-out tasks" if improvement.outcome == "confirmed" else improvement.outcome
    why = held_out.reason if held_out else improvement.ended
    return f"{words}: {one_line(why, MOST_LINE)} ({spent})"


def _next_steps(improvement: Improvement, folder: Path) -> Iterator[str]:
    if improvement.has_kept:
        yield f"  look:  git diff {improvement.start[:12]}..{improvement.branch}"
        yield f"  merge: git merge {improvement.branch}"
    yield f"  log:   {_short(folder / 'log.md')}"


class _Terminal:
    """Says what goes on: a line for each step, begun when the step begins."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._open = out, 0
        self._width = min(WIDTH, shutil.get_terminal_size().columns) if out.isatty() else WIDTH

    def begin(self, step: str, what: str) -> None:
        """Begin a step's line."""
        self.close()
        text = f"{step:<{STEP}} {_safe_line(what)}"
        self._open = len(text)
        print(text, end="", file=self._out, flush=True)

    def end(self, what: str) -> None:
        """End the line with what came of the step, below it where there is no room."""
        text = _safe_line(what)
        if self._open + len(text) < self._width:
            print(f" {text}" if self._open else text, file=self._out, flush=True)
            self._open = 0
            return
        self.close()
        self.paragraph(text, " " * (STEP + 1))

    def paragraph(self, text: str, indent: str = "") -> None:
        """Print a text over as many lines as it needs."""
        self.lines(_wrapped(text, self._width, indent))

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self.close()
        print(_safe_line(text), file=self._out, flush=True)

    def lines(self, texts: Any) -> None:
        """Print lines as they are, without secrets."""
        self.close()
        for text in texts:
            print(KNOWN_SECRETS.text(text), file=self._out, flush=True)

    def close(self) -> None:
        """End a line that was begun."""
        if self._open:
            print(file=self._out)
        self._open = 0


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _safe_line(text: str) -> str:
    return KNOWN_SECRETS.text(one_line(text, MOST_LINE))


def _short(path: Path) -> str:
    return (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).as_posix()
