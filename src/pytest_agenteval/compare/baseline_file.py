"""Files of baselines: the part of a run's trials that is needed to compare other runs with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from pytest_agenteval.compare.pairing import ComparedRun, compared_run
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Kind, TrialKey
from pytest_agenteval.records.record import NOTHING, Amount, Count, Record, Share
from pytest_agenteval.records.transcript import NO_USAGE, UNSEEN_USAGE
from pytest_agenteval.records.trial import Digests, Ending
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_documents import SuiteLook
from pytest_agenteval.store.run_folder import RunHeader, RunModel, find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.file_names import BASELINE_MARK, holds_baseline
from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.json_values import plain_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

# A baseline holds no transcripts.
NOWHERE = TranscriptLocation("", 0, 0)

# The file does not say how many replies an agent had in the seconds that it took.
UNCOUNTED_REPLIES = replace(NO_USAGE, asks=None, attempts=None)

# Digests that are usually the same for all tasks of an agent and model: they are written once, above the
# tasks.
SHARED = ("prompt", "settings", "tools", "model", "code")

# A suite, an agent, a model and a variant.
Owner: TypeAlias = tuple[str, str, str, str]


class LineOfTask(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One task with an agent, a model and a variant, of which a line says something."""

    suite: str
    task: str
    agent: str
    model: str
    variant: str = ""


class TaskLine(LineOfTask, frozen=True, kw_only=True, omit_defaults=True):
    """A task's trials in a baseline, each list in the order of the repetitions.

    ``repetitions`` are their numbers, if these do not simply count from 1. ``digests`` are those of the
    trials, without what is shared, and None for a trial that broke before it had any. Where there are
    several, ``digests_of`` says for each trial which of them are its own. ``runs_of`` says for each trial to
    which of the file's runs it belongs; empty in a file of one run.
    """

    bucket: str = ""
    file: str = ""
    kind: Kind = "mixed"
    scores: tuple[Share | None, ...]
    endings: tuple[Ending, ...]
    grades: Mapping[str, tuple[Share | None, ...]] = NOTHING
    repetitions: tuple[int, ...] = ()
    digests: tuple[dict[str, Any] | None, ...] = ()
    digests_of: tuple[int, ...] = ()
    runs_of: tuple[int, ...] = ()


class CommonLine(Record, frozen=True):
    """The digests that the trials of an agent and model have, unless they have digests of their own."""

    suite: str
    agent: str
    model: str
    variant: str
    digests: Mapping[str, str]


class SpentLine(LineOfTask, frozen=True, kw_only=True, omit_defaults=True):
    """The usage of one task's trials, apart from their scores: seconds differ from run to run."""

    tokens: tuple[Count | None, ...]
    seconds: tuple[Amount, ...]
    cost_usd: tuple[Amount | None, ...]


def _owner_of(names: TrialKey | TaskLine | CommonLine) -> Owner:
    return names.suite, names.agent, names.model, names.variant


def _task_of(names: TrialKey | LineOfTask) -> dict[str, Any]:
    return {name: getattr(names, name) for name in LineOfTask.__struct_fields__}


def tasks_of(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Group trials of one task, agent, model and variant; groups and trials are sorted by key."""
    tasks: dict[TrialKey, list[JournalEntry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.key):
        tasks.setdefault(entry.key._replace(repetition=0), []).append(entry)
    return list(tasks.values())


def _shared_digests(entries: Iterable[JournalEntry]) -> dict[Owner, dict[str, str]]:
    """Give for each agent and model the digests of its first trial that has any."""
    shared: dict[Owner, dict[str, str]] = {}
    for entry in entries:
        if entry.digests != Digests():
            shared.setdefault(_owner_of(entry.key), {name: getattr(entry.digests, name) for name in SHARED})
    return shared


def _task_line(
    entries: Sequence[JournalEntry], shared: Mapping[str, str], runs_of: Iterable[int] = ()
) -> TaskLine:
    first = entries[0]
    numbers = tuple(entry.key.repetition for entry in entries)
    distinct: dict[Any, int] = {}
    own = [_own_digests(entry.digests, shared) for entry in entries]
    places = []
    for digests in own:
        hashable = digests and tuple((name, str(value)) for name, value in digests.items())
        # Most trials of a task have equal digests, which are written once.
        places.append(distinct.setdefault(hashable, len(distinct)))
    # A grader has no score where it gave a trial no grade, or could not decide.
    labels = dict.fromkeys(grade.grader for entry in entries for grade in entry.grades)
    scores = [{grade.grader: grade.score for grade in entry.grades} for entry in entries]
    return TaskLine(
        **_task_of(first.key),
        bucket=first.bucket,
        file=first.file,
        kind=first.kind,
        scores=tuple(entry.score for entry in entries),
        endings=tuple(entry.ending for entry in entries),
        grades={label: tuple(of_trial.get(label) for of_trial in scores) for label in labels},
        repetitions=() if numbers == tuple(range(1, len(entries) + 1)) else numbers,
        digests=tuple(own[places.index(place)] for place in distinct.values()),
        digests_of=tuple(places) if len(distinct) > 1 else (),
        runs_of=tuple(runs_of),
    )


def _spent_line(entries: Sequence[JournalEntry]) -> SpentLine:
    return SpentLine(
        **_task_of(entries[0].key),
        tokens=tuple(entry.usage.tokens for entry in entries),
        seconds=tuple(entry.seconds for entry in entries),
        cost_usd=tuple(entry.usage.cost_usd for entry in entries),
    )


def _entries_of(line: TaskLine, spent: SpentLine, shared: Mapping[str, str]) -> Iterator[JournalEntry]:
    """Make the trials of a task again; raises ValueError or IndexError for lists that do not fit together."""
    count = len(line.scores)
    rows = zip(
        line.repetitions or range(1, count + 1),
        line.digests_of or (0,) * count,
        line.endings,
        line.scores,
        zip(*line.grades.values(), strict=True) if line.grades else ((),) * count,
        spent.tokens,
        spent.cost_usd,
        spent.seconds,
        strict=True,
    )
    for number, place, ending, score, grades, tokens, cost_usd, seconds in rows:
        digests = line.digests[place] if line.digests else None
        # The file has only the sum of tokens, which takes the place of those of the input. It is unknown for
        # a trial whose process died, of which nothing is known.
        known = UNSEEN_USAGE if tokens is None else UNCOUNTED_REPLIES if seconds else NO_USAGE
        yield JournalEntry(
            key=TrialKey(**_task_of(line), repetition=number),
            attempt=1,
            ending=ending,
            score=score,
            grades=tuple(Grade(label, own, "") for label, own in zip(line.grades, grades, strict=True)),
            location=NOWHERE,
            digests=Digests() if digests is None else Digests.from_json({**shared, **digests}),
            usage=replace(known, input_tokens=tokens, cost_usd=cost_usd),
            kind=line.kind,
            bucket=line.bucket,
            file=line.file,
            seconds=seconds,
        )


def _own_digests(digests: Digests, shared: Mapping[str, str]) -> dict[str, Any] | None:
    """Give the digests that are not the shared ones; None for a trial without any."""
    if digests == Digests():
        return None
    every = {name: value for name, value in asdict(digests).items() if name not in SHARED and value}
    return every | {name: getattr(digests, name) for name in SHARED if getattr(digests, name) != shared[name]}


VERSION = 1
NOUN = "a baseline's file, as `agenteval baseline set` writes it"
LineT = TypeVar("LineT", bound=Record)


def baseline_text(
    header: RunHeader,
    entries: tuple[JournalEntry, ...],
    looks: Sequence[SuiteLook] = (),
    run_of: Mapping[TrialKey, str] | None = None,
) -> str:
    """Write trials of a run as a baseline's file, with the looks that decided how often tasks are repeated.

    ``run_of`` names the run of each trial, where there are several.
    """
    tasks, shared = tasks_of(entries), _shared_digests(entries)
    suites = {entry.key.suite for entry in entries}
    models = {entry.key.model for entry in entries}
    runs = {run: at for at, run in enumerate(dict.fromkeys(run_of.values() if run_of else ()))}
    lines = []
    for task in tasks:
        runs_of = [runs[run_of[entry.key]] for entry in task] if run_of else ()
        lines.append(_task_line(task, shared.get(_owner_of(task[0].key), {}), runs_of))
    head = {
        BASELINE_MARK: VERSION,
        "run": header.name,
        "date": header.started_at,
        "version": header.package,
        "suites": [suite.to_json() for suite in header.suites if suite.name in suites],
        "models": [model.to_json() for model in header.models if model.name in models],
        "judges": [judge.to_json() for judge in header.judges],
    }
    if runs:
        head["runs"] = list(runs)
    spent = [look.to_json() for look in looks if look.spent and look.suite in suites and look.model in models]
    if spent:
        head["looks"] = spent
    body = {
        "common": [to_builtins(CommonLine(*owner, own)) for owner, own in shared.items()],
        "tasks": [to_builtins(line) for line in lines],
        "spent": [to_builtins(_spent_line(task)) for task in tasks],
    }
    rows = []
    for name, part in {**head, **body}.items():
        # A line for each task, so that a person can review what has changed.
        if isinstance(part, list) and part:
            inner = ",\n  ".join(map(_line, part))
            rows.append(f'"{name}": [\n  {inner}\n]')
        else:
            rows.append(f'"{name}": {_line(part)}')
    return "{\n" + ",\n".join(rows) + "\n}\n"


def write_baseline(path: Path, text: str) -> None:
    """Replace a baseline's file; raises UsageMistake where it cannot be written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, KNOWN_SECRETS.text(text))


def read_baseline(path: Path) -> ComparedRun:
    """Read a baseline as one side of a comparison; raises UsageMistake with the place of what is wrong."""
    data = _read(path)
    shared = {_owner_of(line): dict(line.digests) for line in _lines(path, data, "common", CommonLine)}
    spent = {tuple(_task_of(line).values()): line for line in _lines(path, data, "spent", SpentLine)}
    runs = data.get("runs", [])
    if not isinstance(runs, list) or not all(isinstance(run, str) and run for run in runs):
        raise UsageMistake(f"{path}: runs: expected a list of names")
    entries: dict[TrialKey, JournalEntry] = {}
    places: dict[TrialKey, int] = {}
    for line in _lines(path, data, "tasks", TaskLine):
        try:
            spent_line = spent[tuple(_task_of(line).values())]
            of_task = _entries_of(line, spent_line, shared.get(_owner_of(line), {}))
            for at, entry in enumerate(of_task):
                if runs or line.runs_of:
                    places[entry.key] = range(len(runs))[line.runs_of[at]]
                if entries.setdefault(entry.key, entry) is not entry:
                    raise ValueError(entry.key.repetition)
        except (ValueError, LookupError, TypeError):
            raise UsageMistake(
                f"{path}: tasks: {line.task}: its lists have different lengths, or it is listed twice, "
                "as after a merge; write the file again: agenteval baseline set"
            ) from None
    judges = tuple(judge.id for judge in _lines(path, data, "judges", RunModel)) if "judges" in data else ()
    looks = tuple(_lines(path, data, "looks", SuiteLook)) if "looks" in data else ()
    return ComparedRun(
        name=", ".join(runs) or str(data.get("run", "")),
        entries=tuple(entries[key] for key in sorted(entries)),
        judges=judges,
        looks=looks,
        run_of={key: runs[place] for key, place in sorted(places.items(), key=lambda each: each[1])},
    )


def find_baseline(results: Path, name: str) -> Path:
    """Give the baseline's file, or the run's folder, that a name means; raises UsageMistake for neither."""
    path = Path(name)
    # A run.json is the header of a run, which its folder is read with.
    if path.is_file() and path.name != "run.json":
        return path
    # A name with this ending means a file, and no run.
    if path.suffix.lower() == ".json" and not path.exists():
        raise UsageMistake(f"there is no file {name}; agenteval baseline set RUN --to {name} writes it")
    return find_run(results, name)


def baseline_files(below: Path) -> Iterator[Path]:
    """Give the files of baselines below a folder."""
    for folder, folders, files in os.walk(below):
        # Hidden folders and node_modules hold no baselines, and take long to walk.
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        paths = (Path(folder, name) for name in files if name.endswith(".json"))
        yield from (path for path in paths if holds_baseline(path))


def read_baseline_run(path: Path) -> ComparedRun:
    """Read a baseline's file, or the run in a folder."""
    return read_baseline(path) if path.is_file() else compared_run(load_run(path))


def _line(value: Any) -> str:
    return json.dumps(_short(value), ensure_ascii=False, allow_nan=False, default=plain_json)


def _short(value: Any) -> Any:
    """Write whole numbers without a fraction: 1, and not 1.0."""
    if isinstance(value, Mapping):
        return {name: _short(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_short(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as broken:
        why = broken.strerror if isinstance(broken, OSError) else broken
        raise UsageMistake(f"{path}: expected {NOUN}; it cannot be read ({why})") from None
    if not isinstance(data, dict) or BASELINE_MARK not in data:
        raise UsageMistake(f"{path}: expected {NOUN}; found no key {BASELINE_MARK!r}")
    if data[BASELINE_MARK] != VERSION:
        found = data[BASELINE_MARK]
        raise UsageMistake(f"{path}: baseline format {found!r}: this pytest-agenteval reads format {VERSION}")
    return data


def _lines(path: Path, data: Mapping[str, Any], name: str, kind: type[LineT]) -> Iterator[LineT]:
    part = data.get(name)
    if not isinstance(part, list):
        raise UsageMistake(f"{path}: {name}: expected a list; found {type(part).__name__}")
    for number, row in enumerate(part, start=1):
        try:
            yield kind.from_json(row)
        except (TypeError, ValueError) as problem:
            raise UsageMistake(f"{path}: {name}[{number}]: {problem}") from None
