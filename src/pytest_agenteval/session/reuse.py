"""Trials of earlier runs, and the one rule that says which of them stay, are graded again or run anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec.structs import replace

from pytest_agenteval.engine.digests import (
    AgentDigests,
    DigestCache,
    acted_out_digest,
    digest_diff,
    digests_of,
)
from pytest_agenteval.engine.grading import GradingService, has_acted
from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey, Variant, task_facts
from pytest_agenteval.records.record import NOTHING, same_fields
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    OTHER_MODEL,
    PROMPT_READ,
    STARTED_PROGRAM,
    UNREAD_PROMPT,
    UNTAPED_CONNECTION,
)
from pytest_agenteval.records.trial import Origin, Trial, part_paid
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import UNNAMED, Case
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.notes import NOTES, Note, change_notes
from pytest_agenteval.store.record_files import replace_json
from pytest_agenteval.store.run_folder import HEADER, RunModel, read_header
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import first_few, pluralize
from pytest_agenteval.text.json_values import canonical_json

# A trial stays in its run, is copied into a new run, is graded again, or runs: again or for the first time.
# Where several earlier runs hold a trial, the first of these is done that one of them allows.
ReuseAction: TypeAlias = Literal["keep", "take over", "regrade", "rerun", "run"]
_ORDER: tuple[str, ...] = get_args(ReuseAction)

# What is done with earlier trials: the option that named their runs.
Use: TypeAlias = Literal["resume", "reuse", "regrade"]

MOST_REASONS = 3  # reasons that a summary names for each action

# Doubtful events that the same trial would have again: running it again would not make it more reliable.
_REPEATABLE_DOUBTS = (STARTED_PROGRAM, UNREAD_PROMPT, OTHER_MODEL, UNTAPED_CONNECTION)


class EarlierTrial(NamedTuple):
    """A trial that has finished: the run that holds it, and what its journal says."""

    run: Run
    entry: JournalEntry
    use: Use
    has_transcript: bool = True  # False where nothing stands in its transcript's place

    @property
    def origin(self) -> Origin:
        """Say where the trial was carried out, for a run that takes it over."""
        entry, is_own = self.entry, self.use == "resume"
        if entry.origin is not None and (entry.origin.run or is_own):
            return replace(entry.origin, regraded=False)
        attempt = entry.origin.attempt if entry.origin else entry.attempt
        return Origin("" if is_own else self.run.folder.name, attempt)

    def whole(self) -> Trial | None:
        """Read all of the trial; None where its transcript cannot be read any more."""
        return self.run.trial_if_readable(self.entry)

    def to_regrade(self) -> Trial:
        """Read the trial for new grades, with its origin where not all of its run is graded again."""
        trial = self.run.trial(self.entry)
        return trial if self.use == "regrade" else replace(trial, origin=replace(self.origin, regraded=True))

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
            **task_facts(task),
            acted=has_acted(task, trial.transcript, trial.outcome),
            origin=self.origin,
            paid=part_paid(trial.transcript.all_usage, NO_USAGE),
        )

    def is_described_as(self, plan: Plan) -> bool:
        """Whether the task still has the kind, bucket, tags, file, label and split that reports show."""
        today = task_facts(plan.task)
        return today == same_fields(self.entry, today)

    def prompts_read(self) -> Mapping[str, str]:
        """Give the digests of the prompts that the trial is known to have read, by name."""
        trial = self.whole()
        events = trial.transcript.events if trial else ()
        return {event.text: event.details.get("digest", "") for event in events if event.kind == PROMPT_READ}


class EarlierTrials:
    """The trials of some runs, those of the newest first; or of one run that is resumed in its own folder."""

    def __init__(self, folders: Sequence[Path], use: Use) -> None:
        self.use, self.is_own = use, use == "resume"
        self.runs = [load_run(folder) for folder in dict.fromkeys(map(Path.resolve, folders))]
        if use != "regrade":  # there the order is that of the option
            self.runs.sort(key=lambda run: run.header.started_at, reverse=True)
        self._entries = [{entry.key: entry for entry in run.entries} for run in self.runs]
        self._started = {attempt.key: attempt.attempt for run in self.runs for attempt in run.begun}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.folder.name for run in self.runs)

    def trials_of(self, key: TrialKey) -> Iterator[EarlierTrial]:
        """Give each run's last attempt at a trial, the newest run's first."""
        for run, entries in zip(self.runs, self._entries, strict=True):
            if key in entries:
                file, offset, length = entries[key].location
                path = run.folder / file
                # The transcript is not read: its file is there and long enough, or not.
                has_transcript = path.is_file() and offset + length <= path.stat().st_size
                yield EarlierTrial(run, entries[key], self.use, has_transcript)

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


class RegradedTrials(EarlierTrials):
    """The trials of the runs of ``--agent-regrade``; a trial that two of them hold is refused."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(folders, "regrade")
        models = (model for run in self.runs for model in run.header.models)
        self._models = {model.name: Model(model.name, model.id, model.offline) for model in models}
        self._of_task: dict[tuple[str, str, str], list[TrialKey]] = {}
        self._tasks_met: set[tuple[str, str, str]] = set()
        self._cases: dict[tuple[tuple[str, str, int], ...], tuple[Case, ...]] = {}
        self._variants: dict[str, Variant] = {"": UNNAMED}
        holders: dict[TrialKey, str] = {}
        for run in self.runs:
            for key in (entry.key for entry in run.entries):
                if key in holders:
                    trial, there = f"{key.task}[{key.model}-{key.repetition}]", holders[key]
                    raise UsageMistake(f"--agent-regrade: {trial} is in {there} and in {run.folder.name}")
                holders[key] = run.folder.name
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

    def _case(self, key: TrialKey) -> Case:
        model = self._models.setdefault(key.model, Model(key.model, key.model))
        variant = self._variants.setdefault(key.variant, Variant(key.variant))
        return Case(model, variant, key.repetition)

    def remarks(self) -> Iterator[str]:
        """Say of each run what is not graded again, once ``cases_of`` was called for all tasks."""
        for run in self.runs:
            name = run.folder.name
            keys = [entry.key for entry in run.entries]
            strays = sum((key.suite, key.task, key.agent) not in self._tasks_met for key in keys)
            if strays:
                stored = pluralize(len(keys), "stored trial")
                yield f"{name}: {strays} of {stored} not regraded: no such task here"
            if run.never_ended:
                yield f"{name}: {run.never_ended}: nothing to regrade"
            yield from (f"{name}: {problem}" for problem in first_unreadable(run.odd))


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


def carry_notes(folder: Path, stored: Sequence[Path], regraded: bool) -> None:
    """Give a run the notes on trials that it took over from stored runs; its own, or none, stay as they are.

    A note is about what the agent did, so it goes with a trial that has new grades too. A trial that ran
    again gets none. Raises UsageMistake if the notes cannot be written.
    """
    noted = [load_run(path) for path in stored if (path / NOTES).is_file()]
    entries = {entry.key: entry for entry in load_run(folder).entries} if noted else {}
    notes: dict[TrialKey, Note] = {}
    for source in noted:
        for before in source.entries:
            note, after = before.note, entries.get(before.key)
            if note and after is not None and (regraded or _is_same(before, after, source)):
                notes.setdefault(after.key, replace(note, attempt=after.attempt))
    if notes:
        change_notes(folder, lambda own: {key: note for key, note in notes.items() if key not in own})


def _is_same(before: JournalEntry, after: JournalEntry, source: Run) -> bool:
    """Whether a trial of a new run was taken over from this trial of another one, or both from a third."""
    origin = EarlierTrial(source, before, "reuse").origin
    return after.origin is not None and replace(after.origin, regraded=False) == origin


class ReuseDecision(NamedTuple):
    """What becomes of a trial; ``reason`` is shown to the user, where there is one to show."""

    action: ReuseAction
    reason: str = ""
    earlier: EarlierTrial | None = None

    def unchanged_trial(self) -> Trial | None:
        """Give the trial that stays as it is; None where there is something to do, or it cannot be read."""
        return self.earlier.whole() if self.earlier is not None and self.action == "keep" else None

    def fill(self, job: TrialJob) -> None:
        """Let a job give the earlier trial, as it is or with new grades, in place of a new one."""
        earlier = self.earlier
        if earlier is not None and self.action == "take over":
            job.read_finished = lambda: earlier.taken_over(job.plan)
        elif earlier is not None and self.action == "regrade":
            job.read_stored = earlier.to_regrade


class ReusePlan:
    """Decides what becomes of each trial of a process, and sums up the decisions.

    ``agent_digests`` gives the digests that the agent of a plan's trial would have today.
    """

    def __init__(
        self, earlier: EarlierTrials, registry: Registry, agent_digests: Callable[[Plan], AgentDigests]
    ) -> None:
        self._earlier, self._registry, self._agent_digests = earlier, registry, agent_digests
        self.is_regrading = earlier.use == "regrade"
        self._grading, self._cache = GradingService(registry), DigestCache()
        self._agents: dict[object, tuple[Plan, AgentDigests | None]] = {}
        self._prompts_read: dict[tuple[str, str], Mapping[str, str]] = {}
        self._decisions: dict[TrialKey, ReuseDecision] = {}

    def decide(self, plan: Plan, *, task_changed: bool = False) -> ReuseDecision:
        """Decide once for each trial; decide again, without storing it, where a fixture changed its task."""
        key = plan.key
        if not task_changed and key in self._decisions:
            return self._decisions[key]
        found = [self._decide_by(plan, earlier) for earlier in self._earlier.trials_of(key)]
        first = min(found, key=lambda each: _ORDER.index(each.action), default=ReuseDecision("run"))
        if not task_changed:
            self._decisions[key] = first
        return first

    def keeps(self, key: TrialKey) -> bool:
        """Whether an earlier decision was that the trial stays as it is."""
        return key in self._decisions and self._decisions[key].action == "keep"

    def _decide_by(self, plan: Plan, earlier: EarlierTrial) -> ReuseDecision:
        """Say what today's plan allows to do with one earlier trial: the rule of all that try again."""
        entry = earlier.entry
        if earlier.use == "regrade":
            return ReuseDecision("regrade", "", earlier)
        # Cheap reasons first: the agent's digests below may read its source files.
        if entry.ending == "errored":
            return ReuseDecision("rerun", "errored")
        if not earlier.has_transcript:
            return ReuseDecision("rerun", "transcript lost")
        if not entry.digests.input:
            return ReuseDecision("rerun", "their digests are unknown")
        if earlier.use == "reuse" and (reason := _distrust_reason(plan, earlier)):
            return ReuseDecision("rerun", reason)
        agent = self._agent_side(plan)
        if agent is None:
            return ReuseDecision("rerun", "the agent cannot be created")
        old, acted_out = entry.digests, acted_out_digest(plan, self._registry, self._cache)
        grader = self._grading.grader
        new = digests_of(plan, grader, "", "", (), entry.own_models, self._cache, acted_out=acted_out)
        prompts_read: Mapping[str, str] = NOTHING
        if old.prompt != agent.prompt:
            # The prompts are read from one transcript, for all trials whose prompts had the same digest.
            pair = old.prompt, agent.prompt
            if pair not in self._prompts_read:
                self._prompts_read[pair] = earlier.prompts_read()
            prompts_read = self._prompts_read[pair]
        changed = digest_diff(old, new, agent, prompts_read)
        # What the agent sees decides before what grades it: a changed task makes old transcripts worthless.
        if changed.agent:
            return ReuseDecision("rerun", " and ".join(changed.agent))
        if changed.ruler:
            return ReuseDecision("regrade", changed.ruler[0], earlier)
        # With another bucket or kind the trial is written again, so that reports count it there.
        stays = earlier.use == "resume" and earlier.is_described_as(plan)
        return ReuseDecision("keep" if stays else "take over", "", earlier)

    def _agent_side(self, plan: Plan) -> AgentDigests | None:
        """Give what the plan's agent would be today, once for all plans alike; None if it breaks."""
        task = plan.task
        key = (
            task.agent,
            canonical_json(task.settings) if task.settings else "",
            id(task.form) if task.form else 0,
            id(task.prompts) if task.prompts else 0,
            id(plan.variant.prompts) if plan.variant.prompts else 0,
            task.tools,
            bool(task.cassette),
            plan.model.offline,
        )
        # The plan is stored too: while it lives, no other object has the ids in the key.
        if key not in self._agents:
            try:
                self._agents[key] = plan, self._agent_digests(plan)
            except Exception:  # such an agent breaks its trial, which shows the error
                self._agents[key] = plan, None
        return self._agents[key][1]

    def trial_origin_label(self, trial: Trial) -> str:
        """Give ``resumed``, ``reused`` or ``regraded``; empty for a trial that this process carried out."""
        if self.is_regrading:
            return ""
        if trial.origin is not None and trial.origin.regraded:
            return "regraded"
        if self._earlier.use == "reuse":
            return "reused" if trial.origin is not None else ""
        return "resumed" if trial.attempt <= self._earlier.attempts(trial.key) or trial.origin else ""

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that has stayed as it is; empty for others."""
        for earlier in self._earlier.trials_of(trial.key) if self._earlier.is_own else ():
            if earlier.entry.attempt == trial.attempt:
                return str(earlier.run.folder / earlier.entry.location.file)
        return ""

    def summary(self, plans: Iterable[Plan], later: int = 0, perhaps: int = 0) -> str:
        """Say in one line what becomes of these trials: ``41 reused, 6 regraded: grader pkm_routed 3 -> 4``.

        ``later`` counts trials that are decided about in their turn; ``perhaps`` those that run only where
        the first repetitions leave the comparison open.
        """
        for plan in plans:
            self.decide(plan)
        parts = (
            _counts_text(self._decisions.values(), resumed=self._earlier.is_own),
            f"{later} decided later" if later else "",
            f"{perhaps} more if needed" if perhaps else "",
        )
        how = "resumed" if self._earlier.is_own else "reuse of"
        return f"{how} {', '.join(self._earlier.names)}: {', '.join(filter(None, parts))}"


def _distrust_reason(plan: Plan, earlier: EarlierTrial) -> str:
    """Say why a trial of another run cannot stand in this one; empty where it can."""
    header, entry = earlier.run.header, earlier.entry
    if kinds := [kind for kind in sorted(entry.doubtful_events) if not kind.startswith(_REPEATABLE_DOUBTS)]:
        return f"doubtful: {', '.join(kind.replace('_', ' ') for kind in kinds)}"
    if header.seed != plan.conditions.seed:
        return f"seed {header.seed} -> {plan.conditions.seed}"
    user = plan.conditions.user.id if plan.conditions.user else ""
    if plan.task.user and header.user != user:
        return f"user {header.user or 'none'} -> {user or 'none'}"
    return ""


def _counts_text(decisions: Iterable[ReuseDecision], *, resumed: bool) -> str:
    """Count the decisions by action, each with its most frequent reasons."""
    reasons: dict[str, Counter[str]] = {}
    for decision in decisions:
        action = "keep" if decision.action == "take over" else decision.action
        reasons.setdefault(action, Counter())[decision.reason] += 1
    total = sum(counts.total() for counts in reasons.values())
    if resumed and reasons.keys() == {"keep"}:
        trials = "the only trial" if total == 1 else f"all {total} trials"
        return f"nothing to do: {trials} had finished"
    keep = "had finished" if resumed else "reused"
    labels = {"keep": keep, "regrade": "regraded", "rerun": "rerun", "run": "to run"}
    return ", ".join(
        f"{reasons[action].total()} {label}{_reasons_text(reasons[action])}"
        for action, label in labels.items()
        if action in reasons
    )


def _reasons_text(reasons: Counter[str]) -> str:
    named = [(reason, count) for reason, count in reasons.most_common() if reason]
    if len(named) < 2:
        return "".join(f": {reason}" for reason, _ in named)
    texts = [f"{reason} ({count})" for reason, count in named]
    return ": " + "; ".join(first_few(texts, MOST_REASONS, "and {} more reasons"))
