"""The calls of a trial's tools: from its own cassette, then from shared ones, exactly, then by the rules."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    http_request_of,
    tool_call,
    tool_interaction,
    with_http_request,
)
from pytest_agenteval.cassettes.request_matching import ParamMatchers
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake
from pytest_agenteval.tools.http_declaration import ToolDeclaration
from pytest_agenteval.tools.http_recordings import as_calls
from pytest_agenteval.tools.http_tool import HttpWire
from pytest_agenteval.tools.tool import Tool, ToolResult
from pytest_agenteval.tools.tool_tape import TapedAnswer, ToolTape, can_replay

RETRY = "pytest evals -k t --agent-record=new_episodes"
PLACES = {
    "type": "object",
    "properties": {
        "keyword": {"type": "string"},
        "x": {"type": "number"},
        "size": {"type": "integer", "default": 15},
    },
    "required": ["keyword"],
    "additionalProperties": False,
}
MATCHING = {"keyword": "folded", "x": {"number": 0.001}}


class Places(HttpWire):
    """A provider that finds one place, whatever is searched for."""

    async def send(self, args: Mapping[str, Any]) -> Response:
        return exchange(dict(args), "found live").response


def places(address: str = "https://places.test/v2/find", **always: str) -> Places:
    """Declare a GET request, below one address for all of the provider's tools."""
    query = {**always, **{name: f"{{{name}}}" for name in PLACES["properties"]}}
    request = {"url": address, "query": query}
    declared = {"name": "places", "description": "d", "parameters": PLACES, "request": request}
    return Places(spec_of(ToolDeclaration, {**declared, "result": {"path": "places"}}), None)


def tool(name: str = "places", *, wire: bool = False, matching: Mapping[str, Any] = MATCHING) -> Tool:
    """Give a tool of the outside world."""
    spec = ToolSpec(name, parameters=PLACES, taped=True)
    return Tool(spec, lambda args: None, wire=places() if wire else None, matching=matching)


def exchange(args: dict[str, Any], *names: str) -> Interaction:
    """Give what the provider was asked and said."""
    return Interaction(places().request(args), Response(200, "OK", body=json.dumps({"places": names})))


def tape(
    folder: Path, *held: Interaction, shared: tuple[str, ...] = (), mode: RecordMode = "none"
) -> tuple[ToolTape, Library]:
    """Open a trial's tape over its own recordings and shared ones."""
    if held:
        write_cassette(folder / "own.yaml", CassetteContent(held))
    library = Library(folder, started=time.time() + 1)
    opened = [partial(library.open_shared, Path(name)) for name in shared]
    return ToolTape(library.open(Path("own.yaml"), mode, "tool"), shared=opened, retry_command=RETRY), library


def ask(tape: ToolTape, used: Tool, **args: Any) -> Any:
    """Give the value that is played, or None."""
    played = tape.play(ToolCall("c", 1, 0, used.spec.name, args), used)
    return None if played is None else played.value


def answer(tape: ToolTape, used: Tool, **args: Any) -> TapedAnswer:
    """Answer a call of a tool that gives ``made`` where it is really called."""

    async def make() -> ToolResult:
        return ToolResult("made")

    return asyncio.run(tape.answer(ToolCall("c", 1, 0, used.spec.name, args), used, make))


def test_a_call_is_accepted_by_the_rules_of_its_parameters(tmp_path: Path) -> None:
    """White space and a metre more are no other question; another size is."""
    opened, _ = tape(
        tmp_path, tool_interaction("places", {"keyword": "강남역 맛집", "x": 127.0276}, result=1)
    )

    assert ask(opened, tool(), keyword="강남역맛집", x="127.0275") == 1
    assert ask(opened, tool(), keyword="강남역맛집", x=127.0275, size=15) == 1
    assert ask(opened, tool(), keyword="강남역맛집", x=127.0275, size=5) is None
    assert ask(opened, tool(), keyword="강남역맛집", x=127.03) is None
    assert ask(opened, tool(matching={}), keyword="강남역맛집", x=127.0276) is None
    assert (opened.hits, opened.misses) == (2, 3)


def test_of_accepted_calls_the_nearest_answers_each_time(tmp_path: Path) -> None:
    """What fits best answers, and who asks the same again is told the same again."""
    held = [
        tool_interaction("places", {"keyword": "A b", "x": 1.0005}, result="first"),
        tool_interaction("places", {"keyword": "ab", "x": 1.0004}, result="second"),
        tool_interaction("places", {"keyword": "ab", "x": 1.0}, result="third"),
    ]
    opened, _ = tape(tmp_path, *held)

    assert ask(opened, tool(), keyword="ab", x="1.0") == "third"
    assert ask(opened, tool(), keyword="ab", x="1.0") == "third"
    assert ask(opened, tool(), keyword="ab", x=1.0003) == "second"
    assert ask(opened, tool(), keyword="ab", x=1.0003) == "second"
    assert ask(opened, tool(), keyword="a b", x=1.0006) == "first"


def test_a_search_is_answered_by_the_recorded_one_whose_words_are_nearest(tmp_path: Path) -> None:
    """More words than were recorded, or fewer: the recording that says nearly as much, not any that fits."""
    searching = replace(tool(), matching={"keyword": "contains"})
    words = ("역", "서울역 맛집", "서울역")
    opened, _ = tape(
        tmp_path, *(tool_interaction("places", {"keyword": word}, result=word) for word in words)
    )
    answers = {"서울역 카페": "서울역", "서울역 맛집 추천": "서울역 맛집", "부산역": "역", "서울": "서울역"}

    for keyword, expected in answers.items():
        assert [ask(opened, searching, keyword=keyword) for _ in range(2)] == [expected] * 2
    assert ask(opened, searching, keyword="공항") is None


def test_equal_calls_with_other_words_are_played_in_their_order(tmp_path: Path) -> None:
    """Two recordings of one call are the first answer and the second, whichever way the call is written."""
    held = [tool_interaction("places", {"keyword": "ab", "x": 1.0}, result=n) for n in ("then", "later")]
    opened, _ = tape(tmp_path, *held)

    assert [ask(opened, tool(), keyword="A B", x=1.0) for _ in range(3)] == ["then", "later", "later"]


def test_a_tool_with_a_wire_is_played_from_what_its_provider_said(tmp_path: Path) -> None:
    """A recording of the request alone is found by it, or by the arguments in it; so is a failure."""
    down = Interaction(places().request({"keyword": "x"}), Response(503, "Down", body="no"))
    opened, _ = tape(tmp_path, exchange({"keyword": "서울 역"}, "seoul"), down)
    used = tool(wire=True)

    assert ask(opened, used, keyword="서울 역") == ["seoul"]
    assert ask(opened, used, keyword="서울역") == ["seoul"]
    failed = opened.play(ToolCall("c", 1, 0, "places", {"keyword": "x"}), used)
    assert failed is not None
    assert failed.error == ToolError("provider_error", "HTTP 503: no")
    other = Tool(used.spec, used.function, wire=places("https://other.test/find"), matching=MATCHING)
    assert ask(opened, other, keyword="서울역") is None


def kind(name: str, **always: str) -> Tool:
    """Give a tool for one kind of place."""
    return replace(tool(name), wire=places(**always))


def test_tools_that_share_an_address_never_play_each_others_recordings(tmp_path: Path) -> None:
    """What one always sends, and another sends otherwise or never, tells them apart, whatever rules allow."""
    cafes, parks, any_kind = kind("cafes", kind="cafe"), kind("parks", kind="park"), kind("places")
    assert cafes.wire is not None
    response = Response(200, "OK", body=json.dumps({"places": ["cafe"]}))
    opened, _ = tape(tmp_path, Interaction(cafes.wire.request({"keyword": "서울 역"}), response))

    assert ask(opened, parks, keyword="서울역") is None
    assert ask(opened, any_kind, keyword="서울역") is None
    assert ask(opened, cafes, keyword="서울역") == ["cafe"]


def test_shared_cassettes_are_asked_after_the_trials_own(tmp_path: Path) -> None:
    """A folder holds a file for each tool, a file any; of a call that both hold the trial's own counts."""
    (tmp_path / "shared").mkdir()
    asked = ({"keyword": "부산", "size": 15}, {"keyword": "서울"})
    shared = tuple(tool_interaction("places", args, result="shared") for args in asked)
    write_cassette(tmp_path / "shared" / "places.json", CassetteContent(shared))
    write_cassette(tmp_path / "more.yaml", CassetteContent((exchange({"keyword": "대구"}, "more"),)))
    own = tool_interaction("places", {"keyword": "서울"}, result="own")
    opened, library = tape(tmp_path, own, shared=("shared", "more.yaml"))
    used = tool(wire=True)

    assert ask(opened, used, keyword="서울") == "own"
    assert ask(opened, used, keyword="부 산") == "shared"
    assert ask(opened, used, keyword="대구") == ["more"]
    assert ask(opened, used, keyword="광주") is None
    assert ask(opened, tool("route"), keyword="부산") is None
    assert (opened.hits, opened.misses) == (3, 2)
    assert [cassette.unused_slots for cassette in library.cassettes] == [frozenset()]
    assert library.save() == ()


def test_a_shared_file_is_read_once_and_only_when_its_tool_is_called(tmp_path: Path) -> None:
    """A folder of a hundred tools costs what is used of it."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "route.json").write_text("broken")
    path = tmp_path / "shared" / "places.json"
    write_cassette(path, CassetteContent((tool_interaction("places", {"keyword": "a"}, result=1),)))
    library = Library(tmp_path)

    first = library.open_shared(Path("shared"), "places")
    path.write_text("broken")
    again = library.open_shared(Path("shared"), "places")

    assert first is not None
    assert again is not None
    assert first.cassette is again.cassette
    assert library.open_shared(Path("shared"), "weather") is None


def test_a_shared_cassette_that_is_not_there_is_the_authors_mistake(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    with pytest.raises(UsageMistake, match="no shared cassette gone"):
        Library(tmp_path).open_shared(Path("gone"), "places")


def test_a_miss_names_the_nearest_call_wherever_it_is_recorded(tmp_path: Path) -> None:
    """By parameter, as the tool was called, whether the recording is of the tool or of its provider."""
    write_cassette(
        tmp_path / "more.yaml", CassetteContent((exchange({"keyword": "대구", "size": 5}, "more"),))
    )
    held = tool_interaction("places", {"keyword": "서울", "size": 7}, result=1)
    opened, _ = tape(tmp_path, held, shared=("more.yaml",))

    lines = str(opened.miss(ToolCall("c", 1, 0, "places", {"keyword": "대구"}), tool(wire=True))).splitlines()

    assert lines == [
        "own.yaml: places(keyword='대구', size=15)",
        "  expected: a recorded call (mode is replay: nothing is sent)",
        "  found:    2 calls of this tool; the nearest differs in size: 5",
        f"  hint:     record it:  {RETRY}",
    ]


def test_what_is_recorded_of_a_wire_is_played_again(tmp_path: Path) -> None:
    """The cassette holds the call, what was sent for it, and what the provider said of it."""
    used = tool(wire=True)
    opened, library = tape(tmp_path, mode="once")
    taped = answer(opened, used, keyword="서울")
    assert (taped.tape, taped.result.value) == ("live", ["found live"])
    library.save()

    again, _ = tape(tmp_path)
    (recorded,) = again.own.cassette.interactions
    assert tool_call(recorded.request) == ("places", {"keyword": "서울", "size": 15})
    assert http_request_of(recorded.response) == places().request({"keyword": "서울"})
    assert (recorded.response.status, json.loads(str(recorded.response.body))["places"]) == (
        200,
        ["found live"],
    )
    assert ask(again, used, keyword="서울", x=None) == ["found live"]
    assert ask(again, used, keyword=" 서울", x=None) == ["found live"]
    assert (opened.misses, opened.recorded, again.hits) == (0, 1, 2)


def test_a_call_is_found_by_the_request_that_it_makes(tmp_path: Path) -> None:
    """Another tool, and an agent's own client, get what the provider said to the same request."""
    (held,) = as_calls([exchange({"keyword": "서울"}, "seoul")], [tool(wire=True)])
    opened, _ = tape(tmp_path, held)

    assert ask(opened, replace(tool("other", wire=True)), keyword="서울") == ["seoul"]
    played = opened.own.play(places().request({"keyword": "서울"}))
    assert played is not None
    assert played.body == held.response.body
    assert ask(opened, tool("other", wire=True), keyword="부산") is None


SENT = Request(
    "POST",
    "https://places.test/v2/find?api_key=abcdefgh12345",
    '{"client_secret": "abcdefgh12345", "q": "a"}',
    {"Authorization": "Bearer abcdefgh12345", "X-Of": "us"},
)


def test_what_was_sent_for_a_call_holds_no_secret(tmp_path: Path) -> None:
    """Not in what is held, nor in the file after the next save; and the very request still finds it."""
    call = tool_interaction("places", {"keyword": "a"}, result="found")
    held = Interaction(call.request, with_http_request(Response(200, body='{"places": []}'), SENT))
    opened, library = tape(tmp_path, held, mode="new_episodes")
    assert opened.own.play(SENT) is not None
    opened.own.record(tool_interaction("places", {"keyword": "b"}, result=1).request, held.response)

    assert "abcdefgh12345" not in repr(library.cassettes[0].interactions)
    library.save()
    assert "abcdefgh12345" not in (tmp_path / "own.yaml").read_text(encoding="utf-8")
    (first, second) = tape(tmp_path)[0].own.cassette.interactions
    for sent in (http_request_of(first.response), http_request_of(second.response)):
        assert sent is not None
        assert sent.uri == "https://places.test/v2/find?api_key=<redacted>"
        assert json.loads(str(sent.body)) == {"client_secret": "<redacted>", "q": "a"}
        assert sent.headers == {"Authorization": ("<redacted>",), "X-Of": ("us",)}


def test_a_provider_that_failed_in_a_broken_recording_is_asked_again(tmp_path: Path) -> None:
    """A response of 503 below a call is a server's failure; a tool's own error is an answer."""
    down = replace(exchange({"keyword": "a"}), response=Response(503, "Down"))
    (call,) = as_calls([down], [tool(wire=True)])
    failed = tool_interaction("places", {"keyword": "b"}, error={"type": "unreachable", "message": "no"})
    write_cassette(tmp_path / "own.yaml", CassetteContent((call, failed), rest={"unfinished": True}))
    opened, _ = tape(tmp_path, mode="once")

    assert answer(opened, tool(wire=True), keyword="a").tape == "live"
    assert answer(opened, tool(wire=True), keyword="b").tape == "hit"


def test_what_was_sent_is_checked_as_a_request_is(tmp_path: Path) -> None:
    """A slip of the hand is named with its place when the file is read."""
    call = tool_interaction("places", {"keyword": "a"}, result=1)
    write_cassette(
        tmp_path / "own.yaml", CassetteContent((Interaction(call.request, exchange({}).response),))
    )
    path = tmp_path / "own.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("version", "    http_request: {uri: x}\nversion")
    )

    with pytest.raises(ProblemsFound) as wrong:
        tape(tmp_path)
    assert wrong.value.problems[0].path == ("interactions", 0, "response", "http_request", "method")


def test_recorded_requests_become_calls_of_the_tool_that_makes_them(tmp_path: Path) -> None:
    """What was behind a # is an argument that was not sent; what no tool makes stays as it is."""
    sent = exchange({"keyword": "서울 역", "size": 3}, "seoul")
    unsent = Interaction(replace(sent.request, uri=f"{sent.request.uri}#more=1"), sent.response)
    elsewhere = Interaction(Request("GET", "https://elsewhere.test/"), Response(200))
    used = [kind("cafes", kind="cafe"), tool(wire=True)]

    posted = Interaction(replace(sent.request, method="POST"), sent.response)

    call, other_call, other, by_post = as_calls([sent, unsent, elsewhere, posted], used)

    assert tool_call(call.request) == ("places", {"keyword": "서울 역", "size": 3})
    assert call == other_call
    assert http_request_of(call.response) == sent.request
    assert (other, by_post) == (elsewhere, posted)
    opened, _ = tape(tmp_path, call)
    assert ask(opened, used[1], keyword="서울역", size=3) == ["seoul"]


def test_a_secret_of_a_shared_cassette_is_never_given_out(tmp_path: Path) -> None:
    """Responses are redacted when they are first looked at, whoever looks."""
    secret_call = tool_interaction("places", {"keyword": "a"}, result={"api_key": "abcdefgh12345"})
    write_cassette(tmp_path / "more.json", CassetteContent((secret_call,)))
    opened, _ = tape(tmp_path, shared=("more.json",))
    assert ask(opened, tool(), keyword="a") == {"api_key": "<redacted>"}

    library = Library(tmp_path)
    library.open(Path("more.json"), "none", "tool")
    assert "abcdefgh12345" not in str(library.cassettes[0].interactions)


def test_lookup_compares_only_the_calls_that_may_be_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among 600 calls whose folded keyword differs, none but the right one is compared."""
    held = (tool_interaction("places", {"keyword": f"word {n}", "x": 1.0}, result=n) for n in range(600))
    opened, _ = tape(tmp_path, *held)
    compared: list[Any] = []
    accepts = ParamMatchers.accepts

    def counted(self: ParamMatchers, recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
        compared.append(recorded)
        return accepts(self, recorded, asked)

    monkeypatch.setattr(ParamMatchers, "accepts", counted)
    assert [ask(opened, tool(), keyword=f"WORD{n}", x=1.0001) for n in range(0, 600, 60)] == [
        *range(0, 600, 60)
    ]
    assert len(compared) == 10


def test_a_call_recorded_meanwhile_is_found_by_the_rules(tmp_path: Path) -> None:
    """The index takes in what is added."""
    opened, library = tape(
        tmp_path, tool_interaction("places", {"keyword": "a"}, result=1), mode="new_episodes"
    )
    assert ask(opened, tool(), keyword="b") is None
    assert answer(opened, tool(), keyword="b").result.value == "made"

    other = ToolTape(library.open(Path("own.yaml"), "new_episodes", "tool"), retry_command=RETRY)
    assert ask(other, tool(), keyword=" B ") == "made"


def test_what_was_not_needed_and_what_nothing_asks_for_any_more(tmp_path: Path) -> None:
    """By cassette: how much was never played, and which calls no tool can make today."""
    held = [
        tool_interaction("places", {"keyword": "a"}, result=1),
        tool_interaction("places", {"word": "a"}, result=1),
        tool_interaction("gone", {}, result=1),
        exchange({"keyword": "a"}, "x"),
        Interaction(Request("GET", "https://elsewhere.test/"), Response(200)),
    ]
    opened, library = tape(tmp_path, *held)
    ask(opened, tool(), keyword="a")

    (cassette,) = library.cassettes
    assert len(cassette.unused_slots) == 4
    can = can_replay([tool(wire=True)])
    assert [request.uri for request in cassette.requests if not can(request)] == [
        "tool://places",
        "tool://gone",
        "https://elsewhere.test/",
    ]
