"""The pool: in order, so many at once, each once, and nobody waits for ever whatever breaks."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorContext,
    ExecutorReport,
    TrialLost,
    TrialRequest,
)
from pytest_agenteval.engine.jobs import Admission, Decision, NotRun, TrialJob
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.records.evidence import Answer, Outcome
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial
from tests.engine.executing import plan

PATIENCE = 5.0
LATE_KEY = "zQ9vLw3kTr8mNp2xYh5b"


class Executor:
    """Carries out a plan by doing nothing, after something that a test says."""

    def __init__(self, *, up: Callable[[], object] | None = None, width: int = 1_000) -> None:
        self.width = width
        self.up = up
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.closed = False

    async def ready(self, context: ExecutorContext) -> int:
        """Come up, or not."""
        await asyncio.sleep(0.01)
        if self.up is not None:
            self.up()
        return self.width

    async def run(self, request: TrialRequest) -> Trial:
        """Do what the task's id says."""
        plan = request.plan
        self.begun.append(plan.task.id)
        try:
            await act(plan.task.id)
        except asyncio.CancelledError:
            self.cancelled.append(plan.task.id)
            raise
        return errored_trial(plan, RuntimeError(f"{plan.task.id} was carried out"))

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        """Say nothing of any label."""
        return CalibrationResult()

    async def close(self) -> ExecutorReport:
        """Remember that it was closed."""
        self.closed = True
        return ExecutorReport()


async def act(id: str) -> None:
    """Misbehave in one of several ways."""
    if id == "raise":
        raise ValueError("the executor's own fault")
    if id == "exit":
        sys.exit("enough")
    if id == "exit in a task":
        await asyncio.create_task(_exits())
    if id == "cancelled by itself":
        raise asyncio.CancelledError
    if id == "with a new key":
        await asyncio.sleep(0.02)
        os.environ["LATE_API_KEY"] = LATE_KEY
        raise ValueError(f"refused: {LATE_KEY}")
    if id == "deaf":
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            try:
                await asyncio.sleep(60)
            except GeneratorExit:  # once nobody holds it: by then there is no loop
                raise RuntimeError("no running event loop") from None
    await asyncio.sleep(60 if id in ("endless", "never") else 0.02)


async def _exits() -> None:
    sys.exit("from a task of its own")


class TrialObserver:
    """Keeps what it is told; raises where a test says so."""

    def __init__(self, full_at: int = 1_000) -> None:
        self.started_ids: list[str] = []
        self.finished_ids: list[str] = []
        self.not_run_ids: list[str] = []
        self.full_at = full_at

    def started(self, plans: Sequence[Plan]) -> None:
        """Note which begin."""
        self.started_ids += [plan.task.id for plan in plans]

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Note which ended, while there is room."""
        self.finished_ids += [trial.key.task for trial in trials]
        if len(self.finished_ids) >= self.full_at:
            raise OSError(28, "No space left on device")
        return trials

    def not_run(self, plan: Plan, why: NotRun) -> None:
        """Note which do not begin."""
        self.not_run_ids.append(plan.task.id)


class EvenFirst:
    """Lets trials begin by number: odd ones once two even ones have ended, none after the ninth."""

    def __init__(self) -> None:
        self.ended_ids: list[str] = []

    def decide(self, plan: Plan) -> Decision:
        """Decide by the number."""
        number = int(plan.task.id)
        if number > 9:
            return NotRun("late", "nothing begins after the ninth")
        return "begin" if number % 2 == 0 or len(self.ended_ids) >= 2 else "wait"

    def ended(self, plan: Plan, trial: Trial | None) -> None:
        """Count those that ended."""
        if trial is not None:
            self.ended_ids.append(plan.task.id)


@pytest.fixture
def pools() -> Iterator[Callable[..., Pool]]:
    """Make pools, and close them."""
    made: list[Pool] = []

    def make(
        executor: Executor, at_once: int = 4, witness: TrialObserver | None = None, *say: Admission
    ) -> Pool:
        context, witness = ExecutorContext(concurrency=at_once), witness or TrialObserver()
        made.append(Pool(executor, context, witness, say))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def slots(*ids: str) -> list[TrialJob]:
    """Give a slot for each id."""
    return [TrialJob(plan(id)) for id in ids]


def wait(pool: Pool, slot: TrialJob) -> Trial:
    """Wait as pytest's main thread does, but not for ever."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        trial = pool.wait(slot, 0.05)
        if trial is not None:
            return trial
    raise AssertionError("nobody will ever come")


def test_trials_begin_in_order_and_so_many_at_once(pools: Callable[..., Pool]) -> None:
    """Nine at a width of 4: four running at the most, each told to the witness once."""
    executor, witness = Executor(), TrialObserver()
    pool = pools(executor, 4, witness)
    ids = [f"t{n}" for n in range(9)]
    waiting = slots(*ids)
    pool.hand_over(waiting)
    assert [wait(pool, slot).key.task for slot in waiting] == ids
    assert (executor.begun, witness.started_ids, sorted(witness.finished_ids)) == (ids, ids, ids)
    assert pool.most_running == 4


def test_one_that_is_asked_for_goes_before_those_that_wait(pools: Callable[..., Pool]) -> None:
    """A rerun, or a trial that had to wait for its item, does not queue behind the window."""
    executor = Executor()
    pool = pools(executor, 1)
    ahead, asked = slots("a", "b", "c"), slots("asked")
    pool.hand_over(ahead)
    pool.hand_over(asked, first=True)
    for slot in [*asked, *ahead]:
        wait(pool, slot)
    assert executor.begun.index("asked") <= 1


def test_trials_that_have_to_wait_hold_up_no_others_and_some_never_begin(pools: Callable[..., Pool]) -> None:
    """Who waits is asked about again when others have ended; the witness is told once of who is held back."""
    executor, witness, say = Executor(), TrialObserver(), EvenFirst()
    pool = pools(executor, 4, witness, say)
    waiting = slots("1", "2", "3", "4", "10", "11")
    pool.hand_over(waiting)
    assert [wait(pool, slot).key.task for slot in waiting[:4]] == ["1", "2", "3", "4"]
    assert (executor.begun, witness.not_run_ids) == (["2", "4", "1", "3"], ["10", "11"])
    assert [slot.not_run for slot in waiting[4:]] == [NotRun("late", "nothing begins after the ninth")] * 2
    pool.wait_until_idle(PATIENCE)
    assert sorted(say.ended_ids) == ["1", "2", "3", "4"]


def test_who_has_let_a_trial_begin_hears_that_another_has_not(pools: Callable[..., Pool]) -> None:
    """What the first took for the trial is given back, and only then is it asked about again."""

    class Counting(EvenFirst):
        taken = 0

        def decide(self, plan: Plan) -> Decision:
            self.taken += 1
            return "begin"

        def ended(self, plan: Plan, trial: Trial | None) -> None:
            self.taken -= 1

    counting = Counting()
    pool = pools(Executor(), 4, None, counting, EvenFirst())
    waiting = slots("1", "2", "4", "12")
    pool.hand_over(waiting)
    for slot in waiting[:3]:
        wait(pool, slot)
    pool.wait_until_idle(PATIENCE)
    assert counting.taken == 0


def test_a_pool_is_idle_once_all_that_was_handed_over_has_ended(pools: Callable[..., Pool]) -> None:
    """Each time anew; one that does not end is waited for only so long."""
    pool = pools(Executor(), 2)
    for waiting in (slots("a", "b", "c"), slots("d", "raise", "e")):
        pool.hand_over(waiting)
        pool.wait_until_idle(PATIENCE)
        assert all(slot.trial for slot in waiting)
    unending = slots("f", "endless")
    pool.hand_over(unending)
    pool.wait_until_idle(0.2)
    assert unending[0].trial


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("raise", "ValueError: the executor's own fault"),
        ("exit", "SystemExit: enough"),
        ("exit in a task", "SystemExit: from a task of its own"),
        ("cancelled by itself", "CancelledError"),
    ],
)
def test_an_executor_that_raises_makes_an_errored_trial(
    pools: Callable[..., Pool], id: str, message: str
) -> None:
    """Whatever run() raises is one trial's error, with its traceback; the others go on."""
    pool = pools(Executor())
    bad, good = slots(id, "good")
    pool.hand_over([bad, good])
    trial = wait(pool, bad)
    assert (trial.ending, trial.cause) == ("errored", "crash")
    assert message in trial.message
    assert "in act" in trial.traceback
    assert "good was carried out" in wait(pool, good).message


@pytest.mark.parametrize("raised", [OSError("no cluster"), SystemExit("no cluster")])
def test_an_executor_that_does_not_come_up_makes_errored_trials(
    pools: Callable[..., Pool], raised: BaseException
) -> None:
    """Nobody waits for ever: each trial that is asked for says why nothing could run."""

    def fail() -> None:
        raise raised

    executor = Executor(up=fail)
    pool = pools(executor)
    waiting = slots("a", "b")
    pool.hand_over(waiting)
    message = f"the executor did not start: {type(raised).__name__}: no cluster"
    ended = [wait(pool, slot) for slot in waiting]
    assert {(trial.cause, trial.message) for trial in ended} == {("executor", message)}
    assert executor.begun == []


@pytest.mark.parametrize("width", [0, None])
def test_an_executor_that_takes_none_makes_errored_trials(pools: Callable[..., Pool], width: Any) -> None:
    """Else the first trial would wait for ever."""
    pool = pools(Executor(width=width))
    (slot,) = slots("a")
    pool.hand_over([slot])
    trial = wait(pool, slot)
    assert (trial.cause, trial.message) == (
        "executor",
        f"the executor's ready gave {width}: expected a number of trials, 1 or more",
    )


def test_an_executor_that_gives_something_else_is_told(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of a trial, and of its last report: nobody's summary breaks on it."""

    async def nothing(*given: object) -> None:
        """Forget to return."""

    for method in ("run", "close"):
        monkeypatch.setattr(Executor, method, nothing)
    pool = pools(Executor())
    (slot,) = slots("a")
    pool.hand_over([slot])
    assert wait(pool, slot).message == "the executor's run gave None: expected a Trial"
    pool.close()
    assert [problem.found for problem in pool.report.unsaved] == ["None"]


def test_a_key_that_an_agent_puts_into_the_environment_is_in_no_trial(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is read before the trials that end together are given out, whichever changed it."""
    monkeypatch.setenv("LATE_API_KEY", "")
    pool = pools(Executor())
    handed = slots("a", "with a new key", "b")
    pool.hand_over(handed)
    assert wait(pool, handed[1]).message == "ValueError: refused: <redacted>"
    assert "b was carried out" in wait(pool, handed[2]).message


def test_a_trial_that_cannot_be_looked_at_is_errored(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a value of somebody's executor raises where secrets are looked for: nobody waits for ever."""

    class Hostile:
        def __repr__(self) -> str:
            sys.exit("do not look")

    async def run(executor: Executor, request: TrialRequest) -> Trial:
        return replace(
            errored_trial(request.plan, ValueError()), outcome=Outcome(Answer("", {"it": Hostile()}))
        )

    monkeypatch.setattr(Executor, "run", run)
    pool = pools(Executor())
    (slot,) = slots("a")
    pool.hand_over([slot])
    assert "SystemExit: do not look" in wait(pool, slot).message


class _Nameless(type):
    @property
    def __name__(cls) -> str:
        raise LookupError("no name")


class Unnamed(BaseException, metaclass=_Nameless):
    """Not even its type can be told."""


class Unheard:
    """What it says of itself cannot be said again."""

    def __repr__(self) -> str:
        raise Unnamed


@pytest.mark.parametrize("where", ["raised", "held"])
def test_nobody_waits_where_even_an_error_cannot_be_told(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Then the mistake is ours, and stops the run with its traceback."""

    async def run(executor: Executor, request: TrialRequest) -> Trial:
        if where == "raised":
            raise Unnamed
        ended = errored_trial(request.plan, ValueError())
        return replace(ended, outcome=Outcome(Answer("", {"it": Unheard()})))

    monkeypatch.setattr(Executor, "run", run)
    pool = pools(Executor())
    (slot,) = slots("a")
    pool.hand_over([slot])
    with pytest.raises(LookupError, match="no name"):
        wait(pool, slot)


def test_nothing_begins_before_the_executor_is_up(pools: Callable[..., Pool]) -> None:
    """What is handed over before waits until then."""
    seen: list[int] = []
    executor = Executor()
    executor.up = lambda: seen.append(len(executor.begun))
    pool = pools(executor)
    (slot,) = slots("a")
    pool.hand_over([slot])
    wait(pool, slot)
    assert seen == [0]


def test_an_executor_that_takes_fewer_is_given_fewer(pools: Callable[..., Pool]) -> None:
    """The run allows four side by side, two processes carry out two: nothing more counts as begun."""
    executor = Executor(width=2)
    pool = pools(executor)
    handed = slots(*"abcdef")
    pool.hand_over(handed)
    for slot in handed:
        wait(pool, slot)
    assert pool.most_running == 2


def test_what_cannot_be_written_down_is_not_given_out(pools: Callable[..., Pool]) -> None:
    """A full disk is told to whoever waits, and nothing more is begun and paid for."""
    executor = Executor()
    pool = pools(executor, 1, TrialObserver(full_at=2))
    waiting = slots("a", "b", "c", "d")
    pool.hand_over(waiting)
    wait(pool, waiting[0])
    with pytest.raises(OSError, match="No space left"):
        wait(pool, waiting[3])
    time.sleep(0.1)
    assert executor.begun in (["a", "b"], ["a", "b", "c"])


@pytest.mark.parametrize("id", ["endless", "deaf"])
def test_closing_cancels_what_runs(pools: Callable[..., Pool], id: str) -> None:
    """The end comes quickly, even where a trial does not listen; what ended before is with the witness."""
    executor, witness = Executor(), TrialObserver()
    pool = pools(executor, 2, witness)
    waiting = slots("quick", id, "never")
    pool.hand_over(waiting)
    wait(pool, waiting[0])
    while len(executor.begun) < 3:
        time.sleep(0.01)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 20  # left alone, they take a minute
    assert sorted(executor.cancelled[:2]) == (["endless", "never"] if id == "endless" else ["never"])
    assert executor.closed
    assert witness.finished_ids == ["quick"]
    assert not [thread for thread in threading.enumerate() if thread.name == "agenteval-loop"]


def test_a_trial_that_was_left_behind_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when nobody holds it any more, whatever it raises then: there is no loop to tell it on."""
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: raised.append(told.exc_value))
    executor = Executor()
    pool = Pool(executor, ExecutorContext(concurrency=2), TrialObserver())
    pool.hand_over(slots("deaf"))
    while not executor.begun:
        time.sleep(0.01)
    pool.close()
    del pool
    gc.collect()
    assert raised == []


def test_a_pool_at_rest_lets_go_of_its_executor_at_once(pools: Callable[..., Pool]) -> None:
    """Where nothing runs there is nothing to wait for, and the executor is closed all the same."""
    executor = Executor()
    pool = pools(executor)
    waiting = slots("quick")
    pool.hand_over(waiting)
    wait(pool, waiting[0])
    pool.close()
    assert executor.closed
    assert not [thread for thread in threading.enumerate() if thread.name == "agenteval-loop"]


def test_an_executor_that_never_lets_go_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends all the same, and its summary says that recordings may be lost."""

    forgotten: list[asyncio.Future[ExecutorReport]] = []

    async def endless(self: Executor) -> ExecutorReport:
        """Wait for what nobody says in time."""
        forgotten.append(asyncio.get_running_loop().create_future())
        return await forgotten[0]

    monkeypatch.setattr(Executor, "close", endless)
    pool = Pool(Executor(), ExecutorContext(), TrialObserver())
    pool.close(0.3)
    assert [problem.found for problem in pool.report.unsaved] == ["nothing within 0.3 s"]
    pool._loop.call_soon_threadsafe(forgotten[0].set_result, ExecutorReport())
    pool._thread.join(PATIENCE)
    assert not pool._thread.is_alive()


class Losing(Executor):
    """Loses each trial so often as its id says, and notes with which numbers it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    async def run(self, request: TrialRequest) -> Trial:
        """Lose it, or carry it out."""
        self.asked.append((request.plan.attempt, request.lost))
        if request.lost < int(request.plan.task.id):
            raise TrialLost("the machine is gone")
        return await super().run(request)


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_a_lost_trial_begins_again_as_its_next_attempt(times: int) -> None:
    """Each attempt is told to the witness and to the admissions; lost three times it is errored."""

    class Counting(EvenFirst):
        began, came_to_nothing = 0, 0

        def decide(self, plan: Plan) -> Decision:
            self.began += 1
            return "begin"

        def ended(self, plan: Plan, trial: Trial | None) -> None:
            self.came_to_nothing += trial is None

    executor, witness, admission = Losing(), TrialObserver(), Counting()
    numbers = iter(range(11, 20))  # of a run in which others have counted too
    pool = Pool(
        executor,
        ExecutorContext(concurrency=4),
        witness,
        [admission],
        lambda lost: replace(lost, attempt=next(numbers)),
    )
    (slot,) = slots(str(times))
    try:
        pool.hand_over([slot])
        trial = wait(pool, slot)
    finally:
        pool.close()

    begun = min(times + 1, 3)
    assert executor.asked == [(1, 0), (11, 1), (12, 2)][:begun]
    assert witness.started_ids == [str(times)] * begun
    assert witness.finished_ids == [str(times)]
    assert (admission.began, admission.came_to_nothing) == (begun, begun - 1)
    assert trial.attempt == [1, 11, 12][begun - 1]
    assert trial.cause == ("executor" if times == 3 else "crash")
