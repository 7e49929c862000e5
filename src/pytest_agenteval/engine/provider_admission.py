"""Trials begin only where every model that they need can be had."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_agenteval.engine.admission import Decision, NotRun
from pytest_agenteval.engine.executors.executor import ExecutorContext
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import ProviderDown

if TYPE_CHECKING:
    from pytest_agenteval.chat.rate_limiter import RateLimiters
    from pytest_agenteval.chat.rate_shares import ModelStanding, ShareStore

LOOK_S = 0.5
"""Seconds for which is believed what was seen of the models."""


def gates_of_run(context: ExecutorContext, store: ShareStore | None = None) -> RateLimiters:
    """Give this process's gates of a run: whoever carries out its trials here, or lets them begin, has these.

    A run whose processes ask models side by side has one file for all, unless there is a ``store``.
    """
    from pytest_agenteval.chat.rate_limiter import RateLimiters, limiters_at

    if store is not None:
        return RateLimiters(store, context.concurrency)
    if not context.rates:
        return RateLimiters(most=context.concurrency)
    if context.is_alone:
        return limiters_at(context.rates, lambda: RateLimiters(most=context.concurrency))
    from pytest_agenteval.chat.rate_shares import FileShareStore

    return limiters_at(
        context.rates, lambda: RateLimiters(FileShareStore(Path(context.rates)), context.concurrency)
    )


def standings_of_run(rates: str) -> Mapping[str, ModelStanding]:
    """Say how the models fare that a run's processes on this machine have asked, by their keys."""
    from pytest_agenteval.chat.rate_limiter import standings_at

    return {each.model: each for each in standings_at(rates)}


class ProviderAdmission:
    """Lets a trial begin where the models of its agent, its user and its judges reply.

    One that replies to nobody just now is waited for, and others go first: while no request will tell when
    that is over, one trial after another begins that needs it. After one that is gone nothing begins that
    needs it: no agent is paid for what no judge can grade. ``standings`` are looked at now and then, by the
    key of each model.
    """

    def __init__(
        self, standings: Callable[[], Mapping[str, ModelStanding]], registry: Registry, look_s: float = LOOK_S
    ) -> None:
        self._standings, self._registry, self._look_s = standings, registry, look_s
        self._seen: dict[str, ModelStanding] = {}
        self._looked = float("-inf")
        self._judged: dict[str, bool] = {}

    def decide(self, plan: Plan) -> Decision:
        """Say whether a trial may begin."""
        needed = tuple(self._needed(plan))
        if not needed:
            return "begin"
        now = time.monotonic()
        if now - self._looked >= self._look_s:
            self._seen, self._looked = self._troubled(), now
        if not self._seen:
            return "begin"
        from pytest_agenteval.chat.rate_limiter import limiter_key

        found = {key: self._seen[key] for model in needed if (key := limiter_key(model)) in self._seen}
        down = next((each.down for each in found.values() if each.down is not None), None)
        if down is not None:
            return NotRun(ProviderDown.cause, down.message)
        if any(each.is_tried for each in found.values()):
            return "wait"
        self._seen |= {key: replace(each, is_tried=True) for key, each in found.items()}  # by this one
        return "begin"

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Look at the models again where a trial broke."""
        if trial is not None and trial.cause:
            self._looked = float("-inf")

    def _troubled(self) -> dict[str, ModelStanding]:
        return {key: each for key, each in self._standings().items() if each.down or each.is_in_trouble}

    def _needed(self, plan: Plan) -> Iterator[Model]:
        """Give the models that a trial asks through us; what an agent asks by itself nobody holds back."""
        if not plan.model.offline and plan.model.id != OWN_MODEL:
            yield plan.model
        if plan.task.user and plan.conditions.user is not None:
            yield plan.conditions.user
        if plan.conditions.judges and any(map(self._asks_judges, {each.name for each in plan.task.graders})):
            yield from plan.conditions.judges

    def _asks_judges(self, grader: str) -> bool:
        if grader not in self._judged:
            self._judged[grader] = asks_judges(self._registry.grader_factory(grader))
        return self._judged[grader]
