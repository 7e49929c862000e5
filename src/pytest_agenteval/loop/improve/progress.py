"""How far an improvement has come: its settings, each round, what held-out tasks found; and its log.

Written after every step, so that whatever ends the process loses no more than the current step.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

from pytest_agenteval.loop.improve.acceptance import Confirmation
from pytest_agenteval.loop.improve.paired_runs import Spent
from pytest_agenteval.records.record import Document, FrozenValue, from_builtins
from pytest_agenteval.records.transcript import Figure, format_cost, format_tokens
from pytest_agenteval.reports.exports.document_text import document_text
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.formatting import (
    code_span,
    escape_markdown,
    format_duration,
    format_figure,
    one_line,
    pluralize,
    printable,
)
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

# How much of a round is done: nothing for certain, the change, the run of the focus, or everything.
Step = Literal["coding", "changed", "screened", "decided"]

Decision = Literal["", "kept for now", "discarded", "refused", "nothing changed"]
Outcome = Literal["", "confirmed", "kept on dev, not confirmed", "nothing kept"]

STATE, LOG, LOG_JSON = "state.json", "log.md", "log.json"
MOST_NAMES = 5
MOST_SENTENCE = 2_000
# Characters of a line on the screen, and columns: of a line, and of the step that it begins with.
MOST_LINE = 1000
WIDTH, STEP = 100, 9
# Characters of a diff in the log; git has all of it.
MOST_DIFF = 20_000


class Limits(FrozenValue, frozen=True):
    """How far an improvement may go: rounds, trials in all, seconds of the coding agent; None: no limit."""

    rounds: int
    max_rounds: int | None
    max_trials: int | None
    coding_timeout: float


class TriedPair(FrozenValue, frozen=True):
    """What came of trying old and new: ``sentence`` is the comparison's verdict.

    ``focus_old`` and ``focus_new`` are means over the focus's tasks. ``note`` is what makes it doubtful.
    """

    runs: tuple[str, ...]
    sentence: str
    decision: str
    reason: str
    focus_old: float | None
    focus_new: float | None
    repetitions: int
    in_one_run: bool
    spent: Spent
    seconds: float
    note: str = ""

    @property
    def words(self) -> str:
        """The reason, with what makes it doubtful."""
        return f"{self.reason}; {self.note}" if self.note else self.reason


class Round(FrozenValue, frozen=True):
    """One round: the change, the decision on it, and why.

    ``base`` and ``commit`` are commits, the latter empty until a change is made. ``last_line`` is the
    last that the coding agent printed. ``leaks`` are quoted as ``file:line: what``. ``meanwhile`` names
    files of the user's own checkout that were changed while the coding agent worked: by it, or by anybody
    else.
    """

    number: int
    base: str
    step: Step = "coding"
    decision: Decision = ""
    reason: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    diff: str = ""
    last_line: str = ""
    coding_seconds: float = 0.0
    meanwhile: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    leaks_held_out: bool = False
    screen: TriedPair | None = None
    dev: TriedPair | None = None


class StartRun(FrozenValue, frozen=True):
    """The run that the first feedback is about, and the mean score of its trials."""

    run: str
    score: float | None
    spent: Spent
    seconds: float


class HeldOut(FrozenValue, frozen=True):
    """Held-out tasks at the start against all accepted changes; None where they were not run."""

    reason: str
    confirmation: Confirmation | None = None
    tried: TriedPair | None = None


class Improvement(Document, frozen=True, kw_only=True):
    """How prompts were improved: the request, the result of each round, and what held-out tasks confirm.

    ``folder`` is where the user stood, ``suite_file`` which suite it is, both from the top of the
    repository. ``globs`` match the files that are prompts, from that folder. ``start`` and ``kept`` are
    commits; ``branch`` points to the second as soon as a round is accepted. ``feedback_run`` and
    ``feedback_variant`` are what the next feedback is about. ``ended`` is the reason why no further round
    began.
    """

    name: str
    started_at: str
    command: str
    suite: str
    suite_file: str
    folder: str
    globs: tuple[str, ...]
    focus: tuple[str, ...]
    repetitions: int
    limits: Limits
    options: tuple[str, ...]
    results: str
    branch: str
    start: str
    kept: str
    start_run: StartRun | None = None
    feedback_run: str = ""
    feedback_variant: str = ""
    rounds: tuple[Round, ...] = ()
    ended: str = ""
    held_out: HeldOut | None = None
    outcome: Outcome = ""
    trials: int = 0
    seconds: float = 0.0

    @property
    def has_accepted(self) -> bool:
        """Whether any round was accepted."""
        return self.kept != self.start

    @property
    def rounds_without_keep(self) -> int:
        """How many of the last rounds in a row were not accepted."""
        without = 0
        for each in reversed(self.rounds):
            # A round that is still going on ends the count as well.
            if each.step != "decided" or each.decision == "kept for now":
                break
            without += 1
        return without


def write_log(improvement: Improvement, folder: Path) -> None:
    """Write the state from which an improvement goes on, and both logs, without secrets.

    Raises UsageMistake where a file cannot be written.
    """
    texts = {
        STATE: json.dumps(jsonable(improvement), ensure_ascii=False) + "\n",
        LOG_JSON: document_text(improvement),
        LOG: KNOWN_SECRETS.text("\n".join(_log_lines(improvement)) + "\n"),
    }
    with writing(folder):
        for name, text in texts.items():
            replace_text(folder / name, text)
        # The state has the command as it was typed, with a key if there is one: it has to run again.
        os.chmod(folder / STATE, 0o600)


def read_state(folder: Path) -> Improvement:
    """Read the state of an improvement; raises UsageMistake where the file is missing or damaged."""
    path = folder / STATE
    try:
        return from_builtins(Improvement, json.loads(path.read_text(encoding="utf-8")), strict=False)
    except (OSError, ValueError) as broken:
        why = broken.strerror if isinstance(broken, OSError) else broken
        raise UsageMistake(
            f"{path}: expected the state of an improvement; it cannot be read ({why})"
        ) from None


def _log_lines(improvement: Improvement) -> Iterator[str]:
    yield f"# {escape_markdown(improvement.name)}: {escape_markdown(improvement.suite)}"
    yield ""
    words = improvement.outcome or "under way, or interrupted"
    ended = f" ({escape_markdown(improvement.ended)})" if improvement.ended else ""
    took = f"{pluralize(improvement.trials, 'trial')}, {format_duration(improvement.seconds)}"
    yield f"**{words}**{ended}; {took}"
    yield ""
    limits = improvement.limits
    yield f"- began {improvement.started_at} at commit `{improvement.start}`"
    yield f"- coding agent: {code_span(improvement.command)}"
    yield f"- prompts: {', '.join(map(code_span, improvement.globs))}"
    yield f"- focus: {', '.join(map(code_span, improvement.focus)) or 'not chosen yet'}"
    yield f"- {pluralize(limits.rounds, 'round')} at most, {pluralize(improvement.repetitions, 'repetition')}"
    if improvement.options:
        yield f"- options for pytest: {', '.join(map(code_span, improvement.options))}"
    if improvement.start_run:
        start = improvement.start_run
        yield f"- start: {code_span(start.run)}, score {format_figure(start.score)}, {_spent_text(start)}"
    for each in improvement.rounds:
        yield ""
        yield from _round_lines(each)
    yield from _held_out_lines(improvement)
    yield ""
    yield "## Result"
    yield ""
    if not improvement.has_accepted:
        yield "No branch: no change was accepted."
        return
    yield f"The branch `{improvement.branch}` has one commit for each accepted round. Nothing was merged."
    yield ""
    yield f"    git diff {improvement.start[:12]}..{improvement.branch}"
    yield f"    git merge {improvement.branch}"


def _round_lines(each: Round) -> Iterator[str]:
    yield f"## Round {each.number}: {each.decision or 'interrupted'}"
    yield ""
    if each.reason:
        yield f"{_markdown_sentence(each.reason)}."
        yield ""
    last = f", its last line: {escape_markdown(each.last_line)}" if each.last_line else ""
    yield f"- coding agent: {format_duration(each.coding_seconds)}{last}"
    if each.meanwhile:
        names = ", ".join(map(code_span, each.meanwhile[:MOST_NAMES]))
        count = pluralize(len(each.meanwhile), "file")
        yield f"- meanwhile {count} of your own checkout changed meanwhile: {names}"
    if each.step != "coding" or each.decision:
        yield f"- files: {', '.join(map(code_span, each.files)) or 'none'}"
        yield f"- leaks: {'; '.join(map(escape_markdown, each.leaks)) or 'none'}"
    for name, tried in (("screen, focus only", each.screen), ("dev split", each.dev)):
        if tried is not None:
            yield f"- {name}: {_markdown_sentence(tried.reason)}"
            yield f"  - {_markdown_sentence(tried.sentence)}"
            yield from (f"  {line}" for line in _spending_lines(tried))
            if tried.note and tried.decision != "discarded":
                yield f"  - {_markdown_sentence(tried.note)}"
    if each.diff:
        yield ""
        text = printable(each.diff[:MOST_DIFF])
        # A fence has to be longer than any row of backticks in the diff, else that would end it.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield f"{fence}diff"
        yield from text.splitlines()
        yield fence
        if len(each.diff) > MOST_DIFF:
            yield f"({len(each.diff) - MOST_DIFF:,} characters more: `git show` has them)"


def _spending_lines(tried: TriedPair) -> Iterator[str]:
    how = "in one run" if tried.in_one_run else "in two runs at the same time"
    yield f"- old and new {how}: {', '.join(map(code_span, tried.runs))}"
    yield f"- x {tried.repetitions}: {_spent_text(tried)}"


def _spent_text(tried: TriedPair | StartRun) -> str:
    spent, seconds = tried.spent, tried.seconds
    tokens, cost = Figure(spent.tokens, spent.untold), Figure(spent.usd, spent.unpriced)
    parts = (pluralize(spent.trials, "trial"), format_tokens(tokens), format_cost(cost))
    return ", ".join((*parts, format_duration(seconds)))


def _held_out_lines(improvement: Improvement) -> Iterator[str]:
    held_out = improvement.held_out
    if held_out is None:
        return
    yield ""
    yield "## Held-out tasks"
    yield ""
    confirmation = held_out.confirmation
    words = "better on held-out tasks" if confirmation and confirmation.confirmed else improvement.outcome
    yield f"{words or 'not confirmed'}: {_markdown_sentence(held_out.reason)}."
    if confirmation is not None:
        yield ""
        yield f"- look {confirmation.looks} at this split: each test at p {confirmation.level:.3g}, two-sided"
        for test in confirmation.tests:
            figures = f"{format_figure(test.old)} -> {format_figure(test.new)}"
            verdict = "confirmed" if test.confirmed else "not confirmed"
            tasks = pluralize(test.tasks, "task")
            yield f"- {escape_markdown(test.name)}: {figures} over {tasks}, p {test.p:.3g}: {verdict}"
    if held_out.tried is not None:
        yield from _spending_lines(held_out.tried)
        yield f"- {_markdown_sentence(held_out.tried.sentence)}"


def _markdown_sentence(text: str) -> str:
    """Escape a sentence of ours, in which names are foreign; ``->`` and ``<0.001`` stay readable."""
    return escape_markdown(text, MOST_SENTENCE).replace("-&gt;", "->").replace("&lt;0", "<0")


class StepLines:
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
