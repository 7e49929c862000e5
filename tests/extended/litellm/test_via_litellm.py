"""A run whose model is asked through litellm."""

from __future__ import annotations

import pytest

from tests.journals import latest_run
from tests.session.test_models import asked, litellm_modules

pytest_plugins = ["pytester"]


def test_who_wants_litellm_names_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """``via`` in the model's table says so, and the same comes of it."""
    result = asked(pytester, monkeypatch, "--agent-model=slow")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*slow (openai/gpt-6.1-sol, via litellm)*"])
    assert litellm_modules(pytester) == [True]
    (model,) = latest_run(pytester.path).header.models
    assert (model.name, model.via) == ("slow", "litellm")
