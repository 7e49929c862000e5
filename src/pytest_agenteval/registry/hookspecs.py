"""Hooks that pytest-agenteval calls. Implement them in a conftest or in a plugin.

They are listed in the order in which a run calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.records.trial import Trial
    from pytest_agenteval.registry.registry import Registry


@pytest.hookspec(historic=True)
def pytest_agenteval_register(registry: Registry) -> None:
    """Register agents, models, graders, tools and everything else that has a name; see ``Registry``.

    Each implementation is called once, when pytest is configured. That of a conftest in a
    subfolder is called when pytest loads it, before the task files beside it are read.
    Installed benchmarks (entry points ``pytest_agenteval.benchmarks``) are called when a
    name is first looked up, also by ``agenteval`` commands.
    A name can be registered only once. A second registration is an error that names both places.

    The built-in agents and graders are registered through this same hook.

    Example, in a ``conftest.py``::

        def pytest_agenteval_register(registry):
            registry.grader("polite", PoliteReply)
    """


@pytest.hookspec
def pytest_agenteval_trial_finished(config: pytest.Config, trial: Trial) -> None:
    """Read a trial after it was graded and written to the journal.

    Called on pytest's main thread in the process that ran the trial, once for each trial, when
    its item reports. The trial is frozen: to change a grade, write a grader. You can copy and
    pickle it; ``trial.to_json()`` holds all of it, and ``Trial.from_json`` reads it back.

    With ``--agent-resume`` and ``--agent-reuse`` the hook is called for earlier trials too;
    ``trial.origin`` names the run in which they ran, if it was another one.

    An exception in the hook does not change the trial's ending. The run's summary warns once and
    names the hook's file.
    """
