"""Which rounds go on from a change, and what held-out tasks confirm."""

from __future__ import annotations

from math import pi

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.verdict import PLAIN, at_look, share_of_look
from pytest_agenteval.loop.improve.acceptance import (
    Confirmation,
    RoundDecision,
    confirm,
    decide_round,
    focus_change,
    repetitions_to_confirm,
)
from tests.compare.samples import Scores, side, tasks

FLAT = {**tasks("x", 4, 0.0, 0.5, 0.0), **tasks("y", 8, 1.0, 0.5, 1.0)}


def compared(old: Scores, new: Scores) -> RunComparison:
    """Two sides of these scores beside each other."""
    return compare_runs(side("old", old), side("new", new))


def decided(new: Scores, focus: tuple[str, ...] = ("x",)) -> RoundDecision:
    """The decision on a round that led from FLAT to these scores."""
    return decide_round(compared(FLAT, {**FLAT, **new}), focus)


def confirmed(new: Scores, looks: int = 1, focus: tuple[str, ...] = ("x",)) -> Confirmation:
    """What is said of held-out tasks that went from FLAT to these scores."""
    return confirm(compared(FLAT, {**FLAT, **new}), focus, looks)


def test_a_round_is_kept_for_now_when_the_focus_rose_and_nothing_is_worse() -> None:
    """The mean of the focus is enough on dev, however little it rose: dev only ranks."""
    decision = decided({"x/x0": (0.5, 0.5, 0.0)})
    assert decision.decision == "kept for now"
    assert decision.reason == "the focus rose (0.17 -> 0.21), no fall was found"


@pytest.mark.parametrize("new", [{}, {"x/x0": (0.0, 0.0, 0.0)}], ids=["same", "fell"])
def test_a_focus_that_did_not_rise_discards_the_round(new: Scores) -> None:
    """Equal is not risen; and the reason has the figures."""
    decision = decided(new)
    assert decision.decision == "discarded"
    assert decision.reason.startswith("the focus did not rise (0.17 -> 0.1")


def test_a_bucket_that_is_worse_discards_the_round_and_is_named() -> None:
    """A better focus does not pay for another bucket."""
    decision = decided({**tasks("x", 4, 1.0, 1.0, 1.0), **tasks("y", 8, 0.0, 0.5, 0.0)})
    assert decision.decision == "discarded"
    assert "y (0.83 -> 0.17)" in decision.reason


def test_a_bucket_without_a_verdict_discards_nothing() -> None:
    """Untestable buckets move by chance all the time."""
    old = {**FLAT, "z/z0": (1.0,)}
    new = {**FLAT, "x/x0": (1.0, 1.0, 1.0), "z/z0": (0.0,)}
    assert decide_round(compared(old, new), ("x",)).accepted


def test_a_rise_that_errored_trials_could_undo_is_not_believed() -> None:
    """A change that makes the worst trials error must not look like a rise."""
    decision = decided({"x/x0": (None, 0.5, None), "x/x1": (None, 0.5, None)})
    assert focus_change(compared(FLAT, {**FLAT, "x/x0": (None, 0.5, None)}), ("x",)).errored == 2
    assert decision.decision == "discarded"
    assert decision.reason.startswith("4 trials of the focus errored: it is unknown whether it rose")


def test_a_bucket_that_would_be_worse_but_for_errored_trials_discards_the_round() -> None:
    """An undone verdict of worse is a doubt, and a doubt keeps nothing."""
    new = {f"y/y{number}": (0.5, None, None) for number in range(8)}
    decision = decided({**tasks("x", 4, 0.5, 0.5, 0.5), **new})
    assert decision.reason == "y may be worse: trials errored, so it is open"


def test_tasks_that_the_change_made_incomparable_discard_the_round() -> None:
    """A task that is missing from the new side is no task that is as good as before."""
    old, new = FLAT, {**FLAT, "x/x0": (1.0, 1.0, 1.0)}
    del new["y/y7"]
    decision = decide_round(compared(old, new), ("x",))
    assert decision.reason == "1 task cannot be compared: y7: only in old"


def test_a_side_without_scores_discards_the_round() -> None:
    """A prompt that no template engine can fill in errors every trial: that is not "no fall was found"."""
    new = dict.fromkeys(FLAT, (None,) * 3)
    assert decide_round(compared(FLAT, new), ("x",)).reason == "no task has scores on both sides"


def test_the_focus_alone_can_be_confirmed_by_the_labels_of_its_trials() -> None:
    """Four tasks from 0/.5/0 to 1/1/1: the suite has too few changed tasks, the focus has not."""
    confirmation = confirmed(tasks("x", 4, 1.0, 1.0, 1.0))
    whole, focus = confirmation.tests
    assert confirmation.confirmed
    assert (whole.confirmed, focus.confirmed) == (False, True)
    assert focus.p == pytest.approx(2 / 20**4)
    assert confirmation.reason.startswith("x 0.17 -> 1.00 on these 4 held-out tasks (p <0.001)")


def test_the_suite_as_a_whole_can_be_confirmed_without_a_focus() -> None:
    """Whoever made a suite better, by a bucket of dev that held-out has not, is confirmed by the suite."""
    new = {**tasks("x", 4, 0.5, 0.5, 0.5), **tasks("y", 8, 1.0, 1.0, 1.0)}
    confirmation = confirmed(new, focus=("elsewhere",))
    assert confirmation.confirmed
    assert [test.confirmed for test in confirmation.tests] == [True, False]


def test_no_change_confirms_nothing() -> None:
    """Held-out tasks as before: p is 1 everywhere, and the sentence says what it would have taken."""
    confirmation = confirmed({})
    assert not confirmation.confirmed
    assert all(test.p == 1 for test in confirmation.tests)
    assert confirmation.reason.endswith("needed: a rise with p 0.030 or less")


def test_each_look_at_held_out_tasks_makes_the_next_one_stricter() -> None:
    """Of four tasks two rose from 0/.5/0 to 1/1/1, p 0.0162: enough for one look, and not for two."""
    new = tasks("x", 2, 1.0, 1.0, 1.0)
    assert confirmed(new, looks=1).confirmed
    assert not confirmed(new, looks=2).confirmed


def test_over_all_looks_that_anybody_may_take_no_more_than_the_level_is_used() -> None:
    """What 1/n² of all looks sums to is π²/6 (Euler): of 5 % none is used twice, and next to none is left."""
    used = sum(share_of_look(look) for look in range(1, 10_001))
    assert 0.9999 < used < 1
    assert at_look(PLAIN, 0) == PLAIN


def test_a_fall_is_never_confirmed() -> None:
    """The test has two sides; only one is a reason to keep anything."""
    old, new = {**FLAT, **tasks("x", 4, 1.0, 1.0, 1.0)}, FLAT
    confirmation = confirm(compared(old, new), ("x",), 1)
    assert not any((confirmation.confirmed, *(test.confirmed for test in confirmation.tests)))
    assert confirmation.worse == ("s as a whole (0.89 -> 0.61)", "x (1.00 -> 0.17)")


def test_a_rise_with_a_worse_bucket_is_not_confirmed() -> None:
    """What it gives the focus it takes elsewhere."""
    confirmation = confirmed({**tasks("x", 4, 1.0, 1.0, 1.0), **tasks("y", 8, 0.0, 0.0, 0.0)})
    assert confirmation.tests[1].confirmed
    assert not confirmation.confirmed


def test_a_large_focus_is_held_to_tasks_like_these_and_not_to_these() -> None:
    """An agent that always does the same: of 10 tasks 5 turned round for good and 2 for bad, by chance."""
    bad = {"x/x5": (1.0, 1.0, 1.0), "x/x6": (1.0, 1.0, 1.0)}
    old = {**tasks("x", 10, 0.0, 0.0, 0.0), **bad}
    new = {**tasks("x", 10, 0.0, 0.0, 0.0), **tasks("x", 5, 1.0, 1.0, 1.0)}
    whole, focus = confirm(compared(old, new), ("x",), 1).tests
    assert (focus.p, focus.confirmed) == (pytest.approx(58 / 128), False)
    assert focus.p == whole.p


def test_a_fall_is_seen_as_well_at_a_later_look_as_at_the_first() -> None:
    """Further looks make it harder to be confirmed, and no easier: y fell with p 0.018."""
    rise, fall = tasks("x", 4, 1.0, 1.0, 1.0), tasks("y", 3, 0.0, 0.5, 0.0)
    sides = side("old", FLAT), side("new", {**FLAT, **rise, **fall})
    later = confirm(compare_runs(*sides, levels=at_look(PLAIN, 4)), ("x",), 4)
    assert later.tests[1].confirmed
    assert later.worse == confirm(compare_runs(*sides), ("x",), 1).worse == ("y (0.83 -> 0.58)",)
    assert not later.confirmed


def test_errored_trials_at_their_worst_must_not_undo_a_confirmation() -> None:
    """Two of three new trials missing in every task of the focus: the third may be luck."""
    confirmation = confirmed(tasks("x", 4, 1.0, None, None))
    assert not confirmation.tests[1].confirmed


def test_several_models_share_the_level() -> None:
    """Two models are two tests more."""
    both = compared(FLAT, FLAT)
    twice = replace(both, suites=(*both.suites, *both.suites))
    assert confirm(twice, ("x",), 1).level == pytest.approx(0.025 * 6 / pi**2)


def test_what_one_of_several_models_confirms_names_it() -> None:
    """Another may have stayed as it was, or is worse: nobody is to take the one for both."""
    better = {**FLAT, **tasks("x", 4, 1.0, 1.0, 1.0)}
    (up,), (down,) = compared(FLAT, better).suites, compared(better, FLAT).suites
    both = replace(compared(FLAT, better), suites=(up, replace(down, new_who=("other", ""))))
    name = up.new_who[0]
    assert [test.name for test in confirm(both, ("x",), 1).tests] == [
        *(f"s as a whole with {name}", f"x with {name}", "s as a whole with other", "x with other")
    ]
    worse = confirm(both, ("x",), 1).worse
    assert worse == ("s as a whole (0.89 -> 0.61) with other", "x (1.00 -> 0.17) with other")
    assert decide_round(both, ("y",)).accepted is False


@pytest.mark.parametrize(
    ("focus_tasks", "looks", "least", "expected"),
    [(1, 1, 3, 4), (2, 1, 3, 3), (1, 2, 3, 6), (1, 1, 6, 6), (0, 1, 3, 3), (1, 10_000, 3, 8)],
)
def test_held_out_tasks_are_repeated_until_their_focus_could_be_confirmed(
    focus_tasks: int, looks: int, least: int, expected: int
) -> None:
    """2 of C(2r, r) labellings are the most extreme: 0.1 at r = 3, 0.029 at 4, 0.008 at 5, 0.002 at 6."""
    assert repetitions_to_confirm(focus_tasks, looks, least, most=8) == expected


def test_held_out_tasks_are_tried_until_the_smallest_bucket_could_be_called_worse() -> None:
    """A focus of one task takes 4 trials a side; one worse task among 25 buckets is seen from 7 on."""
    assert repetitions_to_confirm(1, 1, 3, 10) == 4
    assert repetitions_to_confirm(1, 1, 3, 10, [1] * 25) == 7
    assert repetitions_to_confirm(1, 1, 3, 10, [4, 8, 2]) == 4
    assert repetitions_to_confirm(0, 1, 3, 10, [1] * 25) == 3
    assert repetitions_to_confirm(1, 1, 3, 5, [1] * 25) == 5
