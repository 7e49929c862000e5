"""``--agent-resume`` and ``--agent-reuse``: which earlier trials are kept, regraded or run again, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import (
    OTHER_MODEL,
    STARTED_PROGRAM,
    UNREAD_PROMPT,
    UNTAPED_CONNECTION,
)
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.session.earlier_trials import EarlierTrial, EarlierTrials
from pytest_agenteval.text.canonical import canonical

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


ReuseAction: TypeAlias = Literal["keep", "take over", "regrade", "rerun", "run"]
"""It stays, it is written into this run, it gets new grades, it is tried again, or for the first time."""

RANK: dict[ReuseAction, int] = {"keep": 0, "take over": 1, "regrade": 2, "rerun": 3, "run": 4}
"""Of several courses the one that costs least is taken."""


class ReuseDecision(NamedTuple):
    """What becomes of a trial; ``because`` is the reason in words, where there is one to be told."""

    course: ReuseAction
    because: str = ""
    earlier: EarlierTrial | None = None

    def unchanged_trial(self) -> Trial | None:
        """Give the trial that stays as it is; None where there is something to do, or it cannot be read."""
        return self.earlier.whole() if self.earlier is not None and self.course == "keep" else None

    def fill(self, slot: TrialJob) -> None:
        """Let a slot give the earlier trial, as it is or with new grades, in place of a new one."""
        earlier = self.earlier
        if earlier is None:
            return
        if self.course == "take over":
            slot.read_finished = lambda: earlier.taken_over(slot.plan)
        elif self.course == "regrade":
            slot.read_stored = earlier.to_regrade


RUN = ReuseDecision("run")
"""Of a trial that has never finished."""


NO_CHANGES = DigestChanges()


class ReuseDecisions:
    """Decides about trials, each once; ``ask`` says what the agent of a plan's trial would be today."""

    def __init__(
        self, earlier: EarlierTrials, registry: Registry, ask: Callable[[Plan], AgentDigests]
    ) -> None:
        self.earlier, self._ask, self._registry = earlier, ask, registry
        self._grading, self._cache = GradingService(registry), DigestCache()
        self._sides: dict[object, tuple[Plan, AgentDigests | str]] = {}
        self._prompts_read: dict[tuple[str, str], Mapping[str, str]] = {}
        self._by_key: dict[TrialKey, ReuseDecision] = {}

    def of(self, plan: Plan) -> ReuseDecision:
        """Say what becomes of a plan's trial."""
        key = plan.key
        decision = self._by_key.get(key)
        if decision is None:
            decision = self._by_key[key] = self.anew(plan)
        return decision

    def earlier_decision(self, key: TrialKey) -> ReuseDecision | None:
        """Give what was decided of a trial before."""
        return self._by_key.get(key)

    def anew(self, plan: Plan) -> ReuseDecision:
        """Say what becomes of a plan's trial, whatever was decided of its key before."""
        found = [self._of_one(plan, earlier) for earlier in self.earlier.of(plan.key)]
        return min(found, key=lambda decision: RANK[decision.course], default=RUN)

    def counts(self) -> Counter[tuple[str, str]]:
        """Count what was decided, by course and reason."""
        return Counter((decision.course, decision.because) for decision in self._by_key.values())

    def _of_one(self, plan: Plan, earlier: EarlierTrial) -> ReuseDecision:
        entry = earlier.entry
        if entry.ending == "errored":
            return ReuseDecision("rerun", "errored")
        if not earlier.has_transcript:
            return ReuseDecision("rerun", "transcript lost")
        if not entry.digests.input:
            return ReuseDecision("rerun", "nobody knows what they were made of")
        if not earlier.is_own and (reason := _distrust_reason(plan, earlier)):
            return ReuseDecision("rerun", reason)
        side = self._side(plan)
        if isinstance(side, str):
            return ReuseDecision("rerun", side)
        changed = self._changes(plan, earlier, side)
        if changed.agent:
            return ReuseDecision("rerun", " and ".join(changed.agent))
        if changed.ruler:
            return ReuseDecision("regrade", changed.ruler[0], earlier)
        keeps = earlier.is_own and earlier.is_described_as(plan)
        return ReuseDecision("keep" if keeps else "take over", "", earlier)

    def _changes(self, plan: Plan, earlier: EarlierTrial, side: AgentDigests) -> DigestChanges:
        old, own_models = earlier.entry.digests, earlier.entry.own_models
        acted_out = acted_out_digest(plan, self._registry, self._cache)
        new = digests_of(plan, self._grading.grader, "", "", (), own_models, self._cache, acted_out=acted_out)
        if _equal(old, new, side):
            return NO_CHANGES
        return digest_diff(
            old, new, side, self._read(earlier, side) if old.prompt != side.prompt else NOTHING
        )

    def _read(self, earlier: EarlierTrial, side: AgentDigests) -> Mapping[str, str]:
        """Give the prompts that such a trial has read: of one trial, for all whose prompts were the same."""
        key = earlier.entry.digests.prompt, side.prompt
        if key not in self._prompts_read:
            self._prompts_read[key] = earlier.prompts_read()
        return self._prompts_read[key]

    def _side(self, plan: Plan) -> AgentDigests | str:
        """Give what the agent would be, or why nobody can tell; asked once for all that have the same."""
        key = _side_key(plan)
        # The plan is held: while it lives nothing else has the ids that the key is made of.
        if key not in self._sides:
            try:
                self._sides[key] = plan, self._ask(plan)
            except Exception:  # an agent that cannot be made breaks its trial, where it is told
                self._sides[key] = plan, "the agent cannot be made"
        return self._sides[key][1]


def _equal(old: Digests, new: Digests, side: AgentDigests) -> bool:
    """Whether nothing has changed, as is so for most."""
    return (
        (old.input, old.fixture, old.settings, old.model, old.ruler)
        == (new.input, new.fixture, new.settings, new.model, new.ruler)
        and (old.acted_out, old.grader_code) == (new.acted_out, new.grader_code)
        and (old.prompt, old.code, old.tool_code) == (side.prompt, side.code, side.tool_code)
        and old.tools == side.tools
        and not old.offered
    )


def _distrust_reason(plan: Plan, earlier: EarlierTrial) -> str:
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


MOST_REASONS = 3


def decisions_line(counts: Mapping[tuple[str, str], int], *, resumed: bool) -> str:
    """Say how many trials are kept, graded again, tried again and tried for the first time, and why."""
    courses: dict[str, Counter[str]] = {}
    for (course, because), count in counts.items():
        courses.setdefault("keep" if course == "take over" else course, Counter())[because] += count
    kept, total = courses.get("keep", Counter()).total(), sum(counts.values())
    if resumed and kept == total and total:
        return f"nothing to do: {_all(total)} had finished"
    return ", ".join(_parts(courses, resumed=resumed))


def _all(total: int) -> str:
    return "the only trial" if total == 1 else f"all {total} trials"


def _parts(courses: Mapping[str, Counter[str]], *, resumed: bool) -> Iterator[str]:
    words = {
        "keep": "had finished" if resumed else "reused",
        "regrade": "regraded",
        "rerun": "rerun",
        "run": "to run",
    }
    for course, word in words.items():
        if reasons := courses.get(course):
            yield f"{reasons.total()} {word}{_reasons(reasons)}"


def _reasons(reasons: Counter[str]) -> str:
    """Name the most frequent reasons; with their numbers where there are several."""
    named = [(reason, count) for reason, count in reasons.most_common() if reason]
    if not named:
        return ""
    if len(named) == 1:
        return f": {named[0][0]}"
    more = [f"and {len(named) - MOST_REASONS} more reasons"] if len(named) > MOST_REASONS else []
    return ": " + "; ".join([*(f"{reason} ({count})" for reason, count in named[:MOST_REASONS]), *more])


class ReusePlan:
    """Decides about the trials of a process, and says how it was decided about all of them.

    ``ask`` says what the agent of a plan's trial would be today.
    """

    def __init__(
        self, earlier: EarlierTrials, registry: Registry, ask: Callable[[Plan], AgentDigests]
    ) -> None:
        self._earlier, self._decisions = earlier, ReuseDecisions(earlier, registry, ask)

    def decide(self, plan: Plan, *, anew: bool = False) -> ReuseDecision:
        """Say what becomes of a plan's trial; ``anew`` where a fixture has changed its task since."""
        return self._decisions.anew(plan) if anew else self._decisions.of(plan)

    def keeps(self, key: TrialKey) -> bool:
        """Whether it was decided before that a trial stays as it is."""
        decision = self._decisions.earlier_decision(key)
        return decision is not None and decision.course == "keep"

    def line(self, plans: Iterable[Plan], later: int = 0, perhaps: int = 0) -> str:
        """Say in one line what becomes of these trials, and of those that are decided about ``later``.

        ``perhaps`` so many more are tried, where the first repetitions decide nothing.
        """
        for plan in plans:
            self._decisions.of(plan)
        names = ", ".join(run.name for run in self._earlier.runs)
        how = "resumed" if self._earlier.is_own else "reuse of"
        line = decisions_line(self._decisions.counts(), resumed=self._earlier.is_own)
        waiting = f"{later} decided about in their turn" if later else ""
        more = f"{perhaps} more only if need be" if perhaps else ""
        return f"{how} {names}: {', '.join(filter(None, (line, waiting, more)))}"

    def word(self, trial: Trial) -> str:
        """Say in one word that a trial was not carried out by this process: resumed, reused, regraded."""
        if trial.origin is not None and trial.origin.regraded:
            return "regraded"
        if not self._earlier.is_own:
            return "reused" if trial.origin is not None else ""
        return "resumed" if trial.attempt <= self._earlier.attempts(trial.key) or trial.origin else ""

    def transcripts(self, trial: Trial) -> str:
        """Give the file that holds the transcript of a trial that has stayed as it is; empty for others."""
        for earlier in self._earlier.of(trial.key) if self._earlier.is_own else ():
            if earlier.entry.attempt == trial.attempt:
                return str(earlier.run.folder / earlier.entry.location.file)
        return ""
