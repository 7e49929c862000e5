"""What earlier runs hold of today's trials: the last attempt of each, read when somebody wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.engine.decision import has_acted
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.transcript import NO_USAGE, PROMPT_READ
from pytest_agenteval.records.trial import Ending, Origin, Trial, part_paid
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run, load_run


class EarlierTrial(NamedTuple):
    """A trial that has finished: the run that holds it, and what its journal says.

    ``has_transcript`` is false where nothing stands in its transcript's place.
    """

    run: Run
    entry: JournalEntry
    is_own: bool
    has_transcript: bool = True

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
        """Read the trial such that it tells, graded again, where it comes from."""
        return replace(self.run.trial(self.entry), origin=replace(self.origin, regraded=True))

    def taken_over(self, plan: Plan) -> Trial | None:
        """Give the trial as one of today's plan; None where its transcript cannot be read any more."""
        trial = self.whole()
        if trial is None:
            return None
        task = plan.task
        return replace(
            trial,
            key=plan.key,
            attempt=plan.attempt,
            ending=_ending(trial, plan),
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
        """Whether what reports tell of the task beside its scores is what it was."""
        task, entry = plan.task, self.entry
        today = (task.kind, task.bucket, task.tags, task.file_in_root, task.label, task.split)
        return today == (entry.kind, entry.bucket, entry.tags, entry.file, entry.label, entry.split)

    def prompts_read(self) -> Mapping[str, str]:
        """Give the digests of the prompts that the trial is known to have read, by name."""
        trial = self.whole()
        events = trial.transcript.events if trial else ()
        return {event.text: event.details.get("digest", "") for event in events if event.kind == PROMPT_READ}


def _ending(trial: Trial, plan: Plan) -> Ending:
    """Give how the trial ended, in a suite of today's kind."""
    if trial.ending not in ("missed", "failed"):
        return trial.ending
    return "missed" if plan.task.kind == "capability" else "failed"


class EarlierTrials:
    """The trials of some runs, those of the newest first; or of one run that goes on in its own folder."""

    def __init__(self, folders: Sequence[Path], *, is_own: bool) -> None:
        self.is_own = is_own
        runs = [load_run(folder) for folder in dict.fromkeys(map(Path.resolve, folders))]
        self.runs = sorted(runs, key=lambda run: run.header.started_at, reverse=True)
        self._entries = [{entry.key: entry for entry in run.entries} for run in self.runs]
        self._sizes: dict[Path, int] = {}
        self._begun = {attempt.key: attempt.attempt for run in self.runs for attempt in run.begun}

    def of(self, key: TrialKey) -> Iterator[EarlierTrial]:
        """Give each run's last attempt at a trial, the newest run's first."""
        for run, entries in zip(self.runs, self._entries, strict=True):
            if key in entries:
                entry = entries[key]
                yield EarlierTrial(run, entry, self.is_own, self._has_transcript(run, entry))

    def _has_transcript(self, run: Run, entry: JournalEntry) -> bool:
        """Whether the file that a transcript stands in is there and long enough; it is not read."""
        file, offset, length = entry.location
        path = run.folder / file
        if path not in self._sizes:
            self._sizes[path] = path.stat().st_size if path.is_file() else 0
        return offset + length <= self._sizes[path]

    def in_flight(self) -> Mapping[TrialKey, int]:
        """Say which trials ran when a process of this run died, and how often each was begun in vain.

        Any of them may have ended it. What Ctrl-C or ``-x`` cut short is not among them.
        """
        if not self.is_own:
            return {}
        run = self.runs[0]
        return Counter(attempt.key for attempt in (run.lost if run.header.ended_at else run.begun))

    def is_interrupted(self, key: TrialKey) -> bool:
        """Whether this run has begun the trial and never ended it."""
        return self.is_own and key in self._begun

    def attempts(self, key: TrialKey) -> int:
        """Say how many attempts at a trial this run has begun so far; 0 in a new run."""
        if not self.is_own:
            return 0
        entry = self._entries[0].get(key)
        return max(entry.attempt if entry else 0, self._begun.get(key, 0))
