"""A run's budget where trials in flight come to no end."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.run_budget import LocalLedger, RunBudget, amount_text
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import NO_ERROR, Trial
from tests.engine.executing import plan as planned


def plan(id: str) -> Plan:
    """Plan a trial of a model that is paid."""
    return replace(planned(id), model=Model("mine", "openai/mine"))


def ended(of: Plan) -> Trial:
    """Give a trial that cost a cent."""
    return replace(Trial.errored(of, NO_ERROR), ending="passed", paid=Usage(10, 10, cost_usd=0.01, asks=1))


def test_what_a_dead_process_had_in_flight_counts_as_the_average_and_frees_its_room() -> None:
    """Nobody knows what it took; while it lived the budget was full, afterwards others begin."""
    ledger, alive = LocalLedger(), {os.getpid(), 1}
    budget = RunBudget(
        {"usd": 0.08},
        ledger,
        lambda plan, kind: None,
        paid_before=dict,
        is_free=lambda plan: False,
        is_alive=lambda process: process in alive,
    )
    first = plan("first")
    assert budget.decide(first) == "begin"
    assert budget.decide(plan("second")) == "wait"
    budget.ended(first, ended(first))
    (group,) = ledger.change(lambda state: list(state["groups"]))
    ledger.change(lambda state: state["in_flight"].update({"1": {group: 4}}))
    assert budget.decide(plan("second")) == "wait"

    alive.discard(1)

    assert budget.decide(plan("second")) == "begin"
    assert round(budget.paid()["usd"], 6) == 0.05


def test_a_trial_that_was_lost_and_begins_again_has_cost_something() -> None:
    """Nobody knows what it took: it counts as the average, each time."""
    budget = RunBudget(
        {"usd": 1.0},
        LocalLedger(),
        lambda plan, kind: None,
        paid_before=dict,
        is_free=lambda plan: False,
        is_alive=lambda process: True,
    )
    first, lost = plan("first"), plan("lost")
    assert budget.decide(first) == "begin"
    budget.ended(first, ended(first))
    for _ in range(2):
        assert budget.decide(lost) == "begin"
        budget.ended(lost, None)

    assert round(budget.paid()["usd"], 6) == 0.03


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0.0, "$0"), (1.5e-7, "$0.00000015"), (4.2e-5, "$0.000042"), (0.0412, "$0.0412"), (5.0, "$5")],
)
def test_what_is_little_is_not_written_as_nothing(usd: float, text: str) -> None:
    """A cheap trial has cost something, and a small budget is one."""
    assert amount_text("usd", usd) == text
