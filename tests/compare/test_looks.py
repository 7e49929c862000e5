"""Looks at the first repetitions: the rule that runs go by is the one whose errors were simulated."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from pytest_agenteval.compare.comparison import compare_runs, interim_look, within_trial_limit
from pytest_agenteval.compare.pairing import ComparedRun, pool_runs
from pytest_agenteval.compare.scoring.exact_tests import PairedScores
from pytest_agenteval.store.run_folder import Levels, RepetitionRule
from tests.compare.samples import side, tasks
from tests.extended.simulations.adaptive import CHANGES, MOST, changed
from tests.extended.simulations.repetition_rules import ended
from tests.extended.simulations.score_model import compared, drawn_suite

STORED = 3
SIZES = (4, 2, 2, 1, 1)
SUITES = 30
RULE = RepetitionRule(2, 6)


def test_a_run_decides_as_was_simulated() -> None:
    """Of 30 random suites each ends when the simulated one does, and with the same verdicts."""
    random = Random("looks")
    goes_on = 0
    for number in range(SUITES):
        change = list(CHANGES)[number % len(CHANGES)]
        before = drawn_suite(sum(SIZES), random)
        tried = compared(before, changed(change, before, SIZES[0], random), MOST, MOST, random)

        ending = ended(RULE, tried, SIZES, STORED)

        assert _shipped(tried) == (ending.suite, ending.bucket, ending.anything, ending.trials), number
        goes_on += ending.trials > RULE.low
    assert SUITES // 5 < goes_on < SUITES * 4 // 5


def _shipped(tried: list[PairedScores]) -> tuple[int, int, bool, float]:
    """Look at the first repetitions, and compare what there is then."""
    (part,) = compare_runs(*_sides(tried, RULE.low), levels=RULE.first_look).suites
    look = interim_look(("s", "rules", ""), part, "old", RULE)
    old, new = _sides(tried, look.repetitions)
    (part,) = compare_runs(old, structs.replace(new, looks=(look,))).suites
    assert (part.look, part.levels) == (look, look.levels)
    verdicts = {change.name: change.verdict for change in part.changes}
    words = {"better": 1, "worse": -1}
    directions = {name: words.get(verdict, 0) for name, verdict in verdicts.items()}
    return directions["s"], directions["b0"], any(directions.values()), look.repetitions


def _sides(tried: list[PairedScores], repetitions: int) -> tuple[ComparedRun, ComparedRun]:
    bucket = [at for at, size in enumerate(SIZES) for _ in range(size)]
    names = [f"b{at}/t{number}" for number, at in enumerate(bucket)]
    old = {name: scores[0][:STORED] for name, scores in zip(names, tried, strict=True)}
    new = {name: scores[1][:repetitions] for name, scores in zip(names, tried, strict=True)}
    return side("old", old), side("new", new)


@pytest.mark.parametrize(
    ("old", "new", "number", "reading"),
    [
        ((0.0, 0.0), (1.0, 1.0), 9, "decided"),
        ((0.0, None), (1.0, None), 9, "open"),
        ((1.0, 1.0), (1.0, 1.0), 9, "hopeless"),
        ((0.0, 0.0), (1.0, 1.0), 6, "few tasks"),
    ],
)
def test_a_verdict_that_errored_trials_undo_is_none(
    old: tuple[float | None, ...], new: tuple[float | None, ...], number: int, reading: str
) -> None:
    """A suite stops with a verdict only where errored trials, as 0 and as 1, leave it standing."""
    sides = side("old", tasks("b", number, *old)), side("new", tasks("b", number, *new))
    (part,) = compare_runs(*sides, levels=RULE.first_look).suites
    assert interim_look(("s", "rules", ""), part, "old", RULE).reading == reading


def test_suites_without_room_keep_what_their_look_has_spent() -> None:
    """In the order of planning; who was not looked at, for it has few tasks, has spent nothing."""
    rule = structs.replace(RULE, most_trials=100)
    sides = side("old", tasks("b", 9, None, 0.0)), side("new", tasks("b", 9, None, 1.0))
    (part,) = compare_runs(*sides, levels=rule.first_look).suites
    (few,) = compare_runs(*(one.on_tasks_of(side("x", tasks("b", 3, 1.0))) for one in sides)).suites
    parts = {"a": part, "b": part, "c": few, "d": few}
    looks = [interim_look((name, "rules", ""), each, "old", rule) for name, each in parts.items()]
    extra = dict.fromkeys((look.group for look in looks), 36) | {("d", "rules", ""): 12}

    fitting = within_trial_limit(looks, 48, extra, rule)

    assert [(look.repetitions, look.reading, look.levels) for look in fitting] == [
        (6, "open", rule.second_look),
        (2, "no room", rule.first_look),
        (2, "no room", Levels()),
        (6, "few tasks", Levels()),
    ]


@pytest.mark.parametrize(
    ("old", "baseline", "is_it"),
    [
        (side("a, b", tasks("t", 8, 1.0)), "a, b", True),
        (side("a, b", tasks("t", 8, 1.0)), "a", True),
        (pool_runs([side(name, tasks("t", 8, 1.0)) for name in "ab"]), "a, b", True),
        (pool_runs([side(name, tasks("t", 8, 1.0)) for name in "ab"]), "a", False),
    ],
    ids=["a name with a comma", "files of two suites", "two runs", "one of two runs"],
)
def test_a_look_counts_against_what_it_was_made_against(old: ComparedRun, baseline: str, is_it: bool) -> None:
    """That is a run, one file of several, or all runs of a file; one run of several is another baseline."""
    (part,) = compare_runs(old, side("new", tasks("t", 8, 1.0)), levels=RULE.first_look).suites
    look = interim_look(("s", "rules", ""), part, baseline, RULE)

    (part,) = compare_runs(old, structs.replace(side("new", tasks("t", 8, 1.0)), looks=(look,))).suites

    assert (part.look is not None) == is_it
    assert bool(part.looks_elsewhere) == (not is_it)
