"""What an executor is, and everything that goes through it, as plain data both ways."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeGuard, TypeVar

from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.records.plan import Conditions, Plan
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.lazy_names import exception_with_place
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import Problem, TrialBroken, UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.calibration.calibration_file import CalibrationPlan
    from pytest_agenteval.calibration.labels import CalibrationAnswers

T = TypeVar("T")


class ExecutorBroken(TrialBroken):
    """What was to carry out a trial cannot: a process died, or its conftests could not be loaded there."""

    cause = "executor"


class TrialLost(ExecutorBroken):
    """A trial was running, and what carried it out is gone: its result will never come.

    The pool runs it again, as its next attempt, until it was lost ``MOST_LOST`` times.
    """


MOST_LOST = 3  # so often a trial may be lost before it is errored: it may be what ends whoever carries it out


class ExecutorContext(Record, frozen=True):
    """What a run tells its executor once, before the first plan: enough to build the same in another process.

    ``root`` is the folder that names of cassettes are relative to. ``started`` is when the whole run began,
    in seconds since 1970. At most ``concurrency`` trials are under way at once, and as many requests to each
    model where ``limits`` say nothing else of its name, or of the empty one. ``rates`` is the file by which
    the run's processes share models out; ``is_alone`` says that this one is the only one. ``argument`` is
    what the user wrote behind the executor's name: ``4`` of ``processes:4``. ``conftests`` are the folders
    of all conftests of this session, ``pytest_options`` those that decide how they are loaded.
    ``captures_output`` is False under ``-s``; ``log_level`` is that of pytest. ``secrets`` and
    ``secret_patterns`` are to be taken out of whatever is written or given back. ``reports_unused`` asks
    for unused recordings at the end. ``servers`` is the folder by which the run's processes share model
    servers, ``controller`` the process with which these end. ``script`` is None in pytest, else how the user
    starts what asks for the trials: a command, or nothing in a notebook. ``names_models`` says whether the
    settings name models: where they do not, a command need not either. ``repetitions`` are those that they
    ask for, 0 where each task says how many.
    """

    root: str = ""
    started: float | None = None
    concurrency: int = 10
    argument: str = ""
    conftests: tuple[str, ...] = ()
    pytest_options: tuple[str, ...] = ()
    captures_output: bool = True
    log_level: int | None = None
    secrets: tuple[str, ...] = ()
    secret_patterns: tuple[str, ...] = ()
    reports_unused: bool = False
    servers: str = ""
    controller: int = 0
    script: str | None = None
    names_models: bool = True
    repetitions: int = 0
    limits: Mapping[str, Mapping[str, float]] = NOTHING
    rates: str = ""
    is_alone: bool = True

    def __repr__(self) -> str:
        # The one record that holds secrets as they are: a traceback must not show them.
        return f"ExecutorContext(root={self.root!r}, concurrency={self.concurrency}, ...)"


class TrialRequest(Record, frozen=True):
    """One plan to be carried out.

    ``workspace`` is the path of a tree that stands already, to be used in place of a fresh one. A ``stored``
    trial is graded again: no agent acts. ``lost`` says how often it began before, and was lost.
    """

    plan: Plan
    workspace: str = ""
    stored: Trial | None = None
    lost: int = 0


class CalibrationRequest(Record, frozen=True):
    """Judges to be asked about labelled examples, under the conditions of the run."""

    plan: CalibrationPlan
    conditions: Conditions


class CalibrationResult(Record, frozen=True):
    """What judges answered; where something broke there are no answers, and ``error`` says what it was.

    ``paid`` is what it took that no recording gave.
    """

    answers: CalibrationAnswers | None = None
    error: ErrorDetails | None = None
    paid: Usage = NO_USAGE


class UnusedRecordings(Record, frozen=True):
    """Of one cassette: how many calls it holds, and the places of those that nobody had a use for.

    ``unused`` were not played. ``stale`` can be made by no tool any more. Of a ``chat`` cassette they are the
    replies to requests that an agent sent models by itself.
    """

    recorded: int
    unused: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    kind: Literal["tool", "chat"] = "tool"


class ExecutorReport(Record, frozen=True):
    """What is left to tell when an executor has closed.

    ``unsaved`` are recordings that could not be written; ``unused_recordings`` are listed by cassette.
    ``remarks`` are lines for whoever reads the summary.
    """

    unsaved: tuple[Problem, ...] = ()
    unused_recordings: Mapping[str, UnusedRecordings] = NOTHING
    remarks: tuple[str, ...] = ()


class Executor(Protocol):
    """Where plans become trials. All of it is called on one event loop, which waits for nothing else.

    ``registry.executor(name, factory)`` offers one, and ``--agent-executor=NAME`` chooses it. Whatever goes
    in and comes out is plain data, so that the same plan runs on this loop, in another process, on another
    machine: what is not data goes by the name under which it is registered. A class that takes an argument,
    ``NAME:ARGUMENT``, may be a ``ChecksArgument`` too.
    """

    async def ready(self, context: ExecutorContext) -> int:
        """Come up, and say how many trials are carried out side by side.

        Called once, before anything else. If it raises, each trial is errored with what it raised, of the
        cause ``executor`` where that names no other; so it is where the number is below 1.
        """

    async def run(self, request: TrialRequest) -> Trial:
        """Carry out one plan and give its trial; awaited as often side by side as ``ready`` has returned.

        What breaks a trial is in its record. What is raised all the same makes an errored trial of the cause
        that the exception names. When the run is stopped the task that waits is cancelled.
        """

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        """Ask judges about labelled examples; what breaks is in the result."""

    async def close(self) -> ExecutorReport:
        """Let go of everything, write what was recorded, and tell what is left to tell.

        Called once, after the last trial, or while trials are cancelled; nothing is called afterwards.
        """


class ChecksArgument(Protocol):
    """An executor class that sees what is wrong with its argument before anything is tried."""

    @staticmethod
    def check_argument(argument: str) -> None:
        """Raise UsageMistake for what cannot be obeyed behind the executor's name; it may be empty."""


def checks_argument(factory: object) -> TypeGuard[ChecksArgument]:
    """Whether an executor's class sees what is wrong with its argument."""
    return hasattr(factory, "check_argument")


# Makes an executor; it is given what this process has registered, which one elsewhere has no use for.
ExecutorFactory: TypeAlias = Callable[[Registry], Executor]


def make_executor(name: str, registry: Registry) -> Executor:
    """Make the executor of this name; raises UnknownName."""
    # One that cannot be made tells so with every trial: each is errored, and written down like any other.
    factory: ExecutorFactory = registry.executor_factory(name)
    try:
        executor = factory(registry)
    except Exception as raised:  # an author's code may raise anything
        return _UnmadeExecutor(f"the executor {name!r} cannot be made: {exception_with_place(raised)}")
    methods = ("ready", "run", "calibrate", "close")
    if not all(hasattr(executor, method) for method in methods):
        expected = f"expected one with {', '.join(methods)}; found {executor!r:.80}"
        return _UnmadeExecutor(f"the executor {name!r}: {expected}")
    return executor


class _UnmadeExecutor:
    """Stands where there should be an executor: the pool shows its reason with every trial."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def ready(self, context: object) -> Any:
        raise ExecutorBroken(self._reason)

    run = calibrate = ready

    async def close(self) -> ExecutorReport:
        return ExecutorReport()


def number_argument(executor: str, argument: str, expected: str, default: int) -> int:
    """Read the number behind an executor's name, as in ``processes:8``; raises UsageMistake for no number."""
    if not argument:
        return default
    if not argument.isdecimal() or int(argument) == 0:
        raise UsageMistake(f"--agent-executor={executor}:{argument}: expected {expected}")
    return int(argument)


def pickle_request(request: object) -> bytes:
    """Pickle a request for another process; raises ExecutorBroken for one that cannot be sent."""
    try:
        return pickle.dumps(request)
    except Exception as raised:  # somebody's fixture put an object of its own into a task
        problem = f"the plan cannot be sent to another process: {exception_line(raised)}"
        raise ExecutorBroken(problem) from None


async def result_of(future: Future[T]) -> T:
    """Wait for the result of another process; unlike wrap_future, whoever stops waiting cancels nothing."""
    # A process pool whose process dies sets each future that it has left, and breaks on one that is
    # cancelled.
    import asyncio

    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not waiting.done():
            waiting.set_result(None)

    def end_waiting(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(end_waiting)
    await waiting
    return future.result()


def merge_unused(
    one: Mapping[str, UnusedRecordings], other: Mapping[str, UnusedRecordings]
) -> dict[str, UnusedRecordings]:
    """Put two processes' reports together: unused is what neither has played."""
    merged = dict(one)
    for name, there in other.items():
        here = merged.get(name, there)
        unused = sorted(set(here.unused) & set(there.unused))
        merged[name] = UnusedRecordings(here.recorded, tuple(unused), here.stale, here.kind)
    return merged
