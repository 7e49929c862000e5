"""``agenteval gepa``: gepa's optimizer on prompt files, alone or as the coding agent of ``improve``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.cli.options import add_results_option, count, seconds
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import StyledLine, format_figure, one_line, pluralize

if TYPE_CHECKING:
    from pytest_agenteval.loop.gepa_adapter import GEPAAdapter, GEPADocument
    from pytest_agenteval.store.run_schemas import Schema

NOTHING_BETTER = 1
MOST_UNANSWERED = 3
"""Questions in a row that COMMAND does not answer, after which nothing is spent on more."""
MOST_LINE = 200
MOST_REFUSED = 5
"""Candidates refused one after the other, after which the optimizer is ended."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.description = (
        "Have gepa's optimizer rewrite prompt files on the dev split, and leave the best candidate in them. "
        "The best of many looks better than it is: let `agenteval improve` confirm it, with this as its "
        "--coding-agent. What stands behind -- goes to pytest, as in -- --agent-model=claude."
    )
    add = parser.add_argument
    add("suite", metavar="SUITE", help="a suite's name, its folder or file")
    add("--prompts", nargs="+", action="extend", required=True, metavar="GLOB", help="the prompt files")
    add("--reflection", required=True, metavar="COMMAND", help="is given a question about a prompt on its standard input, and prints the answer: llm -m claude")  # fmt: skip  # noqa: E501
    add(
        "--max-trials", type=count, default=300, metavar="N", help="no candidate is begun after so many (300)"
    )
    add("--repetitions", type=count, default=1, metavar="N", help="how often each task is tried (1)")
    add("--timeout", type=seconds, default=300.0, metavar="S", help="seconds that COMMAND has for an answer (300)")  # fmt: skip  # noqa: E501
    add("--seed", type=int, default=0, metavar="N", help="the seed of everything that gepa draws (0)")
    add_results_option(parser)
    add_json_option(parser)
    parser.set_defaults(pytest_options=())


def gepa(args: argparse.Namespace) -> int:
    """Optimize the prompt files; 0 where they hold a candidate that looks better, 1 where none does."""
    optimize = _import_optimize()
    from pytest_agenteval.loop.gepa_adapter import GEPADocument
    from pytest_agenteval.loop.improve.coding_agent import missing_command

    if missing := missing_command(args.reflection, Path.cwd()):
        raise UsageMistake(f"--reflection: there is no command {missing!r}")
    adapter, reflection = _adapter(args), _Reflection(args.reflection, args.timeout)
    score, result = _optimized(optimize, adapter, reflection, args)
    best = result.best_idx
    if reflection.is_given_up and best == 0:
        raise AgentEvalError(f"{reflection.failure} ({MOST_UNANSWERED} questions in a row)")
    document = GEPADocument(
        suite=args.suite,
        candidates=result.num_candidates,
        refused=adapter.refused,
        trials=adapter.trials,
        score_before=score,
        score_best=result.val_aggregate_scores[best],
        validation_tasks=len(adapter.valset),
        changed=tuple(_changed(adapter, result.candidates[best])),
    )
    adapter.write(result.candidates[best])
    if args.json:
        write_document(args.json, document)
    if args.json != STDOUT:
        print_lines(map(StyledLine, _lines(document)))
    return 0 if document.changed else NOTHING_BETTER


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.loop.gepa_adapter import GEPADocument
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("gepa", GEPADocument)


def _import_optimize() -> Callable[..., Any]:
    try:
        from gepa import optimize  # type: ignore[attr-defined]  # it has no __all__
    except ImportError:
        raise UsageMistake(
            "agenteval gepa needs gepa: expected it installed; found none; "
            "pip install 'pytest-agenteval[gepa]'"
        ) from None
    return optimize


def _adapter(args: argparse.Namespace) -> GEPAAdapter:
    from pytest_agenteval.cli.suite_files import suites_meant
    from pytest_agenteval.loop.gepa_adapter import GEPAAdapter

    here = Path.cwd()
    paths = [path for glob in args.prompts for path in here.glob(glob) if path.is_file()]
    files = {path.relative_to(here).as_posix() for path in paths}
    if not files:
        raise UsageMistake(
            f"--prompts: expected files below {here}; found none like {', '.join(args.prompts)}"
        )
    (suite, *others) = suites_meant(args.suite)
    if others:
        names = ", ".join(each.suite.name for each in (suite, *others))
        raise UsageMistake(f"one suite at a time: {args.suite} holds {names}")
    return GEPAAdapter(
        suite.path.parent,
        sorted(files),
        options=args.pytest_options,
        repetitions=args.repetitions,
        results=args.results,
        seed=args.seed,
    )


def _optimized(
    optimize: Callable[..., Any], adapter: GEPAAdapter, reflection: _Reflection, args: argparse.Namespace
) -> tuple[float, Any]:
    """Have gepa optimize; give the score of what was there before, and its result."""
    result = optimize(
        seed_candidate=adapter.seed_candidate,
        trainset=adapter.trainset,
        valset=adapter.valset,
        adapter=adapter,
        reflection_lm=reflection,
        stop_callbacks=[
            lambda _: adapter.trials >= args.max_trials or adapter.refused_in_a_row >= MOST_REFUSED,
            lambda _: reflection.is_given_up,
        ],
        raise_on_exception=False,
        logger=_Log(),
        seed=args.seed,
    )
    return result.val_aggregate_scores[0], result


class _Log:
    """Where gepa writes what it does: to the standard error, one line each."""

    def log(self, message: str) -> None:
        if not message.startswith("Traceback"):  # the line before it says what happened
            print(f"gepa: {one_line(message, MOST_LINE)}", file=sys.stderr)


class _Reflection:
    """Answers gepa's questions by the user's command; given up where it answers none of several in a row."""

    def __init__(self, command: str, timeout: float) -> None:
        self._command, self._timeout = command, timeout
        self._unanswered: dict[str, str] = {}

    @property
    def is_given_up(self) -> bool:
        """Whether so many questions in a row had no answer that no other will have one."""
        return len(self._unanswered) >= MOST_UNANSWERED

    @property
    def failure(self) -> str:
        """Why the last question had no answer."""
        return next(reversed(self._unanswered.values()), "")

    def __call__(self, prompt: Any) -> str:
        """Ask one question; raises AgentEvalError where there is no answer."""
        text = prompt if isinstance(prompt, str) else "\n\n".join(str(part["content"]) for part in prompt)
        try:
            answer = self._ask(text)
        except AgentEvalError as failed:
            self._unanswered[text] = str(failed)
            raise
        self._unanswered.clear()
        return answer

    def _ask(self, text: str) -> str:
        try:
            done = subprocess.run(
                self._command,
                shell=True,
                input=text,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=self._timeout,
            )
        except subprocess.TimeoutExpired:
            raise AgentEvalError(f"--reflection: no answer within {self._timeout:g} s") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise AgentEvalError(
                f"--reflection ended with exit status {done.returncode}: {one_line(last, MOST_LINE)}"
            )
        return done.stdout


def _changed(adapter: GEPAAdapter, candidate: Mapping[str, str]) -> Sequence[str]:
    return [path for path, text in candidate.items() if text != adapter.seed_candidate[path]]


def _lines(document: GEPADocument) -> Sequence[str]:
    tried = (
        f"{pluralize(document.candidates, 'candidate')}, {document.refused} refused, "
        f"{pluralize(document.trials, 'trial')}"
    )
    half = f"over {pluralize(document.validation_tasks, 'task')} of split dev"
    if not document.changed:
        return [f"nothing better than {format_figure(document.score_before)} {half}: {tried}"]
    scores = f"{format_figure(document.score_before)} -> {format_figure(document.score_best)}"
    return [
        f"{scores} {half}: {tried}",
        f"changed: {', '.join(document.changed)}",
        "The best of several looks better than it is: agenteval improve confirms it on held-out tasks.",
    ]
