"""The command that runs simulations says whether each figure reaches its goal, and exits by it."""

from __future__ import annotations

import pytest

from tests.extended.simulations.__main__ import main, simulations
from tests.extended.simulations.intervals import run
from tests.extended.simulations.rows import Row, share_row, worst_rows


@pytest.mark.parametrize(
    ("figure", "relation", "holds"),
    [(0.93, ">=", True), (0.92, ">=", False), (0.93, "<=", True), (0.94, "<=", False)],
)
def test_a_goal_is_reached_or_missed(figure: float, relation: str, holds: bool) -> None:
    """At the goal is reached; a hair on the wrong side is missed, whatever the simulation's own error."""
    row = Row("coverage", figure, ">=" if relation == ">=" else "<=", 0.93, error=0.5)
    assert row.holds(patience=0) is holds


def test_few_draws_are_given_room_and_many_are_not() -> None:
    """9 of 10 against a goal of 95 % is scatter, 900 of 1,000 is none."""
    assert share_row("few", 9, 10, ">=", 0.95).holds()
    assert not share_row("many", 900, 1000, ">=", 0.95).holds()
    assert not share_row("few", 9, 10, ">=", 0.95).holds(patience=0)


def test_the_worst_cell_stands_for_all_and_each_that_is_missed_for_itself() -> None:
    """Of three cells two are beyond the goal by more than chance: both have a row, the worse one first."""
    rows = list(worst_rows("false", {"a": 20, "b": 100, "c": 90}, 1_000, "<=", 0.025))
    assert [(row.figure, row.note[:1]) for row in rows] == [(0.1, "b"), (0.09, "c")]
    (row,) = worst_rows("held", {"a": 990, "b": 970}, 1_000, ">=", 0.96)
    assert (row.figure, row.note) == (0.97, "b; mean of 2: 0.9800")


def test_a_name_that_is_no_simulation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal lists what there is."""
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    refusal = capsys.readouterr().err
    assert "'nothing'" in refusal
    assert all(name in refusal for name in simulations())


@pytest.mark.parametrize("name", simulations())
def test_every_simulation_says_what_it_simulates(name: str) -> None:
    """The function that gives the rows has a docstring: the model, and whose goals they are."""
    assert simulations()[name].__doc__


def test_the_printed_interval_holds_the_truth_as_often_as_it_should() -> None:
    """In every kind of suite, with as few draws as a test can spend."""
    rows = list(run(scale=0.006, seed=8))

    assert len(rows) == 12
    assert [row.what for row in rows if not row.holds()] == []
