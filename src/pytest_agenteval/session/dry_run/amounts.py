"""What the trials of a suite with one model will take: tokens and US dollars, each as a range or unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.prices import Prices, own_price
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.session.dry_run.ranges import ZERO, Range, TaskHistory, predicted
from pytest_agenteval.session.dry_run.sizes import Guess, TaskSizes
from pytest_agenteval.session.earlier_costs import EarlierCosts
from pytest_agenteval.store.journal_entry import JournalEntry

BEFORE, OTHERS, ALIKE, SIZE, UNKNOWN = "before", "other models", "alike", "size", "unknown"
"""From what is known what a trial takes: trials of its task before, with other models, of its suite's other
tasks, the size of its task; or from nothing."""


class Amounts(NamedTuple):
    """What trials will take; None where nobody knows anything of it.

    ``more_tokens`` and ``more_usd`` say that there is more, and nobody knows how much. ``sources`` counts
    trials by what that is known from.
    """

    tokens: Range | None
    usd: Range | None
    sources: Mapping[str, int]
    more_tokens: bool = False
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
        for task_plans in _by_task(plans):
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
        """Give what trials took before that tell of this one, and how near they are to it."""
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
        return with_price(name, unpriced, prices=self._prices, asked=model.name).cost_usd

    def _add_judges(self, plan: Plan, trials: int, tokens: _Sum, usd: _Sum) -> None:
        guess = self._sizes.judges(plan)
        if guess is None:
            return
        judges, model = plan.conditions.judges, plan.model
        asked = [
            entry
            for entry in self._earlier.entries(plan.task.suite, model.name, model.id)
            if entry.key.task == plan.task.id and entry.judging.asks
        ]
        if asked:
            tokens.add_history(BEFORE, [entry.judging.tokens for entry in asked], trials)
            usd.add_history(BEFORE, [entry.judging.cost_usd for entry in asked], trials)
            return
        for judge in judges:
            share = Guess(_share(guess.sent, len(judges)), _share(guess.replied, len(judges)))
            self._add_guess(share, judge, trials, tokens, usd)

    def _add_guess(self, guess: Guess | None, model: Model, trials: int, tokens: _Sum, usd: _Sum) -> None:
        if guess is None:
            tokens.add(None)
            usd.add(None)
            return
        tokens.add(guess.tokens.times(trials))
        ends = [self._price_of(model, sent, replied) for sent, replied in zip(*guess, strict=True)]
        low, high = ends
        usd.add(None if low is None or high is None else Range(low, high).times(trials))

    def _price_of(self, model: Model, sent: float, replied: float) -> float | None:
        usage = Usage(round(sent), max(1, round(replied)), cost_usd=None)
        return with_price(model.id, usage, prices=self._prices, asked=model.name).cost_usd


class _Sum:
    """Amounts of several tasks together; ``is_unknown`` as soon as one of them is."""

    def __init__(self) -> None:
        self._histories: dict[str, list[TaskHistory]] = {}
        self._guesses = ZERO
        self.is_unknown = False

    def add(self, guess: Range | None) -> None:
        """Add what was guessed."""
        if guess is None:
            self.is_unknown = True
        else:
            self._guesses = self._guesses + guess

    def add_history(self, source: str, amounts: Sequence[float | None], trials: int) -> None:
        """Add so many trials, of which others took these amounts."""
        known = [amount for amount in amounts if amount is not None]
        if known:
            self._histories.setdefault(source, []).append(TaskHistory(known, trials))
        else:
            self.is_unknown = True

    def range(self) -> Range | None:
        """Give what all of it takes."""
        known = sum(map(predicted, self._histories.values()), self._guesses)
        return None if self.is_unknown and known == ZERO else known


def _by_task(plans: Sequence[Plan]) -> Iterator[list[Plan]]:
    by_task: dict[str, list[Plan]] = {}
    for plan in plans:
        by_task.setdefault(plan.task.id, []).append(plan)
    yield from by_task.values()


def _share(amount: Range, number: int) -> Range:
    return Range(amount.low / number, amount.high / number)
