"""Deciding about each trial, by what it was made of and what it would be made of today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pytest_agenteval.engine.agent_side import AgentSide
from pytest_agenteval.engine.changes import Changes, changes
from pytest_agenteval.engine.digests import DigestCache, acted_out_digest, digests_of
from pytest_agenteval.engine.grading import GradingService
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import (
    OTHER_MODEL,
    STARTED_PROGRAM,
    UNREAD_PROMPT,
    UNTAPED_CONNECTION,
)
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.session.resume.decision import RANK, RUN, Decision
from pytest_agenteval.session.resume.earlier_trials import EarlierTrial, EarlierTrials
from pytest_agenteval.text.canonical import canonical

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


NO_CHANGES = Changes()


class Decisions:
    """Decides about trials, each once; ``ask`` says what the agent of a plan's trial would be today."""

    def __init__(self, earlier: EarlierTrials, registry: Registry, ask: Callable[[Plan], AgentSide]) -> None:
        self.earlier, self._ask, self._registry = earlier, ask, registry
        self._grading, self._cache = GradingService(registry), DigestCache()
        self._sides: dict[object, tuple[Plan, AgentSide | str]] = {}
        self._prompts_read: dict[tuple[str, str], Mapping[str, str]] = {}
        self._by_key: dict[TrialKey, Decision] = {}

    def of(self, plan: Plan) -> Decision:
        """Say what becomes of a plan's trial."""
        key = plan.key
        decision = self._by_key.get(key)
        if decision is None:
            decision = self._by_key[key] = self.anew(plan)
        return decision

    def earlier_decision(self, key: TrialKey) -> Decision | None:
        """Give what was decided of a trial before."""
        return self._by_key.get(key)

    def anew(self, plan: Plan) -> Decision:
        """Say what becomes of a plan's trial, whatever was decided of its key before."""
        found = [self._of_one(plan, earlier) for earlier in self.earlier.of(plan.key)]
        return min(found, key=lambda decision: RANK[decision.course], default=RUN)

    def counts(self) -> Counter[tuple[str, str]]:
        """Count what was decided, by course and reason."""
        return Counter((decision.course, decision.because) for decision in self._by_key.values())

    def _of_one(self, plan: Plan, earlier: EarlierTrial) -> Decision:
        entry = earlier.entry
        if entry.ending == "errored":
            return Decision("rerun", "errored")
        if not earlier.has_transcript:
            return Decision("rerun", "transcript lost")
        if not entry.digests.input:
            return Decision("rerun", "nobody knows what they were made of")
        if not earlier.is_own and (reason := _doubt(plan, earlier)):
            return Decision("rerun", reason)
        side = self._side(plan)
        if isinstance(side, str):
            return Decision("rerun", side)
        changed = self._changes(plan, earlier, side)
        if changed.agent:
            return Decision("rerun", " and ".join(changed.agent))
        if changed.ruler:
            return Decision("regrade", changed.ruler[0], earlier)
        keeps = earlier.is_own and earlier.is_described_as(plan)
        return Decision("keep" if keeps else "take over", "", earlier)

    def _changes(self, plan: Plan, earlier: EarlierTrial, side: AgentSide) -> Changes:
        old, own_models = earlier.entry.digests, earlier.entry.own_models
        acted_out = acted_out_digest(plan, self._registry, self._cache)
        new = digests_of(plan, self._grading.grader, "", "", (), own_models, self._cache, acted_out=acted_out)
        if _equal(old, new, side):
            return NO_CHANGES
        return changes(old, new, side, self._read(earlier, side) if old.prompt != side.prompt else NOTHING)

    def _read(self, earlier: EarlierTrial, side: AgentSide) -> Mapping[str, str]:
        """Give the prompts that such a trial has read: of one trial, for all whose prompts were the same."""
        key = earlier.entry.digests.prompt, side.prompt
        if key not in self._prompts_read:
            self._prompts_read[key] = earlier.prompts_read()
        return self._prompts_read[key]

    def _side(self, plan: Plan) -> AgentSide | str:
        """Give what the agent would be, or why nobody can tell; asked once for all that have the same."""
        key = _side_key(plan)
        # The plan is held: while it lives nothing else has the ids that the key is made of.
        if key not in self._sides:
            try:
                self._sides[key] = plan, self._ask(plan)
            except Exception:  # an agent that cannot be made breaks its trial, where it is told
                self._sides[key] = plan, "the agent cannot be made"
        return self._sides[key][1]


def _equal(old: Digests, new: Digests, side: AgentSide) -> bool:
    """Whether nothing has changed, as is so for most."""
    return (
        (old.input, old.fixture, old.settings, old.model, old.ruler)
        == (new.input, new.fixture, new.settings, new.model, new.ruler)
        and (old.acted_out, old.grader_code) == (new.acted_out, new.grader_code)
        and (old.prompt, old.code, old.tool_code) == (side.prompt, side.code, side.tool_code)
        and old.tools == side.tools
        and not old.offered
    )


def _doubt(plan: Plan, earlier: EarlierTrial) -> str:
    """Say what makes a trial of another run no good for this one; empty where nothing does."""
    header, entry = earlier.run.header, earlier.entry
    same_again = (STARTED_PROGRAM, UNREAD_PROMPT, OTHER_MODEL, UNTAPED_CONNECTION)
    if kinds := [kind for kind in sorted(entry.doubtful_events) if not kind.startswith(same_again)]:
        return f"doubtful: {', '.join(kind.replace('_', ' ') for kind in kinds)}"
    if header.seed != plan.conditions.seed:
        return f"seed {header.seed} -> {plan.conditions.seed}"
    user = plan.conditions.user.id if plan.conditions.user else ""
    if plan.task.user and header.user != user:
        return f"user {header.user or 'none'} -> {user or 'none'}"
    return ""


def _side_key(plan: Plan) -> object:
    task = plan.task
    settings = canonical(task.settings) if task.settings else ""
    return (
        task.agent,
        settings,
        id(task.form) if task.form else 0,
        id(task.prompts) if task.prompts else 0,
        id(plan.variant.prompts) if plan.variant.prompts else 0,
        task.tools,
        bool(task.cassette),
        plan.model.offline,
    )
