"""Which of the planned trials are run: by split, by their last ending, by sample and by shard."""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from pytest_agenteval.records.plan import PlannedTask, TrialKey
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.session.options import Shard
from pytest_agenteval.session.planning.parametrization import PlannedItem, trial_key
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.store.record_files import encode_line
from pytest_agenteval.store.run_folder import find_run
from pytest_agenteval.store.run_reader import first_unreadable, load_run
from pytest_agenteval.text.errors import UsageMistake, did_you_mean, nearest_names
from pytest_agenteval.text.formatting import pluralize

ENDINGS = (*get_args(Ending), "limited", "not_run")


def select(settings: Settings, trials: Iterable[PlannedItem], earlier: Path | None) -> list[PlannedItem]:
    """Keep the trials that are to be run; each option narrows what the one before has left."""
    # ``earlier`` is the run that ``--agent-only`` chooses from.
    selected = _of_split(settings, trials)
    if earlier is not None:
        endings_by_key = _endings(earlier)
        endings = set(_parse_only(settings.only)[0])
        selected = [
            trial for trial in selected if endings & endings_by_key.get(trial_key(trial), {"not_run"})
        ]
    if settings.sample is not None:
        sampled = sample((trial.task for trial in selected), settings.sample, settings.seed)
        selected = [trial for trial in selected if (trial.task.suite, trial.task.id) in sampled]
    return selected


def no_match_reason(option: argparse.Namespace, offered: Sequence[pytest.Item]) -> Iterator[str]:
    """Say that ``-k`` or ``-m`` matches nothing, with the tasks and suites whose names come nearest."""
    trials = [item for item in offered if isinstance(item, PlannedItem)]
    if trials and (option.keyword or option.markexpr):
        flag, text = ("-k", option.keyword) if option.keyword else ("-m", option.markexpr)
        names = {name for trial in trials for name in (trial.task.suite, trial.task.id) if name}
        near = get_close_matches(option.keyword, sorted(names), n=3, cutoff=0.5)
        if near:
            hint = f"; did you mean {' or '.join(map(repr, near))}?"
        else:
            hint = f"; suites and tasks: {nearest_names('', names)}" if option.keyword else ""
        yield f"{flag} {shlex.quote(text)} matches none of {pluralize(len(trials), 'trial')}{hint}"


def split_remarks(settings: Settings, trials: Sequence[PlannedItem]) -> Iterator[str]:
    """Say that no trial belongs to the split that is run."""
    # No command for the other split: coding agents would follow it, and see tasks that are held out.
    if trials and not _of_split(settings, trials):
        none = f"none of {pluralize(len(trials), 'trial')} is in this split"
        yield f"--agent-split={settings.split}: {none}"


def selection_remarks(
    settings: Settings, trials: Iterable[PlannedItem], selected: Sequence[PlannedItem], earlier: Path
) -> Iterator[str]:
    """Say that nothing ended as ``--agent-only`` wants it, and what of the ``earlier`` run was no choice."""
    if not selected and (number := len(_of_split(settings, trials))):
        none = f"none of {pluralize(number, 'trial')} has this ending in run {earlier.name}"
        yield f"--agent-only={settings.only}: nothing to run: {none}"
    run = load_run(earlier)
    if run.never_ended and "not_run" not in _parse_only(settings.only)[0]:
        yield f"{earlier.name}: {run.never_ended}: --agent-only=not_run@{earlier.name} runs them"
    yield from (f"{earlier.name}: {line}" for line in first_unreadable(run.odd))


def sample(tasks: Iterable[PlannedTask], size: int, seed: int) -> Collection[tuple[str, str]]:
    """Choose ``size`` tasks of each bucket; a seed chooses the same ones, whatever other tasks there are."""
    # Each task has a rank of its own, so that a new task moves no other. The sample is drawn by bucket, so
    # that even a small one has tasks of every kind.
    buckets: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for task in tasks:
        buckets.setdefault((task.suite, task.bucket), set()).add((task.suite, task.id))

    def rank(name: tuple[str, str]) -> bytes:
        return hashlib.sha256(f"{seed}\0{name[0]}\0{name[1]}".encode()).digest()

    return {name for names in buckets.values() for name in sorted(names, key=rank)[:size]}


def earlier_run(settings: Settings, root: Path) -> Path:
    """Find the run that ``--agent-only`` names, else the latest; raises UsageMistake when there is none."""
    with settings.naming_place("only"):
        _, name = _parse_only(settings.only)
        return find_run(settings.results or root / RESULTS, name or "latest")


def _of_split(settings: Settings, trials: Iterable[PlannedItem]) -> list[PlannedItem]:
    return [trial for trial in trials if settings.split in ("all", trial.task.split)]


def _parse_only(only: str) -> tuple[list[str], str]:
    """Read ``missed,errored`` or ``missed,errored@RUN``: endings, and the run's name."""
    names, _, run = only.partition("@")
    endings = [name.strip() for name in names.split(",") if name.strip()]
    choices = ", ".join(ENDINGS)
    for name in endings or [only]:
        if name not in ENDINGS:
            hint = did_you_mean(name, ENDINGS) or "-k NAME selects tasks"
            rows = [f"expected endings: {choices}; found {name!r}", hint]
            raise UsageMistake("; ".join(row for row in rows if row))
    return endings, run.strip()


def _endings(run: Path) -> dict[TrialKey, set[str]]:
    ended: dict[TrialKey, set[str]] = {}
    for entry in load_run(run).entries:
        ended[entry.key] = {entry.ending, "limited"} if entry.limit else {entry.ending}
    return ended


# The memory address in the text of an object that code put into a task: it differs between machines.
_ADDRESS = re.compile(rb" at 0x[0-9a-f]+")


class ShardedItems(NamedTuple):
    """The tests of a shard, and the trials of all shards together."""

    own: list[pytest.Item]
    others: list[pytest.Item]
    all_trials: list[PlannedItem]


def shard_items(items: Sequence[pytest.Item], shard: Shard) -> ShardedItems:
    """Separate the tests of a shard from those of the others; both stay in order."""
    # A task's shard is drawn by its suite and id, so that its models, variants and repetitions stay together.
    # The shard of any other test is drawn by its node id without parameters. A new test moves no other.
    numbers: dict[str, int] = {}
    own: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if isinstance(item, PlannedItem):
            name = f"{item.task.suite}\0{item.task.id}"
        if name not in numbers:
            numbers[name] = shard_number(name, shard.total)
        (own if numbers[name] == shard.number else others).append(item)
    return ShardedItems(own, others, [item for item in items if isinstance(item, PlannedItem)])


def shard_number(name: str, total: int) -> int:
    """Draw the shard of what has this name, from 1 to ``total``: the same on every machine."""
    drawn = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(drawn[:8], "big") % total + 1


def tasks_digest(tasks: Iterable[PlannedTask]) -> str:
    """Give the digest of what tasks ask and how they are graded, in whichever order they come."""
    # The digest is equal in all shards of one commit with the same options, so it holds no path of a machine.
    lines = set()
    for task in {id(task): task for task in tasks}.values():
        graders = [
            (grader.name, grader.label, grader.config, grader.weight, grader.threshold, grader.required)
            for grader in task.graders
        ]
        names = (task.suite, task.id, task.agent, task.kind, task.bucket, task.split, task.label)
        given = (task.input, task.texts, task.settings, task.prompts, task.user, task.clock)
        limits = task.limits.steps, task.limits.seconds, task.limits.tokens, task.limits.cost_usd
        lines.add(_ADDRESS.sub(b"", encode_line({"task": (*names, given, limits, graders)})))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()[:16]
