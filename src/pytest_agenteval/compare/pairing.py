"""The two runs of a comparison: their trials, which tasks belong together, and what differs of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from glob import escape
from itertools import zip_longest
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.resource_figures import ResourceFigures, resource_figures
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.prompts import FIRST_MESSAGE, SYSTEM_PROMPT, TOOL_LIST, sent_texts
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.store.journal_entry import JournalEntry, StartedAttempt, group_of
from pytest_agenteval.store.run_documents import SuiteLook
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, nearest_names

# A model and a variant.
ModelVariant: TypeAlias = tuple[str, str]

# What differs between the sides on purpose, because it is what is compared.
Compared: TypeAlias = Literal["", "model", "variant"]

# Names the variant without prompt files of its own, which has no name itself.
BASE = "base"


class ComparedRun(FrozenValue, frozen=True, dict=True):
    """One run of a comparison, old or new: the last attempt of each trial, and what is known of all of them.

    ``name`` is the run's; several runs that were pooled have all their names, and ``run_of`` then names the
    run of each trial, in the order of the runs. ``judges`` are the ids of the judges that were available.
    ``unreadable`` names what could not be read. ``looks`` say how it was decided how often tasks are
    repeated, where that was not fixed. ``held_out_looks`` count how often the held-out tasks of each suite
    had been tried by then. ``transcript_of`` reads the transcript of a trial, where there is one.
    ``header`` is that of the one run of which these are trials, ``begun`` are attempts at any of its
    ``run_trials`` that never ended.
    """

    name: str
    entries: tuple[JournalEntry, ...]
    judges: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    looks: tuple[SuiteLook, ...] = ()
    held_out_looks: Mapping[str, int] = NOTHING
    run_of: Mapping[TrialKey, str] = {}
    transcript_of: Callable[[JournalEntry], Transcript | None] | None = None
    header: RunHeader | None = None
    begun: tuple[StartedAttempt, ...] = ()
    run_trials: int = 0

    # Every pair that the side is in needs it.
    @cached_property
    def resources(self) -> ResourceFigures:
        """What the side took; the wall time of a whole run is that of its pytest."""
        is_whole_run = self.header is not None and len(self.entries) == self.run_trials
        groups = {group_of(entry) for entry in self.entries}
        begun = [each for each in self.begun if is_whole_run or group_of(each) in groups]
        return resource_figures(self.entries, self.header, begun, is_whole_run=is_whole_run)

    def sent_text(self, entry: JournalEntry, part: str) -> str:
        """Give a part of what a trial sent to its models; empty where no transcript is left."""
        transcript = self.transcript_of(entry) if self.transcript_of else None
        return sent_texts(transcript).get(part, "") if transcript else ""

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """The suites with each of their models and variants, in order of appearance."""
        return list(dict.fromkeys(map(group_of, self.entries)))

    def with_model(self, model: str) -> ComparedRun:
        """Give the trials of one model; raises UsageMistake where there are none."""
        return self._part("model", model, lambda key: key.model)

    def with_variant(self, variant: str) -> ComparedRun:
        """Give the trials of one variant; raises UsageMistake where there are none.

        The variant without prompt files of its own is called ``base``.
        """
        return self._part("variant", variant, lambda key: key.variant or BASE)

    def on_tasks_of(self, other: ComparedRun) -> ComparedRun:
        """Give the trials of those tasks that the other side has, too."""
        tasks = {(each.key.suite, each.key.task, each.key.agent) for each in other.entries}
        own = ((entry, (entry.key.suite, entry.key.task, entry.key.agent)) for entry in self.entries)
        return replace(self, entries=tuple(entry for entry, task in own if task in tasks))

    def _part(self, kind: str, name: str, name_of: Callable[[TrialKey], str]) -> ComparedRun:
        entries = tuple(entry for entry in self.entries if name_of(entry.key) == name)
        if not entries:
            names = dict.fromkeys(name_of(entry.key) for entry in self.entries)
            known = nearest_names(name, list(names)) or "none"
            raise UsageMistake(f"{self.name} has no {kind} {name!r}; it has {known}")
        return replace(self, entries=entries)


def compared_run(run: Run) -> ComparedRun:
    header = run.header

    def transcript_of(entry: JournalEntry) -> Transcript | None:
        trial = run.trial_if_readable(entry)
        return trial.transcript if trial else None

    return ComparedRun(
        header.name or run.folder.name,
        run.entries,
        tuple(judge.id for judge in header.judges),
        run.odd,
        run.looks,
        header.held_out_looks,
        transcript_of=transcript_of,
        header=header,
        begun=run.begun,
        run_trials=len(run.entries),
    )


def pool_runs(sides: Sequence[ComparedRun]) -> ComparedRun:
    """Put the trials of several runs together, as repetitions that are counted over all of them."""
    if len(sides) == 1:
        return sides[0]
    entries: list[JournalEntry] = []
    run_of: dict[TrialKey, str] = {}
    origins: dict[TrialKey, tuple[ComparedRun, JournalEntry]] = {}
    begun: list[StartedAttempt] = []
    trials: Counter[TrialKey] = Counter()
    for side in sides:
        for entry in sorted(side.entries, key=lambda entry: entry.key):
            # Trials are numbered anew. The originals are remembered, for transcripts are found by them.
            task = entry.key._replace(repetition=0)
            trials[task] += 1
            key = task._replace(repetition=trials[task])
            entries.append(replace(entry, key=key))
            run_of[key], origins[key] = side.name, (side, entry)
        ended = {entry.key for entry in side.entries}
        for number, each in enumerate((each for each in side.begun if each.key not in ended), len(begun) + 1):
            # A number that no trial has, as none of these has ended.
            begun.append(each._replace(key=each.key._replace(repetition=-number)))

    def transcript_of(entry: JournalEntry) -> Transcript | None:
        side, original = origins[entry.key]
        return side.transcript_of(original) if side.transcript_of else None

    return ComparedRun(
        name=", ".join(side.name for side in sides),
        entries=tuple(sorted(entries, key=lambda entry: entry.key)),
        judges=tuple(dict.fromkeys(judge for side in sides for judge in side.judges)),
        unreadable=tuple(dict.fromkeys(text for side in sides for text in side.unreadable)),
        looks=tuple(dict.fromkeys(look for side in sides for look in side.looks)),
        run_of=run_of,
        transcript_of=transcript_of,
        begun=tuple(begun),
    )


class ComparedGroup(FrozenValue, frozen=True):
    """What is compared on both sides: one suite, with the model and variant that it has on each."""

    suite: str
    old: ModelVariant
    new: ModelVariant


def _matching_groups(old: ComparedRun, new: ComparedRun, compared: Compared = "") -> Iterator[ComparedGroup]:
    """Give the suites of both sides, paired by model and variant, of which one may be ``compared``."""

    def by_equal_part(side: ComparedRun, suite: str) -> dict[tuple[str, ...], ModelVariant]:
        """Give the models and variants of a suite by the part that must be equal on both sides."""
        found: dict[tuple[str, ...], ModelVariant] = {}
        for other, model, variant in side.groups:
            if other == suite:
                equal = {"model": (variant,), "variant": (model,), "": (model, variant)}[compared]
                found[equal] = (model, variant)
        return found

    for suite in dict.fromkeys(suite for suite, _, _ in new.groups):
        before, after = by_equal_part(old, suite), by_equal_part(new, suite)
        yield from (ComparedGroup(suite, before[part], who) for part, who in after.items() if part in before)
        left_before = [who for part, who in before.items() if part not in after]
        left_after = [who for part, who in after.items() if part not in before]
        # Where each side has just one model and variant without a counterpart, these two are what is
        # compared.
        if len(left_before) == len(left_after) == 1:
            yield ComparedGroup(suite, left_before[0], left_after[0])


# A task's id and its agent.
TaskKey = tuple[str, str]

# Digests that must be equal for scores to be comparable, with the authors' words for them.
MUST_EQUAL = {"input": "input", "fixture": "starting workspace", "ruler": "graders"}

# Digests that may be empty because a trial has no such thing. Then it differs from a trial that has one.
MAY_BE_NONE = ("fixture", "tools")

# Digests of what a comparison may be about.
MAY_DIFFER = {
    "prompt": "prompt",
    "settings": "settings",
    "tools": "tools",
    "code": "agent code",
    "model": "model",
}


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


# How many trials of a side are read to find words that differ in each of them.
MOST_READ = 5
VARYING = "…"


class SentDifference(FrozenValue, frozen=True):
    """A part of what models receive that differs between both sides.

    ``old`` and ``new`` are digests of one task's text, ``old_line`` and ``new_line`` the first line that
    is not the same, where texts are known; ``…`` in it stands for words that differ from trial to trial.
    ``varies`` is true where nothing but such words differs: a date, an id.
    """

    part: str
    old: str
    new: str
    old_line: str = ""
    new_line: str = ""
    varies: bool = False


def _sent_differences(
    tasks: Sequence[TaskPair], old: ComparedRun, new: ComparedRun
) -> Iterator[SentDifference]:
    """Give the parts that differ between the sides; trials of earlier versions did not record them."""
    for part in (SYSTEM_PROMPT, FIRST_MESSAGE, TOOL_LIST):
        before: list[JournalEntry] = []
        after: list[JournalEntry] = []
        for pair in tasks:
            sides = [[entry for entry in side if entry.digests.sent] for side in (pair.old, pair.new)]
            if all(sides) and set(_sent(sides[0], part)) != set(_sent(sides[1], part)):
                before += sides[0]
                after += sides[1]
        if before:
            yield _difference(part, before, after, old, new)


def _difference(
    part: str,
    before: Sequence[JournalEntry],
    after: Sequence[JournalEntry],
    old: ComparedRun,
    new: ComparedRun,
) -> SentDifference:
    digests = [_sent(entries, part) for entries in (before, after)]
    # A text that is another in each trial, as by a date, is no change of the agent.
    varies = any(len(own) > 1 and len(set(own)) == len(own) for own in digests)
    found = SentDifference(part, digests[0][0], digests[1][0], varies=varies)
    # Only where words vary are several texts needed to find them.
    most = MOST_READ if varies else 1
    old_texts, new_texts = (
        list(filter(None, (side.sent_text(entry, part) for entry in entries[:most])))
        for side, entries in ((old, before), (new, after))
    )
    # The file of a baseline holds no texts.
    if (found.old and not old_texts) or (found.new and not new_texts):
        return found
    for old_line, new_line in zip_longest(_lines(old_texts), _lines(new_texts), fillvalue=""):
        if old_line != new_line and not (_stands_for(old_line, new_line) or _stands_for(new_line, old_line)):
            return replace(found, old_line=old_line, new_line=new_line, varies=False)
    return replace(found, varies=True)


def _sent(entries: Sequence[JournalEntry], part: str) -> list[str]:
    return [entry.digests.sent.get(part, "") for entry in entries]


def _lines(texts: Sequence[str]) -> list[str]:
    """Give the lines of the first text, with a mark in place of words that not all others have."""
    common = set[str]().union(*map(str.split, texts[:1])).intersection(*map(str.split, texts[1:]))
    lines = []
    for line in "".join(texts[:1]).splitlines():
        shown = " ".join(word if word in common else VARYING for word in line.split())
        # Several such words in a row get one mark.
        lines.append(re.sub(f"{VARYING}( {VARYING})+", VARYING, shown))
    return list(filter(None, lines))


def _stands_for(line: str, other: str) -> bool:
    """Whether the other line is equal to this one, with any words in place of marks."""
    # fnmatch never tries one gap anew once the next part fits: a line may have dozens of gaps.
    return fnmatchcase(other, escape(line).replace(VARYING, "*"))


class SuitePairs(FrozenValue, frozen=True):
    """The tasks of one suite that are compared, and the obstacles that exclude others.

    ``differs`` names what is not the same on both sides and may be what is compared; ``sent`` is the part of
    it that was sent to models.
    """

    group: ComparedGroup
    pairs: tuple[TaskPair, ...]
    obstacles: tuple[Obstacle, ...]
    differs: tuple[str, ...]
    sent: tuple[SentDifference, ...] = ()


def pair_suites(old: ComparedRun, new: ComparedRun, compared: Compared = "") -> list[SuitePairs]:
    """Pair the tasks of each suite that both sides have."""
    return [_pair_suite(group, old, new) for group in _matching_groups(old, new, compared)]


def unmatched_groups(side: ComparedRun, matched: Collection[tuple[str, str, str]]) -> Iterator[str]:
    """Name the suites, with their models, that have no counterpart."""
    for suite, model, variant in side.groups:
        if (suite, model, variant) not in matched:
            yield f"{suite} with {model}@{variant}" if variant else f"{suite} with {model}"


def _pair_suite(group: ComparedGroup, old: ComparedRun, new: ComparedRun) -> SuitePairs:
    before, after = _tasks(old, group.suite, group.old), _tasks(new, group.suite, group.new)
    pairs, changed, obstacles = [], [], []
    for key, entries in after.items():
        if key not in before:
            obstacles.append(Obstacle(entries[0].file, key[0], "", "only in new"))
            continue
        pair = TaskPair(key[0], entries[0].bucket, entries[0].file, before[key], entries)
        # Most tasks have equal digests, trial by trial, and need not be looked at again.
        is_same = [entry.digests for entry in pair.old] == [entry.digests for entry in pair.new]
        reasons = [] if is_same else list(_obstacles(pair, old, new))
        obstacles += reasons
        if not reasons:
            pairs.append(pair)
            changed += [] if is_same else [pair]
    only_old = (entries[0] for key, entries in before.items() if key not in after)
    obstacles += [Obstacle(entry.file, entry.key.task, "", "only in old") for entry in only_old]
    sent = tuple(_sent_differences(changed, old, new))
    differs = [*_differences(changed), *(f"{each.part} that was sent" for each in sent if not each.varies)]
    return SuitePairs(group, tuple(pairs), tuple(obstacles), tuple(differs), sent)


def _tasks(side: ComparedRun, suite: str, who: tuple[str, str]) -> Mapping[TaskKey, tuple[JournalEntry, ...]]:
    tasks: dict[TaskKey, list[JournalEntry]] = {}
    for entry in side.entries:
        key = entry.key
        if key.suite == suite and (key.model, key.variant) == who:
            tasks.setdefault((key.task, key.agent), []).append(entry)
    return {key: tuple(entries) for key, entries in tasks.items()}


def _obstacles(pair: TaskPair, old: ComparedRun, new: ComparedRun) -> Iterator[Obstacle]:
    for name, words in MUST_EQUAL.items():
        before, after = _known_digests(pair.old, name), _known_digests(pair.new, name)
        # A trial that broke before it began has no digests, and neither has a trial of an imported run.
        if before and after and before != after:
            problem = _ruler_problem(pair, old, new) if name == "ruler" else "not what it was"
            yield Obstacle(pair.file, pair.task, words, problem)


def _known_digests(entries: Sequence[JournalEntry], name: str) -> set[str]:
    # An empty digest means that there was nothing, if the trial has any digests at all.
    each = ((getattr(entry.digests, name), entry.digests.input) for entry in entries)
    return {digest for digest, known in each if digest or (known and name in MAY_BE_NONE)}


def _ruler_problem(pair: TaskPair, old: ComparedRun, new: ComparedRun) -> str:
    """Name the graders that have changed, and whether their judges have."""
    before, after = (
        {label: text for entry in entries for label, text in entry.digests.graders.items()}
        for entries in (pair.old, pair.new)
    )
    changed = [label for label in {**before, **after} if before.get(label) != after.get(label)]
    parts = [_grader_change(label, before.get(label, ""), after.get(label, "")) for label in changed]
    if set(old.judges) != set(new.judges):
        judges = [", ".join(side.judges) or "no judge" for side in (old, new)]
        parts.append(f"judged by {judges[0]} -> {judges[1]}")
    return "; ".join(parts) or "have changed"


def _grader_change(label: str, before: str, after: str) -> str:
    if not (before and after):
        return f"{label} only in {'old' if before else 'new'}"
    versions = before.rpartition(":")[0], after.rpartition(":")[0]
    if versions[0] != versions[1]:
        return f"{label} version {versions[0]} -> {versions[1]}"
    return f"{label} has other settings, weight or judges"


def _differences(pairs: Sequence[TaskPair]) -> Iterator[str]:
    for name, words in MAY_DIFFER.items():
        both = ((_known_digests(pair.old, name), _known_digests(pair.new, name)) for pair in pairs)
        if any(before and after and before != after for before, after in both):
            yield words
