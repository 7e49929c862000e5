"""What a run says of itself: when, how and with what it was made, and what it set out to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agenteval.records.plan import Kind, TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.store.json_lines import VERSION


# Keys that are not known are left out: what a later version adds to a header spoils no figure.
class RunModel(Record, frozen=True, forbid_unknown_fields=False):
    """A model of the run.

    ``note`` says what an offline model does, where its id does not say it, and on which device and in which
    numbers one of this machine was asked for: ``cuda, bfloat16, 4bit``. ``via`` is how a real model was
    asked: ``direct`` or ``litellm``, empty where nobody knows.
    """

    name: str
    id: str
    offline: bool = False
    note: str = ""
    via: str = ""

    def to_json(self) -> dict[str, Any]:
        """Give the model as JSON values; without the way it was asked where it was asked in none."""
        fields = super().to_json()
        return fields if self.via else {name: it for name, it in fields.items() if name != "via"}


class RunSuite(Record, frozen=True, forbid_unknown_fields=False):
    """A suite of the run; ``threshold`` below 1 is the mean score at which a task counts as passed.

    ``kind`` is the suite's own; each trial says its own, which is another where it is promoted.
    """

    name: str
    kind: Kind = "mixed"
    agent: str = ""
    threshold: float = 1.0


class Levels(Record, frozen=True):
    """The confidence levels of verdicts and intervals: a suite's, and that of all of its buckets together."""

    suite: float = 0.975
    buckets: float = 0.975


class RepetitionRule(Record, frozen=True, forbid_unknown_fields=False):
    """How it is decided, between ``low`` and ``high``, how often tasks are repeated; fixed before the run.

    After ``low`` repetitions a suite with a verdict at the levels of the first look ends, and one whose p is
    above ``futile`` while none of its buckets' is at most ``promising``. Others get ``high``, and a verdict
    at the levels of the second look. Suites of fewer than ``fewest_tasks`` get ``high`` unseen. More than
    ``most_trials`` are not made.
    """

    low: int
    high: int
    first_look: Levels = Levels(0.996, 0.996)
    second_look: Levels = Levels(0.976, 0.979)
    futile: float = 0.3
    promising: float = 0.05
    fewest_tasks: int = 7
    most_trials: int | None = None


class RunPrices(Record, frozen=True, forbid_unknown_fields=False):
    """Where a run's prices come from.

    ``table`` is the package whose table holds those of known models, with its version. ``own`` are models
    whose price the user says, with the date as of which that holds, or an empty text.
    """

    table: str = ""
    own: Mapping[str, str] = NOTHING


class PlannedGroup(Record, frozen=True):
    """How many tasks and trials of one bucket are to be done with one model and variant.

    ``repetitions`` is that of the task which has fewest.
    """

    suite: str
    model: str
    variant: str
    bucket: str
    tasks: int
    trials: int
    repetitions: int


class RunShards(Record, frozen=True, forbid_unknown_fields=False):
    """Which shards of how many a run is, and what all of them have planned together.

    ``numbers`` are from 1: one, and of a merged run those that it is made of. ``tasks`` is a digest of what
    the tasks of all shards ask. ``baseline`` is what the run was to be compared with, once it is whole.
    """

    numbers: tuple[int, ...]
    total: int
    planned: tuple[PlannedGroup, ...]
    tasks: str = ""
    baseline: str = ""

    @property
    def title(self) -> str:
        """The shards in words: ``shard 2 of 4``, ``shards 1, 3 of 4``."""
        return f"shard{'s' * (len(self.numbers) > 1)} {', '.join(map(str, self.numbers))} of {self.total}"

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the shards that are not here."""
        return tuple(number for number in range(1, self.total + 1) if number not in self.numbers)


class Resumption(Record, frozen=True, forbid_unknown_fields=False):
    """When a run was gone on with, and by which command."""

    at: str
    command: tuple[str, ...] = ()


class RunHeader(Record, frozen=True, forbid_unknown_fields=False):
    """When, how and with what a run was made.

    ``name`` is the folder's name and filled in by ``new_run``. ``repetitions`` is None where each task says
    its own, or ``repetition_rule`` decides. ``self_judge`` says that a model may judge its own trials.
    ``regraded`` names the runs whose trials were graded again. ``record`` and ``record_chat`` say what tools
    and chats were to be recorded; they are empty where nobody knows. ``held_out_looks`` says of each suite
    whose held-out tasks the run tries how often that was done, this run counted. ``prices`` is None where no
    model has any. ``shards`` says of a part of a run which one it is: models, variants and suites are then
    those of all parts. ``ended_at`` is empty and ``exit_status`` None until the run has ended. ``resumed``
    says when it was gone on with; ``reused`` names the runs whose finished trials it has taken over. ``user``
    is the id of the model that played users. ``died`` names the processes that died while the run went on,
    as its journals do (``gw0-4711``).
    """

    started_at: str
    command: tuple[str, ...] = ()
    models: tuple[RunModel, ...] = ()
    variants: tuple[str, ...] = ()
    suites: tuple[RunSuite, ...] = ()
    seed: int = 0
    repetitions: int | None = None
    package: str = ""
    pytest: str = ""
    name: str = ""
    ended_at: str = ""
    exit_status: int | None = None
    judges: tuple[RunModel, ...] = ()
    self_judge: bool = False
    regraded: tuple[str, ...] = ()
    record: str = ""
    record_chat: str = ""
    repetition_rule: RepetitionRule | None = None
    held_out_looks: Mapping[str, int] = NOTHING
    prices: RunPrices | None = None
    shards: RunShards | None = None
    resumed: tuple[Resumption, ...] = ()
    reused: tuple[str, ...] = ()
    user: str = ""
    died: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the header as JSON values; without what most runs have not: a rule, looks, shards."""
        fields = Record.to_json(self)
        fields |= {"models": [model.to_json() for model in self.models]}
        fields |= {"judges": [judge.to_json() for judge in self.judges]}
        rare = ("held_out_looks", "repetition_rule", "prices", "shards", "resumed", "reused", "user", "died")
        for name in rare:
            if not fields[name]:
                del fields[name]
        return {"v": VERSION, **fields}


def planned_groups(trials: Iterable[tuple[TrialKey, str]]) -> tuple[PlannedGroup, ...]:
    """Count planned trials, given as pairs of key and bucket; groups come in order of appearance."""
    groups: dict[tuple[str, str, str, str], Counter[tuple[str, str]]] = {}
    for key, bucket in trials:
        group = (key.suite, key.model, key.variant, bucket)
        groups.setdefault(group, Counter())[key.task, key.agent] += 1
    return tuple(
        PlannedGroup(*group, len(tasks), tasks.total(), min(tasks.values()))
        for group, tasks in groups.items()
    )


def planned_json(groups: Iterable[PlannedGroup]) -> dict[str, Any]:
    """Give the groups as JSON values."""
    return {"v": VERSION, "groups": [group.to_json() for group in groups]}


def read_planned(data: Mapping[str, Any]) -> tuple[PlannedGroup, ...]:
    """Read what ``planned_json`` gave."""
    return tuple(map(PlannedGroup.from_json, data["groups"]))
