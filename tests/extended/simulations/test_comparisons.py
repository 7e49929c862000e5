"""Simulations hold with as few draws as a test can spend, and the command that runs them says so."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.compare.verdict import Change, Verdict, suite_findings
from tests.extended.simulations.__main__ import main, simulations
from tests.extended.simulations.adaptive import MOST, Figures, equal_power, equal_trials
from tests.extended.simulations.broken import broken_by_chance
from tests.extended.simulations.designs import BUCKETS, contradicts, false_verdicts
from tests.extended.simulations.drift import PASS_FAIL, drifted
from tests.extended.simulations.intervals import run
from tests.extended.simulations.not_worse import BREAKS, claims_and_coverage
from tests.extended.simulations.power import buckets_found, suites_found
from tests.extended.simulations.prompt_loops import Loop, count_confirmed, endings
from tests.extended.simulations.repetition_rules import RULES, ended, fixed
from tests.extended.simulations.rows import Row, share_row, worst_rows
from tests.extended.simulations.score_model import (
    MEAN,
    MODELS,
    Task,
    compared,
    diffuse,
    drawn_suite,
    fallen,
    focused,
    moved,
    risen,
    true_mean,
)
from tests.extended.simulations.shapes import FOUR_EVEN, MANY_SMALL, Shape
from tests.extended.simulations.sides import best_found, winners_named


def mean_of(suite: list[Task]) -> float:
    """The true mean over a suite's tasks."""
    return sum(map(true_mean, suite)) / len(suite)


def test_tasks_are_as_the_model_says() -> None:
    """On average they score 0.675, 2 of 5 always the same; moving 3 of 10 changes nothing on average."""
    random = Random(3)
    suite = drawn_suite(20_000, random)
    assert mean_of(suite) == pytest.approx(MEAN, abs=0.01)
    assert sum(max(task) == 1 for task in suite) / len(suite) == pytest.approx(0.4, abs=0.02)
    assert mean_of(moved(suite, random)) == pytest.approx(mean_of(suite), abs=0.01)


@pytest.mark.parametrize("rise", [0.05, 0.2])
def test_a_rise_is_as_large_as_it_is_called(rise: float) -> None:
    """Diffuse or focused, the true mean rises by as much; focused leaves some tasks as they were."""
    random = Random(4)
    suite = drawn_suite(60, random)
    everywhere, somewhere = diffuse(suite, rise), focused(suite, rise, random)
    assert mean_of(everywhere) - mean_of(suite) == pytest.approx(rise)
    assert mean_of(somewhere) - mean_of(suite) == pytest.approx(rise)
    assert sum(old != new for old, new in zip(suite, somewhere, strict=True)) < 45


@pytest.mark.parametrize("name", MODELS)
def test_models_and_their_changes_have_the_means_that_they_say(name: str) -> None:
    """Of 20,000 tasks; a tenth of what tasks score is lost, or of what they miss is won, in either way."""
    random, model = Random(3), MODELS[name]
    suite = model.suite(20_000, random)
    assert mean_of(suite) == pytest.approx(model.mean, abs=0.015)
    for effect in ("diffuse", "focused"):
        lost = mean_of(suite) - mean_of(fallen(suite, effect, 0.1, random))
        won = mean_of(risen(suite, effect, 0.1, random)) - mean_of(suite)
        assert lost == pytest.approx(0.1 * model.mean, abs=0.01)
        assert won == pytest.approx(0.1 * (1 - model.mean), abs=0.01)


@pytest.mark.parametrize("shape", [Shape(MANY_SMALL, 3, 3), Shape(BUCKETS[15], 10, 1)], ids=str)
@pytest.mark.parametrize("model", ["quarters", "pass/fail, all p = .95"])
def test_nothing_is_called_changed_where_nothing_has(model: str, shape: Shape) -> None:
    """With 2.5 % of suites and 5 % of anything expected, 6 and 9 of 40 are out of reach of chance."""
    counts = false_verdicts("nothing changed", model, shape, 40, seed=1)
    assert counts.suite < 6
    assert counts.anything < 9
    assert not counts.contradictions


def test_breaks_that_were_not_seen_are_not_excluded() -> None:
    """Of 15 tasks that break one time in 20 nearly half show none: no claim, and intervals hold the truth."""
    counts = claims_and_coverage(BREAKS, "always passes", Shape(BUCKETS[15], 1, 1), 40, seed=1)
    assert (counts.claims, counts.contradictions) == (0, 0)
    assert counts.held >= 35


def test_a_rise_by_a_fifth_is_found() -> None:
    """In 30 tasks x 3 nearly always, in one bucket of nine tasks every other time."""
    assert suites_found("quarters", "diffuse", 30, 3, 0.2, 40, seed=1).like_these >= 33
    assert suites_found("quarters", "focused", 30, 3, 0.2, 40, seed=1).these >= 33
    assert buckets_found("quarters", "diffuse", 40, seed=1) >= 10


@pytest.mark.parametrize(
    ("low", "high", "verdict", "like_these", "denies"),
    [
        (0.1, 0.3, "better", None, False),
        (-0.1, 0.3, "better", None, True),
        (0.1, 0.3, "cannot tell", None, True),
        (-0.1, 0.3, "better", "cannot tell", False),
        (0.1, 0.3, "better", "cannot tell", True),
        (-0.1, 0.3, "not worse", None, True),
        (-0.3, -0.1, "worse", None, False),
    ],
)
def test_a_contradiction_is_seen(
    low: float, high: float, verdict: Verdict, like_these: Verdict | None, denies: bool
) -> None:
    """An interval speaks of tasks like these, and so only of what is said of them."""
    change = Change(
        "s",
        9,
        0.5,
        0.6,
        verdict,
        0.01,
        Interval(low, high, 0.975),
        of_these_tasks=like_these is not None,
        like_these=like_these,
    )
    assert contradicts(change) is denies


def test_no_side_wins_among_equal_ones_and_the_best_one_is_found() -> None:
    """With 5 % of reports expected at most, 5 of 20 are out of reach of chance; most see a fifth more."""
    assert winners_named(PASS_FAIL, (10, 10), 3, 3, 20, seed=1) < 5
    assert best_found("quarters", (10, 10, 10), 3, 3, 20, seed=1) >= 12


def test_broken_tasks_are_expected() -> None:
    """In 400 comparisons chance breaks some hundred tasks of 41 x 3, and as many are expected."""
    broken, expected, _ = broken_by_chance(41, 3, 3, 400, seed=1)
    assert expected == pytest.approx(broken, rel=0.3)


def test_runs_that_differ_are_told_from_those_that_do_not() -> None:
    """Of 40 baselines of three runs at most 8 are called unlike; with one run 0.2 better, at least 30."""
    assert drifted(PASS_FAIL, 3, 3, 0.0, 40, seed=1) < 9
    assert drifted(PASS_FAIL, 3, 3, 0.2, 40, seed=1) >= 30


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


def test_prompts_that_are_no_better_are_rarely_confirmed() -> None:
    """With at most 5 % expected, 4 of 20 loops are out of reach of chance; they end where nothing is kept."""
    ended = endings(Loop("same"), 20, "test")
    assert count_confirmed(ended) < 4
    assert {ending.rounds for ending in ended} >= {2}
    assert all(ending.kept or not ending.confirmed for ending in ended)


def test_a_prompt_that_mends_a_fifth_of_everything_is_confirmed() -> None:
    """Nearly always kept, and nearly always confirmed."""
    assert count_confirmed(endings(Loop("diffuse .2"), 6, "test")) >= 4


@pytest.mark.parametrize(
    ("figure", "relation", "holds"),
    [(0.93, ">=", True), (0.92, ">=", False), (0.93, "<=", True), (0.94, "<=", False)],
)
def test_a_goal_is_reached_or_missed(figure: float, relation: str, holds: bool) -> None:
    """At the goal is reached; a hair on the wrong side is missed, whatever the simulation's own error."""
    row = Row("coverage", figure, ">=" if relation == ">=" else "<=", 0.93, error=0.5)
    assert row.holds(patience=0) is holds


def test_few_draws_are_given_room_and_many_are_not() -> None:
    """9 of 10 against a goal of 95 % is scatter, 900 of 1,000 is none."""
    assert share_row("few", 9, 10, ">=", 0.95).holds()
    assert not share_row("many", 900, 1000, ">=", 0.95).holds()
    assert not share_row("few", 9, 10, ">=", 0.95).holds(patience=0)


def test_the_worst_cell_stands_for_all_and_each_that_is_missed_for_itself() -> None:
    """Of three cells two are beyond the goal by more than chance: both have a row, the worse one first."""
    rows = list(worst_rows("false", {"a": 20, "b": 100, "c": 90}, 1_000, "<=", 0.025))
    assert [(row.figure, row.note[:1]) for row in rows] == [(0.1, "b"), (0.09, "c")]
    (row,) = worst_rows("held", {"a": 990, "b": 970}, 1_000, ">=", 0.96)
    assert (row.figure, row.note) == (0.97, "b; mean of 2: 0.9800")


def test_a_name_that_is_no_simulation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal lists what there is."""
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    refusal = capsys.readouterr().err
    assert "'nothing'" in refusal
    assert all(name in refusal for name in simulations())


@pytest.mark.parametrize("name", simulations())
def test_every_simulation_says_what_it_simulates(name: str) -> None:
    """The function that gives the rows has a docstring: the model, and whose goals they are."""
    assert simulations()[name].__doc__


def test_the_printed_interval_holds_the_truth_as_often_as_it_should() -> None:
    """In every kind of suite, with as few draws as a test can spend."""
    rows = list(run(scale=0.006, seed=8))

    assert len(rows) == 12
    assert [row.what for row in rows if not row.holds()] == []
