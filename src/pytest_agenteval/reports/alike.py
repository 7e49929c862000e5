"""Variants that differ in name only: all their trials sent the same messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from pytest_agenteval.canonical import digest
from pytest_agenteval.reports.wording import counted, safe, who
from pytest_agenteval.store.journal_entry import Entry
from pytest_agenteval.store.run_reader import Run

Sent = Mapping[tuple[str, int], str]
"""By task and repetition a digest of what an agent sent."""


def alike(run: Run) -> Iterator[str]:
    """Name each two variants whose trials sent the same messages; transcripts are read only of several."""
    if len(run.header.variants) < 2:
        return
    sent: dict[tuple[str, str, str], dict[str, dict[tuple[str, int], str]]] = defaultdict(dict)
    for entry in run.entries:
        messages = _messages(run, entry)
        if messages:
            key = entry.key
            by_variant = sent[key.suite, key.agent, key.model]
            by_variant.setdefault(key.variant, {})[key.task, key.repetition] = messages
    for (suite, _, model), by_variant in sent.items():
        for one, other in combinations(filter(by_variant.__contains__, run.header.variants), 2):
            trials = _trials_alike(by_variant[one], by_variant[other])
            if trials:
                names = f"{safe(who(model, one))} and {safe(who(model, other))}"
                many = counted(trials, "trial")
                yield f"{safe(suite)}: {names} sent the same messages in {many}: their prompts change nothing"


def _trials_alike(one: Sent, other: Sent) -> int:
    """Give how many trials both have, 0 where they differ in any."""
    both = one.keys() & other.keys()
    return len(both) if all(one[key] == other[key] for key in both) else 0


def _messages(run: Run, entry: Entry) -> str:
    """Give a digest of what an agent sent in its own words: as the system, and as the user."""
    trial = run.trial_if_readable(entry)
    messages = trial.transcript.messages if trial else ()
    said = [[each.role, each.content] for each in messages if each.role in ("system", "user")]
    return digest(said) if said else ""
