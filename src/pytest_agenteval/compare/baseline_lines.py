"""The lines of a baseline's file: all trials of one task with one agent and model, and back to trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import asdict, replace

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Kind, TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import NO_USAGE, UNSEEN_USAGE
from pytest_agenteval.records.trial import Digests, Ending
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation

NOWHERE = TranscriptLocation("", 0, 0)
"""A baseline holds no transcripts."""

SHARED = ("prompt", "settings", "tools", "model", "code")
"""Digests that the tasks of an agent and model have in common as a rule: said once, above the tasks."""

Owner: TypeAlias = tuple[str, str, str, str]
"""Suite, agent, model and variant."""


class TaskLine(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a baseline keeps of one task's trials, each list in the order of the repetitions.

    ``repetitions`` are their numbers where these do not count from 1. ``digests`` are those that trials have,
    None for a trial that broke before it had any, without what is shared; ``digests_of`` says for each trial
    which of them are its own, where there are several. ``runs_of`` says for each trial which of the file's
    runs it is of; empty in a file of one run.
    """

    suite: str
    task: str
    agent: str
    model: str
    variant: str = ""
    bucket: str = ""
    file: str = ""
    kind: Kind = "mixed"
    scores: tuple[float | None, ...]
    endings: tuple[Ending, ...]
    grades: Mapping[str, tuple[float | None, ...]] = NOTHING
    repetitions: tuple[int, ...] = ()
    digests: tuple[dict[str, Any] | None, ...] = ()
    digests_of: tuple[int, ...] = ()
    runs_of: tuple[int, ...] = ()

    @property
    def owner(self) -> Owner:
        """The suite, agent, model and variant that the task was tried with."""
        return self.suite, self.agent, self.model, self.variant


class CommonLine(Record, frozen=True):
    """The digests that the trials of an agent and model have, where they do not say otherwise."""

    suite: str
    agent: str
    model: str
    variant: str
    digests: Mapping[str, str]

    @property
    def owner(self) -> Owner:
        """Whose they are."""
        return self.suite, self.agent, self.model, self.variant


class SpentLine(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What one task's trials took; apart from the scores, for seconds differ from run to run."""

    suite: str
    task: str
    agent: str
    model: str
    variant: str = ""
    tokens: tuple[int | None, ...]
    seconds: tuple[float, ...]
    cost_usd: tuple[float | None, ...]


def tasks_of(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Put trials together that are of one task, agent, model and variant, sorted by key."""
    tasks: dict[TrialKey, list[JournalEntry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.key):
        tasks.setdefault(entry.key._replace(repetition=0), []).append(entry)
    return list(tasks.values())


def shared_digests(entries: Iterable[JournalEntry]) -> dict[Owner, dict[str, str]]:
    """Give for each agent and model the digests of its first trial that has any."""
    shared: dict[Owner, dict[str, str]] = {}
    for entry in entries:
        if entry.digests != Digests():
            shared.setdefault(owner_of(entry), {name: getattr(entry.digests, name) for name in SHARED})
    return shared


def owner_of(entry: JournalEntry) -> Owner:
    """Give the suite, agent, model and variant of a trial."""
    key = entry.key
    return key.suite, key.agent, key.model, key.variant


def task_line(
    entries: Sequence[JournalEntry], shared: Mapping[str, str], runs_of: Iterable[int] = ()
) -> TaskLine:
    """Put the trials of one task into a line."""
    first, key = entries[0], entries[0].key
    numbers = tuple(entry.key.repetition for entry in entries)
    distinct: dict[Any, int] = {}
    own = [_own_digests(entry.digests, shared) for entry in entries]
    places = [distinct.setdefault(_hashable(digests), len(distinct)) for digests in own]
    return TaskLine(
        suite=key.suite,
        task=key.task,
        agent=key.agent,
        model=key.model,
        variant=key.variant,
        bucket=first.bucket,
        file=first.file,
        kind=first.kind,
        scores=tuple(entry.score for entry in entries),
        endings=tuple(entry.ending for entry in entries),
        grades=_grades(entries),
        repetitions=() if numbers == tuple(range(1, len(entries) + 1)) else numbers,
        digests=tuple(own[places.index(place)] for place in distinct.values()),
        digests_of=tuple(places) if len(distinct) > 1 else (),
        runs_of=tuple(runs_of),
    )


def spent_line(entries: Sequence[JournalEntry]) -> SpentLine:
    """Put what the trials of one task took into a line."""
    key = entries[0].key
    return SpentLine(
        suite=key.suite,
        task=key.task,
        agent=key.agent,
        model=key.model,
        variant=key.variant,
        tokens=tuple(entry.usage.tokens for entry in entries),
        seconds=tuple(entry.seconds for entry in entries),
        cost_usd=tuple(entry.usage.cost_usd for entry in entries),
    )


def entries_of(line: TaskLine, spent: SpentLine | None, shared: Mapping[str, str]) -> Iterator[JournalEntry]:
    """Give the trials of a task back; raises ValueError for a line whose lists do not go together."""
    count = len(line.scores)
    lists = [
        line.endings,
        *line.grades.values(),
        *filter(None, (line.repetitions, line.digests_of, line.runs_of)),
    ]
    if spent is not None:
        lists += [spent.tokens, spent.seconds, spent.cost_usd]
    if any(len(each) != count for each in lists):
        raise ValueError(f"lists that are not all {count} long, as its scores are")
    if any(not 0 <= place < len(line.digests) for place in line.digests_of):
        raise ValueError("a number in digests_of that names none of its digests")
    for at in range(count):
        number = line.repetitions[at] if line.repetitions else at + 1
        digests = line.digests[line.digests_of[at] if line.digests_of else 0] if line.digests else None
        yield JournalEntry(
            key=TrialKey(line.suite, line.task, line.agent, line.model, line.variant, number),
            attempt=1,
            ending=line.endings[at],
            score=line.scores[at],
            grades=tuple(_grade(label, scores[at]) for label, scores in line.grades.items()),
            location=NOWHERE,
            digests=Digests() if digests is None else Digests.from_json({**shared, **digests}),
            usage=replace(NO_USAGE, input_tokens=spent.tokens[at], cost_usd=spent.cost_usd[at])
            if spent
            else UNSEEN_USAGE,
            kind=line.kind,
            bucket=line.bucket,
            file=line.file,
            seconds=spent.seconds[at] if spent else 0.0,
        )


def _grade(label: str, score: float | None) -> Grade:
    return Grade(label, score, "")


def _grades(entries: Sequence[JournalEntry]) -> dict[str, tuple[float | None, ...]]:
    """Give what each grader gave each trial; None where it gave none, or could not tell."""
    labels = dict.fromkeys(grade.grader for entry in entries for grade in entry.grades)
    scores = [{grade.grader: grade.score for grade in entry.grades} for entry in entries]
    return {label: tuple(of_trial.get(label) for of_trial in scores) for label in labels}


def _own_digests(digests: Digests, shared: Mapping[str, str]) -> dict[str, Any] | None:
    """Give the digests that are not the shared ones; None for a trial without any."""
    if digests == Digests():
        return None
    every = {name: value for name, value in asdict(digests).items() if name not in SHARED and value}
    return every | {name: getattr(digests, name) for name in SHARED if getattr(digests, name) != shared[name]}


def _hashable(digests: dict[str, Any] | None) -> Any:
    return digests and tuple((name, str(value)) for name, value in digests.items())
