"""How near a run ends to its budget, however its trials' costs are spread, with many in flight."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.engine.run_budget import LocalLedger, RunBudget
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import NO_ERROR, Trial
from pytest_agenteval.session.run_costs import TaskHistory, predicted
from tests.extended.simulations.rows import Row, share_row

DRAWS = 400


def _even(number: int, chance: random.Random) -> list[float]:
    return [1.0] * number


def _spread(variation: float) -> Callable[[int, random.Random], list[float]]:
    """Give costs that are log-normal, with this standard deviation for a mean of 1."""
    sigma = math.sqrt(math.log(1 + variation**2))
    return lambda number, chance: [chance.lognormvariate(-(sigma**2) / 2, sigma) for _ in range(number)]


def _rising(number: int, chance: random.Random) -> list[float]:
    """Give costs that grow to the tenfold: folders of tasks come in the order of their difficulty."""
    return [0.2 * 10 ** (place / number) * chance.uniform(0.7, 1.3) for place in range(number)]


def _falling(number: int, chance: random.Random) -> list[float]:
    return _rising(number, chance)[::-1]


COSTS: Mapping[str, Callable[[int, random.Random], list[float]]] = {
    "all alike": _even,
    "spread 0.3": _spread(0.3),
    "spread 1": _spread(1),
    "growing tenfold": _rising,
    "shrinking to a tenth": _falling,
}


class End(NamedTuple):
    """How a run with half of what it costs ended: paid, the budget, the dearest trial, how long it took."""

    paid: float
    budget: float
    dearest: float
    slowdown: float

    @property
    def off(self) -> float:
        """How many trials' cost the run ended beyond its budget; below 0 for before it."""
        return (self.paid - self.budget) / self.dearest


def run_of(costs: Sequence[float], at_once: int, chance: random.Random) -> End:
    """Run trials of these costs with half of what they cost; the dearer, the longer they take."""
    seconds = [cost * chance.uniform(0.5, 1.5) + 0.1 for cost in costs]
    allowed = sum(costs) / 2
    budget = RunBudget(
        {"usd": allowed},
        LocalLedger(),
        lambda plan, kind: None,
        paid_before=dict,
        is_free=lambda plan: False,
        is_alive=lambda process: True,
    )
    now, coming, ended = 0.0, 0, 0
    in_flight: list[tuple[float, int]] = []
    while True:
        while coming < len(costs) and len(in_flight) < at_once and budget.decide(_plan(coming)) == "begin":
            heapq.heappush(in_flight, (now + seconds[coming], coming))
            coming += 1
        if not in_flight:
            break
        now, place = heapq.heappop(in_flight)
        ended += 1
        budget.ended(_plan(place), _trial(place, costs[place]))
    ideal = max(sum(seconds[:ended]) / at_once, max(seconds[:ended]))
    return End(budget.paid()["usd"], allowed, max(costs[:ended]), now / ideal)


def _plan(place: int) -> Plan:
    task = PlannedTask("suite", f"t{place}", "agent", "capability", "", ())
    return Plan(task, Model("model", "openai/model"))


def _trial(place: int, cost: float) -> Trial:
    trial = Trial.errored(_plan(place), NO_ERROR)
    return replace(trial, ending="passed", paid=Usage(10, 10, cost_usd=cost, asks=1))


def run(scale: float, seed: int) -> Iterator[Row]:
    """A budget of half the price: within one trial's cost of it, neither far over nor far under.

    Costs are of several shapes and unknown before; dear trials take longer, so that those in flight are
    dearer than those that have ended. The last row says how much longer a run of one shape takes.
    """
    draws = max(10, round(DRAWS * scale))
    for trials, at_once in ((400, 40), (200, 4)):
        for shape, costs in COSTS.items():
            chance = random.Random(f"{seed} {shape} {trials}")
            ends = [run_of(costs(trials, chance), at_once, chance) for _ in range(draws)]
            near = sum(abs(end.off) <= 1 for end in ends)
            worst = max((end.off for end in ends), key=abs)
            slow = sum(end.slowdown for end in ends) / draws
            note = f"farthest {worst:+.1f} trials, {slow:.1f} x the time"
            yield share_row(f"{trials} trials, {at_once} at once, {shape}", near, draws, ">=", 0.95, note)
    yield from _ranges(draws, seed)


def _ranges(draws: int, seed: int) -> Iterator[Row]:
    """Give how often what a dry run foretells holds what trials take, of tasks a hundredfold apart."""
    chance = random.Random(f"{seed} ranges")
    for tasks, before, now, variation in ((5, 1, 3, 0.4), (20, 1, 1, 0.5), (40, 3, 3, 0.8), (200, 2, 1, 0.3)):
        held = 0
        for _ in range(draws):
            means = [10 ** chance.uniform(-3, -1) for _ in range(tasks)]
            tried, coming = [
                [[mean * cost for cost in _spread(variation)(number, chance)] for mean in means]
                for number in (before, now)
            ]
            low, high, _ = predicted(TaskHistory(amounts, now) for amounts in tried)
            held += low <= sum(map(sum, coming)) <= high
        what = f"foretold of {tasks} tasks tried {before} x, now {now} x, spread {variation}"
        yield share_row(what, held, draws, ">=", 0.9)
