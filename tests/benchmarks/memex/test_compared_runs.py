"""Two real runs of the PKM evals, the second made worse in one bucket: compare names it and no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_agenteval.compare.comparison import Comparison, compare_sides
from pytest_agenteval.compare.sides import side_of
from pytest_agenteval.reports.comparison.headline import headline
from pytest_agenteval.store.run_reader import load_run
from tests.suites import only_our_plugin

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]

FORGETFUL = """
import re

from pytest_agenteval.benchmarks.memex.rules import pkm

pkm._OPT_OUTS = re.compile("(?!)")  # nobody ever asks for nothing to be kept
"""


def test_compare_names_the_bucket_that_was_made_worse_and_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A player who no longer understands an opt-out: ``opt_out`` is worse, no other bucket is anything."""
    only_our_plugin(monkeypatch)
    for folder in ("evals/pkm", "fixtures/pkm"):
        shutil.copytree(ROOT / folder, pytester.path / folder)
    old = _run(pytester, "old")
    pytester.makeconftest(FORGETFUL)
    comparison = compare_sides(side_of(load_run(old)), side_of(load_run(_run(pytester, "new"))))

    assert [change.name for change in comparison.worse] == ["pkm", "opt_out"]
    assert comparison.better == ()
    assert headline(comparison).startswith("opt_out is worse on these 9 tasks (")
    _nothing_else_moved(comparison)


def _nothing_else_moved(comparison: Comparison) -> None:
    (suite,) = comparison.suites
    assert {change.verdict for change in suite.buckets if change.name != "opt_out"} == {"identical"}
    assert suite.obstacles == ()


def _run(pytester: pytest.Pytester, name: str) -> Path:
    result = pytester.runpytest_subprocess("evals/pkm", "-q", f"--agent-results={name}")
    assert result.ret == 0
    (folder,) = (pytester.path / name).glob("2*")
    return folder
