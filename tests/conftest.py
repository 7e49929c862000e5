"""What every test starts from: pytest as a person runs it, whatever machine the tests run on."""

from __future__ import annotations

import os
from typing import Any

import httpcore  # noqa: F401  # pytester forgets what a pytest of its own imported first; httpx would not
import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests together: what they share, such as a run with a hanging provider, is made once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True)
def nobody_set_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what changes pytest's print or our settings: marks of a CI server, colours, options."""
    told_by_ci = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
    colours = ("FORCE_COLOR", "NO_COLOR", "PY_COLORS")
    ours = [name for name in os.environ if name.startswith("AGENTEVAL_")]
    # Without bytecode each pytest that a test starts would compile the whole package anew.
    for name in (*told_by_ci, *colours, "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE", *ours):
        monkeypatch.delenv(name, raising=False)
