"""Packaged tools really ask: a server on loopback plays three providers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.http import scope
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.tools import http_request
from pytest_agenteval.tools.http_declaration import ProviderSpec, ToolDeclaration
from pytest_agenteval.tools.http_tool import http_tool
from pytest_agenteval.tools.tool import Tool, ToolFailed
from tests.tools.http.provider import Answer, Asked, playing

PLACES = {
    "meta": {"total_count": 1},
    "documents": [{"place_name": "숲길", "x": "127.05", "y": "37.54", "address_name": "성수동"}],
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has keys of its own, and no token of another test."""
    for name in ("KAKAO_REST_API_KEY", "LS_APP_KEY", "LS_APP_SECRET", "KIS_APP_KEY", "KIS_APP_SECRET"):
        monkeypatch.setenv(name, f"the-{name.lower()}")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(http_request, "_tokens", {})


def tool_at(name: str, provider: str, base: str) -> Tool:
    """Give a packaged tool that asks elsewhere."""
    return korean_tools(bases={provider: base})[name]


async def call_tool(tool: Tool, args: Mapping[str, Any]) -> Any:
    """Call the tool's function."""
    return await tool.function(args)


def stocks(request: Asked) -> Answer:
    """Play LS: a token, then one stock; an unknown one is told of with status 200."""
    if request.path == "/oauth2/token":
        return 200, {"access_token": "ls-token", "expires_in": 86400}
    code = json.loads(request.body)["t1102InBlock"]["shcode"]
    if code == "000000":
        return 200, {"rsp_cd": "IGW00215", "rsp_msg": "없는 종목입니다."}
    return 200, {"rsp_cd": "00000", "rsp_msg": "정상", "t1102OutBlock": {"price": 71000}}


def test_a_key_in_a_header_comes_from_the_environment() -> None:
    """Kakao is asked with the documented query and header, and its places come in our shape."""
    with playing(lambda request: (200, PLACES)) as kakao:
        tool = tool_at("PlaceSearch_kakao", "kakao", kakao.base)
        result = asyncio.run(call_tool(tool, {"keyword": "성수 카페", "x": 127.0, "size": 2}))

    (request,) = kakao.asked
    assert (request.method, request.path) == ("GET", "/v2/local/search/keyword.json")
    assert request.query == {"query": "성수 카페", "x": "127", "size": "2", "sort": "accuracy"}
    assert request.headers["authorization"] == "KakaoAK the-kakao_rest_api_key"
    assert result["keyword"] == "성수 카페"
    assert result["places"][0]["latitude"] == 37.54


def test_a_transaction_code_stands_in_header_and_body() -> None:
    """LS is asked by POST, after a token by form; the code names the block of the body."""
    with playing(stocks) as ls:
        result = asyncio.run(call_tool(tool_at("StockPrice_ls", "ls", ls.base), {"shcode": "005930"}))

    token, request = ls.asked
    assert token.body == (
        "grant_type=client_credentials&appkey=the-ls_app_key&appsecretkey=the-ls_app_secret&scope=oob"
    )
    assert request.headers["tr_cd"] == "t1102"
    assert request.headers["authorization"] == "Bearer ls-token"
    assert json.loads(request.body) == {"t1102InBlock": {"shcode": "005930", "exchgubun": "K"}}
    assert result["t1102OutBlock"] == {"price": 71000}


def test_a_failure_told_with_status_200_is_a_failure() -> None:
    """A provider that says no in the body of a 200 makes the call fail, with its own words."""
    with playing(stocks) as ls:
        tool = tool_at("StockPrice_ls", "ls", ls.base)
        with pytest.raises(ToolFailed, match="없는 종목입니다") as failed:
            asyncio.run(call_tool(tool, {"shcode": "000000"}))
    assert failed.value.type == "provider_error"


def test_a_token_is_asked_for_once() -> None:
    """Calls at the same time and in later loops share one token."""

    def quotes(request: Asked) -> Answer:
        if request.path == "/oauth2/tokenP":
            return 200, {"access_token": f"token-{len(kis.asked)}", "expires_in": 86400}
        return 200, {"rt_cd": "0", "output": {"stck_prpr": "254500", "prdy_ctrt": "-1.36", "acml_vol": "7"}}

    async def three(tool: Tool) -> list[Any]:
        return await asyncio.gather(*(call_tool(tool, {"symbol": code}) for code in ("1", "2", "3")))

    with playing(quotes) as kis:
        tool = tool_at("StockPrice_kis", "kis", kis.base)
        results = asyncio.run(three(tool))
        asyncio.run(call_tool(tool, {"symbol": "4"}))

    tokens = [request for request in kis.asked if request.path == "/oauth2/tokenP"]
    quoted = [request for request in kis.asked if request.path != "/oauth2/tokenP"]
    assert len(tokens) == 1
    assert json.loads(tokens[0].body)["appkey"] == "the-kis_app_key"
    assert len(quoted) == 4
    assert {request.headers["authorization"] for request in quoted} == {"Bearer token-1"}
    assert {request.headers["tr_id"] for request in quoted} == {"FHKST01010100"}
    assert quoted[0].headers["appsecret"] == "the-kis_app_secret"
    assert results[0] == {
        "symbol": "1",
        "market": "KOSPI",
        "name": None,
        "current_price": 254500,
        "change_rate": -1.36,
        "volume": 7,
    }


def test_a_refused_token_is_forgotten() -> None:
    """After a 401 the next call asks for a token again: it may have been called back."""
    answers = iter([(200, {"access_token": "a"}), (401, {"rsp_cd": "IGW00121", "rsp_msg": "만료"})] * 2)
    with playing(lambda request: next(answers)) as ls:
        tool = tool_at("StockPrice_ls", "ls", ls.base)
        for _ in range(2):
            with pytest.raises(ToolFailed, match="만료"):
                asyncio.run(call_tool(tool, {"shcode": "005930"}))
    assert [request.path for request in ls.asked] == ["/oauth2/token", "/stock/market-data"] * 2


def test_no_token_is_a_failed_call() -> None:
    """Where the provider gives no token, the agent is told, without the provider's text."""
    with playing(lambda request: (403, {"error": "no"})) as ls:
        tool = tool_at("StockPrice_ls", "ls", ls.base)
        with pytest.raises(ToolFailed, match="gave no token: HTTP 403") as failed:
            asyncio.run(call_tool(tool, {"shcode": "005930"}))
    assert failed.value.type == "no_token"


def test_what_is_kept_of_a_response_is_enough_and_no_more() -> None:
    """A recorded response holds its body and content type; arguments that are shown come from the call."""
    with playing(lambda request: (200, PLACES)) as kakao:
        wire = tool_at("PlaceSearch_kakao", "kakao", kakao.base).wire
        assert wire is not None
        response = asyncio.run(wire.send({"keyword": "숲"}))

    assert [name.lower() for name in response.headers] == ["content-type"]
    assert wire.result(response, {"keyword": "숲"}).value["keyword"] == "숲"
    assert wire.request({"keyword": "숲"}).uri.startswith("https://dapi.kakao.com/")


def test_the_address_can_be_replaced_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable named after the provider sends its tools elsewhere: through a proxy, or to a test."""
    with playing(lambda request: (200, [{"market": "KRW-BTC"}])) as bithumb:
        monkeypatch.setenv("AGENTEVAL_TOOLS_BASE_BITHUMB", bithumb.base + "/proxy/")
        asyncio.run(call_tool(korean_tools()["MarketList_bithumb"], {}))
    assert bithumb.asked[0].path == "/proxy/v1/market/all"


def test_a_missing_key_names_variable_and_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its key a tool asks nobody, and says which variables it takes."""
    monkeypatch.delenv("LS_APP_KEY")
    monkeypatch.setenv("LS_APP_SECRET", "")
    tool = tool_at("StockPrice_ls", "ls", "http://127.0.0.1:9")
    with pytest.raises(UsageMistake, match=r"'StockPrice_ls'.*\$LS_APP_KEY and \$LS_APP_SECRET for "):
        asyncio.run(call_tool(tool, {"shcode": "005930"}))


def test_a_provider_out_of_reach_is_a_failed_call() -> None:
    """Nobody listens: the agent is told so, without an address that could hold a key."""
    tool = tool_at("PlaceSearch_kakao", "kakao", "http://127.0.0.1:9")
    with pytest.raises(ToolFailed, match="did not answer") as failed:
        asyncio.run(call_tool(tool, {"keyword": "숲"}))
    assert failed.value.type == "unreachable"


@pytest.mark.filterwarnings("error")
def test_a_loop_that_ends_closes_its_client() -> None:
    """Nothing stays open: neither a client nor what belongs to a loop that is gone."""
    with playing(lambda request: (200, PLACES)) as kakao:
        tool = tool_at("PlaceSearch_kakao", "kakao", kakao.base)
        asyncio.run(call_tool(tool, {"keyword": "숲"}))
        assert not scope._loop_copies

        loop = asyncio.new_event_loop()  # of one that is only closed, the client is closed by hand
        loop.run_until_complete(call_tool(tool, {"keyword": "숲"}))
        loop.run_until_complete(scope.close_copies())
        loop.close()
    assert not scope._loop_copies


@pytest.mark.parametrize("text", ["x" * 70_000, "a\r\nb"], ids=["too-long", "line-break"])
def test_a_request_that_cannot_be_written_is_the_agents_mistake(text: str) -> None:
    """An address may be too long, a header may not hold a line break: that breaks no trial."""
    declared = spec_of(
        ToolDeclaration,
        {
            "name": "t",
            "description": "d",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            "request": {"url": "http://127.0.0.1:9/q", "query": {"q": "{q}"}, "headers": {"X-Q": "{q}"}},
        },
    )
    with playing(lambda request: (200, {})) as provider:
        provider_spec = ProviderSpec(name="p", base="http://127.0.0.1:9")
        tool = http_tool(declared, provider_spec, provider.base)
        with pytest.raises(ToolFailed, match="no request to") as failed:
            asyncio.run(call_tool(tool, {"q": text}))
    assert failed.value.type == "bad_arguments"
    assert not provider.asked
