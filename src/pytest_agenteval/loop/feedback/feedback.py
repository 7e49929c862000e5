"""From a stored run to feedback: which trials, what their graders ask, which prompts were read."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from pytest_agenteval.agents.agent import agent_trait
from pytest_agenteval.loop.feedback.budget import fit_to_budget
from pytest_agenteval.loop.feedback.content import (
    DEFAULT_OPTIONS,
    BucketFeedback,
    BucketLine,
    CauseCount,
    EarlierRound,
    Feedback,
    FeedbackOptions,
    GraderCount,
    PromptFile,
    TrialFeedback,
    own_text,
)
from pytest_agenteval.loop.feedback.trial_sections import changing_tools, trial_feedback
from pytest_agenteval.loop.feedback.trial_selection import (
    BucketTrials,
    Selection,
    different_trials,
    hide_held_out,
    passing_trial,
    select_trials,
)
from pytest_agenteval.loop.todays_tasks import TodaysTasks, instructions
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.factories import InstanceFactory
from pytest_agenteval.records.plan import TrialKey, trial_name
from pytest_agenteval.records.prompts import ENDING
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.records.transcript import PROMPT_READ
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.reports.causes import causes_of
from pytest_agenteval.reports.trial_view import TrialView, trial_view
from pytest_agenteval.store.journal_entry import JournalEntry, own_models_of
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import first_few, one_line, pluralize
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS

# The folder beside an agent's module from which ``read_templates`` reads its prompts.
PROMPT_FOLDER = "prompts"

NOT_RECORDED = "not recorded: the agent reads its prompts by itself, or the run is of an earlier version"

# How many tasks' descriptions make up a bucket's rule.
MOST_TASKS = 3

MOST_RULE, MOST_ASKS = 220, 160
_FIRST_SENTENCE = re.compile(r"(?<=[.?!])\s")

# Rules for whoever changes prompts because of feedback.
RULES = (
    "Make the smallest change that could fix a category of failures; do not rewrite what works.",
    "Change one component at a time: one prompt file, one idea.",
    "Put no eval case into a prompt: no task id, name, number, phrase or expected value from below. "
    "Write about the category, in words that hold for cases you have not seen.",
    "What passes must keep passing: look at the passing trials and at the buckets that passed.",
    "Change prompt files only: no grader, no task, no fixture; code only if you are asked to.",
    "Do not repeat a change that failed in an earlier round.",
    "Where the prompt is not the reason (a tool that is down, a task or a grader that is wrong), change "
    "nothing for it and say so. `not_recorded` and `bad_arguments` do not mean a broken tool: the agent sent "
    "arguments that no recording has, or that break the tool's schema.",
)


def _prompts_of_today(
    entries: Sequence[JournalEntry], tasks: TodaysTasks, factory: Callable[[str], Any]
) -> list[PromptFile]:
    """Give the prompt files that suites and tasks name, and those beside the modules of agents.

    ``factory`` gives an agent's class by its name, or None where that is registered by a conftest.
    """
    files: dict[Path, str] = {}
    templates: dict[Path, str] = {}
    settings: dict[tuple[str, Path], str] = {}
    for agent in sorted({entry.key.agent for entry in entries}):
        named_by = []
        for loaded, of in tasks.tried([entry for entry in entries if entry.key.agent == agent]):
            named = tasks.prompt_files(loaded, of)
            named_by.append(set(named))
            files |= {path: name for name, path in named.items()}
            settings |= instructions(loaded, of)
        # A file that a suite or a task names replaces the agent's own: that one is not sent.
        replaced = set.intersection(*named_by) if named_by else set()
        own = _template_files(factory(agent))
        templates |= {path: name for name, path in own if name not in replaced}
    # Named files come first, as the text of an agent's own may be equal; their name for a file stays.
    files |= {path: name for path, name in templates.items() if path not in files}
    prompts = [
        PromptFile(name, json_digest(text), short_path(path), 0)
        for path, name in files.items()
        if (text := _prompt_text(path))
    ]
    # Long texts among settings are instructions too, but agents do not report reads of them.
    return prompts + [
        PromptFile(name, json_digest(text), short_path(path), note=f"`{name}`")
        for (name, path), text in settings.items()
    ]


def _template_files(agent: Any) -> Iterator[tuple[str, Path]]:
    """Give the files of an agent's own templates, as far as they lie where templates are read from."""
    if agent is None:
        return
    try:
        folder = Path(inspect.getfile(agent)).parent / PROMPT_FOLDER
    except TypeError:  # what is made in no file, or is no class
        return
    for name in agent_trait(agent, "templates") or ():
        path = folder / f"{name}{ENDING}"
        if path.is_file():
            yield name, path


def _prompt_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _prompt_list(
    trials: Sequence[Trial], today: Sequence[PromptFile], variant: str
) -> tuple[tuple[PromptFile, ...], str]:
    """Give the prompts that trials read, the most often read first, and a sentence on how that is known.

    Where no read is recorded these are the prompt files of today, of which ``read_in`` is None. ``variant``
    is that of the trials if ``--prompts`` did not name its files.
    """
    reads: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        events = (event for event in trial.transcript.events if event.kind == PROMPT_READ)
        # A set: a trial that reads a prompt for each reply read it once.
        reads.update({(event.text, str(event.details.get("digest", ""))) for event in events})
    if not reads:
        return tuple(replace(each, read_in=None) for each in today), NOT_RECORDED
    ordered = sorted(reads.items(), key=lambda read: (-read[1], read[0]))
    prompts = []
    for (name, mark), times in ordered:
        # The file with the same text, else the one of the same name, whose text has changed since.
        same = [each.file for each in today if each.digest == mark]
        # A run does not record a variant's files, and those of the suite are the wrong ones to change.
        named = [each.file for each in today if each.name == name and not variant]
        of_variant = f"a file of --agent-prompt {variant}; --prompts GLOB names it" if variant else ""
        note = "" if same else "the file has changed since" if named else of_variant or "its file is unknown"
        prompts.append(PromptFile(name, mark, (same or named or [""])[0], times, note))
    others = (each for each in today if all(each.name != name for name, _ in reads))
    return (*prompts, *others), f"recorded in {pluralize(len(trials), 'trial')} of these buckets"


def _grader_counts(
    entries: Sequence[JournalEntry], trials: Iterable[Trial], tasks: Iterable[Task], registry: Registry
) -> tuple[GraderCount, ...]:
    """Give the graders that some trial of a bucket did not pass, those that failed most often first.

    ``trials`` are the ones that are shown. Where a grader has no docstring, a failed claim of them says what
    it asks.
    """
    failed: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for entry in entries:
        failed.update(grade.grader for grade in entry.grades if grade.passed is False)
        decided.update(grade.grader for grade in entry.grades if grade.passed is not None)
    docs: dict[str, str] = {}
    for spec in (spec for task in tasks for spec in task.graders):
        # A group of graders is written as one, and grades under the names of its members.
        for name, label in registry.group(spec.name) or ((spec.name, spec.title),):
            docs[label] = _grader_doc(name, registry)
    claims: dict[str, str] = {}
    for grade in (grade for trial in trials for grade in trial.grades):
        if failed_of_grade := failed_checks(grade.checks):
            claims[grade.grader] = one_line(failed_of_grade[0].claim, MOST_ASKS)
    return tuple(
        GraderCount(name, times, decided[name], docs.get(name) or claims.get(name, ""))
        for name, times in failed.most_common()
    )


def _causes(entries: Sequence[JournalEntry], grader: str) -> tuple[CauseCount, ...]:
    """Give the causes of several trials each; with ``grader`` those that it found."""
    return tuple(
        CauseCount(one_line(cause.words, MOST_ASKS), cause.trials, cause.tasks, trial_name(cause.worst.key))
        for cause in causes_of([entries])
        if cause.trials > 1 and grader in ("", cause.grader)
    )


def _grader_doc(name: str, registry: Registry) -> str:
    """Give the first paragraph of a grader's docstring; empty for a grader that a conftest registers."""
    try:
        factory: Any = registry.grader_factory(name)
    except AgentEvalError:
        return ""
    thing = factory.thing if isinstance(factory, InstanceFactory) else factory
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        thing = type(thing)
    return one_line((inspect.getdoc(thing) or "").partition("\n\n")[0], MOST_ASKS)


def make_feedback(
    run: Run, options: FeedbackOptions = DEFAULT_OPTIONS, earlier_rounds: Sequence[EarlierRound] = ()
) -> Feedback:
    """Say what the trials of split dev teach whoever changes the prompts, within a budget of tokens.

    Raises UsageMistake for a name that the run does not have, where several models or variants could be
    meant, where no trial is of split dev, and where nothing worth saying fits the budget.
    """
    tasks = TodaysTasks(run, options.root)
    whole = _WholeFeedback(run, tasks, options, select_trials(run, tasks, options))
    feedback = to_builtins(whole.feedback(hide_held_out(earlier_rounds, tasks)))
    # Secrets are taken out before anything is cut: half of one would no longer be recognized.
    return fit_to_budget(from_builtins(Feedback, KNOWN_SECRETS.value(feedback)))


class _WholeFeedback:
    """All of the feedback, before anything is cut."""

    def __init__(self, run: Run, tasks: TodaysTasks, options: FeedbackOptions, selection: Selection) -> None:
        self._run, self._tasks, self._options, self._selection = run, tasks, options, selection
        self._views: dict[TrialKey, TrialView] = {}
        self._comments = {entry.key: entry.note.comment for entry in run.entries if entry.note}

    @cached_property
    def _registry(self) -> Any:
        return installed_registry()

    def feedback(self, rounds: Sequence[EarlierRound]) -> Feedback:
        """Give everything, of whatever length."""
        options, selection = self._options, self._selection
        failing = [bucket for bucket in selection.buckets if bucket.failing(options.grader)]
        passed = [bucket for bucket in selection.buckets if not bucket.failing()]
        choices = [(bucket, *self._chosen(bucket)) for bucket in failing]
        shown = [trial for _, chosen, passing in choices for trial in (*chosen, passing) if trial]
        changing = changing_tools(map(self._view, shown))
        buckets = tuple(self._bucket(*choice, changing) for choice in choices)
        today = [
            PromptFile(Path(path).name.partition(".")[0], json_digest(text), path, 0)
            for path, text in options.prompts.items()
        ]
        today = today or _prompts_of_today(selection.entries, self._tasks, self._agent)
        unnamed = "" if options.prompts else selection.variant
        prompts, reads = _prompt_list(shown, today, unnamed)
        # Reversed, so that the worst bucket has the last word on what a grader asks.
        asks = {grader.grader: grader.asks for bucket in reversed(buckets) for grader in bucket.graders}
        counts = _grader_counts(selection.entries, (), (), self._registry)
        return Feedback(
            run=self._run.name,
            # Where every trial errored no bucket counts, and the suites are known all the same.
            suites=tuple(dict.fromkeys(bucket.suite for bucket in selection.buckets))
            or tuple(suite.name for suite in self._run.header.suites),
            model=selection.model,
            variant=selection.variant,
            budget=options.budget,
            buckets=buckets,
            in_brief=(),
            passed=tuple(
                BucketLine(each.suite, each.name, round(each.score, 4), each.passed, len(each.entries))
                for each in passed
            ),
            graders=tuple(replace(count, asks=asks.get(count.grader, "")) for count in counts),
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
            causes=_causes(selection.entries, options.grader),
        )

    def _agent(self, name: str) -> Any:
        try:
            return self._registry.agent_factory(name)
        except AgentEvalError:
            return None

    def _chosen(self, bucket: BucketTrials) -> tuple[list[Trial], Trial | None]:
        """Give the trials of a bucket that are shown: failing ones, and one that passed."""
        failing = bucket.failing(self._options.grader)
        chosen = different_trials(self._run, failing, self._options.trials)
        return chosen, passing_trial(self._run, bucket.entries, chosen)

    def _bucket(
        self, bucket: BucketTrials, chosen: Sequence[Trial], passing: Trial | None, changing: frozenset[str]
    ) -> BucketFeedback:
        failing = bucket.failing(self._options.grader)
        own = [task for entry in failing if (task := self._tasks.task(entry.key))]
        graders = _grader_counts(bucket.entries, chosen, own, self._registry)
        named = self._options.grader
        asking = next((each for each in graders if each.asks and named in ("", each.grader)), None)
        texts = (task.description for task in own if task.description.strip())
        descriptions = list(dict.fromkeys(one_line(text, MOST_RULE).rstrip(".") for text in texts))
        return BucketFeedback(
            suite=bucket.suite,
            bucket=bucket.name,
            score=round(bucket.score, 4),
            passed=bucket.passed,
            trials=len(bucket.entries),
            tasks=bucket.tasks,
            rule=f"{asking.grader}: {_FIRST_SENTENCE.split(asking.asks, maxsplit=1)[0]}" if asking else "",
            descriptions="; ".join(first_few(descriptions, MOST_TASKS)),
            failing_tasks=len({entry.key.task for entry in failing}),
            graders=graders,
            failing=tuple(self._failing(trial, bucket, changing) for trial in chosen),
            passing=self._trial(passing, failed=False) if passing else None,
            more=len(failing) - len(chosen),
        )

    def _failing(self, trial: Trial, bucket: BucketTrials, changing: frozenset[str]) -> TrialFeedback:
        same_task = (entry for entry in bucket.entries if entry.key.task == trial.key.task)
        other = passing_trial(self._run, same_task, [trial])
        passing = self._view(other) if other else None
        return self._trial(trial, failed=True, passing=passing, changing=changing)

    def _trial(self, trial: Trial, **more: Any) -> TrialFeedback:
        comment = self._comments.get(trial.key, "")
        return trial_feedback(self._view(trial), self._tasks.task(trial.key), comment=comment, **more)

    def _view(self, trial: Trial) -> TrialView:
        if trial.key not in self._views:
            self._views[trial.key] = trial_view(redact_trial(trial))
        return self._views[trial.key]
