"""What some trials' setup takes from the others, in seconds: forgiven where it was, however short it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agenteval.engine import worker_context
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from tests.engine.executing import registry

CASES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mostly while it waits": ((0.002, 0.002), (0.0011,)),
    "mostly in its own time": ((0.0011,), (0.002, 0.002)),
    "long ones": ((0.02,), (0.03,)),
    "next to none": ((0.0002,), (0.0049,)),
}
ROUNDS = 200


class Clock:
    """The time that a trial and its process go by."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def seconds_counted(
    clock: Clock, waiting: tuple[float, ...], own: tuple[float, ...], stalled: Callable[..., Any]
) -> float:
    """Give a trial's seconds after rounds of 20 ms that it waits and 10 ms of its own, beside other setup."""
    context = WorkerContext(registry())
    budget = Budget(Allowance(seconds=60), clock)
    try:
        with context.agent_running(budget, on_loop=True):
            for _ in range(ROUNDS):
                with budget.held_up(600):
                    clock.now += 0.02
                    for seconds in waiting:
                        stalled(context, seconds)
                clock.now += 0.01
                for seconds in own:
                    stalled(context, seconds)
        return budget.seconds
    finally:
        await context.close()


@pytest.mark.parametrize("case", CASES)
def test_others_setup_costs_a_trial_nothing_and_gives_it_nothing(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial's seconds are its own: to the millisecond, after hundreds of changes between both."""
    clock = Clock()
    monkeypatch.setattr(worker_context, "time", SimpleNamespace(monotonic=clock))

    def stalled(context: WorkerContext, seconds: float) -> None:
        with context.setup_excluded():
            clock.now += seconds

    counted = asyncio.run(seconds_counted(clock, *CASES[case], stalled))

    assert counted == pytest.approx(ROUNDS * 0.01, abs=0.001)


def test_spans_that_are_alike_are_not_one() -> None:
    """Two that began in one tick of a coarse clock, of which one ends where the other may last to."""
    clock = Clock()
    budget = Budget(Allowance(), clock)
    first, second = budget.held_up(1.0), budget.held_up(5.0)
    first.__enter__()
    second.__enter__()
    clock.now += 1.0
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert budget.seconds == 0


def test_the_wait_for_a_slot_is_not_seen_unless_something_else_goes_on_meanwhile() -> None:
    """People see what a trial took; no moment in which one of its requests is answered is left out."""
    clock = Clock()
    budget = Budget(Allowance(seconds=60), clock)
    budget.begin()
    with budget.held_up(600), budget.excluded():
        clock.now += 10
        with budget.held_up(600) as answered:
            clock.now += 2
            answered.own = True
        clock.now += 5
    with budget.held_up(600):  # back-off
        clock.now += 3
    clock.now += 1
    assert (budget.elapsed, budget.seconds) == (6, 3)
