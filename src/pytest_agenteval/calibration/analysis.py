"""What a calibration found: figures for each judge and dimension, and for all judges together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from pytest_agenteval.calibration.calibration_file import SCORED, CalibrationPlan, MetricThreshold
from pytest_agenteval.calibration.labels import CalibrationAnswers, ExampleJudgement
from pytest_agenteval.compare.scoring.agreement import (
    Agreement,
    JudgeNoise,
    Unit,
    agreement,
    judge_noise,
    krippendorff_alpha,
    reaches,
)
from pytest_agenteval.compare.scoring.intervals import (
    BootstrapEstimate,
    BootstrapSettings,
    bootstrap_estimate,
    corner_scores,
)
from pytest_agenteval.records.record import FrozenValue

PANEL = ""
"""The name of all judges together."""


class JudgeAgreement(FrozenValue, frozen=True):
    """How one judge, or all together, did in one dimension; ``noise`` is None without repeats."""

    judge: str
    dimension: str
    agreement: Agreement
    noise: JudgeNoise | None = None


class LabelDisagreement(FrozenValue, frozen=True):
    """An ask whose score lay away from the label."""

    ask: ExampleJudgement
    dimension: str
    label: float
    score: float

    @property
    def distance(self) -> float:
        return abs(self.label - self.score)


class UnreadableVotes(FrozenValue, frozen=True):
    """How many of a judge's ``asks`` brought nothing that could be read, and the commonest problem."""

    judge: str
    asks: int
    count: int
    problem: str

    @property
    def whole(self) -> bool:
        """Whether none of the replies could be read; false without a reply."""
        return self.count == self.asks > 0


class CalibrationAnalysis(FrozenValue, frozen=True):
    """Everything that was worked out of the answers.

    ``agreements`` has the judges in their order and, where there are several, all together at the end: those
    are what thresholds are about. ``between_judges`` says how far the judges agree with each other, by
    dimension; it is empty for a single judge.
    """

    plan: CalibrationPlan
    answers: CalibrationAnswers
    bootstrap: BootstrapSettings
    agreements: tuple[JudgeAgreement, ...]
    between_judges: tuple[tuple[str, BootstrapEstimate], ...]
    disagreements: tuple[LabelDisagreement, ...]

    @property
    def decisive_judge(self) -> str:
        """The name whose figures count: the only judge's, or that of all together."""
        return self.answers.judges[0].name if len(self.answers.judges) == 1 else PANEL

    def estimate_for(self, threshold: MetricThreshold) -> BootstrapEstimate:
        for agreed in self.agreements:
            if (agreed.judge, agreed.dimension) == (self.decisive_judge, threshold.dimension):
                if threshold.metric == SCORED:
                    return BootstrapEstimate(float(agreed.agreement.scored))
                return agreed.agreement.figures[threshold.metric]
        # A threshold may name a dimension of the rubric that no example of the file has a label for.
        return BootstrapEstimate(None, reason="no example has a label")

    @property
    def thresholds(self) -> tuple[MetricThreshold, ...]:
        """The plan's thresholds, and the default ones that were not reached.

        Where the file does not say how many examples must have a score, half of those with a label must.
        """
        # A figure over the few examples that a judge could decide says little about the judge.
        stated = {threshold.dimension for threshold in self.plan.thresholds if threshold.metric == SCORED}
        half = [
            MetricThreshold(SCORED, agreed.dimension, ceil(agreed.agreement.examples / 2))
            for agreed in self.agreements
            if agreed.judge == self.decisive_judge and agreed.dimension not in stated
        ]
        # Users did not write these thresholds: they see one only when it makes the calibration fail.
        unreached = (threshold for threshold in half if not self._is_reached(threshold))
        return (*self.plan.thresholds, *unreached)

    @property
    def shortfalls(self) -> tuple[MetricThreshold, ...]:
        """The thresholds that were not reached; an undefined figure reaches none."""
        return tuple(threshold for threshold in self.thresholds if not self._is_reached(threshold))

    @property
    def unreadable(self) -> tuple[UnreadableVotes, ...]:
        """How many replies of each judge could not be read, even after a repair, in the judges' order."""
        return tuple(_unreadable_votes(judge.name, self.answers.asks) for judge in self.answers.judges)

    @property
    def passed(self) -> bool:
        """Whether every threshold was reached, by judges whose replies could be read at all."""
        return not self.shortfalls and not any(replies.whole for replies in self.unreadable)

    def _is_reached(self, threshold: MetricThreshold) -> bool:
        # An undefined figure, such as the correlation of a judge who always gives one score, is not 0: it
        # reaches no threshold, not even the lowest one that there can be.
        value = self.estimate_for(threshold).value
        return value is not None and reaches(threshold.metric, value, threshold.threshold)


def analyze_calibration(plan: CalibrationPlan, answers: CalibrationAnswers) -> CalibrationAnalysis:
    bootstrap = BootstrapSettings(seed=plan.seed)
    judges = [judge.name for judge in answers.judges]
    panel = [PANEL] if len(judges) > 1 else []
    # All asks of an example stay together, in the order of the labels: repeated scores of one example
    # resemble each other, so the bootstrap draws them together or not at all.
    by_id: dict[str, list[ExampleJudgement]] = {example.id: [] for example in plan.examples}
    for ask in answers.asks:
        by_id[ask.example.id].append(ask)
    by_example = list(by_id.values())
    # As for thresholds, several judges count as one.
    judge = PANEL if panel else judges[0]
    # Rounded, so that of equally far ones the file's order decides and not the last bit of a float.
    ordered = sorted(_all_disagreements(answers.asks, judge), key=lambda far: -round(far.distance, 9))
    # With repeats an example would fill the list several times: only its farthest ask is listed.
    farthest: dict[tuple[str, str], LabelDisagreement] = {}
    for disagreement in ordered:
        farthest.setdefault((disagreement.ask.example.id, disagreement.dimension), disagreement)
    return CalibrationAnalysis(
        plan,
        answers,
        bootstrap,
        agreements=tuple(
            _agreement(plan, by_example, judge, dimension, bootstrap)
            for judge in (*judges, *panel)
            for dimension in plan.dimensions
        ),
        between_judges=tuple(
            (dimension, _between_judges(by_example, judges, dimension, bootstrap))
            for dimension in plan.dimensions
            if panel
        ),
        disagreements=tuple(farthest.values()),
    )


def _unreadable_votes(judge: str, asks: Sequence[ExampleJudgement]) -> UnreadableVotes:
    votes = [vote for ask in asks for vote in ask.judgement.votes if vote.judge == judge]
    problems = Counter(vote.problem for vote in votes if vote.problem)
    problem = problems.most_common(1)[0][0] if problems else ""
    return UnreadableVotes(judge, len(votes), problems.total(), problem)


def _agreement(
    plan: CalibrationPlan,
    by_example: Sequence[Sequence[ExampleJudgement]],
    judge: str,
    dimension: str,
    bootstrap: BootstrapSettings,
) -> JudgeAgreement:
    labelled = [asks for asks in by_example if asks and dimension in asks[0].example.labels]
    scores = [[ask.score(judge, dimension) for ask in asks] for asks in labelled]
    labels = [asks[0].example.labels[dimension] for asks in labelled]
    rows = zip(labels, scores, strict=True)
    pairs = [[(label, score) for score in of_example] for label, of_example in rows]
    noise = judge_noise(scores, plan.pass_threshold, bootstrap) if plan.repeats > 1 else None
    return JudgeAgreement(judge, dimension, agreement(pairs, plan.tolerance, bootstrap), noise)


def _between_judges(
    by_example: Sequence[Sequence[ExampleJudgement]],
    judges: Sequence[str],
    dimension: str,
    bootstrap: BootstrapSettings,
) -> BootstrapEstimate:
    """Measure how far the judges agree with each other; labels are not looked at."""
    units: list[list[Unit]] = []
    for asks in by_example:
        units.append([[ask.score(judge, dimension) for judge in judges] for ask in asks])
    # Made-up examples, as extreme as examples can be, are drawn too. Without them, judges who agreed on
    # every example would get an interval without width, although they may differ on the next one.
    most_asks = max(map(len, units), default=0)
    corners: list[list[Unit]] = [[scores] * most_asks for scores in corner_scores(len(judges))]
    return bootstrap_estimate(units, krippendorff_alpha, corners, bootstrap)


def _all_disagreements(asks: Iterable[ExampleJudgement], judge: str) -> Iterator[LabelDisagreement]:
    for ask in asks:
        for dimension, label in ask.example.labels.items():
            score = ask.score(judge, dimension)
            if score is not None and score != label:
                yield LabelDisagreement(ask, dimension, label, score)
