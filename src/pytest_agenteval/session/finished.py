"""Telling plugins of a finished trial: one that raises is told of, and changes no ending."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_agenteval.engine.tracebacks import headline, theirs_first
from pytest_agenteval.records.trial import Trial

NAME = "pytest_agenteval_trial_finished"
MOST_LINES = 8
"""Lines of a traceback that are told of a hook that raised."""


def trial_finished(config: pytest.Config, trial: Trial, failed: dict[str, str]) -> None:
    """Call everybody's hook; put what is to be told of one that raises into ``failed``, once for each."""
    for place, call in _calls(config):
        try:
            call(config=config, trial=trial)
        except (pytest.exit.Exception, KeyboardInterrupt):
            raise
        except BaseException as raised:  # also pytest.fail, pytest.skip and sys.exit: the trial has ended
            if place not in failed:
                failed[place] = _summary_line(place, raised)


def _calls(config: pytest.Config) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Give each plugin's hook by itself, so that one that raises keeps no other from being called."""
    hook = config.hook.pytest_agenteval_trial_finished
    found = hook.get_hookimpls()
    if any(each.wrapper or each.hookwrapper for each in found):  # they are around all the others
        yield NAME, hook
        return
    for each in reversed(found):
        others = [other.plugin for other in found if other.plugin is not each.plugin]
        yield _place(each), config.pluginmanager.subset_hook_caller(NAME, others)


def _place(implementation: Any) -> str:
    """Say where a hook stands: its plugin's file and line."""
    code = getattr(inspect.unwrap(implementation.function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else str(implementation.plugin_name)


def _summary_line(place: str, raised: BaseException) -> str:
    last = theirs_first(raised).rstrip().splitlines()[-MOST_LINES:]
    where = f"hook {NAME}" if place == NAME else f"hook {NAME} in {place}"
    head = f"warning: {where} raised {headline(raised)}; no trial is changed by it"
    return "\n".join([head, *(f"  {line}" for line in last)])
