"""The packaged set of the Korean benchmark: its catalogue, its requests and its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_matching import ParamMatchers
from pytest_agenteval.tools.http_recordings import arguments_in
from pytest_agenteval.tools.http_tool import HttpWire
from pytest_agenteval.tools.tool import normalize_arguments
from tests.fresh_imports import imported_by

TOOLS = korean_tools()
ORACLE = Path(__file__).parents[3] / "oracle" / "ko-cache-keys.json"

NAMES = """
    Directions_naver StockPrice_ls MarketIndex_ls SectorStock_ls OrderBook_ls StockTrades_ls StockPrice_kis
    USStockPrice_kis StockChart_kis CryptoPrice_bithumb OrderBook_bithumb CryptoCandle_bithumb
    MarketList_bithumb CryptoPrice_upbit MarketList_upbit CryptoCandle_upbit WebSearch_naver
    BlogSearch_naver NewsSearch_naver WebSearch_daum VideoSearch_daum ItemSearch_aladin ItemList_aladin
    ItemLookup_aladin PlaceSearch_kakao AddressToCoord_kakao CategorySearch_kakao CoordToAddress_kakao
    POISearch_tmap CarRoute_tmap Geocoding_tmap WalkRoute_tmap CategorySearch_tmap
"""
CATALOGUE = NAMES.split()


def wire(name: str) -> HttpWire:
    """Give a tool's wire."""
    http_wire = TOOLS[name].wire
    assert isinstance(http_wire, HttpWire)
    return http_wire


def shown_value(name: str, body: Any, status: int = 200, **args: Any) -> Any:
    """Give what a tool shows of a body; its error, if it is one."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    result = wire(name).result(Response(status, "", body=text), args)
    return result.error.message if result.error else result.value


def argument(shape: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw a value that a schema allows."""
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    if "pattern" in shape:
        return st.from_regex(shape["pattern"], fullmatch=True)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        "boolean": st.booleans(),
        "number": st.floats(-180, 180),
        "integer": st.integers(shape.get("minimum", -5), shape.get("maximum", 10**6)),
    }
    return kinds[shape["type"]]


def test_the_catalogue_is_whole_and_in_order() -> None:
    """All 33 tools, as the benchmark lists them; all are played from tapes, and none blocks."""
    assert list(TOOLS) == CATALOGUE
    assert all(tool.spec.taped and not tool.spec.blocking for tool in TOOLS.values())


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_tool_is_declared_well(name: str) -> None:
    """Its schema is JSON Schema, it and its parameters are described in Korean, and its rules are rules."""
    spec = TOOLS[name].spec
    Draft202012Validator.check_schema(dict(spec.parameters))
    texts = [spec.description, *(schema["description"] for schema in spec.parameters["properties"].values())]
    assert all(any("가" <= c <= "힣" for c in text) for text in texts)
    ParamMatchers(TOOLS[name].matching)


@pytest.mark.parametrize("name", CATALOGUE)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_request_holds_its_arguments(name: str, data: st.DataObject) -> None:
    """What is read out of a request, as an earlier version recorded it, asks that request again."""
    schema = TOOLS[name].spec.parameters
    shapes = {key: argument(shape) for key, shape in schema["properties"].items()}
    needed = {key: value for key, value in shapes.items() if key in schema.get("required", ())}
    others = {key: value for key, value in shapes.items() if key not in needed}
    args = data.draw(st.fixed_dictionaries(needed, optional=others))
    request = wire(name).request(args)
    read = arguments_in(wire(name), request)
    assert read is not None
    assert wire(name).request(read) == request


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_request_is_written_as_redaction_would_write_it(name: str) -> None:
    """No secret is left to redact, so cassettes hold what is asked."""
    shapes = TOOLS[name].spec.parameters["properties"]
    request = wire(name).request({key: shape.get("enum", ["1"])[0] for key, shape in shapes.items()})
    redacted = Redactor().request(request)
    assert (redacted.uri, redacted.body) == (request.uri, request.body)


@pytest.mark.skipif(not ORACLE.is_file(), reason="the benchmark's arguments are not beside the tests")
def test_defaults_are_those_of_the_benchmark() -> None:
    """The benchmark's own normalised arguments are ours, for each of its calls that our schema knows."""
    differ = []
    for call in json.loads(ORACLE.read_text(encoding="utf-8"))["calls"]:
        ours = normalize_arguments(call["args"], TOOLS[call["tool"]].spec.parameters)
        declared = {
            key: ours[key] for key in ours if key in TOOLS[call["tool"]].spec.parameters["properties"]
        }
        if {key: str(value) for key, value in declared.items()} != {
            key: str(value).removesuffix(".0") if isinstance(value, float) else str(value)
            for key, value in call["normalised"].items()
        }:
            differ.append((call["task_id"], call["tool"], declared, call["normalised"]))
    assert not differ


def test_places_have_our_names() -> None:
    """Kakao's places are renamed; coordinates are numbers."""
    place = {
        "place_name": "역",
        "x": "127.1",
        "y": "37.5",
        "category_name": "교통",
        "road_address_name": "길 1",
    }
    result = shown_value(
        "PlaceSearch_kakao", {"meta": {"total_count": 9}, "documents": [place]}, keyword="역"
    )
    assert (result["keyword"], result["total_count"]) == ("역", 9)
    assert list(result["places"][0]) == (
        ["name", "latitude", "longitude", "address", "road_address", "phone", "category", "distance"]
    )
    category = shown_value("CategorySearch_kakao", {"meta": {}, "documents": [place]}, category="CE7")
    assert list(category) == ["category", "total_count", "places"]
    assert list(category["places"][0]) == ["name", "latitude", "longitude", "address", "phone", "distance"]


def test_addresses_and_coordinates_are_flat() -> None:
    """One address in, one flat map out; what Kakao does not know is null."""
    place = {"x": "127.0", "y": "37.5", "address_name": "서울 중구"}
    assert shown_value("AddressToCoord_kakao", {"documents": [place]}, address="중구") == {
        "address": "중구",
        "latitude": 37.5,
        "longitude": 127.0,
        "address_name": "서울 중구",
    }
    document = {"road_address": None, "address": {"address_name": "태평로", "region_1depth_name": "서울"}}
    result = shown_value("CoordToAddress_kakao", {"documents": [document]}, latitude=37.5, longitude=127)
    assert (result["road_address"], result["jibun_address"], result["region_1depth"]) == (
        None,
        "태평로",
        "서울",
    )


def test_searches_are_shown_as_they_come() -> None:
    """Naver and Daum keep their keys."""
    naver = {"lastBuildDate": "오늘", "total": 1, "start": 1, "display": 1, "items": [{"title": "가"}]}
    daum = {"documents": [{"title": "나"}], "meta": {"is_end": True}}
    assert shown_value("NewsSearch_naver", naver) == naver
    assert shown_value("WebSearch_daum", daum) == daum


def test_lists_of_markets_are_cut() -> None:
    """Upbit's markets are those of the currency; 20 are shown, all are counted."""
    markets = [{"market": f"{quote}-{n}"} for n in range(25) for quote in ("KRW", "BTC")]
    result = shown_value("MarketList_upbit", markets, quote="BTC")
    assert (result["count"], len(result["markets"]), result["markets"][1]["market"]) == (25, 20, "BTC-1")
    assert shown_value("MarketList_upbit", markets, quote="ALL")["count"] == 50
    assert len(shown_value("MarketList_bithumb", markets)) == 20


def test_quotes_and_candles_are_flat() -> None:
    """Upbit and KIS are shown by a few names of their own, with numbers."""
    quote = {"market": "KRW-XRP", "trade_price": 3800.0, "signed_change_rate": 0.02}
    assert shown_value("CryptoPrice_upbit", [quote], symbol="XRP")["change_rate"] == 2.0
    candle = {"market": "KRW-XRP", "candle_date_time_kst": "2025-01-01T09:00:00", "opening_price": 1.0}
    result = shown_value("CryptoCandle_upbit", [candle], symbol="XRP")
    assert (result["candle_type"], result["data"][0]["timestamp"]) == ("days", "2025-01-01T09:00:00")
    days = [{"stck_bsop_date": f"2025010{n}", "stck_clpr": "1,000"} for n in range(5)]
    chart = shown_value("StockChart_kis", {"rt_cd": "0", "output": days}, symbol="005930", count=2)
    assert [day["close"] for day in chart["data"]] == [1000, 1000]
    us = shown_value("USStockPrice_kis", {"rt_cd": "0", "output": {"last": "483.37"}}, symbol="TSLA")
    assert (us["exchange"], us["current_price"]) == ("NASDAQ", 483.37)


def test_routes_have_no_drawing() -> None:
    """Lines that draw a route are left out."""
    walk = {"features": [{"geometry": {"type": "Point"}, "properties": {"totalTime": 60}}]}
    assert shown_value("WalkRoute_tmap", walk) == {"features": [{"properties": {"totalTime": 60}}]}
    drive = {"code": 0, "route": {"traoptimal": [{"path": [[1, 2]], "section": [], "guide": []}]}}
    assert shown_value("Directions_naver", drive)["route"] == {"traoptimal": [{"guide": []}]}


def test_pois_around_have_one_address() -> None:
    """TMAP's parts of an address are joined; an empty response means that there is none."""
    poi = {
        "name": "병원",
        "upperAddrName": "서울",
        "middleAddrName": "중구",
        "lowerAddrName": "",
        "firstBuildNo": "97",
    }
    body = {"searchPoiInfo": {"totalCount": "1", "count": "1", "page": "1", "pois": {"poi": [poi]}}}
    result = shown_value("CategorySearch_tmap", body)
    assert (result["totalCount"], result["pois"][0]["address"], result["pois"][0]["buildingNo"]) == (
        1,
        "서울 중구",
        "97",
    )
    assert shown_value("CategorySearch_tmap", "", 204)["pois"] == []


def test_books_may_come_as_xml() -> None:
    """With ``output=xml`` the agent reads XML; an error in it is one."""
    assert (
        shown_value("ItemSearch_aladin", "<object><item/></object>", output="xml")
        == "<object><item/></object>"
    )
    broken = "<error><errorCode>8</errorCode><errorMessage>없는 상품</errorMessage></error>"
    assert shown_value("ItemLookup_aladin", broken) == "없는 상품"


@pytest.mark.parametrize(
    ("name", "body", "status", "result"),
    [
        (
            "CryptoPrice_bithumb",
            {"error": {"name": 404, "message": "Code not found"}},
            200,
            "Code not found / 404",
        ),
        (
            "CryptoPrice_upbit",
            {"error": {"name": 404, "message": "Code not found"}},
            404,
            "Code not found / 404",
        ),
        ("WalkRoute_tmap", {"error": {"code": "1100", "message": "좌표 오류"}}, 400, "좌표 오류 / 1100"),
        (
            "Directions_naver",
            {"code": 1, "message": "출발지와 도착지가 같음"},
            200,
            "출발지와 도착지가 같음 / 1",
        ),
        ("Directions_naver", {"error": {"errorCode": "210", "message": "no"}}, 401, "no / 210"),
        ("StockPrice_ls", {"rsp_cd": "IGW00121", "rsp_msg": "토큰"}, 200, "토큰 / IGW00121"),
        ("StockPrice_kis", {"rt_cd": "1", "msg1": "초과"}, 200, "초과 / 1"),
        ("WebSearch_naver", {"errorCode": "024", "errorMessage": "인증"}, 401, "인증 / 024"),
        (
            "PlaceSearch_kakao",
            {"errorType": "MissingParameter", "message": "query"},
            400,
            "query / MissingParameter",
        ),
        ("ItemList_aladin", {"errorCode": 23, "errorMessage": "분야"}, 200, "분야 / 23"),
    ],
)
def test_what_a_provider_refuses_is_a_failure(name: str, body: Any, status: int, result: str) -> None:
    """Each provider's own way to say no makes the call fail, with whatever status it comes."""
    assert shown_value(name, body, status) == result


def test_nothing_heavy_is_loaded_before_something_is_sent() -> None:
    """CallMatcher the set, asking and showing need neither an HTTP library nor jsonschema."""
    code = """
from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
wire = korean_tools()["PlaceSearch_kakao"].wire
wire.request({"keyword": "a"})
wire.result(Response(200, "OK", body="{}"))
"""
    assert imported_by(code, "httpx", "requests", "aiohttp", "jsonschema", "litellm", "vcr") == []
