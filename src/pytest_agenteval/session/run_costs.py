"""What a run may cost and is expected to: its budget, what earlier trials took, and estimates by size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_agenteval.agents.agent import templates_of, tools_of
from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.engine.run_budget import (
    BudgetLedger,
    ExpectedUse,
    Kind,
    LocalLedger,
    RunBudget,
    amount_text,
)
from pytest_agenteval.engine.trial_resources import chat_cassette_file
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.processes.files import LockedState
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan, PlannedTask, Prices, Variant, own_price
from pytest_agenteval.records.transcript import PARTLY_UNKNOWN, Figure, Usage, cost_figure, token_figure
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import PLAYERS
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.run_signals import BUDGET_FILES
from pytest_agenteval.session.settings import RESULTS, Settings
from pytest_agenteval.session.stash import budget_key
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.journal_tail import paid_so_far
from pytest_agenteval.store.run_folder import RunFolder, list_runs, read_header
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import compact_json

MOST_RUNS = 10  # runs that are looked into, the newest first


class EarlierCosts:
    """The trials of the latest runs in a folder of results; read when they are first needed.

    Those of a resumed run are among them.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._by_group: dict[tuple[str, str], Sequence[JournalEntry]] = {}
        self._read: dict[Path, Sequence[JournalEntry]] = {}

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

    def entries(self, suite: str, model: str, id: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with a model, of all runs that are looked into."""
        key = suite, model
        if key not in self._by_group:
            self._by_group[key] = [
                entry
                for run in self._runs_of(suite)
                if any((each.name, each.id) == (model, id) for each in run.header.models)
                for entry in self._entries(run)
                if entry.key.suite == suite and entry.key.model == model
            ]
        return self._by_group[key]

    def of_other_models(self, suite: str) -> Sequence[JournalEntry]:
        """Give the trials of a suite with any real model."""
        found = []
        for run in self._runs_of(suite):
            offline = {model.name for model in run.header.models if model.offline}
            found += [
                entry
                for entry in self._entries(run)
                if entry.key.suite == suite and entry.key.model not in offline
            ]
        return found

    def _runs_of(self, suite: str) -> list[RunFolder]:
        return [run for run in self._runs if any(each.name == suite for each in run.header.suites)]

    @cached_property
    def _runs(self) -> Sequence[RunFolder]:
        return list_runs(self._results)[:MOST_RUNS]

    def _entries(self, run: RunFolder) -> Sequence[JournalEntry]:
        if run.path not in self._read:
            try:
                self._read[run.path] = load_run(run.path).entries
            except (UsageMistake, OSError):  # of a newer version, or half deleted
                self._read[run.path] = ()
        return self._read[run.path]


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
    asks_nobody = plan.model.id in PLAYERS or (plan.model.id == OWN_MODEL and not plan.asks_own_models)
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
    """The low and the high end of an amount."""

    low: float
    high: float

    def __add__(self, other: object) -> Range:
        """Add two amounts, of which each may be at either of its ends."""
        if not isinstance(other, Range):
            return NotImplemented
        return Range(self.low + other.low, self.high + other.high)

    def times(self, number: int) -> Range:
        return Range(self.low * number, self.high * number)


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


# ASCII letters that count as a token; each letter of another script counts as one.
PLAIN_LETTERS = 4
# The factors by which the count of sent tokens may be off.
READ = (0.8, 1.3)
# The fewest and most tokens of a reply, and of the result of a tool.
REPLY, RESULT = (20, 500), (20, 1000)
# The fewest and most replies of an agent with tools to each turn of the user; without tools there is one.
LEAST_ASKS, MOST_ASKS = 2, 12
# Tokens of the declarations of tools, where an agent makes them for each trial.
MADE_TOOLS = 1500.0
# The fewest and most tokens that a judge receives beside the task, and that it replies.
RUBRIC, VERDICT = (300, 2000), (30, 400)


class Guess(NamedTuple):
    """The tokens that models receive, and those that they reply."""

    sent: Range
    replied: Range

    @property
    def tokens(self) -> Range:
        return self.sent + self.replied


class TaskSizes:
    """Guesses by the size of tasks; each agent with its tools and prompts is measured once."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._context = registry, WorkerContext(registry)
        # The task is stored too: while it lives, no other object has the ids in the key.
        self._agents: dict[object, tuple[PlannedTask, tuple[float, float] | None]] = {}

    def agent(self, plan: Plan) -> Guess | None:
        """Guess what an agent of ours takes; None for one whose prompts are not known here."""
        task = plan.task
        if task.form or self._registry.is_own_agent(task.agent):
            return None
        key = task.agent, task.tools, id(task.prompts), id(plan.variant.prompts)
        if key not in self._agents:
            try:
                self._agents[key] = task, self._prompts_and_tools(task, plan.variant)
            except Exception:  # a suite's own code, whose trials will show what is wrong with it
                self._agents[key] = task, None
        measured = self._agents[key][1]
        if measured is None:
            return None
        prompts, tools = measured
        turns = max(1, sum(turn.get("role") == "user" for turn in task.input.get("turns") or ()))
        base = tokens_of(compact_json(task.input)) + prompts + tools
        asks = (turns, turns)
        if tools:
            most = min(MOST_ASKS * turns, task.limits.steps or MOST_ASKS * turns)
            asks = (min(LEAST_ASKS * turns, most), most)
        guess = _conversation(base, asks, with_results=bool(tools))
        limit = task.limits.tokens
        if limit is None or guess.tokens.high <= limit:
            return guess
        share = limit / guess.tokens.high  # a trial takes no more than its limit
        return Guess(*(Range(min(part.low, part.high * share), part.high * share) for part in guess))

    def judges(self, plan: Plan) -> Guess | None:
        """Guess what the judges of a trial take together; None where it has none."""
        factories = (self._registry.grader_factory(grader.name) for grader in plan.task.graders)
        asks = len(plan.conditions.judges) * sum(map(asks_judges, factories))
        if not asks:
            return None
        size = tokens_of(compact_json(plan.task.input))
        sent = Range(size * READ[0] + RUBRIC[0], size * READ[1] + RUBRIC[1] + REPLY[1])
        return Guess(sent.times(asks), Range(*map(float, VERDICT)).times(asks))

    def _prompts_and_tools(self, task: PlannedTask, variant: Variant) -> tuple[float, float]:
        agent = self._context.make_agent_instance(task, variant).agent
        prompts = {**(templates_of(agent) or {}), **task.prompts, **variant.prompts}
        offered = self._context.tools(task)
        names: Iterable[str] = tools_of(agent) or self._context.suite_tools(task)
        declared = [compact_json(offered[name].spec.declaration()) for name in names if name in offered]
        made = MADE_TOOLS if hasattr(agent, "make_tools") else 0.0
        return sum(map(tokens_of, prompts.values())), sum(map(tokens_of, declared)) + made


def tokens_of(text: str) -> float:
    plain = sum(letter.isascii() for letter in text)
    return plain / PLAIN_LETTERS + (len(text) - plain)


def _conversation(base: float, asks: tuple[int, int], *, with_results: bool) -> Guess:
    """Add up what is sent: each request holds all messages before it, so requests grow by one step each."""
    sent, replied = [], []
    for end, number in enumerate(asks):
        added = REPLY[end] + (RESULT[end] if with_results else 0)
        sent.append(number * base * READ[end] + added * number * (number - 1) / 2)
        replied.append(float(number * REPLY[end]))
    return Guess(Range(*sent), Range(*replied))


# What the estimate of a trial is based on: earlier trials of its task, those with other models, those of its
# suite's other tasks, the size of its task, or nothing.
BEFORE, OTHERS, ALIKE, SIZE, UNKNOWN = "before", "other models", "alike", "size", "unknown"


class Amounts(NamedTuple):
    """What trials will take; None where nothing is known of it."""

    tokens: Range | None
    usd: Range | None
    sources: Mapping[str, int]  # trials, by what their estimate is based on
    more_tokens: bool = False  # there is an unknown amount besides
    more_usd: bool = False


class _Spent(NamedTuple):
    """What one trial took before."""

    tokens: float
    usd: float | None


class Estimator:
    """Says what trials will take, by earlier runs first and else by size."""

    def __init__(self, earlier: EarlierCosts, sizes: TaskSizes, prices: Prices) -> None:
        self._earlier, self._sizes, self._prices = earlier, sizes, prices

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
            if spent:
                tokens.add_history(source, [each.tokens for each in spent], acting)
                usd.add_history(source, [each.usd for each in spent], acting)
            elif acting:
                self._add_guess(self._sizes.agent(plan), plan.model, acting, tokens, usd)
            self._add_judges(plan, len(task_plans), tokens, usd)
        if sources[SIZE] and tokens.is_unknown:
            sources[UNKNOWN] += sources.pop(SIZE)
        return Amounts(tokens.range(), usd.range(), sources, tokens.is_unknown, usd.is_unknown)

    def _before(self, plan: Plan) -> tuple[str, list[_Spent]]:
        """Give what the earlier trials took that are nearest to this one, and how near they are."""
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
        return (ALIKE, self._spent(same, model, own_costs=True)) if same else (SIZE, [])

    def _spent(self, entries: Sequence[JournalEntry], model: Model, *, own_costs: bool) -> list[_Spent]:
        is_priced_before = own_costs and own_price(self._prices, model.name, model.id) is None
        spent = []
        for entry in entries:
            usage = entry.usage + entry.simulating
            cost = usage.cost_usd if is_priced_before else None
            if (tokens := usage.tokens) is not None:
                spent.append(_Spent(tokens, self._price(usage, entry, model) if cost is None else cost))
        return spent

    def _price(self, usage: Usage, entry: JournalEntry, model: Model) -> float | None:
        name = model.id if not entry.own_models else entry.own_models[0]
        unpriced = Usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, cost_usd=None)
        return with_price(name, unpriced, prices=self._prices, requested=model.name).cost_usd

    def _add_judges(self, plan: Plan, trials: int, tokens: _Sum, usd: _Sum) -> None:
        guess = self._sizes.judges(plan)
        if guess is None:
            return
        judges, model = plan.conditions.judges, plan.model
        judged = [
            entry
            for entry in self._earlier.entries(plan.task.suite, model.name, model.id)
            if entry.key.task == plan.task.id and entry.judging.asks
        ]
        if judged:
            tokens.add_history(BEFORE, [entry.judging.tokens for entry in judged], trials)
            usd.add_history(BEFORE, [entry.judging.cost_usd for entry in judged], trials)
            return
        share = Guess(*(Range(part.low / len(judges), part.high / len(judges)) for part in guess))
        for judge in judges:
            self._add_guess(share, judge, trials, tokens, usd)

    def _add_guess(self, guess: Guess | None, model: Model, trials: int, tokens: _Sum, usd: _Sum) -> None:
        if guess is None:
            tokens.add(None)
            usd.add(None)
            return
        tokens.add(guess.tokens.times(trials))
        costs = []
        for sent, replied in zip(*guess, strict=True):
            usage = Usage(round(sent), max(1, round(replied)), cost_usd=None)
            costs.append(with_price(model.id, usage, prices=self._prices, requested=model.name).cost_usd)
        low, high = costs
        usd.add(None if low is None or high is None else Range(low, high).times(trials))


class _Sum:
    """Amounts of several tasks together; ``is_unknown`` as soon as one of them is."""

    def __init__(self) -> None:
        self._histories: dict[str, list[TaskHistory]] = {}
        self._guesses = ZERO
        self.is_unknown = False

    def add(self, guess: Range | None) -> None:
        if guess is None:
            self.is_unknown = True
        else:
            self._guesses = self._guesses + guess

    def add_history(self, source: str, amounts: Sequence[float | None], trials: int) -> None:
        """Add ``trials`` to come, of whose task earlier trials took these amounts."""
        known = [amount for amount in amounts if amount is not None]
        if known:
            self._histories.setdefault(source, []).append(TaskHistory(known, trials))
        else:
            self.is_unknown = True

    def range(self) -> Range | None:
        """Give the sum; None where nothing of it is known."""
        known = sum(map(predicted, self._histories.values()), self._guesses)
        return None if self.is_unknown and known == ZERO else known
