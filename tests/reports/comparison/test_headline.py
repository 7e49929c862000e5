"""The sentence of a verdict: whom it names, over how many tasks it is, and that no copy of it is cut."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import ComparedRun
from pytest_agenteval.reports.comparison_report import comparison_lines, comparison_markdown
from pytest_agenteval.reports.comparison_text import headline
from tests.compare.samples import Scores, side, tasks


def with_two_models(name: str, scores: Scores) -> ComparedRun:
    """One side on which two models were tried at the same tasks."""
    first, second = (side(name, scores, model=model) for model in ("a", "b"))
    return replace(first, entries=first.entries + second.entries)


def screen(comparison: RunComparison) -> list[str]:
    """The lines of the screen."""
    return [line.text for line in comparison_lines(comparison, 100)]


def test_a_task_that_two_models_tried_counts_once() -> None:
    """6 tasks are on both sides, one is only in old and one only in new: 6 of 8."""
    new = {**tasks("x", 6, 1.0, 1.0), "x/z": (1.0,)}
    comparison = compare_runs(with_two_models("old", tasks("x", 7, 1.0, 1.0)), with_two_models("new", new))
    assert headline(comparison).endswith("(over 6 of 8 tasks: 2 cannot be compared).")
    assert "2 tasks not compared:" in screen(comparison)


def test_models_of_which_none_has_a_verdict_are_one_clause() -> None:
    """Each with its scores, and not each in a sentence of its own; one alone is a sentence."""
    old, new = tasks("x", 4, 0.0, 1.0), tasks("x", 4, 0.0, 1.0) | {"x/x1": (1.0, 1.0)}
    two = compare_runs(with_two_models("old", old), with_two_models("new", new))
    assert headline(two) == (
        "cannot tell whether these changed: s with a (0.50 -> 0.62), s with b (0.50 -> 0.62)."
    )
    one = compare_runs(side("old", old), side("new", new))
    assert headline(one) == "s: cannot tell whether it changed (0.50 -> 0.62)."


def test_tasks_in_no_bucket_have_a_name_in_the_sentence() -> None:
    """A sentence without its subject says nothing."""
    old = {**tasks("", 6, 0.0, 0.0, 0.0), **tasks("y", 6, 1.0, 1.0, 1.0)}
    comparison = compare_runs(side("old", old), side("new", dict.fromkeys(old, (1.0, 1.0, 1.0))))
    assert "one bucket accounts for all of it: (no bucket) (0.00 -> 1.00)" in headline(comparison)
    assert any(line.startswith("  (no bucket)") for line in screen(comparison))
    assert headline(comparison).count("(no bucket)") == 1
    (part,) = comparison.suites
    assert part.suite is not None
    assert part.suite.share is not None
    half = replace(part.suite, share=replace(part.suite.share, rest=0.5))
    spread = replace(comparison, suites=(replace(part, suite=half),))
    assert "(no bucket) is better" in headline(spread), "a bucket that makes half of the change has a clause"


def test_too_few_tasks_that_moved_are_not_too_few_trials() -> None:
    """35 tasks of three trials are enough for a verdict; two that moved are not."""
    old = tasks("x", 35, 1.0, 1.0, 1.0)
    comparison = compare_runs(side("old", old), side("new", {**old, "x/x0": (1.0, 0.0), "x/x1": (0.0,)}))
    assert "too few differences to call it better or worse" in " ".join(" ".join(screen(comparison)).split())


@pytest.mark.parametrize(
    ("old", "new", "repetitions"),
    [
        ((0.0, 0.0, 1.0), (1.0, 1.0, 1.0), 3),
        ((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 5),
        ((0.0, 1.0, 0.0), (1.0, 0.0, 1.0), None),
    ],
)
def test_repetitions_are_named_where_tasks_tried_once_change_in_one_direction(
    old: tuple[float, ...], new: tuple[float, ...], repetitions: int | None
) -> None:
    """The number is the smallest with which the same scores give a verdict."""

    def compared(times: int) -> RunComparison:
        sides = ({f"x/x{at}": (score,) * times for at, score in enumerate(scores)} for scores in (old, new))
        return compare_runs(side("old", next(sides)), side("new", next(sides)))

    text = " ".join(" ".join(screen(compared(1))).split())

    assert "too few differences to call it better or worse" in text
    assert text.partition(" (--repetitions ")[2][:1] == str(repetitions or "")
    if repetitions is not None:
        assert "too few differences to call" in " ".join(screen(compared(repetitions - 1)))
        assert "cannot tell whether" not in headline(compared(repetitions))


def test_the_heading_in_markdown_is_the_whole_sentence() -> None:
    """What is left out of a comparison stands at the end of the verdict, and is not cut off."""
    names = [f"{number}{'long' * 20}" for number in range(5)]
    old = {task: (0.0,) * 3 for name in names for task in tasks(name, 5)}
    new = dict.fromkeys(old, (1.0,) * 3) | {"x/only_new": (1.0,)}
    heading = comparison_markdown(compare_runs(side("old", old), side("new", new))).splitlines()[0]
    assert heading.endswith("(over 25 of 26 tasks: 1 cannot be compared).")
