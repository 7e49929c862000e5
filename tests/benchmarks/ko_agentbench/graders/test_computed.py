"""Mode ``default`` of the metrics that need no judge: what the benchmark documents, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import KoCall, has_content, is_error_result
from tests.benchmarks.ko_agentbench.graders.sample_trials import by_default, did, golden, ko_call

HITS = {"items": [1]}


def score(name: str, *calls: Any, answer: Any = "답입니다", **config: Any) -> float | None:
    """Give the score of a trial that made these calls."""
    return by_default(name, did(*calls, answer=answer), **config).score


def test_calls_that_were_not_made_have_no_share() -> None:
    """EPR_CVR is not applicable without calls; an error in the place of a result is no valid call."""
    assert score("ko_valid_calls") is None
    assert score("ko_valid_calls", ko_call("A", seeded=True)) is None
    calls = [ko_call("A"), ko_call("A", ok=False), ko_call("A", result={"success": False}), ko_call("B")]
    assert score("ko_valid_calls", *calls) == 0.5


@pytest.mark.parametrize(
    ("payload", "wrong"),
    [
        ({"success": False, "error_code": "API_REQUEST_FAILED"}, True),
        ({"error": {"name": 404, "message": "Code not found"}}, True),
        ({"errorCode": 8, "errorMessage": "no such item"}, True),
        ({"code": 2, "message": "too far", "route": None}, True),
        ({"code": 0, "message": "ok", "route": {"traoptimal": [1]}}, False),
        ({"rsp_cd": "00707", "rsp_msg": "nothing"}, True),
        ({"rsp_cd": "00000", "t1102OutBlock": {"price": 1}}, False),
        ({"rt_cd": "1"}, True),
        ({"rt_cd": "0", "price": 3}, False),
        ({"code": 7}, False),
        ({"error": None, "items": []}, False),
        ([{"error": {"name": 404}}], True),
        ([{"error": "x"}, {"price": 1}], False),
        ([], False),
        ("error", False),
    ],
)
def test_an_error_that_a_provider_writes_as_a_result_is_seen(payload: Any, wrong: bool) -> None:
    """Each provider's way of saying no, and what only looks like one."""
    assert is_error_result(payload) is wrong


@pytest.mark.parametrize(
    ("payload", "some"),
    [
        ({"documents": [1], "meta": {"total_count": 1}}, True),
        ({"documents": [], "meta": {"total_count": 0}}, False),
        ({"rsp_cd": "00000", "t1102OutBlock": {"price": 0}}, True),
        ({"total_count": None, "places": []}, False),
        ({"a": {"b": ""}}, False),
        ({}, False),
        ([], False),
        ([0], True),
        ({"temp": 21, "alerts": []}, True),
        ({"temp": 0, "alerts": []}, True),
        ({"is_raining": False, "alerts": []}, True),
        ([{"error": {"name": 404}}], False),
        ([{"error": "x"}, {"price": 1}], True),
        ([{}, [], ""], False),
        ({"items": [{"error": "x"}]}, False),
        ({"totalResults": 0, "title": "알라딘 검색결과"}, False),
        ({"totalResults": "0"}, False),
        ({"totalResults": 0, "item": [{"title": "a"}]}, True),
        ({"lastBuildDate": "Mon", "total": 0, "start": 1, "display": 0, "items": []}, False),
        ({"total": 0, "price": 100}, True),
        ({"status": "OK", "results": []}, False),
        ({"success": True}, True),
        ({"symbol": "005930", "period": "D", "data": []}, False),
        ({"block": {"ex_symbol": "N005930"}, "rows": []}, False),
        ({"block": {"up": 0, "rate": 0, "name": ""}, "rows": []}, False),
        ({"block": {"up": 0, "rate": 0, "name": "반도체"}, "rows": []}, True),
        (" ", False),
        ("<xml/>", True),
        (0, True),
        (None, False),
    ],
)
def test_something_is_told_from_nothing(payload: Any, some: bool) -> None:
    """A result is empty only where everything in it is, an echo of the call and a page's number among it."""
    assert has_content(payload, {"symbol": "005930", "period": "D"}) is some


@pytest.mark.parametrize(
    ("payload", "some"),
    [
        ({"temp": 5, "alerts": []}, True),
        ({"price": 5}, True),
        ({"is_open": True}, True),
        ({"total_days": 5, "alerts": []}, False),
        ({"pageNo": 2, "numOfRows": 10, "items": []}, False),
        ({"city_name": "Seoul", "alerts": []}, False),
    ],
)
def test_a_number_that_equals_an_argument_by_chance_is_no_echo(payload: Any, some: bool) -> None:
    """Only under a like name does a number or a truth value say again what was asked for; a text always."""
    assert has_content(payload, {"days": 5, "detail": True, "where": "Seoul", "page": 2}) is some


def test_an_answer_is_words_of_the_agents_own() -> None:
    """RRR wants words; a run that broke off has none of its own."""
    assert by_default("ko_response_rate", did(answer="네")).score == 1.0
    assert by_default("ko_response_rate", did(answer=" ")).score == 0.0
    assert by_default("ko_response_rate", did(answer=None)).score == 0.0
    assert by_default("ko_response_rate", did(answer="seeded words", success=False)).score == 0.0


@pytest.mark.parametrize("name", ["ko_tool_acc", "ko_select_acc"])
def test_the_first_call_is_the_choice(name: str) -> None:
    """The first call's tool counts, not a later one's; without a golden tool there is nothing to tell."""
    assert score(name, ko_call("A"), ko_call("B"), golden_action=golden("A")) == 1.0
    assert score(name, ko_call("B"), ko_call("A"), golden_action=golden("A")) == 0.0
    assert score(name, ko_call("A", seeded=True), golden_action=golden("A")) == 0.0
    assert score(name, ko_call("A")) is None


def test_a_choice_needs_two() -> None:
    """SelectAcc is not applicable where one tool only was offered."""
    golden_action = golden("A")
    assert score("ko_select_acc", ko_call("A"), golden_action=golden_action, available_tools=["A"]) is None
    assert (
        score("ko_select_acc", ko_call("A"), golden_action=golden_action, available_tools=["A", "B"]) == 1.0
    )
    assert score("ko_tool_acc", ko_call("A"), golden_action=golden_action, available_tools=["A"]) == 1.0
    logged = did(ko_call("A"), offered=("A",))
    declared = {"golden_action": golden_action, "available_tools": ["A", "B"]}
    assert by_default("ko_select_acc", logged, **declared).score is None


def test_an_exact_call_may_leave_defaults_out() -> None:
    """CallEM: 1 is 1.0 but not true, and a value that the schema gives anyway may be left out."""
    task: dict[str, Any] = {
        "golden_action": [{"tool": "A", "args": {"q": "x", "n": 1}}],
        "arg_schema": {"n": {"default": 1}, "s": {"default": "sim"}},
    }
    assert score("ko_call_em", ko_call("A", q="x", n=1), **task) == 1.0
    assert score("ko_call_em", ko_call("A", q="x", s="sim"), **task) == 1.0
    assert score("ko_call_em", ko_call("A", q="x", n=1.0), **task) == 1.0
    assert score("ko_call_em", ko_call("A", q="x", n=True), **task) == 0.0
    assert score("ko_call_em", ko_call("A", q="x", n=2), **task) == 0.0
    assert score("ko_call_em", ko_call("A", q="x", z=1), **task) == 0.0
    assert score("ko_call_em", ko_call("B"), ko_call("A", q="x", n=1), **task) == 0.0
    assert score("ko_call_em", **task) == 0.0
    garbled = KoCall(1, "A", success=False, error="no JSON", readable=False)
    assert score("ko_call_em", garbled, golden_action=golden("A")) == 0.0
    assert score("ko_call_em", ko_call("A")) is None


def test_the_form_of_an_answer() -> None:
    """RespOK reads JSON where it is wanted; without a schema, or with none that is one, nothing is told."""
    schema = {"type": "object", "required": ["a"]}
    assert score("ko_resp_ok", answer='{"a": 1}', resp_schema=schema) == 1.0
    assert score("ko_resp_ok", answer='{"b": 1}', resp_schema=schema) == 0.0
    assert score("ko_resp_ok", answer="no JSON", resp_schema=schema) == 0.0
    assert score("ko_resp_ok", answer="[" * 100_000, resp_schema=schema) == 0.0
    assert score("ko_resp_ok", answer="x", resp_schema={"type": "string"}) == 1.0
    assert score("ko_resp_ok", answer="", resp_schema={"type": "string"}) == 0.0
    assert score("ko_resp_ok", answer="x") is None
    assert score("ko_resp_ok", answer="x", resp_schema={"type": "nonsense"}) is None


def test_the_calls_of_a_parallel_step_come_in_any_order() -> None:
    """FSM compares steps as bags of tools, and their order all the same."""
    parallel = [*golden("A", "B", step=1), *golden("C", step=2)]
    assert score("ko_fsm", ko_call("B"), ko_call("A"), ko_call("C"), golden_action=parallel) == 1.0
    assert score("ko_fsm", ko_call("A"), ko_call("B"), ko_call("C"), golden_action=parallel) == 1.0
    assert score("ko_fsm", ko_call("A"), ko_call("C"), ko_call("B"), golden_action=parallel) == 0.0
    assert score("ko_fsm", ko_call("A"), ko_call("A"), ko_call("C"), golden_action=parallel) == 0.0
    assert score("ko_fsm", ko_call("A"), ko_call("B"), golden_action=parallel) == 0.0
    assert score("ko_fsm", *[ko_call("A")] * 4, golden_action=parallel) == 0.0


def test_a_path_without_steps_is_followed_in_its_order() -> None:
    """Golden calls without a step are a step each; a step's number, not its place, says when it comes."""
    plain = [{"tool": "A"}, {"tool": "B"}]
    assert score("ko_fsm", ko_call("A"), ko_call("B"), golden_action=plain) == 1.0
    assert score("ko_fsm", ko_call("B"), ko_call("A"), golden_action=plain) == 0.0
    turned = [{"tool": "B", "step": 2}, {"tool": "A", "step": 1}]
    assert score("ko_fsm", ko_call("A"), ko_call("B"), golden_action=turned) == 1.0
    assert score("ko_fsm") is None


def test_a_partial_path_counts_tools_by_weight() -> None:
    """PSM: the share of golden calls whose tool was called at all."""
    weighted = [{"tool": "A", "weight": 3}, {"tool": "B"}]
    assert score("ko_psm", ko_call("A"), golden_action=weighted) == 0.75
    assert score("ko_psm", ko_call("B", ok=False), golden_action=weighted) == 0.25
    assert score("ko_psm", golden_action=weighted) == 0.0
    assert score("ko_psm", ko_call("A")) is None


@pytest.mark.parametrize(("made", "expected"), [(0, 0.0), (1, 1.0), (2, 1.0), (3, 2 / 3), (4, 0.5)])
def test_steps_are_the_least_by_those_made(made: int, expected: float) -> None:
    """ΔSteps_norm is min(1, m/a): fewer calls than the least are no fault, none at all are one."""
    calls = [ko_call("A")] * made
    assert score("ko_delta_steps", *calls, minimum_steps=2) == pytest.approx(expected)
    assert score("ko_delta_steps", *calls, golden_action=golden("A", "B")) == pytest.approx(expected)
    assert score("ko_delta_steps", *calls) is None


def test_a_task_that_needs_no_call_says_so() -> None:
    """``minimum_steps: 0`` is 0 also in mode default: no call is 1 and any is 0, whatever path is golden."""
    config = {"minimum_steps": 0, "golden_action": golden("A", "B")}
    assert score("ko_delta_steps", **config) == 1.0
    assert score("ko_delta_steps", ko_call("A"), ko_call("B"), **config) == 0.0


def test_a_source_counts_by_what_it_gave() -> None:
    """Coverage and SourceEPR know no keys: whatever is something counts, an error or nothing does not."""
    task = {"golden_action": golden("A", "B")}
    stock = ko_call("A", result={"rsp_cd": "00000", "t1102OutBlock": {"price": 71000}})
    daum = ko_call("B", result={"documents": [1], "meta": {}})
    none = ko_call("B", result={"items": [], "total": 0})
    wrong = ko_call("B", result={"success": False, "error_code": "x"})

    assert score("ko_coverage", stock, daum, **task) == 1.0
    assert score("ko_coverage", stock, none, wrong, **task) == 0.5
    assert score("ko_coverage", ko_call("B", ok=False), **task) == 0.0
    assert score("ko_coverage", ko_call("A", result=HITS, seeded=True), **task) == 0.0
    assert score("ko_coverage", stock) is None
    assert score("ko_source_epr", stock, daum, none, wrong, ko_call("C"), **task) == pytest.approx(2 / 3)
    assert score("ko_source_epr", stock) is None


def test_each_source_weighs_the_same_however_often_it_was_asked() -> None:
    """SourceEPR is a mean over tools: A 1 of 1 and B 0 of 3 is 0.50; a tool that was never called is 0."""
    task = {"golden_action": golden("A", "B")}
    hit, miss = ko_call("A", result=HITS), ko_call("B", ok=False)

    assert score("ko_source_epr", hit, miss, miss, miss, **task) == 0.5
    assert score("ko_source_epr", hit, **task) == 0.5
    assert score("ko_source_epr", ko_call("C"), **task) == 0.0
    assert score("ko_source_epr", **task) == 0.0
