"""What a run takes over of earlier trials, as the process that has the items sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pytest_agenteval.engine.agent_side import AgentSide
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.resume.decision import Decision
from pytest_agenteval.session.resume.decisions import Decisions
from pytest_agenteval.session.resume.earlier_trials import EarlierTrials
from pytest_agenteval.session.resume.words import decisions_line

if TYPE_CHECKING:
    from pytest_agenteval.registry.registry import Registry


class Takeover:
    """Decides about the trials of a process, and says how it was decided about all of them.

    ``ask`` says what the agent of a plan's trial would be today.
    """

    def __init__(self, earlier: EarlierTrials, registry: Registry, ask: Callable[[Plan], AgentSide]) -> None:
        self._earlier, self._decisions = earlier, Decisions(earlier, registry, ask)

    def decide(self, plan: Plan, *, anew: bool = False) -> Decision:
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
