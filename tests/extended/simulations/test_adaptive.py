"""Rules of repetition play the trials that they are given, and are measured by fixed repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.verdict import suite_findings
from tests.extended.simulations.adaptive import MOST, Figures, equal_power, equal_trials
from tests.extended.simulations.repetition_rules import RULES, ended, fixed
from tests.extended.simulations.score_model import compared, diffuse, drawn_suite
from tests.extended.simulations.shapes import FOUR_EVEN

TASKS = sum(FOUR_EVEN)
UNCHANGED = [([0.5] * MOST, [0.5] * MOST)] * TASKS
MENDED = [([0.0] * MOST, [1.0] * MOST)] * TASKS


@pytest.mark.parametrize("repetitions", [2, 3])
def test_a_fixed_rule_finds_what_a_comparison_finds(repetitions: int) -> None:
    """The rule that looks once is the comparison of every day: the same verdicts from the same trials."""
    random = Random(5)
    for _ in range(10):
        before = drawn_suite(TASKS, random)
        tried = compared(before, diffuse(before, 0.1), MOST, MOST, random)
        ending = ended(fixed(repetitions), tried, FOUR_EVEN)
        pairs = [(old[:repetitions], new[:repetitions]) for old, new in tried]
        by_bucket = {str(at): pairs[10 * at : 10 * at + 10] for at in range(4)}
        findings = suite_findings(by_bucket)
        assert ending.like_these == findings.like_these.direction
        assert ending.suite == findings.these.direction
        assert ending.bucket == findings.buckets["0"].direction
        assert ending.trials == repetitions


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("tried", "verdict"), [(MENDED, 1), (UNCHANGED, 0)], ids=["mended", "unchanged"])
def test_what_is_plain_at_the_first_look_costs_no_more(
    name: str, tried: Sequence[PairedScores], verdict: int
) -> None:
    """All tasks mended, or none changed at all: after the first look's trials."""
    ending = ended(RULES[name], tried, FOUR_EVEN)
    assert (ending.suite, ending.trials) == (verdict, RULES[name].low)


def test_a_rule_is_measured_between_fixed_repetitions() -> None:
    """Half way in power between 2 and 4 repetitions is 3, and the other way round."""
    few, many = (Figures(0, 0, {"rise": power}, trials, trials) for power, trials in ((0.4, 2.0), (0.8, 4.0)))
    assert equal_power(0.6, [few, many]) == pytest.approx(3)
    assert equal_trials(3, [few, many]) == pytest.approx(0.6)
    assert (equal_power(0.1, [few, many]), equal_power(0.9, [few, many])) == (2, 4)
