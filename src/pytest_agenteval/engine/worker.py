"""What a process does that carries out requests of another: it loads the conftests, and knows nothing else.

The processes of ``processes`` and the actors of ``ray`` are made of it. Requests and results travel as bytes,
so that one which cannot be read is an error of its own trial only.
"""

from __future__ import annotations

import gc
import logging
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
)
from pytest_agenteval.engine.jobs import TrialObserver
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.engine.tracebacks import exception_line
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.processes.captured_output import TrialLogHandler, redirect_streams
from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.chat.rate_shares import ShareStore

Request: TypeAlias = TrialRequest | CalibrationRequest
Result: TypeAlias = Trial | CalibrationResult

# Seconds that what is still running has to come to its end.
CLOSING_S = 1.5
# How many tasks are remembered, of plans that may share them.
MOST_TASKS = 1024


class Worker:
    """The pool of a process, which carries out each request as soon as it comes.

    ``shares`` are the limits of models, if no file of the run holds them. ``arrived`` maps a request to what
    is carried out here. Raises what a conftest raises.
    """

    def __init__(
        self,
        context: ExecutorContext,
        shares: ShareStore | None = None,
        arrived: Callable[[Request], Request] = lambda request: request,
    ) -> None:
        self._arrived = arrived
        self._tasks: OrderedDict[bytes, PlannedTask] = OrderedDict()
        registry = load_registry(map(Path, context.conftests), context.pytest_options)
        # This process has read no settings.
        KNOWN_SECRETS.know_environment()
        KNOWN_SECRETS.know(context.secrets)
        KNOWN_SECRETS.know_patterns(context.secret_patterns)
        _redirect_output(context)
        self._pool = Pool(LocalExecutor(registry, shares), context, TrialObserver())
        # What was imported lives until the end, so the collector need not look through it.
        gc.freeze()

    def read(self, pickled: bytes) -> Request:
        """Return a request, as it is carried out here; raises ExecutorBroken."""
        arrived = self._arrived(_read_request(pickled))
        if isinstance(arrived, CalibrationRequest):
            return arrived
        plan = replace(arrived.plan, task=self._known_task(arrived.plan.task))
        return replace(arrived, plan=plan)

    def begin(self, request: Request) -> Future[Any]:
        """Have a request carried out; returns the future of its Trial, or of its CalibrationResult."""
        if isinstance(request, CalibrationRequest):
            return self._pool.calibrate(request)
        return self._pool.carry_out(request)

    def close(self) -> ExecutorReport:
        """Stop what is still running, write what was recorded, and return the report."""
        self._pool.close(CLOSING_S)
        return self._pool.report

    def _known_task(self, task: PlannedTask) -> PlannedTask:
        # Plans arrive one by one. What is computed once for a task is remembered by the object.
        key = pickle.dumps(task)
        known = self._tasks.setdefault(key, task)
        self._tasks.move_to_end(key)
        if len(self._tasks) > MOST_TASKS:
            self._tasks.popitem(last=False)
        return known


def pickle_request(request: Request) -> bytes:
    """Pickle a request for another process; raises ExecutorBroken if it cannot be pickled."""
    try:
        return pickle.dumps(request)
    # A user's fixture may have put an object of its own into a task.
    except Exception as raised:
        problem = f"the plan cannot be sent to another process: {exception_line(raised)}"
        raise ExecutorBroken(problem) from None


def _read_request(pickled: bytes) -> Request:
    try:
        request: Request = pickle.loads(pickled)
    # It may hold an object of a class that only the sending process can import.
    except Exception as raised:
        message = f"the plan cannot be read in another process: {exception_line(raised)}"
        raise ExecutorBroken(message) from None
    return request


def pickle_result(result: Result, request: Request) -> bytes:
    """Pickle a result; what cannot be pickled becomes text, which is all that a run's files hold of it."""
    # An agent's state, for example, may hold an object that cannot be pickled.
    with suppress(Exception):
        return pickle.dumps(result)
    try:
        assert isinstance(result, Trial)
        return pickle.dumps(Trial.from_json(result.to_json()))
    except Exception as raised:
        problem = f"the trial's result cannot be sent to another process: {exception_line(raised)}"
        return pickle.dumps(refusal(request, problem))


def refusal(request: Request, problem: str) -> Result:
    """Return the result of a request that cannot be carried out."""
    if isinstance(request, TrialRequest):
        return errored_trial(request.plan, ExecutorBroken(problem))
    return CalibrationResult(error=ErrorDetails(ExecutorBroken.cause, problem))


def pickle_refusal(pickled: bytes, problem: str) -> bytes:
    """Return what ``read_result`` reads of a request that cannot be carried out, or not even be read."""
    try:
        return pickle.dumps(refusal(_read_request(pickled), problem))
    except ExecutorBroken as unread:
        return pickle.dumps(unread)


def read_result(pickled: bytes) -> Any:
    """Return the Trial or CalibrationResult of a request; raises ExecutorBroken if there is none."""
    result = pickle.loads(pickled)
    if isinstance(result, ExecutorBroken):
        raise result
    return result


def _redirect_output(context: ExecutorContext) -> None:
    """Store what a trial prints and logs with the trial, as the parent process would."""
    root = logging.getLogger()
    root.addHandler(TrialLogHandler())
    if context.log_level is not None:
        root.setLevel(min(root.level, context.log_level))
    if context.captures_output:
        streams: list[Any] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
        with suppress(AttributeError):
            redirect_streams([stream for stream in streams if stream is not None])
