"""The 25 tasks of evals/card, played through the card agent."""

from __future__ import annotations

import time
from statistics import mean

import pytest

from pytest_agenteval.records.plan import Model, Plan, PlannedTask

from .harness import Acted, CardTask, card_tasks, registry

TASKS = list(card_tasks())
MODEL = Model("rules", "rules", offline=True)
NO_TASK = Plan(PlannedTask("", "", "card", "capability", "", ()), MODEL)
EVERY_TASK = pytest.mark.parametrize("task", TASKS, ids=[task.id for task in TASKS])


@EVERY_TASK
def test_the_reference_solves_every_task(task: CardTask) -> None:
    """What a task's author calls a solution is complete and scores 1 with every grader of the task."""
    evidence = task.play(Acted(task.reference))

    assert evidence.state["is_complete"], evidence.state["missing_requirements"]
    assert {name: grade.rationale for name, grade in task.grades(evidence).items() if grade.score != 1} == {}


@EVERY_TASK
def test_doing_nothing_passes_no_grader(task: CardTask) -> None:
    """A model that says nothing gets no credit from any grader, so none of them is vacuous."""
    evidence = task.play(Acted([]))

    scores = {name: grade.score for name, grade in task.grades(evidence).items()}
    assert len(scores) == len(task.definition["graders"])
    # Where there is no card, there is no number on it that could come from elsewhere: undecided, no credit.
    assert scores == {name: None if name == "card_numbers_given" else 0.0 for name in scores}


def _rules_scores() -> dict[str, dict[str, float]]:
    factory = registry().model_factory("rules")
    return {
        task.id: {
            name: grade.score if grade.score is not None else -1
            for name, grade in task.grades(task.play(factory(MODEL, NO_TASK))).items()
        }
        for task in TASKS
    }


def test_the_rules_are_mediocre() -> None:
    """The rule-based model plays every task, without being told which it is, neither well nor hopelessly."""
    scores = _rules_scores()
    for id, graded in scores.items():
        print(f"{mean(graded.values()):.2f}  {id}  {graded}")

    trials = [mean(graded.values()) for graded in scores.values()]
    print(f"mean {mean(trials):.3f}")
    choices = [graded["card_template_choice"] for graded in scores.values()]
    assert 0.4 <= mean(trials) <= 0.9
    assert 0.5 in choices
    assert 0.0 in choices


def test_a_card_trial_is_cheap() -> None:
    """A whole offline trial with three graders stays far below what a slow machine could hide."""
    factory = registry().model_factory("rules")
    task = TASKS[0]
    task.grades(task.play(factory(MODEL, NO_TASK)))
    began = time.process_time()
    for _ in range(20):
        task.grades(task.play(factory(MODEL, NO_TASK)))

    assert (time.process_time() - began) / 20 < 0.03
