"""Better, worse, not worse, cannot tell, identical: what is said of scores, and what is never said."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.comparison import RunComparison, SuiteComparison, compare_runs
from pytest_agenteval.compare.verdict import Change
from tests.compare.samples import Scores, side, tasks

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, None])
TASKS = st.dictionaries(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 8)).map(lambda pair: f"{pair[0]}/{pair[0]}{pair[1]}"),
    st.lists(SCORES, min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)


def compared(old: Scores, new: Scores) -> SuiteComparison:
    """The only suite of two sides."""
    (suite,) = compare_runs(side("old", old), side("new", new)).suites
    return suite


def judged(old: Scores, new: Scores) -> Change:
    """The change of the only suite of two sides."""
    change = compared(old, new).suite
    assert change is not None
    return change


def bucket(suite: SuiteComparison, name: str) -> Change:
    """One bucket of a suite."""
    return next(change for change in suite.buckets if change.name == name)


def verdict(suite: SuiteComparison) -> str:
    """What is said of the suite as a whole."""
    return suite.suite.verdict if suite.suite else ""


def test_a_suite_in_which_every_task_rose_is_better() -> None:
    """Ten tasks up and none down: 2 of 2^10 sign flips are as extreme, and the interval is above 0."""
    new = {**tasks("x", 10, 1.0, 0.5), "x/x0": (1.0, 1.0)}
    suite = compared(tasks("x", 10, 0.0, 0.5), new)
    assert verdict(suite) == "better"
    assert suite.suite is not None
    assert suite.suite.p_like_these == pytest.approx(2 / 2**10)
    assert suite.suite.interval is not None
    assert suite.suite.interval.low > 0
    assert suite.suite.change == pytest.approx(0.525)


def test_where_all_tasks_moved_alike_the_interval_is_wide() -> None:
    """No spread is no proof of certainty: an interval of width 0 would be a lie."""
    suite = judged(tasks("x", 10, 0.0, 0.5), tasks("x", 10, 1.0, 0.5))
    assert (suite.verdict, suite.of_these_tasks) == ("better", False)
    assert suite.interval is not None
    assert 0 < suite.interval.low < 0.1
    assert 0.6 < suite.interval.high < 0.8


def test_unequal_repetitions_of_unchanged_tasks_are_no_verdict() -> None:
    """91 of 91 trials passed before and 446 of 455 now: Fisher's exact test gives p 0.37, no change."""
    new = {f"x/x{at}": [1.0, 1.0, 1.0, 1.0, 0.0 if at < 9 else 1.0] for at in range(91)}
    suite = judged(tasks("x", 91, 1.0), new)
    assert suite.verdict == "cannot tell"
    assert suite.p > 0.3
    assert suite.interval is not None
    assert suite.interval.low < 0 <= suite.interval.high


def test_a_few_tasks_that_rose_wholly_are_better_on_these_tasks() -> None:
    """4 of 30 tasks from 0 of 3 to 3 of 3: chance does so in 2 of 20^4 cases; 4 signs alone say nothing."""
    old = tasks("x", 30, 0.0, 0.0, 0.0)
    new = {**old, **{f"x/x{at}": (1.0, 1.0, 1.0) for at in range(4)}}
    suite = judged(old, new)
    assert (suite.verdict, suite.of_these_tasks, suite.like_these) == ("better", True, "cannot tell")
    assert suite.p == pytest.approx(2 / 20**4)
    assert suite.p_like_these == pytest.approx(2 / 2**4)
    assert suite.interval is not None
    assert suite.interval.low < 0


def test_one_bucket_that_makes_the_change_is_named() -> None:
    """All of it is in x, of 8 buckets; where all rise, none is named."""
    old = {name: (0.0, 0.0, 0.0) for bucket in "abcdefgx" for name in tasks(bucket, 5)}
    one = {name: (1.0, 1.0, 1.0) if name.startswith("x") else scores for name, scores in old.items()}
    share = judged(old, one)
    assert share.share is not None
    assert (share.share.bucket, share.share.rest, share.share.p) == ("x", pytest.approx(0), 1.0)
    everywhere = judged(old, dict.fromkeys(old, (0.5, 0.5, 0.5)))
    assert everywhere.share is not None
    assert everywhere.share.rest == pytest.approx(7 / 8)
    assert everywhere.share.p == pytest.approx(2 / 2**8)


def test_equal_runs_are_identical() -> None:
    """Every trial scored as before: that is said, p is 1, and nothing is divided by 0."""
    scores = {**tasks("x", 5, 1.0, 0.5), **tasks("y", 5, 0.0, 0.0)}
    suite = compared(scores, scores)
    assert {change.verdict for change in suite.changes} == {"identical"}
    assert suite.suite is not None
    assert suite.suite.p == 1.0


@pytest.mark.parametrize("number", [1, 2, 6])
def test_a_suite_of_few_tasks_speaks_of_these_tasks_alone(number: int) -> None:
    """Below seven tasks there is no interval, and labels are exchanged within tasks."""
    suite = judged(tasks("x", number, 0.0, 0.0, 0.0), tasks("x", number, 1.0, 1.0, 1.0))
    assert suite.interval is None
    assert suite.of_these_tasks
    assert suite.p == pytest.approx(2 / 20**number)
    assert suite.verdict == ("cannot tell" if number == 1 else "better")


def test_one_task_with_one_trial_says_nothing_and_breaks_nothing() -> None:
    """One pair of labels: p is 1, and no trial could have shown anything."""
    suite = judged({"x/a": [0.0]}, {"x/a": [1.0]})
    assert (suite.verdict, suite.testable, suite.p) == ("cannot tell", False, 1.0)


def test_a_bucket_that_moved_is_named_among_many_that_are_too_small() -> None:
    """One bucket with enough trials is tested at the whole level; 20 of one task are not tested at all."""
    small = {f"b{number}/t{number}": (1.0, 0.5, 0.5) for number in range(20)}
    old, new = {**tasks("x", 4, 0.0, 0.5, 0.5), **small}, {**tasks("x", 4, 1.0, 1.0, 1.0), **small}
    suite = compared(old, new)
    assert bucket(suite, "x").verdict == "better"
    assert bucket(suite, "x").of_these_tasks
    assert sum(change.testable for change in suite.buckets) == 1


def test_a_suite_of_one_bucket_is_judged_once() -> None:
    """The bucket would be the suite over again, at a level of its own."""
    assert compared(tasks("x", 8, 0.0), tasks("x", 8, 1.0)).buckets == ()


def test_a_rise_that_chance_makes_is_no_verdict() -> None:
    """Six of twenty tasks up, four down: cannot tell, and what could have been seen is said."""
    old = {**tasks("x", 10, 0.5, 0.5), **tasks("y", 6, 0.0, 1.0), **tasks("z", 4, 1.0, 1.0)}
    new = {**tasks("x", 10, 0.5, 0.5), **tasks("y", 6, 1.0, 1.0), **tasks("z", 4, 0.0, 1.0)}
    suite = compared(old, new)
    assert verdict(suite) == "cannot tell"
    assert suite.sensitivity is not None
    assert suite.sensitivity.visible is not None
    assert suite.sensitivity.visible > 0.05


@pytest.mark.parametrize(("number", "says"), [(9, False), (12, True)])
def test_what_would_be_seen_is_said_where_it_would_be(number: int, says: bool) -> None:
    """Of 7 to 9 tasks nearly all must rise, which a mean does not promise: no such change is named."""
    new = {f"x/x{at}": [1.0 if at % 2 else 0.0] for at in range(number)}
    sensitivity = compared(tasks("x", number, 0.5), new).sensitivity
    assert sensitivity is not None
    assert (sensitivity.visible is not None) == says


def test_a_bucket_is_named_only_where_no_other_moved_as_it_did() -> None:
    """a and b rose wholly and c fell: b and c cancel, and still a does not account for all of it."""
    old = {**tasks("a", 10, 0.0, 0.0, 0.0), **tasks("b", 8, 0.0, 0.0, 0.0), **tasks("c", 8, 1.0, 1.0, 1.0)}
    new = {**tasks("a", 10, 1.0, 1.0, 1.0), **tasks("b", 8, 1.0, 1.0, 1.0), **tasks("c", 8, 0.0, 0.0, 0.0)}
    change = judged(old, new)
    assert change.share is not None
    assert (change.share.bucket, change.share.rest) == ("a", pytest.approx(8 / 18))


def test_a_tiny_change_lies_within_its_interval() -> None:
    """8 of 10,000 tasks fell by 0.1: the end that a verdict moves beyond 0 stays beyond the change."""
    old = tasks("x", 10_000, 1.0)
    change = judged(old, {**old, **tasks("x", 8, 0.9)})
    assert change.interval is not None
    assert (change.verdict, change.of_these_tasks) == ("worse", False)
    assert change.interval.low < change.change <= change.interval.high < 0


@pytest.mark.parametrize(("number", "says"), [(40, "cannot tell"), (120, "not worse")])
def test_what_hardly_moved_is_not_worse_where_there_are_enough_tasks(number: int, says: str) -> None:
    """40 tasks could miss breaks of one in 20: .95^40 is 13 %, and 120 tasks could not: 0.2 %."""
    random = Random(3)
    old = {f"x/t{at}": [random.choice([0.9, 1.0]) for _ in range(3)] for at in range(number)}
    new = {task: [random.choice([0.9, 1.0]) for _ in range(3)] for task in old}
    assert verdict(compared(old, new)) == says


@pytest.mark.parametrize(("number", "excludes"), [(15, False), (84, False), (87, True)])
def test_identical_runs_exclude_a_fall_only_with_enough_tasks(number: int, excludes: bool) -> None:
    """A gate about tasks like these is not held by 15 tasks that all scored as before."""
    scores = tasks("x", number, 1.0)
    suite = judged(scores, scores)
    assert (suite.verdict, suite.excludes_fall(0.05)) == ("identical", excludes)


def test_scores_that_differ_in_the_last_digit_are_identical() -> None:
    """0.3 and 0.1 + 0.2."""
    assert verdict(compared(tasks("x", 8, 0.3), tasks("x", 8, 0.1 + 0.2))) == "identical"


def test_errored_trials_undo_a_verdict_that_rests_on_their_absence() -> None:
    """Better over the trials that ended; with the errored ones as 0 nobody can tell, and that is said."""
    old = tasks("x", 14, 0.0, 0.5)
    new: dict[str, tuple[float | None, ...]] = dict.fromkeys(old, (None, None))
    new |= dict(list(tasks("x", 7, 0.5, 0.5).items()))
    suite = judged(old, new)
    assert (suite.verdict, suite.undone) == ("cannot tell", True)
    assert suite.tasks == 7


def test_errored_trials_may_undo_only_what_is_said_of_tasks_like_these() -> None:
    """Seven tasks rose wholly: with three others as 0 these tasks are better still, others may not be."""
    old = tasks("x", 10, 0.0, 0.5)
    new: dict[str, tuple[float | None, ...]] = dict.fromkeys(old, (None, None))
    new |= dict(list(tasks("x", 7, 1.0, 1.0).items()))
    suite = judged(old, new)
    assert (suite.verdict, suite.of_these_tasks, suite.undone) == ("better", True, True)


def test_a_fall_of_all_tasks_at_worst_leaves_nothing_to_be_sure_of() -> None:
    """One of two trials errored in every task: as 0 it would be a fall of 0.25 in each, with no spread."""
    assert verdict(compared(tasks("x", 8, 0.5, 0.5), tasks("x", 8, 0.5, None))) == "cannot tell"


def test_a_few_errored_trials_leave_a_clear_verdict_standing() -> None:
    """One of 40 trials errored: as 0 and as 1 the verdict is the same."""
    old, new = tasks("x", 20, 0.0, 0.5), dict(tasks("x", 20, 1.0, 1.0))
    new["x/x0"] = (1.0, None)
    assert verdict(compared(old, new)) == "better"


def test_a_task_that_only_errored_is_in_no_mean() -> None:
    """It has scores on one side only; the means are over the others, and it is among the tasks shown."""
    suite = compared({"x/a": [1.0], "x/b": [0.0]}, {"x/a": [1.0], "x/b": [None]})
    assert suite.suite is not None
    assert (suite.suite.tasks, suite.suite.old, suite.suite.new) == (1, 1.0, 1.0)
    assert suite.errored == (0, 1)


def test_where_nothing_has_scores_on_both_sides_there_is_no_verdict() -> None:
    """All new trials errored: no mean, no verdict, no exception."""
    suite = compared({"x/a": [1.0]}, {"x/a": [None]})
    assert suite.suite is None
    assert list(suite.changes) == []


def test_broken_and_mended_are_named_from_three_repetitions_on() -> None:
    """With two, most comparisons would name a task that nothing happened to."""
    two = compared({"x/a": [1.0, 1.0]}, {"x/a": [0.0, 0.0]})
    three = compared({"x/a": [1.0] * 3, "x/b": [0.5] * 3}, {"x/a": [0.0] * 3, "x/b": [1.0] * 3})
    assert [task.broken for task in two.tasks] == [False]
    assert [(task.broken, task.mended) for task in three.tasks] == [(True, False), (False, True)]
    assert three.broken_by_chance == pytest.approx(2 / 20)


@given(TASKS, TASKS)
def test_verdict_interval_and_words_agree_whatever_the_scores(old: Scores, new: Scores) -> None:
    """No pair of runs makes a verdict contradict its interval, its direction or its own mirror image."""
    there = compare_runs(side("old", old), side("new", new))
    back = compare_runs(side("new", new), side("old", old))
    for change, mirrored in zip(_changes(there), _changes(back), strict=True):
        opposite = {"better": "worse", "worse": "better"}
        if change.verdict in opposite or mirrored.verdict in opposite:
            assert mirrored.verdict == opposite[change.verdict]
        if change.verdict == "better":
            assert change.change > 0
            assert change.interval is None or (change.interval.low > 0) == (not change.of_these_tasks)
        if change.verdict in ("cannot tell", "not worse") and not change.undone and change.interval:
            assert change.interval.low <= 0 <= change.interval.high
        if not change.testable:
            assert change.verdict in ("cannot tell", "identical", "not worse")
        assert change.floor is None or change.interval is None or change.floor <= change.interval.low + 1e-9


def _changes(comparison: RunComparison) -> list[Change]:
    return sorted(
        (change for suite in comparison.suites for change in suite.changes), key=lambda change: change.name
    )
