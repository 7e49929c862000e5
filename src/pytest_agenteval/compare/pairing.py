"""Which trials belong together on both sides, and which tasks cannot be compared, by file and key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter

from pytest_agenteval.compare.sent import SentDifference, sent_differences
from pytest_agenteval.compare.sides import Compared, Side, SideGroup, matching_groups
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry

_DIGESTS = attrgetter("digests")

TaskKey = tuple[str, str]
"""A task's id and its agent."""

MUST_EQUAL = {"input": "input", "fixture": "starting workspace", "ruler": "graders"}
"""What has to be the same for scores to be of one kind: digests, and what authors call them."""

MAY_BE_NONE = ("fixture", "tools")
"""Empty where a trial has none of it, which is a difference to a trial that has."""

MAY_DIFFER = {
    "prompt": "prompt",
    "settings": "settings",
    "tools": "tools",
    "code": "agent code",
    "model": "model",
}
"""What may be the very thing that is compared."""


class Obstacle(FrozenValue, frozen=True):
    """Why a task is not compared: where it stands, which of its keys, and what is wrong with it."""

    file: str
    task: str
    key: str
    problem: str

    def __str__(self) -> str:
        place = f"{self.file}: {self.task}" if self.file else self.task
        return f"{place}: {self.key}: {self.problem}" if self.key else f"{place}: {self.problem}"


class TaskPair(FrozenValue, frozen=True):
    """One task's trials on both sides, by repetition; errored ones are among them."""

    task: str
    bucket: str
    file: str
    old: tuple[JournalEntry, ...]
    new: tuple[JournalEntry, ...]


class SuitePairs(FrozenValue, frozen=True):
    """The tasks of one suite that are compared, and what keeps others from it.

    ``differs`` names what is not the same on both sides and may be what is compared, ``sent`` what of that
    models were told.
    """

    group: SideGroup
    pairs: tuple[TaskPair, ...]
    obstacles: tuple[Obstacle, ...]
    differs: tuple[str, ...]
    sent: tuple[SentDifference, ...] = ()


def pair_suites(old: Side, new: Side, compared: Compared = "") -> list[SuitePairs]:
    """Pair the tasks of each suite that both sides have."""
    return [_pair_suite(group, old, new) for group in matching_groups(old, new, compared)]


def unmatched_groups(side: Side, matched: Collection[tuple[str, str, str]]) -> Iterator[str]:
    """Name the suites, with their models, that have nobody to be compared with."""
    for suite, model, variant in side.groups:
        if (suite, model, variant) not in matched:
            yield f"{suite} with {model}@{variant}" if variant else f"{suite} with {model}"


def _pair_suite(group: SideGroup, old: Side, new: Side) -> SuitePairs:
    before, after = _tasks(old, group.suite, group.old), _tasks(new, group.suite, group.new)
    pairs, obstacles = [], []
    for key, entries in after.items():
        if key not in before:
            obstacles.append(_lonely(entries, "only in new"))
            continue
        last = entries[0]
        pair = TaskPair(key[0], last.bucket, last.file, before[key], entries)
        reasons = list(_obstacles(pair, old, new))
        obstacles += reasons
        if not reasons:
            pairs.append(pair)
    obstacles += [_lonely(entries, "only in old") for key, entries in before.items() if key not in after]
    changed = [pair for pair in pairs if not _is_same(pair)]
    sent = tuple(sent_differences([(pair.old, pair.new) for pair in changed], old, new))
    differs = [*_differences(changed), *(f"{each.part} that was sent" for each in sent if not each.varies)]
    return SuitePairs(group, tuple(pairs), tuple(obstacles), tuple(differs), sent)


def _tasks(side: Side, suite: str, who: tuple[str, str]) -> Mapping[TaskKey, tuple[JournalEntry, ...]]:
    tasks: dict[TaskKey, list[JournalEntry]] = {}
    for entry in side.entries:
        key = entry.key
        if key.suite == suite and (key.model, key.variant) == who:
            tasks.setdefault((key.task, key.agent), []).append(entry)
    return {key: tuple(entries) for key, entries in tasks.items()}


def _lonely(entries: Sequence[JournalEntry], where: str) -> Obstacle:
    return Obstacle(entries[0].file, entries[0].key.task, "", where)


def _is_same(pair: TaskPair) -> bool:
    """Whether trial by trial nothing differs that there are digests of, as of most tasks."""
    return list(map(_DIGESTS, pair.old)) == list(map(_DIGESTS, pair.new))


def _obstacles(pair: TaskPair, old: Side, new: Side) -> Iterator[Obstacle]:
    if _is_same(pair):
        return
    for name, words in MUST_EQUAL.items():
        before, after = _digests(pair.old, name), _digests(pair.new, name)
        # A trial that broke before it began has no digests, and neither has one of an imported run.
        if before and after and before != after:
            problem = _ruler_problem(pair, old, new) if name == "ruler" else "not what it was"
            yield Obstacle(pair.file, pair.task, words, problem)


def _digests(entries: Sequence[JournalEntry], name: str) -> set[str]:
    each = ((getattr(entry.digests, name), entry.digests.input) for entry in entries)
    return {digest for digest, known in each if digest or (known and name in MAY_BE_NONE)}


def _ruler_problem(pair: TaskPair, old: Side, new: Side) -> str:
    """Say which graders are not what they were, and whether that is for their judges."""
    before, after = _grader_digests(pair.old), _grader_digests(pair.new)
    changed = [label for label in {**before, **after} if before.get(label) != after.get(label)]
    parts = [_grader_change(label, before.get(label, ""), after.get(label, "")) for label in changed]
    if set(old.judges) != set(new.judges):
        judges = [", ".join(side.judges) or "nobody" for side in (old, new)]
        parts.append(f"judged by {judges[0]} -> {judges[1]}")
    return "; ".join(parts) or "not what they were"


def _grader_digests(entries: Sequence[JournalEntry]) -> Mapping[str, str]:
    return {label: text for entry in entries for label, text in entry.digests.graders.items()}


def _grader_change(label: str, before: str, after: str) -> str:
    if not (before and after):
        return f"{label} only in {'old' if before else 'new'}"
    versions = before.rpartition(":")[0], after.rpartition(":")[0]
    if versions[0] != versions[1]:
        return f"{label} version {versions[0]} -> {versions[1]}"
    return f"{label} configured, weighed or judged otherwise"


def _differences(pairs: Sequence[TaskPair]) -> Iterator[str]:
    for name, words in MAY_DIFFER.items():
        if any(_differ(_digests(pair.old, name), _digests(pair.new, name)) for pair in pairs):
            yield words


def _differ(before: set[str], after: set[str]) -> bool:
    return bool(before and after and before != after)
