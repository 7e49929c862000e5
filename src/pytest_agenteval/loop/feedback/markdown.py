"""Feedback as Markdown, and as files for whoever changes the prompts.

What a trial, a task or a coding command wrote is data. In a line of ours it stands in a code span; of its own
lines each begins with ``| `` within a fence: none of them ends it, makes a heading, or looks like ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.loop.feedback.content import (
    BucketFeedback,
    Feedback,
    GraderCount,
    PromptFile,
    Section,
    TrialFeedback,
)
from pytest_agenteval.reports.exports.document_text import document_text
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import ending_word, format_figure, one_line, pluralize, printable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from jinja2 import Template

MARKDOWN_FILE, JSON_FILE = "feedback.md", "feedback.json"
DATA_MARK = "| "
MOST_NAME = 1000
FENCE = "```"

TITLES: Mapping[str, str] = {
    "input": "input",
    "checks": "failed checks",
    "reasons": "judges' reasons",
    "calls": "calls in order",
    "reference": "the reference solution (one way of many)",
    "files": "workspace changes",
    "answer": "answer",
}


def feedback_markdown(feedback: Feedback) -> str:
    """Write feedback as Markdown in which texts of trials are data, and no secret stands.

    Raises UsageMistake where a template that replaces ours cannot be filled in.
    """
    try:
        text = _template(feedback.template).render(feedback=feedback)
    except Exception as wrong:
        if not feedback.template:  # ours: no mistake of whoever calls
            raise
        line = getattr(wrong, "lineno", None)
        place = f", line {line}" if line else ""
        raise UsageMistake(
            f"the template of feedback{place}: {one_line(str(wrong), MOST_NAME)}; it is given `feedback`"
        ) from None
    return KNOWN_SECRETS.text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


@cache
def own_text(name: str) -> str:
    """Read a text of ours: the template or the guide."""
    return files("pytest_agenteval").joinpath(f"loop/feedback/templates/{name}").read_text(encoding="utf-8")


@cache
def _template(text: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        code=code_span,
        data=data_block,
        trial=trial_block,
        figure=format_figure,
        ending=lambda trial: ending_word(trial.ending, trial.score),
        counted=pluralize,
        not_shown=not_shown,
        by_folder=by_folder,
        by_rule=by_rule,
        particular=particular_prompts,
    )
    return environment.from_string(text or own_text("feedback.md.jinja"))


def code_span(text: Any) -> str:
    """Put a foreign text on one line of Markdown, where nothing of it acts."""
    return f"`{one_line(str(text), MOST_NAME).replace('`', chr(39)) or ' '}`"


def data_block(lines: str | Sequence[str]) -> str:
    """Put foreign lines into a fence, each behind a mark, so that none of them ends it."""
    return _fenced(DATA_MARK + line for line in _lines(lines))


def _lines(lines: str | Sequence[str]) -> list[str]:
    return [printable(line) for line in (lines.splitlines() if isinstance(lines, str) else lines)]


def _fenced(lines: Iterator[str]) -> str:
    return "\n".join((f"{FENCE}text", *lines, FENCE))


def trial_block(trial: TrialFeedback) -> str:
    """Put a trial into one fence: titles of ours, and below each what was recorded, marked as data."""
    return _fenced(_trial_lines(trial))


def _trial_lines(trial: TrialFeedback) -> Iterator[str]:
    given = [section for section in trial.sections if section.kind == "input"]
    yield from (line for section in given for line in _section_lines(section))
    if wrong := trial.first_wrong:
        yield f"first decision that went wrong (told by: {wrong.basis})"
        yield from (DATA_MARK + line for line in _lines(wrong.text))
    yield from (
        line for section in trial.sections if section not in given for line in _section_lines(section)
    )


def _section_lines(section: Section) -> Iterator[str]:
    title, left_out = TITLES[section.kind], section.left_out
    if not section.lines:
        yield f"{title}: {pluralize(left_out, 'line')} left out"
        return
    yield title
    yield from (DATA_MARK + line for line in _lines(section.lines))
    if left_out:
        yield f"(and {pluralize(left_out, 'more line')})"


def not_shown(bucket: BucketFeedback) -> str:
    """Say how many failing trials of a bucket are not shown, and whether they are of other tasks."""
    tasks = bucket.failing_tasks - len({trial.name.rpartition("[")[0] for trial in bucket.failing})
    what = f"of {pluralize(tasks, 'more task')}" if tasks > 0 else "repetitions of what is shown"
    return f"{pluralize(bucket.more, 'more failing trial')} of this bucket, {what}"


def by_folder(prompts: Sequence[PromptFile]) -> list[tuple[str, str, list[PromptFile]]]:
    """Put prompts of one folder together that as many trials read, with what is known of that."""
    groups: dict[tuple[str, str], list[PromptFile]] = {}
    for prompt in prompts:
        folder = prompt.file.rpartition("/")[0] if prompt.file else ""
        groups.setdefault((folder, _reads(prompt)), []).append(prompt)
    return [(*key, group) for key, group in groups.items()]


def _reads(prompt: PromptFile) -> str:
    if prompt.read_in is None:
        return ""
    return f"read in {pluralize(prompt.read_in, 'trial')}" if prompt.read_in else "not read in these trials"


def by_rule(
    graders: Sequence[GraderCount], explained: Sequence[str] = ()
) -> list[tuple[str, list[GraderCount]]]:
    """Put graders together that ask the same: what they ask, or nothing where ``explained``, and they."""
    groups: dict[str, list[GraderCount]] = {}
    for grader in graders:
        groups.setdefault("" if grader.grader in explained else grader.asks, []).append(grader)
    return list(groups.items())


def particular_prompts(trial: TrialFeedback, feedback: Feedback) -> list[str]:
    """Give the prompts that a trial read and another one of its agent did not, or not before that reply."""
    buckets = [bucket for bucket in feedback.buckets if trial in (*bucket.failing, bucket.passing)]
    suites = {bucket.suite for bucket in buckets}
    trials = [
        each
        for bucket in feedback.buckets
        if bucket.suite in suites
        for each in (*bucket.failing, *filter(None, (bucket.passing,)))
    ]
    return [name for name in trial.prompts_read if any(name not in each.prompts_read for each in trials)]


def write_feedback(feedback: Feedback, folder: Path) -> None:
    """Write ``feedback.md`` and ``feedback.json`` into a folder, which is made where it is not there.

    Raises UsageMistake where that cannot be.
    """
    texts = {MARKDOWN_FILE: feedback_markdown(feedback), JSON_FILE: "".join(document_text(feedback))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_text(folder / name, text)  # a full disk leaves what is there
    except OSError as refused:
        raise UsageMistake(f"{folder}: cannot be written ({refused.strerror})") from None
