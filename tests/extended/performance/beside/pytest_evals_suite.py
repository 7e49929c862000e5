"""pytest-evals: a parametrized test for each question, and the analysis of what they found."""

import pytest
from workload import ANSWER, TARGET, given, question

_, count, _ = given()


@pytest.mark.eval(name="loop")
@pytest.mark.parametrize("number", range(count))
def test_question(number, eval_bag):
    """Answer from nowhere, and look at it."""
    eval_bag.question, eval_bag.answer = question(number), ANSWER
    eval_bag.accuracy = TARGET in eval_bag.answer
    assert eval_bag.accuracy


@pytest.mark.eval_analysis(name="loop")
def test_all(eval_results):
    """All of them have passed."""
    assert sum(each.result.accuracy for each in eval_results) == count
