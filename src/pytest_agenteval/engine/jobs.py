"""Trials as the pool takes them, and what decides whether they start: the run's budget and its models."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.engine.executor import ExecutorContext, TrialRequest
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import OWN_MODEL, Plan
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import ProviderDown

if TYPE_CHECKING:
    import asyncio

    from pytest_agenteval.chat.rate_limiter import RateLimiters
    from pytest_agenteval.chat.rate_shares import ModelStanding, ShareStore


class NotRun(NamedTuple):
    """A trial that does not start in this run: ``cause`` in one word, ``reason`` for people."""

    # Trials with the same reason are counted together, so a reason names no trial.
    cause: str
    reason: str


# A trial starts now, is considered again later, or does not start in this run.
Decision: TypeAlias = Literal["begin", "wait"] | NotRun


class Admission(Protocol):
    """Decides which trials start: one does if each of a pool's admissions lets it.

    All of it is called on the pool's loop, and must not block.
    """

    def decide(self, plan: Plan) -> Decision:
        """Decide whether a trial may start; ``begin`` reserves what it will need.

        Called in the order of the items. After ``wait`` other trials are considered, and this one again when
        a trial has ended or a moment has passed.
        """

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Note how an admitted trial ended; None if it came to no end, or never started."""


class TrialJob:
    """One trial on its way: waiting, running, or done; or ``not_run``, which says why it never starts."""

    # ``workspace`` is an existing tree to use. ``read_stored`` returns the trial to be graded again,
    # ``read_finished`` one that has ended before and is only written down, or None if it is unreadable. Both
    # are read when their turn comes: all trials of a run would not fit into memory. ``lost`` counts how often
    # it was lost.
    __slots__ = ("lost", "not_run", "plan", "read_finished", "read_stored", "task", "trial", "workspace")

    def __init__(
        self, plan: Plan, workspace: Path | None = None, read_stored: Callable[[], Trial] | None = None
    ) -> None:
        self.plan, self.workspace = plan, workspace
        self.read_stored = read_stored
        self.read_finished: Callable[[], Trial | None] | None = None
        self.trial: Trial | None = None
        self.not_run: NotRun | None = None
        self.task: asyncio.Task[None] | None = None
        self.lost = 0

    def request(self) -> TrialRequest:
        """Return the request to the executor; raises what keeps a stored trial from being read."""
        stored = self.read_stored() if self.read_stored else None
        return TrialRequest(self.plan, str(self.workspace or ""), stored, self.lost)


class TrialObserver:
    """Writes down what becomes of trials: called on the pool's thread, before anyone else learns of it.

    This one writes nothing down: for pools whose trials are returned and belong to no run.
    """

    def started(self, plans: Sequence[Plan]) -> None: ...

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Note that these trials have ended; returns them as everyone else is to see them."""
        return trials

    def not_run(self, plan: Plan, why: NotRun) -> None: ...


MODEL_CHECK_S = 0.5  # seconds for which the last look at the models is taken to be true


def limiters_of_run(context: ExecutorContext, store: ShareStore | None = None) -> RateLimiters:
    """Return this process's rate limiters of a run, shared by all that run or admit its trials here.

    If several processes of the run call models, they share one file, unless there is a ``store``.
    """
    from pytest_agenteval.chat.rate_limiter import RateLimiters, limiters_at

    if store is not None:
        return RateLimiters(store, context.concurrency)
    if not context.rates:
        return RateLimiters(most=context.concurrency)
    if context.is_alone:
        return limiters_at(context.rates, lambda: RateLimiters(most=context.concurrency))
    from pytest_agenteval.chat.rate_shares import FileShares

    return limiters_at(
        context.rates, lambda: RateLimiters(FileShares(Path(context.rates)), context.concurrency)
    )


def standings_of_run(rates: str) -> Mapping[str, ModelStanding]:
    """Return the standing of each model that the run's processes on this machine have used, by its key."""
    # Offline models have no limiter, so that most runs need none of it.
    if "pytest_agenteval.chat.rate_limiter" not in sys.modules and not Path(rates).is_file():
        return {}
    from pytest_agenteval.chat.rate_limiter import standings_at

    return {each.model: each for each in standings_at(rates)}


class ProviderAdmission:
    """Lets a trial start if the models of its agent, its user and its judges reply.

    While a model does not reply, only one trial that needs it starts at a time, until one of its requests
    succeeds; others go first. Once a model is down, no trial that needs it starts: no agent is paid for work
    that no judge can grade. ``standings`` are read now and then, by the key of each model.
    """

    def __init__(self, standings: Callable[[], Mapping[str, ModelStanding]], registry: Registry) -> None:
        self._standings, self._registry = standings, registry
        self._seen: dict[str, ModelStanding] = {}
        self._looked = float("-inf")
        self._judged: dict[str, bool] = {}

    def decide(self, plan: Plan) -> Decision:
        # Without models that an agent calls by itself: nobody holds back its requests.
        needed = [] if plan.model.offline or plan.model.id == OWN_MODEL else [plan.model]
        if plan.task.user and plan.conditions.user is not None:
            needed.append(plan.conditions.user)
        if plan.conditions.judges and any(map(self._asks_judges, {each.name for each in plan.task.graders})):
            needed += plan.conditions.judges
        if not needed:
            return "begin"
        now = time.monotonic()
        if now - self._looked >= MODEL_CHECK_S:
            standings = self._standings().items()
            self._seen = {key: each for key, each in standings if each.down or each.is_in_trouble}
            self._looked = now
        if not self._seen:
            return "begin"
        from pytest_agenteval.chat.rate_limiter import limiter_key

        found = {key: self._seen[key] for model in needed if (key := limiter_key(model)) in self._seen}
        down = next((each.down for each in found.values() if each.down is not None), None)
        if down is not None:
            return NotRun(ProviderDown.cause, down.message)
        if any(each.is_tried for each in found.values()):
            return "wait"
        # This trial is the one that tries them.
        self._seen |= {key: replace(each, is_tried=True) for key, each in found.items()}
        return "begin"

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Look at the models again after a trial that broke."""
        if trial is not None and trial.cause:
            self._looked = float("-inf")

    def _asks_judges(self, grader: str) -> bool:
        if grader not in self._judged:
            self._judged[grader] = asks_judges(self._registry.grader_factory(grader))
        return self._judged[grader]
