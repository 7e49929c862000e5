"""Mode ``default`` of data flows, fallbacks and reuse, by hand."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import KoCall
from tests.benchmarks.ko_agentbench.graders.sample_trials import by_default, did, grader_class, ko_call

BROKEN: dict[str, Any] = {
    "error_injection": {"tool": "A", "error_type": "timeout"},
    "fallback_options": [{"tool": "B"}, {"tool": "C"}],
}
PLACES = {"places": [{"name": "서울역 카페", "longitude": 126.97, "latitude": 37.55}], "size": 1}
NFD = unicodedata.normalize("NFD", "성수동 수제버거")
REUSE = {"golden_action": [{"tool": "A", "args": {"q": 1}}, {"action": "context_used"}]}


def score(name: str, *calls: KoCall, **config: Any) -> float | None:
    """Give the score of a trial that made these calls and answered."""
    return by_default(name, did(*calls), **config).score


def flow(output: str, parameter: str) -> dict[str, Any]:
    """Give a data flow from step 1 to step 2."""
    return {"from_step": 1, "from_output": output, "to_step": 2, "to_parameter": parameter}


def prov(*calls: KoCall, flows: list[dict[str, Any]]) -> float | None:
    """Give ProvAcc of a path from tool A to tool B."""
    path = [{"tool": "A", "step": 1}, {"tool": "B", "step": 2}]
    return score("ko_prov_acc", *calls, golden_action=path, data_flow=flows)


FIND = ko_call("A", 1, result=PLACES)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (126.97, 1.0),
        ("126.970", 1.0),
        (126.98, 0.0),
        (37.55, 0.0),
        ("126.97,37.55", 1.0),
        ([126.97], 1.0),
        ([1.0, 2.0], 0.0),
        (True, 0.0),
        (None, 0.0),
    ],
)
def test_a_value_comes_from_the_output_that_is_meant(value: Any, expected: float) -> None:
    """Numbers are folded, joined texts and lists taken apart; another output's value is none."""
    assert prov(FIND, ko_call("B", 2, x=value), flows=[flow("longitude", "x")]) == expected
    assert prov(FIND, ko_call("B", 2, x=value), flows=[flow("places[0].longitude", "x")]) == expected


def test_an_output_that_is_not_there_may_be_any() -> None:
    """A misspelt output name is no fault of the agent's."""
    assert prov(FIND, ko_call("B", 2, x=126.97), flows=[flow("longtitude", "x")]) == 1.0
    assert prov(FIND, ko_call("B", 2, x="카페"), flows=[flow("longtitude", "x")]) == 0.0


def test_a_phrase_may_hold_the_output_that_is_meant() -> None:
    """A search for a place's name with a word behind it used the name."""
    named = [flow("places[0].name", "query")]
    assert prov(FIND, ko_call("B", 2, query="서울역  카페 후기"), flows=named) == 1.0
    assert prov(FIND, ko_call("B", 2, query="부산역 카페 후기"), flows=named) == 0.0


def test_a_value_comes_from_earlier_calls_of_the_right_tools_that_worked() -> None:
    """Not from later ones, the same reply's, other tools', failed ones or errors; seeded ones do."""
    flows, use = [flow("longitude", "x")], ko_call("B", 2, x=126.97)
    assert prov(use, ko_call("A", 3, result=PLACES), flows=flows) == 0.0
    assert prov(ko_call("A", 2, result=PLACES), use, flows=flows) == 0.0
    assert prov(ko_call("C", 1, result=PLACES), use, flows=flows) == 0.0
    assert prov(ko_call("A", 1, ok=False, result=PLACES), use, flows=flows) == 0.0
    assert prov(ko_call("A", 1, result={**PLACES, "error": "x"}), use, flows=flows) == 0.0
    assert prov(FIND, ko_call("C", 2, x=126.97), flows=flows) == 0.0
    assert prov(FIND, ko_call("B", 2, y=126.97), flows=flows) == 0.0
    assert prov(ko_call("A", 2, result=PLACES, seeded=True), use, flows=flows) == 1.0
    assert prov(FIND, ko_call("B", 2, x=1), ko_call("B", 3, x=126.97), flows=flows) == 1.0


def test_one_of_several_outputs_is_enough() -> None:
    """A result lists many places, and the agent goes on with one of them."""
    many = ko_call("A", 1, result={"places": [{"name": "서울역 카페"}, {"name": "남산 서점"}]})
    assert prov(many, ko_call("B", 2, query="남산 서점 후기"), flows=[flow("name", "query")]) == 1.0


def test_data_flows_are_counted_once_each() -> None:
    """The share of different flows; without any there is nothing to tell."""
    both = [flow("longitude", "x"), flow("latitude", "y"), flow("latitude", "y")]
    assert prov(FIND, ko_call("B", 2, x=126.97, y=0.5), flows=both) == 0.5
    assert prov(FIND, flows=[]) is None
    flows = [flow("longitude", "x"), {**flow("longitude", "x"), "note": ["twice"]}]
    assert prov(FIND, ko_call("B", 2, x=126.97), flows=flows) == 1.0


def test_a_path_without_steps_has_one_in_each_place() -> None:
    """Steps that nobody numbered are counted, as FSM counts them."""
    path, flows = [{"tool": "A"}, {"tool": "B"}], [flow("longitude", "x")]
    config: dict[str, Any] = {"golden_action": path, "data_flow": flows}
    assert score("ko_prov_acc", FIND, ko_call("B", 2, x=126.97), **config) == 1.0
    assert score("ko_prov_acc", FIND, ko_call("B", 2, x=1.0), **config) == 0.0


def test_an_output_that_is_empty_gives_nothing() -> None:
    """Where the output that is meant is there and holds nothing, other values of the result are no source."""
    empty = ko_call("A", 1, result={"places": [], "page": 1})
    assert prov(empty, ko_call("B", 2, x=1), flows=[flow("places", "x")]) == 0.0


SPOTS = {"places": [
    {"name": "낮달 버거", "longitude": 127.0561121, "latitude": 37.5424801, "phone": "A&amp;B"},
    {"name": "낮달 버거 본점", "longitude": 127.056, "latitude": 37.5428812},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        ("places[0].longitude", 127.0561, 1.0),
        ("places[0].longitude", "127.056112", 1.0),
        ("places[0].longitude", 127.05611, 1.0),
        ("places[0].longitude", 127.0562, 0.0),
        ("places[0].longitude", 127.06, 0.0),
        ("places[0].longitude", 127.056, 0.0),
        ("places[1].longitude", 127.056, 1.0),
        ("places[1].longitude", 127.0561121, 0.0),
        ("places[1].latitude", 37.5424801, 0.0),
        ("places[2].latitude", 37.5424801, 0.0),
        ("latitude", 37.5424801, 1.0),
        ("latitude", 37.542, 1.0),
        ("latitude", 37.54, 0.0),
        ("places[0].name", "낮달버거", 1.0),
        ("places[0].name", "낮달버거 후기", 1.0),
        ("places[0].name", "낮달버거본점", 0.0),
        ("places[1].name", "낮달버거본점 주차", 1.0),
        ("places[0].phone", "A&B", 1.0),
        ("longtitude", 127.0561, 1.0),
    ],
)
def test_a_value_may_be_spelt_otherwise_and_not_be_that_of_another_item(
    output: str, value: Any, expected: float
) -> None:
    """Rounded or cut coordinates and names without spaces travel; the wrong list item's value does not."""
    source = ko_call("A", 1, result=SPOTS)
    assert prov(source, ko_call("B", 2, x=value), flows=[flow(output, "x")]) == expected


def test_a_place_in_a_bare_list_is_told_too() -> None:
    """Some providers give a list and nothing around it."""
    source = ko_call("A", 1, result=[{"market": "KRW-BTC"}, {"market": "KRW-ETH"}, "KRW-XRP"])
    for output, value, expected in (
        ("[1].market", "KRW-ETH", 1.0),
        ("[1].market", "KRW-BTC", 0.0),
        ("market", "KRW-BTC", 1.0),
        ("[2]", "KRW-XRP", 1.0),
        ("[2]", "KRW-BTC", 0.0),
        ("[9]", "KRW-BTC", 0.0),
    ):
        assert prov(source, ko_call("B", 2, x=value), flows=[flow(output, "x")]) == expected, output


@given(number=st.floats(-180, 180, allow_nan=False), digits=st.integers(4, 12))
def test_a_coordinate_is_the_same_however_it_is_rounded(number: float, digits: int) -> None:
    """With three digits or more behind the point, and never one that lies further off than that."""
    source, rounded = ko_call("A", 1, result={"lon": number}), round(number, digits)
    assume(len(repr(rounded).partition(".")[2]) > 3)
    assume("e" not in repr(rounded))

    assert prov(source, ko_call("B", 2, x=rounded), flows=[flow("lon", "x")]) == 1.0
    assert prov(source, ko_call("B", 2, x=rounded + 0.01), flows=[flow("lon", "x")]) == 0.0


@pytest.mark.parametrize("name", ["ko_adaptive_routing", "ko_fallback_sr"])
def test_without_a_failure_there_is_nothing_to_cope_with(name: str) -> None:
    """Undecided where none is injected, or none was met; who calls nothing at all coped with nothing."""
    assert score(name, ko_call("A", ok=False), ko_call("B")) is None
    assert score(name, ko_call("B"), **BROKEN) is None
    assert score(name, ko_call("A"), **BROKEN) is None
    assert score(name, **BROKEN) == 0.0
    assert score(name, ko_call("B", 0, seeded=True), **BROKEN) == 0.0
    assert score(name, ko_call("A", ok=False), **BROKEN) == 0.0
    assert score(name, ko_call("A", ok=False), ko_call("X"), **BROKEN) == 0.0
    assert score(name, ko_call("X"), **BROKEN) == 0.0


def test_routing_counts_calls_that_were_wasted() -> None:
    """Replies in words between failure and fallback cost nothing, neither do calls of the same reply."""
    fail = ko_call("A", 1, ok=False)
    assert score("ko_adaptive_routing", fail, ko_call("B", 3), **BROKEN) == 1.0
    assert score("ko_adaptive_routing", fail, ko_call("A", 2, ok=False), ko_call("B", 3), **BROKEN) == 0.5
    assert score("ko_adaptive_routing", fail, ko_call("A", 1, ok=False), ko_call("B", 2), **BROKEN) == 1.0
    waste = [ko_call("A", step, ok=False) for step in (2, 3)]
    assert score("ko_adaptive_routing", fail, *waste, ko_call("C", 4), **BROKEN) == pytest.approx(1 / 3)
    assert score("ko_adaptive_routing", ko_call("B", 1), ko_call("A", 2, ok=False), **BROKEN) == 0.0


@pytest.mark.parametrize("name", ["ko_adaptive_routing", "ko_fallback_sr"])
def test_the_calls_of_one_reply_have_no_order(name: str) -> None:
    """In one reply neither call knew what came of the other: a fallback may stand before or behind."""
    failed, fallback = ko_call("A", 1, ok=False), ko_call("B", 1)
    assert score(name, failed, fallback, **BROKEN) == 1.0
    assert score(name, fallback, failed, **BROKEN) == 1.0
    twice, other = ko_call("A", 2, ok=False), ko_call("B", 2)
    assert score(name, failed, twice, other, **BROKEN) == 1.0
    assert score(name, failed, other, twice, **BROKEN) == 1.0
    for calls in ([failed, ko_call("A", 1)], [ko_call("A", 1), failed]):
        assert score(name, *calls, **BROKEN) == 0.0


def test_who_gave_up_is_told_so() -> None:
    """What was called before the failure is no answer to it, and the reason does not say it never was."""
    result = by_default("ko_fallback_sr", did(ko_call("B", 1), ko_call("A", 2, ok=False)), **BROKEN)
    assert (result.score, result.reason) == (0.0, "A failed, and nothing else was tried after that")


def test_an_error_in_the_place_of_a_result_is_a_failure_too() -> None:
    """What a provider writes as a result may say that it failed."""
    fail = ko_call("A", 1, result={"success": False})
    assert score("ko_adaptive_routing", fail, ko_call("B", 2), **BROKEN) == 1.0
    assert (
        score("ko_fallback_sr", fail, ko_call("B", 2), ko_call("B", 3, result={"error": "x"}), **BROKEN)
        == 0.5
    )


def test_any_other_tool_will_do_where_none_is_listed() -> None:
    """Routing without listed tools takes any other; the success of fallbacks then has nothing to tell."""
    broken = {"error_injection": BROKEN["error_injection"]}
    calls = [ko_call("A", 1, ok=False), ko_call("Z", 2)]
    assert score("ko_adaptive_routing", *calls, **broken) == 1.0
    assert score("ko_fallback_sr", *calls, **broken) is None


def test_fallbacks_count_after_the_failure_and_not_the_broken_tool() -> None:
    """FallbackSR: calls before the failure, and of the tool that failed, are no fallbacks."""
    calls = [ko_call("B", 1, ok=False), ko_call("A", 2, ok=False), ko_call("B", 3)]
    assert score("ko_fallback_sr", *calls, **BROKEN) == 1.0
    listed = {**BROKEN, "fallback_options": [{"tool": "A"}, {"tool": "B"}]}
    assert (
        score("ko_fallback_sr", ko_call("A", ok=False), ko_call("A", ok=False), ko_call("B"), **listed) == 1.0
    )


def test_trying_again_is_coping_where_it_works() -> None:
    """A tool that fails once may be called again: that is routing, and leaves fallbacks undecided."""
    calls = [ko_call("A", 1, ok=False), ko_call("A", 2)]
    assert score("ko_adaptive_routing", *calls, **BROKEN) == 1.0
    assert score("ko_fallback_sr", *calls, **BROKEN) is None


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
    before = ko_call("A", 1, result={"items": [0]}, q=1)
    calls = [ko_call("A", 2, result=result, q=2), ko_call("B", 3)]
    first = [] if kind in ("partial", "malformed") else [before]
    assert score("ko_adaptive_routing", *first, *calls, **injected) == (1.0 if hit else None)


def test_seeded_calls_are_known_already() -> None:
    """RedundantCallRate and ReuseRate see repeats of what the conversation gave."""
    given, again = ko_call("A", 0, q=1, seeded=True), ko_call("A", 1, q=1.0)
    for name in ("ko_redundant_calls", "ko_reuse_rate"):
        assert score(name, given, **REUSE) == 1.0
        assert score(name, given, again, **REUSE) == 0.0
        assert score(name, given, ko_call("A", 1, q=2), **REUSE) == 1.0
        assert score(name, given, ko_call("A", 1, q=True), **REUSE) == 1.0
        assert score(name, given, ko_call("A", 1, q=1, ok=False), **REUSE) == 1.0
        assert score(name, again, again, **REUSE) == 0.0
        assert score(name, given, given, **REUSE) == 1.0
        assert score(name, given, again) is None


@pytest.mark.parametrize("text", [" 성수동  수제버거", NFD])
def test_a_call_that_is_spelt_otherwise_is_a_repeat(text: str) -> None:
    """Spaces, case and the way letters are put together make no other question."""
    given, again = ko_call("A", 0, q="성수동 수제버거", seeded=True), ko_call("A", 1, q=text)
    for name in ("ko_redundant_calls", "ko_reuse_rate"):
        assert score(name, given, again, **REUSE) == 0.0
        assert score(name, given, ko_call("A", 1, q="성수동 피자"), **REUSE) == 1.0


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
)  # fmt: skip
def test_a_repeat_is_seen_through_defaults_and_what_matching_ignores(
    tool: str, given: dict[str, Any], again: dict[str, Any], repeat: bool
) -> None:
    """What a default says and what a tool's matching ignores is no other call; another page or word is."""
    golden = {"golden_action": [{"tool": tool, "args": given}, {"action": "context_used"}]}
    for first, other in ((given, again), (again, given)):
        calls = ko_call(tool, 0, seeded=True, **first), ko_call(tool, 1, **other)
        for name in ("ko_redundant_calls", "ko_reuse_rate"):
            assert score(name, *calls, **golden) == (0.0 if repeat else 1.0)


@pytest.mark.parametrize("more", [{}, {"max_results": 5}])
def test_what_the_task_wants_twice_is_no_repeat(more: dict[str, Any]) -> None:
    """Sorting is ignored by matching, but where the golden path asks for both orders both are asked for."""
    given = ko_call("ItemSearch_aladin", 0, seeded=True, **BOOK)
    sorted_anew = ko_call("ItemSearch_aladin", 1, **RESORTED, **more)
    once = {
        "golden_action": [
            {"tool": "ItemSearch_aladin", "args": BOOK},
            {"action": "context_used"},
        ]
    }
    both = {"golden_action": [*once["golden_action"], {"tool": "ItemSearch_aladin", "args": RESORTED}]}
    assert score("ko_redundant_calls", given, sorted_anew, **once) == 0.0
    assert score("ko_redundant_calls", given, sorted_anew, **both) == 1.0
    assert score("ko_redundant_calls", given, sorted_anew, sorted_anew, **both) == 0.0


def test_redundancy_never_falls_below_nothing() -> None:
    """More repeats than opportunities are 0, not less; half of them are half."""
    again = ko_call("A", 1, q=1)
    twice = {"golden_action": [*REUSE["golden_action"], {"action": "context_used"}]}
    assert score("ko_redundant_calls", *[again] * 9, **REUSE) == 0.0
    assert score("ko_redundant_calls", again, again, **twice) == 0.5
    assert score("ko_reuse_rate", again, again, **twice) == 0.5


def test_nothing_is_used_again_without_an_answer() -> None:
    """Reuse shows in an answer; doing nothing repeats nothing, and uses nothing."""
    silent = did(ko_call("A", 0, q=1, seeded=True), answer=None)
    assert by_default("ko_reuse_rate", silent, **REUSE).score == 0.0
    assert by_default("ko_redundant_calls", silent, **REUSE).score == 1.0


GIVEN = [
    ko_call("A", 0, result=[1], seeded=True),
    ko_call("B", 0, ok=False, seeded=True),
    ko_call("C", 0, result=[1], seeded=True),
]
MAKES_NO_DIFFERENCE = [
    ("ko_valid_calls", {}),
    ("ko_tool_acc", {"golden_action": [{"tool": "B"}]}),
    ("ko_select_acc", {"golden_action": [{"tool": "B"}]}),
    ("ko_call_em", {"golden_action": [{"tool": "B", "args": {"q": 1}}]}),
    ("ko_fsm", {"golden_action": [{"tool": "B"}, {"tool": "A"}]}),
    ("ko_psm", {"golden_action": [{"tool": "C"}, {"tool": "A"}]}),
    ("ko_delta_steps", {"minimum_steps": 2}),
    ("ko_coverage", {"golden_action": [{"tool": "C"}, {"tool": "B"}]}),
    ("ko_source_epr", {"golden_action": [{"tool": "A"}, {"tool": "B"}]}),
    ("ko_adaptive_routing", {**BROKEN, "error_injection": {"tool": "A", "error_type": "timeout"}}),
    ("ko_fallback_sr", {**BROKEN, "fallback_options": [{"tool": "B"}]}),
    ("ko_redundant_calls", REUSE),
]


@pytest.mark.parametrize(("name", "config"), MAKES_NO_DIFFERENCE)
@pytest.mark.parametrize("mode", ["default", "upstream"])
def test_calls_that_were_given_are_not_the_agents(name: str, config: dict[str, Any], mode: Any) -> None:
    """Whatever the conversation gave, the agent is neither praised nor blamed for it."""
    grader: Any = grader_class(name)(**config)
    paths = [
        (ko_call("B", 1, q=1, result=[1]), ko_call("A", 2, ok=False), ko_call("B", 3, result=[1])),
        (ko_call("A", 1, ok=False), ko_call("B", 2, ok=False), ko_call("B", 3)),
    ]
    for own in paths:
        alone, after = did(*own), did(*GIVEN, *own)
        assert grader.metric.of(grader, alone, mode) == grader.metric.of(grader, after, mode)


def test_upstream_a_successful_call_has_no_error() -> None:
    """A call that is marked as successful and has an error is no success to fall back on."""
    calls = [ko_call("A", 1, ok=False), KoCall(2, "B", error="boom"), ko_call("B", 3)]
    grader: Any = grader_class("ko_fallback_sr")(**BROKEN)

    assert grader.metric.of(grader, did(*calls), "upstream").score == 0.5


def test_upstream_a_failure_is_a_flag_or_an_error() -> None:
    """Either of them hits the injected tool; without one the report says which way nothing happened."""
    for hit in (KoCall(1, "A", success=False), KoCall(1, "A", error="boom")):
        assert upstream("ko_adaptive_routing", hit, ko_call("B", 2))["step_gap"] == 0
        assert upstream("ko_fallback_sr", hit, ko_call("B", 2))["fallback_attempts"] == 1
    assert upstream("ko_adaptive_routing")["reason"] == "No tool calls recorded"
    assert upstream("ko_adaptive_routing", ko_call("A"))["reason"] == "Injected tool did not fail"


def test_upstream_nothing_to_use_again_is_no_fault() -> None:
    """Without opportunities every rate is that of no repeat, whatever was repeated."""
    details = upstream("ko_redundant_calls", ko_call("A"), ko_call("A"))
    rates = (details["redundant_calls"], details["redundant_rate"], details["non_redundant_rate"])

    assert rates == (1, 0.0, 1.0)


def upstream(name: str, *calls: KoCall) -> Any:
    """Give the details that the benchmark's report would hold."""
    grader: Any = grader_class(name)(**BROKEN)
    return grader.metric.of(grader, did(*calls), "upstream").details
