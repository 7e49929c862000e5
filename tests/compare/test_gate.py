"""What each rule of a gate says of figures, and what one line says of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.compare.comparison import Pair, SuiteComparison
from pytest_agenteval.compare.gate import GatedSuite, Recheck, judge_gates
from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.compare.verdict import Change, Verdict
from pytest_agenteval.tasks.suite_spec import Gate

NOBODY = Pair(None, None)


def compared(suite: Verdict | None, low: float = -0.5, **buckets: Verdict) -> SuiteComparison:
    """Give a comparison with these verdicts, the suite's interval beginning at ``low``."""
    return SuiteComparison(
        name="s",
        old_who=("m", ""),
        new_who=("m", ""),
        suite=None if suite is None else change("s", suite, low),
        buckets=tuple(change(name, verdict, low) for name, verdict in buckets.items()),
        tasks=(),
        graders=(),
        sensitivity=None,
        obstacles=(),
        differs=(),
        repetitions=((3, 3), (3, 3)),
        errored=(0, 0),
        broken_by_chance=0.0,
        tokens=NOBODY,
        seconds=NOBODY,
        cost_usd=NOBODY,
    )


def change(name: str, verdict: Verdict, low: float) -> Change:
    """Give a change from 0.9 to 0.8 of 100 tasks."""
    return Change(name, 100, 0.9, 0.8, verdict, 0.01, Interval(low, low + 0.1, 0.975), floor=low)


def gated(label: str = "s", *, gate: Gate, **more: Any) -> GatedSuite:
    """Give a suite of which all ten tasks were run."""
    figures: dict[str, Any] = {"score": 0.8, "pass_hat_k": 0.7, "k": 3, "planned": 30, "lost": 0}
    tasks = {"tried": {"a": 4, "b": 6}, "whole": {"a": 4, "b": 6}}
    return GatedSuite(label=label, gate=gate, **{**figures, **tasks, **more})


@pytest.mark.parametrize(
    ("not_worse", "comparison", "line"),
    [
        (True, compared("cannot tell"), "gate: held (s shows no fall)"),
        (True, compared("better", a="better"), "gate: held (s shows no fall)"),
        (True, compared("worse", a="worse"), "gate: broken: a is worse (0.90 -> 0.80); "
                                             "s is worse (0.90 -> 0.80)"),
        (True, compared(None), "gate: broken: s: no task can be compared with the baseline"),
        (True, None, "gate: broken: s: no task can be compared with the baseline"),
        (0.05, compared("cannot tell", a="better"), "gate: broken: s may be worse by more than 0.05"),
        (0.05, compared("not worse", low=-0.04), "gate: held (s not worse by more than 0.05)"),
        (0.05, compared("identical", low=-0.04), "gate: held (s not worse by more than 0.05)"),
        (0.05, compared("identical", low=-0.06), "gate: broken: s may be worse by more than 0.05"),
        (0.01, compared("identical", low=-0.06), "gate: broken: s may be worse by more than 0.01: 100 tasks "
                                                 "are too few to rule it out, even if all score the same; "
                                                 "you need 437"),
        (0.05, compared("worse", low=-0.04), "gate: held (s not worse by more than 0.05)"),
        (0.05, compared("worse", low=-0.05), "gate: broken: s may be worse by more than 0.05"),
        (0.05, compared("not worse", low=-0.04, a="worse"), "gate: broken: a is worse (0.90 -> 0.80)"),
        (False, compared("worse"), ""),
    ],
)  # fmt: skip
def test_not_worse_is_by_verdict_or_by_more_than_so_much(
    not_worse: bool | float, comparison: SuiteComparison | None, line: str
) -> None:
    """A suite is judged by its interval where a number is said; its buckets by their verdicts always."""
    assert judge_gates([gated(gate=Gate(not_worse=not_worse), comparison=comparison)]).line == line


def test_a_suite_that_the_baseline_lacks_breaks_only_what_somebody_asked() -> None:
    """Where a baseline alone was named others may be compared; where nothing is, that is told as broken."""
    gate, known = Gate(not_worse=True), compared("identical")
    assumed = gated("new", gate=gate, assumed=True)

    beside = judge_gates([gated(gate=gate, comparison=known, assumed=True), assumed])
    asked = judge_gates([gated(gate=gate, comparison=known), gated("new", gate=gate)])

    assert beside.line == (
        "gate: held (s shows no fall); not judged, new: no task can be compared with the baseline"
    )
    assert asked.line == "gate: broken: new: no task can be compared with the baseline"
    assert judge_gates([assumed]).line == "gate: broken: new: no task can be compared with the baseline"


def test_one_better_suite_is_enough() -> None:
    """The rule is that something becomes better, not everything."""
    gate = Gate(better=True)
    same, better = compared("cannot tell"), compared("cannot tell", a="better")

    def line(*comparisons: SuiteComparison | None, **more: Any) -> str:
        suites = [gated(f"s{at}", gate=gate, comparison=each, **more) for at, each in enumerate(comparisons)]
        return judge_gates(suites).line

    assert line(same, better) == "gate: held (a better)"
    assert line(same, same) == "gate: broken: nothing of s0 is better; nothing of s1 is better"
    assert line(None) == "gate: broken: s0: no task can be compared with the baseline"
    assert line(same, trouble="no file") == "gate: broken: s0: no file"
    assert line(same, tried={"a": 4}) == "gate: not judged, s0: 4 of 10 tasks were run"


def test_shares_and_bounds_are_exact() -> None:
    """What is reached exactly holds; what lies below by less than two digits show is written out."""
    assert judge_gates([gated(gate=Gate(score=0.8, pass_hat_k=0.7))]).line == (
        "gate: held (s score 0.80; s pass^3 0.70)"
    )
    assert judge_gates([gated(gate=Gate(score=0.8), score=0.7999)]).line == (
        "gate: broken: s score 0.7999 is below 0.8000"
    )
    assert judge_gates([gated(gate=Gate(errored=0.1), lost=3)]).line == "gate: held (s 3 of 30 errored)"
    assert judge_gates([gated(gate=Gate(errored=0.1), lost=4)]).broken == (
        "s: 4 of 30 trials errored or were never run, more than 10 %",
    )
    assert judge_gates([gated(gate=Gate(errored=0.1), lost=1, planned=1)]).broken == (
        "s: 1 of 1 trial errored or were never run, more than 10 %",
    )
    assert judge_gates([gated(gate=Gate(buckets={"a": 0.5}), buckets={"a": None})]).line == (
        "gate: broken: s a is unknown, no trial has a score"
    )
    assert judge_gates([gated(gate=Gate(score=0.5), whole={})]).line == (
        "gate: not judged, s: the number of tasks is unknown"
    )


def test_a_task_tried_again_breaks_only_where_none_passed() -> None:
    """One passing trial is enough; what could not be tried again is broken."""
    both = (Recheck("one", 1, 3), Recheck("none", 0, 3))
    gate, comparison = Gate(recheck=3), compared("cannot tell")

    assert judge_gates([gated(gate=gate, comparison=comparison, rechecks=both[:1])]).line == (
        "gate: held (one passed 1 of 3 when run again)"
    )
    assert judge_gates([gated(gate=gate, comparison=comparison, rechecks=both)]).line == (
        "gate: broken: none is broken, and passed none of 3 trials more"
    )
    assert judge_gates([gated(gate=gate, comparison=comparison, recheck_trouble="gone")]).line == (
        "gate: broken: recheck: gone"
    )


def test_several_suites_are_told_apart() -> None:
    """A bucket, or a task, of the same name may be in each of them, or be tried by each model."""
    gate, comparison = Gate(not_worse=True, better=True, recheck=3), compared("better", a="better", b="worse")
    suite = gated("s[gpt]", gate=gate, comparison=comparison, alone=False, rechecks=(Recheck("t", 0, 3),))

    outcome = judge_gates([suite])

    assert outcome.broken == (
        "s[gpt] b is worse (0.90 -> 0.80)",
        "s[gpt] t is broken, and passed none of 3 trials more",
    )
    assert outcome.held == ("s[gpt] better",)


def test_the_line_names_a_few_reasons() -> None:
    """It stays a line: the folder of the run has all of them."""
    suites = [gated(f"s{at}", gate=Gate(score=0.9)) for at in range(9)]

    outcome = judge_gates(suites)

    assert outcome.line.endswith("s5 score 0.80 is below 0.90; and 3 more")
    assert len(outcome.broken) == 9
