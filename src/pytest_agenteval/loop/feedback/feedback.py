"""From a stored run to feedback: which trials, and what of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from pytest_agenteval.loop.feedback.budget import fitted
from pytest_agenteval.loop.feedback.content import (
    DEFAULT_OPTIONS,
    BucketFeedback,
    BucketLine,
    EarlierRound,
    Feedback,
    FeedbackOptions,
    GraderCount,
    TrialFeedback,
)
from pytest_agenteval.loop.feedback.decisions import changing_tools
from pytest_agenteval.loop.feedback.earlier_rounds import without_held_out
from pytest_agenteval.loop.feedback.grader_rules import grader_counts, rule_sentence, task_descriptions
from pytest_agenteval.loop.feedback.markdown import own_text
from pytest_agenteval.loop.feedback.prompt_files import given_prompts, prompt_list, prompts_of_today
from pytest_agenteval.loop.feedback.repeated_lines import without_repeats
from pytest_agenteval.loop.feedback.selection import Bucket, Selection, select
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.loop.feedback.trial_choice import different_trials, passing_trial
from pytest_agenteval.loop.feedback.trial_sections import trial_feedback
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue, from_builtins
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.reports.trial_view import TrialView, trial_view
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.redaction import KNOWN_SECRETS

RULES = (
    "Make the smallest change that could mend a category of failures; do not rewrite what works.",
    "Change one component at a time: one prompt file, one idea.",
    "Put no eval case into a prompt: no task id, name, number, phrase or expected value that stands below. "
    "Write about the category, in words that hold for cases you have not seen.",
    "What passes has to stay: look at the passing trials and at the buckets that passed.",
    "Change prompt files only: no grader, no task, no fixture; code only where you were told to.",
    "Do not try again what an earlier round tried in vain.",
    "Where the prompt is not the reason (a tool that is down, a task or a grader that is wrong), change "
    "nothing for it and say so. `not_recorded` and `bad_arguments` are no broken tool: the agent sent what "
    "no recording, or no schema, knows.",
)
"""What holds for whoever changes prompts because of feedback."""


def make_feedback(
    run: Run, options: FeedbackOptions = DEFAULT_OPTIONS, earlier_rounds: Sequence[EarlierRound] = ()
) -> Feedback:
    """Say what the trials of split dev teach whoever changes the prompts, in as many tokens as are allowed.

    Raises UsageMistake for a name that the run does not have, where several models or variants could be
    meant, where no trial is of split dev, and where the budget holds nothing worth saying.
    """
    tasks = TodaysTasks(run, options.root)
    whole = _Whole(run, tasks, options, select(run, tasks, options))
    return fitted(_clean(whole.feedback(without_held_out(earlier_rounds, tasks))))


def _clean(feedback: Feedback) -> Feedback:
    """Take secrets out before anything is cut: half of one is not known again."""
    return from_builtins(Feedback, KNOWN_SECRETS.value(to_builtins(feedback)))


class _Choice(FrozenValue, frozen=True):
    """A bucket with the trials of it that are shown."""

    bucket: Bucket
    failing: tuple[Trial, ...]
    passing: Trial | None

    @property
    def trials(self) -> list[Trial]:
        """All of them."""
        return [*self.failing, *filter(None, (self.passing,))]


class _Whole:
    """All that could be said, before anything is cut."""

    def __init__(self, run: Run, tasks: TodaysTasks, options: FeedbackOptions, selection: Selection) -> None:
        self._run, self._tasks, self._options, self._selection = run, tasks, options, selection
        self._views: dict[TrialKey, TrialView] = {}

    @cached_property
    def _registry(self) -> Any:
        return installed_registry()

    def feedback(self, rounds: Sequence[EarlierRound]) -> Feedback:
        """Give everything, whatever it takes."""
        options, selection = self._options, self._selection
        failing = [bucket for bucket in selection.buckets if bucket.failing(options.grader)]
        passed = [bucket for bucket in selection.buckets if not bucket.failing()]
        choices = [self._choice(bucket) for bucket in failing]
        shown = [trial for choice in choices for trial in choice.trials]
        changing = self._changing(shown)
        buckets = without_repeats([self._bucket(choice, changing) for choice in choices])
        prompts, reads = prompt_list(shown, self._prompts())
        return Feedback(
            run=self._run.name,
            suites=tuple(dict.fromkeys(bucket.suite for bucket in selection.buckets))
            or _suite_names(self._run),
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
            grader=options.grader,
            own_models=own_models_of(selection.entries),
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

    def _choice(self, bucket: Bucket) -> _Choice:
        failing = bucket.failing(self._options.grader)
        chosen = different_trials(self._run, failing, self._options.trials)
        return _Choice(bucket, tuple(chosen), passing_trial(self._run, bucket.entries, chosen))

    def _changing(self, trials: Iterable[Trial]) -> Mapping[str, frozenset[str]]:
        """Give by suite the tools that changed the workspace in any of these trials."""
        views: dict[str, list[TrialView]] = {}
        for trial in trials:
            views.setdefault(trial.key.suite, []).append(self._view(trial))
        return {suite: changing_tools(of_suite) for suite, of_suite in views.items()}

    def _bucket(self, choice: _Choice, changing: Mapping[str, frozenset[str]]) -> BucketFeedback:
        bucket, chosen, passing = choice.bucket, choice.failing, choice.passing
        failing = bucket.failing(self._options.grader)
        own = [task for entry in failing if (task := self._tasks.task(entry))]
        graders = grader_counts(bucket.entries, chosen, own, self._registry)
        tools = changing.get(bucket.suite, frozenset())
        return BucketFeedback(
            suite=bucket.suite,
            bucket=bucket.name,
            score=round(bucket.score, 4),
            passed=bucket.passed,
            trials=len(bucket.entries),
            tasks=bucket.tasks,
            rule=rule_sentence(graders, self._options.grader),
            descriptions=task_descriptions(own),
            failing_tasks=len({entry.key.task for entry in failing}),
            graders=graders,
            failing=tuple(self._failing(trial, bucket, tools) for trial in chosen),
            passing=trial_feedback(self._view(passing), self._task(passing), failed=False)
            if passing
            else None,
            more=len(failing) - len(chosen),
        )

    def _failing(self, trial: Trial, bucket: Bucket, changing: frozenset[str]) -> TrialFeedback:
        same_task = (entry for entry in bucket.entries if entry.key.task == trial.key.task)
        other = passing_trial(self._run, same_task, [trial])
        passing = self._view(other) if other else None
        task = self._task(trial)
        return trial_feedback(self._view(trial), task, failed=True, passing=passing, changing=changing)

    def _view(self, trial: Trial) -> TrialView:
        if trial.key not in self._views:
            self._views[trial.key] = trial_view(redact_trial(trial))
        return self._views[trial.key]

    def _task(self, trial: Trial) -> Task | None:
        return self._tasks.task_named(trial.key.suite, trial.key.task)


def _line(bucket: Bucket) -> BucketLine:
    return BucketLine(bucket.suite, bucket.name, round(bucket.score, 4), bucket.passed, len(bucket.entries))


def _suite_names(run: Run) -> tuple[str, ...]:
    """Name the suites of a run of which no trial is in any figure."""
    return tuple(suite.name for suite in run.header.suites)
