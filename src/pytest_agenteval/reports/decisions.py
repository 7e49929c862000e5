"""Whether an agent acted where it should, in suites whose tasks are labelled: in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_agenteval.compare.scoring.classification import Classification, classify
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.formatting import format_figure, pluralize


class Decisions(FrozenValue, frozen=True):
    """How the trials of labelled tasks met their labels; ``errored`` ones are not counted."""

    counts: Classification
    errored: int


def decisions_of(entries: Iterable[JournalEntry]) -> Decisions | None:
    """Count the decisions of labelled trials by what agents did, whatever they scored; None where no task is.

    A trial that errored is no decision: what the agent had not yet done it might have done.
    """
    labelled = [entry for entry in entries if entry.label]
    if not labelled:
        return None
    averaged = [entry for entry in labelled if entry.averaged]
    counts = classify((entry.label == "positive", entry.acted) for entry in averaged)
    return Decisions(counts, len(labelled) - len(averaged))


def decisions_text(decisions: Decisions) -> str:
    """Say it in one line: the figures, what they are over, and what is left out."""
    counts = decisions.counts
    ways = (
        f"{counts.true_positives} acted rightly, {counts.false_positives} wrongly, "
        f"{counts.false_negatives} did not and should have, {counts.true_negatives} rightly did not"
    )
    over = f"{decision_figures(decisions)} over {pluralize(counts.decided, 'labelled trial')}"
    return f"acting: {over} ({ways}){_left_out(decisions)}"


def decision_figures(decisions: Decisions) -> str:
    """Give precision, recall and their mean alone."""
    counts = decisions.counts
    shares = {"precision": counts.precision, "recall": counts.recall, "F1": counts.f1}
    return ", ".join(f"{name} {format_figure(share)}" for name, share in shares.items())


def _left_out(decisions: Decisions) -> str:
    unknown, errored = decisions.counts.unknown, decisions.errored
    parts = [f"{errored} errored" if errored else "", f"{unknown} not known" if unknown else ""]
    left_out = ", ".join(filter(None, parts))
    return f"; left out: {left_out}" if left_out else ""


def decisions_json(decisions: Decisions) -> dict[str, Any]:
    """Give the figures with all digits, None where there is nothing to divide by, and the counts."""
    counts = decisions.counts
    return {
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "accuracy": counts.accuracy,
        "true_positives": counts.true_positives,
        "false_positives": counts.false_positives,
        "false_negatives": counts.false_negatives,
        "true_negatives": counts.true_negatives,
        "unknown": counts.unknown,
        "errored": decisions.errored,
    }
