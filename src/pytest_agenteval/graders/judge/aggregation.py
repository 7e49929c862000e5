"""Votes of judges, and how several become one score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from statistics import fmean, median
from typing import Any

from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.graders.judge.reply_parser import Scores
from pytest_agenteval.records.record import FrozenValue


class Vote(FrozenValue, frozen=True):
    """What one judge found, and everything that it replied.

    ``problem`` says why no reply could be read; it is empty where one could. ``order`` names the candidates
    as they were shown, first to last, and ``seed`` is what that order was drawn from.
    """

    judge: str
    scores: Scores
    rationale: str = ""
    raw: tuple[str, ...] = ()
    problem: str = ""
    order: tuple[str, ...] = ()
    seed: str = ""

    def as_details(self) -> dict[str, Any]:
        """Give the vote as JSON, without what is not there."""
        optional = {"problem": self.problem, "order": list(self.order), "seed": self.seed}
        details = {"judge": self.judge, "scores": dict(self.scores), "rationale": self.rationale}
        return {**details, "raw": list(self.raw), **{key: value for key, value in optional.items() if value}}


class Judgement(FrozenValue, frozen=True):
    """What all judges found together: one score for each dimension, None where that could not be told."""

    rubric: Rubric
    votes: tuple[Vote, ...]
    prompt_digest: str
    seed: str = ""

    @property
    def scores(self) -> Scores:
        """One score from 0 to 1 for each dimension, by the rubric's way to combine votes."""
        return {name: combine_scores(self.rubric, self.decided(name)) for name in self.rubric.names}

    @property
    def spread(self) -> Scores:
        """The highest minus the lowest vote for each dimension; None where there is none."""
        votes = {name: self.decided(name) for name in self.rubric.names}
        return {name: max(those) - min(those) if those else None for name, those in votes.items()}

    @property
    def score(self) -> float | None:
        """The mean of the dimensions that could be told; None where none could."""
        return mean_of_known(self.scores.values())

    @property
    def rationale(self) -> str:
        """What the judges said, or what was wrong with it; each by name where there are several."""
        reasons = [vote.rationale or vote.problem or "no reason given" for vote in self.votes]
        if len(reasons) == 1:
            return reasons[0]
        return "; ".join(f"{vote.judge}: {text}" for vote, text in zip(self.votes, reasons, strict=True))

    def decided(self, dimension: str) -> list[float]:
        """Give the votes on a dimension of those who could tell."""
        scores = (vote.scores.get(dimension) for vote in self.votes)
        return [score for score in scores if score is not None]

    def as_details(self) -> dict[str, Any]:
        """Give everything about the judgement as JSON."""
        rubric = self.rubric
        return {
            "rubric": {"name": rubric.name, "version": rubric.version, "digest": rubric.digest()},
            "prompt": self.prompt_digest,
            "seed": self.seed,
            "judges": [vote.judge for vote in self.votes],
            "combine": rubric.combine,
            "scores": dict(self.scores),
            "spread": dict(self.spread),
            "votes": [vote.as_details() for vote in self.votes],
        }


def combine_scores(rubric: Rubric, votes: Sequence[float]) -> float | None:
    """Make one score of several, as the rubric says; None where there are none.

    ``majority``: each vote goes to the nearest whole step above the scale's low end (half a step counts
    up), and the step that more than half of the votes went to is the score; where there is no such step, it
    could not be told.
    """
    if not votes:
        return None
    if rubric.combine == "majority":
        return _majority(votes, rubric.high - rubric.low)
    return median(votes) if rubric.combine == "median" else fmean(votes)


def _majority(votes: Sequence[float], steps: float) -> float | None:
    # A vote that went through a division may lie a hair below the half step that it stands for.
    (step, count), *_ = Counter(floor(vote * steps + 0.5 + 1e-9) for vote in votes).most_common(1)
    return step / steps if 2 * count > len(votes) else None


def mean_of_known(scores: Iterable[float | None]) -> float | None:
    """Give the mean of those scores that there are, or None."""
    decided = [score for score in scores if score is not None]
    return fmean(decided) if decided else None


def no_judgement(rubric: Rubric) -> Mapping[str, None]:
    """Give the scores of one who could not tell."""
    return dict.fromkeys(rubric.names)
