"""The files beside a run's journal: planned trials, repetitions, gates, the audit, the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.store.record_files import VERSION, check_version, replace_json
from pytest_agenteval.store.run_folder import Levels, PlannedGroup, damage_text, read_json
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

PLANNED_TRIALS = "planned-trials.json"

Owner = tuple[str, str, str, str]
"""A suite, an agent, a model and a variant."""


def write_planned_trials(folder: Path, keys: Iterable[TrialKey]) -> None:
    """Write the trials of a run; every worker may do so, as all of them write the same."""
    groups: dict[Owner, dict[str, list[int]]] = {}
    for key in keys:
        owner = key.suite, key.agent, key.model, key.variant
        groups.setdefault(owner, {}).setdefault(key.task, []).append(key.repetition)
    lines = []
    for owner, tasks in groups.items():
        # Where repetitions do not count from 1, their numbers are written.
        counts = {
            task: len(numbers) if sorted(numbers) == list(range(1, len(numbers) + 1)) else numbers
            for task, numbers in tasks.items()
        }
        lines.append(
            {**dict(zip(("suite", "agent", "model", "variant"), owner, strict=True)), "tasks": counts}
        )
    replace_json(folder / PLANNED_TRIALS, KNOWN_SECRETS.value({"v": VERSION, "groups": lines}))


def _read_document(path: Path) -> dict[str, Any] | None:
    """Read a file beside the journal, without its version; None if there is none."""
    if not path.is_file():
        return None
    data = read_json(path)
    check_version(data, path)
    return {name: value for name, value in data.items() if name != "v"}


def read_planned_trials(folder: Path) -> frozenset[TrialKey] | None:
    """Read which trials a run is to carry out; None if that was not written.

    Raises UsageMistake for a file of a newer version, and ValueError or the like if it cannot be read.
    """
    data = _read_document(folder / PLANNED_TRIALS)
    if data is None:
        return None
    return frozenset(
        TrialKey(group["suite"], task, group["agent"], group["model"], group["variant"], number)
        for group in data["groups"]
        for task, numbers in group["tasks"].items()
        for number in (numbers if isinstance(numbers, list) else range(1, numbers + 1))
    )


EXTRA, LOOKS = "extra-repetitions.json", "looks.json"

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


class ExtraRepetitions(Record, frozen=True):
    """All trials that a run may need beyond the planned ones; ``planned`` is the plan including them."""

    groups: tuple[ExtraTrials, ...]
    planned: tuple[PlannedGroup, ...]


class SuiteLook(Record, frozen=True):
    """What the look at a suite with one model and variant gave, and the levels that its verdicts are at.

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


def write_extra(folder: Path, extra: ExtraRepetitions) -> None:
    """Write which extra trials may be needed; every worker may do so, as all of them write the same."""
    replace_json(folder / EXTRA, {"v": VERSION, **extra.to_json()})


def read_extra(folder: Path) -> ExtraRepetitions | None:
    """Read which extra trials may be needed; None if repetitions are fixed."""
    # Only runs with a range of repetitions, such as ``--repetitions=2..6``, have the file.
    data = _read_document(folder / EXTRA)
    return None if data is None else ExtraRepetitions.from_json(data)


def write_looks(folder: Path, looks: Iterable[SuiteLook]) -> None:
    """Write the results of the look, once for all of the run's processes."""
    replace_json(folder / LOOKS, {"v": VERSION, "looks": [look.to_json() for look in looks]})


def read_looks(folder: Path) -> tuple[SuiteLook, ...] | None:
    """Read the results of the look; None before it."""
    data = _read_document(folder / LOOKS)
    return None if data is None else tuple(map(SuiteLook.from_json, data["looks"]))


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


GATES = "gates.json"


class SuiteGate(Record, frozen=True):
    """What a suite has to reach, with command line options applied, as JSON values.

    ``tasks`` is how many tasks each of its buckets has, run or not; empty if that is unknown. ``assumed``
    means that no gate was written: this one applies because a baseline was named.
    """

    suite: str
    gate: Mapping[str, Any]
    tasks: Mapping[str, int]
    assumed: bool = False


def write_gates(folder: Path, gates: Iterable[SuiteGate]) -> None:
    """Write the gates of a run; every worker may do so, as all of them write the same."""
    replace_json(folder / GATES, {"v": VERSION, "gates": [gate.to_json() for gate in gates]})


def read_gates(folder: Path) -> tuple[SuiteGate, ...]:
    """Read the gates of a run; most runs have none.

    Raises UsageMistake for a file of a newer version, and if it cannot be read.
    """
    path = folder / GATES
    try:
        data = _read_document(path)
        return () if data is None else tuple(map(SuiteGate.from_json, data["gates"]))
    except (OSError, ValueError, LookupError, TypeError) as broken:
        raise UsageMistake(f"{path}: the run's gates cannot be read ({damage_text(broken)})") from None


AUDIT = "audit.json"


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


class RunAudit(Record, frozen=True):
    """What a run audits; ``unaudited`` are tasks that have no reference to act out."""

    tasks: tuple[AuditedTask, ...] = ()
    unaudited: tuple[AuditedTask, ...] = ()
    spoilers: tuple[PlannedSpoiler, ...] = ()
    rubrics: tuple[AuditedRubric, ...] = ()


def write_audit(folder: Path, audit: RunAudit) -> None:
    """Write what a run audits; every worker may do so, as all of them write the same."""
    replace_json(folder / AUDIT, KNOWN_SECRETS.value({"v": VERSION, **audit.to_json()}))


def read_audit(folder: Path) -> RunAudit | None:
    """Read what a run audits; None for a run that is not an audit.

    Raises UsageMistake for a file of a newer version, and if it cannot be read.
    """
    path = folder / AUDIT
    try:
        data = _read_document(path)
        return None if data is None else RunAudit.from_json(data)
    except (OSError, ValueError, LookupError, TypeError) as broken:
        raise UsageMistake(f"{path}: what is audited cannot be read ({damage_text(broken)})") from None


COMPARISON = "comparison.json"

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
