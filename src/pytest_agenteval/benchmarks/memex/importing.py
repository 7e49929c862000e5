"""The importer of a user's own copy of Memex's suites."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_agenteval import (
    AgentEvalError,
    ProblemsFound,
    Registry,
    UsageMistake,
    add_common_arguments,
    misshapen,
    read_json,
    write_yaml,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.imported_runs import leftover_lines, writing
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_spec import SPELLINGS
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of
from pytest_agenteval.text.errors import did_you_mean
from pytest_agenteval.text.formatting import pluralize

TASK = "task.json"
SOURCE_SUITE_FILE = "suite.json"
KNOWN = frozenset({*Suite.__struct_fields__, *SPELLINGS})
_DAY = re.compile(r"(\d{4})/(\d\d)/(\d\d)\.md#")


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
        return str(self.settings["name"])


def find_suites(root: Path) -> list[SourceSuite]:
    """Give every suite below a folder; a UsageMistake says that there is none."""
    if not root.is_dir():
        raise UsageMistake(f"{root}: expected a folder of Memex's suites; there is no such folder")
    folders: dict[Path, list[Path]] = {}
    for path in sorted(root.rglob(TASK)):
        inner = path.relative_to(root).parts[:-1]
        if not any(part == "workspace" or part.startswith(("_", ".")) for part in inner):
            above = (folder for folder in path.parents if folder.is_relative_to(root))
            suite = next((folder for folder in above if (folder / SOURCE_SUITE_FILE).is_file()), None)
            if suite is None:
                raise UsageMistake(f"{path}: expected a {SOURCE_SUITE_FILE} in a folder above it")
            folders.setdefault(suite, []).append(path)
    if not folders:
        raise UsageMistake(f"{root}: expected a folder of Memex's suites; there is no {TASK} below it")
    return [_read_suite(folder, tuple(tasks), root) for folder, tasks in folders.items()]


def _read_suite(folder: Path, tasks: tuple[Path, ...], root: Path) -> SourceSuite:
    theirs = folder / SOURCE_SUITE_FILE
    source_settings = read_json(theirs)
    if not isinstance(source_settings, dict):
        raise misshapen(theirs, "a suite: a JSON object", source_settings)
    settings: dict[str, Any] = {
        "name": folder.name,
        "description": f"Memex's own tasks, from {folder.relative_to(root.parent).as_posix()}",
        **{key: value for key, value in source_settings.items() if key in KNOWN},
    }
    changes = []
    own_defaults = settings.get("defaults")
    defaults = own_defaults if isinstance(own_defaults, dict) else {}
    clock = "" if "clock" in defaults else _clock([entry for task in tasks for entry in _entries(task)])
    settings |= {"defaults": {**defaults, "clock": clock}} if clock else {}
    try:
        # Before anything is written, and in the file that says it.
        spec_of(Suite, settings)
    except SpecRefused:
        raise problems_of(Suite, settings, read_document(theirs), file=str(theirs)) from None
    for key in (key for key in source_settings if key not in KNOWN):
        hint = did_you_mean(key, KNOWN)
        changes.append(f"{SOURCE_SUITE_FILE}: unknown key {key!r}, left out{f'; {hint}' if hint else ''}")
    changes += [f"the clock stands at {clock}, the day of its entries"] if clock else []
    return SourceSuite(folder, tasks, settings, tuple(changes))


def _entries(task: Path) -> Iterator[Mapping[str, Any]]:
    """Give what a task file holds, as far as it can be read: its problems are reported when it is loaded."""
    try:
        value = read_json(task)
    except ProblemsFound:
        return
    if isinstance(value, dict):
        yield value


def _clock(entries: list[Mapping[str, Any]]) -> str:
    """Give the evening of the day of the entries, where all are of one day; else an empty text."""
    ids = [str((entry.get("input") or {}).get("fact_id")) for entry in entries]
    # The entries name their day, and a run takes the clock of the machine: with a fixed evening, "today"
    # means the same in every run.
    days = {"-".join(match.groups()) for id in ids if (match := _DAY.match(id))}
    return f"{days.pop()}T20:30:00+00:00" if len(days) == 1 else ""


SUITE_FILE = "suite.yaml"
MARK = "# Written by agenteval import memex.\n"


class MemexImporter:
    """Imports suites of task.json files with their fixtures."""

    help = "a folder of Memex's suites: task.json files and their fixtures"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="DIR", help="the folder")
        add_common_arguments(parser, "the suite's new folder; several suites become folders in it")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        """Import every suite below a folder, and print what came of it and how to check it.

        A suite becomes the target itself, several become folders in it by their names. Raises UsageMistake or
        ProblemsFound before anything is written.
        """
        source, target = Path(args.source), Path(args.to)
        if target.resolve().is_relative_to(source.resolve()):
            raise UsageMistake(f"--to {target}: expected a folder outside of {source}")
        with writing():
            suites = find_suites(source)
            places = _places(suites, target)
            _check_free(places, args.force)
            lines = [
                line
                for suite, place in zip(suites, places, strict=True)
                for line in _import(suite, place, source, registry, args.mode)
            ]
        print(*lines, sep="\n")
        print("Memex's texts are under GPL-3.0: the copies are for your own use, as the originals are.")
        print(f"next: agenteval validate {target}")
        return 0


def _places(suites: Sequence[SourceSuite], target: Path) -> list[Path]:
    labels = [re.sub(r"[^\w.-]+", "-", suite.name) for suite in suites]
    for name in (name for name in labels if labels.count(name) > 1):
        folders = [str(suite.folder) for suite, own in zip(suites, labels, strict=True) if own == name]
        raise UsageMistake(f"two suites have the name {name!r}: {', '.join(folders)}")
    return [target] if len(labels) == 1 else [target / name for name in labels]


def _check_free(places: Sequence[Path], force: bool) -> None:
    """Refuse to write over anything but an earlier import, and over that only by force."""
    for place in (place for place in places if place.exists()):
        if place.is_dir() and not any(place.iterdir()):
            continue
        ours = place / SUITE_FILE
        if not (ours.is_file() and ours.read_text(encoding="utf-8").startswith(MARK)):
            raise UsageMistake(
                f"{place} is there already, and no import of Memex's: nothing was written; "
                "--to names the suite's own folder"
            )
        if not force:
            raise UsageMistake(f"imported before: {place}; --force replaces it")


def _import(suite: SourceSuite, place: Path, source: Path, registry: Registry, mode: str) -> list[str]:
    """Import a suite; give the lines that say so."""
    # Written before all else: the mark lets the next import replace what Ctrl-C has left behind.
    ours = place / SUITE_FILE
    # Both modes may stand side by side, and every suite has a name of its own.
    suite_name = suite.name if mode == "default" else f"{suite.name}_{mode}"
    write_yaml(ours, {**suite.settings, "name": suite_name})
    ours.write_text(MARK + ours.read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
    try:
        # Their suite file is left behind, because ours stands in its place.
        left_behind = shutil.ignore_patterns(SOURCE_SUITE_FILE)
        shutil.copytree(suite.folder, place, ignore=left_behind, dirs_exist_ok=True)
    except (shutil.Error, OSError) as refused:
        raise UsageMistake(f"{suite.folder} cannot be copied to {place}: {refused}") from None
    if mode != "default":
        for path in suite.tasks:
            _set_mode(place / path.relative_to(suite.folder), mode, registry)
    trees = _shared_trees(suite, source)
    for name, tree in trees.items():
        shutil.copytree(tree, place / name, dirs_exist_ok=True)
    moved = [
        f"{name}: from {tree.relative_to(source).as_posix()} to {place / name}"
        for name, tree in trees.items()
    ]
    lines = [f"{suite_name}: {pluralize(len(suite.tasks), 'task file')}: {place}"]
    lines += [f"  {change}" for change in (*suite.changes, *moved)]
    return [*lines, *leftover_lines(_foreign_files(suite.folder, place, trees))]


def _shared_trees(suite: SourceSuite, source: Path) -> dict[str, Path]:
    """Give the starting trees of tasks that lie elsewhere in their folder, by the names that tasks have."""
    trees: dict[str, Path] = {}
    for task in (task for path in suite.tasks for task in _entries(path)):
        name = (task.get("input") or {}).get("base_fixture")
        # A name with .. in it could lead out of the new folder.
        if isinstance(name, str) and name.strip() and ".." not in name and not (suite.folder / name).is_dir():
            tree = next((path for path in sorted(source.rglob(Path(name).name)) if path.is_dir()), None)
            trees |= {name: tree} if tree else {}
    return trees


def _foreign_files(source: Path, place: Path, trees: Iterable[str]) -> list[Path]:
    """Give the files that their folder does not hold: the user's own, or of a task that is no more."""
    there = (path for path in place.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    own = (place / SUITE_FILE, *(place / name for name in trees))
    return sorted(
        path
        for path in there
        if not (source / path.relative_to(place)).is_file() and not any(map(path.is_relative_to, own))
    )


def _set_mode(path: Path, mode: str, registry: Registry) -> None:
    """Give every grader of a copied task this mode; one that has none, or is unknown, is left alone."""
    for task in _entries(path):
        graders = task.get("graders")
        for grader in graders if isinstance(graders, list) else ():
            if isinstance(grader, dict) and _has_mode(str(grader.get("name")), registry):
                grader["config"] = {**(grader.get("config") or {}), "mode": mode}
        text = json.dumps(task, ensure_ascii=False, indent=2) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")


def _has_mode(grader: str, registry: Registry) -> bool:
    try:
        return "mode" in signature(registry.grader_factory(grader)).parameters
    except (AgentEvalError, TypeError, ValueError):
        return False
