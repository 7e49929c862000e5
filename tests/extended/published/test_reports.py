"""Imported runs of the Korean benchmark, written in its shape, against the reports that it published."""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.report_files import write_reports
from pytest_agenteval.reports.leaderboard import leaderboards_of
from pytest_agenteval.store.run_reader import Run, load_run
from tests.benchmarks.ko_agentbench.clone import CLONE, LOGS, REPORTS, ROOT, needs_clone
from tests.benchmarks.ko_agentbench.report.sample_runs import SCORECARDS

NAMES = [
    path.name
    for path in sorted(REPORTS.glob("*_*"))
    if any((LOGS / path.name.rpartition("_")[0]).glob(f"{path.name.rpartition('_')[2]}_*"))
] or ["none"]
"""The reports whose logs are here too."""

FREE = ("reasons", "final_reason", "reason", "llm_reason")
"""Details that a judge, or the code, says in words of its own."""

UNORDERED = ("required_tools", "covered_tools", "missing_tools", "fallback_candidates", "fallback_tools")
"""Details that the benchmark lists in the order of a set, which differs from process to process."""

RANKED = {"bedrock_us.amazon.nova-lite-v1_20251219": (14, 0.561)}
"""Where a model stands of all 15, and its composite, whose rate of repeats is far below 0 in one task."""

WORDS = re.compile(
    r"^(### Level \d: ).+|^(> 태스크 의도: ).+|^(- \*\*[^*]+\*\*: -?\d\.\d{3} - ).+"
    r"|^(- \*\*평가 날짜\*\*: ).+"
)

pytestmark = needs_clone


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Import the logged runs of all models."""
    from pytest_agenteval.cli.init import import_, import_arguments

    to = tmp_path_factory.mktemp("imported")
    parser = argparse.ArgumentParser()
    import_arguments(parser)
    import_(parser.parse_args(["ko-agentbench", str(CLONE), "--to", str(to), "--runs-only"]))
    return [load_run(path.parent) for path in sorted((to / ".agenteval" / "runs").glob("2*/run.json"))]


@pytest.fixture(scope="module")
def ours(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write all reports."""
    to = tmp_path_factory.mktemp("reports")
    write_reports(runs, to)
    return to


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    """Leave out when the evaluation was made."""
    del report["summary"]["evaluation_date"]
    for level in report["by_level"].values():
        del level["metadata"]["timestamp"]
    return report


def wordless(value: Any) -> Any:
    """Leave out what is said in words, and what order sets happen to have."""
    if isinstance(value, dict):
        values = {key: True if key in FREE else wordless(inner) for key, inner in value.items()}
        return values | {key: sorted(values[key]) for key in UNORDERED if key in values}
    return [wordless(inner) for inner in value] if isinstance(value, list) else value


def read_report(path: Path) -> dict[str, Any]:
    """Read a report."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return wordless(timeless(report))  # type: ignore[no-any-return]  # a dict stays a dict


def test_every_model_has_its_folder(ours: Path) -> None:
    """Under the name that the benchmark gives it."""
    assert sorted(path.name for path in ours.iterdir() if path.is_dir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_json_holds_the_same_scores_counts_flags_and_votes(ours: Path, name: str) -> None:
    """In the same order and of the same types, for every task and metric."""
    report = read_report(ours / name / "evaluation_report.json")
    published = read_report(REPORTS / name / "evaluation_report.json")

    assert json.dumps(report["summary"]) == json.dumps(published["summary"])
    for level in published["by_level"]:
        ours_, theirs = report["by_level"][level], published["by_level"][level]
        tasks, their_tasks = ours_.pop("task_evaluations"), theirs.pop("task_evaluations")
        assert json.dumps(ours_) == json.dumps(theirs)
        for task, their_task in zip(tasks, their_tasks, strict=True):
            assert task == their_task
    assert list(report["by_level"]) == list(published["by_level"])


@pytest.mark.parametrize("name", NAMES)
def test_the_csv_is_the_same_byte_for_byte(ours: Path, name: str) -> None:
    """Nothing in it is free."""
    file = Path(name) / "evaluation_summary.csv"

    assert (ours / file).read_bytes() == (REPORTS / file).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_same_lines_but_for_words(ours: Path, name: str) -> None:
    """Every heading, table and number stands where theirs does; titles and explanations are ours."""
    file = Path(name) / "evaluation_report.md"
    page, published = (
        [WORDS.sub(lambda match: next(filter(None, match.groups())), line) for line in text.splitlines()]
        for text in ((root / file).read_text(encoding="utf-8") for root in (ours, REPORTS))
    )

    assert page == published


def test_the_table_of_all_models_holds_the_published_figures(ours: Path) -> None:
    """Each cell is that of the model's own CSV, under the level's name; the misspelt column too."""
    with (ours / "combined_evaluation_summary.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["Model"]: row for row in csv.DictReader(file)}

    assert sorted(rows) == sorted(name.rpartition("_")[0] for name in NAMES)
    for name in NAMES:
        row = rows[name.rpartition("_")[0]]
        with (REPORTS / name / "evaluation_summary.csv").open(encoding="utf-8", newline="") as file:
            published = {published_row["Level"]: published_row for published_row in csv.DictReader(file)}
        for title in list(row)[3:]:
            level, _, column = title.replace("L1_TooAcc", "L1_ToolAcc").partition("_")
            assert float(row[title]) == float(published[level][column]), (name, title)
        assert "Unknown" not in (row["Vendor"], row["Model Type"])


def test_the_composite_is_that_of_the_published_levels(runs: list[Run]) -> None:
    """Worked out by hand from the published means; L3 and L6 without what the benchmark no longer reports."""
    (board,) = leaderboards_of(runs, SCORECARDS)
    assert len(board.standings) == len(NAMES)
    page = (ROOT / "docs" / "benchmarks" / "ko-metrics.md").read_text(encoding="utf-8")
    ((least, most),) = re.findall(r"this gives (0\.\d{3}) to (0\.\d{3}) less", page)
    published = []
    for row in board.standings:
        (name,) = (
            name for name in NAMES if name.startswith(row.view.model.replace("/", "_").split(":")[0] + "_")
        )
        levels = read_report(REPORTS / name / "evaluation_report.json")["by_level"]
        common = ("SR", "EPR_CVR", "pass@k", "RRR")
        means = {
            level: [mean for metric, mean in levels[level]["metrics"].items() if metric not in common]
            for level in LEVELS
        }
        value = {level: sum(scores) / len(scores) for level, scores in means.items()}
        basic = (value["L1"] + value["L2"] + value["L3"]) / 3
        by_hand = 0.4 * basic + 0.2 * value["L5"] + 0.25 * value["L6"] + 0.15 * value["L7"]
        assert row.value == pytest.approx(by_hand, abs=1e-12)
        pooled = [mean for level in ("L1", "L2", "L3") for mean in means[level]]
        assert float(least) <= round(0.4 * (basic - sum(pooled) / len(pooled)), 3) <= float(most)
        assert [level.value for level in row.scorecard.groups] == pytest.approx(
            [value[level] for level in LEVELS]
        )
        published.append((by_hand, name))
    assert published == sorted(published, reverse=True)
    for rank, (by_hand, name) in enumerate(published, 1):
        if name in RANKED and len(NAMES) == 15:
            assert (rank, round(by_hand, 3)) == RANKED[name]
