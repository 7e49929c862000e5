"""``agenteval feedback`` and ``improve``: changing prompts by what runs teach."""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    find_named_run,
    positive_int,
    positive_seconds,
    print_unreadable,
    write_document,
    write_text,
)
from pytest_agenteval.loop.feedback.content import BUDGET, TRIALS, EarlierRound, FeedbackOptions
from pytest_agenteval.processes.signals import signals_as_ctrl_c
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.store.run_folder import LATEST
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import format_duration, one_line, pluralize

NOTHING_KEPT, NOT_CONFIRMED, INTERRUPTED = 1, 3, 130
ROUNDS, REPETITIONS, CODING_TIMEOUT = 5, 3, 1800.0
MOST_LINE = 1000


def improve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "agenteval improve SUITE --coding-agent COMMAND --prompts GLOB [--rounds N] [--focus BUCKET] ... "
        "[-- PYTEST OPTIONS]\n       agenteval improve --continue [NAME]"
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name, its folder or file")
    add("--coding-agent", metavar="COMMAND", help="the command that changes the prompts; it runs in a checkout, with the feedback on standard input")  # fmt: skip  # noqa: E501
    add("--prompts", nargs="+", action="extend", metavar="GLOB", help="the files that it may change")
    add("--focus", action="append", metavar="BUCKET", help="the bucket to improve; may be repeated (default: the worst)")  # fmt: skip  # noqa: E501
    add("--rounds", type=positive_int, metavar="N", help=f"the most rounds (default: {ROUNDS})")
    add("--repetitions", type=positive_int, metavar="N", help=f"trials of each task, old and new (default: {REPETITIONS})")  # fmt: skip  # noqa: E501
    add("--max-rounds", type=positive_int, metavar="N", help="the most rounds in total, with --continue too")
    add(
        "--max-trials",
        type=positive_int,
        metavar="N",
        help="the most trials in total; nothing that would exceed it is started",
    )
    add("--coding-timeout", type=positive_seconds, metavar="SECONDS", help=f"stop a coding agent that takes longer (default: {CODING_TIMEOUT:.0f})")  # fmt: skip  # noqa: E501
    add("--run", metavar="RUN", help="take the first feedback from this stored run, not from a new run")
    add("--continue", dest="resume", nargs="?", const="latest", metavar="NAME", help="continue an interrupted improvement (default: the newest)")  # fmt: skip  # noqa: E501
    add_results_option(parser)
    add_json_option(parser)
    parser.set_defaults(pytest_options=())


def improve(args: argparse.Namespace) -> int:
    """Improve prompts: 0 confirmed, 3 better on dev only, 1 no change accepted, 130 interrupted."""
    from pytest_agenteval.loop.improve.improver import Improver, claim_improvement
    from pytest_agenteval.loop.improve.progress import StepLines

    # The document has to stand alone on the standard output.
    progress = StepLines(sys.stderr if args.json == STDOUT else sys.stdout)
    repository, folder, improvement, remarks = (
        _resumed_improvement(args) if args.resume else _new_improvement(args)
    )
    improver = Improver(repository, folder, improvement, progress)
    log = folder / "log.md"
    log = log.relative_to(Path.cwd()) if log.is_relative_to(Path.cwd()) else log
    try:
        with claim_improvement(folder), signals_as_ctrl_c():
            progress.line(f"improve {improvement.name}: {improvement.suite}; log: {log.as_posix()}")
            for remark in remarks:
                progress.line(f"! {remark}")
            improvement = improver.run()
        held_out = improvement.held_out
        spent = f"{pluralize(improvement.trials, 'trial')}, {format_duration(improvement.seconds)}"
        words = "better on held-out tasks" if improvement.outcome == "confirmed" else improvement.outcome
        why = held_out.reason if held_out else improvement.ended
        progress.paragraph(f"{words}: {one_line(why, MOST_LINE)} ({spent})")
        if improvement.has_accepted:
            look = f"git diff {improvement.start[:12]}..{improvement.branch}"
            progress.lines([f"  look:  {look}", f"  merge: git merge {improvement.branch}"])
        progress.lines([f"  log:   {log.as_posix()}"])
    except KeyboardInterrupt:
        progress.line(f"interrupted; to continue: agenteval improve --continue {improvement.name}")
        return INTERRUPTED
    finally:
        # Also after Ctrl-C or a failure: the document says how far the improvement came.
        progress.close()
        if args.json:
            write_document(args.json, improver.improvement)
    return {"confirmed": 0, "nothing kept": NOTHING_KEPT}.get(improvement.outcome, NOT_CONFIRMED)


def _new_improvement(args: argparse.Namespace) -> Any:
    from pytest_agenteval.cli.suite_files import one_suite
    from pytest_agenteval.loop.improve.improver import new_improvement
    from pytest_agenteval.loop.improve.progress import Limits

    needed = {"SUITE": args.suite, "--coding-agent": args.coding_agent, "--prompts": args.prompts}
    if missing := [name for name, value in needed.items() if not value]:
        raise UsageMistake(f"expected {', '.join(missing)}; see agenteval improve --help")
    suite = one_suite(args.suite)
    limits = Limits(
        rounds=args.rounds or ROUNDS,
        max_rounds=args.max_rounds,
        max_trials=args.max_trials,
        coding_timeout=args.coding_timeout or CODING_TIMEOUT,
    )
    return new_improvement(
        suite.path,
        command=args.coding_agent,
        globs=tuple(args.prompts),
        focus=tuple(dict.fromkeys(args.focus or ())),
        repetitions=args.repetitions or REPETITIONS,
        limits=limits,
        options=args.pytest_options,
        # pytest works in other folders, from which a relative path would lead elsewhere.
        results=Path(os.path.abspath(args.results)),
        run=args.run or "",
    )


def _resumed_improvement(args: argparse.Namespace) -> Any:
    """Find the improvement that goes on; only its limits may change."""
    from pytest_agenteval.loop.improve.improver import find_interrupted

    fixed = {
        "SUITE": args.suite,
        "--coding-agent": args.coding_agent,
        "--prompts": args.prompts,
        "--focus": args.focus,
        "--repetitions": args.repetitions,
        "--run": args.run,
        "--": args.pytest_options,
    }
    if anew := [name for name, value in fixed.items() if value]:
        raise UsageMistake(f"--continue: {', '.join(anew)} cannot change after the improvement has started")
    repository, folder, improvement = find_interrupted(Path.cwd(), args.resume)
    names = ("rounds", "max_rounds", "max_trials", "coding_timeout")
    # Limits that are not given again stay as they were.
    changed = {name: value for name in names if (value := getattr(args, name)) is not None}
    limits = replace(improvement.limits, **changed)
    return repository, folder, replace(improvement, limits=limits), []


def feedback_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("-o", "--output", metavar="DIR", help="the folder for feedback.md and feedback.json (default: print the Markdown)")  # fmt: skip  # noqa: E501
    add("--suite", default="", metavar="SUITE", help="only this suite")
    add("--bucket", action="append", default=[], metavar="BUCKET", help="only this bucket; may be repeated")
    add("--grader", default="", metavar="GRADER", help="only trials that did not pass this grader")
    add("--trials", type=positive_int, default=TRIALS, metavar="N", help=f"the most failing trials to show for a bucket ({TRIALS})")  # fmt: skip  # noqa: E501
    add("--model", metavar="MODEL", help="the model, where the run has several")
    add("--variant", metavar="NAME", help="the prompt variant, where the run has several (base: the agent's)")
    add("--prompts", action="append", default=[], metavar="GLOB", help="the prompt files; may be repeated (default: those named by suites, and those beside the agent's module)")  # fmt: skip  # noqa: E501
    add("--budget", type=positive_int, default=BUDGET, metavar="TOKENS", help=f"the most tokens in the Markdown ({BUDGET})")  # fmt: skip  # noqa: E501
    add("--guide", metavar="FILE", help="your own page on writing prompts, instead of the built-in one")
    add(
        "--template",
        metavar="FILE",
        help="your own jinja template for the Markdown, instead of the built-in one",
    )
    add("--log", metavar="FILE", help="the log.json of agenteval improve, to show what earlier rounds tried")
    add_json_option(parser)
    add_results_option(parser)


def feedback(args: argparse.Namespace) -> int:
    """Write what the run teaches; 0 also where no trial failed."""
    from pytest_agenteval.loop.feedback.content import MARKDOWN_FILE, feedback_markdown, write_feedback
    from pytest_agenteval.loop.feedback.feedback import make_feedback

    run = load_run(find_named_run(Path(args.results), args.run))
    made = make_feedback(
        run,
        FeedbackOptions(
            suite=args.suite,
            buckets=tuple(args.bucket),
            grader=args.grader,
            trials=args.trials,
            model=args.model,
            variant=args.variant,
            budget=args.budget,
            guide=_file_text(args.guide),
            template=_file_text(args.template),
            prompts={path: _file_text(path) for pattern in args.prompts for path in _prompt_paths(pattern)},
        ),
        _earlier_rounds(args.log) if args.log else (),
    )
    if args.output:
        write_feedback(made, Path(args.output))
        buckets = len(made.buckets) + len(made.in_brief)
        if args.json != STDOUT:
            print(f"{Path(args.output, MARKDOWN_FILE)}: {pluralize(buckets, 'bucket')} with failures")
    elif args.json != STDOUT:
        write_text(STDOUT, feedback_markdown(made))
    if args.json:
        write_document(args.json, made)
    print_unreadable(run.folder.name, run)
    return 0


def _prompt_paths(pattern: str) -> list[str]:
    paths = [path for path in sorted(glob.glob(pattern, recursive=True)) if Path(path).is_file()]
    if not paths:
        raise UsageMistake(f"--prompts {pattern}: no such file")
    return paths


def _file_text(file: str | None) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise UsageMistake(
            f"{file}: cannot be read ({getattr(broken, 'strerror', None) or broken})"
        ) from None


def _earlier_rounds(file: str) -> list[EarlierRound]:
    from pytest_agenteval.loop.improve.coding_agent import earlier_round
    from pytest_agenteval.loop.improve.progress import Round

    try:
        rounds = json.loads(_file_text(file))["rounds"]
        return [earlier_round(from_builtins(Round, data, strict=False)) for data in rounds]
    # The file may be any JSON, or none.
    except (ValueError, LookupError, TypeError) as broken:
        raise UsageMistake(
            f"{file}: expected the log.json of agenteval improve, with `rounds`; found {broken}"
        ) from None
