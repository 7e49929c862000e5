"""What a trial prints and logs, apart from every other trial's and from pytest's item."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


# The most characters that are stored of a trial's output, and of its log.
MOST_CAPTURED = 1024 * 1024


class CapturedOutput:
    """The output and the log of one trial, each bounded."""

    __slots__ = ("_log", "_output")

    def __init__(self) -> None:
        # Made when first written to: most trials print and log nothing.
        self._output: _BoundedText | None = None
        self._log: _BoundedText | None = None

    def print(self, text: str) -> int:
        """Add to the output; return the number of characters, as ``write`` of a stream does."""
        self._output = self._output or _BoundedText()
        return self._output.write(text)

    def log(self, line: str) -> None:
        self._log = self._log or _BoundedText()
        self._log.write(line + "\n")

    @property
    def output(self) -> str:
        return "" if self._output is None else self._output.text

    @property
    def log_text(self) -> str:
        return "" if self._log is None else self._log.text


class _BoundedText:
    """A text that grows to a certain length; after that, characters are only counted."""

    __slots__ = ("_left_out", "_room", "_text")

    def __init__(self) -> None:
        self._text, self._room, self._left_out = io.StringIO(), MOST_CAPTURED, 0

    def write(self, text: str) -> int:
        begin = text[: self._room]
        self._room -= len(begin)
        self._left_out += len(text) - len(begin)
        self._text.write(begin)
        return len(text)

    @property
    def text(self) -> str:
        text = self._text.getvalue()
        return f"{text}… (cut: {self._left_out} characters more)\n" if self._left_out else text


# The output of the running trial: set only in the context of that trial.
current_output: ContextVar[CapturedOutput | None] = ContextVar("agenteval_captured", default=None)


class TrialLogHandler(logging.Handler):
    """Adds log records of a trial to that trial's log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record to the log of the trial that made it, if a trial did."""
        captured = current_output.get()
        if captured is not None:
            captured.log(self.format(record))


def redirect_streams(streams: Iterable[Any]) -> Callable[[], None]:
    """Send what trials write to these streams to the trials' own output; return the undoing function."""
    # The method of the stream objects is replaced, and not ``sys.stdout``, as pytest swaps streams between
    # phases.
    undoing = ExitStack()
    for stream in {id(stream): stream for stream in streams}.values():
        _redirect_stream(stream, undoing)
    return undoing.close


def _redirect_stream(stream: Any, undoing: ExitStack) -> None:
    write = stream.write

    def write_to_trial(text: str) -> int:
        captured = current_output.get()
        return int(write(text)) if captured is None else captured.print(text)

    # A stream that takes no attributes stays as it is.
    with suppress(AttributeError):
        stream.write = write_to_trial
        undoing.callback(lambda: stream.__dict__.pop("write", None))


def redirect_trial_output(config: pytest.Config) -> Callable[[], None]:
    """Send prints and log records of trials to their own records; return the undoing function."""
    # With ``-s`` prints are left where they are: the user wants to see them at once.
    undoing = ExitStack()
    root, handler = logging.getLogger(), TrialLogHandler()
    root.addHandler(handler)
    undoing.callback(root.removeHandler, handler)
    plugin = config.pluginmanager.get_plugin("logging-plugin")

    def is_outside_trials(record: logging.LogRecord) -> bool:
        return current_output.get() is None

    for name in ("caplog_handler", "report_handler"):
        # pytest's handlers are on the same logger, and would show a trial's lines with the current item.
        other = getattr(plugin, name, None)
        if other is not None:
            other.addFilter(is_outside_trials)
            undoing.callback(other.removeFilter, is_outside_trials)
    if config.getoption("capture", "fd") != "no":
        undoing.callback(redirect_streams(_capturable_streams(config)))
    return undoing.close


def _capturable_streams(config: pytest.Config) -> list[Any]:
    """Return the streams before and behind pytest's capture."""
    streams = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None and not capture.is_globally_capturing():
        return [stream for stream in streams if stream is not None]
    if capture is not None:
        # In a fixture capture is already on: the streams that it put in place are then the visible ones.
        turns = [capture.suspend_global_capture, capture.resume_global_capture]
        for turn in turns if is_captured(capture) else reversed(turns):
            turn()
            streams += [sys.stdout, sys.stderr]
    return [stream for stream in streams if stream is not None]


def is_captured(capture: Any) -> bool:
    """Whether pytest captures what is written now, which it does not do between its phases."""
    captured = getattr(capture, "_global_capturing", None)
    return captured is not None and captured.is_started()
