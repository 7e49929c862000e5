"""Two real runs of the PKM evals, the second made worse in one bucket: what README's first screen shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_agenteval.benchmarks.memex import rules
from pytest_agenteval.compare.comparison import RunComparison, compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.reports.comparison_report import comparison_lines
from pytest_agenteval.store.run_reader import load_run
from tests.suites import only_our_plugin, run

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"


def test_compare_names_the_bucket_that_was_made_worse_and_no_other(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A player who no longer understands an opt-out: ``opt_out`` is worse, no other bucket is anything."""
    only_our_plugin(monkeypatch)
    for folder in ("evals/pkm", "fixtures/pkm"):
        shutil.copytree(ROOT / folder, pytester.path / folder)
    old = _run(pytester, "old")
    monkeypatch.setattr(rules, "_OPT_OUTS", re.compile("(?!)"))  # nobody ever asks for nothing to be kept
    comparison = compare_runs(compared_run(load_run(old)), compared_run(load_run(_run(pytester, "new"))))

    assert [change.name for change in comparison.worse] == ["pkm", "opt_out"]
    assert comparison.better == ()
    _nothing_else_moved(comparison)
    assert _without_run_names(screen(comparison)) in _without_run_names(README.read_text(encoding="utf-8"))


def screen(comparison: RunComparison) -> str:
    """What a terminal of 100 columns shows."""
    return "\n".join(line.text for line in comparison_lines(comparison, 100))


def _without_run_names(text: str) -> str:
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", text)


def _nothing_else_moved(comparison: RunComparison) -> None:
    (suite,) = comparison.suites
    assert {change.verdict for change in suite.buckets if change.name != "opt_out"} == {"identical"}
    assert suite.obstacles == ()


def _run(pytester: pytest.Pytester, name: str) -> Path:
    result = run(pytester, "evals/pkm", "-q", f"--agent-results={name}")
    assert result.ret == 0
    (folder,) = (pytester.path / name).glob("2*")
    return folder
