"""The screens of a comparison, as reviewed: golden/NAME.txt is what a terminal shows, line by line.

After a change of words ``python -m tests.reports.comparison.test_screens`` writes them anew, for review.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import ComparedRun
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.reports.comparison_report import comparison_lines, comparison_markdown
from tests.compare.samples import Scores, side, tasks

GOLDEN = Path(__file__).parent / "golden"
SIZES = {"opt_out": 9, "skip_trivial": 3, "low_signal_high_noise": 2, "route_into_existing_subfile": 2}
SMALL = [f"route_into_a_file_of_somebody_{word}" for word in ("new", "old", "quiet", "late")]
LATTICE = (0.0, 0.5, 0.75, 1.0, 1.0)


def noisy_suite(seed: int) -> dict[str, list[float]]:
    """A suite of 41 tasks x 3 in 25 buckets; half of the tasks always score the same."""
    level, random = Random(1), Random(seed)
    sizes = {
        **SIZES,
        **dict.fromkeys((*SMALL, *(f"bucket_{number:02}" for number in range(17))), 1),
        "many": 4,
    }
    scores = {}
    for bucket, size in sizes.items():
        for number in range(size):
            usual = level.choice(LATTICE)
            frozen = level.random() < 0.6
            scores[f"{bucket}/{bucket}_{number}"] = [
                usual if frozen or random.random() < 0.7 else random.choice(LATTICE) for _ in range(3)
            ]
    return scores


def runs(old: Scores, new: Scores) -> tuple[ComparedRun, ComparedRun]:
    """Two runs with the names that runs have, of which the second has another agent."""
    at = {"started_at": "2026-11-22T01:25:12+00:00", "wall_seconds": 9.5}
    return (
        side("20261122-012512-6d11", old, digests=Digests(code="1"), seconds=1.5, **at),
        side(
            "20261122-012552-114e", new, digests=Digests(code="2"), seconds=1.75, **{**at, "wall_seconds": 8}
        ),
    )


def one_bucket_better() -> RunComparison:
    """A bucket of three tasks rose, all else is noise."""
    old, new = noisy_suite(2), noisy_suite(3)
    old |= {task: [0.75, 0.5, 0.75] for task in old if task.startswith("skip_trivial")}
    new |= {task: [1.0, 1.0, 1.0] for task in old if task.startswith("skip_trivial")}
    return compare_runs(*runs(old, new))


def worse() -> RunComparison:
    """Nine tasks that always passed never do any more: the bucket, the suite and each of them is named."""
    old, new = noisy_suite(2), noisy_suite(3)
    old |= {task: [1.0, 1.0, 1.0] for task in old if task.startswith("opt_out")}
    new |= {task: [0.25, 0.0, 0.25] for task in old if task.startswith("opt_out")}
    return compare_runs(*runs(old, new))


def two_models() -> RunComparison:
    """Two models of one run, one repetition each: what is noise nobody knows."""
    level = Random(5)
    scores = {
        model: {f"{b}/{b}{n}": [level.choice(LATTICE)] for b in "xyz" for n in range(6)} for model in "ab"
    }
    old, new = (side("20261122-012512-6d11", scores[model], model=f"model-{model}") for model in "ab")
    return compare_runs(old, new, compared="model")


def obstacles() -> RunComparison:
    """One task is not what it was, one is new: compared are the others, and that is said."""
    old = side("old", tasks("x", 8, 0.5, 1.0), digests=Digests(ruler="1", graders={"g": "3:aa"}))
    new = side("new", tasks("x", 9, 0.5, 1.0), digests=Digests(ruler="1", graders={"g": "3:aa"}))
    changed = tuple(
        replace(entry, digests=Digests(ruler="2", graders={"g": "4:aa"})) if entry.key.task == "x0" else entry
        for entry in new.entries
    )
    return compare_runs(old, replace(new, entries=changed))


def errored() -> RunComparison:
    """Better over the trials that ended, of which too many did not."""
    new = {**tasks("x", 10, None, None), **tasks("x", 7, 1.0, 1.0)}
    return compare_runs(*runs(tasks("x", 10, 0.0, 0.5), new))


def three_suites() -> RunComparison:
    """A suite that is identical, one that is better, one of Korean buckets that nobody can tell."""
    korean_old = {"길 찾기/길_1": [0.5, 1.0], "길 찾기/길_2": [1.0, 1.0], "날씨/맑음": [0.0, 1.0]}
    korean_new = {"길 찾기/길_1": [1.0, 1.0], "길 찾기/길_2": [0.5, 1.0], "날씨/맑음": [0.0, 0.5]}
    suites: list[tuple[str, Scores, Scores]] = [
        ("card", tasks("x", 9, 1.0, 0.5), tasks("x", 9, 1.0, 0.5)),
        ("pkm", tasks("x", 9, 0.0, 0.5), tasks("x", 9, 1.0, 0.5)),
        ("ko", korean_old, korean_new),
    ]
    both = [
        [side(name, each[number], suite=each[0]).entries for each in suites]
        for number, name in ((1, "old"), (2, "new"))
    ]
    old, new = (sum(entries, ()) for entries in both)
    return compare_runs(ComparedRun("old", old), ComparedRun("new", new))


SCREENS: dict[str, tuple[Callable[[], RunComparison], int, bool]] = {
    "one_bucket_better": (one_bucket_better, 100, False),
    "one_bucket_better_whole": (one_bucket_better, 100, True),
    "one_bucket_better_narrow": (one_bucket_better, 60, False),
    "worse": (worse, 100, False),
    "two_models": (two_models, 100, False),
    "obstacles": (obstacles, 100, False),
    "errored": (errored, 100, False),
    "three_suites": (three_suites, 100, False),
}


def screen(name: str) -> str:
    """What is shown of a scenario."""
    make, width, whole = SCREENS[name]
    return "".join(f"{line.text}\n" for line in comparison_lines(make(), width, whole=whole))


@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_is_as_reviewed(name: str) -> None:
    """Every word, figure and column of it."""
    assert screen(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_where_no_mean_moved_the_interval_admits_what_nine_tasks_cannot_exclude() -> None:
    """Trials differ, and each task's mean is what it was: 9 tasks exclude no break rarer than 0.39."""
    old, new = tasks("x", 9, 0.5, 1.0), tasks("x", 9, 0.75, 0.75)
    text = "\n".join(line.text for line in comparison_lines(compare_runs(*runs(old, new)), 100))
    assert "score 0.75 -> 0.75   0.00, between -0.39 and +0.39 for tasks like these" in text


def test_what_nothing_is_compared_of_is_named_in_markdown_too() -> None:
    """Two runs without a suite in common: the folded block says what each has, and is not empty."""
    old, new = side("old", tasks("x", 2, 1.0)), side("new", tasks("x", 2, 1.0), suite="t")
    block = comparison_markdown(compare_runs(old, new)).partition("```text\n")[2].partition("```")[0]
    assert block.splitlines() == ["only in old: s with rules", "only in new: t with rules"]


if __name__ == "__main__":
    for scenario in SCREENS:
        (GOLDEN / f"{scenario}.txt").write_text(screen(scenario), encoding="utf-8", newline="\n")
