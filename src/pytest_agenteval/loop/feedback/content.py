"""The values of feedback, as ``feedback.json`` has them, and the same as Markdown.

Texts of a trial, a task or a coding agent are data. In a line of ours they stand in a code span. Lines of
their own stand in a fence, each after ``| ``: so none of them can end the fence, make a heading, or look like
a line of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_agenteval.records.record import NOTHING, Document, FrozenValue, Record
from pytest_agenteval.reports.exports.document_text import document_text
from pytest_agenteval.reports.run_view import acting_model
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.formatting import (
    code_span,
    ending_word,
    format_figure,
    one_line,
    pluralize,
    printable,
)
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from jinja2 import Template


BUDGET = 12_000
TRIALS = 3

SectionKind = Literal["input", "comment", "checks", "reasons", "calls", "reference", "files", "answer"]
# What shows which decision went wrong first; ``nothing`` if nothing does.
Basis = Literal["check", "tool error", "passing trial", "reference", "limit", "nothing"]


class FeedbackOptions(FrozenValue, frozen=True):
    """Which trials feedback is about, and how much it may hold.

    ``buckets`` are names, with or without ``suite/`` before them; empty means all. ``grader`` leaves only
    trials that this grader did not pass. ``trials`` is the most failing trials of a bucket. ``model`` and
    ``variant`` may be None where the run has one of them; the variant ``""`` is the agent's own prompts.
    ``budget`` is tokens. ``guide`` and ``template`` are texts that replace ours, empty for ours. ``prompts``
    are the prompt files by their paths; empty where they are to be looked for. ``root`` is the folder from
    which the run's task files are named: pytest's rootdir; None is the current one.
    """

    suite: str = ""
    buckets: tuple[str, ...] = ()
    grader: str = ""
    trials: int = TRIALS
    model: str | None = None
    variant: str | None = None
    budget: int = BUDGET
    guide: str = ""
    template: str = ""
    prompts: Mapping[str, str] = NOTHING
    root: Path | None = None


DEFAULT_OPTIONS = FeedbackOptions()


class EarlierRound(Record, frozen=True):
    """What an earlier round tried, in a sentence, what was decided, and the verdict that decided it.

    ``diff`` is the change as a unified diff.
    """

    number: int
    summary: str = ""
    decision: str = ""
    diff: str = ""
    sentence: str = ""


class Section(Record, frozen=True):
    """One part of a trial as lines; ``left_out`` lines of it are not there."""

    kind: SectionKind
    lines: tuple[str, ...]
    left_out: int = 0


class FirstWrong(Record, frozen=True):
    """The first decision that went wrong, as far as ``basis`` can tell.

    ``call`` counts the trial's calls from 1; it is None where the decision is no call, or is not known.
    """

    basis: Basis
    text: str
    call: int | None = None


class TrialFeedback(Record, frozen=True):
    """One trial: which, how it ended, the first decision that went wrong, and what is there to look at."""

    name: str
    task: str
    ending: str
    score: float | None
    first_wrong: FirstWrong | None
    prompts_read: tuple[str, ...]
    sections: tuple[Section, ...]


class GraderCount(Record, frozen=True):
    """In how many of the bucket's trials that it decided a grader did not pass, and what it asks."""

    grader: str
    failed: int
    trials: int
    asks: str = ""


class CauseCount(Record, frozen=True):
    """Why trials did not pass, in one line, and how many of them; ``worst`` names one."""

    words: str
    trials: int
    tasks: int
    worst: str


class BucketFeedback(Record, frozen=True):
    """One bucket: its rule, its figures over trials of split dev, failing trials, and one that passed.

    ``rule`` is what the grader asks that failed most, in one sentence of its own; ``descriptions`` are those
    of tasks that failed. ``more`` failing trials are not shown; ``failing_tasks`` counts the tasks of all.
    """

    suite: str
    bucket: str
    score: float
    passed: int
    trials: int
    tasks: int
    rule: str
    graders: tuple[GraderCount, ...]
    failing: tuple[TrialFeedback, ...]
    passing: TrialFeedback | None = None
    more: int = 0
    descriptions: str = ""
    failing_tasks: int = 0


class BucketLine(Record, frozen=True):
    """A bucket of which only the figures are shown."""

    suite: str
    bucket: str
    score: float
    passed: int
    trials: int


class PromptFile(Record, frozen=True):
    """A prompt by the name under which the agent reads it, with the digest of its text.

    ``file`` is empty where it is not known. ``read_in`` trials of those that feedback is about read it; None
    where the run does not say. ``note`` says what else there is to know.
    """

    name: str
    digest: str
    file: str = ""
    read_in: int | None = None
    note: str = ""


class Cut(Record, frozen=True):
    """What was left out for want of room: where, what, and about how many tokens."""

    where: str
    what: str
    tokens: int = 0


class Feedback(Document, frozen=True, kw_only=True):
    """What a run teaches whoever changes the prompts.

    ``buckets`` are those with failing trials, worst first; ``in_brief`` those below for which there was
    no room, ``passed`` those that passed in full. ``graders`` counts over all of them; ``causes`` are why
    several trials of them did not pass, that of most trials first. ``errored`` and
    ``left_out`` describe the trials that are in no figure. ``prompt_reads`` describes which prompts were
    read, as far as it is known. ``guide`` and ``template`` are texts; the template is empty where it is
    ours. ``grader`` is the one whose failing trials alone are shown; empty for all. ``own_models`` are
    those that the agent called by itself.
    """

    run: str
    suites: tuple[str, ...]
    model: str
    variant: str
    budget: int
    buckets: tuple[BucketFeedback, ...]
    in_brief: tuple[BucketLine, ...]
    passed: tuple[BucketLine, ...]
    graders: tuple[GraderCount, ...]
    prompts: tuple[PromptFile, ...]
    prompt_reads: str
    errored: tuple[str, ...]
    left_out: tuple[str, ...]
    earlier_rounds: tuple[EarlierRound, ...]
    rules: tuple[str, ...]
    guide: str
    cuts: tuple[Cut, ...]
    template: str = ""
    grader: str = ""
    own_models: tuple[str, ...] = ()
    causes: tuple[CauseCount, ...] = ()

    @property
    def acting_model(self) -> str:
        """The model as tables name it: ``own: gpt-6`` where the agent chose it."""
        return acting_model(self.model, self.own_models)


MARKDOWN_FILE, JSON_FILE = "feedback.md", "feedback.json"
DATA_MARK = "| "
MOST_NAME = 1000
FENCE = "```"

TITLES: Mapping[str, str] = {
    "input": "input",
    "comment": "a person's comment on this trial",
    "checks": "failed checks",
    "reasons": "judges' reasons",
    "calls": "calls in order",
    "reference": "the reference solution (one way of many)",
    "files": "workspace changes",
    "answer": "answer",
}


def feedback_markdown(feedback: Feedback) -> str:
    """Write feedback as Markdown, with texts of trials as data and without secrets.

    Raises UsageMistake where a template of the user's own cannot be filled in.
    """
    try:
        text = _template(feedback.template).render(feedback=feedback)
    except Exception as wrong:
        # Our own template: then it is no mistake of the user, and the traceback is needed.
        if not feedback.template:
            raise
        line = getattr(wrong, "lineno", None)
        place = f", line {line}" if line else ""
        why = f"{one_line(str(wrong), MOST_NAME)}; it is given `feedback`"
        raise UsageMistake(f"the template of feedback{place}: {why}") from None
    # Sections that are empty leave blank lines behind.
    return KNOWN_SECRETS.text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


@cache
def own_text(name: str) -> str:
    return files("pytest_agenteval").joinpath(f"loop/feedback/templates/{name}").read_text(encoding="utf-8")


@cache
def _template(text: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    # Strict, so that a misspelt name in a user's template is an error and no blank.
    environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        code=lambda text: code_span(str(text), MOST_NAME),
        data=_data_block,
        trial=trial_block,
        figure=format_figure,
        ending=lambda trial: ending_word(trial.ending, trial.score),
        counted=pluralize,
        not_shown=not_shown,
        by_folder=by_folder,
        by_rule=by_rule,
        particular=_particular_prompts,
    )
    return environment.from_string(text or own_text("feedback.md.jinja"))


def _data_block(lines: str | Sequence[str]) -> str:
    """Put foreign lines into a fence, each after a mark, so that none of them ends it."""
    return _fenced(DATA_MARK + line for line in _lines(lines))


def _lines(lines: str | Sequence[str]) -> list[str]:
    return [printable(line) for line in (lines.splitlines() if isinstance(lines, str) else lines)]


def _fenced(lines: Iterator[str]) -> str:
    return "\n".join((f"{FENCE}text", *lines, FENCE))


def trial_block(trial: TrialFeedback) -> str:
    """Put a trial into one fence: titles of ours, and below each the recorded lines, marked as data."""
    return _fenced(_trial_lines(trial))


def _trial_lines(trial: TrialFeedback) -> Iterator[str]:
    # The input comes first, then what a person says and the decision, which only it makes clear.
    given = [section for section in trial.sections if section.kind in ("input", "comment")]
    yield from (line for section in given for line in _section_lines(section))
    if wrong := trial.first_wrong:
        basis = "unknown" if wrong.basis == "nothing" else f"found by: {wrong.basis}"
        yield f"first decision that went wrong ({basis})"
        yield from (DATA_MARK + line for line in _lines(wrong.text))
    others = [section for section in trial.sections if section not in given]
    yield from (line for section in others for line in _section_lines(section))


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
    # A trial is named TASK[MODEL-REPETITION].
    tasks = bucket.failing_tasks - len({trial.name.rpartition("[")[0] for trial in bucket.failing})
    what = f"of {pluralize(tasks, 'more task')}" if tasks > 0 else "repetitions of what is shown"
    return f"{pluralize(bucket.more, 'more failing trial')} of this bucket, {what}"


def by_folder(prompts: Sequence[PromptFile]) -> list[tuple[str, str, list[PromptFile]]]:
    """Group the prompts of one folder that as many trials read."""
    groups: dict[tuple[str, str], list[PromptFile]] = {}
    for prompt in prompts:
        reads = (
            f"read in {pluralize(prompt.read_in, 'trial')}" if prompt.read_in else "not read in these trials"
        )
        key = (prompt.file.rpartition("/")[0], "" if prompt.read_in is None else reads)
        groups.setdefault(key, []).append(prompt)
    return [(*key, group) for key, group in groups.items()]


def by_rule(
    graders: Sequence[GraderCount], explained: Sequence[str] = ()
) -> list[tuple[str, list[GraderCount]]]:
    """Group graders that ask the same; their question is left empty where ``explained`` names them."""
    groups: dict[str, list[GraderCount]] = {}
    for grader in graders:
        groups.setdefault("" if grader.grader in explained else grader.asks, []).append(grader)
    return list(groups.items())


def _particular_prompts(trial: TrialFeedback, feedback: Feedback) -> list[str]:
    """Give the prompts that a trial read and some other trial of its suite did not."""
    buckets = [bucket for bucket in feedback.buckets if trial in (*bucket.failing, bucket.passing)]
    suites = {bucket.suite for bucket in buckets}
    same_agent = [bucket for bucket in feedback.buckets if bucket.suite in suites]
    trials = [each for bucket in same_agent for each in (*bucket.failing, bucket.passing) if each]
    return [name for name in trial.prompts_read if any(name not in each.prompts_read for each in trials)]


def write_feedback(feedback: Feedback, folder: Path) -> None:
    """Write ``feedback.md`` and ``feedback.json`` into a folder, which is made if it is missing.

    Raises UsageMistake where a file cannot be written.
    """
    texts = {MARKDOWN_FILE: feedback_markdown(feedback), JSON_FILE: document_text(feedback)}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            # Written beside it and renamed, so that a full disk leaves the old file.
            replace_text(folder / name, text)
