"""From responses to what the agent is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.tools.http_declaration import ErrorSpec, ResultSpec
from pytest_agenteval.tools.http_tool import ResponseMapping
from pytest_agenteval.tools.tool import ToolResult


def shown_result(
    body: Any, spec: dict[str, Any], *errors: dict[str, Any], status: int = 200, **args: Any
) -> ToolResult:
    """Show a body."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    rules = [spec_of(ErrorSpec, error) for error in errors]
    return ResponseMapping(spec_of(ResultSpec, spec), rules).result(Response(status, "Odd", body=text), args)


NUMBER = {"path": "x", "as": "number"}
LIST = {
    "meta": {"n": "3"},
    "docs": [{"t": "가", "x": "1.5", "z": {"y": 1}}, {"t": "나", "x": "-"}, {"t": "b"}],
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, LIST),
        ({"path": "docs[1].t"}, "나"),
        ({"path": "docs[7].t", "default": "none"}, "none"),
        ({"path": "meta.n", "as": "integer", "times": 2}, 6),
        ({"path": "docs", "as": "count"}, 3),
        ({"path": "docs", "limit": 1, "drop": ["z", "x"]}, [{"t": "가"}]),
        ({"path": "docs", "limit": "{most}", "each": {"title": "t"}}, [{"title": "가"}, {"title": "나"}]),
        ({"path": "docs", "where": {"path": "t", "starts": "{begin}"}, "each": {"t": "t"}}, [{"t": "나"}]),
        ({"fields": {"q": "{begin}", "v": {"value": 1}, "no": "no.where"}}, {"q": "나", "v": 1, "no": None}),
        ({"fields": {"one": {"path": "docs[0]", "fields": {"x": NUMBER}}}}, {"one": {"x": 1.5}}),
        ({"path": "docs", "limit": 2, "each": {"x": NUMBER}}, [{"x": 1.5}, {"x": "-"}]),
        (
            {"fields": {"all": {"join": ["docs[0].t", "docs[9]", "docs[2].t"], "between": "/"}}},
            {"all": "가/b"},
        ),
    ],
)
def test_a_result_is_shaped(spec: dict[str, Any], expected: Any) -> None:
    """Values are get_path, renamed, cut, dropped, converted and joined; what is missing is null."""
    assert shown_result(LIST, spec, begin="나", most=2) == ToolResult(expected)


@pytest.mark.parametrize(
    ("body", "rule", "message"),
    [
        (
            {"errorCode": 8, "errorMessage": "없음"},
            {"path": "errorCode", "message": "errorMessage"},
            "없음 / 8",
        ),
        ({"code": "7", "m": "no"}, {"path": "code", "ok": ["0"], "message": "m"}, "no / 7"),
        ({"error": {"why": "x"}}, {"path": "error"}, '{"why":"x"}'),
        ("<e><m>없음</m></e>", {"pattern": "<m>(.*?)</m>"}, "없음"),
    ],
)
def test_a_body_that_tells_of_a_failure_is_one(body: Any, rule: dict[str, Any], message: str) -> None:
    """Status 200 does not make a success of an error."""
    error = shown_result(body, {"text": "xml"}, rule).error
    assert error is not None
    assert (error.type, error.message) == ("provider_error", message)


@pytest.mark.parametrize("body", [{"code": 0}, {"code": "0"}, {"code": None}, {}])
def test_a_code_that_means_success_is_none(body: Any) -> None:
    """Only another value than those that mean success is a failure."""
    assert shown_result(body, {}, {"path": "code", "ok": [0]}).error is None


def test_a_status_from_400_on_is_a_failure() -> None:
    """The body is quoted, for it says why."""
    error = shown_result({"why": "busy"}, {}, status=503).error
    assert error is not None
    assert error.message == 'HTTP 503: {"why": "busy"}'


def test_a_body_that_is_not_json_is_a_failure_unless_declared() -> None:
    """A page of a proxy is no result; XML that was asked for is shown as it came."""
    assert shown_result("<html>", {}).error is not None
    assert shown_result("plain", {"text": "xml"}).error is not None
    assert shown_result("<a/>", {"text": "xml"}).value == "<a/>"
    assert shown_result("plain", {"text": "any"}).value == "plain"


def test_json_of_older_providers_is_read() -> None:
    """A last semicolon and escaped single quotes are not held against them."""
    assert shown_result('{"a": "it\\\'s"};', {}).value == {"a": "it's"}


def test_an_empty_body_is_what_the_author_says() -> None:
    """204 means that nothing was found, not that something went wrong."""
    assert shown_result("", {"empty": {"n": 0}}, status=204) == ToolResult({"n": 0})


@pytest.mark.parametrize(("body", "message"), [("", "HTTP 302: Odd"), ("<p>moved", "HTTP 302: <p>moved")])
def test_being_sent_elsewhere_is_a_failure(body: str, message: str) -> None:
    """Redirections are not followed, for keys would go with them: what they say is no answer."""
    error = shown_result(body, {"text": "any"}, status=302).error
    assert error is not None
    assert error.message == message


def test_json_may_begin_with_a_byte_order_mark() -> None:
    """Some servers write one."""
    assert shown_result('\ufeff{"a": 1}', {}).value == {"a": 1}


def test_json_too_deep_to_read_is_no_json() -> None:
    """It is a failed call, and breaks nothing."""
    error = shown_result("[" * 100_000, {}).error
    assert error is not None
    assert error.message.startswith("the response is not JSON")


def test_a_limit_that_is_no_number_cuts_nothing() -> None:
    """An argument that no schema checked may be anything."""
    assert shown_result([1, 2, 3], {"limit": "{most}"}, most="all").value == [1, 2, 3]
    assert shown_result([1, 2, 3], {"limit": "{most}"}, most="2").value == [1, 2]
