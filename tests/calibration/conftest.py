"""Fixtures of the tests of calibrations."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_agenteval.calibration import analysis
from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from tests.calibration.judges import project
from tests.suites import only_our_plugin


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that a calibration costs, intervals take nine tenths: they are drawn from less than ever."""
    monkeypatch.setattr(analysis, "BootstrapSettings", partial(BootstrapSettings, draws=40))


@pytest.fixture
def letters(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, few_draws: None) -> pytest.Pytester:
    """A project with labelled letters, a rubric for them, and judges whose scores are known."""
    only_our_plugin(monkeypatch)
    project(pytester.path)
    return pytester
