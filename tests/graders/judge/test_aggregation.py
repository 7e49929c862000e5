"""Several votes become one score, and the record keeps them all."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.judge.verdicts import Judgement, Vote, combine_scores
from tests.graders.judge.judges import rubric

MEAN, MEDIAN, MAJORITY = (rubric(combine=f"combine: {way}") for way in ("mean", "median", "majority"))
FIVE = rubric(scale="scale: {low: 1, high: 5}", combine="combine: majority")
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("votes", "mean", "median", "majority"),
    [
        ([], None, None, None),
        ([0.25], 0.25, 0.25, 0.0),
        ([0.0, 1.0], 0.5, 0.5, None),
        ([0.0, 0.4, 1.0], 0.4666666667, 0.4, 0.0),
        ([0.5, 0.5, 0.0], 0.3333333333, 0.5, 1.0),
        ([0.0, 0.2, 0.6, 1.0], 0.45, 0.4, None),
    ],
)
def test_votes_are_combined_as_the_rubric_says(
    votes: list[float], mean: float | None, median: float | None, majority: float | None
) -> None:
    """Mean and median as in school; a majority is more than half of the votes, each at its nearest step."""
    for made, wanted in ((MEAN, mean), (MEDIAN, median), (MAJORITY, majority)):
        assert combine_scores(made, votes) == (None if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize(
    ("votes", "score"),
    [([1, 1, 5], 1), ([2.4, 1.6, 5], 2), ([2.5, 3, 1], 3), ([1, 3, 5], None), ([1, 1, 2, 3], None), ([4], 4)],
)
def test_a_majority_is_of_whole_steps(votes: list[float], score: float | None) -> None:
    """On a scale from 1 to 5 there are five steps; the largest group is not enough if it is no majority."""
    found = combine_scores(FIVE, [FIVE.from_scale(vote) for vote in votes])

    assert found == (None if score is None else pytest.approx(FIVE.from_scale(score)))


@pytest.mark.parametrize("high", [1, 2, 5, 10, 49])
def test_a_vote_for_a_step_is_counted_for_that_step(high: int) -> None:
    """No rounding on the way through 0..1 moves a vote to a neighbour: whole ones stay, half ones go up."""
    made = rubric(scale=f"scale: {{low: 0, high: {high}}}", combine="combine: majority")
    for step in range(high):
        for vote, counted in ((step, step), (step + 0.5, step + 1), (step + 1, step + 1)):
            assert combine_scores(made, [made.from_scale(vote)]) == counted / high


@given(SCORES)
def test_a_combined_score_lies_among_the_votes(votes: list[float]) -> None:
    """Mean and median of scores are scores, between the lowest and the highest."""
    for made in (MEAN, MEDIAN):
        found = combine_scores(made, votes)
        assert found is not None
        assert min(votes) - 1e-9 <= found <= max(votes) + 1e-9


@given(SCORES)
def test_the_order_of_judges_does_not_matter(votes: list[float]) -> None:
    """Whoever is named first has no more to say."""
    for made in (MEAN, MEDIAN, MAJORITY):
        here, there = combine_scores(made, votes), combine_scores(made, votes[::-1])
        assert here == (None if there is None else pytest.approx(there))


def test_a_judgement_is_of_those_who_could_tell() -> None:
    """What is unknown is left out of each dimension, and what nobody knew of the score."""
    votes = (
        Vote("kind", {"warmth": 1.0, "clarity": None}, "warm", ("{}",)),
        Vote("stern", {"warmth": 0.25, "clarity": None}, "lukewarm"),
        Vote("mute", {"warmth": None, "clarity": None}, raw=("?", "!"), problem="no JSON"),
    )
    found = Judgement(MEAN, votes, "0123", "7")

    assert dict(found.scores) == {"warmth": 0.625, "clarity": None}
    assert dict(found.spread) == {"warmth": 0.75, "clarity": None}
    assert found.score == 0.625
    assert found.rationale == "kind: warm; stern: lukewarm; mute: no JSON"
    assert Judgement(MEAN, votes[:1], "").rationale == "warm"
    assert Judgement(MEAN, (Vote("kind", {}),), "").rationale == "no reason given"


def test_the_record_of_a_judgement_is_json_and_keeps_everything() -> None:
    """Rubric, prompt digest, votes, raw replies, spread and problems can be read later."""
    votes = (
        Vote("kind", {"warmth": 1.0, "clarity": 0.5}, "warm", ("{raw}",)),
        Vote("mute", {"warmth": None, "clarity": None}, raw=("?", "!"), problem="no JSON"),
    )
    details = json.loads(json.dumps(Judgement(MEDIAN, votes, "0123", "7").as_details()))

    assert details == {
        "rubric": {"name": "tone", "version": "3", "digest": MEDIAN.digest()},
        "prompt": "0123",
        "seed": "7",
        "judges": ["kind", "mute"],
        "combine": "median",
        "scores": {"warmth": 1.0, "clarity": 0.5},
        "spread": {"warmth": 0.0, "clarity": 0.0},
        "votes": [
            {
                "judge": "kind",
                "scores": {"warmth": 1.0, "clarity": 0.5},
                "rationale": "warm",
                "raw": ["{raw}"],
            },
            {
                "judge": "mute",
                "scores": {"warmth": None, "clarity": None},
                "rationale": "",
                "raw": ["?", "!"],
                "problem": "no JSON",
            },
        ],
    }


@given(st.lists(st.sampled_from([Fraction(n, 4) for n in range(5)]), min_size=1, max_size=9))
def test_the_median_is_exact_on_exact_votes(votes: list[Fraction]) -> None:
    """Sorted, the middle one, or halfway between the two."""
    ordered, half = sorted(votes), len(votes) // 2
    expected = ordered[half] if len(votes) % 2 else (ordered[half - 1] + ordered[half]) / 2

    assert combine_scores(MEDIAN, [float(vote) for vote in votes]) == float(expected)
