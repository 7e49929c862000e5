"""Keeping what trials print and log away from the item that pytest is busy with."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pytest_agenteval.trial_output import TrialLogHandler, outside_trials, redirect


def redirect_trial_output(config: pytest.Config) -> Callable[[], None]:
    """Send prints and log records of trials to their own records; give the undoing.

    With ``-s`` prints are left where they are: somebody wants to see them as they come.
    """
    undo = [_divert_log(config)]
    if config.getoption("capture", "fd") != "no":
        undo.append(redirect(_streams(config)))

    def undo_all() -> None:
        for each in reversed(undo):
            each()

    return undo_all


def _streams(config: pytest.Config) -> list[Any]:
    """Give the streams behind and in front of pytest's capture."""
    streams = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None and not capture.is_globally_capturing():
        return [stream for stream in streams if stream is not None]
    if capture is not None:
        # In a fixture capture is on already: what it shows now are the streams it put in place.
        capture.suspend_global_capture()
        streams += [sys.stdout, sys.stderr]
        capture.resume_global_capture()
        streams += [sys.stdout, sys.stderr]
    return [stream for stream in streams if stream is not None]


def _divert_log(config: pytest.Config) -> Callable[[], None]:
    root, handler = logging.getLogger(), TrialLogHandler()
    root.addHandler(handler)
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    named = (getattr(plugin, name, None) for name in ("caplog_handler", "report_handler"))
    others: list[logging.Handler] = [other for other in named if other is not None]
    for other in others:
        other.addFilter(outside_trials)

    def undo() -> None:
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(outside_trials)

    return undo
