"""``agenteval compare``: is the new run better or worse than the old one, or can nobody tell?"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.options import RUN, add_results_option, tell_others_of_day
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document, write_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, one_line

if TYPE_CHECKING:
    from pytest_agenteval.compare.comparison import Comparison
    from pytest_agenteval.compare.sides import Compared, Side
    from pytest_agenteval.store.run_schemas import Schema

WORSE = 1
REFUSED = 2
MOST_OBSTACLES = 20
MOST_LINE = 1000
"""Characters of the line that says what came of gates."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    parser.epilog = f"{RUN} Here a baseline's file may stand for one."
    add("runs", nargs="+", metavar="RUN", help="old and new, or one with --models or --variants")
    add("--models", metavar="OLD,NEW", help="compare these two models")
    add("--variants", metavar="OLD,NEW", help="compare these two prompt variants (base: the agent's)")
    add("--allow", action="store_true", help="compare the tasks that are the same on both sides")
    add("--tolerance", type=_share, metavar="D", help="the fall that does not matter (default: 0.05)")
    add("--judge-noise", nargs="*", metavar="RUN", help="the judge's share of noise, from runs of --agent-regrade")  # fmt: skip  # noqa: E501
    add("-v", "--verbose", action="store_true", help="every bucket, grader and task")
    add_json_option(parser)
    add("--markdown", metavar="FILE", help="write it as Markdown (- for the standard output)")
    add_results_option(parser)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; found {text}")
    return value


def compare(args: argparse.Namespace) -> int:
    """Say what is better and what is worse; 1 where something is worse, 2 where nothing can be compared."""
    from pytest_agenteval.compare.comparison import TOLERANCE, compare_sides

    if args.json == args.markdown == STDOUT:
        raise UsageMistake("--json - and --markdown - would mix on the standard output: write one to a file")
    old, new, compared = _sides(args)
    comparison = compare_sides(old, new, compared=compared, tolerance=args.tolerance or TOLERANCE)
    _refuse_obstacles(comparison, args)
    if args.judge_noise is not None:
        comparison = _with_judge_noise(comparison, args)
    _write(comparison, args)
    if STDOUT not in (args.json, args.markdown) and not compared and (line := _gate_line(args)):
        print_lines([StyledLine(line)])
    for odd in comparison.odd:
        print(odd, file=sys.stderr)
    if not comparison.has_scores:
        return REFUSED
    return WORSE if comparison.worse else 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.exports.json_report import comparison_schema

    return comparison_schema()


def _gate_line(args: argparse.Namespace) -> str:
    """Say what comes of the gates that the new run was tried with; nothing for a run without."""
    from pytest_agenteval.compare.baseline import find_baseline
    from pytest_agenteval.store.run_gates import GATES

    old, new = (find_baseline(Path(args.results), name) for name in args.runs)
    if not (new / GATES).is_file():
        return ""
    from pytest_agenteval.session.suite_gates import JudgedRun, not_tried_again
    from pytest_agenteval.store.run_reader import load_run

    judged = JudgedRun(load_run(new), Path.cwd(), old)
    return one_line(judged.outcome(not_tried_again(judged.broken, "while comparing")).line, MOST_LINE)


def _sides(args: argparse.Namespace) -> tuple[Side, Side, Compared]:
    """Give old and new, and what is not equal on both."""
    for name in dict.fromkeys(args.runs):
        tell_others_of_day(Path(args.results), name)
    if args.models and args.variants:
        raise UsageMistake("--models and --variants: compare one of them at a time")
    if len(args.runs) > 2:
        count = len(args.runs)
        raise UsageMistake(
            f"expected one run or two; found {count}: agenteval report shows many side by side"
        )
    if len(args.runs) == 1 and not (args.models or args.variants):
        raise UsageMistake("one run: expected two, or --models OLD,NEW or --variants OLD,NEW within one")
    names = _two(args.models, "--models") or _two(args.variants, "--variants")
    old, new = (_load_side(name, Path(args.results)) for name in (args.runs[0], args.runs[-1]))
    if args.models:
        return old.with_model(names[0]), new.with_model(names[1]), "model"
    if args.variants:
        return old.with_variant(names[0]), new.with_variant(names[1]), "variant"
    return old, new, ""


def _load_side(name: str, results: Path) -> Side:
    from pytest_agenteval.compare.baseline import find_side

    return find_side(results, name)


def _with_judge_noise(comparison: Comparison, args: argparse.Namespace) -> Comparison:
    from pytest_agenteval.compare.judge_noise import with_judge_noise
    from pytest_agenteval.store.run_reader import load_run
    from pytest_agenteval.store.runs import find_run, list_runs

    results = Path(args.results)
    sides = [load_run(find_run(results, name)) for name in dict.fromkeys(args.runs)]
    names = {side.folder.name for side in sides}
    folders = [find_run(results, name) for name in args.judge_noise] or [
        run.path for run in list_runs(results) if names.intersection(run.header.regraded)
    ]
    compared = with_judge_noise(comparison, sides, [load_run(folder) for folder in folders])
    if all(suite.judge_share is None for suite in compared.suites):
        how = "pytest EVALS --agent-regrade=RUN --agent-judge=JUDGE, twice or more"
        found = ", ".join(folder.name for folder in folders) or "none"
        expected = "expected runs that graded the same trials again, and trials that differ among themselves"
        raise UsageMistake(f"--judge-noise: {expected}; found {found}; {how}")
    return compared


def _two(text: str | None, flag: str) -> tuple[str, ...]:
    """Give the two names behind a flag, none where it was not given."""
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageMistake(f"{flag}: expected two different names, as in {flag} old,new; found {text!r}")
    return tuple(names)


def _refuse_obstacles(comparison: Comparison, args: argparse.Namespace) -> None:
    if not comparison.suites:
        old, new = (
            ", ".join(names) or "nothing" for names in (comparison.unmatched_old, comparison.unmatched_new)
        )
        raise UsageMistake(f"nothing is on both sides: old has {old}; new has {new}")
    if comparison.obstacles and not args.allow:
        lines = [f"  {obstacle}" for obstacle in comparison.obstacles[:MOST_OBSTACLES]]
        if len(comparison.obstacles) > MOST_OBSTACLES:
            lines.append(f"  and {len(comparison.obstacles) - MOST_OBSTACLES} more")
        head = "not comparable: these tasks are not the same on both sides"
        hint = "--allow compares all others, and says so"
        raise UsageMistake("\n".join([head, *lines, hint]))


def _write(comparison: Comparison, args: argparse.Namespace) -> None:
    from pytest_agenteval.reports.comparison_report import (
        comparison_json,
        comparison_lines,
        comparison_markdown,
    )
    from pytest_agenteval.reports.markdown_report import append_summary

    if args.json:
        write_document(args.json, comparison_json(comparison))
    if args.markdown:
        write_text(args.markdown, comparison_markdown(comparison))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        problem = append_summary(Path(summary), comparison_markdown(comparison))
        print(problem, end="\n" if problem else "", file=sys.stderr)
    if STDOUT not in (args.json, args.markdown):
        print_lines(comparison_lines(comparison, shutil.get_terminal_size().columns, whole=args.verbose))
