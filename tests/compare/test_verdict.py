"""Better, worse, not worse, cannot tell, identical: what is said of scores, and what is never said."""

from __future__ import annotations

from operator import attrgetter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.comparison import RunComparison, SuiteComparison, compare_runs
from pytest_agenteval.compare.verdict import Change
from tests.compare.samples import Scores, side, tasks

approx = pytest.approx
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


NEVER_ENDED = dict.fromkeys(tasks("x", 14), (None, None))
FOUR_OF_30 = {**tasks("x", 30, 0.0, 0.0, 0.0), **tasks("x", 4, 1.0, 1.0, 1.0)}
ONE_MISS_EACH = {f"x/x{at}": [1.0, 1.0, 1.0, 1.0, 0.0 if at < 9 else 1.0] for at in range(91)}

CASES: dict[str, tuple[Scores, Scores, dict[str, object]]] = {
    "ten tasks up and none down: 2 of 2^10 sign flips are as extreme": (
        tasks("x", 10, 0.0, 0.5),
        {**tasks("x", 10, 1.0, 0.5), "x/x0": (1.0, 1.0)},
        {"verdict": "better", "of_these_tasks": False, "p_like_these": approx(2 / 2**10)},
    ),
    "tasks that all moved alike show no spread, which is no proof of certainty": (
        tasks("x", 10, 0.0, 0.5),
        tasks("x", 10, 1.0, 0.5),
        {"verdict": "better", "interval.low": approx(0.05, abs=0.05), "interval.high": approx(0.7, abs=0.1)},
    ),
    "unequal repetitions of unchanged tasks: Fisher's exact test gives p 0.37": (
        tasks("x", 91, 1.0),
        ONE_MISS_EACH,
        {"verdict": "cannot tell", "p": approx(0.37, abs=0.07), "change": approx(-9 / 455)},
    ),
    "chance moves 4 of 30 tasks wholly in 2 of 20^4 cases; 4 signs alone say nothing": (
        tasks("x", 30, 0.0, 0.0, 0.0),
        FOUR_OF_30,
        {"verdict": "better", "of_these_tasks": True, "like_these": "cannot tell"}
        | {"p": approx(2 / 20**4), "p_like_these": approx(2 / 2**4)},
    ),
    "below seven tasks there is no interval, and labels are exchanged within tasks": (
        tasks("x", 6, 0.0, 0.0, 0.0),
        tasks("x", 6, 1.0, 1.0, 1.0),
        {"verdict": "better", "of_these_tasks": True, "interval": None, "p": approx(2 / 20**6)},
    ),
    "one task with one trial could not have shown anything": (
        {"x/a": [0.0]},
        {"x/a": [1.0]},
        {"verdict": "cannot tell", "testable": False, "p": 1.0},
    ),
    "8 of 10,000 tasks fell by 0.1": (
        tasks("x", 10_000, 1.0),
        {**tasks("x", 10_000, 1.0), **tasks("x", 8, 0.9)},
        {"verdict": "worse", "of_these_tasks": False},
    ),
    "every trial scored the same": (
        tasks("x", 8, 1.0, 0.5),
        tasks("x", 8, 0.5, 1.0),
        {"verdict": "identical", "p": 1.0},
    ),
    "0.3 and 0.1 + 0.2 are the same score": (
        tasks("x", 8, 0.3),
        tasks("x", 8, 0.1 + 0.2),
        {"verdict": "identical"},
    ),
    "better over the trials that ended; with the errored ones as 0 nobody can tell": (
        tasks("x", 14, 0.0, 0.5),
        {**NEVER_ENDED, **tasks("x", 7, 0.5, 0.5)},
        {"verdict": "cannot tell", "undone": True, "tasks": 7},
    ),
    "with three others as 0 these tasks are better still, and tasks like these may not be": (
        tasks("x", 10, 0.0, 0.5),
        {**dict.fromkeys(tasks("x", 10), (None, None)), **tasks("x", 7, 1.0, 1.0)},
        {"verdict": "better", "of_these_tasks": True, "undone": True},
    ),
    "one of two trials errored in every task: as 0 each fell by 0.25, with no spread": (
        tasks("x", 8, 0.5, 0.5),
        tasks("x", 8, 0.5, None),
        {"verdict": "cannot tell"},
    ),
    "one of 40 trials errored: as 0 and as 1 the verdict is the same": (
        tasks("x", 20, 0.0, 0.5),
        {**tasks("x", 20, 1.0, 1.0), "x/x0": (1.0, None)},
        {"verdict": "better", "undone": False},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_a_suite(case: str) -> None:
    """Its words, and its interval, which leaves out 0 just where tasks like these are better or worse."""
    old, new, expected = CASES[case]
    change = judged(old, new)
    assert {name: attrgetter(name)(change) for name in expected} == expected
    if change.interval is not None:
        is_sure = change.verdict in ("better", "worse") and not change.of_these_tasks
        assert (change.interval.low <= 0 <= change.interval.high) == (not is_sure)


def test_one_bucket_that_makes_the_change_is_named() -> None:
    """All of it is in x, of 8 buckets; where all rise, none is named."""
    old = {name: (0.0, 0.0, 0.0) for bucket in "abcdefgx" for name in tasks(bucket, 5)}
    one = {name: (1.0, 1.0, 1.0) if name.startswith("x") else scores for name, scores in old.items()}
    share = judged(old, one)
    assert share.share is not None
    assert (share.share.bucket, share.share.rest, share.share.p) == ("x", approx(0), 1.0)
    everywhere = judged(old, dict.fromkeys(old, (0.5, 0.5, 0.5)))
    assert everywhere.share is not None
    assert everywhere.share.rest == approx(7 / 8)
    assert everywhere.share.p == approx(2 / 2**8)


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
    assert (change.share.bucket, change.share.rest) == ("a", approx(8 / 18))


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
    assert three.broken_by_chance == approx(2 / 20)


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
