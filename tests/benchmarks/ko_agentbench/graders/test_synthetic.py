"""Mode ``upstream`` against what the benchmark's own classes return for synthetic inputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import KoCall, KoMessage, KoTrace, MetricResult
from pytest_agenteval.benchmarks.ko_agentbench.importer.trials import JUDGED, verdict_text
from pytest_agenteval.text.errors import ProviderDown
from tests.benchmarks.ko_agentbench.clone import ROOT, SHARED, oracle
from tests.benchmarks.ko_agentbench.graders.sample_trials import (
    NAMES,
    Scripted,
    did,
    grader_class,
    ko_call,
    result_of,
    says,
    upstream,
)

SYNTHETIC = ROOT / "tests/oracle/ko-synthetic.json"
Case = Mapping[str, Any]
CASES: list[Case] = json.loads(SYNTHETIC.read_text(encoding="utf-8"))["cases"]


def trace_of(case: Case) -> KoTrace:
    """Give the trace of a case."""
    logs, talk = case["logs"], case["logs"]["conversation_log"]
    keys = ("step", "tool_name", "arguments", "success", "error", "result")
    messages = tuple(KoMessage(message["role"], message["content"]) for message in talk.get("messages", ()))
    return KoTrace(
        calls=tuple(KoCall(*(call.get(key) for key in keys)) for call in logs["tool_calls"]),
        final_response=logs["final_response"],
        success=logs["success"],
        repetition_results=tuple(logs["repetition_results"]),
        repetitions=case["task"].get("repetitions"),
        messages=messages if talk else None,
    )


def reply(label: str, verdict: Any) -> str | BaseException:
    """Give a case's reply as one of ours: what it says is the same, its form is not."""
    if verdict == "RAISE":
        return ProviderDown("out of reach")
    if isinstance(verdict, str):
        return verdict
    value = verdict["success"] if "success" in verdict else verdict["score"]
    return verdict_text(label, value, verdict["reason"])


def judged(case: Case) -> tuple[MetricResult, list[Scripted]]:
    """Work the case's metric out as the benchmark does; give the judges that were there as well."""
    label = case["metric"]
    judges = [says(*(reply(label, verdict) for verdict in replies)) for replies in case["judges"] or ()]
    grader = grader_class(NAMES[label])(mode="upstream")
    for key, value in case["task"].items():
        # Some cases hold what the check of a task's keys refuses.
        object.__setattr__(grader, key, value)
    return result_of(grader, trace_of(case), judges), judges


@pytest.mark.parametrize("label", sorted({case["metric"] for case in CASES}))
def test_every_synthetic_case_scores_as_upstream(label: str) -> None:
    """Score, exceptions and the number of asks of every judge are those of the original classes.

    Where nobody judges the benchmark gives 0; that is no finding, so there our grade is undecided.
    """
    scores, undecided = set(), Counter[str]()
    for case in (case for case in CASES if case["metric"] == label):
        (got, judges), expected = judged(case), case["expected"]
        if case["judges"] is None and got.undecided == "no_judge":
            assert (got.score, expected["score"]) == (None, 0.0)
            undecided[label] += 1
            continue
        score = 0.0 if expected["raises"] else expected["score"]
        assert got.score == (None if score is None else pytest.approx(score, abs=1e-12)), case
        assert ("upstream_error" in got.more) == bool(expected["raises"]), case
        assert [len(judge.chat.asked) for judge in judges] == expected["calls_per_judge"], case
        scores.add(got.score)
    assert len(scores) > 1, "a metric that is always the same is not tested"
    assert undecided[label] == (label in ("SR", "ArgAcc", "ContextRetention"))


def test_every_metric_of_the_benchmark_has_cases() -> None:
    """No metric may fall out of the file; ours beside them are those that its code does not have."""
    assert len(CASES) == 2311
    assert set(NAMES) == {case["metric"] for case in CASES} | {"ProvAcc", "ReuseRate", "RRR"}
    assert set(NAMES.values()) == set(GRADERS)
    for name in ("ko_prov_acc", "ko_reuse_rate"):
        got = upstream(name, did(ko_call("A")), golden_action=[{"action": "context_used"}])
        assert (got.score, got.details, got.reason) == (None, None, "not in the benchmark's code")


def test_the_cases_are_the_oracles() -> None:
    """The files in the project hold the oracle's content, whatever its spaces."""
    if not (SHARED / "oracle").exists():
        pytest.skip("the oracle, ../shared/oracle, does not stand beside this checkout")
    source = json.loads((SHARED / "oracle/ko-synthetic.json").read_text(encoding="utf-8"))
    files = SHARED.glob("oracle/ko/*.json")

    assert json.loads(SYNTHETIC.read_text(encoding="utf-8")) == source
    assert oracle() == {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


@pytest.mark.parametrize("reason", [None, 7, ""])
def test_a_reply_without_a_reason_is_no_vote(reason: Any) -> None:
    """The original wants a reason, a text that may be empty: a reply without one fails, whatever it says."""
    talk = (KoMessage("user", "하나"), KoMessage("assistant", "둘"), KoMessage("user", "셋"))
    trace = did(ko_call("A", q=1), answer="넷입니다", messages=talk)
    for label in JUDGED:
        verdict = json.loads(verdict_text(label, True if label in ("SR", "EffScore") else 5))
        verdict["rationale"] = reason
        if reason is None:
            del verdict["rationale"]
        judge = says(json.dumps(verdict))
        got = upstream(NAMES[label], trace, judge, golden_action=[{"tool": "A", "args": {"q": 1}}])
        assert got.score == (1.0 if reason == "" else 0.0), label
