"""The metrics that need no judge, in mode ``default``: what the benchmark documents, by hand."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import KoCall, has_content, is_error_result
from tests.benchmarks.ko_agentbench.graders.sample_trials import (
    default,
    did,
    golden,
    grader_class,
    ko_call,
    result_of,
    upstream,
)

A, B, C = ko_call("A"), ko_call("B"), ko_call("C")
A_FAILED, B_FAILED = ko_call("A", ok=False), ko_call("B", ok=False)
A_GIVEN = ko_call("A", seeded=True)
GARBLED = KoCall(1, "A", success=False, error="no JSON", readable=False)
TO_A = {"golden_action": golden("A")}
TO_AB = {"golden_action": golden("A", "B")}
EXACT: dict[str, Any] = {
    "golden_action": [{"tool": "A", "args": {"q": "x", "n": 1}}],
    "arg_schema": {"n": {"default": 1}, "s": {"default": "sim"}},
}
PARALLEL = {"golden_action": [*golden("A", "B", step=1), *golden("C", step=2)]}
PLAIN = {"golden_action": [{"tool": "A"}, {"tool": "B"}]}
TURNED = {"golden_action": [{"tool": "B", "step": 2}, {"tool": "A", "step": 1}]}
WEIGHTED = {"golden_action": [{"tool": "A", "weight": 3}, {"tool": "B"}]}
STOCK = ko_call("A", result={"rsp_cd": "00000", "t1102OutBlock": {"price": 71000}})
DAUM = ko_call("B", result={"documents": [1], "meta": {}})
NONE = ko_call("B", result={"items": [], "total": 0})
WRONG = ko_call("B", result={"success": False, "error_code": "x"})

CASES: list[tuple[str, list[KoCall], dict[str, Any], float | None]] = [
    # EPR_CVR has no share without calls; an error in the place of a result is no valid call.
    ("ko_valid_calls", [], {}, None),
    ("ko_valid_calls", [A_GIVEN], {}, None),
    ("ko_valid_calls", [A, A_FAILED, ko_call("A", result={"success": False}), B], {}, 0.5),
    # The first call's tool counts, not a later one's; without a golden tool nothing is decided.
    *(
        (name, calls, config, expected)
        for name in ("ko_tool_acc", "ko_select_acc")
        for calls, config, expected in [
            ([A, B], TO_A, 1.0),
            ([B, A], TO_A, 0.0),
            ([A_GIVEN], TO_A, 0.0),
            ([A], {}, None),
        ]
    ),
    # A choice needs two tools.
    ("ko_select_acc", [A], {**TO_A, "available_tools": ["A"]}, None),
    ("ko_select_acc", [A], {**TO_A, "available_tools": ["A", "B"]}, 1.0),
    ("ko_tool_acc", [A], {**TO_A, "available_tools": ["A"]}, 1.0),
    # An exact call: 1 is 1.0 but not true, and a value that the schema gives anyway may be left out.
    ("ko_call_em", [ko_call("A", q="x", n=1)], EXACT, 1.0),
    ("ko_call_em", [ko_call("A", q="x", s="sim")], EXACT, 1.0),
    ("ko_call_em", [ko_call("A", q="x", n=1.0)], EXACT, 1.0),
    ("ko_call_em", [ko_call("A", q="x", n=True)], EXACT, 0.0),
    ("ko_call_em", [ko_call("A", q="x", n=2)], EXACT, 0.0),
    ("ko_call_em", [ko_call("A", q="x", z=1)], EXACT, 0.0),
    ("ko_call_em", [B, ko_call("A", q="x", n=1)], EXACT, 0.0),
    ("ko_call_em", [], EXACT, 0.0),
    ("ko_call_em", [GARBLED], TO_A, 0.0),
    ("ko_call_em", [A], {}, None),
    # FSM: the calls of one step come in any order, steps by their numbers, calls without a step one by one.
    ("ko_fsm", [B, A, C], PARALLEL, 1.0),
    ("ko_fsm", [A, B, C], PARALLEL, 1.0),
    ("ko_fsm", [A, C, B], PARALLEL, 0.0),
    ("ko_fsm", [A, A, C], PARALLEL, 0.0),
    ("ko_fsm", [A, B], PARALLEL, 0.0),
    ("ko_fsm", [A] * 4, PARALLEL, 0.0),
    ("ko_fsm", [A, B], PLAIN, 1.0),
    ("ko_fsm", [B, A], PLAIN, 0.0),
    ("ko_fsm", [A, B], TURNED, 1.0),
    ("ko_fsm", [], {}, None),
    # PSM: the share of golden calls, by weight, whose tool was called at all.
    ("ko_psm", [A], WEIGHTED, 0.75),
    ("ko_psm", [B_FAILED], WEIGHTED, 0.25),
    ("ko_psm", [], WEIGHTED, 0.0),
    ("ko_psm", [A], {}, None),
    # ΔSteps_norm is min(1, m/a): fewer calls than the least are no fault, none at all are one.
    *(
        ("ko_delta_steps", [A] * made, config, expected)
        for made, expected in [(0, 0.0), (1, 1.0), (2, 1.0), (3, 2 / 3), (4, 0.5)]
        for config in ({"minimum_steps": 2}, TO_AB)
    ),
    ("ko_delta_steps", [A], {}, None),
    # `minimum_steps: 0` is 0: no call is 1 and any is 0, whatever path is golden.
    ("ko_delta_steps", [], {"minimum_steps": 0, **TO_AB}, 1.0),
    ("ko_delta_steps", [A, B], {"minimum_steps": 0, **TO_AB}, 0.0),
    # Coverage and SourceEPR know no keys: whatever is something counts, an error or nothing does not.
    ("ko_coverage", [STOCK, DAUM], TO_AB, 1.0),
    ("ko_coverage", [STOCK, NONE, WRONG], TO_AB, 0.5),
    ("ko_coverage", [B_FAILED], TO_AB, 0.0),
    ("ko_coverage", [ko_call("A", result={"items": [1]}, seeded=True)], TO_AB, 0.0),
    ("ko_coverage", [STOCK], {}, None),
    # SourceEPR is a mean over tools: A 1 of 1 and B 0 of 3 is 0.50; a tool that was never called is 0.
    ("ko_source_epr", [STOCK, DAUM, NONE, WRONG, C], TO_AB, 2 / 3),
    ("ko_source_epr", [STOCK, B_FAILED, B_FAILED, B_FAILED], TO_AB, 0.5),
    ("ko_source_epr", [STOCK], TO_AB, 0.5),
    ("ko_source_epr", [C], TO_AB, 0.0),
    ("ko_source_epr", [], TO_AB, 0.0),
    ("ko_source_epr", [STOCK], {}, None),
]


@pytest.mark.parametrize(("name", "calls", "config", "expected"), CASES)
def test_calls_score_as_documented(
    name: str, calls: list[KoCall], config: dict[str, Any], expected: float | None
) -> None:
    """Each metric's rules, case by case; comments in the table name them."""
    score = default(name, did(*calls), **config).score
    assert score == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        ({"type": "object", "required": ["a"]}, '{"a": 1}', 1.0),
        ({"type": "object", "required": ["a"]}, '{"b": 1}', 0.0),
        ({"type": "object", "required": ["a"]}, "no JSON", 0.0),
        ({"type": "object", "required": ["a"]}, "[" * 100_000, 0.0),
        ({"type": "string"}, "x", 1.0),
        ({"type": "string"}, "", 0.0),
        (None, "x", None),
        ({"type": "nonsense"}, "x", None),
    ],
)
def test_the_form_of_an_answer(schema: Any, answer: str, expected: float | None) -> None:
    """RespOK reads JSON where it is wanted; without a schema, or with none that is one, nothing is told."""
    assert default("ko_resp_ok", did(answer=answer), resp_schema=schema).score == expected


def test_an_answer_is_words_of_the_agents_own() -> None:
    """RRR wants words; a run that broke off has none of its own. SelectAcc believes what a log offered."""
    for answer, success, expected in [("네", True, 1), (" ", True, 0), (None, True, 0), ("x", False, 0)]:
        assert default("ko_response_rate", did(answer=answer, success=success)).score == expected
    logged = did(A, offered=("A",))
    assert default("ko_select_acc", logged, **TO_A, available_tools=["A", "B"]).score is None


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


STOCK_ARGS = {"symbol": "005930", "period": "D"}
PAGE_ARGS = {"days": 5, "detail": True, "where": "Seoul", "page": 2}


@pytest.mark.parametrize(
    ("payload", "args", "some"),
    [
        ({"documents": [1], "meta": {"total_count": 1}}, STOCK_ARGS, True),
        ({"documents": [], "meta": {"total_count": 0}}, STOCK_ARGS, False),
        ({"rsp_cd": "00000", "t1102OutBlock": {"price": 0}}, STOCK_ARGS, True),
        ({"total_count": None, "places": []}, STOCK_ARGS, False),
        ({"a": {"b": ""}}, STOCK_ARGS, False),
        ({}, STOCK_ARGS, False),
        ([], STOCK_ARGS, False),
        ([0], STOCK_ARGS, True),
        ({"temp": 21, "alerts": []}, STOCK_ARGS, True),
        ({"temp": 0, "alerts": []}, STOCK_ARGS, True),
        ({"is_raining": False, "alerts": []}, STOCK_ARGS, True),
        ([{"error": {"name": 404}}], STOCK_ARGS, False),
        ([{"error": "x"}, {"price": 1}], STOCK_ARGS, True),
        ([{}, [], ""], STOCK_ARGS, False),
        ({"items": [{"error": "x"}]}, STOCK_ARGS, False),
        ({"totalResults": 0, "title": "알라딘 검색결과"}, STOCK_ARGS, False),
        ({"totalResults": "0"}, STOCK_ARGS, False),
        ({"totalResults": 0, "item": [{"title": "a"}]}, STOCK_ARGS, True),
        ({"lastBuildDate": "Mon", "total": 0, "start": 1, "display": 0, "items": []}, STOCK_ARGS, False),
        ({"total": 0, "price": 100}, STOCK_ARGS, True),
        ({"status": "OK", "results": []}, STOCK_ARGS, False),
        ({"success": True}, STOCK_ARGS, True),
        ({"symbol": "005930", "period": "D", "data": []}, STOCK_ARGS, False),
        ({"block": {"ex_symbol": "N005930"}, "rows": []}, STOCK_ARGS, False),
        ({"block": {"up": 0, "rate": 0, "name": ""}, "rows": []}, STOCK_ARGS, False),
        ({"block": {"up": 0, "rate": 0, "name": "반도체"}, "rows": []}, STOCK_ARGS, True),
        (" ", STOCK_ARGS, False),
        ("<xml/>", STOCK_ARGS, True),
        (0, STOCK_ARGS, True),
        (None, STOCK_ARGS, False),
        # Only under a like name does a number or a truth value repeat the request; a text always does.
        ({"temp": 5, "alerts": []}, PAGE_ARGS, True),
        ({"price": 5}, PAGE_ARGS, True),
        ({"is_open": True}, PAGE_ARGS, True),
        ({"total_days": 5, "alerts": []}, PAGE_ARGS, False),
        ({"pageNo": 2, "numOfRows": 10, "items": []}, PAGE_ARGS, False),
        ({"city_name": "Seoul", "alerts": []}, PAGE_ARGS, False),
    ],
)
def test_something_is_told_from_nothing(payload: Any, args: dict[str, Any], some: bool) -> None:
    """A result is empty only where everything in it is, an echo of the call and a page's number among it."""
    assert has_content(payload, args) is some


PLACES = {"places": [{"name": "서울역 카페", "longitude": 126.97, "latitude": 37.55}], "size": 1}
FIND = ko_call("A", 1, result=PLACES)
SPOTS = {
    "places": [
        {"name": "낮달 버거", "longitude": 127.0561121, "latitude": 37.5424801, "phone": "A&amp;B"},
        {"name": "낮달 버거 본점", "longitude": 127.056, "latitude": 37.5428812},
    ]
}
MARKETS = [{"market": "KRW-BTC"}, {"market": "KRW-ETH"}, "KRW-XRP"]
NAMED = {"places": [{"name": "서울역 카페"}, {"name": "남산 서점"}]}


def flow(output: str, parameter: str = "x") -> dict[str, Any]:
    """Give a data flow from step 1 to step 2."""
    return {"from_step": 1, "from_output": output, "to_step": 2, "to_parameter": parameter}


def prov(*calls: KoCall, flows: list[dict[str, Any]], path: list[dict[str, Any]] | None = None) -> Any:
    """Give ProvAcc of a path from tool A to tool B."""
    path = path or [{"tool": "A", "step": 1}, {"tool": "B", "step": 2}]
    return default("ko_prov_acc", did(*calls), golden_action=path, data_flow=flows).score


@pytest.mark.parametrize(
    ("result", "output", "value", "expected"),
    [
        # Numbers are folded, joined texts and lists taken apart; another output's value is none.
        *(
            (PLACES, output, value, expected)
            for output in ("longitude", "places[0].longitude")
            for value, expected in [
                (126.97, 1.0),
                ("126.970", 1.0),
                (126.98, 0.0),
                (37.55, 0.0),
                ("126.97,37.55", 1.0),
                ([126.97], 1.0),
                ([1.0, 2.0], 0.0),
                (True, 0.0),
                (None, 0.0),
            ]
        ),
        # A misspelt output name is no fault of the agent's: any value of the result will do, but no phrase.
        (PLACES, "longtitude", 126.97, 1.0),
        (PLACES, "longtitude", "카페", 0.0),
        # A search for a place's name with a word behind it used the name; any of many places will do.
        (PLACES, "places[0].name", "서울역  카페 후기", 1.0),
        (PLACES, "places[0].name", "부산역 카페 후기", 0.0),
        (NAMED, "name", "남산 서점 후기", 1.0),
        # Where the output that is meant holds nothing, other values of the result are no source.
        ({"places": [], "page": 1}, "places", 1, 0.0),
        # Rounded or cut coordinates and names without spaces travel; another list item's value does not.
        (SPOTS, "places[0].longitude", 127.0561, 1.0),
        (SPOTS, "places[0].longitude", "127.056112", 1.0),
        (SPOTS, "places[0].longitude", 127.05611, 1.0),
        (SPOTS, "places[0].longitude", 127.0562, 0.0),
        (SPOTS, "places[0].longitude", 127.06, 0.0),
        (SPOTS, "places[0].longitude", 127.056, 0.0),
        (SPOTS, "places[1].longitude", 127.056, 1.0),
        (SPOTS, "places[1].longitude", 127.0561121, 0.0),
        (SPOTS, "places[1].latitude", 37.5424801, 0.0),
        (SPOTS, "places[2].latitude", 37.5424801, 0.0),
        (SPOTS, "latitude", 37.5424801, 1.0),
        (SPOTS, "latitude", 37.542, 1.0),
        (SPOTS, "latitude", 37.54, 0.0),
        (SPOTS, "places[0].name", "낮달버거", 1.0),
        (SPOTS, "places[0].name", "낮달버거 후기", 1.0),
        (SPOTS, "places[0].name", "낮달버거본점", 0.0),
        (SPOTS, "places[1].name", "낮달버거본점 주차", 1.0),
        (SPOTS, "places[0].phone", "A&B", 1.0),
        (SPOTS, "longtitude", 127.0561, 1.0),
        # Some providers give a list and nothing around it.
        (MARKETS, "[1].market", "KRW-ETH", 1.0),
        (MARKETS, "[1].market", "KRW-BTC", 0.0),
        (MARKETS, "market", "KRW-BTC", 1.0),
        (MARKETS, "[2]", "KRW-XRP", 1.0),
        (MARKETS, "[2]", "KRW-BTC", 0.0),
        (MARKETS, "[9]", "KRW-BTC", 0.0),
    ],
)
def test_a_value_comes_from_the_output_that_is_meant(
    result: Any, output: str, value: Any, expected: float
) -> None:
    """ProvAcc: which values count as taken from an earlier result."""
    assert prov(ko_call("A", 1, result=result), ko_call("B", 2, x=value), flows=[flow(output)]) == expected


def test_a_value_comes_from_earlier_calls_of_the_right_tools_that_worked() -> None:
    """Not from later ones, the same reply's, other tools', failed ones or errors; seeded ones do.

    Different flows are counted once each, and steps that nobody numbered are counted as FSM counts them.
    """
    use, one = ko_call("B", 2, x=126.97), [flow("longitude")]
    for calls, expected in [
        ((use, ko_call("A", 3, result=PLACES)), 0.0),
        ((ko_call("A", 2, result=PLACES), use), 0.0),
        ((ko_call("C", 1, result=PLACES), use), 0.0),
        ((ko_call("A", 1, ok=False, result=PLACES), use), 0.0),
        ((ko_call("A", 1, result={**PLACES, "error": "x"}), use), 0.0),
        ((FIND, ko_call("C", 2, x=126.97)), 0.0),
        ((FIND, ko_call("B", 2, y=126.97)), 0.0),
        ((ko_call("A", 2, result=PLACES, seeded=True), use), 1.0),
        ((FIND, ko_call("B", 2, x=1), ko_call("B", 3, x=126.97)), 1.0),
    ]:
        assert prov(*calls, flows=one) == expected, calls
    both = [flow("longitude"), flow("latitude", "y"), flow("latitude", "y")]
    assert prov(FIND, ko_call("B", 2, x=126.97, y=0.5), flows=both) == 0.5
    assert prov(FIND, flows=[]) is None
    assert prov(FIND, use, flows=[*one, {**one[0], "note": ["twice"]}]) == 1.0
    plain = [{"tool": "A"}, {"tool": "B"}]
    assert prov(FIND, use, flows=one, path=plain) == 1.0
    assert prov(FIND, ko_call("B", 2, x=1.0), flows=one, path=plain) == 0.0


@given(number=st.floats(-180, 180, allow_nan=False), digits=st.integers(4, 12))
def test_a_coordinate_is_the_same_however_it_is_rounded(number: float, digits: int) -> None:
    """With three digits or more behind the point, and never one that lies further off than that."""
    source, rounded = ko_call("A", 1, result={"lon": number}), round(number, digits)
    assume(len(repr(rounded).partition(".")[2]) > 3)
    assume("e" not in repr(rounded))

    assert prov(source, ko_call("B", 2, x=rounded), flows=[flow("lon")]) == 1.0
    assert prov(source, ko_call("B", 2, x=rounded + 0.01), flows=[flow("lon")]) == 0.0


INJECTED = {"error_injection": {"tool": "A", "error_type": "timeout"}}
BROKEN: dict[str, Any] = {**INJECTED, "fallback_options": [{"tool": "B"}, {"tool": "C"}]}
SELF_LISTED = {**INJECTED, "fallback_options": [{"tool": "A"}, {"tool": "B"}]}


def fails(step: int = 1) -> KoCall:
    """Give a call of the broken tool that fails."""
    return ko_call("A", step, ok=False)


@pytest.mark.parametrize(
    ("calls", "config", "routing", "fallback"),
    [
        # Undecided where no failure is injected or none was met; who calls nothing at all coped with nothing.
        ([fails(), B], {}, None, None),
        ([B], BROKEN, None, None),
        ([A], BROKEN, None, None),
        ([], BROKEN, 0.0, 0.0),
        ([ko_call("B", 0, seeded=True)], BROKEN, 0.0, 0.0),
        ([fails()], BROKEN, 0.0, 0.0),
        ([fails(), ko_call("X")], BROKEN, 0.0, 0.0),
        ([ko_call("X")], BROKEN, 0.0, 0.0),
        # Replies in words between failure and fallback cost nothing, neither do calls of the same reply.
        ([fails(), ko_call("B", 3)], BROKEN, 1.0, 1.0),
        ([fails(), fails(2), ko_call("B", 3)], BROKEN, 0.5, 1.0),
        ([fails(), fails(1), ko_call("B", 2)], BROKEN, 1.0, 1.0),
        ([fails(), fails(2), fails(3), ko_call("C", 4)], BROKEN, 1 / 3, 1.0),
        ([B, fails(2)], BROKEN, 0.0, 0.0),
        # In one reply neither call knew what came of the other: a fallback may stand before or behind.
        ([fails(), B], BROKEN, 1.0, 1.0),
        ([B, fails()], BROKEN, 1.0, 1.0),
        ([fails(), fails(2), ko_call("B", 2)], BROKEN, 1.0, 1.0),
        ([fails(), ko_call("B", 2), fails(2)], BROKEN, 1.0, 1.0),
        ([fails(), A], BROKEN, 0.0, 0.0),
        ([A, fails()], BROKEN, 0.0, 0.0),
        # What a provider writes as a result may say that it failed.
        ([ko_call("A", result={"success": False}), ko_call("B", 2)], BROKEN, 1.0, 1.0),
        ([fails(), ko_call("B", 2), ko_call("B", 3, result={"error": "x"})], BROKEN, 1.0, 0.5),
        # Routing without listed tools takes any other; fallbacks then have nothing to tell.
        ([fails(), ko_call("Z", 2)], INJECTED, 1.0, None),
        # Calls before the failure, and of the tool that failed, are no fallbacks.
        ([B_FAILED, fails(2), ko_call("B", 3)], BROKEN, 1.0, 1.0),
        ([fails(), fails(), B], SELF_LISTED, 1.0, 1.0),
        # Trying again is coping where it works.
        ([fails(), ko_call("A", 2)], BROKEN, 1.0, None),
    ],
)
def test_coping_with_a_failure(
    calls: list[KoCall], config: dict[str, Any], routing: float | None, fallback: float | None
) -> None:
    """How soon another tool was tried, and which share of the fallback calls worked."""
    for name, expected in (("ko_adaptive_routing", routing), ("ko_fallback_sr", fallback)):
        score = default(name, did(*calls), **config).score
        assert score == (None if expected is None else pytest.approx(expected)), name


@pytest.mark.parametrize(
    ("kind", "result", "hit"),
    [
        ("partial", {"items": [1]}, True),
        ("malformed", '{"items": [', True),
        ("malformed", {"items": [1]}, False),
        ("stale", {"items": [0]}, True),
        ("stale", {"items": [2]}, False),
        ("timeout", {"items": [0]}, False),
    ],
)
def test_a_failure_that_looks_like_a_result_is_seen(kind: str, result: Any, hit: bool) -> None:
    """Half of a result, a cut one, and one that was given for other arguments before."""
    injected = {**BROKEN, "error_injection": {"tool": "A", "error_type": kind}}
    calls = [ko_call("A", 2, result=result, q=2), ko_call("B", 3)]
    if kind not in ("partial", "malformed"):
        calls.insert(0, ko_call("A", 1, result={"items": [0]}, q=1))
    assert default("ko_adaptive_routing", did(*calls), **injected).score == (1.0 if hit else None)


def test_who_gave_up_is_told_so() -> None:
    """What was called before the failure is no answer to it, and the reason does not say it never was."""
    result = default("ko_fallback_sr", did(B, fails(2)), **BROKEN)
    assert (result.score, result.reason) == (0.0, "A failed, and nothing else was tried after that")


REUSE = {"golden_action": [{"tool": "A", "args": {"q": 1}}, {"action": "context_used"}]}
TWICE = {"golden_action": [*REUSE["golden_action"], {"action": "context_used"}]}
REPEATS = ("ko_redundant_calls", "ko_reuse_rate")
GIVEN, AGAIN = ko_call("A", 0, q=1, seeded=True), ko_call("A", 1, q=1.0)
BURGER = "성수동 수제버거"
BURGER_GIVEN = ko_call("A", 0, q=BURGER, seeded=True)


@pytest.mark.parametrize(
    ("calls", "config", "expected"),
    [
        ([GIVEN], REUSE, 1.0),
        ([GIVEN, AGAIN], REUSE, 0.0),
        ([GIVEN, ko_call("A", 1, q=2)], REUSE, 1.0),
        ([GIVEN, ko_call("A", 1, q=True)], REUSE, 1.0),
        ([GIVEN, ko_call("A", 1, q=1, ok=False)], REUSE, 1.0),
        ([AGAIN, AGAIN], REUSE, 0.0),
        ([GIVEN, GIVEN], REUSE, 1.0),
        ([GIVEN, AGAIN], {}, None),
        # Spaces, case and the way letters are put together make no other question.
        ([BURGER_GIVEN, ko_call("A", q=f" {BURGER.replace(' ', '  ')}")], REUSE, 0.0),
        ([BURGER_GIVEN, ko_call("A", q=unicodedata.normalize("NFD", BURGER))], REUSE, 0.0),
        ([BURGER_GIVEN, ko_call("A", q="성수동 피자")], REUSE, 1.0),
        # More repeats than opportunities are 0, not less; half of them are half.
        ([AGAIN] * 9, REUSE, 0.0),
        ([AGAIN, AGAIN], TWICE, 0.5),
    ],
)
def test_what_is_known_already_is_not_asked_for_again(
    calls: list[KoCall], config: dict[str, Any], expected: float | None
) -> None:
    """RedundantCallRate and ReuseRate see repeats of what the conversation gave."""
    assert [default(name, did(*calls), **config).score for name in REPEATS] == [expected] * 2


def test_nothing_is_used_again_without_an_answer() -> None:
    """Reuse shows in an answer; doing nothing repeats nothing, and uses nothing."""
    silent = did(GIVEN, answer=None)
    assert [default(name, silent, **REUSE).score for name in REPEATS] == [1.0, 0.0]


BOOK = {"query": "파이썬 책"}
RESORTED = {**BOOK, "sort": "SalesPoint"}
WEEKLY = {"symbol": "005930", "period": "W"}
FOOD = {"keyword": "시청 맛집"}
HERE = {"latitude": 37.5, "longitude": 127.0}


@pytest.mark.parametrize(
    ("tool", "given", "again", "repeat"),
    [
        ("MarketList_upbit", {}, {"quote": "KRW", "include_event": True}, True),
        ("MarketList_upbit", {"quote": "KRW"}, {}, True),
        ("MarketList_upbit", {"quote": "KRW"}, {"quote": "BTC"}, False),
        ("MarketList_upbit", {"quote": "KRW"}, {"quote": None}, True),
        ("StockChart_kis", WEEKLY, {**WEEKLY, "count": 1}, True),
        ("StockChart_kis", WEEKLY, {"symbol": "005930"}, False),
        ("StockChart_kis", {"symbol": "005930"}, {"symbol": "000660"}, False),
        ("PlaceSearch_kakao", FOOD, {"keyword": "시청  맛집", "size": 15, "sort": "accuracy"}, True),
        ("PlaceSearch_kakao", FOOD, {**FOOD, "page": 2}, False),
        ("PlaceSearch_kakao", FOOD, {**FOOD, "x": 126.8, "y": 37.3}, False),
        ("PlaceSearch_kakao", FOOD, {"keyword": "시청 맛집 주차"}, False),
        ("CoordToAddress_kakao", HERE, {**HERE, "latitude": 37.5001}, True),
        ("CoordToAddress_kakao", HERE, {**HERE, "latitude": 37.51}, False),
        ("ItemSearch_aladin", BOOK, {**BOOK, "cover": "Big"}, True),
        ("ItemSearch_aladin", BOOK, {**BOOK, "start": 2}, False),
        ("Nobodys_tool", {"q": "a"}, {"q": "a", "size": 10}, False),
    ],
)
def test_a_repeat_is_seen_through_defaults_and_what_matching_ignores(
    tool: str, given: dict[str, Any], again: dict[str, Any], repeat: bool
) -> None:
    """What a default says and what a tool's matching ignores is no other call; another page or word is."""
    wanted = {"golden_action": [{"tool": tool, "args": given}, {"action": "context_used"}]}
    for first, other in ((given, again), (again, given)):
        trace = did(ko_call(tool, 0, seeded=True, **first), ko_call(tool, 1, **other))
        assert {default(name, trace, **wanted).score for name in REPEATS} == {0.0 if repeat else 1.0}


@pytest.mark.parametrize("more", [{}, {"max_results": 5}])
def test_what_the_task_wants_twice_is_no_repeat(more: dict[str, Any]) -> None:
    """Sorting is ignored by matching, but where the golden path asks for both orders both are asked for."""
    given = ko_call("ItemSearch_aladin", 0, seeded=True, **BOOK)
    resorted = ko_call("ItemSearch_aladin", 1, **RESORTED, **more)
    once = [{"tool": "ItemSearch_aladin", "args": BOOK}, {"action": "context_used"}]
    both = [*once, {"tool": "ItemSearch_aladin", "args": RESORTED}]
    for calls, path, expected in [
        ((given, resorted), once, 0.0),
        ((given, resorted), both, 1.0),
        ((given, resorted, resorted), both, 0.0),
    ]:
        assert default("ko_redundant_calls", did(*calls), golden_action=path).score == expected


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ko_valid_calls", {}),
        ("ko_tool_acc", {"golden_action": [{"tool": "B"}]}),
        ("ko_select_acc", {"golden_action": [{"tool": "B"}]}),
        ("ko_call_em", {"golden_action": [{"tool": "B", "args": {"q": 1}}]}),
        ("ko_fsm", {"golden_action": [{"tool": "B"}, {"tool": "A"}]}),
        ("ko_psm", {"golden_action": [{"tool": "C"}, {"tool": "A"}]}),
        ("ko_delta_steps", {"minimum_steps": 2}),
        ("ko_coverage", {"golden_action": [{"tool": "C"}, {"tool": "B"}]}),
        ("ko_source_epr", TO_AB),
        ("ko_adaptive_routing", BROKEN),
        ("ko_fallback_sr", {**INJECTED, "fallback_options": [{"tool": "B"}]}),
        ("ko_redundant_calls", REUSE),
    ],
)
@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_calls_that_were_given_are_not_the_agents(name: str, config: dict[str, Any], mode: Any) -> None:
    """Whatever the conversation gave, the agent is neither praised nor blamed for it."""
    grader = grader_class(name)(**config, mode=mode)
    given = [ko_call(tool, 0, ok=tool != "B", result=[1], seeded=True) for tool in "ABC"]
    for own in (
        (ko_call("B", 1, q=1, result=[1]), fails(2), ko_call("B", 3, result=[1])),
        (fails(), ko_call("B", 2, ok=False), ko_call("B", 3)),
    ):
        assert result_of(grader, did(*own)) == result_of(grader, did(*given, *own))


def test_upstream_a_failure_is_a_flag_or_an_error() -> None:
    """Either hits the injected tool, and neither stands on a fallback that counts as a success."""
    for hit in (KoCall(1, "A", success=False), KoCall(1, "A", error="boom")):
        trace = did(hit, ko_call("B", 2))
        assert upstream("ko_adaptive_routing", trace, **BROKEN).details["step_gap"] == 0  # type: ignore[index]
        assert upstream("ko_fallback_sr", trace, **BROKEN).details["fallback_attempts"] == 1  # type: ignore[index]
    for calls, reason in (((), "No tool calls recorded"), ((A,), "Injected tool did not fail")):
        assert upstream("ko_adaptive_routing", did(*calls), **BROKEN).reason == reason
    calls = (fails(), KoCall(2, "B", error="boom"), ko_call("B", 3))
    assert upstream("ko_fallback_sr", did(*calls), **BROKEN).score == 0.5


def test_upstream_nothing_to_use_again_is_no_fault() -> None:
    """Without opportunities every rate is that of no repeat, whatever was repeated."""
    details = upstream("ko_redundant_calls", did(A, A), **BROKEN).details or {}
    assert [details[key] for key in ("redundant_calls", "redundant_rate", "non_redundant_rate")] == [1, 0, 1]


@pytest.mark.parametrize(("least", "calls", "score"), [(0, 1, 0.0), (0, 0, 0.0), (None, 1, 1.0), (1, 1, 1.0)])
def test_upstream_no_step_at_all_is_a_number_of_steps(least: int | None, calls: int, score: float) -> None:
    """``minimum_steps: 0`` is 0, which the original code gives 0 for; only null counts the golden path."""
    assert upstream("ko_delta_steps", did(*[A] * calls), **TO_A, minimum_steps=least).score == score
