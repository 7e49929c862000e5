"""Judging several candidates at once: shown as A, B, … in an order that is another for each judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from pytest_agenteval.canonical import digest
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.aggregation import Judgement, Vote, no_judgement
from pytest_agenteval.graders.judge.panel import ask_judge, gather_all
from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.graders.judge.reply_parser import parse_comparison
from pytest_agenteval.records.record import FrozenValue

Ballot = Mapping[str, Vote]
"""What one judge found, by the candidates' real names."""

SAME = 1e-9


class Comparison(FrozenValue, frozen=True):
    """What all judges found of each candidate, by its real name."""

    judgements: Mapping[str, Judgement]

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Each candidate's mean over the dimensions that could be told for all; None where none could."""
        all_of = [judgement.scores for judgement in self.judgements.values()]
        dimensions = [name for name in all_of[0] if all(scores[name] is not None for scores in all_of)]
        return {
            name: sum(judgement.scores[each] or 0.0 for each in dimensions) / len(dimensions)
            if dimensions
            else None
            for name, judgement in self.judgements.items()
        }

    def preference(self, candidate: str) -> float | None:
        """Say 1 where it beats all others, 0.5 where it shares the first place, else 0; None for unknown."""
        scores = self.scores
        own = scores[candidate]
        others = [score for name, score in scores.items() if name != candidate and score is not None]
        if own is None:
            return None
        best = max(others)
        return 0.5 if abs(own - best) <= SAME else float(own > best)

    def as_details(self) -> dict[str, Any]:
        """Give everything about the comparison as JSON; a judge's replies stand there once."""
        first = next(iter(self.judgements.values()))
        details = {key: value for key, value in first.as_details().items() if key != "spread"}
        candidates = {
            name: {"scores": dict(judgement.scores), "spread": dict(judgement.spread)}
            for name, judgement in self.judgements.items()
        }
        votes = [
            {
                **vote.as_details(),
                "scores": {name: dict(other.votes[at].scores) for name, other in self.judgements.items()},
            }
            for at, vote in enumerate(first.votes)
        ]
        return {**details, "scores": dict(self.scores), "candidates": candidates, "votes": votes}


async def compare(
    rubric: Rubric,
    values: Mapping[str, str],
    candidates: Mapping[str, str],
    judges: Sequence[Judge],
    *,
    seed: str = "",
) -> Comparison:
    """Ask every judge about all candidates, given by name, side by side; see ``ask_judges``."""
    content = digest([rubric.digest(), dict(values), dict(candidates)])
    ballots = await gather_all(
        _ballot(rubric, values, candidates, judge, digest([content, judge.model.name, seed]))
        for judge in judges
    )
    return Comparison(
        {
            name: Judgement(rubric, tuple(ballot[name] for ballot in ballots), content, seed)
            for name in candidates
        }
    )


def shuffled_names(candidates: Mapping[str, str], seed: str) -> tuple[str, ...]:
    """Give the names in an order that only names and seed decide."""
    names = sorted(candidates)
    Random(seed).shuffle(names)
    return tuple(names)


async def _ballot(
    rubric: Rubric, values: Mapping[str, str], candidates: Mapping[str, str], judge: Judge, seed: str
) -> Ballot:
    order = shuffled_names(candidates, seed)
    count = len(order)
    messages = rubric.messages(values, candidates=[candidates[name] for name in order])
    read = partial(parse_comparison, rubric=rubric, candidates=count)
    verdicts, raw, problem = await ask_judge(judge, rubric, messages, rubric.schema(count), read)
    who = judge.model.name
    if verdicts is None:
        return {name: Vote(who, no_judgement(rubric), "", raw, problem, order, seed) for name in order}
    return {
        name: Vote(who, verdict.scores, verdict.rationale, raw, "", order, seed)
        for name, verdict in zip(order, verdicts, strict=True)
    }
