"""Fixtures of the tests that run pytest on calibrations."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_agenteval.calibration import analysis
from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from tests.calibration.judges import project
from tests.suites import only_our_plugin

FEW_DRAWS = 40


@pytest.fixture
def letters(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with labelled letters, a rubric for them, and judges whose scores are known.

    Of all that a calibration costs, intervals take nine tenths: they are drawn from less than ever.
    """
    monkeypatch.setattr(analysis, "BootstrapSettings", partial(BootstrapSettings, draws=FEW_DRAWS))
    only_our_plugin(monkeypatch)
    project(pytester.path)
    return pytester
