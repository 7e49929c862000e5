"""Fixtures of the tests that run pytest on calibrations."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.calibration.judges import project
from tests.suites import only_our_plugin

# pytester forgets what was imported during a run: what is imported here is not read again for each.
for name in ("items.calibration_item", "calibration.storage", "reports.html.calibration", "session.summary"):
    import_module(f"pytest_agenteval.{name}")


@pytest.fixture
def letters(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with labelled letters, a rubric for them, and judges whose scores are known."""
    only_our_plugin(monkeypatch)
    project(pytester.path)
    return pytester
