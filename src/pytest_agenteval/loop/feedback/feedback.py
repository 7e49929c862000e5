"""From a stored run to feedback: which trials, what of each, cut to what the budget allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from pytest_agenteval.discovery import installed_registry
from pytest_agenteval.errors import AgentEvalError, UsageMistake
from pytest_agenteval.loop.feedback.content import (
    DEFAULT_OPTIONS,
    BucketFeedback,
    BucketLine,
    Cut,
    EarlierRound,
    Feedback,
    FeedbackOptions,
    GraderCount,
    TrialFeedback,
)
from pytest_agenteval.loop.feedback.fitting import (
    brief,
    bucket_cost,
    bucket_cuts,
    fit_buckets,
    fit_lines,
    fit_rounds,
    lines_cost,
    rounds_cost,
    shares,
)
from pytest_agenteval.loop.feedback.grader_rules import grader_counts, rule_sentence
from pytest_agenteval.loop.feedback.markdown import feedback_markdown, own_text
from pytest_agenteval.loop.feedback.prompt_files import given_prompts, prompt_list, prompts_of_today
from pytest_agenteval.loop.feedback.repeated_lines import without_repeats
from pytest_agenteval.loop.feedback.selection import Bucket, Selection, select
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.loop.feedback.tokens import estimate_tokens
from pytest_agenteval.loop.feedback.trial_choice import different_trials, passing_trial
from pytest_agenteval.loop.feedback.trial_sections import trial_feedback
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.reports.trial.trial_view import trial_view
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.spec import Task

RULES = (
    "Make the smallest change that could mend a category of failures; do not rewrite what works.",
    "Change one component at a time: one prompt file, one idea.",
    "Put no eval case into a prompt: no task id, name, number, phrase or expected value that stands below. "
    "Write about the category, in words that hold for cases you have not seen.",
    "What passes has to stay: look at the passing trials and at the buckets that passed.",
    "Change prompt files only: no grader, no task, no fixture; code only where you were told to.",
    "Do not try again what an earlier round tried in vain.",
    "Where the prompt is not the reason (a tool that fails, a task or a grader that is wrong), change "
    "nothing for it and say so.",
)
"""What holds for whoever changes prompts because of feedback."""

LEAST_ROOM = 250
"""Tokens for buckets below which feedback says nothing."""

TOKENS_OF_A_NAME = 120
"""One bucket more is named for so many tokens of the budget."""

LEAST_NAMES = 5
TOKENS_OF_A_GRADER, LEAST_GRADERS = 700, 2
PARTS = (10.0, 2.0, 2.0)
"""How buckets, guide and earlier rounds share what is left of the budget."""

TRIES = 7
"""How often half of the room that is left in doubt is looked at."""


def make_feedback(
    run: Run, options: FeedbackOptions = DEFAULT_OPTIONS, earlier_rounds: Sequence[EarlierRound] = ()
) -> Feedback:
    """Say what the trials of split dev teach whoever changes the prompts, in as many tokens as are allowed.

    Raises UsageMistake for a name that the run does not have, where several models or variants could be
    meant, where no trial is of split dev, and where the budget holds nothing worth saying.
    """
    tasks = TodaysTasks(run, options.root)
    whole = _Whole(run, tasks, options, select(run, tasks, options))
    rounds = [_without_held_out(each, tasks.held_out_texts) for each in earlier_rounds]
    return _fitted(_clean(whole.feedback(rounds)))


def _clean(feedback: Feedback) -> Feedback:
    """Take secrets out before anything is cut: half of one is not known again."""
    return from_builtins(Feedback, KNOWN_SECRETS.value(to_builtins(feedback)))


def _without_held_out(each: EarlierRound, texts: frozenset[str]) -> EarlierRound:
    """Take lines out of an earlier round's texts that quote a held-out task."""
    quoted = {name: getattr(each, name) for name in ("summary", "decision", "diff", "sentence")}
    return replace(each, **{name: _unquoted(text, texts) for name, text in quoted.items()})


def _unquoted(text: str, texts: frozenset[str]) -> str:
    if not any(held_out in text for held_out in texts):
        return text
    lines = (
        "(a line that quotes a held-out task)" if any(held_out in line for held_out in texts) else line
        for line in text.splitlines()
    )
    return "\n".join(lines)


class _Whole:
    """All that could be said, before anything is cut."""

    def __init__(self, run: Run, tasks: TodaysTasks, options: FeedbackOptions, selection: Selection) -> None:
        self._run, self._tasks, self._options, self._selection = run, tasks, options, selection
        self._shown: list[Trial] = []

    @cached_property
    def _registry(self) -> Any:
        return installed_registry()

    def feedback(self, rounds: Sequence[EarlierRound]) -> Feedback:
        """Give everything, whatever it takes."""
        options, selection = self._options, self._selection
        failing = [bucket for bucket in selection.buckets if bucket.failing(options.grader)]
        passed = [bucket for bucket in selection.buckets if not bucket.failing()]
        buckets = without_repeats([self._bucket(bucket) for bucket in failing])
        prompts, reads = prompt_list(self._shown, self._prompts())
        return Feedback(
            run=self._run.name,
            suites=tuple(dict.fromkeys(bucket.suite for bucket in selection.buckets)),
            model=selection.model,
            variant=selection.variant,
            budget=options.budget,
            buckets=buckets,
            in_brief=(),
            passed=tuple(_line(bucket) for bucket in passed),
            graders=self._graders(selection.entries, buckets),
            prompts=prompts,
            prompt_reads=reads,
            errored=selection.errored,
            left_out=selection.left_out,
            earlier_rounds=tuple(rounds),
            rules=RULES,
            guide=(options.guide or own_text("guide.md")).strip(),
            cuts=(),
            template=options.template,
        )

    def _graders(
        self, entries: Sequence[JournalEntry], buckets: Sequence[BucketFeedback]
    ) -> tuple[GraderCount, ...]:
        """Count over all buckets which graders were not passed, with what each was said to ask."""
        asks = {grader.grader: grader.asks for bucket in reversed(buckets) for grader in bucket.graders}
        counts = grader_counts(entries, (), (), self._registry)
        return tuple(replace(count, asks=asks.get(count.grader, "")) for count in counts)

    def _prompts(self) -> Any:
        if self._options.prompts:
            return given_prompts(self._options.prompts)
        return prompts_of_today(self._selection.entries, self._tasks, self._agent)

    def _agent(self, name: str) -> Any:
        try:
            return self._registry.agent_factory(name)
        except AgentEvalError:
            return None

    def _bucket(self, bucket: Bucket) -> BucketFeedback:
        failing = bucket.failing(self._options.grader)
        chosen = different_trials(self._run, failing, self._options.trials)
        passing = passing_trial(self._run, bucket.entries, chosen)
        shown = [*chosen, *([passing] if passing else [])]
        self._shown += shown
        own = [task for entry in failing if (task := self._tasks.task(entry))]
        graders = grader_counts(bucket.entries, chosen, own, self._registry)
        return BucketFeedback(
            suite=bucket.suite,
            bucket=bucket.name,
            score=round(bucket.score, 4),
            passed=bucket.passed,
            trials=len(bucket.entries),
            tasks=bucket.tasks,
            rule=rule_sentence(own, graders),
            graders=graders,
            failing=tuple(self._failing(trial, bucket) for trial in chosen),
            passing=trial_feedback(_view(passing), self._task(passing), failed=False) if passing else None,
            more=len(failing) - len(chosen),
        )

    def _failing(self, trial: Trial, bucket: Bucket) -> TrialFeedback:
        same_task = (entry for entry in bucket.entries if entry.key.task == trial.key.task)
        other = passing_trial(self._run, same_task, [trial])
        view = _view(trial)
        return trial_feedback(view, self._task(trial), failed=True, passing=_view(other) if other else None)

    def _task(self, trial: Trial) -> Task | None:
        return self._tasks.task_named(trial.key.suite, trial.key.task)


def _view(trial: Trial) -> Any:
    return trial_view(redact_trial(trial))


def _line(bucket: Bucket) -> BucketLine:
    return BucketLine(bucket.suite, bucket.name, round(bucket.score, 4), bucket.passed, len(bucket.entries))


def _fitted(whole: Feedback) -> Feedback:
    """Cut feedback until its Markdown is within the budget; raises UsageMistake where that leaves nothing."""
    least = min(LEAST_ROOM, sum(map(bucket_cost, whole.buckets)))
    low, high = least, 1.5 * whole.budget
    best = _cut_to(whole, low)
    if _size(best) > whole.budget:
        enough = _enough(whole, least)
        raise UsageMistake(f"--budget {whole.budget}: too small to say anything; {enough:,} tokens would do")
    for _ in range(TRIES):
        cut = _cut_to(whole, (low + high) / 2)
        if _size(cut) <= whole.budget:
            best, low = cut, (low + high) / 2
        else:
            high = (low + high) / 2
    return best


def _enough(whole: Feedback, room: float) -> int:
    """Give a budget that holds so many tokens for buckets; with the budget grow the lists of names."""
    budget = whole.budget
    while (size := _size(_cut_to(replace(whole, budget=budget), room))) > budget:
        budget = 50 * math.ceil(size / 50)
    return budget


def _size(feedback: Feedback) -> int:
    return estimate_tokens(feedback_markdown(feedback))


def _cut_to(whole: Feedback, room: float) -> Feedback:
    """Give feedback whose buckets, guide and earlier rounds take about so many tokens."""
    guide = whole.guide.splitlines()
    needs = (sum(map(bucket_cost, whole.buckets)), lines_cost(guide), rounds_cost(whole.earlier_rounds))
    for_buckets, for_guide, for_rounds = shares(needs, PARTS, room)
    buckets = fit_buckets(whole.buckets, for_buckets)
    rounds = fit_rounds(whole.earlier_rounds, for_rounds)
    short_guide = fit_lines(guide, for_guide)
    names = max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)
    in_brief = [brief(bucket) for bucket in whole.buckets[len(buckets) :]]
    cut = replace(
        whole,
        buckets=tuple(buckets),
        in_brief=tuple(in_brief[:names]),
        passed=whole.passed[:names],
        graders=whole.graders[: max(LEAST_GRADERS, whole.budget // TOKENS_OF_A_GRADER)],
        prompts=whole.prompts[: max(LEAST_NAMES, whole.budget // TOKENS_OF_A_NAME)],
        earlier_rounds=tuple(rounds),
        guide="\n".join(short_guide).strip(),
    )
    return replace(cut, cuts=tuple(_cuts(whole, cut)))


def _cuts(whole: Feedback, cut: Feedback) -> Iterator[Cut]:
    yield from bucket_cuts(whole.buckets, cut.buckets)
    unnamed = len(whole.buckets) - len(cut.buckets) - len(cut.in_brief)
    if unnamed:
        yield Cut("buckets that are less bad", f"names of {unnamed}")
    if fewer := len(whole.passed) - len(cut.passed):
        yield Cut("buckets that passed", f"names of {fewer}")
    for where, before, after in (
        ("prompts", whole.prompts, cut.prompts),
        ("graders", whole.graders, cut.graders),
    ):
        if fewer := len(before) - len(after):
            yield Cut(where, f"{fewer} of {len(before)}")
    if lost := rounds_cost(whole.earlier_rounds) - rounds_cost(cut.earlier_rounds):
        gone = len(whole.earlier_rounds) - len(cut.earlier_rounds)
        what = (
            f"{gone} of {len(whole.earlier_rounds)} rounds, and lines of diffs" if gone else "lines of diffs"
        )
        yield Cut("earlier rounds", what, round(lost))
    if whole.guide != cut.guide:
        lines = len(whole.guide.splitlines()) - len(cut.guide.splitlines())
        yield Cut(
            "guide", f"{lines} lines at its end", estimate_tokens(whole.guide) - estimate_tokens(cut.guide)
        )
