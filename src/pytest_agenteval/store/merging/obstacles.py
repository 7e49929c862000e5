"""Why runs are not joined: what would make one figure out of two kinds of results, in a sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.json_lines import VERSION
from pytest_agenteval.store.merging.parts import are_equal
from pytest_agenteval.store.run_audit import AUDIT
from pytest_agenteval.store.run_gates import read_gates
from pytest_agenteval.store.run_metadata import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import HEADER, read_json

ENDED = (0, 1)
"""Exit statuses of runs that ended by themselves: all passed, or some failed."""

SAME = {"input": "input", "fixture": "starting workspace", "ruler": "graders", "settings": "settings"}
"""What two runs must have alike of one task: digests, and what authors call them."""


def obstacles(runs: Sequence[Run]) -> Iterator[str]:
    """Say what keeps these runs from being one, whatever anybody allows."""
    yield from _formats(runs)
    yield from _of_shards(runs)
    yield from _headers(runs)
    yield from _named_things(runs)
    yield from _gates(runs)
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
        (run.name, run.header.record_chat) for run in runs if run.header.record_chat and _asks_models(run)
    ]
    yield from _differ("--agent-record-chat", chats)
    yield from _differ("an audit", [(run.name, (run.folder / AUDIT).is_file()) for run in runs])


def _taped(run: Run, which: str) -> bool:
    return any(
        tape.hits or tape.misses or tape.recorded for tape in (getattr(entry, which) for entry in run.entries)
    )


def _asks_models(run: Run) -> bool:
    """Whether a model was asked that is none of ours, so that it matters where replies came from."""
    return _taped(run, "chat_tape") or any(not model.offline for model in run.header.models)


def _named_things(runs: Sequence[Run]) -> Iterator[str]:
    """Say of models and suites that bear one name, and are not the same."""
    models = [(run, model.name, model.id) for run in runs for model in run.header.models]
    yield from _named_twice("the model", models)
    suites = [
        (run, suite.name, f"{suite.kind}, agent {suite.agent}, threshold {suite.threshold:g}")
        for run in runs
        for suite in run.header.suites
    ]
    yield from _named_twice("the suite", suites)
    yield from _named_twice("the price of", [each for run in runs for each in _prices(run)])


def _prices(run: Run) -> Iterator[tuple[Run, str, str]]:
    """Give where the price of each model comes from that has one."""
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


def _gates(runs: Sequence[Run]) -> Iterator[str]:
    first: dict[str, tuple[Run, Mapping[str, Any]]] = {}
    for run in runs:
        for gate in read_gates(run.folder):
            other, before = first.setdefault(gate.suite, (run, gate.gate))
            if before != gate.gate:
                yield f"the gate of {gate.suite} is not the same in {other.name} and {run.name}"


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
    told = set()
    for run in runs:
        for entry in run.entries:
            for name, words in SAME.items():
                digest = getattr(entry.digests, name)
                key = (*entry.key[:3], name)
                other, before = first.setdefault(key, (run, digest)) if digest else (run, digest)
                if before != digest and key not in told:
                    told.add(key)
                    place = f"{entry.key.suite}/{entry.key.task}"
                    yield f"{place} does not have the same {words} in {other.name} and {run.name}"


def _owners(runs: Sequence[Run]) -> Iterator[str]:
    """Say which agent, model or grader is not the same in two runs, where no task of theirs is in both."""
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
    """Give the versions of each suite's graders, by their labels."""
    versions: dict[str, set[str]] = defaultdict(set)
    for entry in run.entries:
        for label, ruler in entry.digests.graders.items():
            versions[f"{label} of {entry.key.suite}"].add(f"version {ruler.rpartition(':')[0]}")
    return versions
