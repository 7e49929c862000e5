"""What runs in a spawned process: it knows where the conftests are, and is sent one request after another."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from multiprocessing import connection, parent_process
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from pytest_agenteval.engine.admission import NotRun
from pytest_agenteval.engine.exceptions import exception_line
from pytest_agenteval.engine.executors.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
)
from pytest_agenteval.engine.executors.local import LocalExecutor
from pytest_agenteval.engine.pool import Pool
from pytest_agenteval.engine.slots import Slot
from pytest_agenteval.engine.trial import errored_trial
from pytest_agenteval.processes.processes import end_owned_groups
from pytest_agenteval.processes.trial_output import TrialLogHandler, redirect
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import ErrorDetails, Trial
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

TICK = 0.1
"""Seconds between two looks at whether the run has been stopped."""

CLOSING_S = 1.5
"""Seconds that what is still running has to come to its end."""


class Unobserved:
    """Keeps no journal: the process that asked does."""

    def started(self, plans: Sequence[Plan]) -> None:
        """Nothing is written down here."""

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Give the trials as they are."""
        return trials

    def not_run(self, plan: Plan, why: NotRun) -> None:
        """Nothing is held back here."""


class _Worker:
    """The pool of this process; where it could not be made, what kept it from that."""

    pool: Pool | None = None
    broken = "nothing was started"
    stopping: Event


def start(context: ExecutorContext, stopping: Event) -> None:
    """Make ready for requests; never raises, for whoever asks would only learn that the process is gone."""
    _Worker.stopping = stopping
    _ignore_interrupts()
    threading.Thread(target=_end_with_parent, name="agenteval-orphan", daemon=True).start()
    try:
        registry = load_registry(map(Path, context.conftests), context.pytest_options)
        hide_secrets(context)
        redirect_output(context)
        _Worker.pool = Pool(LocalExecutor(registry), context, Unobserved())
    except UsageMistake as mistake:
        _Worker.broken = str(mistake)
    except BaseException as raised:  # a conftest may raise anything
        _Worker.broken = exception_line(raised)
    gc.freeze()  # what was imported lives until the end


def process_id() -> int:
    """Give the process's number, by which it can be ended."""
    return os.getpid()


def run(pickled: bytes) -> bytes:
    """Carry out a pickled request; give the pickled trial, and nothing where the run was stopped."""
    try:
        request: TrialRequest = pickle.loads(pickled)
    except Exception as raised:  # an object of a class that only the process that asked can import
        message = f"the plan cannot be read in another process: {exception_line(raised)}"
        raise ExecutorBroken(message) from None
    if _Worker.pool is None:
        return pickle.dumps(errored_trial(request.plan, ExecutorBroken(_Worker.broken)))
    workspace = Path(request.workspace) if request.workspace else None
    stored = request.stored
    slot = Slot(request.plan, workspace, None if stored is None else lambda: stored)
    _Worker.pool.hand_over([slot])
    trial = _Worker.pool.wait(slot, TICK)
    while trial is None:
        if _Worker.stopping.is_set():
            return b""
        trial = _Worker.pool.wait(slot, TICK)
    return pickle_trial(trial, request.plan)


def calibrate(pickled: bytes) -> bytes:
    """Carry out a pickled calibration; give the pickled result, and nothing where the run was stopped."""
    request: CalibrationRequest = pickle.loads(pickled)
    if _Worker.pool is None:
        error = ErrorDetails(ExecutorBroken.cause, _Worker.broken)
        return pickle.dumps(CalibrationResult(error=error))
    future = _Worker.pool.calibrate(request)
    while not wait([future], TICK).done:
        if _Worker.stopping.is_set():
            return b""
    return pickle.dumps(future.result())


def close() -> ExecutorReport:
    """Stop what is still running, write what was recorded, and tell what is left to tell."""
    if _Worker.pool is None:
        return ExecutorReport()
    _Worker.pool.close(CLOSING_S)
    return _Worker.pool.report


def pickle_trial(trial: Trial, plan: Plan) -> bytes:
    """Pickle a trial, with the text of what cannot be sent: a run's files have no more of it either."""
    with suppress(Exception):  # somebody's object, in an agent's state for one
        return pickle.dumps(trial)
    try:
        return pickle.dumps(Trial.from_json(trial.to_json()))
    except Exception as raised:
        problem = f"what came of the trial cannot be sent to another process: {exception_line(raised)}"
        return pickle.dumps(errored_trial(plan, ExecutorBroken(problem)))


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that asked: a terminal sends it to all.

    A function that does nothing, for what is ignored would be ignored by programs that tools start, too.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):  # it was held back while this process came up
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    """End with the process that asked, also where that is killed: nobody would see what comes of it."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        end_owned_groups()
        os._exit(1)


def hide_secrets(context: ExecutorContext) -> None:
    """Know what must not be written down, in a process that has read no settings."""
    KNOWN_SECRETS.know_environment()
    KNOWN_SECRETS.know(context.secrets)
    KNOWN_SECRETS.know_patterns(context.secret_patterns)


def redirect_output(context: ExecutorContext) -> None:
    """Keep what a trial prints and logs with the trial, as the process that asked would."""
    root = logging.getLogger()
    root.addHandler(TrialLogHandler())
    if context.log_level is not None:
        root.setLevel(min(root.level, context.log_level))
    if context.captures_output:
        streams: list[Any] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
        with suppress(AttributeError):
            redirect([stream for stream in streams if stream is not None])
