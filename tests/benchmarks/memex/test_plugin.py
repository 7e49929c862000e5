"""The fixture that this benchmark adds to pytest's."""

from __future__ import annotations

import pytest

from tests.session.items.test_overrides import looking
from tests.suites import run, write

pytest_plugins = ["pytester"]

NOTE = """
@pytest.fixture(autouse=True)
def extra(pkm_tree):
    (pkm_tree / "note").touch()
"""


@pytest.mark.usefixtures("quick")
def test_a_conftest_fills_the_knowledge_base(pytester: pytest.Pytester) -> None:
    """``pkm_tree`` is the folder ``PKM`` of each trial's own workspace."""
    files = looking(NOTE, "note")
    write(pytester.path, {**files, "evals/look/workspace/PKM/own.md": "mine"})

    run(pytester).assert_outcomes(passed=2)
