"""What runs took, in words: each figure has its name, and what is unknown is never 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.compare.resource_figures import ResourceFigures, TurnTimes
from pytest_agenteval.records.transcript import Figure, format_cost
from pytest_agenteval.reports.resource_text import change_texts, figure_texts, turn_cell
from pytest_agenteval.store.run_folder import RunModel
from tests.reports.runs import store_run
from tests.reports.screen_runs import ENDED, suite_trials

OLD = ResourceFigures(Figure(52.04), Figure(21442), Figure(0.12), Figure(159.2), TurnTimes(84, 0, 1.61, 1.84))
NEW = ResourceFigures(Figure(48.1), Figure(20896), Figure(0.1), Figure(161), TurnTimes(80, 0, 0.161, 2.0))
UNKNOWN = ResourceFigures(Figure(0, 1), Figure(20896, 2), Figure(0, 84), Figure(0, 9), TurnTimes(84, 3))


def test_every_figure_has_its_name() -> None:
    """Wall time and the agents' time are two figures; a line of 80 columns has room for all."""
    line = "  ".join(figure_texts(OLD))
    assert line == "wall 52.0 s  agents 2 min 39 s  21,442 tokens  $0.1200  turn p50/p95 1.6/1.8 s"
    assert len(line) <= 80


def test_what_is_unknown_says_so_and_what_nobody_took_is_left_out() -> None:
    """A sum of which a part is known is that part; offline agents have neither tokens, cost nor turns."""
    assert figure_texts(UNKNOWN) == [
        "wall unknown",
        "agents unknown",
        "20,896 tokens + unknown",
        "cost unknown",
        "turn p50/p95 unknown",
    ]
    free = ResourceFigures(Figure(2, 1), Figure(), Figure(), Figure(3), TurnTimes())
    assert figure_texts(free) == ["wall 2.0 s + unknown", "agents 3.0 s"]


@pytest.mark.parametrize(
    ("p50", "p95", "text"),
    [
        (0.004, 0.5, ""),
        (0.02, 0.0994, "0.020/0.099 s"),
        (0.161, 0.19, "0.16/0.19 s"),
        (0.5, 12.3, "0.50/12 s"),
        (3.0, 75.0, "3.0 s / 1 min 15 s"),
    ],
)
def test_a_turn_is_written_with_digits_that_tell(p50: float, p95: float, text: str) -> None:
    """In one unit, for they stand below each other; replies of recordings are not told as a model's."""
    assert turn_cell(TurnTimes(9, 0, p50, p95)) == text


def test_each_change_stands_beside_its_figure() -> None:
    """From ten times on no percentage; equal figures stand there once; without a known figure no change."""
    assert change_texts(OLD, NEW) == [
        "wall 52.0 s -> 48.1 s (-8 %)",
        "agents 2 min 39 s -> 2 min 41 s (+1 %)",
        "tokens 21,442 -> 20,896 (-3 %)",
        "cost $0.1200 -> $0.1000 (-17 %)",
        "turn p50 1.6 s -> 0.16 s (-90 %)",
        "turn p95 1.8 s -> 2.0 s (+9 %)",
    ]
    assert change_texts(OLD, replace(OLD, wall=Figure(600), trials=3))[:3] == [
        "trials 1 -> 3",
        "wall 52.0 s -> 10 min 00 s (12 times)",
        "agents 2 min 39 s",
    ]
    assert change_texts(UNKNOWN, OLD)[:4] == [
        "wall unknown -> 52.0 s",
        "agents unknown -> 2 min 39 s",
        "tokens 20,896 + unknown -> 21,442",
        "cost unknown -> $0.1200",
    ]


def test_a_cost_that_is_too_small_for_its_digits_is_not_called_none() -> None:
    """One reply of a small model costs a hundredth of a cent and less."""
    costs = (Figure(0.00002), Figure(0.00002, 1), Figure(0.0001), Figure())
    assert list(map(format_cost, costs)) == ["under $0.0001", "under $0.0001 + unknown", "$0.0001", "$0.00"]


def test_screen_comparison_and_json_have_one_set_of_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the screen rounds stands in ``totals`` with all digits, and in both sides of a comparison."""
    results = ["--results", str(tmp_path)]
    models = (RunModel("claude", "anthropic/claude"),)
    both = [list(suite_trials("s", {"x": 3}, scores, model="claude")) for scores in ((1.0,), (0.5,))]
    runs = [store_run(tmp_path, trials, models=models, ended_at=ENDED) for trials in both]
    old, new = (run.folder.name for run in runs)
    documents = []
    for command in (["report", new], ["compare", old, new]):
        assert main([*command, *results]) in (0, 1)
        screen = capsys.readouterr().out
        main([*command, *results, "--json", "-"])
        documents.append((screen, json.loads(capsys.readouterr().out)))
    (report_screen, report), (compare_screen, comparison) = documents
    (took,) = report["totals"]
    assert (took["wall_seconds"], took["wall_untimed"], took["tokens"]) == (pytest.approx(17.4), 0, 3000)
    assert (took["turns"], took["turn_p50"]) == (3, pytest.approx(0.5))
    assert "wall 17.4 s  agents 0.3 s  3,000 tokens  $0.00  turn p50/p95 0.50/0.59 s\n" in report_screen
    for side in ("old_resources", "new_resources"):
        assert {**took, **comparison[side]} == took
    assert "wall 17.4 s   agents 0.3 s   tokens 3,000   turn p50 0.50 s" in compare_screen
