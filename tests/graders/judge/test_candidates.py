"""Comparing candidates: nobody profits from where it stands, and letters never leave the prompt."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_agenteval.chat.chat import ChatMessage, Reply
from pytest_agenteval.graders.judge.panel import CandidateComparison, compare, shuffled_names
from pytest_agenteval.records.plan import Model
from pytest_agenteval.text.errors import ProviderDown
from tests.graders.judge.judges import TestJudge, judge, rubric, run

RUBRIC = rubric(output="output: answer\ncandidates: true")
TASK = {"task": "Say hello."}
TWO = {"answer": "Hello!", "reference": "Good day."}


class Reader:
    """A judge's chat that scores candidates by their texts, wherever they stand."""

    def __init__(self, scores: Mapping[str, float], first: float = 0.0) -> None:
        self.scores, self.first = scores, first
        self.asked: list[Sequence[ChatMessage]] = []

    async def ask(self, messages: Sequence[ChatMessage], **more: Any) -> Reply:
        """Score each candidate by what it says, and the first one so much higher."""
        self.asked.append(messages)
        texts = re.findall(r'<data-\w+ name="([A-Z])">\n(.*?)\n</data-', str(messages[1]["content"]))
        found = {
            letter: dict.fromkeys(RUBRIC.names, self.scores[text] + self.first * (letter == "A"))
            for letter, text in texts
        }
        return Reply(json.dumps({**found, "rationale": "as it reads"}))


def reader(scores: Mapping[str, float], name: str = "reader", first: float = 0.0) -> Any:
    """Give a judge that reads."""
    return TestJudge(Model(name, name), Reader(scores, first))  # type: ignore[arg-type]  # another chat


def comparison(*judges: Any, candidates: Mapping[str, str] = TWO, seed: str = "") -> CandidateComparison:
    """Let judges compare candidates."""
    return run(compare(RUBRIC, TASK, candidates, judges, seed=seed))


def test_scores_come_back_by_the_candidates_real_names() -> None:
    """However they were shuffled, each score belongs to the text that it was given to."""
    texts = {f"name{n}": f"text {n}" for n in range(6)}
    expected = {name: n / 10 for n, name in enumerate(texts)}
    judges = [reader({f"text {n}": n / 10 for n in range(6)}, f"judge{j}") for j in range(8)]
    found = comparison(*judges, candidates=texts)

    assert found.scores == pytest.approx(expected)
    orders = [vote.order for vote in found.judgements["name0"].votes]
    assert all(sorted(order) == sorted(texts) for order in orders)
    assert len(set(orders)) > 1


def test_names_are_not_shown() -> None:
    """Judges see letters: which one is the agent's they cannot know."""
    asked = reader({"Hello!": 1, "Good day.": 0})
    comparison(asked, candidates={"sonnet": "Hello!", "reference": "Good day."})

    assert "sonnet" not in str(asked.chat.asked)
    assert "reference" not in str(asked.chat.asked)


def test_the_order_is_drawn_from_a_recorded_seed() -> None:
    """The same judge sees the same order again; another judge, another seed, other texts may change it."""
    asked = reader({"Hello!": 1, "Good day.": 0})
    one, two = comparison(asked, seed="7"), comparison(asked, seed="7")
    vote = one.judgements["answer"].votes[0]

    assert asked.chat.asked[0] == asked.chat.asked[1]
    assert one.as_details() == two.as_details()
    assert shuffled_names(TWO, vote.seed) == vote.order
    assert one.as_details()["votes"][0]["order"] == list(vote.order)
    seeds = {comparison(asked, seed=str(n)).judgements["answer"].votes[0].seed for n in range(5)}
    assert len(seeds) == 5


def test_each_candidate_comes_first_about_as_often() -> None:
    """Over many judges no place is the agent's."""
    first = Counter(shuffled_names(TWO, str(seed))[0] for seed in range(400))

    assert 150 < first["answer"] < 250


def test_a_judge_that_favours_a_place_evens_out_over_several() -> None:
    """Equal texts get equal scores where each order comes up, and a spread that shows the bias."""
    orders = {}
    number = 0
    while len(orders) < 2:
        made = reader({"Hello!": 0.5, "Good day.": 0.5}, f"judge{number}", first=0.2)
        order = comparison(made).judgements["answer"].votes[0].order
        orders.setdefault(order, made)
        number += 1
    found = comparison(*orders.values())

    assert found.scores == pytest.approx({"answer": 0.6, "reference": 0.6})
    assert found.judgements["answer"].spread["warmth"] == pytest.approx(0.2)
    assert found.preference("answer") == 0.5


@pytest.mark.parametrize(
    ("scores", "preference"),
    [
        ({"a": 0.7, "b": 0.6, "c": 0.1}, 1.0),
        ({"a": 0.6, "b": 0.6, "c": 0.1}, 0.5),
        ({"a": 0.5, "b": 0.6, "c": 0.1}, 0.0),
        ({"a": 0.1 + 0.2, "b": 0.3, "c": 0.1}, 0.5),
    ],
)
def test_preference_is_over_all_others(scores: dict[str, float], preference: float) -> None:
    """1 for the best, 0.5 for a shared first place, 0 for everything else."""
    found = comparison(reader(scores), candidates={name: name for name in scores})

    assert found.preference("a") == preference


def test_candidates_are_compared_by_what_could_be_told_of_all() -> None:
    """A dimension that is unknown for one of them counts for none."""
    one, two = {"warmth": 0.2, "clarity": 1}, {"warmth": 0.4, "clarity": "unknown"}
    order = shuffled_names({"answer": "", "reference": ""}, _seed_of("stern"))
    reply = dict(zip("AB", (one, two) if order[0] == "answer" else (two, one), strict=True))
    found = comparison(judge(json.dumps(reply)))

    assert found.scores == {"answer": 0.2, "reference": 0.4}
    assert found.preference("answer") == 0.0


def _seed_of(name: str) -> str:
    return comparison(reader({"Hello!": 0, "Good day.": 0}, name)).judgements["answer"].votes[0].seed


def test_a_comparison_that_nobody_could_make_is_undecided() -> None:
    """Two unreadable replies: no scores, no preference, and the reason in the record."""
    found = comparison(judge("?", "??"))

    assert found.scores == {"answer": None, "reference": None}
    assert found.preference("answer") is None
    (vote,) = found.as_details()["votes"]
    assert vote["raw"] == ["?", "??"]
    assert vote["problem"] == "there is no JSON object with the scores in it; the reply was '??'"


def test_the_record_of_a_comparison_is_json() -> None:
    """Every candidate by its name, every judge once, with its order and what it replied."""
    judges = [reader({"Hello!": 1, "Good day.": 0}, name) for name in ("a", "b")]
    details = json.loads(json.dumps(comparison(*judges, seed="7").as_details()))

    assert details["scores"] == {"answer": 1.0, "reference": 0.0}
    assert details["candidates"]["reference"]["scores"] == {"warmth": 0.0, "clarity": 0.0}
    assert [vote["judge"] for vote in details["votes"]] == ["a", "b"]
    assert details["votes"][0]["scores"]["answer"] == {"warmth": 1.0, "clarity": 1.0}
    assert len(details["votes"][0]["raw"]) == 1
    assert details["seed"] == "7"


def test_a_provider_that_is_down_is_raised() -> None:
    """An error of ours is no preference."""
    with pytest.raises(ProviderDown):
        comparison(judge(ProviderDown("no reply")), reader({"Hello!": 1, "Good day.": 0}))


@pytest.mark.parametrize("count", [0, 1, 27])
def test_a_comparison_needs_candidates(count: int) -> None:
    """One is none to compare, and there are 26 letters."""
    with pytest.raises(ValueError, match=f"takes 2 to 26 candidates, not {count}"):
        comparison(judge(), candidates={str(n): "x" for n in range(count)})
