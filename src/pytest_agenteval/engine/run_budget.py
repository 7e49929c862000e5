"""What all trials of a run may cost together: a trial starts only if its expected use fits, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from math import ceil, log10, sqrt
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from pytest_agenteval.engine.jobs import Decision, NotRun
from pytest_agenteval.records.plan import Allowance, Plan, TrialKey
from pytest_agenteval.records.transcript import NO_USAGE, Figure, Usage, cost_figure, token_figure
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.json_values import compact_json

T = TypeVar("T")
Kind: TypeAlias = Literal["usd", "tokens"]
KINDS: tuple[Kind, ...] = ("usd", "tokens")
State: TypeAlias = dict[str, Any]
Amounts: TypeAlias = Mapping[Kind, float]

OPTIONS: Mapping[Kind, str] = {"usd": "--agent-max-cost", "tokens": "--agent-max-tokens"}
HOW_TO_GET_USAGE = (
    'request it in streams ("stream_options": {"include_usage": true}), or let the agent return its usage'
)

# While fewer trials of a group have ended than are in flight, each may take so many times the dearest.
LITTLE_KNOWN = 10.0
# From this share on, a budget counts as spent, though a little is left.
NEARLY = 0.9


class ExpectedUse(NamedTuple):
    """What a trial takes on average, what the dearest took, and of how many trials that is known."""

    mean: float
    most: float
    known: int


# Returns what such trials took in earlier runs, to be used until one has ended in this run; None if unknown.
Expectations: TypeAlias = Callable[[Plan, Kind], ExpectedUse | None]


class BudgetLedger(Protocol):
    """A JSON object that all processes of a run read and change."""

    def change(self, change: Callable[[State], T]) -> T:
        """Have the value changed, by one process at a time; returns what ``change`` returns."""


class LocalLedger:
    """The ledger of a run of one process."""

    def __init__(self) -> None:
        self._state: State = {}

    def change(self, change: Callable[[State], T]) -> T:
        return change(self._state)


class RunBudget:
    """Counts what a run has paid, and lets trials start while more may be paid.

    A trial in flight reserves what the dearest of its suite and model took, and more while few are known; the
    next one needs the average. So the less is left, the fewer trials are in flight, and the last start one by
    one. If nothing is known of a suite and model, one trial starts alone. ``paid_before`` is what the same
    run had paid when it was cut short. ``is_free`` decides which trials cost nothing, ``is_alive`` whether a
    process with this number still runs.
    """

    def __init__(
        self,
        allowed: Amounts,
        ledger: BudgetLedger,
        expectations: Expectations,
        *,
        paid_before: Callable[[], Mapping[Kind, Figure]],
        is_free: Callable[[Plan], bool],
        is_alive: Callable[[int], bool],
    ) -> None:
        self.allowed, self._ledger, self._expectations = dict(allowed), ledger, expectations
        self._paid_before, self._is_free, self._is_alive = paid_before, is_free, is_alive
        self._process = str(os.getpid())
        self._started_here: set[tuple[TrialKey, int]] = set()
        self._unwritten: OSError | None = None

    def decide(self, plan: Plan) -> Decision:
        """Let a trial start, and reserve its share; else decide whether it may start later.

        Raises OSError if that cannot be written down.
        """
        if self._unwritten is not None:
            raise self._unwritten
        if self._is_free(plan):
            return "begin"
        decision = self._ledger.change(lambda state: self._decide(state, plan))
        if decision == "begin":
            self._started_here.add((plan.key, plan.attempt))
        return decision

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Count what a trial took, and release its share; a lost trial counts as the mean."""
        had_share = (plan.key, plan.attempt) in self._started_here
        self._started_here.discard((plan.key, plan.attempt))
        took = NO_USAGE if trial is None else trial.spending
        # Tokens of a player without an LLM cost nothing, and are no part of what a run may take.
        if had_share or not (took == NO_USAGE or (took.cost_usd == 0 and self._is_free(plan))):
            self._write(lambda state: self._end(state, plan, trial, had_share=had_share))

    def note(self, usage: Usage, who: str) -> None:
        """Count what was paid beside the pool's trials, such as for judges that are calibrated."""
        self._write(lambda state: self._pay(self._initialized(state), usage, who))

    def refusal(self) -> NotRun | None:
        """Return why nothing more may start beside the pool's trials; None if it may."""
        return self._ledger.change(self._refusal)

    def paid(self) -> Amounts:
        """Return what the run has paid so far, as far as that is known."""
        return self._ledger.change(lambda state: dict(self._initialized(state)["paid"]))

    def is_known(self, kind: Kind) -> bool:
        return self._ledger.change(lambda state: kind not in self._initialized(state)["unknown"])

    def _write(self, change: Callable[[State], None]) -> None:
        # A failure is raised at the next decision: this trial must be able to end.
        try:
            self._ledger.change(change)
        except OSError as failed:
            self._unwritten = failed

    def _initialized(self, state: State) -> State:
        if not state:
            before = self._paid_before()
            known = {kind: figure.known for kind, figure in before.items()}
            unknown = [kind for kind, figure in before.items() if figure.unknown]
            state.update(paid={"usd": 0.0, "tokens": 0} | known, unknown=unknown, groups={}, in_flight={})
        return state

    def _refusal(self, state: State) -> NotRun | None:
        self._initialized(state)
        if "stopped" in state:
            return NotRun(*state["stopped"])
        spent = (kind for kind, allowed in self.allowed.items() if state["paid"][kind] >= allowed)
        return next((self._spent(state, kind, None) for kind in spent), None)

    def _decide(self, state: State, plan: Plan) -> Decision:
        self._initialized(state)
        if "stopped" in state:
            return NotRun(*state["stopped"])
        name = group_of(plan)
        group = state["groups"].setdefault(name, {})
        if "not_run" in group:
            return NotRun("budget", group["not_run"])
        # The highest limit of the group's trials; None if one of them has no limit.
        limits = group.setdefault("limits", dict.fromkeys(KINDS, 0.0))
        for kind in KINDS:
            limit, known = _limit(plan.task.limits, kind), limits[kind]
            limits[kind] = None if limit is None or known is None else max(limit, known)
        lacking = self._lacking(state, name, plan)
        if lacking is not None and self._count_the_dead(state):
            lacking = self._lacking(state, name, plan)
        if lacking is None:
            own = state["in_flight"].setdefault(self._process, {})
            own[name] = own.get(name, 0) + 1
            return "begin"
        if any(_in_flight(state).values()):
            return "wait"
        why = self._spent(state, lacking, self._expected(state, name, plan, lacking))
        group["not_run"] = why.reason
        return why

    def _lacking(self, state: State, name: str, plan: Plan) -> Kind | None:
        # The kind of which too little is left for a trial.
        return next((kind for kind in self.allowed if not self._fits(state, name, plan, kind)), None)

    def _fits(self, state: State, name: str, plan: Plan, kind: Kind) -> bool:
        taken = state["paid"][kind] + sum(self._shares(state, kind))
        expected, allowed = self._expected(state, name, plan, kind), self.allowed[kind]
        if expected is not None:
            return bool(taken + expected.mean <= allowed)
        most = _limit(plan.task.limits, kind)
        first = not _in_flight(state).get(name) and taken < allowed
        return first or (most is not None and taken + most <= allowed)

    def _expected(self, state: State, name: str, plan: Plan, kind: Kind) -> ExpectedUse | None:
        """Return what a trial is expected to take: as those like it in this run, else as in earlier runs."""
        group = state["groups"][name]
        seen = group.get(kind)
        if seen is not None:
            return ExpectedUse(seen["sum"] / seen["ended"], seen["most"], seen["ended"])
        before = self._expectations(plan, kind)
        # Stored for the shares of other trials of the group that are in flight.
        if before is not None:
            known = group.setdefault("before", {}).setdefault(kind, [before.most, before.known])
            known[0] = max(known[0], before.most)
        return before

    def _shares(self, state: State, kind: Kind) -> Iterator[float]:
        """Yield what trials in flight may still take, by suite and model."""
        for name, count in _in_flight(state).items():
            group = state["groups"][name]
            before, known = group.get("before", {}).get(kind, (0.0, 0))
            seen = group.get(kind, {"most": 0.0, "ended": 0})
            ended = seen["ended"] + known
            room = 1 + 1 / sqrt(ended) if ended >= count else LITTLE_KNOWN
            share = max(seen["most"], before) * room
            limit = group["limits"][kind]
            if limit is not None:
                share = min(share, limit) if ended else limit
            yield count * share

    def _count_the_dead(self, state: State) -> bool:
        """Count what was in flight in processes that died as the average; returns whether there was any."""
        dead = [each for each in state["in_flight"] if not self._is_alive(int(each))]
        for process in dead:
            for name, count in state["in_flight"].pop(process).items():
                self._pay_mean(state, name, count)
        return bool(dead)

    @staticmethod
    def _pay_mean(state: State, name: str, count: int = 1) -> None:
        """Count trials with unknown usage as the mean of those like them."""
        group = state["groups"].get(name, {})
        for kind in KINDS:
            if kind in group:
                state["paid"][kind] += count * group[kind]["sum"] / group[kind]["ended"]

    def _end(self, state: State, plan: Plan, trial: Trial | None, *, had_share: bool) -> None:
        name = group_of(plan)
        if had_share:
            own = self._initialized(state)["in_flight"].get(self._process, {})
            own[name] = max(0, own.get(name, 0) - 1)
        if trial is None:
            self._pay_mean(state, name)
            return
        # If the agent sent requests by itself, the replies name the model.
        who = ", ".join(trial.transcript.models) or trial.key.model
        self._pay(self._initialized(state), trial.spending, who)
        # It was lost with its process, and its usage with it.
        if trial.cause == "executor":
            self._pay_mean(state, name)
            return
        _count(state["groups"].setdefault(name, {}), trial)

    def _pay(self, state: State, usage: Usage, who: str) -> None:
        figures: Mapping[Kind, Figure] = {"usd": cost_figure(usage), "tokens": token_figure(usage)}
        for kind, figure in figures.items():
            state["paid"][kind] += figure.known
            if figure.unknown and kind in self.allowed:
                state["unknown"] = sorted({*state["unknown"], kind})
                option = OPTIONS[kind]
                if usage.tokens is not None:
                    table = f"[tool.agenteval.prices.{compact_json(who.partition(', ')[0])}]"
                    remedy = f"set {table} in pyproject.toml"
                    stopped = ["unpriced", f"the price of {who} is unknown: {remedy}, or remove {option}"]
                else:
                    reason = f"{who} returned no token usage, which {option} counts: {HOW_TO_GET_USAGE}"
                    stopped = ["untold", f"{reason}, or remove {option}"]
                state.setdefault("stopped", stopped)

    def _spent(self, state: State, kind: Kind, expected: ExpectedUse | None) -> NotRun:
        allowed, paid = self.allowed[kind], state["paid"][kind]
        budget = f"the budget of {amount_text(kind, allowed)}"
        if expected is None or paid >= NEARLY * allowed:
            return NotRun("budget", f"{budget} was spent ({amount_text(kind, paid)})")
        left, mean = amount_text(kind, allowed - paid), amount_text(kind, expected.mean)
        return NotRun("budget", f"{budget} leaves {left}, and a trial like it takes about {mean}")


def group_of(plan: Plan) -> str:
    """Return the group of trials that are assumed to cost alike: those of one suite with one model."""
    return f"{plan.task.suite} {plan.model.name}"


def amount_text(kind: Kind, amount: float) -> str:
    """Format an amount: ``$5``, ``$4.97``, ``$0.0412``, ``12,000 tokens``."""
    if kind == "tokens":
        return "1 token" if amount == 1 else f"{amount:,.0f} tokens"
    if amount >= 0.001:
        digits = 2 if amount >= 0.1 else 4
        return f"${amount:.0f}" if amount == round(amount) else f"${amount:.{digits}f}"
    return f"${amount:.{2 - ceil(log10(amount) + 1e-9)}f}" if amount > 0 else "$0"


def _limit(limits: Allowance, kind: Kind) -> float | None:
    return limits.cost_usd if kind == "usd" else limits.tokens


def _in_flight(state: State) -> dict[str, int]:
    # Of all processes, by suite and model.
    counts: dict[str, int] = {}
    for own in state["in_flight"].values():
        for name, count in own.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _count(group: State, trial: Trial) -> None:
    # A trial that broke and cost nothing shows nothing about what others cost.
    paid = trial.spending
    amounts: Mapping[Kind, float | None] = {"tokens": paid.tokens, "usd": paid.cost_usd}
    for kind, amount in amounts.items():
        if amount or (amount is not None and trial.ending != "errored"):
            seen = group.setdefault(kind, {"ended": 0, "sum": 0.0, "most": 0.0})
            seen["ended"] += 1
            seen["sum"] += amount
            seen["most"] = max(seen["most"], amount)
