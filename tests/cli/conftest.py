"""Fixtures of the tests of the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.forked_workers import fork_pytests
from tests.suites import only_our_plugin


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


Agenteval = Callable[..., Said]


@pytest.fixture
def agenteval_command(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Agenteval:
    """Run the installed command in a process of its own, in pytester's folder."""
    only_our_plugin(monkeypatch)
    fork_pytests(monkeypatch)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    monkeypatch.delenv("PYTEST_ADDOPTS")

    def run(*args: str) -> Said:
        code = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
        ran = pytester.run(sys.executable, "-c", code, *args)
        return Said(int(ran.ret), str(ran.stdout), str(ran.stderr))

    return run
