"""Handlers of this process that a library replaces without being asked, put back."""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pytest_agenteval.processes.files import POSIX

ROOM = 1024
"""Bytes that hold what any system keeps of one signal's handler."""


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back, when the block ends, who hears of signals, of uncaught exceptions and of crashes.

    Signals as the system knows them: a library in C replaces them behind Python's back, and Python itself can
    set them from its main thread only.
    """
    hook, dumps = sys.excepthook, faulthandler.is_enabled()
    before = _native_handlers()
    try:
        yield
    finally:
        sys.excepthook = hook
        if faulthandler.is_enabled() and not dumps:
            faulthandler.disable()
        _put_back(before)


class _Held(NamedTuple):
    """Who hears of a signal, as Python knows it and as the system does."""

    in_python: Any
    native: ctypes.Array[ctypes.c_char]


def _native_handlers() -> dict[int, _Held]:
    if not POSIX:
        return {}
    sigaction = ctypes.CDLL(None).sigaction
    kept = {}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        native = ctypes.create_string_buffer(ROOM)
        if sigaction(int(number), None, native) == 0:
            kept[int(number)] = _Held(signal.getsignal(number), native)
    return kept


def _put_back(kept: dict[int, _Held]) -> None:
    for number, held in kept.items():
        # The main thread may have set one of its own meanwhile: that one stays.
        if signal.getsignal(number) is held.in_python:
            ctypes.CDLL(None).sigaction(number, held.native, None)
