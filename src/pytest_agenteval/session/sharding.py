"""Which tests belong to a shard: each to one, whatever else is there.

A task's place is drawn by its suite and id, so that its models, variants and repetitions stay together; any
other test's by its node id without parameters. A test that is added moves no other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.session.options import Shard
from pytest_agenteval.session.planning.parametrization import PlannedItem
from pytest_agenteval.store.json_lines import encode_line

_ADDRESS = re.compile(rb" at 0x[0-9a-f]+")
"""Where an object lies that code put into a task: on each machine elsewhere."""


class ShardedItems(NamedTuple):
    """The tests of a shard, and the trials of all shards together."""

    own: list[pytest.Item]
    others: list[pytest.Item]
    all_trials: list[PlannedItem]

    @property
    def are_empty(self) -> bool:
        """Whether the shard has nothing to do, where others have."""
        return bool(self.others) and not self.own


def shard_items(items: Sequence[pytest.Item], shard: Shard) -> ShardedItems:
    """Tell the tests of a shard from those of the others; both stay in order."""
    numbers: dict[str, int] = {}
    own: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        name = _name(item)
        if name not in numbers:
            numbers[name] = shard_number(name, shard.total)
        (own if numbers[name] == shard.number else others).append(item)
    return ShardedItems(own, others, [item for item in items if isinstance(item, PlannedItem)])


def shard_number(name: str, total: int) -> int:
    """Draw the shard of what has this name, from 1 to ``total``: the same on every machine."""
    drawn = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(drawn[:8], "big") % total + 1


def tasks_digest(tasks: Iterable[PlannedTask]) -> str:
    """Give the digest of what tasks ask and how they are graded, in whichever order they come.

    Equal in all shards of one commit that were told the same. No path of a machine is in it.
    """
    lines = {_line(task) for task in {id(task): task for task in tasks}.values()}
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()[:16]


def _name(item: pytest.Item) -> str:
    if isinstance(item, PlannedItem):
        return f"{item.task.suite}\0{item.task.id}"
    return item.nodeid.partition("[")[0]


def _line(task: PlannedTask) -> bytes:
    graders = [
        (grader.name, grader.label, grader.config, grader.weight, grader.threshold, grader.required)
        for grader in task.graders
    ]
    asked = (task.input, task.texts, task.settings, task.prompts, task.user, task.clock)
    limits = task.limits.steps, task.limits.seconds, task.limits.tokens, task.limits.cost_usd
    kept = (task.suite, task.id, task.agent, task.kind, task.bucket, task.split, task.label)
    return _ADDRESS.sub(b"", encode_line({"task": (*kept, asked, limits, graders)}))
