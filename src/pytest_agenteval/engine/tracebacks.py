"""Tracebacks of exceptions in users' code, with their frames first; and whether a task was cancelled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException
from typing import Any

import pluggy

from pytest_agenteval.text.errors import exception_text, with_causes
from pytest_agenteval.text.formatting import pluralize

OURS = str(Path(__file__).parent.parent) + os.sep
# Frames of pluggy, which calls hooks, are not the user's code either.
PLUGGY = str(Path(pluggy.__file__).parent) + os.sep


def user_frames_first(raised: BaseException) -> str:
    """Return a traceback that begins with the first frame that is neither ours nor Python's own.

    Our frames after it are only counted, except for the last frame, which raised.
    """
    # If all frames are ours, all are shown: then it is our mistake.
    trace = TracebackException.from_exception(raised)
    if any(_is_theirs(frame) for part in with_causes(trace) for frame in part.stack):
        for part in with_causes(trace):
            part.stack = _Folded(_without_ours(part.stack))
    return "".join(trace.format())


def exception_line(raised: BaseException) -> str:
    """Return an exception as the last line of its traceback, also if its ``str`` raises."""
    name, text = type(raised).__name__, exception_text(raised)
    return f"{name}: {text}" if text else name


class _Folded(StackSummary):
    """A stack in which one frame may stand for several of ours."""

    # From Python 3.13 on, an option says whether to colour the text.
    def format_frame_summary(self, frame_summary: FrameSummary, **options: Any) -> str:
        if frame_summary.filename == OURS:
            return f"  ... {frame_summary.name}\n"
        return super().format_frame_summary(frame_summary, **options)


def _is_theirs(frame: FrameSummary) -> bool:
    name = frame.filename
    if name.startswith((OURS, PLUGGY, "<frozen")):
        return False
    # The folder of installed packages may lie within that of the standard library.
    return name.startswith(_folders("purelib", "platlib")) or not name.startswith(
        _folders("stdlib", "platstdlib")
    )


@cache
def _folders(*names: str) -> tuple[str, ...]:
    # Imported here: it takes 2 ms, and most runs have no traceback to write.
    import sysconfig

    return tuple(sysconfig.get_path(name) + os.sep for name in names)


def _without_ours(stack: Sequence[FrameSummary]) -> Iterator[FrameSummary]:
    """Drop the frames before the first one of a user; count ours in between."""
    first = next((place for place, frame in enumerate(stack) if _is_theirs(frame)), 0)
    left_out = 0
    for place, frame in enumerate(stack[first:], first + 1):
        if frame.filename.startswith(OURS) and place < len(stack):
            left_out += 1
            continue
        if left_out:
            ours = f"{pluralize(left_out, 'frame')} of pytest-agenteval"
            yield FrameSummary(OURS, 0, ours, lookup_line=False, line="")
        left_out = 0
        yield frame


def is_own_cancellation(raised: BaseException) -> bool:
    """Whether an exception tells the running task to stop; else it is an error like any other."""
    # Imported here: a controller that only reports needs no asyncio.
    import asyncio

    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(raised, GeneratorExit)
