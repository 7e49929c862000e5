"""A measure that falls below 0, from the grader through every report: nothing on its way bends it to 0."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from pytest_agenteval.cli.report import report, report_arguments
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.store.run_folder import RunModel
from tests.benchmarks.ko_agentbench.report.sample_runs import grade, key, ko_run, ko_trial
from tests.suites import run, suite, write

pytest_plugins = ["pytester"]

FINE = {
    "L1": ("ToolAcc", "ArgAcc", "CallEM", "RespOK"),
    "L2": ("SelectAcc",),
    "L3": ("FSM", "PSM", "ΔSteps_norm"),
    "L5": ("AdaptiveRoutingScore", "FallbackSR"),
    "L7": ("ContextRetention",),
}
RATES = (1.0,) * 12 + (-8.0, 0.5, 0.0)
TOOLS = """
from pytest_agenteval.tools.toolsets import tool_of

def _search(q: str) -> list:
    return [q]

search = tool_of(_search, name="search")
"""


def run_report(*args: str) -> int:
    """Do what ``agenteval report`` does with these arguments."""
    parser = argparse.ArgumentParser()
    report_arguments(parser)
    return report(parser.parse_args(args))


def model(root: Path, name: str, level: float, rates: tuple[float, ...]) -> None:
    """Store a run in which each metric has the same value, but for the rate of repeats."""
    trials = [
        ko_trial(f"{level_name}-001", dict.fromkeys(metrics, level), key=key(f"{level_name}-001", name))
        for level_name, metrics in FINE.items()
    ]
    for number, rate in enumerate(rates, 1):
        task = f"L6-{number:03}"
        trials.append(ko_trial(task, {}, key=key(task, name), grades=(_rate(rate), grade("EffScore", level))))
    ko_run(root, trials, (RunModel(name, name),))


def _rate(value: float) -> Grade:
    return Grade(
        "RedundantCallRate",
        max(value, 0.0),
        "",
        details={"upstream": {}},
        threshold=0.0,
        unclamped=value if value < 0 else None,
    )


def test_the_leaderboard_goes_by_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mean of 0.30 is not 0.83, and the order goes by it: in table, JSON, Markdown and CSV."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    model(Path(".agenteval/runs"), "repeats", 0.6, RATES)
    model(Path(".agenteval/runs"), "plain", 0.57, (0.57,) * 15)

    assert run_report("repeats@20261121", "plain@20261121", "--json", "all.json", "--markdown", "all.md") == 0
    table = capsys.readouterr().out
    rows = json.loads(Path("all.json").read_text(encoding="utf-8"))["boards"][0]["rows"]

    assert [row["model"] for row in rows] == ["plain", "repeats"]
    level = rows[1]["levels"]["L6"]
    assert level["metrics"]["RedundantCallRate"]["value"] == pytest.approx(0.30)
    assert level["metrics"]["RedundantCallRate"]["low"] is None
    assert level["value"] == pytest.approx(0.45)
    assert rows[1]["composite"]["value"] == pytest.approx(0.75 * 0.6 + 0.25 * 0.45)
    board = table[table.index("best first") :]
    assert "composite" in board
    assert board.index("plain") < board.index("repeats")
    assert "0.30" in board
    assert "0.83" not in table + Path("all.md").read_text(encoding="utf-8")
    run_report("repeats@20261121", "-v")
    alone = capsys.readouterr().out
    assert any(line.split()[:3] == ["L6", "RedundantCallRate", "0.30"] for line in alone.splitlines())
    run_report("repeats@20261121", "--as", "ko-agentbench", "-o", "out")
    (csv,) = Path("out").glob("*/evaluation_summary.csv")
    assert "0.3000" in csv.read_text(encoding="utf-8")


def test_it_comes_from_the_grader_through_a_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten equal calls where one will do make -8 in levels and JUnit; the trial's score stays 0..1."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    graders = [
        {
            "name": "ko_redundant_calls",
            "label": "RedundantCallRate",
            "config": {"mode": "upstream", "golden_action": [{"action": "context_used"}]},
        },
        {"name": "ko_response_rate", "label": "RRR"},
    ]
    calls = [{"calls": [{"tool": "search", "args": {"q": "서울"}}]}] * 10
    task = {
        "id": "L6-001",
        "input": {"content": "?"},
        "script": [*calls, {"text": "답"}],
        "settings": {"tools": ["search"]},
        "graders": graders,
    }
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\n",
            "evals/suite.yaml": suite("ko", "tools: [tools.py]\nagent: tool_calling\n"),
            "evals/tools.py": TOOLS,
            "evals/L6/one.json": task,
        },
    )

    result = run(pytester, "evals", "--junitxml=junit.xml", "-v")

    result.assert_outcomes(passed=1)
    junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert '"agenteval.grade.RedundantCallRate" value="-8.0000"' in junit
    assert '"agenteval.score" value="0.5000"' in junit
    lines = [line.split() for line in result.outlines]
    assert ["L6", "RedundantCallRate", "-8.00", "-", "1"] in lines
    assert ["L6", "-8.00", "-", "1"] in lines
    assert "0.50" in (pytester.path / "summary.md").read_text(encoding="utf-8")
