"""The log of an improvement, for whoever checks what was done, and for programs; and where it goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.loop.improve.progress import Improvement, Round, StartRun, TriedPair
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.records.transcript import Figure, format_cost, format_tokens
from pytest_agenteval.reports.exports.document_text import document_text
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import (
    escape_markdown,
    format_duration,
    format_figure,
    pluralize,
    printable,
)
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

STATE, LOG, LOG_JSON = "state.json", "log.md", "log.json"
MOST_NAMES = 5
MOST_SENTENCE = 2_000
MOST_DIFF = 20_000
"""Characters of a diff in the log; git has all of it."""


def write_log(improvement: Improvement, folder: Path) -> None:
    """Write how far an improvement is: what goes on from there, and both logs, without secrets.

    Raises UsageMistake where a file cannot be written.
    """
    texts = {
        STATE: json.dumps(jsonable(improvement), ensure_ascii=False) + "\n",
        LOG_JSON: "".join(document_text(improvement)),
        LOG: KNOWN_SECRETS.text("\n".join(log_lines(improvement)) + "\n"),
    }
    try:
        for name, text in texts.items():
            replace_text(folder / name, text)
        os.chmod(folder / STATE, 0o600)  # the command stands there as it was typed, a key in it too
    except OSError as refused:
        raise UsageMistake(f"{folder}: cannot be written ({refused.strerror})") from None


def read_state(folder: Path) -> Improvement:
    """Read how far an improvement is; raises UsageMistake where the file is missing or damaged."""
    path = folder / STATE
    try:
        return from_builtins(Improvement, json.loads(path.read_text(encoding="utf-8")), strict=False)
    except (OSError, ValueError) as broken:
        why = broken.strerror if isinstance(broken, OSError) else broken
        raise UsageMistake(f"{path}: expected how far an improvement is; it cannot be read ({why})") from None


def log_lines(improvement: Improvement) -> Iterator[str]:
    """Give the log as lines of Markdown."""
    yield f"# {escape_markdown(improvement.name)}: {escape_markdown(improvement.suite)}"
    yield ""
    yield f"{_outcome(improvement)}"
    yield ""
    yield from _settings_lines(improvement)
    for each in improvement.rounds:
        yield ""
        yield from _round(each)
    yield from _held_out(improvement)
    yield from _next(improvement)


def _outcome(improvement: Improvement) -> str:
    trials, seconds = pluralize(improvement.trials, "trial"), format_duration(improvement.seconds)
    words = improvement.outcome or "under way, or interrupted"
    ended = f" ({escape_markdown(improvement.ended)})" if improvement.ended else ""
    return f"**{words}**{ended}; {trials}, {seconds}"


def _settings_lines(improvement: Improvement) -> Iterator[str]:
    limits = improvement.limits
    yield f"- began {improvement.started_at} at commit `{improvement.start}`"
    yield f"- coding agent: {_code(improvement.command)}"
    yield f"- prompts: {', '.join(map(_code, improvement.globs))}"
    yield f"- focus: {', '.join(map(_code, improvement.focus)) or 'not chosen yet'}"
    yield f"- {pluralize(limits.rounds, 'round')} at most, {pluralize(improvement.repetitions, 'repetition')}"
    if improvement.options:
        yield f"- options for pytest: {', '.join(map(_code, improvement.options))}"
    if improvement.start_run:
        start = improvement.start_run
        yield f"- start: {_code(start.run)}, score {format_figure(start.score)}, {_spent(start)}"


def _round(each: Round) -> Iterator[str]:
    yield f"## Round {each.number}: {each.decision or 'interrupted'}"
    yield ""
    if each.reason:
        yield f"{_sentence(each.reason)}."
        yield ""
    said = f", its last line: {escape_markdown(each.last_line)}" if each.last_line else ""
    yield f"- coding agent: {format_duration(each.coding_seconds)}{said}"
    if each.meanwhile:
        names = ", ".join(map(_code, each.meanwhile[:MOST_NAMES]))
        count = pluralize(len(each.meanwhile), "file")
        yield f"- meanwhile {count} of your own checkout changed, by it or by somebody else: {names}"
    if each.step != "coding" or each.decision:
        yield f"- files: {', '.join(map(_code, each.files)) or 'none'}"
        yield f"- leaks: {'; '.join(map(escape_markdown, each.leaks)) or 'none'}"
    for name, tried in (("screen, focus only", each.screen), ("dev split", each.dev)):
        if tried is not None:
            yield from _tried(name, tried)
    if each.diff:
        yield ""
        yield from _diff(each.diff)


def _tried(name: str, tried: TriedPair) -> Iterator[str]:
    yield f"- {name}: {_sentence(tried.reason)}"
    yield f"  - {_sentence(tried.sentence)}"
    yield from (f"  {line}" for line in _spending(tried))
    if tried.note and tried.decision != "discarded":
        yield f"  - {_sentence(tried.note)}"


def _spending(tried: TriedPair) -> Iterator[str]:
    how = "in one run" if tried.in_one_run else "in two runs at the same time"
    yield f"- old and new {how}: {', '.join(map(_code, tried.runs))}"
    yield f"- x {tried.repetitions}: {_spent(tried)}"


def _spent(tried: TriedPair | StartRun) -> str:
    spent, seconds = tried.spent, tried.seconds
    tokens, cost = Figure(spent.tokens, spent.untold), Figure(spent.usd, spent.unpriced)
    parts = (pluralize(spent.trials, "trial"), format_tokens(tokens), format_cost(cost))
    return ", ".join((*parts, format_duration(seconds)))


def _held_out(improvement: Improvement) -> Iterator[str]:
    held_out = improvement.held_out
    if held_out is None:
        return
    yield ""
    yield "## Held-out tasks"
    yield ""
    confirmation = held_out.confirmation
    words = "better on held-out tasks" if confirmation and confirmation.confirmed else improvement.outcome
    yield f"{words or 'not confirmed'}: {_sentence(held_out.reason)}."
    if confirmation is not None:
        yield ""
        yield f"- look {confirmation.looks} at this split: each test at p {confirmation.level:.3g}, two-sided"
        for test in confirmation.tests:
            figures = f"{format_figure(test.old)} -> {format_figure(test.new)}"
            verdict = "confirmed" if test.confirmed else "not confirmed"
            tasks = pluralize(test.tasks, "task")
            yield f"- {escape_markdown(test.name)}: {figures} over {tasks}, p {test.p:.3g}: {verdict}"
    if held_out.tried is not None:
        yield from _spending(held_out.tried)
        yield f"- {_sentence(held_out.tried.sentence)}"


def _next(improvement: Improvement) -> Iterator[str]:
    yield ""
    yield "## What there is now"
    yield ""
    if not improvement.has_kept:
        yield "No branch: nothing was kept."
        return
    yield f"The branch `{improvement.branch}` holds what was kept, one commit a round. Nothing was merged."
    yield ""
    yield f"    git diff {improvement.start[:12]}..{improvement.branch}"
    yield f"    git merge {improvement.branch}"


def _sentence(text: str) -> str:
    """Write a sentence of ours, in which names are foreign; ``->`` and ``<0.001`` can stay as they are."""
    return escape_markdown(text, MOST_SENTENCE).replace("-&gt;", "->").replace("&lt;0", "<0")


def _code(text: str) -> str:
    """Put foreign text into a code span, in which only backticks could act."""
    line = printable(" ".join(text.split()))[:300].replace("`", "'")
    return f"`{line}`" if line else "(empty)"


def _diff(diff: str) -> Iterator[str]:
    text = printable(diff[:MOST_DIFF])
    fence = "`" * max(3, 1 + max((len(run) for run in _backticks(text)), default=0))
    yield f"{fence}diff"
    yield from text.splitlines()
    yield fence
    if len(diff) > MOST_DIFF:
        yield f"({len(diff) - MOST_DIFF:,} characters more: `git show` has them)"


def _backticks(text: str) -> Iterator[str]:
    run = ""
    for char in text:
        run = run + char if char == "`" else ""
        yield run
