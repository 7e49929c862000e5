"""From arguments to a request and back, for declarations of every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.interaction import Request
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.tools.http_declaration import ProviderSpec, ToolDeclaration
from pytest_agenteval.tools.http_recordings import arguments_in
from pytest_agenteval.tools.http_tool import HttpWire
from pytest_agenteval.tools.tool import ToolFailed

TYPES = {"word": "string", "n": "integer", "x": "number", "yes": "boolean", "words": "array", "any": "object"}


def wire_of(request: dict[str, Any], provider: dict[str, Any] | None = None, **properties: Any) -> HttpWire:
    """Make the wire of a declaration; parameters are of the types that their names say."""
    shapes = {name: {"type": kind} for name, kind in TYPES.items()}
    parameters = {"type": "object", "properties": {**shapes, **properties}}
    declared = spec_of(
        ToolDeclaration, {"name": "t", "description": "d", "parameters": parameters, "request": request}
    )
    return HttpWire(declared, spec_of(ProviderSpec, provider) if provider else None)


def test_an_absent_argument_leaves_its_key_out() -> None:
    """What the agent does not say is not sent, nor is a text that would name it."""
    wire = wire_of({"url": "https://a.b/c", "query": {"q": "{word}", "of": "{n}-{word}", "v": 1}})
    assert wire.request({"n": 2}).uri == "https://a.b/c?v=1"
    assert wire.request({"n": 2, "word": "가"}).uri == "https://a.b/c?q=%EA%B0%80&of=2-%EA%B0%80&v=1"


def test_an_argument_alone_keeps_its_type() -> None:
    """In a JSON body a number stays a number; in a text it is written out."""
    wire = wire_of(
        {"method": "POST", "url": "https://a.b", "body": {"n": "{n}", "s": "no. {n}", "l": ["{yes}"]}}
    )
    request = wire.request({"n": 5, "yes": True})
    assert json.loads(str(request.body)) == {"n": 5, "s": "no. 5", "l": [True]}


def test_whole_numbers_are_written_one_way() -> None:
    """127.0 and 127 ask the same."""
    wire = wire_of({"url": "https://a.b", "query": {"x": "{x}"}})
    assert wire.request({"x": 127.0}) == wire.request({"x": 127})


def test_a_table_sends_other_words() -> None:
    """A table gives what is sent for an argument, and is read backwards."""
    query = {"code": {"param": "word", "table": {"KOSPI": "001", "KOSDAQ": "301"}}}
    wire = wire_of({"url": "https://a.b", "query": query})
    request = wire.request({"word": "KOSDAQ"})
    assert request.uri == "https://a.b?code=301"
    assert arguments_in(wire, request) == {"word": "KOSDAQ"}


def test_what_is_not_sent_was_recorded_behind_a_fragment() -> None:
    """By earlier versions; today an argument that only the result needs is no part of the request."""
    wire = wire_of({"url": "https://a.b/c", "query": {"q": "{word}"}})
    assert wire.request({"word": "a", "n": 3}).uri == "https://a.b/c?q=a"
    assert arguments_in(wire, Request("GET", "https://a.b/c?q=a#n=3")) == {"word": "a", "n": 3}


def test_defaults_of_the_schema_are_filled_in() -> None:
    """A call that leaves a default out asks the same as one that says it; unknown arguments are dropped."""
    wire = wire_of({"url": "https://a.b", "query": {"s": "{size}"}}, size={"type": "integer", "default": 10})
    assert wire.request({}) == wire.request({"size": 10}) == wire.request({"size": None, "other": 1})


@pytest.mark.parametrize("key", ["", "s3cret-value-1"])
def test_a_request_shows_no_secret(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request is written with and without a key, and redacting it changes no more of its address."""
    monkeypatch.setenv("A_KEY", key)
    wire = wire_of({"url": "https://a.b", "query": {"key": "${A_KEY}"}, "headers": {"X-Is": "Is ${A_KEY}"}})
    request = wire.request({})
    assert request.uri == "https://a.b?key=<redacted>"
    assert request.headers["X-Is"] == ("Is <redacted>",)
    assert Redactor.from_environ().request(request).uri == request.uri


def test_half_a_surrogate_pair_can_be_asked() -> None:
    """Models send them; neither a query nor a body breaks."""
    request = {"method": "POST", "url": "https://a.b", "query": {"q": "{word}"}, "body": {"w": "{word}"}}
    written = wire_of(request).request({"word": "a\ud800"})
    assert "\ud800" not in f"{written.uri}{written.body}"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "word": TEXTS,
        "n": st.integers(-(10**9), 10**9),
        "x": st.floats(-1e6, 1e6),
        "yes": st.booleans(),
        "words": st.lists(TEXTS, min_size=1, max_size=3),
        "any": st.dictionaries(TEXTS, st.integers(), max_size=2),
    },
)
NAMED = {name: f"{{{name}}}" for name in TYPES}
WIRES = {
    "query": wire_of({"url": "https://a.b/c", "query": NAMED}),
    "form": wire_of({"method": "POST", "url": "https://a.b", "body": NAMED, "body_as": "form"}),
    "json": wire_of({"method": "POST", "url": "https://a.b", "body": {"in": NAMED}}),
}


@pytest.mark.parametrize("kind", WIRES)
@given(args=ARGS)
def test_arguments_are_read_back(kind: str, args: dict[str, Any]) -> None:
    """What a request says of its arguments is what they were, wherever they stand in it."""
    wire = WIRES[kind]
    assert arguments_in(wire, wire.request(args)) == args


@given(word=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), n=st.integers())
def test_arguments_are_read_back_from_a_path(word: str, n: int) -> None:
    """Parts of a path are escaped, slashes too."""
    assume(word not in (".", ".."))
    wire = wire_of({"url": "/of/{word}/at/{n}"}, {"name": "p", "base": "https://a.b/v1"})
    assert arguments_in(wire, wire.request({"word": word, "n": n})) == {"word": word, "n": n}


@pytest.mark.parametrize("args", [{"word": ".."}, {"word": "."}, {}], ids=["up", "here", "absent"])
def test_an_argument_never_leads_to_another_address(args: dict[str, Any]) -> None:
    """Clients and servers walk up at two dots: the agent is told, and nothing is asked."""
    wire = wire_of({"url": "/of/{word}/all"}, {"name": "p", "base": "https://a.b/v1"})
    with pytest.raises(ToolFailed, match="give no address") as failed:
        wire.request(args)
    assert failed.value.type == "bad_arguments"


def test_an_argument_may_stand_twice_in_one_text() -> None:
    """Nor need its name be one that Python would take."""
    numbered = {"type": "string"}
    wire = wire_of(
        {"url": "https://a.b", "query": {"at": "{word}-{word}", "of": "no. {1st}"}}, **{"1st": numbered}
    )
    request = wire.request({"word": "k", "1st": "z"})
    assert request.uri == "https://a.b?at=k-k&of=no.%20z"
    assert arguments_in(wire, request) == {"word": "k", "1st": "z"}
