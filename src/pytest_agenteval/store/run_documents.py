"""The files beside a run's journal: planned trials, repetitions, gates, the audit, the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.store.record_files import VERSION, check_version, replace_json
from pytest_agenteval.store.run_folder import Levels, PlannedGroup, damage_text, read_json
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

PLANNED_TRIALS, EXTRA, LOOKS = "planned-trials.json", "extra-repetitions.json", "looks.json"
GATES, AUDIT, COMPARISON = "gates.json", "audit.json", "comparison.json"


class RunDocument(Record, frozen=True):
    """A file beside a run's journals; every worker may write it, as all of them write the same.

    ``content`` is what messages call it, where the run is of no use without it.
    """

    file: ClassVar[str]
    content: ClassVar[str] = ""

    def write(self, folder: Path) -> None:
        """Write the file into a run's folder, or replace the one there."""
        replace_json(folder / self.file, KNOWN_SECRETS.value({"v": VERSION, **self.to_json()}))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the file; None if there is none.

        Raises UsageMistake for a file of a newer version. For one that cannot be read it raises UsageMistake
        where the content has a name, else ValueError or the like.
        """
        path = folder / cls.file
        if not path.is_file():
            return None
        try:
            data = read_json(path)
            check_version(data, path)
            return cls.from_json({name: value for name, value in data.items() if name != "v"})
        except (OSError, ValueError, LookupError, TypeError) as broken:
            if not cls.content:
                raise
            raise UsageMistake(f"{path}: {cls.content} cannot be read ({damage_text(broken)})") from None


class TrialGroup(Record, frozen=True):
    """Trials with one agent, model and variant: how often each task, or which repetitions if not from 1."""

    suite: str
    agent: str
    model: str
    variant: str
    tasks: Mapping[str, int | tuple[int, ...]]


class PlannedTrials(RunDocument, frozen=True):
    """Which trials a run is to carry out."""

    file: ClassVar[str] = PLANNED_TRIALS
    groups: tuple[TrialGroup, ...]

    @classmethod
    def of(cls, keys: Iterable[TrialKey]) -> PlannedTrials:
        """Group the trials of a run."""
        groups: dict[tuple[str, str, str, str], dict[str, list[int]]] = {}
        for key in keys:
            owner = key.suite, key.agent, key.model, key.variant
            groups.setdefault(owner, {}).setdefault(key.task, []).append(key.repetition)
        return cls(
            tuple(
                TrialGroup(*owner, {task: _count(numbers) for task, numbers in tasks.items()})
                for owner, tasks in groups.items()
            )
        )

    @property
    def keys(self) -> frozenset[TrialKey]:
        """The trials, each by its key."""
        return frozenset(
            TrialKey(group.suite, task, group.agent, group.model, group.variant, number)
            for group in self.groups
            for task, numbers in group.tasks.items()
            for number in (range(1, numbers + 1) if isinstance(numbers, int) else numbers)
        )


def _count(numbers: Sequence[int]) -> int | tuple[int, ...]:
    return len(numbers) if sorted(numbers) == list(range(1, len(numbers) + 1)) else tuple(numbers)


Group: TypeAlias = tuple[str, str, str]
"""A suite, a model and a variant."""

Reading: TypeAlias = Literal["decided", "hopeless", "open", "few tasks", "no room", "no counterpart"]
"""What a look at the first repetitions gave.

Decided: a verdict; hopeless: more trials would hardly bring one; open: more are made. A suite of few tasks is
not looked at and gets more; there is no room for more than the most trials of a run; without a counterpart in
the baseline there is nothing that trials could decide.
"""


class ExtraTrials(Record, frozen=True):
    """Trials that run only if the look at the first repetitions requires them, as pytest's node ids."""

    suite: str
    model: str
    variant: str
    node_ids: tuple[str, ...]

    @property
    def group(self) -> Group:
        return self.suite, self.model, self.variant


class ExtraRepetitions(RunDocument, frozen=True):
    """All trials that a run may need beyond the planned ones; ``planned`` is the plan including them.

    Only runs with a range of repetitions, such as ``--repetitions=2..6``, have the file.
    """

    file: ClassVar[str] = EXTRA
    groups: tuple[ExtraTrials, ...]
    planned: tuple[PlannedGroup, ...]


class SuiteLook(Record, frozen=True):
    """The result of an interim look at a suite with one model and variant, and the levels of its verdicts.

    ``repetitions`` is how many each task gets, from ``low`` to ``high``. ``baseline`` is the run that it was
    compared with, ``old_model`` and ``old_variant`` the model and variant of that run.
    """

    suite: str
    model: str
    variant: str
    reading: Reading
    repetitions: int
    low: int
    high: int
    levels: Levels = Levels()
    baseline: str = ""
    old_model: str = ""
    old_variant: str = ""

    @property
    def group(self) -> Group:
        """The suite, model and variant of the look."""
        return self.suite, self.model, self.variant

    @property
    def goes_on(self) -> bool:
        """Whether the suite gets its extra repetitions."""
        return self.repetitions == self.high

    @property
    def spent(self) -> bool:
        """Whether scores have decided how often the suite is repeated."""
        return self.levels != Levels()


class Looks(RunDocument, frozen=True):
    """What the look at each suite gave, written once for all of the run's processes."""

    file: ClassVar[str] = LOOKS
    looks: tuple[SuiteLook, ...]


def read_looks(folder: Path) -> tuple[SuiteLook, ...] | None:
    """Read the results of the look; None before it."""
    found = Looks.read(folder)
    return None if found is None else found.looks


def planned_after(
    planned: tuple[PlannedGroup, ...], extra: ExtraRepetitions, looks: Iterable[SuiteLook]
) -> tuple[PlannedGroup, ...]:
    """Return the plan with the extra repetitions of the suites that go on."""
    going = {look.group for look in looks if look.goes_on}
    whole, own = (
        {(group.suite, group.model, group.variant, group.bucket): group for group in groups}
        for groups in (extra.planned, planned)
    )
    return tuple(whole[key] if key[:3] in going else own.get(key, whole[key]) for key in whole)


class SuiteGate(Record, frozen=True):
    """What a suite has to reach, with command line options applied, as JSON values.

    ``tasks`` is how many tasks each of its buckets has, run or not; empty if that is unknown. ``assumed``
    means that no gate was written: this one applies because a baseline was named.
    """

    suite: str
    gate: Mapping[str, Any]
    tasks: Mapping[str, int]
    assumed: bool = False


class RunGates(RunDocument, frozen=True):
    """The gates of a run; most runs have none."""

    file: ClassVar[str] = GATES
    content: ClassVar[str] = "the run's gates"
    gates: tuple[SuiteGate, ...]


def read_gates(folder: Path) -> tuple[SuiteGate, ...]:
    """Read the gates of a run; raises UsageMistake if they cannot be read."""
    found = RunGates.read(folder)
    return found.gates if found else ()


class AuditedTask(Record, frozen=True):
    """A task that is audited: ``place`` is its file and line, ``graders`` maps labels to names of graders."""

    suite: str
    task: str
    place: str = ""
    graders: Mapping[str, str] = NOTHING


class PlannedSpoiler(Record, frozen=True):
    """One spoilt form of a task's reference: the ``number``-th of the spoiler, what was done, and to what."""

    suite: str
    task: str
    spoiler: str
    number: int
    done: str
    places: tuple[str, ...] = ()


class AuditedRubric(Record, frozen=True):
    """A rubric of a suite: ``place`` is the file and line of the first task that is judged by it.

    An audit plants ``tried`` verdicts in what is judged; ``moved_by`` names those that are read as the
    judge's own.
    """

    suite: str
    rubric: str
    place: str
    tried: int
    moved_by: tuple[str, ...] = ()


class RunAudit(RunDocument, frozen=True):
    """What a run audits; ``unaudited`` are tasks that have no reference to act out."""

    file: ClassVar[str] = AUDIT
    content: ClassVar[str] = "what is audited"
    tasks: tuple[AuditedTask, ...] = ()
    unaudited: tuple[AuditedTask, ...] = ()
    spoilers: tuple[PlannedSpoiler, ...] = ()
    rubrics: tuple[AuditedRubric, ...] = ()


RULES = 2
"""The rules of today's verdicts: with those before, a verdict may be another."""


class StoredVerdict(Record, frozen=True):
    """The verdict on one suite with its model and variant, and which of its buckets are worse or better.

    ``rules`` is the number of the rules by which it was made. ``of_these_tasks`` means that the verdict holds
    for these tasks only, and not for tasks like them.
    """

    suite: str
    who: tuple[str, str]
    verdict: str
    buckets_worse: tuple[str, ...] = ()
    buckets_better: tuple[str, ...] = ()
    of_these_tasks: bool = False
    rules: int = RULES


class StoredComparison(Record, frozen=True):
    """The verdict in a sentence, and suite by suite."""

    headline: str
    verdicts: tuple[StoredVerdict, ...]


def read_comparison(folder: Path) -> tuple[StoredComparison | None, str]:
    """Read a run's comparison, and describe the problem if it cannot be read, else an empty text.

    The comparison is None if the run was compared with nothing, and if it cannot be read.
    """
    path = folder / COMPARISON
    if not path.is_file():
        return None, ""
    try:
        data = read_json(path)
        # Only gates were judged: there was no baseline.
        if "gate" in data and "headline" not in data:
            return None, ""
        rules = int(data.get("v", 1))
        verdicts = tuple(_verdict(suite, rules) for suite in data["suites"])
        return StoredComparison(str(data["headline"]), verdicts), ""
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        return None, f"{COMPARISON}: left out: {damage_text(broken)}"


def _verdict(suite: Mapping[str, Any], rules: int) -> StoredVerdict:
    model, variant = suite["new_who"]
    whole = suite["suite"] or {}
    worse, better = (
        tuple(str(bucket["name"]) for bucket in suite["buckets"] if bucket["verdict"] == verdict)
        for verdict in ("worse", "better")
    )
    return StoredVerdict(
        suite=str(suite["name"]),
        who=(str(model), str(variant)),
        verdict=str(whole["verdict"]) if whole else "cannot tell",
        buckets_worse=worse,
        buckets_better=better,
        of_these_tasks=bool(whole.get("of_these_tasks", False)),
        rules=rules,
    )
