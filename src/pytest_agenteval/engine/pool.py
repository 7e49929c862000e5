"""Many trials at once on one loop in one thread, started in order, while pytest waits for each in turn."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.patch_system import without_socket_guard
from pytest_agenteval.cassettes.http.scope import belong_to_nobody, share_pools
from pytest_agenteval.engine.digests import AgentDigests
from pytest_agenteval.engine.executor import (
    MOST_LOST,
    CalibrationRequest,
    CalibrationResult,
    Executor,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialLost,
    TrialRequest,
)
from pytest_agenteval.engine.jobs import Admission, Decision, TrialJob, TrialObserver
from pytest_agenteval.engine.tracebacks import exception_line, is_own_cancellation
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.processes.threads import DaemonThreads, end_daemon_threads
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.transcript import NO_USAGE, UNSEEN_USAGE, Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.text.errors import Problem, ProblemsFound, TrialBroken, UsageMistake
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.engine.local_executor import LocalExecutor

T = TypeVar("T")
# Seconds after which a trial that has to wait is considered again, if none has ended meanwhile.
LOOK_AGAIN_S = 0.05
# Seconds that the end of everything may take, if the executor does not set ``closing_s``.
CLOSING_S = 4.0
# Seconds that the loop may be busy with one piece of an agent's work: at the end, nobody waits longer for it.
DEAF_S = 2.0
# Seconds that the main thread waits for a trial at a time. One long wait would delay Ctrl-C, the stop signal
# of xdist's controller, and the items that it sends meanwhile.
WAIT_S = 0.1
# Seconds between two looks at a trial while another event loop waits for it.
POLL_S = 0.005


class Pool:
    """Runs jobs in the order in which they are handed over, as many side by side as run and executor allow.

    ``admissions`` decide which of them start. ``renumbered`` returns the plan of the next attempt of a trial
    that its executor has lost.

    Trials that end in the same turn of the loop are passed to the observer together, and only then to those
    who wait for them: what the observer has written down survives whatever happens to pytest.
    """

    def __init__(
        self,
        executor: Executor,
        context: ExecutorContext,
        observer: TrialObserver,
        admissions: Sequence[Admission] = (),
        renumbered: Callable[[Plan], Plan] = lambda plan: replace(plan, attempt=plan.attempt + 1),
    ) -> None:
        self._executor, self._admissions, self._renumbered = executor, admissions, renumbered
        self._looks_again = False
        self._context = context
        # 0 until the executor is ready: a trial that started before could not be carried out.
        self._at_once = 0
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
        # A daemon: an agent whose code never gives the loop back must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, name="agenteval-loop", daemon=True)
        self._thread.start()

    def hand_over(self, jobs: Sequence[TrialJob], *, first: bool = False) -> None:
        """Have these trials carried out: after those handed over before, or ``first``."""
        self._idle.clear()
        self._loop.call_soon_threadsafe(self._take, jobs, first)

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until all that was handed over has ended, at most so many seconds."""
        self._idle.wait(seconds)

    def wait(self, job: TrialJob, seconds: float) -> Trial | None:
        """Wait for a trial, at most so many seconds; None if it has not ended yet, or is not run.

        Raises the error that prevented trials from being written down, which is never the fault of a trial.
        """
        if job.trial is None and job.not_run is None and self._failure is None:
            self._news.wait(seconds)
            self._news.clear()
        if job.trial is None and self._failure is not None:
            raise self._failure
        return job.trial

    def carry_out(self, request: TrialRequest) -> Future[Trial]:
        """Carry out one request at once, beside the jobs; the observer hears nothing of it."""

        async def run_request() -> Trial:
            await self._wait_until_up()
            try:
                trial = await self._executor.run(request)
            except BaseException as raised:
                if is_own_cancellation(raised):
                    raise
                trial = errored_trial(request.plan, raised)
            KNOWN_SECRETS.know_environment()
            return _without_secrets(request.plan, trial)

        return asyncio.run_coroutine_threadsafe(run_request(), self._loop)

    def calibrate(self, request: CalibrationRequest) -> Future[CalibrationResult]:
        async def calibrate() -> CalibrationResult:
            await self._wait_until_up()
            if self._unable is not None:
                raise self._unable
            return await self._executor.calibrate(request)

        return asyncio.run_coroutine_threadsafe(calibrate(), self._loop)

    def agent_side(self, maker: LocalExecutor, plan: Plan) -> Future[AgentDigests]:
        """Have the agent of a plan's trial made where trials are carried out; returns its digests."""

        async def digests() -> AgentDigests:
            await self._wait_until_up()
            return await maker.agent_side(plan)

        return asyncio.run_coroutine_threadsafe(digests(), self._loop)

    async def _wait_until_up(self) -> None:
        belong_to_nobody()
        await self._up.wait()

    def note_finished(self, plan: Plan, trial: Trial) -> Trial:
        """Pass a trial to the observer that was carried out elsewhere; returns it as the observer does."""

        def finish() -> Trial:
            KNOWN_SECRETS.know_environment()
            (finished,) = self._observer.finished([_without_secrets(plan, trial)])
            return finished

        return self.on_loop(finish)

    def on_loop(self, call: Callable[[], T]) -> T:
        """Call something on the pool's thread, as its observer is; return the result."""

        async def called() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def close(self, seconds: float | None = None) -> int:
        """Stop everything; returns the number of trials that started and did not end.

        Waits at most so many seconds, by default as long as the executor may need, and less for a loop that
        an agent's code does not give back.
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
                # Recordings may be lost, which nobody else would report.
                if not self._stopped:
                    self.report = _unclosed(f"nothing within {seconds:g} s")
        # Also if the loop does not react, and if Ctrl-C is pressed again meanwhile.
        finally:
            end_daemon_threads(self._loop)
        return cut_off

    def _serve(self) -> None:
        belong_to_nobody()
        asyncio.set_event_loop(self._loop)
        self._loop.set_default_executor(DaemonThreads(self._loop))
        self._loop.create_task(self._come_up())
        try:
            while not self._stopped:
                # A task of an agent may raise SystemExit: that ends the task, but must not end the other
                # trials.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
        finally:
            self._loop.close()

    async def _come_up(self) -> None:
        try:
            number = await self._executor.ready(self._context)
            # With room for none, every trial would wait for ever.
            if not isinstance(number, int) or number < 1:
                expected = "expected a number of trials, 1 or more"
                raise ExecutorBroken(f"the executor's ready gave {number!r}: {expected}")
            self._at_once = min(self._context.concurrency, number)
        # Every trial ends with this error.
        except BaseException as raised:
            named = isinstance(raised, TrialBroken | ProblemsFound | UsageMistake)
            message = f"the executor did not start: {exception_line(raised)}"
            self._unable = raised if named else ExecutorBroken(message)
            self._at_once = self._context.concurrency
        self._up.set()
        self._pump()

    def _take(self, jobs: Sequence[TrialJob], first: bool) -> None:
        waiting = []
        for job in jobs:
            # A trial that an earlier run has finished needs neither executor nor admission.
            trial = job.read_finished() if job.read_finished is not None else None
            if trial is not None:
                self._end(job, trial)
            else:
                waiting.append(job)
        if first:
            self._waiting.extendleft(reversed(waiting))
        else:
            self._waiting.extend(waiting)
        self._pump()

    def _pump(self) -> None:
        """Start as many of the waiting and admitted trials as there is room for."""
        beginning: list[TrialJob] = []
        held: list[TrialJob] = []
        while self._waiting and len(self.running) < self._at_once:
            if self._closed or self._failure is not None:
                break
            job = self._waiting.popleft()
            if self._is_admitted(job, held):
                self.running.add(job)
                beginning.append(job)
        self._waiting.extendleft(reversed(held))
        if held and not self._looks_again:
            self._looks_again = True
            self._loop.call_later(LOOK_AGAIN_S, self._look_again)
        if not beginning:
            self._rest_if_done()
            return
        self.most_running = max(self.most_running, len(self.running))
        if self._observe(lambda: self._observer.started([job.plan for job in beginning])):
            for job in beginning:
                job.task = self._loop.create_task(self._carry_out(job))

    def _is_admitted(self, job: TrialJob, held: list[TrialJob]) -> bool:
        """Whether a trial starts now; else it is ``held``, or is not run and its waiter is woken."""
        try:
            decision = self._decide(job.plan)
        # Such as a full disk: without the budget's file, nobody could count what the trial costs.
        except BaseException as raised:
            self._fail(raised)
            return False
        if decision == "wait":
            held.append(job)
        elif decision != "begin" and self._observe(lambda: self._observer.not_run(job.plan, decision)):
            job.not_run = decision
            self._news.set()
        return decision == "begin"

    def _decide(self, plan: Plan) -> Decision:
        """Return the first decision other than ``begin``, after releasing what the others reserved."""
        for number, admission in enumerate(self._admissions):
            decision = admission.decide(plan)
            if decision != "begin":
                for before in self._admissions[:number]:
                    before.ended(plan, None)
                return decision
        return "begin"

    def _look_again(self) -> None:
        self._looks_again = False
        self._pump()

    async def _carry_out(self, job: TrialJob) -> None:
        belong_to_nobody()
        try:
            if self._unable is not None:
                raise self._unable
            trial = await self._executor.run(job.request())
            if not isinstance(trial, Trial):
                raise ExecutorBroken(f"the executor's run gave {trial!r}: expected a Trial")
        except TrialLost as lost:
            if job.lost + 1 < MOST_LOST:
                self._release(job, None)
                job.lost += 1
                job.plan = self._renumbered(job.plan)
                self._waiting.appendleft(job)
                self._pump()
                return
            trial = _lost_trial(job.plan, lost)
        # A fault of the executor must not leave anyone waiting for ever.
        except BaseException as raised:
            if is_own_cancellation(raised):
                self._release(job, None)
                raise
            try:
                is_lost = isinstance(raised, ExecutorBroken) and raised is not self._unable
                trial = (_lost_trial if is_lost else errored_trial)(job.plan, raised)
            # This is a mistake of ours.
            except BaseException as worse:
                self._fail(worse)
                return
        self._release(job, trial)
        self._end(job, trial)

    def _release(self, job: TrialJob, trial: Trial | None) -> None:
        self.running.discard(job)
        for admission in self._admissions:
            admission.ended(job.plan, trial)
        job.task = None

    def _end(self, job: TrialJob, trial: Trial) -> None:
        # A trial that was left behind may end after the loop.
        if not self._ended and not self._loop.is_closed():
            # In the next turn of the loop: else a thousand quick trials would be a thousand writes.
            self._loop.call_soon(self._turn)
        self._ended.append((job, trial))

    def _turn(self) -> None:
        """Publish what ended in this turn of the loop, and start what there is room for now."""
        try:
            self._publish()
        # This is a mistake of ours, which the loop would only log.
        except BaseException as raised:
            self._fail(raised)
        self._pump()
        self._rest_if_done()

    def _rest_if_done(self) -> None:
        if not (self.running or self._waiting or self._ended):
            self._idle.set()

    def _publish(self) -> None:
        """Pass what ended to the observer first, then to those who wait for it."""
        ended, self._ended = self._ended, []
        # Once for all of them: agents may have changed the environment.
        KNOWN_SECRETS.know_environment()
        clean = [_without_secrets(job.plan, trial) for job, trial in ended]
        published: list[Trial] = []
        if self._observe(lambda: published.extend(self._observer.finished(clean))):
            for (job, _), trial in zip(ended, published, strict=True):
                job.trial = trial
            self._news.set()

    def _observe(self, notify: Callable[[], None]) -> bool:
        try:
            notify()
        # Such as a full disk: nothing may be reported that is not on disk.
        except BaseException as raised:
            self._fail(raised)
            return False
        return True

    def _fail(self, raised: BaseException) -> None:
        self._failure = raised
        self._news.set()

    async def _shut(self) -> None:
        """Cancel every trial and all that agents have left running, and stop the loop."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        # Nobody waits for their results any more.
        end_daemon_threads(self._loop)
        # Tasks that ignore their cancellation are left, without asyncio's warning about them.
        for deaf in (await asyncio.wait(tasks, timeout=1.0))[1] if tasks else ():
            deaf._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to say no more of it
        if self._ended:
            self._publish()
        try:
            report = await self._executor.close()
            self.report = report if isinstance(report, ExecutorReport) else _unclosed(repr(report))
        # Recordings may be lost, which nobody else would report.
        except Exception as raised:
            self.report = _unclosed(exception_line(raised))
        finally:
            self._stopped = True
            self._loop.stop()


def _without_secrets(plan: Plan, trial: Trial) -> Trial:
    try:
        return redact_trial(trial)
    # A part of the trial may raise anything when it is looked at.
    except BaseException as raised:
        return redact_trial(errored_trial(plan, raised))


def _unclosed(found: str) -> ExecutorReport:
    problem = Problem("--agent-executor", None, (), "an ExecutorReport from the executor's close", found)
    return ExecutorReport((problem,))


def _lost_trial(plan: Plan, lost: BaseException) -> Trial:
    # Its usage is unknown; a budget counts it as the mean of trials like it.
    lost_usage = Transcript(usage=UNSEEN_USAGE)
    return replace(errored_trial(plan, lost), transcript=lost_usage, paid=NO_USAGE)
