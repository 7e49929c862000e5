"""Of a request over HTTP, every parameter is compared, wherever it stands and however often."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.http.scope import NotRecorded
from pytest_agenteval.cassettes.interaction import Interaction, Request, Response
from pytest_agenteval.cassettes.tape import Library

URL = "http://shop.test/search"


def is_answered(folder: Path, recorded: Request, live_request: Request, matching: Mapping[str, Any]) -> bool:
    """Say whether a cassette with one recording answers the request."""
    write_cassette(
        folder / "t.yaml", CassetteContent((Interaction(recorded, Response(200, body="recorded")),))
    )
    tape = Library(folder).open(Path("t.yaml"), "none", "tool")
    with taped_http(tape, matching) as scope:
        try:
            return scope.play(live_request) is not None
        except NotRecorded:
            return False


def get(query: str) -> Request:
    """Ask by query."""
    return Request("GET", f"{URL}?{query}")


def post(body: str | bytes | None, query: str = "") -> Request:
    """Ask by body."""
    return Request("POST", f"{URL}?{query}" if query else URL, body)


@pytest.mark.parametrize(
    ("recorded", "live_request"),
    [
        (get("id=1&id=2"), get("id=9&id=2")),
        (post('{"id": 2}', "id=1"), post('{"id": 2}', "id=3")),
        (post("[1]", "body=1"), post("[1]", "body=2")),
        (post(None, "a=1"), post('{"a": "1"}')),
        (post("a=1&a=2"), post("a=3&a=2")),
        (get("q=%B0%AD%B3%B2"), get("q=%B0%AD%BA%CF")),
        (post("q=%B0%AD%B3%B2"), post("q=%B0%AD%BA%CF")),
        (post('{"a": 1}'), post('{"a": true}')),
        (post('{"a": NaN}'), post('{"a": NaN, "b": 1}')),
        (post(b"\xff\x00"), post(b"\xff\x01")),
    ],
    ids=[
        *("repeated", "query and body", "a parameter called body", "query or body", "repeated in a form"),
        *("EUC-KR", "EUC-KR in a form", "a number is no yes", "NaN", "bytes"),
    ],
)
def test_another_question_is_not_answered(tmp_path: Path, recorded: Request, live_request: Request) -> None:
    """What differs in one value of one parameter is a miss."""
    assert is_answered(tmp_path, recorded, recorded, {})
    assert not is_answered(tmp_path, recorded, live_request, {})


@pytest.mark.parametrize(
    ("recorded", "live_request", "matching"),
    [
        (post("q=a&size=2"), post("q=a&size=3"), {"size": "ignore"}),
        (post("a=1&q=%EC%84%9C%EC%9A%B8"), post("q=%ec%84%9c%ec%9a%b8&a=1"), {}),
        (get("tag=Cat&tag=Dog"), get("tag=cat&tag=dog"), {"tag": "folded"}),
        (get("q=\uac00"), get("q=\u1100\u1161"), {"q": "folded"}),
    ],
    ids=["a form's parameter", "order and spelling of a form", "a repeated parameter", "composed Hangul"],
)
def test_rules_reach_every_parameter(
    tmp_path: Path, recorded: Request, live_request: Request, matching: Mapping[str, Any]
) -> None:
    """A tool's rules hold for the parameters of a form, and for each value of a repeated one."""
    assert is_answered(tmp_path, recorded, live_request, matching)


def test_a_miss_says_which_value_of_which_parameter_differs(tmp_path: Path) -> None:
    """Values are told apart as they are looked for, and a form's parameters stand by their names."""
    write_cassette(tmp_path / "t.yaml", CassetteContent((Interaction(post("on=1&q=a&q=b"), Response(200)),)))
    tape = Library(tmp_path).open(Path("t.yaml"), "none", "tool")

    assert "differs in q[1]: 'b'\n" in str(tape.miss(post("on=1&q=a&q=c"), "pytest"))
    assert "differs in on: '1'\n" in str(tape.miss(post('{"on": 1, "q": ["a", "b"]}'), "pytest"))
    recorded = [post('{"on": 1}')]
    assert "differs in on: 1\n" in str(tape.miss(post('{"on": true}'), "pytest", recorded))
