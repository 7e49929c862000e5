"""What an executor is, and everything that goes in and out of it, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeGuard

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


class ExecutorBroken(TrialBroken):
    """An executor cannot carry out a trial: a process died, or could not load its conftests."""

    cause = "executor"


class TrialLost(ExecutorBroken):
    """A trial was running when its process or actor was lost: its result will never come.

    The pool runs it again, as its next attempt, until it was lost ``MOST_LOST`` times.
    """


# A trial that is lost so often is errored: it may be what ends the processes that run it.
MOST_LOST = 3


class ExecutorContext(Record, frozen=True):
    """What an executor receives before the first plan, enough to work in another process.

    ``root`` is the folder that names of cassettes are relative to. ``started`` is when the whole run began,
    in seconds since 1970. At most ``concurrency`` trials are under way at once, and as many requests to each
    model unless ``limits`` hold another number for its name, or for the empty name. ``rates`` is the file
    through which the run's processes share the limits of models; ``is_alone`` means that there is only this
    process. ``argument`` is what the user wrote after the executor's name: ``4`` of ``processes:4``.
    ``conftests`` are the folders of all conftests of this session, ``pytest_options`` those that decide how
    they are loaded. ``captures_output`` is False under ``-s``; ``log_level`` is that of pytest. ``secrets``
    and ``secret_patterns`` must be removed from whatever is written or returned. ``reports_unused`` requests
    a report of unused recordings at the end. ``servers`` is the folder through which the run's processes
    share model servers, ``controller`` the process with which these end. ``script`` is None in pytest, else
    how the user starts the code that requests the trials: a command, or an empty text in a notebook.
    ``command`` is what the user typed, in parts, if pytest was started by a command.
    ``names_models`` says whether the settings name models: if they do not, a command need not either.
    ``repetitions`` is the number in the settings, 0 if each task has its own.
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
    command: tuple[str, ...] = ()
    names_models: bool = True
    repetitions: int = 0
    limits: Mapping[str, Mapping[str, float]] = NOTHING
    rates: str = ""
    is_alone: bool = True

    def __repr__(self) -> str:
        # No other record holds secrets as they are: a traceback must not show them.
        return f"ExecutorContext(root={self.root!r}, concurrency={self.concurrency}, ...)"


class TrialRequest(Record, frozen=True):
    """One plan to run.

    ``workspace`` is the path of an existing tree to use in place of a fresh one. A ``stored`` trial is graded
    again: no agent acts. ``lost`` counts how often the trial began before, and was lost.
    """

    plan: Plan
    workspace: str = ""
    stored: Trial | None = None
    lost: int = 0


class CalibrationRequest(Record, frozen=True):
    """Labelled examples to judge, with the run's conditions."""

    plan: CalibrationPlan
    conditions: Conditions


class CalibrationResult(Record, frozen=True):
    """The judges' answers, or ``error``.

    ``paid`` is the usage that was not replayed from recordings.
    """

    answers: CalibrationAnswers | None = None
    error: ErrorDetails | None = None
    paid: Usage = NO_USAGE


class UnusedRecordings(Record, frozen=True):
    """A cassette's number of calls, and the places of those that were not used.

    ``unused`` were not replayed. ``stale`` ones can no longer be made by any tool. In a ``chat`` cassette
    these are the replies to requests that an agent sent to models by itself.
    """

    recorded: int
    unused: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    kind: Literal["tool", "chat"] = "tool"


class ExecutorReport(Record, frozen=True):
    """What an executor reports when it closes.

    ``unsaved`` are recordings that could not be written; ``unused_recordings`` are listed by cassette.
    ``remarks`` are lines for the summary.
    """

    unsaved: tuple[Problem, ...] = ()
    unused_recordings: Mapping[str, UnusedRecordings] = NOTHING
    remarks: tuple[str, ...] = ()


class Executor(Protocol):
    """Runs plans and returns trials.

    All of it is called on one event loop, which waits for nothing else.

    ``registry.executor(name, factory)`` offers one, and ``--agent-executor=NAME`` chooses it. Whatever goes
    in and comes out is plain data, so that the same plan runs on this loop, in another process, on another
    machine: what is not data goes by the name under which it is registered. A class that takes an argument,
    ``NAME:ARGUMENT``, may be a ``ChecksArgument`` too.
    """

    async def ready(self, context: ExecutorContext) -> int:
        """Come up, and return how many trials are carried out side by side.

        Called once, before anything else. If it raises, or returns a number below 1, each trial is errored
        with that, under the cause ``executor`` unless the exception names another.
        """

    async def run(self, request: TrialRequest) -> Trial:
        """Carry out one plan and return its trial; called side by side as often as ``ready`` has returned.

        What breaks a trial belongs into its record. If an exception is raised all the same, the trial is
        errored with the cause that the exception names. When the run is stopped, the task that waits is
        cancelled.
        """

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        """Ask judges about labelled examples; what breaks is in the result."""

    async def close(self) -> ExecutorReport:
        """Release everything, write what was recorded, and return what is left to report.

        Called once, after the last trial, or while trials are cancelled; nothing is called afterwards.
        """


class ChecksArgument(Protocol):
    """An executor class that checks its argument before the run."""

    @staticmethod
    def check_argument(argument: str) -> None:
        """Raise UsageMistake for what cannot be obeyed behind the executor's name; it may be empty."""


def checks_argument(factory: object) -> TypeGuard[ChecksArgument]:
    return hasattr(factory, "check_argument")


# Makes an executor from what this process has registered; an executor elsewhere has no use for that.
ExecutorFactory: TypeAlias = Callable[[Registry], Executor]


def make_executor(name: str, registry: Registry) -> Executor:
    """Make the executor with this name; raises UnknownName."""
    # One that cannot be made becomes an executor that errors each trial with the reason, so that all are
    # written down.
    factory: ExecutorFactory = registry.executor_factory(name)
    try:
        executor = factory(registry)
    # The factory may be code of an author, which may raise anything.
    except Exception as raised:
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
    """Return the number after an executor's name, as in ``processes:8``; else raises UsageMistake."""
    if not argument:
        return default
    if not argument.isdecimal() or int(argument) == 0:
        raise UsageMistake(f"--agent-executor={executor}:{argument}: expected {expected}")
    return int(argument)


def merge_unused(
    one: Mapping[str, UnusedRecordings], other: Mapping[str, UnusedRecordings]
) -> dict[str, UnusedRecordings]:
    """Merge two processes' reports: only recordings that neither has replayed are unused."""
    merged = dict(one)
    for name, there in other.items():
        here = merged.get(name, there)
        unused = sorted(set(here.unused) & set(there.unused))
        merged[name] = UnusedRecordings(here.recorded, tuple(unused), here.stale, here.kind)
    return merged
