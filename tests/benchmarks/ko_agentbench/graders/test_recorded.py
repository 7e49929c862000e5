"""Mode ``upstream`` against what was published of the recorded runs, and what the original code gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import GROUPS, LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetricGrader
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import ComputedGrader
from pytest_agenteval.benchmarks.ko_agentbench.importer.trials import JUDGED, verdict_text
from pytest_agenteval.records.evidence import Answer, Evidence, Grade, Outcome
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript
from tests.benchmarks.ko_agentbench.clone import LOGS, REPORTS, Json, needs_clone, oracle, recorded_models
from tests.benchmarks.ko_agentbench.graders.sample_trials import NAMES, Scripted, grader_class, says
from tests.graders.judge.judges import run

MODELS = recorded_models() or ["none"]
KNOWN = sorted(oracle())
pytestmark = needs_clone

FREE = {"reason", "final_reason", "llm_reason"}
OF_A_SET = {"required_tools", "covered_tools", "missing_tools", "fallback_candidates", "fallback_tools"}
"""The benchmark goes through a set here: their order differs between its reports."""
NOT_PUBLISHED = {"ProvAcc", "ReuseRate", "RRR"}


@cache
def published_levels(model: str) -> dict[str, Json]:
    """Read what was published of a model, by level."""
    day = max(path.name for path in (LOGS / model).iterdir()).partition("_")[0]
    file = REPORTS / f"{model}_{day}" / "evaluation_report.json"
    levels: dict[str, Json] = json.loads(file.read_text(encoding="utf-8"))["by_level"]
    return levels


@cache
def published(model: str) -> dict[str, dict[str, Json]]:
    """Give the published metrics of a model, by level and task."""
    return {
        level: {task["task_id"]: task["metrics"] for task in report["task_evaluations"]}
        for level, report in published_levels(model).items()
    }


@cache
def levels_of_logs(model: str) -> dict[str, list[Json]]:
    """Read the recorded results of a model, by level."""
    files = (LOGS / model).glob("*/L?.json")
    logs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    return {level: logs[level]["results"] for level in LEVELS}


def config_of(logged: Json) -> Json:
    """Give what the benchmark's evaluator knows of a task, as a grader's config."""
    keys = ("golden_action", "arg_schema", "resp_schema", "minimum_steps", "data_flow")
    more = ("error_injection", "fallback_options", "instruction")
    settings = {key: logged[key] for key in (*keys, *more)}
    return {**settings, "task_level": logged["level"], "mode": "upstream"}


def evidence_of(logged: Json) -> Evidence:
    """Give a recorded result as evidence."""
    messages = []
    for message in (logged["conversation_log"] or {}).get("messages") or []:
        content = message["content"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        messages.append(Message(message["role"], text))
    calls = []
    for call in logged["tool_calls"]:
        error = None if call["success"] else ToolError("tool_error", call["error"])
        args, result = call["arguments"] or {}, call.get("result")
        calls.append(ToolCall("c", call["step"], 0, call["tool_name"], args, None, result, error))
    state = {key: logged[key] for key in ("success", "repetition_results", "repetitions")}
    state |= {"conversation": bool(logged["conversation_log"]), "task_level": logged["level"]}
    answer = Answer(logged["final_response"] or "", {"ko_agentbench": state})
    transcript = Transcript(tuple(messages), tuple(calls))
    return Evidence({"content": logged["instruction"]}, transcript, Outcome(answer))


def judges_of(label: str, metric: Json) -> list[Scripted]:
    """Give judges that say again what was published of them."""
    details = metric["details"]
    if label == "SR":
        votes = zip(details["votes"], details["reasons"], strict=False)
        replies = [verdict_text(label, vote, reason) for vote, reason in votes]
        return [says(*replies, name="azure/gpt-4.1-mini")]
    if label == "ArgAcc":
        return [says(verdict_text(label, round(details["llm_judge_score"] * 4) + 1))]
    key = "success" if label == "EffScore" else "score"
    return [
        says(verdict_text(label, judge_vote[key], judge_vote["reason"]), name=judge_vote["judge_model"])
        for judge_vote in details["individual_judges"]
    ]


async def grades_of(model: str, level: str, logged: Json) -> dict[str, Grade]:
    """Give all grades of a recorded result, by the benchmark's labels; judges say what was published."""
    metrics, grades = published(model)[level][logged["task_id"]], {}
    evidence = evidence_of(logged)
    for name, label in GROUPS[f"ko_{level}"]:
        label = label.removesuffix(" share")
        grader = grader_class(name)(**config_of(logged))
        if isinstance(grader, JudgedMetricGrader):
            judges: Any = judges_of(label, metrics[label]) if label in JUDGED else ()
            grades[label] = await grader.with_judges(judges).grade(evidence)
        elif isinstance(grader, ComputedGrader):
            grades[label] = grader.grade(evidence)
    return grades


@cache
def all_grades(model: str) -> dict[str, dict[str, dict[str, Grade]]]:
    """Give all grades of a model, by level and task."""

    async def everything() -> dict[str, dict[str, dict[str, Grade]]]:
        logs = levels_of_logs(model)
        return {
            level: {logged["task_id"]: await grades_of(model, level, logged) for logged in logs[level]}
            for level in LEVELS
        }

    return run(everything())


def without_words(details: Any) -> Any:
    """Take the wording of free texts away, and leave that there is one; put what is in no order into one."""
    if isinstance(details, dict):
        plain = {key: "words" if key in FREE else without_words(value) for key, value in details.items()}
        return {key: sorted(value) if key in OF_A_SET else value for key, value in plain.items()}
    return [without_words(item) for item in details] if isinstance(details, list) else details


@pytest.mark.parametrize("model", MODELS)
def test_every_score_and_its_details_are_those_published(model: str) -> None:
    """Each metric of each task: the score, and all of ``details`` but for the wording of reasons."""
    compared = 0
    for level, tasks in all_grades(model).items():
        for id, grades in tasks.items():
            for label, metric in published(model)[level][id].items():
                grade, details = grades[label], dict(metric["details"])
                ours: Json = dict(grade.details["upstream"])
                if not details.get("votes", True):
                    details["reasons"] = ours["reasons"] = len(details["reasons"])
                assert grade.value == pytest.approx(metric["score"], abs=1e-12), (id, label)
                assert without_words(ours) == without_words(details), (id, label)
                assert list(ours) == list(details), (id, label)
                compared += 1
    assert compared > 450


@pytest.mark.parametrize("model", MODELS)
def test_the_replayed_reasons_of_judges_are_kept(model: str) -> None:
    """What a judge wrote stands word for word in the details."""
    for level, tasks in all_grades(model).items():
        for id, grades in tasks.items():
            theirs = published(model)[level][id]["SR"]["details"]
            if theirs["votes"]:
                assert grades["SR"].details["upstream"]["reasons"] == theirs["reasons"]
            for label in {"EffScore", "ContextRetention", "RefRecall"} & set(grades):
                ours = grades[label].details["upstream"]["individual_judges"]
                assert ours == published(model)[level][id][label]["details"]["individual_judges"]


@pytest.mark.parametrize("model", KNOWN)
def test_scores_are_those_of_the_oracle(model: str) -> None:
    """Each score that needs no judge is what the original code gives for the same log."""
    compared = 0
    for level, tasks in oracle()[model]["levels"].items():
        for id, expected in tasks.items():
            grades = all_grades(model)[level][id]
            for label in set(expected) - {"judged"}:
                assert grades[label].score == pytest.approx(expected[label], abs=1e-12), (id, label)
                compared += 1
    assert compared > 250


def test_all_else_of_a_group_is_undecided_upstream() -> None:
    """What reports do not hold is not there: a rate of responses has a score and no details."""
    for tasks in all_grades(MODELS[0]).values():
        for grades in tasks.values():
            for label in NOT_PUBLISHED & set(grades):
                assert "upstream" not in grades[label].details
                assert (grades[label].score is None) == (label != "RRR")


@pytest.mark.parametrize("model", KNOWN[::4])
def test_judges_decide_no_more_than_they_do_upstream(model: str) -> None:
    """With the best and the worst judge scores are the oracle's, and judges are asked as often.

    Without a judge, a gate, an empty argument or no call decides; everything else waits for one.
    """

    async def grade(label: str, logged: Json, judges: Sequence[Any]) -> Grade:
        grader = grader_class(NAMES[label])(**config_of(logged))
        assert isinstance(grader, JudgedMetricGrader)
        return await grader.with_judges(judges).grade(evidence_of(logged))

    async def compare() -> int:
        compared = 0
        for level, results in levels_of_logs(model).items():
            for logged in results:
                place = logged["task_id"]
                for label, expected in oracle()[model]["levels"][level][place]["judged"].items():
                    verdicts = (True, False) if label in ("SR", "EffScore") else (5, 1)
                    for verdict, key in zip(verdicts, ("if_judge_max", "if_judge_min"), strict=True):
                        judge = says(verdict_text(label, verdict))
                        got = await grade(label, logged, [judge])
                        assert got.score == pytest.approx(expected[key]), (place, label)
                        assert len(judge.chat.asked) == expected["judge_calls"], (place, label)
                    got = await grade(label, logged, [])
                    assert got.score == expected["deterministic"], (place, label)
                    compared += 1
        return compared

    assert run(compare()) == 137
