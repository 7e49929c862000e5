"""Runs of several machines joined to one: which belong together, what keeps them apart, the joined run."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import NO_TAPE
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.notes import NO_NOTE, copy_notes
from pytest_agenteval.store.record_files import VERSION
from pytest_agenteval.store.run_documents import (
    AUDIT,
    ExtraRepetitions,
    ExtraTrials,
    Looks,
    PlannedTrials,
    RunAudit,
    RunGates,
    SuiteLook,
    read_gates,
    read_looks,
)
from pytest_agenteval.store.run_folder import (
    HEADER,
    LATEST,
    PLANNED,
    PlannedGroup,
    RunHeader,
    find_run,
    new_run,
    open_run,
    read_json,
    read_planned,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_values import compact_json

NOWHERE = TranscriptLocation("", 0, 0)


class Parts(NamedTuple):
    """The runs to join; ``repeated`` are runs that hold nothing beyond what another one holds."""

    runs: tuple[Run, ...]
    repeated: tuple[Run, ...]


def find_parts(names: Iterable[str], results: Path) -> Parts:
    """Find and read runs by name; a folder that is not a run stands for all runs below it.

    Raises UsageMistake if there is none, or if one cannot be read.
    """
    folders = dict.fromkeys(folder.resolve() for name in names for folder in _folders(name, results))
    here = Path.cwd().resolve()
    runs = [load_run(path.relative_to(here) if path.is_relative_to(here) else path) for path in folders]
    names = Counter(run.name for run in runs)
    for run in runs:
        # Each job of a CI matrix may have given its run the same name.
        if names[run.name] > 1:
            run.header = replace(run.header, name=str(run.folder))
    runs.sort(key=_place)
    # The larger first, so that a copy or a part is compared with the run that holds it.
    distinct: list[Run] = []
    repeated: list[Run] = []
    for run in sorted(runs, key=lambda each: (len(_place(each)[0]), len(each.entries)), reverse=True):
        if any(_holds(other, run) for other in distinct):
            repeated.append(run)
        else:
            distinct.append(run)
    return Parts(tuple(run for run in runs if run in distinct), tuple(repeated))


def _folders(name: str, results: Path) -> list[Path]:
    if not Path(name).is_dir() or (Path(name) / HEADER).is_file():
        return [find_run(results, name)]
    found = []
    for place, folders, files in os.walk(name):
        if HEADER in files:
            # ``os.walk`` does not descend into a cleared list: folders within a run are not runs.
            folders.clear()
            # A folder of this name is a copy of the latest run.
            if Path(place).name != LATEST:
                found.append(Path(place))
    if not found:
        raise UsageMistake(f"{name}: expected a run, or a folder with runs below it; found none there")
    return sorted(found)


def _place(run: Run) -> tuple[tuple[int, ...], str, str]:
    shards = run.header.shards
    return (shards.numbers if shards else (), run.header.started_at, run.name)


def _holds(whole: Run, run: Run) -> bool:
    """Whether ``whole`` has everything that ``run`` has: ``run`` is a copy or a part of it."""
    mine, others = run.header.shards, whole.header.shards
    if mine is not None and not (others is not None and set(mine.numbers) <= set(others.numbers)):
        return False
    # The check below is true for a run without trials, which would then count as a copy of any run.
    if not run.entries and mine is None:
        return False
    known = {entry.key: entry for entry in whole.entries}
    return all(are_equal(entry, known.get(entry.key)) for entry in run.entries)


def are_equal(entry: JournalEntry, other: JournalEntry | None) -> bool:
    """Whether two runs have the same record of a trial, wherever its transcript stands."""
    if other is None:
        return False
    # Their notes may differ.
    one, two = (replace(each, location=NOWHERE, note=NO_NOTE) for each in (entry, other))
    return one == two


def obstacles(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what keeps these runs from being joined, also with ``--partial``."""
    yield from _shard_obstacles(runs)
    first: dict[str, tuple[Run, Any]] = {}
    different: dict[str, str] = {}
    for run in runs:
        for what, value in _fixed(run):
            other, before = first.setdefault(what, (run, value))
            if before != value and other is not run:
                different.setdefault(what, f"{what}: {before} in {other.name}, {value} in {run.name}")
    yield from different.values()
    yield from _trials_in_two(runs)
    yield from _looked_at(runs)
    yield from _other_code(runs)


# Digests of a task that must be equal in two runs, with the authors' words for them.
SAME = {"input": "input", "fixture": "starting workspace", "ruler": "graders", "settings": "settings"}


def _fixed(run: Run) -> Iterator[tuple[str, Any]]:
    """Yield what has to be the same in all runs that have it, each with its name."""
    header, folder = run.header, run.folder
    judges = ", ".join(f"{judge.name} ({judge.id})" for judge in header.judges)
    yield "the format of its files", read_json(folder / HEADER).get("v", VERSION)
    yield "the seed", header.seed
    yield "the judges", judges or "none"
    yield "the model that plays users", header.user or "none"
    yield "--agent-self-judge", header.self_judge
    yield "regrading", bool(header.regraded)
    yield "an audit", (folder / AUDIT).is_file()
    if header.shards:
        yield "the baseline", header.shards.baseline or "none"
    if rule := header.repetition_rule:
        yield "the rule of repetitions", f"{rule.low}..{rule.high}"
    # How tools and chats are recorded matters only in a run that had something to record or replay.
    if header.record and any(entry.tool_tape != NO_TAPE for entry in run.entries):
        yield "--agent-record", header.record
    is_taped = any(entry.chat_tape != NO_TAPE for entry in run.entries)
    if header.record_chat and (is_taped or not all(model.offline for model in header.models)):
        yield "--agent-record-chat", header.record_chat
    for model in header.models:
        yield f"the model {model.name}", model.id
        if header.prices is not None and not model.offline:
            own = header.prices.own.get(model.name, header.prices.own.get(model.id))
            price = header.prices.table if own is None else f"the user's own, as of {own or 'no date'}"
            yield f"the price of {model.name}", price
    for suite in header.suites:
        yield f"the suite {suite.name}", f"{suite.kind}, agent {suite.agent}, threshold {suite.threshold:g}"
    for gate in read_gates(folder):
        yield f"the gate of {gate.suite}", compact_json(gate.gate)
    # Also if the runs tried a task with different models.
    for entry in run.entries:
        for name, words in SAME.items():
            if digest := getattr(entry.digests, name):
                yield f"the {words} of {entry.key.suite}/{entry.key.task}", digest


def _trials_in_two(runs: Sequence[Run]) -> Iterator[str]:
    first: dict[TrialKey, tuple[Run, JournalEntry]] = {}
    twice = []
    for run in runs:
        for entry in run.entries:
            other, earlier = first.setdefault(entry.key, (run, entry))
            if other is not run:
                results = "the same results" if are_equal(entry, earlier) else "different results"
                twice.append(f"{entry.key.label} is in {other.name} and in {run.name}, with {results}")
    if twice:
        yield twice[0] + (f" (and {pluralize(len(twice) - 1, 'more trial')})" if twice[1:] else "")


def gaps(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what is missing: runs that did not end by themselves, and shards that are not here."""
    for run in runs:
        status = run.header.exit_status
        if not run.header.ended_at or status is None:
            yield f"{run.name} never ended"
        # pytest's exit status: 0 if all tests passed, 1 if some failed.
        elif status not in (0, 1):
            yield f"{run.name} did not end by itself (exit status {status})"
    shards = [run.header.shards for run in runs if run.header.shards]
    if shards:
        here = {number for each in shards for number in each.numbers}
        missing = [str(number) for number in range(1, shards[0].total + 1) if number not in here]
        if missing:
            words = ("shard", "is") if len(missing) == 1 else ("shards", "are")
            yield f"{words[0]} {', '.join(missing)} of {shards[0].total} {words[1]} not here"


def _shard_obstacles(runs: Sequence[Run]) -> Iterator[str]:
    parts = [(run, run.header.shards) for run in runs]
    known = [(run, shards) for run, shards in parts if shards is not None]
    if not known:
        return
    (first, expected), *others = known
    if whole := next((run for run, shards in parts if shards is None), None):
        yield f"{first.name} is {expected.title}, and {whole.name} is no shard"
        return
    seen = dict.fromkeys(expected.numbers, first)
    for run, shards in others:
        if shards.total != expected.total:
            yield f"shards: of {expected.total} in {first.name}, of {shards.total} in {run.name}"
            return
        for number in shards.numbers:
            if number in seen:
                yield f"shard {number} of {shards.total} is here twice: {seen[number].name} and {run.name}"
            seen[number] = run
        if (shards.tasks, shards.planned) != (expected.tasks, expected.planned):
            yield (
                f"{first.name} and {run.name} planned different trials: run all shards from one commit, "
                "with the same options"
            )
            return


def _looked_at(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a suite whose repetitions were decided by a look at one run, without all of its results."""
    groups = [(run, {(group.suite, group.model, group.variant) for group in run.planned}) for run in runs]
    for run, own in groups:
        for other, others in groups if run.header.repetition_rule else ():
            shared = sorted(own & others) if other is not run else []
            if shared:
                suite, model, _ = shared[0]
                decided = f"its repetitions were decided by {run.name} alone"
                yield f"{suite} with {model}: {decided}, and trials of it are in {other.name}"
                return


def _other_code(runs: Sequence[Run]) -> Iterator[str]:
    """Yield agents, models and graders of which two runs have no version in common."""
    seen: dict[str, tuple[Run, set[str]]] = {}
    for run in runs:
        versions: dict[str, set[str]] = defaultdict(set)
        for what, version in _versions(run):
            versions[what].add(version)
        for what, values in versions.items():
            other, before = seen.setdefault(what, (run, values))
            if not before & values:
                sides = [", ".join(sorted(side)) for side in (before, values)]
                yield f"{what}: {sides[0]} in {other.name}, {sides[1]} in {run.name}"
            seen[what] = (run, values)


def _versions(run: Run) -> Iterator[tuple[str, str]]:
    # Offline models are left out: their agents may call models of their own.
    real = {model.name for model in run.header.models if not model.offline}
    for entry in run.entries:
        suite, digests = entry.key.suite, entry.digests
        if digests.code:
            yield f"the code of the agent {entry.key.agent} of {suite}", digests.code
        if digests.model and entry.key.model in real and not entry.own_models:
            yield f"the model {entry.key.model}", digests.model
        for label, ruler in digests.graders.items():
            yield f"the grader {label} of {suite}", f"version {ruler.rpartition(':')[0]}"


# A suite, a model, a variant and a bucket.
Group = tuple[str, str, str, str]


def _joined_plan(runs: Sequence[Run]) -> tuple[PlannedGroup, ...]:
    """Return what the runs planned together.

    Each shard's header holds the plan of all shards, also of those that are not here. For other runs it is
    their sum, as no trial is in two of them.
    """
    shards = next((run.header.shards for run in runs if run.header.shards), None)
    if shards is not None:
        return shards.planned
    groups: dict[Group, list[PlannedGroup]] = {}
    counts: Counter[tuple[Group, TrialKey]] = Counter()
    for run in runs:
        path = run.folder / PLANNED
        # From disk, without the repetitions that a look added: reading the joined run adds them again.
        planned = read_planned(read_json(path)) if path.is_file() and run.planned else run.planned
        for group in planned:
            groups.setdefault((group.suite, group.model, group.variant, group.bucket), []).append(group)
        tasks = set()
        for entry in run.entries:
            key = entry.key
            tasks.add(((key.suite, key.model, key.variant, entry.bucket), key._replace(repetition=0)))
        counts.update(tasks)
    # A task that was tried in several runs is planned in each of them, but is one task.
    shared: Counter[Group] = Counter()
    for (name, _), times in counts.items():
        shared[name] += times - 1
    return tuple(
        PlannedGroup(
            *name,
            tasks=sum(group.tasks for group in parts) - shared[name],
            trials=sum(group.trials for group in parts),
            repetitions=min(group.repetitions for group in parts),
        )
        for name, parts in groups.items()
    )


T = TypeVar("T")
# Kinds of files that each process writes. What follows the kind in a name says which transcripts belong to
# which journal.
LINES = ("journal", "transcripts", "texts")


def join_runs(runs: Sequence[Run], results: Path, name: str, command: Sequence[str]) -> Path:
    """Join runs into a new one and return its folder: ``name`` in ``results``, or one named by its time.

    If a file cannot be copied, no run is left behind. Raises UsageMistake if the name is taken.
    """
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    header = replace(_joined_header(runs), command=tuple(command), merged_at=moment)
    folder = _folder(results, name, header)
    try:
        for number, run in enumerate(runs, 1):
            _copy(run.folder, folder, number)
            copy_notes(run.folder, folder)
        planned = _joined_plan(runs)
        if planned or any((run.folder / PLANNED).is_file() for run in runs):
            write_planned(folder, planned)
        # If shards are missing, nobody knows which trials they planned.
        if header.shards is None:
            plans = [PlannedTrials.read(run.folder) for run in runs]
            keys = [plan.keys for plan in plans if plan]
            # Without the planned trials of one run, the list would be incomplete.
            if len(keys) == len(runs) and all(keys):
                PlannedTrials.of(sorted(frozenset[TrialKey]().union(*keys))).write(folder)
        gates = {gate.suite: gate for run in runs for gate in read_gates(run.folder)}
        if gates:
            RunGates(tuple(gates.values())).write(folder)
        audits = [audit for run in runs if (audit := RunAudit.read(run.folder))]
        if audits:
            rubrics = {(each.suite, each.rubric): each for audit in audits for each in audit.rubrics}
            joined = RunAudit(
                tuple(dict.fromkeys(task for audit in audits for task in audit.tasks)),
                tuple(dict.fromkeys(task for audit in audits for task in audit.unaudited)),
                tuple(dict.fromkeys(spoiler for audit in audits for spoiler in audit.spoilers)),
                tuple(rubrics.values()),
            )
            joined.write(folder)
        if header.repetition_rule is not None:
            _write_repetitions(runs, folder)
    # Also after Ctrl-C: half a joined run would be listed as a run.
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _joined_header(runs: Sequence[Run]) -> RunHeader:
    """Return the header of all runs together; the joined run has not ended yet."""
    headers = [run.header for run in runs]
    first = headers[0]
    parts = [header.shards for header in headers if header.shards]
    numbers = tuple(sorted(number for part in parts for number in part.numbers))
    shards = replace(parts[0], numbers=numbers) if parts else None
    return replace(
        first,
        started_at=min(header.started_at for header in headers),
        models=_each(headers, lambda header: header.models, lambda model: model.name),
        variants=_each(headers, lambda header: header.variants, str),
        suites=_each(headers, lambda header: header.suites, lambda suite: suite.name),
        repetitions=first.repetitions if len({header.repetitions for header in headers}) == 1 else None,
        regraded=_each(headers, lambda header: header.regraded, str),
        reused=_each(headers, lambda header: header.reused, str),
        # It names processes by their journals, which have other names in the joined run.
        died=(),
        resumed=_each(headers, lambda header: header.resumed, lambda resumption: resumption.at),
        sessions=tuple(session for header in headers for session in header.all_sessions),
        record=_one([header.record for header in headers]),
        record_chat=_one([header.record_chat for header in headers]),
        repetition_rule=next((header.repetition_rule for header in headers if header.repetition_rule), None),
        held_out_looks={
            suite: max(header.held_out_looks.get(suite, 0) for header in headers)
            for suite in sorted({suite for header in headers for suite in header.held_out_looks})
        },
        package=", ".join(dict.fromkeys(header.package for header in headers)),
        pytest=", ".join(dict.fromkeys(header.pytest for header in headers)),
        # With all shards here, the joined run is whole and not a shard.
        shards=shards if shards is not None and shards.missing else None,
        name="",
        ended_at="",
        exit_status=None,
    )


def _each(
    headers: Sequence[RunHeader], part: Callable[[RunHeader], Iterable[T]], name: Callable[[T], Hashable]
) -> tuple[T, ...]:
    """Put a part of all headers together; of things with the same name, the first is taken."""
    things: dict[Hashable, T] = {}
    for header in headers:
        for thing in part(header):
            things.setdefault(name(thing), thing)
    return tuple(things.values())


def _one(words: Sequence[str]) -> str:
    """Return the word that all headers share; empty if they differ, which then made no difference."""
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
        elif path.match("calibration-*") or path.match("workspaces"):
            # Names in them come from trials and calibrations, so those of several runs can stand together.
            if path.is_dir():
                shutil.copytree(path, target / path.name, symlinks=True, dirs_exist_ok=True)
            elif not (target / path.name).exists():
                shutil.copyfile(path, target / path.name)


def _write_repetitions(runs: Sequence[Run], folder: Path) -> None:
    """Write which extra trials the runs might have needed, and what their looks gave."""
    groups: list[ExtraTrials] = []
    planned: dict[tuple[str, str, str, str], PlannedGroup] = {}
    looks: list[SuiteLook] = []
    for run in runs:
        extra = ExtraRepetitions.read(run.folder)
        groups += extra.groups if extra else ()
        for group in extra.planned if extra else run.planned:
            planned[group.suite, group.model, group.variant, group.bucket] = group
        looks += read_looks(run.folder) or ()
    ExtraRepetitions(tuple(groups), tuple(planned.values())).write(folder)
    Looks(tuple(looks)).write(folder)
