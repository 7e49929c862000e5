"""Which trials may begin: a run's budget and a provider that is down have a say, before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial


class NotRun(NamedTuple):
    """A trial that does not begin in this run: ``cause`` in one word, ``reason`` for people.

    Trials of one reason are counted together: it names no trial.
    """

    cause: str
    reason: str


Decision: TypeAlias = Literal["begin", "wait"] | NotRun
"""It begins now, it is asked about again later, or it does not begin in this run."""


class Admission(Protocol):
    """Has a say in which trials begin. All of it is called on the pool's loop, and must not block."""

    def decide(self, plan: Plan) -> Decision:
        """Say whether a trial may begin; ``begin`` takes what it will need.

        Asked in the order of the items. After ``wait`` others are asked about, and this one again when a
        trial has ended or a moment has passed.
        """
        ...

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Take note of how a trial ended that was let begin; None where it came to no end, or never began."""
        ...


class Admissions:
    """Several that all have a say: a trial begins where each of them lets it."""

    def __init__(self, admissions: Sequence[Admission] = ()) -> None:
        self._admissions = tuple(admissions)

    def decide(self, plan: Plan) -> Decision:
        """Give the first decision that is against it, after giving back what the others took for it."""
        for number, admission in enumerate(self._admissions):
            decision = admission.decide(plan)
            if decision != "begin":
                for before in self._admissions[:number]:
                    before.ended(plan, None)
                return decision
        return "begin"

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Tell all of them."""
        for admission in self._admissions:
            admission.ended(plan, trial)
