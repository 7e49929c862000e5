"""Which trials of a run a person is asked about, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from pytest_agenteval.loop.review.shown_trials import ShownTrial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import json_digest

UNDECIDED = "undecided"
WORDS = ("passed", "missed", "failed", "errored", "limited", UNDECIDED)
MOST_LISTED = 1000

NAMES: Mapping[str, Callable[[JournalEntry], str]] = {
    "bucket": lambda entry: entry.bucket,
    "task": lambda entry: entry.key.task,
    "model": lambda entry: entry.key.model,
    "variant": lambda entry: entry.key.variant,
}
"""What trials are chosen by, each with what a trial has of it."""


def chosen_entries(
    run: Run, patterns: Mapping[str, Sequence[str]], words: Sequence[str]
) -> list[JournalEntry]:
    """Give the trials whose names match a pattern of each kind, and that ended as one of the words says.

    ``patterns`` has some for each of NAMES, where none choose all. Where ``undecided`` is among the words all
    are given, for only the rubric's own grader tells. Raises UsageMistake for a pattern that no trial has.
    """
    entries = list(run.entries)
    for kind, wanted in patterns.items():
        value_of = NAMES[kind]
        _check_patterns(run, kind, wanted)
        if wanted:
            entries = [entry for entry in entries if _matches(value_of(entry), wanted)]
    if words and UNDECIDED not in words:
        return [entry for entry in entries if ended_as(entry, words)]
    return entries


def ended_as(entry: JournalEntry, words: Sequence[str]) -> bool:
    """Whether a trial ended in one of these ways."""
    return entry.ending in words or ("limited" in words and bool(entry.limit))


def chosen_trials(
    trials: Iterable[ShownTrial], words: Sequence[str], sample: int | None, seed: int
) -> list[ShownTrial]:
    """Give the trials that the words mean, or so many of them, in an order that the seed shuffles.

    A trial's place hangs on the seed and its own name: which others are chosen changes no order.
    """
    if UNDECIDED in words:
        trials = [trial for trial in trials if ended_as(trial.entry, words) or _is_undecided(trial)]
    return sorted(trials, key=lambda trial: (json_digest([seed, trial.entry.key.label]), trial.id))[:sample]


def _is_undecided(trial: ShownTrial) -> bool:
    """Whether the grader that asks by the rubric, or any where none does, could not tell."""
    own = [grade for grade in trial.entry.grades if grade.grader == trial.grader]
    return any(grade.score is None for grade in own or trial.entry.grades)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _check_patterns(run: Run, kind: str, patterns: Sequence[str]) -> None:
    names = sorted({NAMES[kind](entry) for entry in run.entries})
    for pattern in patterns:
        if not any(_matches(name, (pattern,)) for name in names):
            hint = did_you_mean(pattern, names) or f"there are {', '.join(filter(None, names)) or 'none'}"
            raise UsageMistake(
                f"--{kind} {pattern}: no trial of {run.name} has it; {one_line(hint, MOST_LISTED)}"
            )
