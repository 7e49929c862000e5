"""Runs of several machines joined to one: which belong together, what keeps them apart, the joined run."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.record_files import VERSION, replace_json
from pytest_agenteval.store.run_documents import (
    AUDIT,
    ExtraRepetitions,
    ExtraTrials,
    RunAudit,
    SuiteLook,
    read_audit,
    read_extra,
    read_gates,
    read_looks,
    read_planned_trials,
    write_audit,
    write_extra,
    write_gates,
    write_looks,
    write_planned_trials,
)
from pytest_agenteval.store.run_folder import (
    HEADER,
    LATEST,
    PLANNED,
    PlannedGroup,
    RunHeader,
    RunShards,
    find_run,
    new_run,
    open_run,
    planned_json,
    read_json,
    read_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

NOWHERE = TranscriptLocation("", 0, 0)


class Parts(NamedTuple):
    """The runs that are joined; ``repeated`` are those that hold nothing that another has not."""

    runs: tuple[Run, ...]
    repeated: tuple[Run, ...]


def find_parts(names: Iterable[str], results: Path) -> Parts:
    """Find runs by what they are called, or all that lie below a folder that is none, and read them.

    Raises UsageMistake where there is none, or one cannot be read.
    """
    folders = dict.fromkeys(folder.resolve() for name in names for folder in _folders(name, results))
    here = Path.cwd().resolve()
    runs = [
        load_run(folder.relative_to(here) if folder.is_relative_to(here) else folder) for folder in folders
    ]
    names = Counter(run.name for run in runs)
    for run in runs:
        if names[run.name] > 1:  # each job of a matrix may have called its run alike
            run.header = replace(run.header, name=str(run.folder))
    return _without_repeated(sorted(runs, key=_place))


def _folders(name: str, results: Path) -> list[Path]:
    if not Path(name).is_dir() or (Path(name) / HEADER).is_file():
        return [find_run(results, name)]
    found = sorted(_runs_below(Path(name)))
    if not found:
        raise UsageMistake(f"{name}: expected a run, or a folder with runs below it; found none there")
    return found


def _runs_below(folder: Path) -> Iterator[Path]:
    """Give the folders of runs, but not what lies within one, nor a copy that stands for the latest."""
    for place, folders, files in os.walk(folder):
        if HEADER in files:
            folders.clear()
            if Path(place).name != LATEST:
                yield Path(place)


def _place(run: Run) -> tuple[tuple[int, ...], str, str]:
    shards = run.header.shards
    return (shards.numbers if shards else (), run.header.started_at, run.name)


def _without_repeated(runs: Sequence[Run]) -> Parts:
    distinct: list[Run] = []
    repeated: list[Run] = []
    for run in sorted(runs, key=lambda each: (len(_place(each)[0]), len(each.entries)), reverse=True):
        (repeated if any(_holds(other, run) for other in distinct) else distinct).append(run)
    return Parts(tuple(run for run in runs if run in distinct), tuple(repeated))


def _holds(whole: Run, run: Run) -> bool:
    """Whether a run has all that another has: it is a copy, or was made of it."""
    mine, others = run.header.shards, whole.header.shards
    if mine is not None and not (others is not None and set(mine.numbers) <= set(others.numbers)):
        return False
    if not run.entries and mine is None:
        return False
    known = {entry.key: entry for entry in whole.entries}
    return all(are_equal(entry, known.get(entry.key)) for entry in run.entries)


def are_equal(entry: JournalEntry, other: JournalEntry | None) -> bool:
    """Whether two runs say the same of a trial, wherever its transcript stands."""
    return other is not None and replace(entry, location=NOWHERE) == replace(other, location=NOWHERE)


ENDED = (0, 1)
"""Exit statuses of runs that ended by themselves: all passed, or some failed."""

SAME = {"input": "input", "fixture": "starting workspace", "ruler": "graders", "settings": "settings"}
"""What two runs must have alike of one task: digests, and what authors call them."""


def obstacles(runs: Sequence[Run]) -> Iterator[str]:
    """Say what keeps these runs from being one, whatever anybody allows."""
    yield from _formats(runs)
    yield from _of_shards(runs)
    yield from _headers(runs)
    # Results by name are put together: what bears one name must be one thing in all runs.
    models = [(run, model.name, model.id) for run in runs for model in run.header.models]
    yield from _named_twice("the model", models)
    suites = [
        (run, suite.name, f"{suite.kind}, agent {suite.agent}, threshold {suite.threshold:g}")
        for run in runs
        for suite in run.header.suites
    ]
    yield from _named_twice("the suite", suites)
    yield from _named_twice("the price of", [each for run in runs for each in _prices(run)])
    first: dict[str, tuple[Run, Mapping[str, Any]]] = {}
    for run in runs:
        for gate in read_gates(run.folder):
            other, before = first.setdefault(gate.suite, (run, gate.gate))
            if before != gate.gate:
                yield f"the gate of {gate.suite} is not the same in {other.name} and {run.name}"
    yield from _looked_at(runs)
    yield from _trials_twice(runs)
    yield from _tasks(runs)
    yield from _owners(runs)


def gaps(runs: Sequence[Run]) -> Iterator[str]:
    """Say what is missing: runs that did not end by themselves, and shards that are not here."""
    for run in runs:
        status = run.header.exit_status
        if not run.header.ended_at or status is None:
            yield f"{run.name} never ended"
        elif status not in ENDED:
            yield f"{run.name} did not end by itself (exit status {status})"
    shards = [run.header.shards for run in runs if run.header.shards]
    if shards:
        here = {number for each in shards for number in each.numbers}
        missing = [str(number) for number in range(1, shards[0].total + 1) if number not in here]
        if missing:
            words = ("shard", "is") if len(missing) == 1 else ("shards", "are")
            yield f"{words[0]} {', '.join(missing)} of {shards[0].total} {words[1]} not here"


def _formats(runs: Sequence[Run]) -> Iterator[str]:
    formats = [(run.name, read_json(run.folder / HEADER).get("v", VERSION)) for run in runs]
    yield from _differ("the format of its files", formats)


def _differ(what: str, values: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Say once that something, here by the runs' names, is not the same in all of them."""
    for (old, before), (new, after) in pairwise(values):
        if before != after:
            yield f"{what}: {before} in {old}, {after} in {new}"
            return


def _of_shards(runs: Sequence[Run]) -> Iterator[str]:
    parts = [(run, run.header.shards) for run in runs]
    whole = next((run for run, shards in parts if shards is None), None)
    known = [(run, shards) for run, shards in parts if shards is not None]
    if not known:
        return
    if whole is not None:
        yield f"{known[0][0].name} is {known[0][1].title}, and {whole.name} is no shard"
        return
    if len({shards.total for _, shards in known}) > 1:
        yield from _differ("shards", [(run.name, f"of {shards.total}") for run, shards in known])
        return
    (first, expected), *others = known
    seen = dict.fromkeys(expected.numbers, first)
    for run, shards in others:
        for number in shards.numbers:
            if number in seen:
                yield f"shard {number} of {shards.total} is here twice: {seen[number].name} and {run.name}"
            seen[number] = run
        if (shards.tasks, shards.planned) != (expected.tasks, expected.planned):
            yield (
                f"{first.name} and {run.name} planned other trials: shards have to be of one commit, "
                "and to be told the same"
            )
            return
    yield from _differ("the baseline", [(run.name, shards.baseline or "none") for run, shards in known])


HEADERS: Mapping[str, Callable[[RunHeader], Any]] = {
    "the seed": lambda header: header.seed,
    "the judges": lambda header: ", ".join(f"{judge.name} ({judge.id})" for judge in header.judges) or "none",
    "the model that plays users": lambda header: header.user or "none",
    "--agent-self-judge": lambda header: header.self_judge,
    "regrading": lambda header: bool(header.regraded),
}


def _headers(runs: Sequence[Run]) -> Iterator[str]:
    headers = [(run.name, run.header) for run in runs]
    for what, value in HEADERS.items():
        yield from _differ(what, [(name, value(header)) for name, header in headers])
    rules = [(name, header.repetition_rule) for name, header in headers if header.repetition_rule]
    yield from _differ(
        "the rule of repetitions", [(name, f"{rule.low}..{rule.high}") for name, rule in rules]
    )
    taped = [(run.name, run.header.record) for run in runs if run.header.record and _taped(run, "tool_tape")]
    yield from _differ("--agent-record", taped)
    chats = [
        (run.name, run.header.record_chat)
        for run in runs
        if run.header.record_chat
        and (_taped(run, "chat_tape") or any(not model.offline for model in run.header.models))
    ]
    yield from _differ("--agent-record-chat", chats)
    yield from _differ("an audit", [(run.name, (run.folder / AUDIT).is_file()) for run in runs])


def _taped(run: Run, which: str) -> bool:
    return any(
        tape.hits or tape.misses or tape.recorded for tape in (getattr(entry, which) for entry in run.entries)
    )


def _prices(run: Run) -> Iterator[tuple[Run, str, str]]:
    prices = run.header.prices
    for model in run.header.models if prices is not None else ():
        if prices is not None and not model.offline:
            own = prices.own.get(model.name, prices.own.get(model.id))
            yield (
                run,
                model.name,
                prices.table if own is None else f"the user's own, as of {own or 'no date'}",
            )


def _named_twice(what: str, named: Sequence[tuple[Run, str, str]]) -> Iterator[str]:
    first: dict[str, tuple[Run, str]] = {}
    for run, name, value in named:
        other, before = first.setdefault(name, (run, value))
        if before != value:
            yield f"{what} {name} is {before} in {other.name}, {value} in {run.name}"


def _looked_at(runs: Sequence[Run]) -> Iterator[str]:
    """Say which suite was looked at as a part of it: what decided its repetitions were not all results."""
    groups = [(run, {(group.suite, group.model, group.variant) for group in run.planned}) for run in runs]
    for run, own in groups:
        for other, others in groups if run.header.repetition_rule else ():
            shared = sorted(own & others) if other is not run else []
            if shared:
                suite, model, _ = shared[0]
                decided = f"a look at {run.name} alone decided its repetitions"
                yield f"{suite} with {model}: {decided}, and trials of it are in {other.name}"
                return


def _trials_twice(runs: Sequence[Run]) -> Iterator[str]:
    first: dict[Any, tuple[Run, JournalEntry]] = {}
    twice = []
    for run in runs:
        for entry in run.entries:
            other, before = first.setdefault(entry.key, (run, entry))
            if other is not run:
                results = "the same results" if are_equal(entry, before) else "different results"
                twice.append(f"{entry.key.label} is in {other.name} and in {run.name}, with {results}")
    if twice:
        more = len(twice) - 1
        yield twice[0] + (f" (and {more} more {'trial' if more == 1 else 'trials'})" if more else "")


def _tasks(runs: Sequence[Run]) -> Iterator[str]:
    """Say what one task has otherwise in two runs, as with two models."""
    first: dict[tuple[str, ...], tuple[Run, str]] = {}
    reported = set()
    for run in runs:
        for entry in run.entries:
            for name, words in SAME.items():
                digest = getattr(entry.digests, name)
                key = (*entry.key[:3], name)
                other, before = first.setdefault(key, (run, digest)) if digest else (run, digest)
                if before != digest and key not in reported:
                    reported.add(key)
                    place = f"{entry.key.suite}/{entry.key.task}"
                    yield f"{place} does not have the same {words} in {other.name} and {run.name}"


def _owners(runs: Sequence[Run]) -> Iterator[str]:
    for what, values_of in (("code of the agent", _codes), ("model", _models), ("grader", _versions)):
        seen: dict[str, list[tuple[Run, set[str]]]] = defaultdict(list)
        for run in runs:
            for name, values in values_of(run).items():
                seen[name].append((run, values))
        for name, found in seen.items():
            for (old, before), (new, after) in pairwise(found):
                if not before & after:
                    sides = (", ".join(sorted(side)) for side in (before, after))
                    yield f"the {what} {name}: {next(sides)} in {old.name}, {next(sides)} in {new.name}"
                    break


def _codes(run: Run) -> Mapping[str, set[str]]:
    codes: dict[str, set[str]] = defaultdict(set)
    for entry in run.entries:
        if entry.digests.code:
            codes[f"{entry.key.agent} of {entry.key.suite}"].add(entry.digests.code)
    return codes


def _models(run: Run) -> Mapping[str, set[str]]:
    """Give what each real model was, with its parameters and prices: no offline one, whose agents may ask."""
    real = {model.name for model in run.header.models if not model.offline}
    models: dict[str, set[str]] = defaultdict(set)
    for entry in run.entries:
        if entry.digests.model and entry.key.model in real and not entry.own_models:
            models[entry.key.model].add(entry.digests.model)
    return models


def _versions(run: Run) -> Mapping[str, set[str]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for entry in run.entries:
        for label, ruler in entry.digests.graders.items():
            versions[f"{label} of {entry.key.suite}"].add(f"version {ruler.rpartition(':')[0]}")
    return versions


Group = tuple[str, str, str, str]
"""A suite, a model, a variant and a bucket."""


def joined_plan(runs: Sequence[Run]) -> tuple[PlannedGroup, ...]:
    """Give what the runs planned together: of shards what all of them did, also those that are not here.

    Of other runs it is their sum: no trial is in two of them.
    """
    shards = next((run.header.shards for run in runs if run.header.shards), None)
    if shards is not None:
        return shards.planned
    groups: dict[Group, list[PlannedGroup]] = {}
    for group in chain.from_iterable(map(_own_plan, runs)):
        groups.setdefault((group.suite, group.model, group.variant, group.bucket), []).append(group)
    shared = _tasks_in_several(runs)
    return tuple(
        PlannedGroup(
            *key,
            tasks=sum(group.tasks for group in parts) - shared[key],
            trials=sum(group.trials for group in parts),
            repetitions=min(group.repetitions for group in parts),
        )
        for key, parts in groups.items()
    )


def _own_plan(run: Run) -> tuple[PlannedGroup, ...]:
    """Give a run's plan as it is on disk: without repetitions that a look has added, which come in again."""
    path = run.folder / PLANNED
    return read_planned(read_json(path)) if path.is_file() and run.planned else run.planned


def _tasks_in_several(runs: Sequence[Run]) -> Counter[Group]:
    """Count the tasks that were tried in more runs than one, once for each run but one."""
    counts: Counter[tuple[Group, TrialKey]] = Counter()
    for run in runs:
        counts.update(set(_tasks_by_group(run)))
    shared: Counter[Group] = Counter()
    for (group, _), times in counts.items():
        shared[group] += times - 1
    return shared


def _tasks_by_group(run: Run) -> Iterator[tuple[Group, TrialKey]]:
    for entry in run.entries:
        key = entry.key
        yield (key.suite, key.model, key.variant, entry.bucket), key._replace(repetition=0)


T = TypeVar("T")
LINES = ("journal", "transcripts", "texts")
"""The files of each process; what follows these words says which transcripts belong to a journal."""

WHOLE = ("calibration-*", "workspaces")
"""What else is copied: the names in it are those of trials and calibrations."""


def join_runs(runs: Sequence[Run], results: Path, name: str, command: Sequence[str]) -> Path:
    """Make a run of several and give its folder, which is ``name`` in ``results`` or named by its time.

    What cannot be copied leaves no run. Raises UsageMistake where the name is taken.
    """
    header = replace(joined_header(runs), command=tuple(command))
    folder = _folder(results, name, header)
    try:
        for number, run in enumerate(runs, 1):
            _copy(run.folder, folder, number)
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
            write_audit(
                folder,
                RunAudit(
                    tuple(dict.fromkeys(task for audit in audits for task in audit.tasks)),
                    tuple(dict.fromkeys(task for audit in audits for task in audit.unaudited)),
                    tuple(dict.fromkeys(spoiler for audit in audits for spoiler in audit.spoilers)),
                    tuple(
                        {
                            (each.suite, each.rubric): each for audit in audits for each in audit.rubrics
                        }.values()
                    ),
                ),
            )
        if header.repetition_rule is not None:
            _write_repetitions(runs, folder)
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
