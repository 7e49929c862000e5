"""A run's folder: its header ``run.json``, the plan of its trials, and how a run is found by name."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.processes.files import read_pointer
from pytest_agenteval.records.plan import Kind, TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.store.record_files import (
    VERSION,
    check_version,
    replace_json,
    replace_link,
    replace_text,
)
from pytest_agenteval.tasks.file_names import holds_baseline
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS


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


ROOT = Path(".agenteval") / "runs"
HEADER = "run.json"
PLANNED = "planned.json"
LATEST = "latest"
MOST_LABEL = 40


class RunFolder(Record, frozen=True):
    """A run's folder and its header."""

    path: Path
    header: RunHeader


def open_run(folder: Path, header: RunHeader) -> None:
    """Make this folder the run's, and let ``latest`` point to it.

    Every process of a run may do so, with the same header.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _keep_out_of_git(folder.parent)
    _write_header(folder, replace(header, name=folder.name))
    replace_link(folder.parent / LATEST, folder.name)


def new_run(root: Path, header: RunHeader) -> Path:
    """Make a run's folder, which nobody else gets, and let ``latest`` point to it.

    Whoever wants to read the run before must find it first: afterwards ``latest`` is the new one.
    """
    root.mkdir(parents=True, exist_ok=True)
    _keep_out_of_git(root)
    digits = re.sub(r"\D", "", header.started_at[:19])
    models = "+".join(model.name for model in header.models)
    label = re.sub(r"[^A-Za-z0-9._+-]+", "-", models)[:MOST_LABEL].strip("-.")
    stem, number = "-".join(part for part in (digits[:8], digits[8:14], label) if part), 1
    while True:  # mkdir and not exists(): two runs that begin in one second both look before either makes it
        folder = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            break
    _write_header(folder, replace(header, name=folder.name))
    replace_link(root / LATEST, folder.name)
    return folder


def _write_header(folder: Path, header: RunHeader) -> None:
    replace_json(folder / HEADER, KNOWN_SECRETS.value(header.to_json()))


@contextmanager
def keeping_latest(root: Path) -> Iterator[None]:
    """Let ``latest`` point to where it pointed before, whatever runs begin meanwhile."""
    before = read_pointer(root / LATEST)
    try:
        yield
    finally:
        if before:
            replace_link(root / LATEST, before)


def change_header(folder: Path, change: Callable[[RunHeader], RunHeader]) -> None:
    """Write a run's header anew, and let ``latest`` point to the run; raises what ``read_header`` does."""
    _write_header(folder, change(read_header(folder)))
    replace_link(folder.parent / LATEST, folder.name)


def end_run(folder: Path, ended_at: str, exit_status: int, died: Iterable[str] = ()) -> None:
    """Write into the header when and how the run ended, and which processes died before that."""
    header = read_header(folder)
    died = tuple(dict.fromkeys((*header.died, *died)))
    _write_header(folder, replace(header, ended_at=ended_at, exit_status=exit_status, died=died))


def write_planned(folder: Path, groups: Iterable[PlannedGroup]) -> None:
    """Write what the run sets out to do; every worker may, as all of them write the same."""
    replace_json(folder / PLANNED, KNOWN_SECRETS.value(planned_json(groups)))


def read_header(folder: Path) -> RunHeader:
    """Read a run's header; a UsageMistake says when the folder is no run or of a newer version."""
    path = folder / HEADER
    try:
        data: Any = read_json(path)
        check_version(data, path)
        return RunHeader.from_json(data)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        raise UsageMistake(
            f"{folder} is not a run: {path} cannot be read ({damage_text(broken)})"
        ) from broken


def read_header_or_name(folder: Path) -> tuple[RunHeader, str]:
    """Read a run's header; of one that cannot be read give what the folder's name says, and what is wrong.

    Raises UsageMistake where there is none, and where it is of a newer version.
    """
    path = folder / HEADER
    try:
        return read_header(folder), ""
    except UsageMistake as mistake:
        if not path.is_file() or mistake.__cause__ is None:
            raise
        when = re.match(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", folder.name)
        if when is None and not any(folder.glob("journal-*.jsonl")):
            raise
        started_at = "{}-{}-{}T{}:{}:{}".format(*when.groups()) if when else ""
        problem = f"{HEADER}: left out: {damage_text(mistake.__cause__)}"
        return RunHeader(started_at, name=folder.name), problem


def read_json(path: Path) -> Any:
    """Read a JSON object; raises ValueError for anything else."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"it holds {json.dumps(data)[:40]}, and no JSON object")
    return data


def damage_text(broken: BaseException) -> str:
    """Say what a file lacks that was written by somebody else, or half."""
    return f"no key {broken}" if isinstance(broken, KeyError) else str(broken)


def list_runs(root: Path) -> list[RunFolder]:
    """Give the runs of a folder, newest first; of one that nobody can read only the name is known."""
    runs = []
    for path in root.glob(f"*/{HEADER}"):
        with suppress(UsageMistake):
            if path.parent.name != LATEST:
                runs.append(RunFolder(path.parent, read_header_or_name(path.parent)[0]))
    return sorted(runs, key=lambda run: (run.header.started_at, run.path.name), reverse=True)


def whole_runs(root: Path) -> list[RunFolder]:
    """Give the runs of a folder that are no parts of one, newest first: for who looks back over several."""
    return [run for run in list_runs(root) if run.header.shards is None]


def _keep_out_of_git(root: Path) -> None:
    """Let git ignore our own folder; a folder that the user named is the user's."""
    ignore = root.parent / ".gitignore"
    if root.parent.name == ROOT.parent.name and not ignore.exists():
        replace_text(ignore, "*\n")


MOST_LISTED = 10
NEAR = 0.5


def find_run(root: Path, name: str) -> Path:
    """Give the folder of the run that is meant.

    ``name`` is a path to a run's folder, its name in ``root``, the beginning of a single one's name,
    ``latest``, ``MODEL@YYYYMMDD`` (the newest run of that day with that model) or ``MODEL@latest``. A full
    name beats a beginning. A UsageMistake lists the runs that could be meant, else the nearest, else all.
    """
    if name and (Path(name) / HEADER).is_file():
        return Path(name)
    if name and holds_baseline(Path(name)):
        raise UsageMistake(
            f"{name} is a baseline, for agenteval compare and --agent-baseline; here a run is needed"
        )
    if name != LATEST and Path(name).name == name and (root / name / HEADER).is_file():
        return root / name  # also of a newer version, which no list has: reading it raises the error
    runs = list_runs(root)
    matching: Sequence[RunFolder] = ()
    if name == LATEST:
        # The link may be lost, as in a downloaded archive, or lead to a run that was deleted.
        linked = read_pointer(root / LATEST)
        matching = [run for run in runs if run.path.name == linked] or runs[:1]
    elif name:
        by_name = [run for run in runs if run.path.name == name]
        beginning = [run for run in runs if run.path.name.startswith(name)]
        matching = by_name or _of_model(runs, name)[:1] or beginning
    if len(matching) == 1:
        return matching[0].path
    problem = f"several runs begin with {name!r}" if matching else f"there is no run {name!r} in {root}"
    nearby = [] if matching else list(_nearest(runs, name))
    if not runs:
        candidates = "there are no runs yet"
    elif nearby:
        candidates = f"the nearest: {', '.join(nearby[:MOST_LISTED])}"
    else:
        listed = matching or runs
        more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        first = ", ".join(run.path.name for run in listed[:MOST_LISTED])
        candidates = f"runs there, newest first: {first}{more}"
    raise UsageMistake(f"{problem}; {candidates}")


def runs_of_day(root: Path, name: str) -> list[str]:
    """Give the names of all runs that ``MODEL@YYYYMMDD`` could mean, newest first; none for another name."""
    is_other = not name or name.endswith(f"@{LATEST}") or (Path(name) / HEADER).is_file()
    return [] if is_other else [run.path.name for run in _of_model(list_runs(root), name)]


def _of_model(runs: Sequence[RunFolder], name: str) -> Sequence[RunFolder]:
    """Give the runs of a model, of the day that is named; a model's own name may hold an ``@``."""
    model, at, day = name.rpartition("@")
    if not at:
        return ()
    return [run for run in runs if _has_model(run, model) and day in (_day(run), LATEST)]


def _has_model(run: RunFolder, model: str) -> bool:
    return any(model == run_model.name for run_model in run.header.models)


def _day(run: RunFolder) -> str:
    return run.header.started_at[:10].replace("-", "")


def _nearest(runs: Sequence[RunFolder], name: str) -> Iterator[str]:
    """Give the days of the model that is meant; else names like the one that was written."""
    import difflib

    model, at, _ = name.rpartition("@")
    if at:
        model_names = dict.fromkeys(run_model.name for run in runs for run_model in run.header.models)
        meant = difflib.get_close_matches(model, list(model_names), n=1, cutoff=NEAR)
        days = dict.fromkeys(f"{name}@{_day(run)}" for name in meant for run in runs if _has_model(run, name))
        yield from days
    else:
        names = [run.path.name for run in runs]
        yield from difflib.get_close_matches(name, names, n=MOST_LISTED, cutoff=NEAR)
