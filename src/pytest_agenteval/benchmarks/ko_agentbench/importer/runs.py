"""Imported runs on disk: one folder for each model, beside the runs that were made here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agenteval import __version__
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import LoggedRun, Report
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import AGENT, KIND, NAME
from pytest_agenteval.portable.files import read_pointer
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import cleaned
from pytest_agenteval.store.file_writing import replace_link
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_metadata import RunHeader, RunModel, RunSuite, planned_groups
from pytest_agenteval.store.runs import LATEST, ROOT, RunFolder, end_run, list_runs, new_run, write_planned

COMMAND = ("agenteval", "import", NAME)
PROCESS = "import"
EXIT_STATUS = 0


def runs_root(target: Path) -> Path:
    """Give the folder of all runs."""
    return target / ROOT


def imported_runs(target: Path) -> list[RunFolder]:
    """Give the runs that an import of this benchmark wrote there before."""
    return [run for run in list_runs(runs_root(target)) if run.header.command[:3] == COMMAND]


def write_run(
    run: LoggedRun, trials: Sequence[Trial], report: Report | None, target: Path, command: Sequence[str]
) -> Path:
    """Write one model's run; gives its folder."""
    folder = new_run(runs_root(target), _header(run, report, command))
    write_planned(folder, planned_groups((trial.key, trial.bucket) for trial in trials))
    journal = JournalWriter(folder, PROCESS)
    try:
        journal.finished([cleaned(trial) for trial in trials])
    finally:
        journal.close()
    end_run(folder, run.ended_at, EXIT_STATUS)
    return folder


def remove_runs(runs: Sequence[RunFolder]) -> None:
    """Remove runs that were imported before."""
    for run in runs:
        shutil.rmtree(run.path)


def own_latest(target: Path) -> str:
    """Give the name of the latest run, where it is one that was made here."""
    name = read_pointer(runs_root(target) / LATEST)
    others = {run.path.name for run in imported_runs(target)}
    return name if name and name not in others and (runs_root(target) / name).is_dir() else ""


def keep_latest(target: Path, name: str) -> None:
    """Let ``latest`` be the run that was made here, which no import is newer than."""
    if name:
        replace_link(runs_root(target) / LATEST, name)


def _header(run: LoggedRun, report: Report | None, command: Sequence[str]) -> RunHeader:
    return RunHeader(
        started_at=run.started_at,
        command=tuple(command),
        models=(RunModel(run.model, run.model),),
        variants=("",),
        suites=(RunSuite(NAME, KIND, AGENT),),
        repetitions=1,
        package=__version__,
        judges=tuple(_judges(report)),
    )


def _judges(report: Report | None) -> Iterator[RunModel]:
    if report is not None:
        yield RunModel(report.judge, report.judge, note="verdicts as published")
