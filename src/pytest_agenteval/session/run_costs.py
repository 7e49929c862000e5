"""What a run may cost and is expected to: its budget, and what earlier trials took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.engine.run_budget import (
    BudgetLedger,
    ExpectedUse,
    Kind,
    LocalLedger,
    RunBudget,
    amount_text,
)
from pytest_agenteval.engine.trial_resources import chat_cassette_file, chat_mode
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.processes.files import LockedState
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan, Prices, own_price
from pytest_agenteval.records.transcript import PARTLY_UNKNOWN, Figure, Usage, cost_figure, token_figure
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import PLAYERS
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.run_signals import BUDGET_FILES
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stash import budget_key
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunFolder, list_runs, read_header
from pytest_agenteval.store.run_follower import paid_so_far
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake

MOST_RUNS = 10  # runs that are looked into, the newest first


class EarlierCosts:
    """The trials of the latest runs in a folder of results; read when they are first needed.

    Those of a resumed run are among them.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self.entries = cache(self._of_model)
        self._read = cache(_entries_of)

    def of(self, plan: Plan, kind: Kind) -> ExpectedUse | None:
        """Give what a trial of the same task and model took, else one of the same suite and model."""
        amounts = {}
        for entry in self.entries(plan.task.suite, plan.model.name, plan.model.id):
            # What a trial takes that replays nothing: the usage of agent, judges and user together.
            usage = entry.usage + entry.judging + entry.simulating
            amount = usage.tokens if kind == "tokens" else usage.cost_usd
            if entry.ending != "errored" and amount is not None:
                amounts[entry.key] = amount
        if not amounts:
            return None
        own = [amount for key, amount in amounts.items() if key.task == plan.task.id]
        of_task = own or list(amounts.values())
        return ExpectedUse(sum(of_task) / len(of_task), max(amounts.values()), len(amounts))

    def _of_model(self, suite: str, model: str, id: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with a model, of all runs that are looked into."""
        return [
            entry
            for run in self._runs_of(suite)
            if any((each.name, each.id) == (model, id) for each in run.header.models)
            for entry in self._read(run.path)
            if entry.key.suite == suite and entry.key.model == model
        ]

    def of_other_models(self, suite: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with any real model."""
        found = []
        for run in self._runs_of(suite):
            offline = {model.name for model in run.header.models if model.offline}
            found += [
                entry
                for entry in self._read(run.path)
                if entry.key.suite == suite and entry.key.model not in offline
            ]
        return found

    def _runs_of(self, suite: str) -> list[RunFolder]:
        return [run for run in self._runs if any(each.name == suite for each in run.header.suites)]

    @cached_property
    def _runs(self) -> Sequence[RunFolder]:
        return list_runs(self._results)[:MOST_RUNS]


def _entries_of(folder: Path) -> Sequence[JournalEntry]:
    try:
        return load_run(folder).entries
    except (UsageMistake, OSError):  # of a newer version, or half deleted
        return ()


def get_run_budget(config: pytest.Config, settings: Settings) -> RunBudget | None:
    """Give the budget of this run, one object for the whole process; None where nothing limits the run."""
    allowed = allowed_amounts(settings)
    if not allowed:
        return None
    if budget_key not in config.stash:
        info = get_run_info(config)
        # The file in which the processes of a run count together. A process that is alone needs no file.
        file = info.folder / BUDGET_FILES.replace("*", str(info.controller))
        is_shared = hasattr(config, "workerinput") or file.exists()
        ledger: BudgetLedger = LockedState(file) if is_shared else LocalLedger()
        config.stash[budget_key] = RunBudget(
            allowed,
            ledger,
            EarlierCosts(settings.results or config.rootpath / RESULTS).of,
            paid_before=lambda: _paid_before(info.folder),
            is_free=free_trials(settings),
            is_alive=is_running,
        )
    budget: RunBudget = config.stash[budget_key]
    return budget


def allowed_amounts(settings: Settings) -> dict[Kind, float]:
    """Give what a run may take, as far as options limit it."""
    amounts: dict[Kind, float | None] = {"usd": settings.max_cost, "tokens": settings.max_tokens}
    return {kind: amount for kind, amount in amounts.items() if amount is not None}


def _paid_before(folder: Path) -> Mapping[Kind, Figure]:
    try:
        models = read_header(folder).models
    except UsageMistake:  # which is reported when the run is read
        models = ()
    paid = paid_so_far(folder, {model.name for model in models if model.offline})
    return {"usd": cost_figure(paid), "tokens": token_figure(paid)}


def free_trials(settings: Settings) -> Callable[[Plan], bool]:
    """Give a function that says whether a trial costs nothing, for its recordings or for its model."""

    def is_free(plan: Plan) -> bool:
        conditions = plan.conditions
        if conditions.record_chat == "none":
            return True
        if conditions.record_chat == "once" and Path(chat_cassette_file(plan)).exists():
            return True
        if conditions.judges or (conditions.user is not None and plan.task.user):
            return False
        return settings.regrade != () or acts_for_nothing(plan)

    return is_free


def acts_for_nothing(plan: Plan) -> bool:
    """Whether a trial calls no paid model for its agent and its user; its judges may cost."""
    conditions = plan.conditions
    # A server on this machine may pass requests on to a model that costs.
    may_send = plan.asks_own_models or (conditions.loopback and chat_mode(plan) == "off")
    asks_nobody = plan.model.id in PLAYERS or (plan.model.id == OWN_MODEL and not may_send)
    has_user = conditions.user is not None and bool(plan.task.user)
    return asks_nobody and not has_user and not plan.live and conditions.record_chat == "off"


def budget_lines(config: pytest.Config, settings: Settings) -> list[str]:
    budget = get_run_budget(config, settings)
    if budget is None:
        return []
    paid = budget.paid()
    return [
        f"budget: {amount_text(kind, paid[kind])}{'' if budget.is_known(kind) else PARTLY_UNKNOWN}"
        f" of {amount_text(kind, allowed)}"
        for kind, allowed in budget.allowed.items()
    ]


# The standard deviation of one task's trials, as a share of their mean, where too few trials show it.
SCATTER = 0.5
# From so many repetitions on, beyond the first of each task, they show it themselves.
ENOUGH = 5
# Standard deviations to both sides: 19 of 20 runs are within.
SPREAD = 2.0


class Range(NamedTuple):
    """The low and the high end of an amount, and whether there is an unknown amount besides."""

    low: float
    high: float
    unknown: bool = False

    def __add__(self, other: object) -> Range:
        """Add two amounts, of which each may be at either of its ends."""
        if not isinstance(other, Range):
            return NotImplemented
        return Range(self.low + other.low, self.high + other.high, self.unknown or other.unknown)


ZERO = Range(0.0, 0.0)


class TaskHistory(NamedTuple):
    """What each trial of a task took before, and how many are to be made."""

    amounts: Sequence[float]
    trials: int

    @property
    def mean(self) -> float:
        return sum(self.amounts) / len(self.amounts)


def predicted(tasks: Iterable[TaskHistory]) -> Range:
    """Predict what all these trials will take together, from the means of few earlier ones."""
    # The variance has two parts: that of the new trials, and that of the means. Amounts are taken as
    # log-normal, whose sigma is sqrt(log(1 + (deviation / mean)²)), so that both ends are factors of the sum.
    known = [task for task in tasks if task.trials and task.amounts]
    total = sum(task.mean * task.trials for task in known)
    if not total:
        return ZERO
    share = scatter(known)
    variance = sum(
        (share * task.mean) ** 2 * (task.trials**2 / len(task.amounts) + task.trials) for task in known
    )
    deviation = math.sqrt(math.log1p(variance / total**2))
    return Range(total * math.exp(-SPREAD * deviation), total * math.exp(SPREAD * deviation))


def scatter(tasks: Sequence[TaskHistory]) -> float:
    """Give the standard deviation of one task's trials, as a share of their mean."""
    repeated = [task for task in tasks if len(task.amounts) > 1 and task.mean]
    freedom = sum(len(task.amounts) - 1 for task in repeated)
    if freedom < ENOUGH:
        return SCATTER
    # Pooled over all tasks; each task's mean takes one degree of freedom.
    squares = sum((amount / task.mean - 1) ** 2 for task in repeated for amount in task.amounts)
    return math.sqrt(squares / freedom)


# What the estimate of a trial is based on: earlier trials of its task, those with other models, those of its
# suite's other tasks, or nothing.
BEFORE, OTHERS, ALIKE, UNKNOWN = "before", "other models", "alike", "unknown"


class Amounts(NamedTuple):
    """What trials will take."""

    tokens: Range
    usd: Range
    sources: Mapping[str, int]  # trials, by what their estimate is based on


class Estimator:
    """Says what trials will take, by those of earlier runs."""

    def __init__(self, earlier: EarlierCosts, registry: Registry, prices: Prices) -> None:
        self._earlier, self._registry, self._prices = earlier, registry, prices

    def amounts(self, plans: Sequence[Plan], *, judges_only: Callable[[Plan], bool]) -> Amounts:
        """Give what these trials will take, which are of one suite, model and variant."""
        sources: Counter[str] = Counter()
        tokens, usd = _Sum(), _Sum()
        by_task: dict[str, list[Plan]] = {}
        for plan in plans:
            by_task.setdefault(plan.task.id, []).append(plan)
        for task_plans in by_task.values():
            plan = task_plans[0]
            acting = sum(not judges_only(each) for each in task_plans)
            source, spent = self._before(plan) if acting else (BEFORE, [])
            sources[source] += acting
            if acting:
                tokens.add(source, [amount for amount, _ in spent], acting)
                usd.add(source, [amount for _, amount in spent], acting)
            self._add_judges(plan, len(task_plans), tokens, usd)
        return Amounts(tokens.range(), usd.range(), sources)

    def _before(self, plan: Plan) -> tuple[str, list[tuple[float, float | None]]]:
        """Give how near the nearest earlier trials are to this one, and what they took."""
        suite, task, model = plan.task.suite, plan.task.id, plan.model
        same = [
            entry for entry in self._earlier.entries(suite, model.name, model.id) if entry.ending != "errored"
        ]
        of_task = [entry for entry in same if entry.key.task == task]
        own = [entry for entry in of_task if entry.key.variant == plan.variant.name] or of_task
        if own:
            return BEFORE, self._spent(own, model, own_costs=True)
        others = [entry for entry in self._earlier.of_other_models(suite) if entry.key.task == task]
        if any(entry.usage.tokens for entry in others):
            return OTHERS, self._spent(others, model, own_costs=False)
        return (ALIKE, self._spent(same, model, own_costs=True)) if same else (UNKNOWN, [])

    def _spent(
        self, entries: Sequence[JournalEntry], model: Model, *, own_costs: bool
    ) -> list[tuple[float, float | None]]:
        """Give the tokens and US dollars of each of these trials whose tokens are known."""
        is_priced_before = own_costs and own_price(self._prices, model.name, model.id) is None
        spent: list[tuple[float, float | None]] = []
        for entry in entries:
            usage = entry.usage + entry.simulating
            cost = usage.cost_usd if is_priced_before else None
            if (tokens := usage.tokens) is not None:
                spent.append((tokens, self._price(usage, entry, model) if cost is None else cost))
        return spent

    def _price(self, usage: Usage, entry: JournalEntry, model: Model) -> float | None:
        name = model.id if not entry.own_models else entry.own_models[0]
        unpriced = Usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, cost_usd=None)
        return with_price(name, unpriced, prices=self._prices, requested=model.name).cost_usd

    def _add_judges(self, plan: Plan, trials: int, tokens: _Sum, usd: _Sum) -> None:
        factories = (self._registry.grader_factory(grader.name) for grader in plan.task.graders)
        if plan.conditions.judges and any(map(asks_judges, factories)):
            entries = self._earlier.entries(plan.task.suite, plan.model.name, plan.model.id)
            judged = [entry for entry in entries if entry.key.task == plan.task.id and entry.judging.asks]
            tokens.add(BEFORE, [entry.judging.tokens for entry in judged], trials)
            usd.add(BEFORE, [entry.judging.cost_usd for entry in judged], trials)


class _Sum:
    """Amounts of several tasks together; unknown as soon as one of them is."""

    def __init__(self) -> None:
        self._histories: dict[str, list[TaskHistory]] = {}
        self._is_unknown = False

    def add(self, source: str, amounts: Sequence[float | None], trials: int) -> None:
        """Add ``trials`` to come, of whose task earlier trials took these amounts."""
        known = [amount for amount in amounts if amount is not None]
        if known:
            self._histories.setdefault(source, []).append(TaskHistory(known, trials))
        else:
            self._is_unknown = True

    def range(self) -> Range:
        return sum(map(predicted, self._histories.values()), ZERO._replace(unknown=self._is_unknown))
