"""What a calibration found: figures for each judge and dimension, and for all judges together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from pytest_agenteval.calibration.examples import CalibrationAnswers, ExampleJudgement
from pytest_agenteval.calibration.plan import SCORED, CalibrationPlan, MetricThreshold
from pytest_agenteval.scoring.agreement import Agreement, agreement, reaches
from pytest_agenteval.scoring.bootstrap import BootstrapEstimate, BootstrapSettings, bootstrap_estimate
from pytest_agenteval.scoring.inter_rater import krippendorff_alpha
from pytest_agenteval.scoring.judge_noise import JudgeNoise, judge_noise

PANEL = ""
"""The name of all judges together."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How one judge, or all together, did in one dimension; ``noise`` is None where each was asked once."""

    judge: str
    dimension: str
    agreement: Agreement
    noise: JudgeNoise | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An ask whose score lay away from the label."""

    asked: ExampleJudgement
    dimension: str
    label: float
    score: float

    @property
    def distance(self) -> float:
        """How far the score lay from the label."""
        return abs(self.label - self.score)


@dataclass(frozen=True, slots=True)
class CalibrationAnalysis:
    """Everything that was worked out of the answers.

    ``measured`` has the judges in their order and, where there are several, all together at the end: those
    are what thresholds are about. ``among`` says how far the judges agree with each other, by dimension.
    """

    plan: CalibrationPlan
    answers: CalibrationAnswers
    how: BootstrapSettings
    measured: tuple[JudgeAgreement, ...]
    among: tuple[tuple[str, BootstrapEstimate], ...]
    disagreements: tuple[Disagreement, ...]

    @property
    def panel(self) -> str:
        """The name under which what counts was measured: the only judge's, or that of all together."""
        return self.answers.judges[0].name if len(self.answers.judges) == 1 else PANEL

    def figure_of(self, wanted: MetricThreshold) -> BootstrapEstimate:
        """Give the figure that a threshold is about."""
        for each in self.measured:
            if (each.judge, each.dimension) == (self.panel, wanted.dimension):
                if wanted.metric == SCORED:
                    return BootstrapEstimate(float(each.agreement.scored))
                return each.agreement.figures[wanted.metric]
        return BootstrapEstimate(None, reason="no example has a label")

    @property
    def shortfalls(self) -> tuple[MetricThreshold, ...]:
        """The thresholds that were not reached; an undefined figure reaches none."""
        return tuple(each for each in self.thresholds if not self._reached(each))

    @property
    def thresholds(self) -> tuple[MetricThreshold, ...]:
        """The thresholds that were said, and those that go without saying where they were not reached.

        Where nobody said how many examples have to be scored, half of a dimension's have to.
        """
        said = {each.dimension for each in self.plan.wanted if each.metric == SCORED}
        half = [
            MetricThreshold(SCORED, each.dimension, ceil(each.agreement.examples / 2))
            for each in self.measured
            if each.judge == self.panel and each.dimension not in said
        ]
        return (*self.plan.wanted, *(each for each in half if not self._reached(each)))

    @property
    def unread(self) -> tuple[UnreadableReplies, ...]:
        """The judges with replies that could not be read, even after a repair, in their order."""
        return tuple(_unread_replies(judge.name, self.answers.asked) for judge in self.answers.judges)

    def _reached(self, wanted: MetricThreshold) -> bool:
        value = self.figure_of(wanted).value
        return value is not None and reaches(wanted.metric, value, wanted.threshold)


@dataclass(frozen=True, slots=True)
class UnreadableReplies:
    """How many of a judge's ``asks`` brought nothing that could be read, and the commonest problem."""

    judge: str
    asks: int
    count: int
    problem: str

    @property
    def whole(self) -> bool:
        """Whether not one could be read."""
        return self.count == self.asks > 0


def _unread_replies(judge: str, asked: Sequence[ExampleJudgement]) -> UnreadableReplies:
    votes = [vote for each in asked for vote in each.judgement.votes if vote.judge == judge]
    problems = Counter(vote.problem for vote in votes if vote.problem)
    problem = problems.most_common(1)[0][0] if problems else ""
    return UnreadableReplies(judge, len(votes), problems.total(), problem)


def analyze_calibration(plan: CalibrationPlan, answers: CalibrationAnswers) -> CalibrationAnalysis:
    """Work out every figure of a calibration."""
    how = BootstrapSettings(seed=plan.seed)
    names = [judge.name for judge in answers.judges]
    several = len(names) > 1
    examples = _by_example(plan, answers.asked)
    measured = tuple(
        _measured(plan, examples, name, dimension, how)
        for name in (*names, *([PANEL] if several else []))
        for dimension in plan.dimensions
    )
    among = tuple((name, _among(examples, names, name, how)) for name in plan.dimensions) if several else ()
    return CalibrationAnalysis(
        plan, answers, how, measured, among, _disagreements(plan, answers.asked, names)
    )


def _by_example(plan: CalibrationPlan, asked: Iterable[ExampleJudgement]) -> list[list[ExampleJudgement]]:
    """Put the asks about each example together, in the order of the labels."""
    found: dict[str, list[ExampleJudgement]] = {example.id: [] for example in plan.examples}
    for each in asked:
        found[each.example.id].append(each)
    return list(found.values())


def _measured(
    plan: CalibrationPlan,
    examples: Sequence[Sequence[ExampleJudgement]],
    judge: str,
    dimension: str,
    how: BootstrapSettings,
) -> JudgeAgreement:
    labelled = [asked for asked in examples if asked and dimension in asked[0].example.labels]
    scores = [[each.score(judge, dimension) for each in asked] for asked in labelled]
    labels = [asked[0].example.labels[dimension] for asked in labelled]
    pairs = [[(label, score) for score in given] for label, given in zip(labels, scores, strict=True)]
    again = judge_noise(scores, plan.pass_threshold, how) if plan.repeats > 1 else None
    return JudgeAgreement(judge, dimension, agreement(pairs, plan.tolerance, how), again)


def _among(
    examples: Sequence[Sequence[ExampleJudgement]],
    judges: Sequence[str],
    dimension: str,
    how: BootstrapSettings,
) -> BootstrapEstimate:
    """Say how far the judges agree with each other, the labels left aside."""
    units = [[[each.score(judge, dimension) for judge in judges] for each in asked] for asked in examples]
    return bootstrap_estimate(units, krippendorff_alpha, how)


def _disagreements(
    plan: CalibrationPlan, asked: Iterable[ExampleJudgement], names: Sequence[str]
) -> tuple[Disagreement, ...]:
    """Give the labels that scores lay away from, each with its farthest ask: the farthest first."""
    who = names[0] if len(names) == 1 else PANEL

    def all_of() -> Iterator[Disagreement]:
        for each in asked:
            for dimension, label in each.example.labels.items():
                score = each.score(who, dimension)
                if score is not None and score != label:
                    yield Disagreement(each, dimension, label, score)

    ordered = sorted(all_of(), key=lambda each: -round(each.distance, 9))
    farthest: dict[tuple[str, str], Disagreement] = {}
    for each in ordered:
        farthest.setdefault((each.asked.example.id, each.dimension), each)
    return tuple(farthest.values())
