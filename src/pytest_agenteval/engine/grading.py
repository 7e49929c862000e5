"""Grading: plain graders in a worker thread, async ones on the loop, and no grader spoils another."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from pytest_agenteval.canonical import canonical
from pytest_agenteval.engine.cancelling import is_for_us
from pytest_agenteval.engine.hands import Hands
from pytest_agenteval.errors import AgentEvalError, TrialBroken
from pytest_agenteval.graders.grader import Grader, Judge, NotAsked
from pytest_agenteval.records.bounds import bounded_grade
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.registry import Registry

MOST_KEPT = 1024


JudgesOf: TypeAlias = Callable[[str], Sequence[Judge]]


def nobody(label: str) -> Sequence[Judge]:
    """Give no judges."""
    return ()


class Desk:
    """Where graders are made and where trials are graded."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._graders: dict[str, Grader] = {}
        self._by_plan: dict[int, tuple[PlannedGrader, Grader]] = {}
        self._hands = Hands()

    def grader(self, planned: PlannedGrader) -> Grader:
        """Give the grader that a task asks for, made once for each configuration."""
        # By the plan itself first: writing out a configuration takes longer than most graders.
        known = self._by_plan.get(id(planned))
        if known is not None and known[0] is planned:
            return known[1]
        if len(self._by_plan) > MOST_KEPT or len(self._graders) > MOST_KEPT:  # of tasks long gone
            self._by_plan.clear()
            self._graders.clear()
        key = planned.name + canonical(planned.config) if planned.config else planned.name
        grader = self._graders.get(key)
        if grader is None:
            grader = self._graders[key] = self._registry.grader_factory(planned.name)(**planned.config)
        self._by_plan[id(planned)] = planned, grader
        return grader

    async def grade(
        self, planned: Sequence[PlannedGrader], evidence: Evidence, judges: JudgesOf = nobody
    ) -> tuple[Grade, ...]:
        """Give every grade, in the task's order; a grader that raises is undecided.

        ``judges`` gives those that a grader may ask, by its label.
        """
        asked = [_Asked(self.grader(each), each.label, judges, evidence) for each in planned]
        _ask_all([each for each in asked if each.is_quick])
        here = [each for each in asked if each.is_async]
        plain = [each for each in asked if not (each.is_quick or each.is_async)]
        if not here:
            await self._ask_in_thread(plain)
        elif not plain and len(here) == 1:
            await here[0].ask_here()
        else:
            await asyncio.gather(self._ask_in_thread(plain), *(each.ask_here() for each in here))
        return tuple(map(_weighed, planned, asked))

    async def _ask_in_thread(self, plain: Sequence[_Asked]) -> None:
        if plain:
            await self._hands.do(partial(_ask_all, plain))
        for each in plain:
            await each.finish()

    def close(self) -> None:
        """Let the threads go; a grader that never returns does not hold up the end."""
        self._hands.close()


def _ask_all(asked: Sequence[_Asked]) -> None:
    for each in asked:
        each.ask()


class _Asked:
    """One grader of one trial, and what it found: a grade, something to wait for, or what it raised."""

    __slots__ = ("evidence", "found", "grader", "judges", "label")

    def __init__(self, grader: Grader, label: str, judges: JudgesOf, evidence: Evidence) -> None:
        self.grader, self.label, self.judges, self.evidence = grader, label, judges, evidence
        self.found: Any = None

    @property
    def is_async(self) -> bool:
        """Whether the grader belongs on the loop."""
        return inspect.iscoroutinefunction(self.grader.grade)

    @property
    def is_quick(self) -> bool:
        """Whether the grader says of itself that it only computes, for microseconds."""
        return bool(getattr(self.grader, "quick", False))

    async def ask_here(self) -> None:
        """Let an async grader look at the evidence."""
        self.ask()
        await self.finish()

    def ask(self) -> None:
        """Let the grader look at the evidence."""
        try:
            grader = self.grader
            with_judges = getattr(grader, "with_judges", None)
            if with_judges is not None:
                grader = with_judges(self.judges(self.label))
            self.found = grader.grade(self.evidence)
        except TrialBroken:
            raise
        except BaseException as raised:  # even SystemExit: somebody's grader must not end the run
            self.found = raised

    async def finish(self) -> None:
        """Wait for a grade that is still to come."""
        if not inspect.isawaitable(self.found):
            return
        try:
            self.found = await self.found
        except TrialBroken:
            raise
        except BaseException as raised:
            if is_for_us(raised):
                raise
            self.found = raised


def _weighed(planned: PlannedGrader, asked: _Asked) -> Grade:
    """Put the task's label, threshold and weight onto what a grader found."""
    wrong = _not_a_grade(asked.found)
    found = Grade(planned.label, None, wrong, details=_details(asked.found)) if wrong else asked.found
    own: float = getattr(asked.grader, "threshold", 1.0)
    return replace(
        bounded_grade(found),
        grader=planned.label,
        threshold=own if planned.threshold is None else planned.threshold,
        weight=planned.weight,
        required=planned.required,
    )


def _not_a_grade(found: Any) -> str:
    """Say why what a grader gave is no grade, or give an empty text."""
    if isinstance(found, NotAsked):
        return str(found)
    if isinstance(found, BaseException):
        return f"the grader raised {type(found).__name__}: {found}"
    if not isinstance(found, Grade):
        return f"the grader gave {type(found).__name__}, not a Grade"
    score = found.score
    if score is None or (isinstance(score, int | float) and 0 <= score <= 1):
        return ""
    return f"the grader gave the score {score!r}, not a number from 0 to 1"


def _details(found: Any) -> dict[str, Any]:
    """Give the traceback of what a grader raised; what we raise ourselves says all in its message."""
    if isinstance(found, NotAsked):
        return {"undecided": "no_judge"}
    if not isinstance(found, BaseException) or isinstance(found, AgentEvalError):
        return {}
    return {"traceback": "".join(traceback.format_exception(found))}
