"""Gates: whether a run reached what its suites require, and every reason why not.

A rule that cannot be judged breaks the gate, unless the run was narrowed on purpose: then the outcome says
that the rule was not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.comparison import SuiteComparison
from pytest_agenteval.compare.scoring.intervals import tasks_to_exclude
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.tasks.suite_spec import Gate
from pytest_agenteval.text.formatting import first_few, pluralize

# How many reasons the line names.
MOST_REASONS = 6

# The outcome of a rule, in words.
RuleFinding: TypeAlias = tuple[Literal["held", "broken", "not judged"], str]


class Recheck(FrozenValue, frozen=True):
    """The result of a broken task that was tried again: how many of its trials passed, of how many."""

    task: str
    passed: int
    trials: int


class GatedSuite(FrozenValue, frozen=True):
    """One suite with one model: its gate, and the figures of the run.

    ``label`` is its name on screens. ``score``, ``buckets`` and ``pass_hat_k`` are as in the run's tables,
    None where no trial has a score. ``lost`` of the ``planned`` trials errored or were never run. ``tried``
    and ``whole`` are numbers of tasks by bucket: of this run, and of the suite; ``whole`` is empty where that
    is unknown.

    ``comparison`` is with the baseline; where there is none, ``trouble`` says why. ``baseline_named`` says
    whether anybody named a baseline. ``assumed`` means that nobody wrote a gate, and only a comparison is
    wanted: a suite that the baseline lacks is then no fault. ``alone`` means that there is no other suite or
    model. ``rechecks`` are of broken tasks that were tried again, ``recheck_trouble`` says why their result
    is unknown.
    """

    label: str
    gate: Gate
    score: float | None
    pass_hat_k: float | None
    k: int
    planned: int
    lost: int
    buckets: Mapping[str, float | None] = NOTHING
    tried: Mapping[str, int] = NOTHING
    whole: Mapping[str, int] = NOTHING
    comparison: SuiteComparison | None = None
    trouble: str = ""
    baseline_named: bool = True
    assumed: bool = False
    alone: bool = True
    rechecks: tuple[Recheck, ...] = ()
    recheck_trouble: str = ""

    def name_of(self, part: str) -> str:
        """Name a bucket or task of the suite, with the suite if there are several."""
        return part if self.alone else f"{self.label} {part}"

    @property
    def narrowed(self) -> str:
        """How much of the suite was run; empty if that is all of it."""
        if not self.whole:
            return "the number of tasks is unknown"
        tried, whole = sum(self.tried.values()), sum(self.whole.values())
        return f"{tried} of {whole} tasks were run" if tried < whole else ""

    def narrowed_in(self, bucket: str) -> str:
        """How much of a bucket was run; empty if that is all of it."""
        if self.whole and bucket not in self.whole:
            return f"no task of {bucket} is in this split"
        return self.narrowed if self.tried.get(bucket, 0) < self.whole.get(bucket, 1) else ""


class GateOutcome(FrozenValue, frozen=True):
    """The outcome of all rules of a run: why some are broken, which hold, and which were not judged."""

    broken: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The outcome in one line; empty where there is no rule."""
        unjudged = f"not judged, {'; '.join(first_few(self.unjudged, MOST_REASONS))}" if self.unjudged else ""
        if self.broken:
            return f"gate: broken: {'; '.join(first_few(self.broken, MOST_REASONS))}"
        if self.held:
            held = f"gate: held ({'; '.join(first_few(self.held, MOST_REASONS))})"
            return f"{held}; {unjudged}" if unjudged else held
        return f"gate: {unjudged}" if unjudged else ""


def judge_gates(suites: Sequence[GatedSuite]) -> GateOutcome:
    # Where nothing at all can be compared, nobody has chosen that: then it breaks an assumed gate, too.
    if not any(suite.comparison and suite.comparison.suite for suite in suites):
        suites = [replace(suite, assumed=False) for suite in suites]
    findings = [finding for suite in suites for finding in _findings(suite)]
    findings += _better(suites)

    def texts_of(word: str) -> tuple[str, ...]:
        # Two suites may give the same reason, which is listed once.
        return tuple(dict.fromkeys(text for outcome, text in findings if outcome == word))

    return GateOutcome(texts_of("broken"), texts_of("held"), texts_of("not judged"))


def _findings(suite: GatedSuite) -> Iterator[RuleFinding]:
    gate, label = suite.gate, suite.label
    if gate.score is not None:
        yield _least(f"{label} score", suite.score, gate.score, suite.narrowed, suite)
    if gate.pass_hat_k is not None:
        yield _least(f"{label} pass^{suite.k}", suite.pass_hat_k, gate.pass_hat_k, suite.narrowed, suite)
    for bucket, least in gate.buckets.items():
        yield _least(f"{label} {bucket}", suite.buckets.get(bucket), least, suite.narrowed_in(bucket), suite)
    if gate.errored is not None:
        yield _errored(suite, gate.errored)
    if gate.not_worse:
        yield from _not_worse(suite, gate.not_worse)
    if not gate.needs_baseline and (gate.recheck or gate.baseline):
        # A baseline that somebody named has to be there, also where no rule compares.
        change, trouble = _compared(suite)
        if change is None:
            yield ("broken" if suite.baseline_named else "not judged"), trouble
    if suite.recheck_trouble:
        yield "broken", f"recheck: {suite.recheck_trouble}"
    for each in suite.rechecks:
        name = suite.name_of(each.task)
        # One passing trial of several is enough.
        if not each.passed:
            yield "broken", f"{name} is broken, and passed none of {pluralize(each.trials, 'trial')} more"
        else:
            yield "held", f"{name} passed {each.passed} of {each.trials} when run again"


def _least(name: str, value: float | None, least: float, narrowed: str, suite: GatedSuite) -> RuleFinding:
    if narrowed:
        return "not judged", f"{suite.label}: {narrowed}"
    if value is None:
        return "broken", f"{name} is unknown, no trial has a score"
    if value < least:
        figures = ((f"{value:.{digits}f}", f"{least:.{digits}f}") for digits in range(2, 8))
        # With as many digits as are needed to see which of the two is less.
        below, bound = next((pair for pair in figures if pair[0] != pair[1]), (repr(value), repr(least)))
        return "broken", f"{name} {below} is below {bound}"
    return "held", f"{name} {value:.2f}"


def _errored(suite: GatedSuite, most: float) -> RuleFinding:
    trials = f"{suite.label}: {suite.lost} of {pluralize(suite.planned, 'trial')} errored or were never run"
    if suite.lost > most * suite.planned:
        return "broken", f"{trials}, more than {100 * most:g} %"
    return "held", f"{suite.label} {suite.lost} of {suite.planned} errored"


def _not_worse(suite: GatedSuite, tolerance: float | bool) -> Iterator[RuleFinding]:
    change, trouble = _compared(suite)
    if change is None or suite.comparison is None:
        yield ("not judged" if suite.assumed else "broken"), trouble
        return
    by_more = "" if tolerance is True else f" by more than {tolerance:g}"
    # Buckets are judged by their verdicts, also where the suite has a tolerance.
    worse = [each for each in suite.comparison.changes if each.verdict == "worse" and each is not change]
    yield from (("broken", _worse_text(each, suite.name_of(each.name))) for each in worse)
    if tolerance is True and change.verdict == "worse" and not (worse and change.of_these_tasks):
        here = " on these tasks" if change.of_these_tasks else ""
        # A suite that is worse only on these tasks is not listed beside worse buckets: they are enough.
        yield "broken", _worse_text(change, suite.label, here)
    elif tolerance is not True and not change.excludes_fall(tolerance):
        # With so few tasks the rule cannot be held, whatever they score.
        needed, too_few = tasks_to_exclude(tolerance, suite.comparison.levels.suite), ""
        if change.tasks < needed:
            few = "1 task is" if change.tasks == 1 else f"{change.tasks} tasks are"
            too_few = f": {few} too few to rule it out, even if all score the same; you need {needed}"
        yield "broken", f"{suite.label} may be worse{by_more}{too_few}"
    elif not worse:
        shown = f"not worse{by_more}" if by_more else "shows no fall"
        yield "held", f"{suite.label} {shown}"


def _worse_text(change: Change, name: str, here: str = "") -> str:
    return f"{name} is worse{here} ({change.old:.2f} -> {change.new:.2f})"


def _compared(suite: GatedSuite) -> tuple[Change | None, str]:
    """Give the suite's change; else the reason why nothing can be compared."""
    if suite.trouble:
        return None, f"{suite.label}: {suite.trouble}"
    change = suite.comparison.suite if suite.comparison else None
    return change, "" if change else f"{suite.label}: no task can be compared with the baseline"


def _better(suites: Sequence[GatedSuite]) -> Iterator[RuleFinding]:
    """Judge whether any suite that has to be better is, or a bucket of one."""
    demanding = [suite for suite in suites if suite.gate.better]
    for suite in demanding:
        comparison = suite.comparison
        # One of them is enough: the rule is that something becomes better, not everything.
        better = [each for each in comparison.changes if each.verdict == "better"] if comparison else []
        if comparison and better:
            is_whole = better[0] is comparison.suite
            yield "held", f"{suite.label if is_whole else suite.name_of(better[0].name)} better"
            return
    for suite in demanding:
        change, trouble = _compared(suite)
        if change is None:
            yield "broken", trouble
        elif suite.narrowed:
            yield "not judged", f"{suite.label}: {suite.narrowed}"
        else:
            yield "broken", f"nothing of {suite.label} is better"
