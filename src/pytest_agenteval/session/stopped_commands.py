"""While trials run, a runner of GitHub Actions obeys no command: programs that agents start write to its log.

What pytest itself shows is cleaned as it is shown, but a program has the process's own outputs, of which
pytest sees nothing under ``-s`` and between tests.
"""

from __future__ import annotations

import os

import pytest

from pytest_agenteval.session.secrets import write_commands
from pytest_agenteval.text.workflow_commands import in_actions, workflow_command


def stop_commands(config: pytest.Config, resuming: str) -> None:
    """Let the runner obey nothing until the word ``resuming``, in whichever process the trials run."""
    if in_actions():
        _write(config, workflow_command("stop-commands", resuming))


def resume_commands(config: pytest.Config, resuming: str) -> None:
    """Let the runner obey commands again: by the process that speaks for the run, once all trials ended."""
    if in_actions():
        # What stands before may end in no line.
        _write(config, f"\n{workflow_command(resuming, '')}")


def _write(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):  # the standard output of a worker is xdist's
        os.write(2, f"{line}\n".encode())
    else:
        write_commands(reporter, [line])
