"""Figures over trials and tasks: scores, pass rates, broken tasks, precision and recall."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.aggregates import (
    classify,
    expected_broken,
    is_broken,
    mean_score,
    pass_at_k,
    pass_hat_k,
    pass_rate,
    task_passed,
    trial_score,
)
from pytest_agenteval.records.plan import Kind

SCORES = st.floats(0, 1)
WEIGHTS = st.floats(1e-6, 1e6)
DECIDED = st.lists(st.tuples(SCORES, WEIGHTS), min_size=1, max_size=20)
GRADES = st.lists(st.tuples(st.none() | SCORES, WEIGHTS), max_size=20)


@pytest.mark.parametrize(
    ("grades", "score"),
    [
        ([(1.0, 3.0), (0.0, 1.0)], 0.75),
        ([(0.5, 1.0), (None, 100.0)], 0.5),
        ([(0.05, 1.0)] * 3, 0.05),
        ([], None),
        ([(None, 1.0), (None, 2.0)], None),
    ],
)
def test_a_heavier_grade_counts_more_and_an_undecided_one_not_at_all(
    grades: list[tuple[float | None, float]], score: float | None
) -> None:
    """The score is Σ weight·score / Σ weight, to the last digit; where nothing is decided it is not 0."""
    assert trial_score(grades) == score


@given(DECIDED)
def test_the_score_lies_between_the_lowest_and_the_highest_grade(grades: list[tuple[float, float]]) -> None:
    """Averaging invents nothing: rounding may not lift a score past the best grade, or below the worst."""
    score = trial_score(grades)
    assert score is not None
    assert min(s for s, _ in grades) <= score <= max(s for s, _ in grades)


@given(GRADES, st.randoms())
def test_the_order_of_the_grades_does_not_matter(
    grades: list[tuple[float | None, float]], random: Random
) -> None:
    """Shuffled grades give the very same number."""
    shuffled = list(grades)
    random.shuffle(shuffled)
    assert trial_score(shuffled) == trial_score(grades)


@given(st.lists(st.none() | SCORES, max_size=20))
def test_the_mean_is_the_trial_score_with_equal_weights(scores: list[float | None]) -> None:
    """mean_score and trial_score agree where the weights say nothing."""
    assert mean_score(scores) == pytest.approx(trial_score((score, 1.0) for score in scores), abs=1e-12)


def test_the_mean_of_equal_scores_is_that_score() -> None:
    """Three times 0.05 reaches a threshold of 0.05, though as floats their sum is more than 0.15."""
    assert mean_score([0.05, 0.05, 0.05]) == 0.05


SMALL = [(n, c, k) for n in range(1, 8) for c in range(n + 1) for k in range(1, n + 1)]
PASSES = st.lists(st.none() | st.booleans(), max_size=12)


def test_both_estimators_count_the_choices_of_k_trials() -> None:
    """pass@k is the share of k-subsets with a pass, pass^k that of k-subsets of passes only."""
    for n, c, k in SMALL:
        choices = list(combinations([True] * c + [False] * (n - c), k))
        some, every = (sum(map(which, choices)) / len(choices) for which in (any, all))
        assert pass_at_k(n, c, k) == pytest.approx(some, abs=1e-12), (n, c, k)
        assert pass_hat_k(n, c, k) == pytest.approx(every, abs=1e-12), (n, c, k)


@pytest.mark.parametrize(
    ("kind", "passes", "expected"),
    [
        ("capability", [False, True], True),
        ("capability", [False, False], False),
        ("regression", [False, True], False),
        ("regression", [True, True], True),
        ("mixed", [False, True], False),
        ("mixed", [True, True], True),
        ("regression", [True, None], True),
        ("capability", [None, False], False),
        ("regression", [None], None),
        ("capability", [], None),
    ],
)
def test_the_kind_decides_what_a_task_needs(
    kind: Kind, passes: list[bool | None], expected: bool | None
) -> None:
    """Capability needs one passing trial, regression and mixed all; undecided trials have no say."""
    assert task_passed(kind, passes) is expected


@pytest.mark.parametrize("kind", ["capability", "regression", "mixed"])
def test_a_threshold_below_one_asks_about_the_mean_score(kind: Kind) -> None:
    """The mean over decided trials must reach it, whatever the kind and however many trials passed."""
    assert task_passed(kind, [False, False], [0.6, 0.8], 0.7) is True
    assert task_passed(kind, [True, True], [0.6, 0.7, None], 0.7) is False
    assert task_passed(kind, [True], [None], 0.7) is None


def test_rounding_does_not_cost_a_task_its_threshold() -> None:
    """0, 0 and 0.3 have the mean 0.1, which binary fractions make less."""
    assert task_passed("mixed", [False] * 3, [0.0, 0.0, 0.3], 0.1) is True


@given(PASSES)
def test_a_pass_rate_leaves_out_what_is_undecided(passes: list[bool | None]) -> None:
    """Errored and undecided trials change no rate; with nothing else there is no rate."""
    rate = pass_rate(passes)
    assert rate == pass_rate([*passes, None])
    assert rate is None if set(passes) <= {None} else rate is not None and 0 <= rate <= 1


ALL, NONE = [True] * 3, [False] * 3


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        (ALL, NONE, True),
        ([True] * 3, [False] * 5, True),
        (ALL, [False, False, True], False),
        ([True, True, False], NONE, False),
        (NONE, ALL, False),
        ([True] * 2, NONE, False),
        (ALL, [False] * 2, False),
        ([], [], False),
    ],
)
def test_broken_is_all_before_and_none_now_from_three_trials_on(
    old: list[bool], new: list[bool], broken: bool
) -> None:
    """Two trials cry wolf, a single pass on the new side or miss on the old one is not broken."""
    assert is_broken(old, new) is broken


def test_only_as_many_passes_as_old_trials_could_break_a_task() -> None:
    """Three of six passed: one of the twenty ways to call three of them old breaks the task."""
    wavering = ([True, False, True], [False, True, False])
    assert expected_broken([wavering]) == pytest.approx(1 / 20)
    assert expected_broken([wavering, (ALL, NONE), (NONE, ALL)]) == pytest.approx(3 / 20)
    assert expected_broken([(ALL, ALL), (NONE, NONE), (ALL, [True, False, False])]) == 0


@pytest.mark.parametrize(("old", "new"), [(3, 3), (3, 4), (5, 3)])
def test_the_mean_over_all_outcomes_is_the_chance_to_break(old: int, new: int) -> None:
    """With a rate p of passing, p^old (1 - p)^new is the truth; the estimate, from counts only, hits it."""
    rate = 0.6
    mean = 0.0
    for outcome in product([True, False], repeat=old + new):
        chance = rate ** sum(outcome) * (1 - rate) ** (old + new - sum(outcome))
        mean += chance * expected_broken([(outcome[:old], outcome[old:])])
    assert mean == pytest.approx(rate**old * (1 - rate) ** new)


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
