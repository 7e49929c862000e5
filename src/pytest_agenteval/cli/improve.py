"""``agenteval feedback``, ``improve`` and ``gepa``: changing prompts by what runs teach."""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    find_named_run,
    positive_int,
    positive_seconds,
    print_lines,
    print_unreadable,
    write_document,
    write_text,
)
from pytest_agenteval.loop.feedback.content import BUDGET, TRIALS, EarlierRound, FeedbackOptions
from pytest_agenteval.processes.signals import signals_as_ctrl_c
from pytest_agenteval.store.run_folder import LATEST
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import StyledLine, format_duration, format_figure, one_line, pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.loop.gepa_adapter import GEPAAdapter, GEPADocument


NOTHING_KEPT, NOT_CONFIRMED, INTERRUPTED = 1, 3, 130
ROUNDS, REPETITIONS, CODING_TIMEOUT = 5, 3, 1800.0
WIDTH, STEP = 100, 9
MOST_LINE = 1000

NOTHING_BETTER = 1
# After this many questions in a row that COMMAND does not answer, no more money is spent.
MOST_UNANSWERED = 3
MOST_GEPA_LINE = 200
# After this many refused candidates in a row the optimizer is ended.
MOST_REFUSED = 5


def improve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "agenteval improve SUITE --coding-agent COMMAND --prompts GLOB [--rounds N] [--focus BUCKET] ... "
        "[-- PYTEST OPTIONS]\n       agenteval improve --continue [NAME]"
    )
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name, its folder or file")
    add("--coding-agent", metavar="COMMAND", help="what changes the prompts: any command, run by a shell in a worktree, with feedback on its standard input")  # fmt: skip  # noqa: E501
    add("--prompts", nargs="+", action="extend", metavar="GLOB", help="the files that it may change")
    add("--focus", action="append", metavar="BUCKET", help="the bucket that is to rise; may be given again (default: the worst)")  # fmt: skip  # noqa: E501
    add("--rounds", type=positive_int, metavar="N", help=f"rounds at most (default: {ROUNDS})")
    add("--repetitions", type=positive_int, metavar="N", help=f"trials of each task and side (default: {REPETITIONS})")  # fmt: skip  # noqa: E501
    add("--max-rounds", type=positive_int, metavar="N", help="rounds that no --continue goes beyond")
    add(
        "--max-trials",
        type=positive_int,
        metavar="N",
        help="trials in all: what would go beyond is not begun",
    )
    add("--coding-timeout", type=positive_seconds, metavar="SECONDS", help=f"a coding agent that takes longer is ended (default: {CODING_TIMEOUT:.0f})")  # fmt: skip  # noqa: E501
    add("--run", metavar="RUN", help="a stored run for the first feedback, in the place of a first run")
    add("--continue", dest="resume", nargs="?", const="latest", metavar="NAME", help="go on where one was interrupted (default: the newest)")  # fmt: skip  # noqa: E501
    add_results_option(parser)
    add_json_option(parser)
    parser.set_defaults(pytest_options=())


def improve(args: argparse.Namespace) -> int:
    """Improve prompts: 0 confirmed, 3 better on dev only, 1 no change accepted, 130 interrupted."""
    from pytest_agenteval.loop.improve.improver import Improver, claim_improvement

    # The document has to stand alone on the standard output.
    progress = _ProgressLines(sys.stderr if args.json == STDOUT else sys.stdout)
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
        progress.line(f"interrupted; go on: agenteval improve --continue {improvement.name}")
        return INTERRUPTED
    finally:
        # Also after Ctrl-C or a failure: the document says how far the improvement came.
        progress.close()
        if args.json:
            write_document(args.json, improver.improvement)
    return {"confirmed": 0, "nothing kept": NOTHING_KEPT}.get(improvement.outcome, NOT_CONFIRMED)


def _new_improvement(args: argparse.Namespace) -> Any:
    from pytest_agenteval.cli.suite_files import one_suite
    from pytest_agenteval.loop.improve.improver import ImproveRequest, new_improvement
    from pytest_agenteval.loop.improve.progress import Limits

    needed = {"SUITE": args.suite, "--coding-agent": args.coding_agent, "--prompts": args.prompts}
    if missing := [name for name, value in needed.items() if not value]:
        raise UsageMistake(f"expected {', '.join(missing)}; agenteval improve --help says what they are")
    suite = one_suite(args.suite)
    limits = Limits(
        rounds=args.rounds or ROUNDS,
        max_rounds=args.max_rounds,
        max_trials=args.max_trials,
        coding_timeout=args.coding_timeout or CODING_TIMEOUT,
    )
    return new_improvement(
        ImproveRequest(
            here=Path.cwd(),
            suite_file=suite.path,
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
        raise UsageMistake(f"--continue: {', '.join(anew)} stands as it was said when the improvement began")
    repository, folder, improvement = find_interrupted(Path.cwd(), args.resume)
    names = ("rounds", "max_rounds", "max_trials", "coding_timeout")
    # Limits that are not given again stay as they were.
    changed = {name: value for name in names if (value := getattr(args, name)) is not None}
    limits = replace(improvement.limits, **changed)
    return repository, folder, replace(improvement, limits=limits), []


class _ProgressLines:
    """Prints a line for each step: its start when the step starts, its result when it ends."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._open = out, 0
        # A narrow terminal would break words; a file has no width of its own.
        self._width = min(WIDTH, shutil.get_terminal_size().columns) if out.isatty() else WIDTH

    def begin(self, step: str, what: str) -> None:
        self.close()
        text = f"{step:<{STEP}} {_safe_line(what)}"
        self._open = len(text)
        print(text, end="", file=self._out, flush=True)

    def end(self, what: str) -> None:
        """End the line with the result of the step; the result goes below where there is no room."""
        text = _safe_line(what)
        if self._open + len(text) < self._width:
            print(f" {text}" if self._open else text, file=self._out, flush=True)
            self._open = 0
            return
        self.close()
        self.paragraph(text, " " * (STEP + 1))

    def paragraph(self, text: str, indent: str = "") -> None:
        self.lines(
            textwrap.wrap(
                text,
                self._width,
                initial_indent=indent,
                subsequent_indent=indent or "  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    def line(self, text: str) -> None:
        self.close()
        print(_safe_line(text), file=self._out, flush=True)

    def lines(self, texts: Any) -> None:
        """Print lines as they are, without secrets."""
        self.close()
        for text in texts:
            print(KNOWN_SECRETS.text(text), file=self._out, flush=True)

    def close(self) -> None:
        """End a line that still has no result."""
        if self._open:
            print(file=self._out)
        self._open = 0


def _safe_line(text: str) -> str:
    return KNOWN_SECRETS.text(one_line(text, MOST_LINE))


def gepa_arguments(parser: argparse.ArgumentParser) -> None:
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
        "--max-trials",
        type=positive_int,
        default=300,
        metavar="N",
        help="no candidate is begun after so many (300)",
    )
    add("--repetitions", type=positive_int, default=1, metavar="N", help="how often each task is tried (1)")
    add("--timeout", type=positive_seconds, default=300.0, metavar="S", help="seconds that COMMAND has for an answer (300)")  # fmt: skip  # noqa: E501
    add("--seed", type=int, default=0, metavar="N", help="the seed of everything that gepa draws (0)")
    add_results_option(parser)
    add_json_option(parser)
    parser.set_defaults(pytest_options=())


def gepa(args: argparse.Namespace) -> int:
    """Optimize the prompt files; 0 where they now hold a candidate that scores better, 1 where none did."""
    try:
        from gepa import optimize  # type: ignore[attr-defined]  # it has no __all__
    except ImportError:
        raise UsageMistake(
            "agenteval gepa needs gepa: expected it installed; found none; "
            "pip install 'pytest-agenteval[gepa]'"
        ) from None
    from pytest_agenteval.loop.gepa_adapter import GEPADocument
    from pytest_agenteval.loop.improve.coding_agent import missing_command

    if missing := missing_command(args.reflection, Path.cwd()):
        raise UsageMistake(f"--reflection: there is no command {missing!r}")
    adapter, reflection = _adapter(args), _Reflection(args.reflection, args.timeout)
    optimizer: Callable[..., Any] = optimize
    result = optimizer(
        seed_candidate=adapter.seed_candidate,
        trainset=adapter.trainset,
        valset=adapter.valset,
        adapter=adapter,
        reflection_lm=reflection,
        stop_callbacks=[
            lambda _: adapter.trials >= args.max_trials or adapter.refused_in_a_row >= MOST_REFUSED,
            lambda _: reflection.is_given_up,
        ],
        # A candidate is refused by an exception of the adapter; gepa is to go on with others.
        raise_on_exception=False,
        logger=_GEPALog(),
        seed=args.seed,
    )
    best = result.best_idx
    # Without answers there was no other candidate: that is a failure, and no result.
    if reflection.is_given_up and best == 0:
        raise AgentEvalError(f"{reflection.failure} ({MOST_UNANSWERED} questions in a row)")
    document = GEPADocument(
        suite=args.suite,
        candidates=result.num_candidates,
        refused=adapter.refused,
        trials=adapter.trials,
        score_before=result.val_aggregate_scores[0],
        score_best=result.val_aggregate_scores[best],
        validation_tasks=len(adapter.valset),
        changed=tuple(
            path for path, text in result.candidates[best].items() if text != adapter.seed_candidate[path]
        ),
    )
    adapter.write(result.candidates[best])
    if args.json:
        write_document(args.json, document)
    if args.json != STDOUT:
        print_lines(map(StyledLine, _gepa_lines(document)))
    return 0 if document.changed else NOTHING_BETTER


def _adapter(args: argparse.Namespace) -> GEPAAdapter:
    from pytest_agenteval.cli.suite_files import one_suite
    from pytest_agenteval.loop.gepa_adapter import GEPAAdapter

    here = Path.cwd()
    paths = [path for glob in args.prompts for path in here.glob(glob) if path.is_file()]
    files = {path.relative_to(here).as_posix() for path in paths}
    if not files:
        raise UsageMistake(
            f"--prompts: expected files below {here}; found none like {', '.join(args.prompts)}"
        )
    return GEPAAdapter(
        one_suite(args.suite).path.parent,
        sorted(files),
        options=args.pytest_options,
        repetitions=args.repetitions,
        results=args.results,
        seed=args.seed,
    )


class _GEPALog:
    """Writes gepa's own log to the standard error, one line for each message."""

    def log(self, message: str) -> None:
        # The message before a traceback says what happened.
        if not message.startswith("Traceback"):
            print(f"gepa: {one_line(message, MOST_GEPA_LINE)}", file=sys.stderr)


class _Reflection:
    """Answers gepa's questions by the user's command; given up where it answers none of several in a row."""

    def __init__(self, command: str, timeout: float) -> None:
        self._command, self._timeout = command, timeout
        self._unanswered: dict[str, str] = {}

    @property
    def is_given_up(self) -> bool:
        """Whether so many questions in a row had no answer that further ones are not worth trying."""
        return len(self._unanswered) >= MOST_UNANSWERED

    @property
    def failure(self) -> str:
        return next(reversed(self._unanswered.values()), "")

    def __call__(self, prompt: Any) -> str:
        """Answer one question; raises AgentEvalError where the command gives no answer."""
        text = prompt if isinstance(prompt, str) else "\n\n".join(str(part["content"]) for part in prompt)
        failure = ""
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
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
                failure = f" ended with exit status {done.returncode}: {one_line(last, MOST_GEPA_LINE)}"
        except subprocess.TimeoutExpired:
            failure = f": no answer within {self._timeout:g} s"
        if failure:
            self._unanswered[text] = f"--reflection{failure}"
            raise AgentEvalError(self._unanswered[text])
        self._unanswered.clear()
        return done.stdout


def _gepa_lines(document: GEPADocument) -> Sequence[str]:
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


def feedback_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("run", nargs="?", default=LATEST, metavar="RUN", help="the run (default: latest)")
    add("-o", "--output", metavar="DIR", help="the folder for feedback.md and feedback.json (default: print the Markdown)")  # fmt: skip  # noqa: E501
    add("--suite", default="", metavar="SUITE", help="only this suite")
    add(
        "--bucket", action="append", default=[], metavar="BUCKET", help="only this bucket; may be given again"
    )
    add("--grader", default="", metavar="GRADER", help="only trials that this grader did not pass")
    add("--trials", type=positive_int, default=TRIALS, metavar="N", help=f"the most failing trials of a bucket ({TRIALS})")  # fmt: skip  # noqa: E501
    add("--model", metavar="MODEL", help="the model, where the run has several")
    add(
        "--variant",
        metavar="NAME",
        help="the prompt variant, where the run has several (base: the agent's)",
    )
    add("--prompts", action="append", default=[], metavar="GLOB", help="the prompt files; may be given again (default: those that suites name, and those beside the agent's module)")  # fmt: skip  # noqa: E501
    add("--budget", type=positive_int, default=BUDGET, metavar="TOKENS", help=f"the most tokens of the Markdown ({BUDGET})")  # fmt: skip  # noqa: E501
    add("--guide", metavar="FILE", help="your own page on writing prompts, in place of ours")
    add("--template", metavar="FILE", help="your own jinja template of the Markdown, in place of ours")
    add("--log", metavar="FILE", help="the log.json of agenteval improve: what earlier rounds tried")
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
        _earlier_rounds(args.log),
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


def _earlier_rounds(file: str | None) -> list[EarlierRound]:
    if not file:
        return []
    rounds = []
    try:
        for data in json.loads(_file_text(file))["rounds"]:
            # Feedback must hold nothing of held-out tasks: no verdict on them, and no diff that copies them.
            tried = data.get("dev") or data.get("screen") or {}
            each = {
                "number": data["number"],
                "summary": data.get("last_line", ""),
                "decision": ": ".join(filter(None, (data.get("decision", ""), data.get("reason", "")))),
                "diff": "" if data.get("leaks_held_out") else data.get("diff", ""),
                "sentence": tried.get("sentence", ""),
            }
            rounds.append(EarlierRound.from_json(each))
    # The file may be any JSON, or none.
    except (ValueError, LookupError, TypeError, AttributeError) as broken:
        raise UsageMistake(
            f"{file}: expected the log.json of agenteval improve, with `rounds`; found {broken}"
        ) from None
    return rounds
