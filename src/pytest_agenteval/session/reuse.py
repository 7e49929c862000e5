"""``--agent-resume`` and ``--agent-reuse``: which trials are reused, regraded or run again, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_agenteval.engine.digests import (
    AgentDigests,
    DigestCache,
    DigestChanges,
    acted_out_digest,
    digest_diff,
    digests_of,
)
from pytest_agenteval.engine.grading import GradingService
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import (
    OTHER_MODEL,
    STARTED_PROGRAM,
    UNREAD_PROMPT,
    UNTAPED_CONNECTION,
)
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.earlier_trials import EarlierTrial, EarlierTrials
from pytest_agenteval.text.json_values import canonical_json

if TYPE_CHECKING:
    from pytest_agenteval.engine.jobs import TrialJob


# A trial stays in its run, is copied into a new run, is graded again, or runs: again or for the first time.
ReuseAction: TypeAlias = Literal["keep", "take over", "regrade", "rerun", "run"]

# Where several earlier runs hold a trial, the cheapest action is taken.
_COST: dict[ReuseAction, int] = {"keep": 0, "take over": 1, "regrade": 2, "rerun": 3, "run": 4}

MOST_REASONS = 3  # reasons that a summary names for each action

# Doubtful events that the same trial would have again: running it again would not make it more reliable.
_REPEATABLE_DOUBTS = (STARTED_PROGRAM, UNREAD_PROMPT, OTHER_MODEL, UNTAPED_CONNECTION)


class ReuseDecision(NamedTuple):
    """What becomes of a trial; ``reason`` is shown to the user, where there is one to show."""

    action: ReuseAction
    reason: str = ""
    earlier: EarlierTrial | None = None

    def unchanged_trial(self) -> Trial | None:
        """Give the trial that stays as it is; None where there is something to do, or it cannot be read."""
        return self.earlier.whole() if self.earlier is not None and self.action == "keep" else None

    def fill(self, job: TrialJob) -> None:
        """Let a job give the earlier trial, as it is or with new grades, in place of a new one."""
        earlier = self.earlier
        if earlier is None:
            return
        if self.action == "take over":
            job.read_finished = lambda: earlier.taken_over(job.plan)
        elif self.action == "regrade":
            job.read_stored = earlier.to_regrade


class ReusePlan:
    """Decides what becomes of each trial of a process, and sums up the decisions.

    ``agent_digests`` gives the digests that the agent of a plan's trial would have today.
    """

    def __init__(
        self,
        earlier: EarlierTrials,
        registry: Registry,
        agent_digests: Callable[[Plan], AgentDigests],
    ) -> None:
        self._earlier, self._registry, self._agent_digests = earlier, registry, agent_digests
        self._grading, self._cache = GradingService(registry), DigestCache()
        self._agents: dict[object, tuple[Plan, AgentDigests | None]] = {}
        self._prompts_read: dict[tuple[str, str], Mapping[str, str]] = {}
        self._decisions: dict[TrialKey, ReuseDecision] = {}

    def decide(self, plan: Plan, *, task_changed: bool = False) -> ReuseDecision:
        """Decide once for each trial; decide again, without storing it, where a fixture changed its task."""
        key = plan.key
        if not task_changed and key in self._decisions:
            return self._decisions[key]
        found = [self._decide_by(plan, earlier) for earlier in self._earlier.trials_of(key)]
        decision = min(found, key=lambda each: _COST[each.action], default=ReuseDecision("run"))
        if not task_changed:
            self._decisions[key] = decision
        return decision

    def keeps(self, key: TrialKey) -> bool:
        """Whether an earlier decision was that the trial stays as it is."""
        return key in self._decisions and self._decisions[key].action == "keep"

    def summary(self, plans: Iterable[Plan], later: int = 0, perhaps: int = 0) -> str:
        """Say in one line what becomes of these trials: ``41 reused, 6 regraded: grader pkm_routed 3 -> 4``.

        ``later`` counts trials that are decided about in their turn; ``perhaps`` those that run only where
        the first repetitions leave the comparison open.
        """
        for plan in plans:
            self.decide(plan)
        names = ", ".join(run.name for run in self._earlier.runs)
        how = "resumed" if self._earlier.is_own else "reuse of"
        parts = (
            _counts_text(self._decisions.values(), resumed=self._earlier.is_own),
            f"{later} decided about in their turn" if later else "",
            f"{perhaps} more only if need be" if perhaps else "",
        )
        return f"{how} {names}: {', '.join(filter(None, parts))}"

    def trial_origin_label(self, trial: Trial) -> str:
        """Give ``resumed``, ``reused`` or ``regraded``; empty for a trial that this process carried out."""
        if trial.origin is not None and trial.origin.regraded:
            return "regraded"
        if not self._earlier.is_own:
            return "reused" if trial.origin is not None else ""
        return "resumed" if trial.attempt <= self._earlier.attempts(trial.key) or trial.origin else ""

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that has stayed as it is; empty for others."""
        for earlier in self._earlier.trials_of(trial.key) if self._earlier.is_own else ():
            if earlier.entry.attempt == trial.attempt:
                return str(earlier.run.folder / earlier.entry.location.file)
        return ""

    def _decide_by(self, plan: Plan, earlier: EarlierTrial) -> ReuseDecision:
        entry = earlier.entry
        # Cheap reasons first: the agent's digests below may read its source files.
        if entry.ending == "errored":
            return ReuseDecision("rerun", "errored")
        if not earlier.has_transcript:
            return ReuseDecision("rerun", "transcript lost")
        if not entry.digests.input:
            return ReuseDecision("rerun", "nobody knows what they were made of")
        if not earlier.is_own and (reason := _distrust_reason(plan, earlier)):
            return ReuseDecision("rerun", reason)
        task = plan.task
        key = (
            task.agent,
            canonical_json(task.settings) if task.settings else "",
            id(task.form) if task.form else 0,
            id(task.prompts) if task.prompts else 0,
            id(plan.variant.prompts) if plan.variant.prompts else 0,
            task.tools,
            bool(task.cassette),
            plan.model.offline,
        )
        # The plan is stored too: while it lives, no other object has the ids in the key.
        if key not in self._agents:
            try:
                self._agents[key] = plan, self._agent_digests(plan)
            except Exception:  # such an agent breaks its trial, which shows the error
                self._agents[key] = plan, None
        agent = self._agents[key][1]
        if agent is None:
            return ReuseDecision("rerun", "the agent cannot be made")
        changed = self._changes(plan, earlier, agent)
        # What the agent sees decides before what grades it: a changed task makes old transcripts worthless.
        if changed.agent:
            return ReuseDecision("rerun", " and ".join(changed.agent))
        if changed.ruler:
            return ReuseDecision("regrade", changed.ruler[0], earlier)
        # With another bucket or kind the trial is written again, so that reports count it there.
        keeps = earlier.is_own and earlier.is_described_as(plan)
        return ReuseDecision("keep" if keeps else "take over", "", earlier)

    def _changes(self, plan: Plan, earlier: EarlierTrial, agent: AgentDigests) -> DigestChanges:
        old, own_models = earlier.entry.digests, earlier.entry.own_models
        acted_out = acted_out_digest(plan, self._registry, self._cache)
        new = digests_of(plan, self._grading.grader, "", "", (), own_models, self._cache, acted_out=acted_out)
        if _equal(old, new, agent):
            return DigestChanges()
        prompts_read: Mapping[str, str] = NOTHING
        if old.prompt != agent.prompt:
            # The prompts are read from one transcript, for all trials whose prompts had the same digest.
            key = old.prompt, agent.prompt
            if key not in self._prompts_read:
                self._prompts_read[key] = earlier.prompts_read()
            prompts_read = self._prompts_read[key]
        return digest_diff(old, new, agent, prompts_read)


def _equal(old: Digests, new: Digests, agent: AgentDigests) -> bool:
    """Whether nothing has changed, as is so for most trials: comparing in detail is slow."""
    return (
        (old.input, old.fixture, old.settings, old.model, old.ruler)
        == (new.input, new.fixture, new.settings, new.model, new.ruler)
        and (old.acted_out, old.grader_code) == (new.acted_out, new.grader_code)
        and (old.prompt, old.code, old.tool_code) == (agent.prompt, agent.code, agent.tool_code)
        and old.tools == agent.tools
        and not old.offered
    )


def _distrust_reason(plan: Plan, earlier: EarlierTrial) -> str:
    """Say why a trial of another run cannot stand in this one; empty where it can."""
    header, entry = earlier.run.header, earlier.entry
    if kinds := [kind for kind in sorted(entry.doubtful_events) if not kind.startswith(_REPEATABLE_DOUBTS)]:
        return f"doubtful: {', '.join(kind.replace('_', ' ') for kind in kinds)}"
    if header.seed != plan.conditions.seed:
        return f"seed {header.seed} -> {plan.conditions.seed}"
    user = plan.conditions.user.id if plan.conditions.user else ""
    if plan.task.user and header.user != user:
        return f"user {header.user or 'none'} -> {user or 'none'}"
    return ""


def _counts_text(decisions: Iterable[ReuseDecision], *, resumed: bool) -> str:
    """Count the decisions by action, each with its most frequent reasons."""
    reasons: dict[str, Counter[str]] = {}
    for decision in decisions:
        action = "keep" if decision.action == "take over" else decision.action
        reasons.setdefault(action, Counter())[decision.reason] += 1
    total = sum(counts.total() for counts in reasons.values())
    if resumed and reasons.keys() == {"keep"}:
        trials = "the only trial" if total == 1 else f"all {total} trials"
        return f"nothing to do: {trials} had finished"
    labels = {
        "keep": "had finished" if resumed else "reused",
        "regrade": "regraded",
        "rerun": "rerun",
        "run": "to run",
    }
    return ", ".join(
        f"{reasons[action].total()} {label}{_reasons_text(reasons[action])}"
        for action, label in labels.items()
        if action in reasons
    )


def _reasons_text(reasons: Counter[str]) -> str:
    named = [(reason, count) for reason, count in reasons.most_common() if reason]
    if len(named) < 2:
        return "".join(f": {reason}" for reason, _ in named)
    more = [f"and {len(named) - MOST_REASONS} more reasons"] if len(named) > MOST_REASONS else []
    return ": " + "; ".join([*(f"{reason} ({count})" for reason, count in named[:MOST_REASONS]), *more])
