"""The folder of a run that was joined from several: their files under unique names, one header, one plan."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.merging.joined_plan import joined_plan
from pytest_agenteval.store.planned_trials import read_planned_trials, write_planned_trials
from pytest_agenteval.store.repetitions import (
    ExtraRepetitions,
    ExtraTrials,
    SuiteLook,
    read_extra,
    read_looks,
    write_extra,
    write_looks,
)
from pytest_agenteval.store.run_audit import RunAudit, read_audit, write_audit
from pytest_agenteval.store.run_gates import read_gates, write_gates
from pytest_agenteval.store.run_metadata import PlannedGroup, RunHeader, RunShards, planned_json
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import PLANNED, new_run, open_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

T = TypeVar("T")
LINES = ("journal", "transcripts", "texts")
"""The files of each process; which transcripts a journal means is told by what follows these words."""

WHOLE = ("calibration-*", "workspaces")
"""What else is kept: the names in it are those of trials and calibrations."""


def join_runs(runs: Sequence[Run], results: Path, name: str, command: Sequence[str]) -> Path:
    """Make a run of several and give its folder, which is ``name`` in ``results`` or named by its time.

    What cannot be copied leaves no run. Raises UsageMistake where the name is taken.
    """
    header = replace(joined_header(runs), command=tuple(command))
    folder = _folder(results, name, header)
    try:
        for number, run in enumerate(runs, 1):
            _copy(run.folder, folder, number)
        _write_plans(runs, folder, header)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def joined_header(runs: Sequence[Run]) -> RunHeader:
    """Give the header of all runs together; it has not ended yet."""
    headers = [run.header for run in runs]
    first = headers[0]
    shards = _joined_shards([header.shards for header in headers if header.shards])
    return replace(
        first,
        started_at=min(header.started_at for header in headers),
        models=_each(headers, lambda header: header.models, lambda model: model.name),
        variants=_each(headers, lambda header: header.variants, str),
        suites=_each(headers, lambda header: header.suites, lambda suite: suite.name),
        repetitions=first.repetitions if len({header.repetitions for header in headers}) == 1 else None,
        regraded=_each(headers, lambda header: header.regraded, str),
        reused=_each(headers, lambda header: header.reused, str),
        died=(),  # its journals have other names
        resumed=_each(headers, lambda header: header.resumed, lambda resumption: resumption.at),
        record=_one([header.record for header in headers]),
        record_chat=_one([header.record_chat for header in headers]),
        repetition_rule=next((header.repetition_rule for header in headers if header.repetition_rule), None),
        held_out_looks={
            suite: max(header.held_out_looks.get(suite, 0) for header in headers)
            for suite in sorted({suite for header in headers for suite in header.held_out_looks})
        },
        package=", ".join(dict.fromkeys(header.package for header in headers)),
        pytest=", ".join(dict.fromkeys(header.pytest for header in headers)),
        shards=shards if shards is not None and shards.missing else None,
        name="",
        ended_at="",
        exit_status=None,
    )


def _joined_shards(shards: Sequence[RunShards]) -> RunShards | None:
    numbers = sorted(number for each in shards for number in each.numbers)
    return replace(shards[0], numbers=tuple(numbers)) if shards else None


def _each(
    headers: Sequence[RunHeader], part: Callable[[RunHeader], Iterable[T]], name: Callable[[T], Hashable]
) -> tuple[T, ...]:
    """Put a part of all headers together, each thing once, by its name."""
    things: dict[Hashable, T] = {}
    for header in headers:
        for thing in part(header):
            things.setdefault(name(thing), thing)
    return tuple(things.values())


def _one(words: Sequence[str]) -> str:
    """Give the word that all say; where it made no difference to anybody, none."""
    return words[0] if len(set(words)) == 1 else ""


def _folder(results: Path, name: str, header: RunHeader) -> Path:
    if not name:
        return new_run(results, header)
    folder = results / name
    if folder.exists():
        raise UsageMistake(f"--into: expected a new name; found {name!r}, which is in {results}")
    open_run(folder, header)
    return folder


def _copy(source: Path, target: Path, number: int) -> None:
    """Copy what a run's processes wrote, each file under a name that no other run's has."""
    for path in sorted(source.iterdir()):
        kind, dash, process = path.name.partition("-")
        if kind in LINES and dash and path.suffix == ".jsonl":
            shutil.copyfile(path, target / f"{kind}-{number}-{process}")
        elif any(path.match(pattern) for pattern in WHOLE):
            _copy_whole(path, target / path.name)


def _copy_whole(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    elif not target.exists():
        shutil.copyfile(path, target)


def _write_plans(runs: Sequence[Run], folder: Path, header: RunHeader) -> None:
    planned = joined_plan(runs)
    if planned or any((run.folder / PLANNED).is_file() for run in runs):
        replace_json(folder / PLANNED, KNOWN_SECRETS.value(planned_json(planned)))
    if header.shards is None:  # else nobody knows the trials of those that are missing
        keys = [read_planned_trials(run.folder) for run in runs]
        if all(keys):
            write_planned_trials(folder, sorted({key for own in keys for key in own or ()}))
    gates = {gate.suite: gate for run in runs for gate in read_gates(run.folder)}
    if gates:
        write_gates(folder, gates.values())
    audits = [audit for run in runs if (audit := read_audit(run.folder))]
    if audits:
        write_audit(folder, _joined_audit(audits))
    if header.repetition_rule is not None:
        _write_repetitions(runs, folder)


def _joined_audit(audits: Sequence[RunAudit]) -> RunAudit:
    return RunAudit(
        tuple(dict.fromkeys(task for audit in audits for task in audit.tasks)),
        tuple(dict.fromkeys(task for audit in audits for task in audit.unaudited)),
        tuple(dict.fromkeys(spoiler for audit in audits for spoiler in audit.spoilers)),
        tuple({(each.suite, each.rubric): each for audit in audits for each in audit.rubrics}.values()),
    )


def _write_repetitions(runs: Sequence[Run], folder: Path) -> None:
    """Write which trials might have been needed, and what looks at the first gave."""
    groups: list[ExtraTrials] = []
    planned: dict[tuple[str, str, str, str], PlannedGroup] = {}
    looks: list[SuiteLook] = []
    for run in runs:
        extra = read_extra(run.folder)
        groups += extra.groups if extra else ()
        for group in extra.planned if extra else run.planned:
            planned[group.suite, group.model, group.variant, group.bucket] = group
        looks += read_looks(run.folder) or ()
    write_extra(folder, ExtraRepetitions(tuple(groups), tuple(planned.values())))
    write_looks(folder, looks)
