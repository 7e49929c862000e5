"""Tool calls and chats, written as requests with responses."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    ToolAnswer,
    chat_place,
    chat_reply,
    chat_request,
    chat_response,
    tool_answer,
    tool_call,
    tool_interaction,
    tool_request,
    tool_response,
)
from pytest_agenteval.cassettes.request_matching import key_of

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON_VALUES), JSON_VALUES)
def test_a_tool_call_is_read_back_as_it_was_written(tool: str, args: dict[str, Any], result: Any) -> None:
    """Name, arguments and result survive, lone surrogates of arguments and results too."""
    written = tool_interaction(tool, args, result=result)

    assert tool_call(written.request)[1] == args
    assert tool_answer(written.response) == ToolAnswer(result)
    assert urlparse(written.request.uri).scheme == "tool"
    str(written.request.body).encode("utf-8")


@pytest.mark.parametrize("tool", ["search", "PlaceSearch_kakao", "장소 검색", "a/b?c#d", "[x]:1@y", "/%2F"])
def test_a_tools_name_fits_a_uri(tool: str) -> None:
    """Any name comes back from its address, and Hangul stays readable in it."""
    request = tool_request(tool, {})

    assert tool_call(request) == (tool, {})
    assert "장소" not in tool or request.uri == "tool://장소%20검색"


def test_an_error_is_an_answer() -> None:
    """A tool that failed when it was recorded fails again in replay, with its type and message."""
    response = tool_response(error={"type": "Timeout", "message": "30 s"})

    assert (response.status, response.body) == (500, '{"error": {"type": "Timeout", "message": "30 s"}}')
    assert tool_answer(response) == ToolAnswer(error={"type": "Timeout", "message": "30 s"})


def test_arguments_are_written_canonically_and_results_in_their_own_order() -> None:
    """Key order is no part of a call, but the agent sees a result's keys in the tool's order."""
    assert tool_request("t", {"b": 1, "a": "가"}).body == '{"a":"가","b":1}'
    assert tool_response({"b": 1, "a": 2}).body == '{"result": {"b": 1, "a": 2}}'


def test_long_json_is_written_in_lines() -> None:
    """What a diff has to show stands in a line of its own."""
    assert len(str(tool_response(["x" * 30] * 5).body).splitlines()) == 9


def test_a_chat_names_who_asked_which_model_and_when() -> None:
    """Role, model, repetition and ask number are the address, so no two asks of a run share one."""
    asked, reply = {"messages": [{"role": "user", "content": "안녕"}]}, {"text": "네"}
    written = Interaction(
        chat_request("judge polite", "openrouter/x/y:free", 2, 13, asked), chat_response(reply)
    )

    assert written.request.uri == "chat://judge%20polite/openrouter%2Fx%2Fy%3Afree/2/13"
    assert chat_place(written.request) == ("judge polite", "openrouter/x/y:free", "2", "13")
    assert json.loads(str(written.request.body)) == asked
    assert chat_reply(written.response) == reply


def test_equal_requests_are_equal_however_they_were_given() -> None:
    """Bytes that are UTF-8 are the text they spell, and one header value is a list of one."""
    assert Request("GET", "https://x", "가".encode(), {"A": "b"}) == Request(
        "GET", "https://x", "가", {"A": ["b"]}
    )
    assert Response(200, body=b"\xff\x00").body == b"\xff\x00"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (
            ("POST", "https://x/a?b=1&c=2", '{"a":1,"b":[2]}'),
            ("post", "https://x/a?c=2&b=1", '{"b": [2], "a": 1}'),
            True,
        ),
        (("GET", "https://x/a?b=1"), ("GET", "https://x/a?b=2"), False),
        (("POST", "https://x", "a"), ("POST", "https://x", None), False),
        (("POST", "https://x", "{broken"), ("POST", "https://x", "{broken"), True),
        (("POST", "https://x", b"\xff"), ("POST", "https://x", b"\xfe"), False),
        (("POST", "https://x", "[" * 9000), ("POST", "https://x", "[" * 9001), False),
    ],
)
def test_the_key_of_a_request(left: tuple[Any, ...], right: tuple[Any, ...], same: bool) -> None:
    """Requests are the same when method, address, parameters and body are, in whatever order written."""
    assert (key_of(Request(*left)) == key_of(Request(*right))) is same
