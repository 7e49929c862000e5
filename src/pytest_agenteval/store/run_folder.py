"""A run's folder: its header ``run.json``, the plan of its trials, and how a run is found by name."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.formatting import few_names
from pytest_agenteval.text.redaction import KNOWN_SECRETS


# Unknown keys are ignored: what a later version adds to a header makes no figure wrong.
class RunModel(Record, frozen=True, forbid_unknown_fields=False):
    """A model of the run.

    ``note`` says what an offline model does, if its id does not say it; for a model on this machine, also the
    requested device and number format: ``cuda, bfloat16, 4bit``. ``via`` is how requests to a real model were
    sent: ``direct`` or ``litellm``, empty if unknown.
    """

    name: str
    id: str
    offline: bool = False
    note: str = ""
    via: str = ""

    def to_json(self) -> dict[str, Any]:
        """Give the model as JSON values; ``via`` is left out if it is empty."""
        fields = super().to_json()
        return fields if self.via else {name: it for name, it in fields.items() if name != "via"}


class RunSuite(Record, frozen=True, forbid_unknown_fields=False):
    """A suite of the run; ``threshold`` below 1 is the mean score at which a task passes.

    ``kind`` is the suite's own; a trial has a kind too, which differs if the suite has promoted its task.
    """

    name: str
    kind: Kind = "mixed"
    agent: str = ""
    threshold: float = 1.0


class Levels(Record, frozen=True):
    """The confidence levels of verdicts and intervals: a suite's, and its buckets' together."""

    suite: float = 0.975
    buckets: float = 0.975


class RepetitionRule(Record, frozen=True, forbid_unknown_fields=False):
    """The rule, fixed before the run, for repetitions between ``low`` and ``high``.

    After ``low`` repetitions a suite ends if it has a verdict at the levels of the first look, or if its p is
    above ``futile`` and the p of each of its buckets is above ``promising``. All others get ``high``
    repetitions, and a verdict at the levels of the second look. Suites with fewer than ``fewest_tasks`` tasks
    get ``high`` without a look. A run has at most ``most_trials`` trials.
    """

    low: int
    high: int
    # Two looks have two chances to err: 0.4 % at the first, 2.4 % (buckets: 2.1 %) at the second.
    first_look: Levels = Levels(0.996, 0.996)
    second_look: Levels = Levels(0.976, 0.979)
    # Beyond these a verdict is out of reach: more repetitions would hardly change it.
    futile: float = 0.3
    promising: float = 0.05
    fewest_tasks: int = 7
    most_trials: int | None = None


class RunPrices(Record, frozen=True, forbid_unknown_fields=False):
    """The sources of a run's prices.

    ``table`` is the package with the prices of known models, and its version. ``own`` are models whose price
    the user has set, with the date from which the price holds, or an empty text.
    """

    table: str = ""
    own: Mapping[str, str] = NOTHING


class PlannedGroup(Record, frozen=True):
    """The planned tasks and trials of a bucket with one model and variant.

    ``repetitions`` is that of the task with the fewest.
    """

    suite: str
    model: str
    variant: str
    bucket: str
    tasks: int
    trials: int
    repetitions: int


class RunShards(Record, frozen=True, forbid_unknown_fields=False):
    """The shards of a run and their common plan.

    ``numbers`` count from 1: one number, or for a merged run those of its parts. ``tasks`` is a digest of
    what the tasks of all shards ask. ``baseline`` is the run to compare the whole run with.
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
    """When a run was resumed, and by which command."""

    at: str
    command: tuple[str, ...] = ()


class RunSession(Record, frozen=True, forbid_unknown_fields=False):
    """One pytest process of a run; ``ended_at`` is empty while it runs or after it was killed."""

    started_at: str
    ended_at: str = ""


class RunHeader(Record, frozen=True, forbid_unknown_fields=False):
    """When, how and with what a run was made.

    ``name`` is the folder's name, filled in by ``new_run``. ``repetitions`` is None if each task has its own,
    or if ``repetition_rule`` decides. ``self_judge`` means that a model may judge its own trials.
    ``regraded`` names the runs whose trials were graded again. ``record`` and ``record_chat`` are the
    recording modes of tools and chats, empty if unknown. ``held_out_looks`` counts, for each suite whose
    held-out tasks the run tries, how often that was done, including this run. ``prices`` is None if no model
    has any. ``shards`` is set if the run is a part of a run: models, variants and suites are then those of
    all parts. ``ended_at`` is empty and ``exit_status`` None until the run has ended. ``resumed`` lists when
    it was resumed; ``reused`` names the runs whose finished trials it has taken over. ``user`` is the id of
    the model that simulated users. ``died`` names the processes that died during the run, as its journals do
    (``gw0-4711``). ``sessions`` are those before the run was resumed last, and those of merged runs;
    ``all_sessions`` gives all. ``merged_at`` is when the run was made of others, empty for any other.
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
    sessions: tuple[RunSession, ...] = ()
    merged_at: str = ""

    @property
    def all_sessions(self) -> tuple[RunSession, ...]:
        """Every pytest that worked on the run: in turn where it was resumed, side by side where merged."""
        starts = [self.started_at, *(resumption.at for resumption in self.resumed)]
        # Before sessions were stored, only the end of the last one was known, and none of merged runs.
        if not self.sessions and self.command[:2] == ("agenteval", "merge"):
            return (RunSession(self.started_at),)
        earlier = self.sessions or tuple(map(RunSession, starts[:-1]))
        own = RunSession(starts[-1], self.ended_at)
        # Nothing ran while runs were merged: the last start is that of one of the merged sessions.
        return earlier if own.started_at in {each.started_at for each in earlier} else (*earlier, own)

    def resumed_at(self, moment: str, command: tuple[str, ...]) -> RunHeader:
        """Give the header of the run while a pytest resumes it; each of its processes may do so."""
        is_again = any(each.at == moment for each in self.resumed)
        return replace(
            self,
            resumed=(*(each for each in self.resumed if each.at != moment), Resumption(moment, command)),
            sessions=self.sessions if is_again else self.all_sessions,
            ended_at="",
            exit_status=None,
        )

    def to_json(self) -> dict[str, Any]:
        """Give the header as JSON values; without what most runs do not have: a rule, looks, shards."""
        fields = Record.to_json(self)
        fields |= {"models": [model.to_json() for model in self.models]}
        fields |= {"judges": [judge.to_json() for judge in self.judges]}
        rare = ["held_out_looks", "repetition_rule", "prices", "shards", "resumed", "sessions", "reused"]
        rare += ["user", "died", "merged_at"]
        for name in rare:
            if not fields[name]:
                del fields[name]
        return {"v": VERSION, **fields}


def planned_groups(trials: Iterable[tuple[TrialKey, str]]) -> tuple[PlannedGroup, ...]:
    """Count planned trials, given as pairs of key and bucket; groups are in order of appearance."""
    groups: dict[tuple[str, str, str, str], Counter[tuple[str, str]]] = {}
    for key, bucket in trials:
        group = (key.suite, key.model, key.variant, bucket)
        groups.setdefault(group, Counter())[key.task, key.agent] += 1
    return tuple(
        PlannedGroup(*group, len(tasks), tasks.total(), min(tasks.values()))
        for group, tasks in groups.items()
    )


def read_planned(data: Mapping[str, Any]) -> tuple[PlannedGroup, ...]:
    return tuple(map(PlannedGroup.from_json, data["groups"]))


ROOT = Path(".agenteval") / "runs"
HEADER = "run.json"
PLANNED = "planned.json"
HOLD_FILE = ".held"  # locked by the processes that are at work on the run
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


def new_run(root: Path, header: RunHeader, taken: Collection[str] = ()) -> Path:
    """Create a folder that no other run gets and with no ``taken`` name, and let ``latest`` point to it.

    Whoever needs the previous run must look it up first: afterwards ``latest`` is the new one.
    """
    root.mkdir(parents=True, exist_ok=True)
    _keep_out_of_git(root)
    digits = re.sub(r"\D", "", header.started_at[:19])
    models = "+".join(model.name for model in header.models)
    # A name of a model may hold slashes and other characters that no folder name may have.
    label = re.sub(r"[^A-Za-z0-9._+-]+", "-", models)[:MOST_LABEL].strip("-.")
    stem, number = "-".join(part for part in (digits[:8], digits[8:14], label) if part), 1
    # ``mkdir`` and no check with ``exists()``: two runs that start in the same second could both pass the
    # check.
    while True:
        folder = root / (stem if number == 1 else f"{stem}-{number}")
        number += 1
        if folder.name not in taken:
            with suppress(FileExistsError):
                folder.mkdir()
                break
    _write_header(folder, replace(header, name=folder.name))
    replace_link(root / LATEST, folder.name)
    return folder


def _write_header(folder: Path, header: RunHeader) -> None:
    replace_json(folder / HEADER, KNOWN_SECRETS.value(header.to_json()))


@contextmanager
def keeping_latest(root: Path) -> Iterator[None]:
    """Let ``latest`` point to where it pointed before, whatever runs start meanwhile."""
    before = read_pointer(root / LATEST)
    try:
        yield
    finally:
        if before:
            replace_link(root / LATEST, before)


def change_header(folder: Path, change: Callable[[RunHeader], RunHeader]) -> None:
    """Rewrite a run's header, and let ``latest`` point to the run; raises what ``read_header`` does."""
    _write_header(folder, change(read_header(folder)))
    replace_link(folder.parent / LATEST, folder.name)


def end_run(folder: Path, ended_at: str, exit_status: int, died: Iterable[str] = ()) -> None:
    """Write into the header when and how the run ended, and which processes died before that."""
    header = read_header(folder)
    # A resumed run ends again, and its header still names the processes that died before.
    died = tuple(dict.fromkeys((*header.died, *died)))
    _write_header(folder, replace(header, ended_at=ended_at, exit_status=exit_status, died=died))


def write_planned(folder: Path, groups: Iterable[PlannedGroup]) -> None:
    """Write what the run plans to do; every worker may do so, as all of them write the same."""
    replace_json(
        folder / PLANNED, KNOWN_SECRETS.value({"v": VERSION, "groups": [group.to_json() for group in groups]})
    )


def read_header(folder: Path) -> RunHeader:
    """Read a run's header; raises UsageMistake if the folder is not a run, or of a newer version."""
    path = folder / HEADER
    try:
        data: Any = read_json(path)
        # Before the fields are read, whose meaning a newer version may have changed.
        check_version(data, path)
        return RunHeader.from_json(data)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        raise UsageMistake(
            f"{folder} is not a run: {path} cannot be read ({damage_text(broken)})"
        ) from broken


def read_header_or_name(folder: Path) -> tuple[RunHeader, str]:
    """Read a run's header; if it cannot be read, return what the folder's name says, and the problem.

    Raises UsageMistake if there is none, and if it is of a newer version.
    """
    path = folder / HEADER
    try:
        return read_header(folder), ""
    except UsageMistake as mistake:
        # Only the refusal of a newer version has no cause.
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
    """Describe why a file cannot be read; the text of a KeyError alone would be just a key."""
    return f"no key {broken}" if isinstance(broken, KeyError) else str(broken)


def list_runs(root: Path) -> list[RunFolder]:
    """Return the runs of a folder, newest first, by when they started.

    A header that cannot be read gives only what the run's name says.
    """
    runs = []
    for path in root.glob(f"*/{HEADER}"):
        with suppress(UsageMistake):
            # ``latest`` links to one of the other folders.
            if path.parent.name != LATEST:
                runs.append(RunFolder(path.parent, read_header_or_name(path.parent)[0]))
    return sorted(runs, key=lambda run: (run.header.started_at, run.path.name), reverse=True)


def latest_first(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return runs by when they were last started, resumed or merged, as ``latest`` follows them."""

    def last_moment(run: RunFolder) -> tuple[str, str]:
        header = run.header
        resumed = (resumption.at for resumption in header.resumed)
        return max(header.started_at, header.merged_at, *resumed), run.path.name

    return sorted(runs, key=last_moment, reverse=True)


def whole_runs(root: Path) -> list[RunFolder]:
    """Return the runs of a folder without those that are shards, newest first."""
    return [run for run in list_runs(root) if run.header.shards is None]


def _keep_out_of_git(root: Path) -> None:
    """Let git ignore our own folder; a folder that the user chose belongs to the user."""
    ignore = root.parent / ".gitignore"
    if root.parent.name == ROOT.parent.name and not ignore.exists():
        replace_text(ignore, "*\n")


MOST_LISTED = 10
NEAR = 0.5


def find_run(root: Path, name: str) -> Path:
    """Return the folder of the run that ``name`` means.

    ``name`` is a path to a run's folder, its name in ``root``, the beginning of exactly one run's name,
    ``latest``, ``MODEL@YYYYMMDD`` (the newest run of that day with that model) or ``MODEL@latest``. A full
    name beats a beginning. Otherwise a UsageMistake lists the runs that could be meant, else the nearest,
    else all.
    """
    if name and (Path(name) / HEADER).is_file():
        return Path(name)
    if name and holds_baseline(Path(name)):
        raise UsageMistake(
            f"{name} is a baseline, which only agenteval compare and --agent-baseline read; name a run here"
        )
    if name != LATEST and Path(name).name == name and (root / name / HEADER).is_file():
        # Also a run of a newer version, which ``list_runs`` leaves out: reading it then raises the exact
        # error.
        return root / name
    runs = latest_first(list_runs(root))
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
    nearby = [] if matching else _nearest(runs, name)
    if not runs:
        candidates = "there are no runs yet; pytest makes one"
    elif name != LATEST and not matching and (latest := did_you_mean(name, (LATEST,))):
        candidates = latest
    elif nearby:
        candidates = f"the nearest: {', '.join(nearby[:MOST_LISTED])}"
    else:
        listed = few_names([run.path.name for run in matching or runs], MOST_LISTED)
        candidates = f"runs there, newest first: {listed}"
    raise UsageMistake(f"{problem}; {candidates}")


def runs_of_day(root: Path, name: str) -> list[str]:
    """Return the names of all runs that ``MODEL@YYYYMMDD`` may mean, newest first; else none."""
    is_other = not name or name.endswith(f"@{LATEST}") or (Path(name) / HEADER).is_file()
    return [] if is_other else [run.path.name for run in _of_model(latest_first(list_runs(root)), name)]


def _of_model(runs: Sequence[RunFolder], name: str) -> list[RunFolder]:
    """Return the runs with a model, newest first, of the day that the name gives."""
    # From the right: a model's own name may hold an ``@``.
    model, at, day = name.rpartition("@")
    return [run for run in runs if at and model in _models(run) and day in (_day(run), LATEST)]


def _models(run: RunFolder) -> list[str]:
    return [model.name for model in run.header.models]


def _day(run: RunFolder) -> str:
    return run.header.started_at[:10].replace("-", "")


def _nearest(runs: Sequence[RunFolder], name: str) -> list[str]:
    """Return ``MODEL@DAY`` for the days of the most similar model, else similar names of runs."""
    from difflib import get_close_matches

    model, at, _ = name.rpartition("@")
    if not at:
        return get_close_matches(name, [run.path.name for run in runs], n=MOST_LISTED, cutoff=NEAR)
    models = list(dict.fromkeys(model for run in runs for model in _models(run)))
    meant = get_close_matches(model, models, n=1, cutoff=NEAR)
    return list(
        dict.fromkeys(f"{each}@{_day(run)}" for each in meant for run in runs if each in _models(run))
    )
