"""Mode ``upstream`` against what the benchmark's own classes return for synthetic inputs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetric, JudgePanel, mean_upstream
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import CodeMetric, KoMessage, MetricResult
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.importer.trials import verdict_text
from pytest_agenteval.text.errors import ProviderDown
from tests.benchmarks.ko_agentbench.clone import SHARED, oracle
from tests.benchmarks.ko_agentbench.graders.sample_trials import (
    SYNTHETIC,
    Case,
    Scripted,
    did,
    grader_class,
    ko_call,
    metrics,
    says,
    synthetic,
    task_of,
    trace_of_case,
)
from tests.graders.judge.judges import run

METRICS = metrics()
CASES = synthetic()


def judges_of(case: Case) -> list[Scripted]:
    """Give judges that reply as those of the case do."""
    return [
        says(*(reply(case["metric"], verdict) for verdict in replies)) for replies in case["judges"] or ()
    ]


def reply(label: str, verdict: Any) -> str | BaseException:
    """Give a case's reply as one of ours: what it says is the same, its form is not."""
    if verdict == "RAISE":
        return ProviderDown("out of reach")
    if isinstance(verdict, str):
        return verdict
    return verdict_text(
        label, verdict["success"] if "success" in verdict else verdict["score"], verdict["reason"]
    )


def metric_result(case: Case, judges: list[Scripted]) -> MetricResult:
    """Work the case's metric out as the benchmark does."""
    metric, task, trace = METRICS[case["metric"]], task_of(case), trace_of_case(case)
    if isinstance(metric, JudgedMetric):
        return run(metric.of(task, trace, "upstream", JudgePanel(tuple(judges))))  # type: ignore[arg-type]
    return metric.of(task, trace, "upstream")


@pytest.mark.parametrize("label", sorted({case["metric"] for case in CASES}))
def test_every_synthetic_case_scores_as_upstream(label: str) -> None:
    """Score, exceptions and the number of asks of every judge are those of the original classes."""
    seen = set()
    for case in (case for case in CASES if case["metric"] == label):
        judges, expected = judges_of(case), case["expected"]
        got = metric_result(case, judges)
        if case["judges"] is None and got.undecided == "no_judge":
            assert (got.score, expected["score"], case["tag"]) == (None, mean_upstream([])[2], case["tag"])
            continue
        score = 0.0 if expected["raises"] else expected["score"]
        assert got.score == (None if score is None else pytest.approx(score, abs=1e-12)), case
        assert ("upstream_error" in got.more) == bool(expected["raises"]), case
        assert [len(judge.chat.asked) for judge in judges] == expected["calls_per_judge"], case
        seen.add(got.score)
    assert len(seen) > 1, "a metric that is always the same is not tested"


def test_only_a_missing_judge_is_told_otherwise() -> None:
    """Where nobody judges the benchmark gives 0; that is no finding, so there our grade is undecided."""
    without = [case for case in CASES if case["judges"] is None and metric_result(case, []).score is None]
    undecided = [case for case in without if case["expected"]["score"] is not None]

    assert Counter(case["metric"] for case in undecided) == {"SR": 1, "ArgAcc": 1, "ContextRetention": 1}
    assert {case["expected"]["score"] for case in undecided} == {0.0}


def test_every_metric_of_the_benchmark_has_cases() -> None:
    """No metric may fall out of the file; ours beside them are those that its code does not have."""
    covered, ours = {case["metric"] for case in CASES}, {"ProvAcc", "ReuseRate", "RRR"}

    assert len(CASES) == 2311
    assert set(METRICS) == covered | ours
    assert len(METRICS) == len(GRADERS)


def test_what_was_documented_only_is_undecided_upstream() -> None:
    """The benchmark's code has no data flows and no rate of reuse: nothing is made up for it."""
    for name in ("ko_prov_acc", "ko_reuse_rate"):
        got = grader_class(name).metric.of(task_of(CASES[0]), trace_of_case(CASES[0]), "upstream")  # type: ignore[attr-defined]
        assert (got.score, got.details) == (None, None)
        assert "not in the benchmark's code" in got.reason


def test_the_cases_are_the_oracles() -> None:
    """The files in the project hold the oracle's content, whatever its spaces."""
    if not (SHARED / "oracle").exists():
        pytest.skip("the oracle, ../shared/oracle, does not stand beside this checkout")
    source = SHARED / "oracle/ko-synthetic.json"
    recorded = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in SHARED.glob("oracle/ko/*.json")
    }

    assert json.loads(SYNTHETIC.read_text(encoding="utf-8")) == json.loads(source.read_text(encoding="utf-8"))
    assert oracle() == recorded


@pytest.mark.parametrize(("least", "calls", "score"), [(0, 1, 0.0), (0, 0, 0.0), (None, 1, 1.0), (1, 1, 1.0)])
def test_no_step_at_all_is_a_number_of_steps(least: int | None, calls: int, score: float) -> None:
    """``minimum_steps: 0`` is 0, which the original code gives 0 for; only null counts the golden path."""
    task = KoTask(golden_action=[{"tool": "A", "args": {}}], minimum_steps=least)
    metric = METRICS["ΔSteps_norm"]
    assert isinstance(metric, CodeMetric)

    got = metric.of(task, did(*[ko_call("A", place) for place in range(calls)]), "upstream")

    assert got.score == score


REPLIES = {
    "SR": "success",
    "EffScore": "success",
    "ArgAcc": "score",
    "ContextRetention": "score",
    "RefRecall": "score",
}


@pytest.mark.parametrize("label", REPLIES)
@pytest.mark.parametrize("reason", [None, 7, ""])
def test_a_reply_without_a_reason_is_no_vote(label: str, reason: Any) -> None:
    """The original wants a reason, a text that may be empty: a reply without one fails, whatever it says."""
    metric = METRICS[label]
    assert isinstance(metric, JudgedMetric)
    verdict = json.loads(metric.reply(True if REPLIES[label] == "success" else 5, ""))
    if reason is None:
        del verdict["rationale"]
    else:
        verdict["rationale"] = reason
    golden = [{"tool": "A", "args": {"q": 1}}]
    talk = (KoMessage("user", "하나"), KoMessage("assistant", "둘"), KoMessage("user", "셋"))
    trace = did(ko_call("A", q=1), answer="넷입니다", messages=talk)

    got = run(metric.of(KoTask(golden), trace, "upstream", JudgePanel((says(json.dumps(verdict)),))))  # type: ignore[arg-type]

    assert got.score == (1.0 if reason == "" else 0.0)
