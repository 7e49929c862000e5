"""Trials of earlier runs, read when needed: for resuming, reusing and regrading."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.grading import has_acted
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey, Variant
from pytest_agenteval.records.transcript import NO_USAGE, PROMPT_READ
from pytest_agenteval.records.trial import Origin, Trial, part_paid
from pytest_agenteval.session.planning.parametrization import UNNAMED, Case, PlannedItem, trial_key
from pytest_agenteval.session.run_signals import BUDGET_FILES, DEAD_WORKERS, RATE_FILES, STOP_FILE, claim_run
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.record_files import replace_json
from pytest_agenteval.store.run_documents import AUDIT, PLANNED_TRIALS, read_planned_trials
from pytest_agenteval.store.run_folder import (
    HEADER,
    LATEST,
    RunModel,
    damage_text,
    find_run,
    list_runs,
    planned_groups,
    read_header,
)
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS


def check_plan(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> None:
    """Refuse to resume a run with trials or settings that it did not start with."""
    problem = next(_problems(run, settings, items, judges, user), "")
    if problem:
        raise UsageMistake(
            f"--agent-resume: {problem}; go on as {run.name} was begun, or begin a new run that takes over "
            f"what is finished: --agent-reuse={run.name}"
        )


def _problems(
    run: Run, settings: Settings, items: Sequence[PlannedItem], judges: Sequence[Model], user: Model | None
) -> Iterator[str]:
    header = run.header
    # Shards that were merged are resumed one by one.
    shards = header.shards
    part = f"{','.join(map(str, shards.numbers))}/{shards.total}" if shards else ""
    if part != (shard := str(settings.shard or "")):
        yield f"expected {f'--agent-shard={part}' if part else 'no --agent-shard'}; found {shard or 'none'}"
    if header.seed != settings.seed:
        yield f"expected --agent-seed={header.seed}; found {settings.seed}"
    before, now = [judge.id for judge in header.judges], [judge.id for judge in judges]
    if before != now:
        yield f"expected judges {', '.join(before) or 'none'}; found {', '.join(now) or 'none'}"
    if header.user and header.user != (user.id if user else ""):
        yield f"expected --agent-user={header.user}; found {user.id if user else 'none'}"
    rule = header.repetition_rule
    before_range = f"{rule.low}..{rule.high}" if rule else ""
    if before_range != (found := str(settings.repetition_range or "")):
        yield f"expected --repetitions={before_range or 'a number, or none'}; found {found or 'no range'}"
    models = {model.name: model.id for model in header.models}
    for model in {item.case.model.name: item.case.model for item in items}.values():
        if models.get(model.name, model.id) != model.id:
            yield f"expected {model.name} to be {models[model.name]}; found {model.id}"
    # The run was cut short before it had a plan, so today's plan is its first.
    if not run.planned:
        return
    try:
        planned = read_planned_trials(run.folder)
    except (OSError, ValueError, LookupError, TypeError) as broken:
        yield f"{PLANNED_TRIALS} of {run.name} cannot be read ({damage_text(broken)})"
        return
    # An older version wrote the run, with the numbers of trials but not their keys.
    if planned is None:
        groups = {(group.suite, group.model, group.variant, group.bucket): group for group in run.planned}
        for group in planned_groups((trial_key(item), item.task.bucket) for item in items):
            there = groups.get((group.suite, group.model, group.variant, group.bucket))
            if there is None or (group.trials, group.tasks) > (there.trials, there.tasks):
                count = there.trials if there else 0
                name = f"{group.suite} with {group.model}, {group.bucket or 'no bucket'}"
                yield f"expected {pluralize(count, 'trial')} of {name}; found {group.trials}"
        return
    unplanned = []
    for key in map(trial_key, items):
        stored = TrialKey._make([*map(KNOWN_SECRETS.text, key[:-1]), key.repetition])
        if key not in planned and stored not in planned:
            unplanned.append(key)
    if unplanned:
        yield f"{pluralize(len(unplanned), 'trial')} not in its plan: {_new_parts(unplanned, planned)}"


def _new_parts(unplanned: Sequence[TrialKey], planned: Iterable[TrialKey]) -> str:
    """Name the models, variants or suites that are new in these keys; else the first key."""
    keys = list(planned)
    for field in ("model", "variant", "suite"):
        known = {getattr(key, field) for key in keys}
        names = dict.fromkeys(getattr(key, field) for key in unplanned if getattr(key, field) not in known)
        if names:
            title = "prompt" if field == "variant" else field
            return f"{title} {', '.join(name or 'none' for name in names)}"
    return unplanned[0].label


def check_first_failures(
    config: pytest.Config, settings: Settings, run: Run, items: Sequence[PlannedItem]
) -> None:
    """Refuse ``-x`` and its like where earlier failures would end the run before anything runs."""
    most = config.getoption("maxfail", 0)
    endings = ("failed", "missed") if settings.strict else ("failed",)
    selected = set(map(trial_key, items))
    failed = sum(entry.ending in endings and entry.key in selected for entry in run.entries)
    if most and failed >= most:
        raise UsageMistake(
            f"--agent-resume: expected no -x or --maxfail beside it: {pluralize(failed, 'trial')} of "
            f"{run.name} failed before, and would end the run before anything is tried"
        )


def run_to_resume(config: pytest.Config, settings: Settings) -> tuple[Path, str]:
    """Give the folder of the run to resume, claimed by this process, and when the run began.

    Raises UsageMistake where it cannot be resumed.
    """
    for attribute, why in (
        ("regrade", "grading again costs no agent: begin it anew"),
        ("reuse", "one goes on with a run, the other begins a new one"),
        ("audit", "an audit costs nothing: begin it anew"),
    ):
        if getattr(settings, attribute):
            raise UsageMistake(f"--agent-resume: expected no --agent-{attribute} beside it: {why}")
    name = settings.resume
    if settings.run_name and name == LATEST:
        name = settings.run_name
    place = settings.places.get("resume", "--agent-resume")
    try:
        folder = find_run(settings.results or config.rootpath / RESULTS, name)
    except UsageMistake as mistake:
        if (config.invocation_params.dir / name.partition("::")[0]).exists():
            hint = f"to try {name}, say {place}=latest {name}"
            raise UsageMistake(f"{place}: expected a run; found {name!r}, which is none; {hint}") from None
        raise UsageMistake(f"{place}: {mistake}") from None
    # A link is followed, so that the run has its real folder; any other path stays as it was found.
    folder = folder.resolve() if folder.is_symlink() else Path(os.path.abspath(folder))
    if settings.run_name not in ("", folder.name):
        raise UsageMistake(f"{settings.places['run_name']}: a run that goes on keeps its name, {folder.name}")
    header = read_header(folder)
    if header.regraded:
        again = ",".join(header.regraded)
        raise UsageMistake(
            f"--agent-resume: {folder.name} graded trials again, which costs no agent: "
            f"begin it anew with --agent-regrade={again}"
        )
    if (folder / AUDIT).exists():
        raise UsageMistake(f"--agent-resume: {folder.name} is an audit: begin it anew with --agent-audit")
    if not (config.getoption("collectonly", False) or settings.dry_run):
        _claim(config, folder)
    return folder, header.started_at


def _claim(config: pytest.Config, folder: Path) -> None:
    """Take the run over from the process that made it; raises UsageMistake while that one still runs."""
    try:
        holder = claim_run(config, folder)
        if not holder:
            # A killed controller left these for its workers, which are gone. In a container this process may
            # have the same number as it had.
            for name in (STOP_FILE, DEAD_WORKERS, BUDGET_FILES, RATE_FILES):
                for file in folder.glob(name):
                    file.unlink(missing_ok=True)
    except OSError as failed:
        why = failed.strerror or type(failed).__name__
        raise UsageMistake(f"--agent-resume: nothing can be written to {folder}: {why}") from None
    if holder:
        raise UsageMistake(
            f"--agent-resume: {folder.name} is still going on, in process {holder}: "
            "wait for its end, or end it"
        )


def baseline_before(baseline: Path | None, folder: Path, started_at: str) -> Path | None:
    """Give the run to compare with; where ``latest`` is this very run, the run before it."""
    if baseline is None or baseline != folder.resolve():
        return baseline
    for run in list_runs(folder.parent):
        if run.header.started_at < started_at and run.path.resolve() != baseline:
            return run.path.resolve()
    raise UsageMistake(f"--agent-baseline: there is no run before {folder.name}, which goes on")


class EarlierTrial(NamedTuple):
    """A trial that has finished: the run that holds it, and what its journal says."""

    run: Run
    entry: JournalEntry
    is_own: bool
    has_transcript: bool = True  # False where nothing stands in its transcript's place

    @property
    def origin(self) -> Origin:
        """Say where the trial was carried out, for a run that takes it over."""
        entry = self.entry
        if entry.origin is not None and (entry.origin.run or self.is_own):
            return replace(entry.origin, regraded=False)
        attempt = entry.origin.attempt if entry.origin else entry.attempt
        return Origin("" if self.is_own else self.run.folder.name, attempt)

    def whole(self) -> Trial | None:
        """Read all of the trial; None where its transcript cannot be read any more."""
        return self.run.trial_if_readable(self.entry)

    def to_regrade(self) -> Trial:
        """Read the trial for new grades, with its origin."""
        return replace(self.run.trial(self.entry), origin=replace(self.origin, regraded=True))

    def taken_over(self, plan: Plan) -> Trial | None:
        """Give the trial as one of today's plan; None where its transcript cannot be read any more."""
        trial = self.whole()
        if trial is None:
            return None
        task, ending = plan.task, trial.ending
        # The suite's kind may have changed since: a miss is shown as today's kind has it.
        if ending in ("missed", "failed"):
            ending = "missed" if task.kind == "capability" else "failed"
        return replace(
            trial,
            key=plan.key,
            attempt=plan.attempt,
            ending=ending,
            kind=task.kind,
            bucket=task.bucket,
            tags=task.tags,
            file=task.file_in_root,
            label=task.label,
            split=task.split,
            acted=has_acted(task, trial.transcript, trial.outcome),
            origin=self.origin,
            paid=part_paid(trial.transcript.all_usage, NO_USAGE),
        )

    def is_described_as(self, plan: Plan) -> bool:
        """Whether the task still has the kind, bucket, tags, file, label and split that reports show."""
        task, entry = plan.task, self.entry
        today = (task.kind, task.bucket, task.tags, task.file_in_root, task.label, task.split)
        return today == (entry.kind, entry.bucket, entry.tags, entry.file, entry.label, entry.split)

    def prompts_read(self) -> Mapping[str, str]:
        """Give the digests of the prompts that the trial is known to have read, by name."""
        trial = self.whole()
        events = trial.transcript.events if trial else ()
        return {event.text: event.details.get("digest", "") for event in events if event.kind == PROMPT_READ}


class EarlierTrials:
    """The trials of some runs, those of the newest first; or of one run that is resumed in its own folder."""

    def __init__(self, folders: Sequence[Path], *, is_own: bool) -> None:
        self.is_own = is_own
        runs = [load_run(folder) for folder in dict.fromkeys(map(Path.resolve, folders))]
        self.runs = sorted(runs, key=lambda run: run.header.started_at, reverse=True)
        self._entries = [{entry.key: entry for entry in run.entries} for run in self.runs]
        self._sizes: dict[Path, int] = {}
        self._started = {attempt.key: attempt.attempt for run in self.runs for attempt in run.begun}

    def trials_of(self, key: TrialKey) -> Iterator[EarlierTrial]:
        """Give each run's last attempt at a trial, the newest run's first."""
        for run, entries in zip(self.runs, self._entries, strict=True):
            if key in entries:
                file, offset, length = entries[key].location
                path = run.folder / file
                if path not in self._sizes:
                    self._sizes[path] = path.stat().st_size if path.is_file() else 0
                # The transcript is not read: its file is there and long enough, or not.
                has_transcript = offset + length <= self._sizes[path]
                yield EarlierTrial(run, entries[key], self.is_own, has_transcript)

    def in_flight(self) -> Mapping[TrialKey, int]:
        """Count, by trial, how often a process of this run died while it ran: any of them may be the cause.

        Trials that Ctrl-C or ``-x`` cut short are not among them.
        """
        if not self.is_own:
            return {}
        run = self.runs[0]
        return Counter(attempt.key for attempt in (run.lost if run.header.ended_at else run.begun))

    def is_interrupted(self, key: TrialKey) -> bool:
        """Whether the trial started in this run and never ended."""
        return self.is_own and key in self._started

    def attempts(self, key: TrialKey) -> int:
        """Count the attempts at a trial that started in this run so far; 0 in a new run."""
        if not self.is_own:
            return 0
        entry = self._entries[0].get(key)
        return max(entry.attempt if entry else 0, self._started.get(key, 0))


def record_original_judges(folder: Path, stored: Sequence[Path]) -> None:
    """Write into a regraded run's header the judges of the verdicts it read, where it has none itself."""
    run = load_run(folder)
    if run.header.judges:
        return
    headers = [read_header(stored_folder) for stored_folder in stored]
    judges_by_name = {judge.name: judge for header in headers for judge in header.judges}
    judge_names: dict[str, None] = {}
    for entry in run.entries:
        # All judges are found: no other can have judged.
        if judges_by_name and judges_by_name.keys() <= judge_names.keys():
            break
        trial = run.trial_if_readable(entry) if entry.grades else None
        for event in trial.transcript.events if trial else ():
            if event.kind == "judge_ask":
                judge_names[event.details["role"].partition(" for ")[0]] = None
    if judge_names:
        judges = tuple(judges_by_name.get(name) or RunModel(name, name) for name in judge_names)
        self_judge = run.header.self_judge or all(header.self_judge for header in headers)
        header = replace(run.header, judges=judges, self_judge=self_judge)
        replace_json(folder / HEADER, header.to_json())


class RegradedTrials:
    """The last attempts of every trial of some runs; a trial that two of them hold is refused."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.runs = tuple(load_run(folder) for folder in dict.fromkeys(map(Path.resolve, folders)))
        models = (model for run in self.runs for model in run.header.models)
        self._models = {model.name: Model(model.name, model.id, model.offline) for model in models}
        self._by_key: dict[TrialKey, tuple[Run, JournalEntry]] = {}
        self._of_task: dict[tuple[str, str, str], list[TrialKey]] = {}
        self._tasks_met: set[tuple[str, str, str]] = set()
        self._cases: dict[tuple[tuple[str, str, int], ...], tuple[Case, ...]] = {}
        self._variants: dict[str, Variant] = {"": UNNAMED}
        for run in self.runs:
            for entry in run.entries:
                key = entry.key
                first = self._by_key.setdefault(key, (run, entry))[0]
                if first is not run:
                    trial = f"{key.task}[{key.model}-{key.repetition}]"
                    names = first.folder.name, run.folder.name
                    raise UsageMistake(f"--agent-regrade: {trial} is in {names[0]} and in {names[1]}")
                self._of_task.setdefault((key.suite, key.task, key.agent), []).append(key)

    def cases_of(self, task: PlannedTask) -> tuple[Case, ...]:
        """Give the cases in which the task ran; equal ones of two tasks are the same object."""
        name = task.suite, task.id, task.agent
        self._tasks_met.add(name)
        keys = self._of_task.get(name, ())
        case_keys = tuple((key.model, key.variant, key.repetition) for key in keys)
        if case_keys not in self._cases:
            self._cases[case_keys] = tuple(map(self._case, keys))
        return self._cases[case_keys]

    def reader(self, key: TrialKey) -> Callable[[], Trial]:
        """Give a function that reads a trial's whole record."""
        run, entry = self._by_key[key]
        return partial(run.trial, entry)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.folder.name for run in self.runs)

    def remarks(self) -> Iterator[str]:
        """Say of each run what is not graded again, once ``cases_of`` was called for all tasks."""
        for run in self.runs:
            name = run.folder.name
            keys = [entry.key for entry in run.entries]
            strays = sum((key.suite, key.task, key.agent) not in self._tasks_met for key in keys)
            if strays:
                stored = pluralize(len(keys), "stored trial")
                yield f"{name}: no task here for {strays} of {stored}: not graded again"
            if run.never_ended:
                yield f"{name}: {run.never_ended}: there is nothing to grade again"
            yield from (f"{name}: {problem}" for problem in first_unreadable(run.odd))

    def _case(self, key: TrialKey) -> Case:
        model = self._models.setdefault(key.model, Model(key.model, key.model))
        variant = self._variants.setdefault(key.variant, Variant(key.variant))
        return Case(model, variant, key.repetition)
