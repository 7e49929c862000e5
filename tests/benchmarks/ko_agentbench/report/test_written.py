"""A run in the shape of the Korean benchmark's own reports."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.report_files import (
    KEY_METRICS,
    LEVEL_TEXTS,
    MEANINGS,
    folder_name,
    vendor_of,
    write_reports,
)
from pytest_agenteval.records.evidence import Answer, Grade, Outcome
from pytest_agenteval.records.replies import UNKNOWN
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.text.errors import UsageMistake
from tests.benchmarks.ko_agentbench.report.sample_runs import (
    errored_trial,
    every_level,
    key,
    ko_run,
    ko_trial,
)
from tests.reports.runs import MIXED, store_run

LOGGED = {
    "success": True,
    "steps_taken": 4,
    "execution_time": 1.2345,
    "token_usage": {"prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 760},
    "ttft_stats": {"average": 0.75},
}


def report_folder(tmp_path: Path, trials: Sequence[Trial], **run: Any) -> Path:
    """Write the reports of one run of these trials; give the only model's folder."""
    write_reports([ko_run(tmp_path / "runs", trials, **run)], tmp_path / "out")
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    return folder


def report(folder: Path) -> dict[str, Any]:
    """Read the JSON report."""
    content: dict[str, Any] = json.loads((folder / "evaluation_report.json").read_text(encoding="utf-8"))
    return content


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_becomes_a_folder_with_three_files(tmp_path: Path) -> None:
    """The folder has the model's id, not our alias for it, and the day; one model needs no table of all."""
    folder = report_folder(tmp_path, every_level(0.5))

    assert folder.name == "azure_gpt-4o_20261121"
    names = ["evaluation_report.json", "evaluation_report.md", "evaluation_summary.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert sorted(folder.parent.iterdir()) == [folder]


def test_the_report_says_what_was_evaluated(tmp_path: Path) -> None:
    """Model, judge, day and counts; a broken trial is planned and not evaluated."""
    trials = [*every_level(0.5, tasks=1), errored_trial("L2-002"), ko_trial("L5-002", {"FallbackSR": 1.0})]
    content = report(report_folder(tmp_path, trials, planned=[(key("L1-002"), "L1")]))

    assert list(content) == ["summary", "by_level"]
    assert content["summary"] == {
        "model": "azure/gpt-4o",
        "judge_model": "azure/judge",
        "execution_date": "20261121",
        "evaluation_date": "2026-11-21T09:30:15+00:00",
        "total_tasks": 10,
        "evaluated_tasks": 8,
        "sample_size": None,
        "levels_evaluated": 7,
    }
    assert [
        (name, level["total_tasks"], level["evaluated_tasks"]) for name, level in content["by_level"].items()
    ][:3] == [("L1", 2, 1), ("L2", 2, 1), ("L3", 1, 1)]


def test_metrics_stand_in_the_benchmarks_order_under_its_names(tmp_path: Path) -> None:
    """Those of every task first, then the level's own; the response rate for levels only; none retired."""
    level = report(report_folder(tmp_path, every_level(0.5)))["by_level"]["L3"]

    assert list(level) == [
        "file",
        "total_tasks",
        "evaluated_tasks",
        "metrics",
        "metadata",
        "task_evaluations",
    ]
    assert list(level["metrics"]) == ["SR", "EPR_CVR", "pass@k", "FSM", "PSM", "ΔSteps_norm", "RRR"]
    assert list(level["task_evaluations"][0]["metrics"]) == [*level["metrics"]][:-1]
    assert level["task_evaluations"][0]["metrics"]["pass@k"] == {
        "score": 1.0,
        "details": {"label": "pass@k share"},
    }


def test_undecided_metrics_are_left_out_of_the_levels_mean(tmp_path: Path) -> None:
    """The mean is over what was decided, and 0.0 where nothing was: the benchmark's way."""
    trials = [
        ko_trial("L5-001", {"AdaptiveRoutingScore": None, "FallbackSR": 0.5}),
        ko_trial("L5-002", {"AdaptiveRoutingScore": None, "FallbackSR": None}),
    ]
    level = report(report_folder(tmp_path, trials))["by_level"]["L5"]

    assert (level["metrics"]["AdaptiveRoutingScore"], level["metrics"]["FallbackSR"]) == (0.0, 0.5)
    assert level["task_evaluations"][0]["metrics"]["AdaptiveRoutingScore"]["score"] is None


def test_the_page_shows_no_figure_for_a_metric_that_no_task_decided(tmp_path: Path) -> None:
    """Without a judge a success rate of 0.000 would be read as a failure of the model."""
    trials = [
        ko_trial(f"L1-00{n}", {"ToolAcc": 1.0, "ArgAcc": None, "SR": None}, mode="default") for n in (1, 2)
    ]
    page = (report_folder(tmp_path, trials) / "evaluation_report.md").read_text(encoding="utf-8")

    assert "ToolAcc: 1.000, ArgAcc: 미정 |" in page
    assert "- **SR**: 미정 - " in page
    assert "- **ToolAcc**: 1.000 - " in page


def test_what_a_level_took_is_worked_out_from_its_trials(tmp_path: Path) -> None:
    """Replies, the agent's calls, tokens, its time; the first token where it is known, else the reply."""
    took = report(report_folder(tmp_path, every_level(0.5)))["by_level"]["L1"]["metadata"]

    assert took == {
        "timestamp": "2026-11-21T09:30:15+00:00",
        "model": "azure/gpt-4o",
        "level": "L1",
        "total_tasks": 2,
        "successful_tasks": 2,
        "failed_tasks": 0,
        "success_rate": 100.0,
        "total_execution_time": 4.0,
        "average_execution_time": 2.0,
        "total_steps": 4,
        "average_steps": 2.0,
        "total_tool_calls": 2,
        "average_tool_calls": 1.0,
        "total_tokens": 240,
        "average_tokens_per_task": 120.0,
        "average_prompt_tokens": 100.0,
        "average_completion_tokens": 20.0,
        "average_tps": 60.0,
        "ttft": {"average": 0.5, "min": 0.5, "max": 0.5, "unit": "seconds"},
    }


def test_an_imported_trial_is_told_as_its_log_tells_it(tmp_path: Path) -> None:
    """The log's own figures stand, and a trial that the benchmark saw fail is evaluated though it broke."""
    failed = {**LOGGED, "success": False, "steps_taken": 0, "ttft_stats": {"average": 0.0}}
    trials = [
        ko_trial("L2-001", {"SelectAcc": 1.0}, outcome=Outcome(Answer("답", {"ko_agentbench": LOGGED}))),
        ko_trial(
            "L2-002",
            {"SelectAcc": 0.0},
            ending="errored",
            outcome=Outcome(Answer("", {"ko_agentbench": failed})),
        ),
    ]
    level = report(report_folder(tmp_path, trials))["by_level"]["L2"]
    took = level["metadata"]

    assert (level["evaluated_tasks"], level["metrics"]["RRR"]) == (2, 0.5)
    assert [task["success"] for task in level["task_evaluations"]] == [True, False]
    assert (took["total_steps"], took["total_tokens"], took["total_execution_time"]) == (4, 1520, 2.47)
    assert took["ttft"] == {"average": 0.75, "min": 0.75, "max": 0.75, "unit": "seconds"}


def test_the_first_repetition_stands_for_a_task_and_the_others_count_in_its_share(tmp_path: Path) -> None:
    """As in the benchmark: all but the success flags of later repetitions is left aside."""
    silent = (Grade("RRR", 0.0, ""), Grade("SelectAcc", 0.0, ""))
    trials = [
        errored_trial("L2-001"),
        ko_trial("L2-001", {"SelectAcc": 1.0}, key=key("L2-001", repetition=2)),
        ko_trial("L2-001", {}, key=key("L2-001", repetition=3), grades=silent),
    ]
    level = report(report_folder(tmp_path, trials))["by_level"]["L2"]
    (task,) = level["task_evaluations"]

    assert task["metrics"]["SelectAcc"]["score"] == 1.0
    assert task["metrics"]["pass@k"] == {
        "score": 0.5,
        "details": {"repetitions": 3, "actual_repetitions": 2, "success_count": 1},
    }
    assert level["total_tasks"] == 1


@pytest.mark.parametrize(
    ("shares", "score", "counted"),
    [((1.0, 0.0, 0.0), 1 / 3, 3), ((1.0, None, 0.0), 0.5, 2), ((None,) * 3, None, 0)],
)
def test_by_the_documentation_a_repetition_counts_if_it_succeeded(
    tmp_path: Path, shares: tuple[float | None, ...], score: float | None, counted: int
) -> None:
    """An answer alone is no success; what no judge decided counts neither way."""
    trials = [
        ko_trial(
            "L2-001",
            {"SelectAcc": 1.0, "pass@k share": share},
            mode="default",
            key=key("L2-001", repetition=at),
        )
        for at, share in enumerate(shares, 1)
    ]
    (task,) = report(report_folder(tmp_path, trials))["by_level"]["L2"]["task_evaluations"]
    share = task["metrics"]["pass@k"]

    assert (share["score"], share["details"]["actual_repetitions"]) == (score, counted)


def test_a_metric_that_broke_upstream_says_so_in_place_of_details(tmp_path: Path) -> None:
    """Its score is 0, or the one outside 0..1 that is no score of ours."""
    thrown = Grade("FSM", 0.0, "", details={"upstream_error": "no list"})
    below = Grade("PSM", 0.0, "", details={"upstream": {"x": 1}}, unclamped=-8.0)
    content = report(report_folder(tmp_path, [ko_trial("L3-001", {}, grades=(thrown, below))]))
    metrics = content["by_level"]["L3"]["task_evaluations"][0]["metrics"]

    assert metrics == {
        "FSM": {"score": 0.0, "error": "no list"},
        "PSM": {"score": -8.0, "details": {"x": 1}},
    }
    assert "mode" not in content["summary"]


def test_only_figures_of_another_mode_are_marked(tmp_path: Path) -> None:
    """The shape stays; the summary says that the metrics are not counted in the benchmark's way."""
    folder = report_folder(tmp_path, [ko_trial("L2-001", {"SelectAcc": 1.0}, mode="default")])
    content = report(folder)
    metric = content["by_level"]["L2"]["task_evaluations"][0]["metrics"]["SelectAcc"]

    assert content["summary"]["mode"] == "default"
    assert metric == {"score": 1.0, "details": {"reason": "why SelectAcc"}}
    assert "- **모드**: default" in (folder / "evaluation_report.md").read_text(encoding="utf-8")


def test_the_csv_has_every_metric_for_every_level(tmp_path: Path) -> None:
    """Names in the order of their characters, four digits; what a level does not have is 0.0000."""
    text = (report_folder(tmp_path, every_level(0.5)) / "evaluation_summary.csv").read_bytes().decode()
    head, first, *others = text.split("\r\n")

    assert head == (
        "Level,Total_Tasks,Evaluated_Tasks,Avg_Exec_Time,Avg_Tokens,Avg_TPS,Avg_TTFT,AdaptiveRoutingScore,"
        "ArgAcc,CallEM,ContextRetention,Coverage,EPR_CVR,EffScore,FSM,FallbackSR,PSM,RRR,RedundantCallRate,"
        "RefRecall,RespOK,SR,SelectAcc,SourceEPR,ToolAcc,pass@k,ΔSteps_norm"
    )
    assert first == (
        "L1,2,2,2.00,120.00,60.00,0.5000,0.0000,0.5000,0.5000,0.0000,0.0000,0.5000,0.0000,0.0000,0.0000,"
        "0.0000,1.0000,0.0000,0.0000,0.5000,1.0000,0.0000,0.0000,0.5000,1.0000,0.0000"
    )
    assert [line[:2] for line in others] == [*LEVELS[1:], ""]


def test_the_page_has_the_parts_of_the_benchmarks(tmp_path: Path) -> None:
    """Headings, tables and lines of metrics in its order: response and success rate first."""
    page = (report_folder(tmp_path, every_level(0.5)) / "evaluation_report.md").read_text(encoding="utf-8")
    lines = page.splitlines()

    assert [line for line in lines if line.startswith("## ")] == [
        "## 실행 정보",
        "## 📊 성능 요약",
        "## 레벨별 성능",
        "## 토큰 사용량 및 성능 지표",
    ]
    assert "| **L1** | 2/2 | 2.0초 | 60 | 0.500초 | ToolAcc: 0.500, ArgAcc: 0.500 |" in lines
    assert "| **L7** | 120 | 100 | 20 | 60 | 0.5000초 | 0.5000 / 0.5000 |" in lines
    assert "- **총 처리 토큰**: 1,680개" in lines
    at = lines.index(f"### Level 5: {LEVEL_TEXTS['L5'][0]}")
    assert [line.split("**")[1] for line in lines[at + 9 : at + 15]] == [
        "RRR",
        "SR",
        "AdaptiveRoutingScore",
        "EPR_CVR",
        "FallbackSR",
        "pass@k",
    ]


def test_everything_that_can_be_reported_has_words() -> None:
    """No level and no metric would stop a report for want of its Korean line."""
    assert {*LEVEL_TEXTS} == {*KEY_METRICS} == {*LEVELS}
    assert all(name in MEANINGS for names in KEY_METRICS.values() for name in names)


def test_several_models_have_a_table_of_all(tmp_path: Path) -> None:
    """A row for each: named as its folder, with vendor and kind; a level that was not run leaves blanks."""
    claude = RunModel("claude", "bedrock/global.anthropic.claude-haiku-v1:0")
    runs = [
        ko_run(tmp_path / "runs", every_level(0.5)),
        ko_run(
            tmp_path / "runs",
            [trial for trial in every_level(0.25, "claude") if trial.bucket in ("L1", "L3")],
            (claude,),
        ),
    ]
    paths = write_reports(runs, tmp_path / "out")
    first, second = rows(tmp_path / "out" / "combined_evaluation_summary.csv")

    assert len(paths) == 7
    assert list(first)[:4] == ["Model", "Vendor", "Model Type", "L1_Total_Tasks"]
    assert len(first) == 3 + 6 * 7 + 4 * 7 + 16
    assert list(first)[-16:-12] == ["L1_TooAcc", "L1_ArgAcc", "L1_CallEM", "L1_RespOK"]
    assert [first[name] for name in ("Model", "Vendor", "Model Type")] == ["azure_gpt-4o", "OpenAI", "API"]
    assert (first["L1_Total_Tasks"], first["L1_Avg_Exec_Time"], first["L1_TooAcc"]) == ("2", "2.0", "0.5")
    assert second["Model"] == "bedrock_global.anthropic.claude-haiku-v1"
    assert (second["Vendor"], second["L3_ΔSteps_norm"], second["L2_SR"]) == ("Anthropic", "0.25", "")


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("azure/gpt-5-mini", ("OpenAI", "API")),
        ("bedrock/openai.gpt-oss-120b-1:0", ("OpenAI", "OSS")),
        ("bedrock/us.amazon.nova-lite-v1:0", ("Amazon", "API")),
        ("openrouter/z-ai/glm-4.6v", ("Z.ai", "OSS")),
        ("vertex_ai/gemini-2.5-pro", ("Google", "API")),
        ("oracle", ("Unknown", "Unknown")),
    ],
)
def test_a_models_vendor_is_told_by_its_id(model: str, vendor: tuple[str, str]) -> None:
    """Not by who serves it, and not at all where the id tells nothing."""
    assert vendor_of(model) == vendor


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("azure/gpt-4o", "azure_gpt-4o_20261121"),
        ("bedrock/us.amazon.nova-lite-v1:0", "bedrock_us.amazon.nova-lite-v1_20261121"),
        ("openrouter/mistralai/devstral:free", "openrouter_mistralai_devstral_free_20261121"),
        ("../../x", ".._.._x_20261121"),
    ],
)
def test_a_folders_name_is_a_name_everywhere(model: str, name: str) -> None:
    """No slash leads out of the folder that was named, no colon troubles Windows."""
    assert folder_name(model, "20261121") == name


def test_two_aliases_of_one_model_have_folders_of_their_own(tmp_path: Path) -> None:
    """The id alone would let one overwrite the other."""
    models = (RunModel("gpt", "azure/gpt-4o"), RunModel("hot", "azure/gpt-4o"))
    trials = [*every_level(0.5, "gpt", 1), *every_level(0.25, "hot", 1)]
    write_reports([ko_run(tmp_path / "runs", trials, models)], tmp_path / "out")

    folders = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert folders == ["gpt_20261121", "hot_20261121"]


def test_one_model_twice_on_one_day_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The second would overwrite the first."""
    runs = [ko_run(tmp_path / "runs", every_level(score)) for score in (0.5, 0.6)]

    with pytest.raises(UsageMistake, match="two evaluations would be written into gpt_20261121"):
        write_reports(runs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_the_benchmarks_is_refused(tmp_path: Path) -> None:
    """The mistake says what was expected and which run has it not."""
    with pytest.raises(UsageMistake, match=r"rules: expected grades of Ko-AgentBench .* there are none"):
        write_reports([store_run(tmp_path, MIXED)], tmp_path / "out")


def test_a_file_in_the_place_of_the_folder_is_a_usage_mistake(tmp_path: Path) -> None:
    """What cannot be written is said with its path."""
    (tmp_path / "out").write_text("", encoding="utf-8")

    with pytest.raises(UsageMistake, match=r"out.*: cannot be written"):
        report_folder(tmp_path, [ko_trial("L1-001", {"ToolAcc": 1.0})])


@pytest.mark.parametrize("offline", [True, False])
def test_what_a_model_took_is_unknown_where_nobody_said_it_or_no_model_was_asked(
    tmp_path: Path, offline: bool
) -> None:
    """An offline model has no tokens per second and no first token; unknown tokens are no 0 of them."""
    trials = every_level(0.5)
    if not offline:
        silent = [replace(ask, usage=UNKNOWN) for ask in trials[0].transcript.asks]
        transcript = replace(trials[0].transcript, asks=tuple(silent), usage=UNKNOWN)
        trials = [replace(trial, transcript=transcript) for trial in trials]
    models = (RunModel("gpt", "azure/gpt-4o", offline=offline),)
    folder = report_folder(tmp_path, trials, models=models)

    took = report(folder)["by_level"]["L1"]["metadata"]
    assert took["average_tps"] is None
    assert (took["total_tokens"] is None, took["ttft"]["average"] is None) == (not offline, offline)
    text = (folder / "evaluation_report.md").read_text(encoding="utf-8")
    assert "- **전체 평균 TPS**: 알 수 없음" in text
