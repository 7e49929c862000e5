"""What each suite has to reach: its own ``gate:`` with what was said for this run on top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.compare.baseline import read_baseline
from pytest_agenteval.records.record import FrozenValue, from_builtins
from pytest_agenteval.session.planning.promoted_names import tasks_of_suite
from pytest_agenteval.session.planning.suites import Suites
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.store.run_gates import SuiteGate
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.gate_spec import NO_GATE, Gate
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, nearest, nearest_names

WITH_BASELINE = {"not_worse": True, "errored": 0.05}
"""What is asked where a baseline is named and nothing else."""


def effective_gate(own: Gate, settings: Settings) -> Gate:
    """Put what was said for this run over a suite's own gate; a baseline without any rule brings two."""
    gate = asked_of(own, settings)
    if settings.gate is None or gate.asks or not (settings.baseline or gate.baseline):
        return gate
    return from_builtins(Gate, {**WITH_BASELINE, **_rules_of(gate)})


def asked_of(own: Gate, settings: Settings) -> Gate:
    """Give what somebody asks of a suite: its own gate, and over it what was said for this run."""
    if settings.gate is None:
        return NO_GATE
    rules = {**_rules_of(own), **settings.gate}
    if "buckets" in rules:
        rules["buckets"] = {**own.buckets, **settings.gate.get("buckets", {})}
    return from_builtins(Gate, rules)


def _rules_of(gate: Gate) -> dict[str, Any]:
    """Give what a gate says, as JSON values."""
    return {key: value for key, value in gate.to_json().items() if value is not None and value != {}}


class SuiteTasks(FrozenValue, frozen=True):
    """Which tasks were met while collecting: by suite and task, the bucket and the split.

    Suites below the ``covered`` paths were met as a whole; of others the files are read.
    """

    met: Mapping[str, Mapping[str, tuple[str, str]]]
    covered: tuple[Path, ...]
    suites: Suites

    def buckets(self, name: str, split: str) -> Counter[str]:
        """Count the tasks of a suite by bucket, run or not; nothing where nobody can tell."""
        file, suite = self.suites.file_named(name), self.suites.suite_of_name(name)
        known: Iterable[tuple[str, str]] = self.met[name].values()
        if file and suite and not any(file.parent.is_relative_to(path) for path in self.covered):
            try:
                tasks = tasks_of_suite(self.suites, file, suite)
                known = [(each.bucket, each.task.split) for each in tasks]
            except ProblemsFound:
                known = []
        return Counter(bucket for bucket, of_split in known if split in ("all", of_split))


def planned_gates(settings: Settings, tasks: SuiteTasks, root: Path) -> tuple[SuiteGate, ...]:
    """Give the gates of the suites that were met, where they have to reach anything.

    Raises UsageMistake for a baseline that cannot be read, and for a bucket on the command line that no suite
    has.
    """
    gates: list[SuiteGate] = []
    typed = set((settings.gate or {}).get("buckets", {}))
    known: set[str] = set()
    for name in tasks.met:
        suite = tasks.suites.suite_of_name(name)
        own = suite.gate if suite else NO_GATE
        gate = effective_gate(own, settings)
        if gate == NO_GATE:
            continue
        counts = tasks.buckets(name, settings.split)
        known |= set(counts)
        # What was typed is for the suites that have such a bucket.
        others = typed - set(counts) - set(own.buckets)
        gate = replace(gate, buckets={key: gate.buckets[key] for key in gate.buckets if key not in others})
        rules = _stored(gate, tasks.suites.file_named(name), settings, root)
        gates.append(SuiteGate(name, rules, dict(counts), assumed=not asked_of(own, settings).asks))
    _refuse_unknown([name for name in sorted(typed) if name not in known], known, settings)
    return tuple(gates)


def _refuse_unknown(unknown: list[str], known: set[str], settings: Settings) -> None:
    if unknown and known:
        name = unknown[0]
        place = settings.places.get("gate", "--agent-gate")
        hint = nearest(name, known) or f"buckets there: {nearest_names(name, known)}"
        raise UsageMistake(f"{place}: expected a bucket of the suites; found {name!r}; {hint}")


def _stored(gate: Gate, file: Path | None, settings: Settings, root: Path) -> dict[str, Any]:
    """Give a gate with its baseline's path from the root, and see that the baseline can be read."""
    rules = _rules_of(gate)
    if gate.baseline and file is not None:
        path = (file.parent / gate.baseline).resolve()
        if path.is_file() and not settings.baseline:
            try:
                read_baseline(path)
            except UsageMistake as mistake:
                raise UsageMistake(f"{short_path(file)}: gate.baseline: {mistake}") from None
        rules["baseline"] = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return rules
