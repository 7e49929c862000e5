"""Repetitions that stop early: their rule, which trials they may need, and what a run's look at them gave."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from pytest_agenteval.records.record import Record
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.json_lines import VERSION, check_version
from pytest_agenteval.store.run_metadata import Levels, PlannedGroup
from pytest_agenteval.store.runs import read_json

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
    """Trials that are made only if the look at the first repetitions asks for them, by pytest's node ids."""

    suite: str
    model: str
    variant: str
    node_ids: tuple[str, ...]

    @property
    def group(self) -> Group:
        """Whose they are."""
        return self.suite, self.model, self.variant


class ExtraRepetitions(Record, frozen=True):
    """All trials that a run may need beyond the planned ones; ``planned`` is the plan with all of them."""

    groups: tuple[ExtraTrials, ...]
    planned: tuple[PlannedGroup, ...]


class SuiteLook(Record, frozen=True):
    """What the look at a suite with one model and variant gave, and the levels that its verdicts are at.

    ``repetitions`` is what each task gets, of ``low`` and ``high``. ``baseline`` is the run that was compared
    with, ``old_model`` and ``old_variant`` what stood on its side.
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
        """What was looked at."""
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
    """Write which trials may be needed; every worker may, as all of them write the same."""
    replace_json(folder / EXTRA, {"v": VERSION, **extra.to_json()})


def read_extra(folder: Path) -> ExtraRepetitions | None:
    """Read which trials may be needed; None where repetitions are fixed."""
    if not (folder / EXTRA).is_file():
        return None
    data = read_json(folder / EXTRA)
    check_version(data, folder / EXTRA)
    return ExtraRepetitions.from_json({name: value for name, value in data.items() if name != "v"})


def write_looks(folder: Path, looks: Iterable[SuiteLook]) -> None:
    """Write what the look gave, once for all of the run's processes."""
    replace_json(folder / LOOKS, {"v": VERSION, "looks": [look.to_json() for look in looks]})


def read_looks(folder: Path) -> tuple[SuiteLook, ...] | None:
    """Read what the look gave; None before it."""
    if not (folder / LOOKS).is_file():
        return None
    data = read_json(folder / LOOKS)
    check_version(data, folder / LOOKS)
    return tuple(map(SuiteLook.from_json, data["looks"]))


def planned_after(
    planned: tuple[PlannedGroup, ...], extra: ExtraRepetitions, looks: Iterable[SuiteLook]
) -> tuple[PlannedGroup, ...]:
    """Give the plan with the extra repetitions of the suites that go on."""
    going = {look.group for look in looks if look.goes_on}
    whole = {(*_group(group), group.bucket): group for group in extra.planned}
    own = {(*_group(group), group.bucket): group for group in planned}
    return tuple(whole[key] if key[:3] in going else own.get(key, whole[key]) for key in whole)


def _group(group: PlannedGroup) -> Group:
    return group.suite, group.model, group.variant
