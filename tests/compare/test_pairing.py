"""Which trials belong together, and what keeps tasks from being compared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import ComparedRun
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.text.errors import UsageMistake
from tests.compare.samples import side


def with_digests(old: Any, new: Any) -> RunComparison:
    """Compare one task whose trials have these digests."""
    return compare_runs(
        side("old", {"x/a": [1.0]}, digests=Digests(**old)),
        side("new", {"x/a": [1.0]}, digests=Digests(**new)),
    )


def joined(*sides: ComparedRun) -> ComparedRun:
    """One side with the trials of several."""
    return replace(sides[0], entries=tuple(entry for each in sides for entry in each.entries))


@pytest.mark.parametrize(
    ("name", "key"), [("input", "input"), ("fixture", "starting workspace"), ("ruler", "graders")]
)
def test_a_task_that_is_not_what_it_was_is_not_compared(name: str, key: str) -> None:
    """Its file, its id and its key are named; it is in no mean."""
    comparison = with_digests({name: "1"}, {name: "2"})
    (obstacle,) = comparison.obstacles
    assert (obstacle.file, obstacle.task, obstacle.key) == ("evals/s/a.yaml", "a", key)
    assert comparison.suites[0].tasks == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("prompt", "prompt"),
        ("settings", "settings"),
        ("tools", "tools"),
        ("code", "agent code"),
        ("model", "model"),
    ],
)
def test_what_may_be_the_thing_compared_is_listed(name: str, words: str) -> None:
    """It keeps nothing from being compared."""
    comparison = with_digests({name: "1"}, {name: "2"})
    assert comparison.obstacles == ()
    assert comparison.suites[0].differs == (words,)


def test_a_starting_workspace_or_tools_where_there_were_none_are_a_difference() -> None:
    """None is a value: files given to the new agent alone make another task, tools another agent."""
    (obstacle,) = with_digests({"input": "1"}, {"input": "1", "fixture": "2"}).obstacles
    assert obstacle.key == "starting workspace"
    assert with_digests({"input": "1", "tools": "2"}, {"input": "1"}).suites[0].differs == ("tools",)


def test_a_grader_is_named_with_its_versions() -> None:
    """Another version, another configuration, a grader more: each is told apart."""
    old = {"ruler": "1", "graders": {"a": "3:aa", "b": "1:bb", "c": "1:cc"}}
    new = {"ruler": "2", "graders": {"a": "4:aa", "b": "1:xx", "d": "1:dd"}}
    (obstacle,) = with_digests(old, new).obstacles
    assert str(obstacle) == (
        "evals/s/a.yaml: a: graders: a version 3 -> 4; b has other settings, weight or judges; "
        "c only in old; d only in new"
    )


def test_other_judges_are_named() -> None:
    """Scores of different judges are scores of different rulers."""
    digests = Digests(ruler="1"), Digests(ruler="2")
    comparison = compare_runs(
        side("old", {"x/a": [1.0]}, judges=("gpt",), digests=digests[0]),
        side("new", {"x/a": [1.0]}, judges=(), digests=digests[1]),
    )
    assert comparison.obstacles[0].problem == "judged by gpt -> no judge"


def test_an_errored_trial_has_no_digests_and_is_no_obstacle() -> None:
    """A trial that broke before it began says nothing of what it would have been made of."""
    assert with_digests({"input": "1", "ruler": "1"}, {}).obstacles == ()


def test_tasks_of_one_side_are_named() -> None:
    """A task that is new, or gone, is not compared, and said."""
    comparison = compare_runs(
        side("old", {"x/a": [1.0], "x/b": [1.0]}), side("new", {"x/b": [1.0], "x/c": [1.0]})
    )
    assert {(obstacle.task, obstacle.problem) for obstacle in comparison.obstacles} == {
        ("a", "only in old"),
        ("c", "only in new"),
    }


def test_repetitions_need_not_be_alike() -> None:
    """Three old trials and two new ones of a task are compared as what they are."""
    suite = compare_runs(side("old", {"x/a": [1.0, 0.5, 0.0]}), side("new", {"x/a": [1.0, 0.0]})).suites[0]
    assert suite.repetitions == ((3, 3), (2, 2))
    assert suite.suite is not None
    assert (suite.suite.old, suite.suite.new) == (0.5, 0.5)


def test_models_are_paired_by_name_and_others_are_left() -> None:
    """Each model with itself; one that only one side has is named."""
    old = joined(side("old", {"x/a": [1.0]}, model="m"), side("old", {"x/a": [1.0]}, model="n"))
    new = joined(side("new", {"x/a": [1.0]}, model="n"), side("new", {"x/a": [1.0]}, model="m"))
    new = joined(new, side("new", {"x/a": [1.0]}, model="o"))
    comparison = compare_runs(old, new)
    assert [(suite.old_who, suite.new_who) for suite in comparison.suites] == [
        (("n", ""), ("n", "")),
        (("m", ""), ("m", "")),
    ]
    assert comparison.unmatched_new == ("s with o",)


def test_a_single_model_on_each_side_is_what_is_compared() -> None:
    """Two runs with one model each: nobody has to say that models are compared."""
    comparison = compare_runs(side("old", {"x/a": [1.0]}, model="m"), side("new", {"x/a": [0.0]}, model="n"))
    assert [(suite.old_who, suite.new_who) for suite in comparison.suites] == [(("m", ""), ("n", ""))]


def test_two_models_of_one_run_are_paired_by_variant() -> None:
    """``--models m,n``: each prompt variant of the one with the same of the other."""
    parts = [
        side("run", {"x/a": [1.0]}, model=model, variant=variant)
        for model in "mn"
        for variant in ("", "short")
    ]
    run = joined(*parts)
    comparison = compare_runs(run.with_model("m"), run.with_model("n"), compared="model")
    assert comparison.same_run
    assert [(suite.old_who, suite.new_who) for suite in comparison.suites] == [
        (("m", ""), ("n", "")),
        (("m", "short"), ("n", "short")),
    ]


def test_two_variants_of_one_run_are_paired_by_model() -> None:
    """``--variants base,short``: the agent's own prompts are called base."""
    run = joined(*(side("run", {"x/a": [1.0]}, variant=variant) for variant in ("", "short")))
    comparison = compare_runs(run.with_variant("base"), run.with_variant("short"), compared="variant")
    assert [(suite.old_who, suite.new_who) for suite in comparison.suites] == [
        (("rules", ""), ("rules", "short"))
    ]


def test_a_model_that_a_run_has_not_is_refused_with_those_it_has() -> None:
    """Misspelt names are not compared with nothing."""
    with pytest.raises(UsageMistake, match="run has no model 'rulez'; it has rules"):
        side("run", {"x/a": [1.0]}).with_model("rulez")
