"""``agenteval feedback``: what a run teaches whoever changes the prompts, for a person or a coding agent."""

from __future__ import annotations

import argparse
import glob
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.cli.options import RUN, add_results_option, count, find_named_run
from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document, write_text
from pytest_agenteval.loop.feedback.content import BUDGET, TRIALS, EarlierRound, FeedbackOptions
from pytest_agenteval.store.run_reader import first_unreadable, load_run
from pytest_agenteval.store.runs import LATEST
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize

if TYPE_CHECKING:
    from pytest_agenteval.store.run_schemas import Schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.epilog = RUN
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("-o", "--output", metavar="DIR", help="the folder for feedback.md and feedback.json (default: print the Markdown)")  # fmt: skip  # noqa: E501
    add("--suite", default="", metavar="SUITE", help="only this suite")
    add(
        "--bucket", action="append", default=[], metavar="BUCKET", help="only this bucket; may be given again"
    )
    add("--grader", default="", metavar="GRADER", help="only trials that this grader did not pass")
    add("--trials", type=count, default=TRIALS, metavar="N", help=f"the most failing trials of a bucket ({TRIALS})")  # fmt: skip  # noqa: E501
    add("--model", metavar="MODEL", help="the model, where the run has several")
    add(
        "--variant",
        metavar="NAME",
        help="the prompt variant, where the run has several (base: the agent's)",
    )
    add("--prompts", action="append", default=[], metavar="GLOB", help="the prompt files; may be given again (default: those that suites name, and those beside the agent's module)")  # fmt: skip  # noqa: E501
    add("--budget", type=count, default=BUDGET, metavar="TOKENS", help=f"the most tokens of the Markdown ({BUDGET})")  # fmt: skip  # noqa: E501
    add("--guide", metavar="FILE", help="your own page on writing prompts, in place of ours")
    add("--template", metavar="FILE", help="your own jinja template of the Markdown, in place of ours")
    add("--log", metavar="FILE", help="the log.json of agenteval improve: what earlier rounds tried")
    add_json_option(parser)
    add_results_option(parser)


def feedback(args: argparse.Namespace) -> int:
    """Write what the run teaches; 0 also where no trial failed."""
    from pytest_agenteval.loop.feedback.feedback import make_feedback
    from pytest_agenteval.loop.feedback.markdown import MARKDOWN_FILE, feedback_markdown, write_feedback

    run = load_run(find_named_run(Path(args.results), args.run))
    made = make_feedback(run, _options(args), _earlier_rounds(args.log))
    if args.output:
        write_feedback(made, Path(args.output))
        buckets = len(made.buckets) + len(made.in_brief)
        if args.json != STDOUT:
            print(f"{Path(args.output, MARKDOWN_FILE)}: {pluralize(buckets, 'bucket')} with failures")
    elif args.json != STDOUT:
        write_text(STDOUT, feedback_markdown(made))
    if args.json:
        write_document(args.json, made)
    for odd in first_unreadable(run.odd):
        print(f"{run.folder.name}: {odd}", file=sys.stderr)
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.loop.feedback.content import Feedback
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("feedback", Feedback)


def _options(args: argparse.Namespace) -> FeedbackOptions:
    return FeedbackOptions(
        suite=args.suite,
        buckets=tuple(args.bucket),
        grader=args.grader,
        trials=args.trials,
        model=args.model,
        variant=args.variant,
        budget=args.budget,
        guide=_text(args.guide),
        template=_text(args.template),
        prompts={path: _text(path) for pattern in args.prompts for path in _files(pattern)},
    )


def _files(pattern: str) -> list[str]:
    paths = [path for path in sorted(glob.glob(pattern, recursive=True)) if Path(path).is_file()]
    if not paths:
        raise UsageMistake(f"--prompts {pattern}: no such file")
    return paths


def _text(file: str | None) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise UsageMistake(
            f"{file}: cannot be read ({getattr(broken, 'strerror', None) or broken})"
        ) from None


def _earlier_rounds(file: str | None) -> list[EarlierRound]:
    """Read the rounds of a log of ``improve``."""
    if not file:
        return []
    try:
        rounds = json.loads(_text(file))["rounds"]
        return [_round(each) for each in rounds]
    except (ValueError, LookupError, TypeError, AttributeError) as odd:
        raise UsageMistake(
            f"{file}: expected the log.json of agenteval improve, with `rounds`; found {odd}"
        ) from None


def _round(data: dict[str, Any]) -> EarlierRound:
    """Read a round as ``improve`` logs it: of held-out tasks nothing, nor of what copies them."""
    decided = (data.get("decision", ""), data.get("reason", ""))
    tried = data.get("dev") or data.get("screen") or {}
    return EarlierRound.from_json(
        {
            "number": data["number"],
            "summary": data.get("last_line", ""),
            "decision": ": ".join(filter(None, decided)),
            "diff": "" if data.get("leaks_held_out") else data.get("diff", ""),
            "sentence": tried.get("sentence", ""),
        }
    )
