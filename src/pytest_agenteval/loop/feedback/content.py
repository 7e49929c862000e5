"""What feedback holds: plain frozen values, as ``feedback.json`` has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pytest_agenteval.records.record import NOTHING, Document, FrozenValue, Record
from pytest_agenteval.reports.run_view import acting_model

BUDGET = 12_000
LEAST_BUDGET = 1_500
TRIALS = 3

SectionKind = Literal["input", "checks", "reasons", "calls", "reference", "files", "answer"]
Basis = Literal["check", "tool error", "passing trial", "reference", "limit", "nothing"]
"""What tells which decision went wrong first; ``nothing`` where nobody can tell."""


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
    """A bucket of which no more than its figures are told."""

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

    ``buckets`` are those with failing trials, worst first; ``in_brief`` those below for which there was no
    room, ``passed`` those that passed in full. ``graders`` counts over all of them. ``errored`` and
    ``left_out`` say in words which trials are in no figure. ``prompt_reads`` says what is known of which
    prompts were read. ``guide`` and ``template`` are texts; the template is empty where it is ours.
    ``grader`` is the one whose failing trials alone are shown; empty for all. ``own_models`` are those that
    the agent asked by itself.
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

    @property
    def acting_model(self) -> str:
        """The model as tables name it: ``own: gpt-6`` where the agent chose it."""
        return acting_model(self.model, self.own_models)
