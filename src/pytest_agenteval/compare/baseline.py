"""A baseline: a stored run, or several, as a small file to review in a diff, and to compare with like a run.

The file is JSON with one line for each task. What the trials took stands below the tasks, for seconds differ
each time; what a suite's tasks have in common stands above them, so that a new prompt changes one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import to_builtins

from pytest_agenteval.compare.baseline_lines import (
    CommonLine,
    Owner,
    SpentLine,
    TaskLine,
    entries_of,
    owner_of,
    shared_digests,
    spent_line,
    task_line,
    tasks_of,
)
from pytest_agenteval.compare.sides import Side, side_of
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import Record
from pytest_agenteval.store.journal_entry import JournalEntry, check_entry
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_documents import SuiteLook
from pytest_agenteval.store.run_folder import RunHeader, find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tasks.file_names import BASELINE_MARK
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import plain_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

VERSION = 1
NOUN = "a baseline's file, as `agenteval baseline set` writes it"
LineT = TypeVar("LineT", bound=Record)


def baseline_text(
    header: RunHeader,
    entries: tuple[JournalEntry, ...],
    looks: Sequence[SuiteLook] = (),
    run_of: Mapping[TrialKey, str] | None = None,
) -> str:
    """Write trials of a run as a baseline's file, with the looks that decided how often they are made.

    ``run_of`` names the run of each trial, where these are of several.
    """
    tasks, shared = tasks_of(entries), shared_digests(entries)
    suites = {entry.key.suite for entry in entries}
    models = {entry.key.model for entry in entries}
    runs = {run: at for at, run in enumerate(dict.fromkeys(run_of.values() if run_of else ()))}
    lines = [
        task_line(
            task,
            shared.get(owner_of(task[0]), {}),
            (runs[run_of[entry.key]] for entry in task) if run_of else (),
        )
        for task in tasks
    ]
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
        "spent": [to_builtins(spent_line(task)) for task in tasks],
    }
    return "{\n" + ",\n".join(_rows({**head, **body})) + "\n}\n"


def write_baseline(path: Path, text: str) -> None:
    """Replace a baseline's file; raises UsageMistake where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, KNOWN_SECRETS.text(text))
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror})") from None


def read_baseline(path: Path) -> Side:
    """Read a baseline as one side of a comparison; raises UsageMistake, naming the line, where it is none."""
    data = _read(path)
    shared = _shared(path, data)
    spent = {
        (line.task, line.suite, line.agent, line.model, line.variant): line
        for line in _lines(path, data, "spent", SpentLine)
    }
    runs = _runs(path, data)
    entries: dict[TrialKey, JournalEntry] = {}
    places: dict[TrialKey, int] = {}
    for line in _lines(path, data, "tasks", TaskLine):
        try:
            of_task = entries_of(line, spent.get((line.task, *line.owner)), shared.get(line.owner, {}))
            for at, entry in enumerate(of_task):
                check_entry(entry)
                if runs or line.runs_of:
                    places[entry.key] = _run_place(line, at, runs)
                if entries.setdefault(entry.key, entry) is not entry:
                    raise ValueError(
                        f"repetition {entry.key.repetition} twice, as when two files were merged"
                    )
        except (ValueError, TypeError) as odd:
            raise UsageMistake(f"{path}: tasks: {line.task}: it has {odd}") from None
    judges = tuple(judge["id"] for judge in _maps(data, "judges") if isinstance(judge.get("id"), str))
    looks = tuple(_lines(path, data, "looks", SuiteLook)) if "looks" in data else ()
    return Side(
        name=", ".join(runs) or str(data.get("run", "")),
        entries=tuple(entries[key] for key in sorted(entries)),
        judges=judges,
        looks=looks,
        run_of={key: runs[place] for key, place in sorted(places.items(), key=lambda each: each[1])},
    )


def find_side(results: Path, name: str) -> Side:
    """Give the side that is meant: a baseline's file, or a run as ``find_run`` finds it."""
    return read_side(find_baseline(results, name))


def find_baseline(results: Path, name: str) -> Path:
    """Give the baseline's file, or the folder of the run, that is meant; raises UsageMistake for neither."""
    path = Path(name)
    if path.is_file() and path.name != "run.json":
        return path
    if path.suffix.lower() == ".json" and not path.exists():
        raise UsageMistake(f"there is no file {name}; agenteval baseline set RUN --to {name} writes it")
    return find_run(results, name)


def read_side(path: Path) -> Side:
    """Read a baseline's file, or the run in a folder."""
    return read_baseline(path) if path.is_file() else side_of(load_run(path))


def _rows(value: Mapping[str, Any]) -> Iterator[str]:
    for name, part in value.items():
        if isinstance(part, list) and part:
            lines = ",\n  ".join(map(_line, part))
            yield f'"{name}": [\n  {lines}\n]'
        else:
            yield f'"{name}": {_line(part)}'


def _line(value: Any) -> str:
    return json.dumps(_short(value), ensure_ascii=False, allow_nan=False, default=plain_json)


def _short(value: Any) -> Any:
    """Write whole numbers as such: 1, and not 1.0."""
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
        raise UsageMistake(f"{path}: a baseline of form {found!r}: this pytest-agenteval knows {VERSION}")
    return data


def _runs(path: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the names of the runs that a file is of, where there are several."""
    runs = data.get("runs", [])
    if not isinstance(runs, list) or not all(isinstance(run, str) and run for run in runs):
        raise UsageMistake(f"{path}: runs: expected a list of names")
    return tuple(runs)


def _run_place(line: TaskLine, at: int, runs: Sequence[str]) -> int:
    place = line.runs_of[at] if line.runs_of else -1
    if not 0 <= place < len(runs):
        raise ValueError("no number in runs_of that names one of the file's runs, for each of its trials")
    return place


def _maps(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    part = data.get(name)
    return [each for each in part if isinstance(each, dict)] if isinstance(part, list) else []


def _shared(path: Path, data: Mapping[str, Any]) -> dict[Owner, dict[str, str]]:
    return {line.owner: dict(line.digests) for line in _lines(path, data, "common", CommonLine)}


def _lines(path: Path, data: Mapping[str, Any], name: str, kind: type[LineT]) -> Iterator[LineT]:
    part = data.get(name)
    if not isinstance(part, list):
        raise UsageMistake(f"{path}: {name}: expected a list; found {type(part).__name__}")
    for number, row in enumerate(part, start=1):
        try:
            yield kind.from_json(row)
        except (TypeError, ValueError) as odd:
            raise UsageMistake(f"{path}: {name}[{number}]: {odd}") from None
