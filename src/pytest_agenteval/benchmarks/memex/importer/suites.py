"""Suites as Memex lays them out: a suite.json, a folder of tasks, shared trees that begin with ``_``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval import ProblemsFound, UsageMistake, misshapen, read_json
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.field_types import SPELLINGS
from pytest_agenteval.tasks.file_names import SUITE_NAMES
from pytest_agenteval.tasks.spec_reading import problems_of, spec_of
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.text.errors import did_you_mean

TASKS = "tasks"
TASK = "task.json"
SOURCE_SUITE_FILE = "suite.json"
KINDS = ("capability", "regression", "mixed")
KNOWN = frozenset({*Suite.__struct_fields__, *SPELLINGS})
NAMES = frozenset({"name", "agent", "agent_name", "kind"})
"""Keys of a suite that are worked out from more than the suite file."""

AGENTS: Mapping[str, str] = {"card_agent": "card", "pkm_agent": "pkm"}
_DAY = re.compile(r"(\d{4})/(\d\d)/(\d\d)\.md#")
EVENING = "T20:30:00+00:00"
"""Entries are those of a day that is nearly over, whenever the suite runs."""


class SourceSuite(FrozenValue, frozen=True):
    """A suite's folder, its tasks' files, and what a suite.yaml of ours says of it.

    ``changes`` say in what that differs from their own suite file.
    """

    folder: Path
    tasks: tuple[Path, ...]
    settings: Mapping[str, Any]
    changes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The suite's name."""
        return str(self.settings["name"])


def find_suites(root: Path) -> list[SourceSuite]:
    """Give every suite below a folder; a UsageMistake says that there is none."""
    if not root.is_dir():
        raise UsageMistake(f"{root}: expected a folder of Memex's suites; there is no such folder")
    folders: dict[Path, list[Path]] = {}
    for path in sorted(root.rglob(TASK)):
        if not _inside_a_tree(path.relative_to(root)):
            folders.setdefault(_folder_of(path, root), []).append(path)
    if not folders:
        raise UsageMistake(f"{root}: expected a folder of Memex's suites; there is no {TASK} below it")
    return [_read_suite(folder, tuple(tasks), root) for folder, tasks in folders.items()]


def _inside_a_tree(path: Path) -> bool:
    """Whether a file is part of what a task works on."""
    return any(part == "workspace" or part.startswith(("_", ".")) for part in path.parts[:-1])


def _folder_of(task: Path, root: Path) -> Path:
    """Give the nearest folder with a suite file, else that which holds ``tasks``, else the root."""
    above = [folder for folder in task.parents if folder.is_relative_to(root)]
    with_file = [folder for folder in above if any((folder / name).is_file() for name in SUITE_NAMES)]
    with_tasks = [folder.parent for folder in above if folder.name == TASKS and folder != root]
    return (with_file or with_tasks or [root])[0]


def _read_suite(folder: Path, tasks: tuple[Path, ...], root: Path) -> SourceSuite:
    theirs = folder / SOURCE_SUITE_FILE
    source_settings = read_json(theirs) if theirs.is_file() else {}
    if not isinstance(source_settings, dict):
        raise misshapen(theirs, "a suite: a JSON object", source_settings)
    entries = [entry for task in tasks for entry in _entries(task)]
    agent, agent_changes = _agent(source_settings, folder, root, entries)
    kind = source_settings.get("kind") or next((k for k in KINDS if k in folder.parts), "mixed")
    settings: dict[str, Any] = {"name": source_settings.get("name") or f"{agent or 'memex'}_{kind}"}
    settings |= {"description": f"Memex's own tasks, from {folder.relative_to(root.parent).as_posix()}"}
    settings |= {"agent": agent} if agent else {}
    settings["kind"] = kind
    settings |= {key: value for key, value in source_settings.items() if key in KNOWN and key not in NAMES}
    clock = "" if "clock" in _defaults(settings) else _clock(entries)
    settings |= {"defaults": {**_defaults(settings), "clock": clock}} if clock else {}
    _check(theirs, source_settings, settings)
    changes = [*agent_changes, *_unknown_keys(source_settings)]
    changes += [f"the clock stands at {clock}, the day of its entries"] if clock else []
    return SourceSuite(folder, tasks, settings, tuple(changes))


def _defaults(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    defaults = settings.get("defaults")
    return defaults if isinstance(defaults, dict) else {}


def _unknown_keys(source_settings: Mapping[str, Any]) -> Iterator[str]:
    """Say which keys of their suite file are none of ours."""
    for key in source_settings:
        if key not in KNOWN:
            hint = did_you_mean(key, KNOWN)
            yield f"{SOURCE_SUITE_FILE}: unknown key {key!r}, left out{f'; {hint}' if hint else ''}"


def _check(theirs: Path, source_settings: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise what is wrong with a suite before any of it is written, in the file that says it."""
    try:
        spec_of(Suite, settings)
    except ValueError as wrong:
        if not source_settings:
            raise
        raise problems_of(Suite, wrong, read_document(theirs), file=str(theirs)) from None


def _entries(task: Path) -> Iterator[Mapping[str, Any]]:
    """Give what a task file holds, as far as it can be read: its problems are told later."""
    try:
        value = read_json(task)
    except ProblemsFound:
        return
    if isinstance(value, dict):
        yield value


def _agent(
    source_settings: Mapping[str, Any], folder: Path, root: Path, entries: list[Mapping[str, Any]]
) -> tuple[str, list[str]]:
    """Give our name of the agent: as said, else as the folders say, else as the graders do."""
    agent_name = source_settings.get("agent_name") or source_settings.get("agent")
    if agent_name:
        ours = AGENTS.get(str(agent_name), str(agent_name))
        return ours, [f"the agent {agent_name} is {ours} here"] if ours != agent_name else []
    parts = "/".join(folder.relative_to(root.parent).parts)
    graders = {str(grader.get("name")) for entry in entries for grader in entry.get("graders") or ()}
    for ours in AGENTS.values():
        if re.search(rf"(^|[/_-]){ours}($|[/_-])", parts):
            return ours, [f"the agent is {ours}, as the folder is named"]
    for ours in AGENTS.values():
        if any(name.startswith(f"{ours}_") for name in graders):
            return ours, [f"the agent is {ours}, as its graders are named"]
    return "", []


def _clock(entries: list[Mapping[str, Any]]) -> str:
    """Give the evening of the day of the entries, where all are of one day."""
    ids = [str((entry.get("input") or {}).get("fact_id")) for entry in entries]
    days = {"-".join(match.groups()) for id in ids if (match := _DAY.match(id))}
    return f"{days.pop()}{EVENING}" if len(days) == 1 else ""
