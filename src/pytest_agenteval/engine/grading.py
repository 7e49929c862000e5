"""Grading: plain graders in a worker thread, async ones on the loop, and no grader spoils another."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from pytest_agenteval.canonical import canonical
from pytest_agenteval.errors import TrialBroken
from pytest_agenteval.graders.grader import AsksJudges, Grader, Judge
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.registry import Registry


@dataclass(slots=True)
class _Job:
    """A trial's plain graders, waiting for the thread."""

    work: Callable[[], list[Any]]
    future: asyncio.Future[list[Any]]
    found: Any = None
    raised: BaseException | None = None


class Desk:
    """Where graders are made and where trials are graded.

    The plain graders of trials that end in the same turn of the loop go to the worker thread together: changing
    threads costs more than most graders.
    """

    def __init__(self, registry: Registry, at_once: int) -> None:
        self._registry = registry
        self._graders: dict[str, Grader] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._at_once = at_once
        self._waiting: list[_Job] = []

    def grader(self, planned: PlannedGrader) -> Grader:
        """Give the grader that a task asks for, made once for each configuration."""
        key = planned.name + canonical(planned.config) if planned.config else planned.name
        grader = self._graders.get(key)
        if grader is None:
            if len(self._graders) > 1024:  # configurations of tasks long gone
                self._graders.clear()
            grader = self._graders[key] = self._registry.grader_factory(planned.name)(**planned.config)
        return grader

    async def grade(
        self, planned: Sequence[PlannedGrader], evidence: Evidence, judges: Sequence[Judge] = ()
    ) -> tuple[Grade, ...]:
        """Give every grade, in the task's order; a grader that raises is undecided."""
        graders = [_with_judges(self.grader(each), judges) for each in planned]
        plain = [grader for grader in graders if not inspect.iscoroutinefunction(grader.grade)]
        slow = [grader for grader in graders if inspect.iscoroutinefunction(grader.grade)]
        found = dict(zip(map(id, plain), await self._in_thread(plain, evidence), strict=True)) if plain else {}
        if slow:
            asked = await asyncio.gather(*(_ask(grader, evidence) for grader in slow))
            found.update(zip(map(id, slow), asked, strict=True))
        return tuple(
            _weighed(each, grader, found[id(grader)]) for each, grader in zip(planned, graders, strict=True)
        )

    def close(self) -> None:
        """Let the threads go; a grader that never returns does not hold up the end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, graders: Sequence[Grader], evidence: Evidence) -> list[Any]:
        loop = asyncio.get_running_loop()
        job = _Job(lambda: [_found(grader, evidence) for grader in graders], loop.create_future())
        if not self._waiting:
            loop.call_soon(self._send)
        self._waiting.append(job)
        return await job.future

    def _send(self) -> None:
        jobs, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, "agenteval-graders")
        self._threads.submit(self._work, jobs, loop)

    def _work(self, jobs: list[_Job], loop: asyncio.AbstractEventLoop) -> None:
        for job in jobs:
            try:
                job.found = job.work()
            except BaseException as raised:  # told to the trial that waits for it
                job.raised = raised
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.raised is not None:
            job.future.set_exception(job.raised)
        else:
            job.future.set_result(job.found)


def _with_judges(grader: Grader, judges: Sequence[Judge]) -> Grader:
    return grader.with_judges(judges) if isinstance(grader, AsksJudges) else grader


def _found(grader: Grader, evidence: Evidence) -> Any:
    try:
        return grader.grade(evidence)
    except TrialBroken:
        raise
    except Exception as raised:
        return raised


async def _ask(grader: Grader, evidence: Evidence) -> Any:
    found = _found(grader, evidence)
    try:
        return await found if inspect.isawaitable(found) else found
    except TrialBroken:
        raise
    except Exception as raised:
        return raised


def _weighed(planned: PlannedGrader, grader: Grader, found: Any) -> Grade:
    """Put the task's label, threshold and weight onto what a grader found."""
    if not isinstance(found, Grade):
        found = _undecided(planned, found)
    own: float = getattr(grader, "threshold", 1.0)
    return replace(
        found,
        grader=planned.label,
        threshold=own if planned.threshold is None else planned.threshold,
        weight=planned.weight,
        required=planned.required,
    )


def _undecided(planned: PlannedGrader, found: Any) -> Grade:
    """Give the grade of a grader that raised or gave back something else."""
    if isinstance(found, Exception):
        trace = "".join(traceback.format_exception(found))
        why = f"the grader raised {type(found).__name__}: {found}"
        return Grade(planned.label, None, why, details={"traceback": trace})
    return Grade(planned.label, None, f"the grader gave {type(found).__name__}, not a Grade")
