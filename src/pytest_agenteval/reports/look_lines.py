"""What a run says of repetitions that were not needed, or for which there was no room."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.store.repetitions import read_extra
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import model_label, pluralize, printable


def look_lines(run: Run) -> Iterator[str]:
    """Say how many repetitions were not made; nothing where they were fixed, and before that was decided."""
    rule, extra = run.header.repetition_rule, read_extra(run.folder) if run.looks else None
    if rule is None or extra is None:
        return
    counts = {group.group: len(group.node_ids) for group in extra.groups}
    dropped = sum(counts.get(look.group, 0) for look in run.looks if not look.goes_on)
    if dropped:
        yield f"repetitions: {dropped} of {rule.low}..{rule.high} not needed"
    for look in run.looks:
        if look.reading == "no room":
            who = printable(f"{look.suite} with {model_label(look.model, look.variant)}")
            more = pluralize(counts.get(look.group, 0), "trial")
            why = f"{more} more would be over --agent-max-trials={rule.most_trials}"
            yield f"repetitions: {who} left at {look.low}, {why}"
