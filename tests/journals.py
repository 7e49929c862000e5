"""Reading what a run of pytest left behind, for tests that look at the plugin from outside; notes on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.notes import Note, change_notes
from pytest_agenteval.store.run_reader import Run, load_run


def run_folder(root: Path) -> Path:
    """Give the folder of the only run."""
    (folder,) = (root / ".agenteval" / "runs").glob("2*")
    return folder


def latest_run(root: Path, name: str = "latest") -> Run:
    """Read the latest run, or that of a name."""
    return load_run(name, root / ".agenteval" / "runs")


def write_note(folder: Path, key: TrialKey, note: Note) -> Note:
    """Make this the note of a trial of a run, and give it as it was written."""
    return change_notes(folder, lambda before: {key: note})[key]


def journal(root: Path, kind: str) -> list[dict[str, Any]]:
    """Give the journal lines of this kind, of all processes of the only run."""
    files = sorted(run_folder(root).glob("journal-*.jsonl"))
    lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == kind]


def names(lines: list[dict[str, Any]]) -> list[str]:
    """Give task and repetition of journal lines, in their order."""
    return [f"{line['task']}-{line['repetition']}" for line in lines]


def finished(root: Path) -> dict[str, dict[str, Any]]:
    """Give the journal's line of each task that finished."""
    return {line["task"]: line for line in journal(root, "finished")}


def trials(root: Path) -> dict[str, Trial]:
    """Give the whole record of each task's trial, as a report would read it back."""
    run = load_run(run_folder(root))
    return {entry.key.task: run.trial(entry) for entry in run.entries}


def trials_by_task(root: Path, run: str = "latest") -> dict[str, list[Trial]]:
    """Give the trials of each task in the latest run, or that of a name, by their repetitions."""
    read = latest_run(root, run)
    found: dict[str, list[Trial]] = {}
    for entry in sorted(read.entries, key=lambda entry: entry.key.repetition):
        found.setdefault(entry.key.task, []).append(read.trial(entry))
    return found


def latest_trials(root: Path, run: str = "latest") -> dict[str, Trial]:
    """Give the one trial of each task in the latest run, or that of a name."""
    return {task: trial for task, (trial,) in trials_by_task(root, run).items()}


def junit(path: Path) -> dict[str, ElementTree.Element]:
    """Give the test cases of a JUnit file by name; a name that stands twice is an error."""
    cases = ElementTree.parse(path).getroot().iter("testcase")
    found: dict[str, ElementTree.Element] = {}
    for case in cases:
        assert case.attrib["name"] not in found
        found[case.attrib["name"]] = case
    return found


def properties(element: ElementTree.Element) -> Mapping[str, str]:
    """Give the properties of a case or a suite; one that stands twice is an error."""
    pairs = [(each.attrib["name"], each.attrib["value"]) for each in element.findall("properties/property")]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)
