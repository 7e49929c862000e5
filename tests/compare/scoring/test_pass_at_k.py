"""pass@k, pass^k and whether a task passed, over the repetitions of a task."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.aggregates import pass_at_k, pass_hat_k, pass_rate, task_passed
from pytest_agenteval.records.plan import Kind

Passes = dict[str, list[bool | None]]

SMALL = [(n, c, k) for n in range(1, 8) for c in range(n + 1) for k in range(1, n + 1)]
PASSES = st.lists(st.none() | st.booleans(), max_size=12)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    """Draw n trials, c of them passing, and a k that can be asked about."""
    n = draw(st.integers(1, 300))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def test_both_estimators_count_the_choices_of_k_trials() -> None:
    """pass@k is the share of k-subsets with a pass, pass^k that of k-subsets of passes only."""
    for n, c, k in SMALL:
        choices = list(combinations([True] * c + [False] * (n - c), k))
        some, every = (sum(map(which, choices)) / len(choices) for which in (any, all))
        assert pass_at_k(n, c, k) == pytest.approx(some, abs=1e-12), (n, c, k)
        assert pass_hat_k(n, c, k) == pytest.approx(every, abs=1e-12), (n, c, k)


@given(counts())
def test_chances_are_chances(case: tuple[int, int, int]) -> None:
    """0 <= pass^k <= pass rate <= pass@k <= 1."""
    n, c, k = case
    assert 0 <= pass_hat_k(n, c, k) <= c / n <= pass_at_k(n, c, k) <= 1


@given(counts())
def test_more_attempts_help_one_and_hurt_the_other(case: tuple[int, int, int]) -> None:
    """pass@k never falls as k grows, pass^k never rises."""
    n, c, k = case
    if k < n:
        assert pass_at_k(n, c, k) <= pass_at_k(n, c, k + 1)
        assert pass_hat_k(n, c, k) >= pass_hat_k(n, c, k + 1)


@given(counts())
def test_another_pass_never_hurts(case: tuple[int, int, int]) -> None:
    """Neither figure falls as more of the trials pass."""
    n, c, k = case
    if c < n:
        for figure in (pass_at_k, pass_hat_k):
            assert figure(n, c, k) <= figure(n, c + 1, k)


@pytest.mark.parametrize("figure", [pass_at_k, pass_hat_k])
def test_one_attempt_is_the_pass_rate(figure: Callable[[int, int, int], float]) -> None:
    """With k = 1 the figures agree."""
    assert figure(8, 3, 1) == 0.375


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 0), (4, 2, -1), (0, 0, 1), (1, 1, 3)])
def test_what_cannot_be_asked_is_zero(n: int, c: int, k: int) -> None:
    """No attempts, no trials, or more attempts than trials give 0 in both unbiased figures."""
    assert pass_at_k(n, c, k) == 0
    assert pass_hat_k(n, c, k) == 0


def test_too_few_misses_to_fill_k_attempts_make_a_pass_certain() -> None:
    """pass@k is 1 when fewer than k trials missed."""
    assert pass_at_k(5, 3, 3) == 1
    assert pass_at_k(4, 3, 2) == 1


def test_pass_hat_k_is_unbiased() -> None:
    """Averaged over what 4 fair trials can show, pass^2 is 1/4; a power of the pass rate would be more."""
    outcomes = [(c, weight / 16) for c, weight in enumerate([1, 4, 6, 4, 1])]
    assert sum(weight * pass_hat_k(4, c, 2) for c, weight in outcomes) == pytest.approx(0.25)


@pytest.mark.parametrize(("n", "c"), [(3, 4), (3, -1), (-1, -1)])
def test_impossible_counts_are_refused(n: int, c: int) -> None:
    """More passes than trials is a mistake of the caller and never a figure."""
    for figure in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="cannot have passed"):
            figure(n, c, 1)


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
    """0.1, 0.2 and 0.6 have the mean 0.3, and binary fractions may not make it less."""
    assert task_passed("mixed", [False] * 3, [0.1, 0.2, 0.6], 0.3) is True


def test_a_threshold_below_one_without_scores_is_refused() -> None:
    """Passes alone cannot say whether a mean score reaches a threshold."""
    with pytest.raises(ValueError, match="scores are needed"):
        task_passed("mixed", [True], threshold=0.5)


def test_an_unknown_kind_is_refused() -> None:
    """A misspelt kind may not quietly become regression."""
    with pytest.raises(ValueError, match="'capabilty'"):
        task_passed("capabilty", [True])  # type: ignore[arg-type]  # the mistake under test


@given(PASSES)
def test_a_pass_rate_leaves_out_what_is_undecided(passes: list[bool | None]) -> None:
    """Errored and undecided trials change no rate; with nothing else there is no rate."""
    rate = pass_rate(passes)
    assert rate == pass_rate([*passes, None])
    assert rate is None if set(passes) <= {None} else rate is not None and 0 <= rate <= 1
