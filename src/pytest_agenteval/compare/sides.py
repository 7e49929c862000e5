"""The two sides of a comparison: what a run, or a part of it, says of its trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.prompts import sent_texts
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import SuiteLook
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, nearest_names

Who: TypeAlias = tuple[str, str]
"""A model and a variant."""

Compared: TypeAlias = Literal["", "model", "variant"]
"""What is not the same on both sides because it is what is compared."""

BASE = "base"
"""How the variant without prompt files of its own is called, which has no name."""


class Side(FrozenValue, frozen=True):
    """Old or new: the last attempt of each trial, and what is known of all of them.

    ``name`` is the run's; of several runs that were pooled, all of theirs, and ``run_of`` then names the run
    of each trial, in the order of the runs. ``judges`` are the ids of those who could be asked. ``odd`` says
    what could not be read. ``looks`` say how it was decided how often tasks are repeated, where that was not
    fixed.
    ``held_out_looks`` say of suites how often their held-out tasks were tried by then. ``transcript_of``
    reads what was said in a trial, where that is kept.
    """

    name: str
    entries: tuple[JournalEntry, ...]
    judges: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    looks: tuple[SuiteLook, ...] = ()
    held_out_looks: Mapping[str, int] = NOTHING
    run_of: Mapping[TrialKey, str] = {}
    transcript_of: Callable[[JournalEntry], Transcript | None] | None = None

    def sent_text(self, entry: JournalEntry, part: str) -> str:
        """Give a part of what a trial's models were told; empty where no transcript is left."""
        transcript = self.transcript_of(entry) if self.transcript_of else None
        return sent_texts(transcript).get(part, "") if transcript else ""

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """The suites with each of their models and variants, in order of appearance."""
        return list(dict.fromkeys(map(group_of, self.entries)))

    def with_model(self, model: str) -> Side:
        """Give the trials of one model; raises UsageMistake where there are none."""
        return self._part("model", model, {entry.key.model: None for entry in self.entries})

    def with_variant(self, variant: str) -> Side:
        """Give the trials of one variant; raises UsageMistake where there are none.

        The one without prompt files of its own is called ``base``.
        """
        names = {entry.key.variant or BASE: None for entry in self.entries}
        return self._part("variant", variant, names)

    def on_tasks_of(self, other: Side) -> Side:
        """Give the trials of the tasks that the other side tried."""
        tasks = {(entry.key.suite, entry.key.task, entry.key.agent) for entry in other.entries}
        entries = (
            entry for entry in self.entries if (entry.key.suite, entry.key.task, entry.key.agent) in tasks
        )
        return replace(self, entries=tuple(entries))

    def _part(self, kind: str, name: str, names: Iterable[str]) -> Side:
        if name not in names:
            known = nearest_names(name, list(names)) or "none"
            raise UsageMistake(f"{self.name} has no {kind} {name!r}; it has {known}")
        entries = tuple(entry for entry in self.entries if _attribute(entry, kind) == name)
        return replace(self, entries=entries)


def side_of(run: Run) -> Side:
    """Give a stored run as one side of a comparison."""
    judges = tuple(judge.id for judge in run.header.judges)
    header = run.header

    def transcript_of(entry: JournalEntry) -> Transcript | None:
        trial = run.trial_if_readable(entry)
        return trial.transcript if trial else None

    return Side(
        header.name or run.folder.name,
        run.entries,
        judges,
        run.odd,
        run.looks,
        header.held_out_looks,
        transcript_of=transcript_of,
    )


def pool_runs(sides: Sequence[Side]) -> Side:
    """Put the trials of several runs together, as repetitions that are counted over all of them."""
    if len(sides) == 1:
        return sides[0]
    entries: list[JournalEntry] = []
    run_of: dict[TrialKey, str] = {}
    origins: dict[TrialKey, tuple[Side, JournalEntry]] = {}
    trials: Counter[TrialKey] = Counter()
    for side in sides:
        for entry in sorted(side.entries, key=lambda entry: entry.key):
            task = entry.key._replace(repetition=0)
            trials[task] += 1
            key = task._replace(repetition=trials[task])
            entries.append(replace(entry, key=key))
            run_of[key], origins[key] = side.name, (side, entry)

    def transcript_of(entry: JournalEntry) -> Transcript | None:
        side, original = origins[entry.key]
        return side.transcript_of(original) if side.transcript_of else None

    return Side(
        name=", ".join(side.name for side in sides),
        entries=tuple(sorted(entries, key=lambda entry: entry.key)),
        judges=tuple(dict.fromkeys(judge for side in sides for judge in side.judges)),
        odd=tuple(dict.fromkeys(text for side in sides for text in side.odd)),
        looks=tuple(dict.fromkeys(look for side in sides for look in side.looks)),
        run_of=run_of,
        transcript_of=transcript_of,
    )


def group_of(entry: JournalEntry) -> tuple[str, str, str]:
    """Give the suite, model and variant of a trial."""
    return entry.key.suite, entry.key.model, entry.key.variant


def _attribute(entry: JournalEntry, kind: str) -> str:
    return entry.key.model if kind == "model" else entry.key.variant or BASE


class SideGroup(FrozenValue, frozen=True):
    """What belongs together on both sides: one suite, with the model and variant that it has on each."""

    suite: str
    old: Who
    new: Who


def matching_groups(old: Side, new: Side, compared: Compared = "") -> Iterator[SideGroup]:
    """Give the suites that both sides have, by model and variant, of which one may be what is ``compared``.

    Where either side has one model and variant that the other has not, these two are what is compared.
    """
    for suite in dict.fromkeys(suite for suite, _, _ in new.groups):
        before = {_equal_part(who, compared): who for who in _who(old, suite)}
        after = {_equal_part(who, compared): who for who in _who(new, suite)}
        yield from (SideGroup(suite, before[part], who) for part, who in after.items() if part in before)
        left_before = [who for part, who in before.items() if part not in after]
        left_after = [who for part, who in after.items() if part not in before]
        if len(left_before) == len(left_after) == 1:
            yield SideGroup(suite, left_before[0], left_after[0])


def _who(side: Side, suite: str) -> list[Who]:
    return [(model, variant) for other, model, variant in side.groups if other == suite]


def _equal_part(who: Who, compared: Compared) -> tuple[str, ...]:
    """Give what has to be equal on both sides."""
    model, variant = who
    return {"model": (variant,), "variant": (model,), "": who}[compared]
