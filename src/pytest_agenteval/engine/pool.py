"""Many trials at once on one loop in one thread, begun in order, while pytest waits for them one by one."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.patch_sockets import without_socket_guard
from pytest_agenteval.cassettes.http.pools_of_loops import share_pools
from pytest_agenteval.cassettes.http.scope import belong_to_nobody
from pytest_agenteval.engine.digests import AgentDigests, DigestsAgents
from pytest_agenteval.engine.executor import (
    MOST_LOST,
    CalibrationRequest,
    CalibrationResult,
    Executor,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialLost,
)
from pytest_agenteval.engine.jobs import Admission, Admissions, NotRun, TrialJob, TrialObserver
from pytest_agenteval.engine.tracebacks import exception_line, is_own_cancellation
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.processes.threads import DaemonThreads, end_daemon_threads
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.transcript import NO_USAGE, UNSEEN_USAGE, Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.text.errors import Problem, ProblemsFound, TrialBroken, UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

T = TypeVar("T")
ASK_AGAIN_S = 0.05
"""Seconds after which a trial that has to wait is asked about again, if none has ended meanwhile."""
CLOSING_S = 4.0
"""Seconds for which the end of everything is waited for, where the executor does not say ``closing_s``."""
DEAF_S = 2.0
"""So long a loop may be busy with one piece of an agent's work before nobody waits for it at the end."""


class Pool:
    """Runs slots in the order in which they are handed over, as many side by side as run and executor allow.

    ``admission`` has a say in which of them begin. ``renumbered`` gives the plan of a next attempt, for a
    trial that its executor has lost.

    Trials that end in the same turn of the loop are witnessed together, and only then given out: what an
    observer has written down survives whatever happens to pytest.
    """

    def __init__(
        self,
        executor: Executor,
        context: ExecutorContext,
        observer: TrialObserver,
        admission: Admission = Admissions(),  # noqa: B008  # one that lets every trial begin, and holds nothing
        renumbered: Callable[[Plan], Plan] = lambda plan: replace(plan, attempt=plan.attempt + 1),
    ) -> None:
        self._executor, self._admission, self._renumbered = executor, admission, renumbered
        self._asks_again = False
        self._context = context
        self._at_once = 0  # until the executor is ready: what begins before has nowhere to go
        self._observer = observer
        self._waiting: deque[TrialJob] = deque()
        self._ended: list[tuple[TrialJob, Trial]] = []
        self._news = threading.Event()
        self._idle = threading.Event()
        self._failure: BaseException | None = None
        self._unable: BaseException | None = None
        self._closed = False
        self._stopped = False
        self.report = ExecutorReport()
        self.running: set[TrialJob] = set()
        self.most_running = 0
        with without_socket_guard():
            self._loop = asyncio.new_event_loop()
        share_pools(self._loop)
        self._up = asyncio.Event()
        # A daemon: a loop that some agent's code never gives back must not keep the process from its end.
        self._thread = threading.Thread(target=self._serve, name="agenteval-loop", daemon=True)
        self._thread.start()

    def hand_over(self, slots: Sequence[TrialJob], *, first: bool = False) -> None:
        """Have these trials carried out: after those handed over before, or ``first``."""
        self._idle.clear()
        self._loop.call_soon_threadsafe(self._take, slots, first)

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until all that was handed over has ended, at most so long."""
        self._idle.wait(seconds)

    def wait(self, slot: TrialJob, seconds: float) -> Trial | None:
        """Wait for a trial at most so long; None when it has not ended yet, or is not run.

        Raises what kept trials from being written down, which is never a trial's doing.
        """
        if slot.trial is None and slot.not_run is None and self._failure is None:
            self._news.wait(seconds)
            self._news.clear()
        if slot.trial is None and self._failure is not None:
            raise self._failure
        return slot.trial

    def calibrate(self, request: CalibrationRequest) -> Future[CalibrationResult]:
        """Have judges asked about labelled examples, beside the trials."""
        return asyncio.run_coroutine_threadsafe(self._calibrate(request), self._loop)

    async def _calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        belong_to_nobody()
        await self._up.wait()
        if self._unable is not None:
            raise self._unable
        return await self._executor.calibrate(request)

    def agent_side(self, teller: DigestsAgents, plan: Plan) -> Future[AgentDigests]:
        """Have it told what the agent of a plan's trial would be, where trials are carried out."""
        return asyncio.run_coroutine_threadsafe(self._agent_side(teller, plan), self._loop)

    async def _agent_side(self, teller: DigestsAgents, plan: Plan) -> AgentDigests:
        belong_to_nobody()
        await self._up.wait()
        return await teller.agent_side(plan)

    def note_started(self, plan: Plan) -> None:
        """Have it witnessed that a trial begins elsewhere: the body of a test is one."""
        self._witness(lambda: self._observer.started([plan]))

    def note_not_run(self, plan: Plan, why: NotRun) -> None:
        """Have it witnessed that a trial does not begin that would be carried out elsewhere."""
        self._witness(lambda: self._observer.not_run(plan, why))

    def note_finished(self, plan: Plan, trial: Trial) -> Trial:
        """Have a trial witnessed that was carried out elsewhere, and give it as it is to be given out."""

        def finish() -> Trial:
            KNOWN_SECRETS.know_environment()
            (kept,) = self._observer.finished([_without_secrets(plan, trial)])
            return kept

        return self._witness(finish)

    def _witness(self, tell: Callable[[], T]) -> T:
        """Tell the observer something on the pool's own thread, where it hears all else."""

        async def told() -> T:
            return tell()

        return asyncio.run_coroutine_threadsafe(told(), self._loop).result()

    def close(self, seconds: float | None = None) -> int:
        """Stop everything; give the number of trials that had begun and did not end.

        Waits at most so long for it, or as long as the executor may need, and less for a loop that somebody's
        agent keeps to itself.
        """
        seconds = getattr(self._executor, "closing_s", CLOSING_S) if seconds is None else seconds
        if self._closed:
            return 0
        self._closed = True
        cut_off = len(self.running)
        shutting = threading.Event()

        def shut() -> None:
            shutting.set()
            self._loop.create_task(self._shut())

        self._loop.call_soon_threadsafe(shut)
        try:
            if shutting.wait(min(seconds, DEAF_S)):
                self._thread.join(seconds)
                if not self._stopped:  # recordings may be lost, of which nobody else would say so
                    self.report = ExecutorReport((_closing_problem(f"nothing within {seconds:g} s"),))
        finally:  # for a loop that is deaf, and where Ctrl-C is pressed again meanwhile
            end_daemon_threads(self._loop)
        return cut_off

    def _serve(self) -> None:
        belong_to_nobody()
        asyncio.set_event_loop(self._loop)
        self._loop.set_default_executor(DaemonThreads(self._loop))
        self._loop.create_task(self._come_up())
        try:
            while not self._stopped:
                # A task that somebody's agent made may raise SystemExit: that ends the task, and not
                # everyone else.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
        finally:
            self._loop.close()

    async def _come_up(self) -> None:
        try:
            side_by_side = _sound_number(await self._executor.ready(self._context))
            self._at_once = min(self._context.concurrency, side_by_side)
        except BaseException as raised:  # every trial that is asked for is told
            named = isinstance(raised, TrialBroken | ProblemsFound | UsageMistake)
            message = f"the executor did not come up: {exception_line(raised)}"
            self._unable = raised if named else ExecutorBroken(message)
            self._at_once = self._context.concurrency
        self._up.set()
        self._pump()

    def _take(self, slots: Sequence[TrialJob], first: bool) -> None:
        slots = [slot for slot in slots if not self._has_ended_before(slot)]
        if first:
            self._waiting.extendleft(reversed(slots))
        else:
            self._waiting.extend(slots)
        self._pump()

    def _pump(self) -> None:
        """Begin as many waiting trials as there is room for, of those that may."""
        beginning: list[TrialJob] = []
        held: list[TrialJob] = []
        while self._waiting and self._may_begin():
            slot = self._waiting.popleft()
            if self._is_admitted(slot, held):
                self.running.add(slot)
                beginning.append(slot)
        self._waiting.extendleft(reversed(held))
        if held:
            self._ask_again_later()
        if not beginning:
            self._rest_if_done()
            return
        self.most_running = max(self.most_running, len(self.running))
        if self._tell_observer(lambda: self._observer.started([slot.plan for slot in beginning])):
            for slot in beginning:
                slot.task = self._loop.create_task(self._carry_out(slot))

    def _is_admitted(self, slot: TrialJob, held: list[TrialJob]) -> bool:
        """Whether a trial begins now; else it is ``held``, or is not run and nobody waits for it any more."""
        try:
            decision = self._admission.decide(slot.plan)
        except BaseException as raised:  # a disk that is full, for one: what it may cost nobody could count
            self._fail(raised)
            return False
        if decision == "wait":
            held.append(slot)
        elif decision != "begin" and self._tell_observer(lambda: self._observer.not_run(slot.plan, decision)):
            slot.not_run = decision
            self._news.set()
        return decision == "begin"

    def _ask_again_later(self) -> None:
        if self._asks_again:
            return
        self._asks_again = True

        def ask() -> None:
            self._asks_again = False
            self._pump()

        self._loop.call_later(ASK_AGAIN_S, ask)

    def _may_begin(self) -> bool:
        stopped = self._closed or self._failure is not None
        return not stopped and len(self.running) < self._at_once

    async def _carry_out(self, slot: TrialJob) -> None:
        belong_to_nobody()
        try:
            if self._unable is not None:
                raise self._unable
            trial = _sound_trial(await self._executor.run(slot.request()))
        except TrialLost as lost:
            if slot.lost + 1 < MOST_LOST:
                self._begin_again(slot)
                return
            trial = _lost_trial(slot.plan, lost)
        except BaseException as raised:  # an executor's fault must not leave anyone waiting for ever
            if is_own_cancellation(raised):
                self.running.discard(slot)
                self._admission.ended(slot.plan, None)
                raise
            try:
                is_lost = isinstance(raised, ExecutorBroken) and raised is not self._unable
                trial = (_lost_trial if is_lost else errored_trial)(slot.plan, raised)
            except BaseException as worse:  # a mistake of ours
                self._fail(worse)
                return
        self.running.discard(slot)
        self._admission.ended(slot.plan, trial)
        slot.task = None
        self._end(slot, trial)

    def _end(self, slot: TrialJob, trial: Trial) -> None:
        if not self._ended:
            # Not at once: a thousand quick trials would be a thousand writes.
            self._loop.call_soon(self._turn)
        self._ended.append((slot, trial))

    def _begin_again(self, slot: TrialJob) -> None:
        """Have a trial that was lost carried out before all others, and counted once more."""
        self.running.discard(slot)
        self._admission.ended(slot.plan, None)
        slot.task = None
        slot.lost += 1
        slot.plan = self._renumbered(slot.plan)
        self._waiting.appendleft(slot)
        self._pump()

    def _has_ended_before(self, slot: TrialJob) -> bool:
        """Whether a trial has nothing to do any more: no executor is asked, and no admission."""
        trial = slot.read_finished() if slot.read_finished is not None else None
        if trial is not None:
            self._end(slot, trial)
        return trial is not None

    def _turn(self) -> None:
        """Give out what ended in this turn of the loop, and begin what there is room for now."""
        try:
            self._publish()
        except BaseException as raised:  # a mistake of ours: the loop would only log it
            self._fail(raised)
        self._pump()
        self._rest_if_done()

    def _rest_if_done(self) -> None:
        if not (self.running or self._waiting or self._ended):
            self._idle.set()

    def _publish(self) -> None:
        """Have what ended witnessed, then give it out."""
        ended, self._ended = self._ended, []
        KNOWN_SECRETS.know_environment()  # once for all of them: agents may have changed it
        clean = [_without_secrets(slot.plan, trial) for slot, trial in ended]
        given_out: list[Trial] = []
        if self._tell_observer(lambda: given_out.extend(self._observer.finished(clean))):
            for (slot, _), trial in zip(ended, given_out, strict=True):
                slot.end(trial)
            self._news.set()

    def _tell_observer(self, tell: Callable[[], None]) -> bool:
        try:
            tell()
        except BaseException as raised:  # a full disk, for one: nothing may be reported that was not kept
            self._fail(raised)
            return False
        return True

    def _fail(self, raised: BaseException) -> None:
        self._failure = raised
        self._news.set()

    async def _shut(self) -> None:
        """Cancel every trial, and whatever agents have left running, and let go of the loop."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        end_daemon_threads(self._loop)  # what they would give, nobody waits for any more
        for deaf in (await asyncio.wait(tasks, timeout=1.0))[1] if tasks else ():
            deaf._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to say no more of it
        if self._ended:
            self._publish()
        try:
            self.report = _sound_report(await self._executor.close())
        except Exception as raised:  # nobody else would say that recordings may be lost
            self.report = ExecutorReport((_closing_problem(exception_line(raised)),))
        finally:
            self._stopped = True
            self._loop.stop()


def _sound_number(given: Any) -> int:
    # With none at all every trial would wait for ever.
    if isinstance(given, int) and given >= 1:
        return given
    raise ExecutorBroken(f"the executor's ready gave {given!r}: expected a number of trials, 1 or more")


def _sound_trial(given: Any) -> Trial:
    if isinstance(given, Trial):
        return given
    raise ExecutorBroken(f"the executor's run gave {given!r}: expected a Trial")


def _without_secrets(plan: Plan, trial: Trial) -> Trial:
    try:
        return redact_trial(trial)
    except BaseException as raised:  # a part of it may raise anything when it is looked at
        return redact_trial(errored_trial(plan, raised))


def _sound_report(given: Any) -> ExecutorReport:
    return given if isinstance(given, ExecutorReport) else ExecutorReport((_closing_problem(repr(given)),))


def _closing_problem(found: str) -> Problem:
    return Problem("--agent-executor", None, (), "an ExecutorReport from the executor's close", found)


def _lost_trial(plan: Plan, lost: BaseException) -> Trial:
    """Give the record of a trial of which an executor lost everything: what it asked, nobody knows.

    A budget counts it as the mean of those like it.
    """
    lost_usage = Transcript(usage=UNSEEN_USAGE)
    return replace(errored_trial(plan, lost), transcript=lost_usage, paid=NO_USAGE)
