"""Writes what was run and recorded elsewhere: runs are reported, cassettes played like ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval import __version__
from pytest_agenteval.cassettes.files import Recording, write
from pytest_agenteval.cassettes.interaction import Interaction, Response, tool_interaction
from pytest_agenteval.portable.files import read_pointer
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.store.file_writing import replace_link
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_metadata import RunHeader, RunModel, RunSuite, planned_groups
from pytest_agenteval.store.runs import LATEST, ROOT, end_run, list_runs, new_run, write_planned

PROCESS = "import"
EXIT_STATUS = 0


class ImportedRun(Record, frozen=True):
    """What one model did in one suite: its finished trials, and when they began and ended (ISO 8601).

    ``judges`` are who judged, by name, each with a note that is shown beside it (``verdicts as published``).
    """

    model: str
    suite: str
    kind: Kind
    agent: str
    started_at: str
    ended_at: str
    trials: tuple[Trial, ...]
    judges: tuple[tuple[str, str], ...] = ()


def imported_runs(target: Path, command: Sequence[str]) -> list[Path]:
    """Give the folders of the runs below ``target`` that a command which begins so imported before."""
    begin = tuple(command)
    runs = list_runs(target / ROOT)
    return [run.path for run in runs if run.header.command[: len(begin)] == begin]


def replace_imported_runs(
    target: Path, begin: Sequence[str], runs: Sequence[ImportedRun], command: Sequence[str]
) -> list[Path]:
    """Remove what a command that begins with ``begin`` imported before, write these runs; give their folders.

    ``command`` is what was typed now, stored in each run's header. ``latest`` stays with a run that was made
    here, which no import is newer than.
    """
    earlier = imported_runs(target, begin)
    # Looked up before the runs are written: each of them becomes the latest for a moment.
    latest = _own_latest(target / ROOT, earlier)
    for folder in earlier:
        shutil.rmtree(folder)
    folders = [_write(target / ROOT, run, command) for run in runs]
    if folders and latest:
        replace_link(target / ROOT / LATEST, latest)
    return folders


def _own_latest(root: Path, imported: Sequence[Path]) -> str:
    """Give the name of the latest run, where it is one that was made here."""
    name = read_pointer(root / LATEST)
    own = name and name not in {folder.name for folder in imported} and (root / name).is_dir()
    return name if own else ""


def _write(root: Path, run: ImportedRun, command: Sequence[str]) -> Path:
    folder = new_run(root, _header(run, command))
    write_planned(folder, planned_groups((trial.key, trial.bucket) for trial in run.trials))
    journal = JournalWriter(folder, PROCESS)
    try:
        journal.finished([redact_trial(trial) for trial in run.trials])
    finally:
        journal.close()
    end_run(folder, run.ended_at, EXIT_STATUS)
    return folder


def _header(run: ImportedRun, command: Sequence[str]) -> RunHeader:
    return RunHeader(
        started_at=run.started_at,
        command=tuple(command),
        models=(RunModel(run.model, run.model),),
        variants=("",),
        suites=(RunSuite(run.suite, run.kind, run.agent),),
        repetitions=1,
        package=__version__,
        judges=tuple(_judges(run)),
    )


def _judges(run: ImportedRun) -> Iterator[RunModel]:
    return (RunModel(name, name, note=note) for name, note in run.judges)


class RecordedCall(Record, frozen=True):
    """One call of a tool and its result, both JSON; ``remarks`` are further keys of the stored response."""

    tool: str
    args: Mapping[str, Any]
    result: Any
    remarks: Mapping[str, Any] = {}


def write_tool_cassette(path: Path, calls: Iterable[RecordedCall]) -> Path:
    """Write one cassette file (JSON or YAML by its ending), in place of one that is there; give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, Recording(tuple(map(_interaction, calls))))
    return path


def _interaction(call: RecordedCall) -> Interaction:
    interaction = tool_interaction(call.tool, call.args, result=call.result)
    response = interaction.response
    extra = dict(call.remarks)
    return Interaction(
        interaction.request,
        Response(response.status, response.message, response.headers, response.body, extra),
    )
