"""Precision, recall and F1, against their definitions and at the places where nothing can be divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.aggregates import Classification, classify

DECISIONS = st.lists(st.tuples(st.booleans(), st.none() | st.booleans()), max_size=40)


@given(DECISIONS)
def test_each_figure_is_what_its_definition_says(decisions: list[tuple[bool, bool | None]]) -> None:
    """Counted once more by hand: shares of the acts, of the calls to act, and of all."""
    found = classify(decisions)

    known = [(should, did) for should, did in decisions if did is not None]
    acts = [should for should, did in known if did]
    calls = [did for should, did in known if should]
    assert found.decided == len(known)
    assert found.unknown == len(decisions) - len(known)
    assert found.precision == (sum(acts) / len(acts) if acts else None)
    assert found.recall == (sum(calls) / len(calls) if calls else None)
    right = sum(should == did for should, did in known)
    assert found.accuracy == (right / len(known) if known else None)


@given(DECISIONS)
def test_f1_is_the_harmonic_mean(decisions: list[tuple[bool, bool | None]]) -> None:
    """Where both shares are there and not both 0; it lies between them, within 0 and 1."""
    found = classify(decisions)

    precision, recall = found.precision, found.recall
    if precision is not None and recall is not None and precision + recall > 0:
        assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    elif precision is None and recall is None:
        assert found.f1 is None
    else:
        assert found.f1 == 0


@given(DECISIONS)
def test_who_acts_and_who_does_not_can_be_exchanged(decisions: list[tuple[bool, bool | None]]) -> None:
    """With labels and decisions turned round, accuracy stays, and errors change places."""
    turned = classify((not should, None if did is None else not did) for should, did in decisions)

    found = classify(decisions)
    assert (turned.accuracy, turned.unknown) == (found.accuracy, found.unknown)
    assert (turned.false_positives, turned.false_negatives) == (found.false_negatives, found.false_positives)


def test_nothing_at_all_has_no_figure() -> None:
    """No division by 0, and no 0 that reads as if all had been wrong."""
    nothing = Classification()

    assert (nothing.precision, nothing.recall, nothing.f1, nothing.accuracy) == (None,) * 4
