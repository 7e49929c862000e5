"""What a user reads when a call was not recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    Request,
    Response,
    chat_request,
    chat_response,
    tool_interaction,
    tool_request,
)
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.model_tape import ModelTape
from pytest_agenteval.text.errors import CassetteMiss

NAME = "cassettes/ko/L3/L3-001.yaml"
RETRY = "pytest evals/ko/L3 -k L3-001 --agent-record=new_episodes"


def place(keyword: str, **more: Any) -> Interaction:
    """Give a recorded search for a place."""
    return tool_interaction("PlaceSearch_kakao", {"keyword": keyword, **more}, result=[])


def miss(
    folder: Path, held: list[Interaction], live_request: Request, mode: str = "none", kind: str = "tool"
) -> str:
    """Give the text of a miss in a cassette that holds these."""
    (folder / NAME).parent.mkdir(parents=True, exist_ok=True)
    write_cassette(folder / NAME, CassetteContent(tuple(held)))
    library = Library(folder, started=(folder / NAME).stat().st_mtime + 1)
    tape = library.open(Path(NAME), mode, kind)  # type: ignore[arg-type]  # written as text
    made = tape.miss(live_request, RETRY)
    assert isinstance(made, CassetteMiss)
    return str(made)


def test_a_miss_says_what_differs_and_how_to_record_it(tmp_path: Path) -> None:
    """The cassette, the call, the nearest recorded call, and the command that records this one."""
    held = [place("청량리역 근처 대학교", size=1), place("서울역 맛집", size=3)]
    asked = tool_request("PlaceSearch_kakao", {"keyword": "청량리역 근처 대학교", "size": 2})

    assert (
        miss(tmp_path, held, asked)
        == f"""\
cassettes/ko/L3/L3-001.yaml: PlaceSearch_kakao(keyword='청량리역 근처 대학교', size=2)
  expected: a recorded call (mode is replay: nothing is sent)
  found:    2 calls of this tool; the nearest differs in size: 1
  hint:     record it:  {RETRY}"""
    )


TOOL_CASES = {
    "each argument that differs, and those that only one side has": (
        [place("a", size=1, sort="near")],
        tool_request("PlaceSearch_kakao", {"keyword": "b", "size": 1, "page": 2}),
        "1 call of this tool; the nearest differs in keyword: 'a', page: (not given), sort: 'near'",
    ),
    "of calls that differ equally, the most similar": (
        [place("서울역 근처 맛집"), place("강남역 12번 출구"), place("부산")],
        tool_request("PlaceSearch_kakao", {"keyword": "강남역 11번 출구"}),
        "3 calls of this tool; the nearest differs in keyword: '강남역 12번 출구'",
    ),
    "long values are cut": (
        [place("x" * 100)],
        tool_request("PlaceSearch_kakao", {"keyword": "y"}),
        f"1 call of this tool; the nearest differs in keyword: '{'x' * 58}…",
    ),
    "another tool": (
        [place("a"), tool_interaction("Route", {}, result=1)],
        tool_request("Weather", {}),
        "no call of this tool; recorded are: PlaceSearch_kakao, Route",
    ),
    "no recordings": ([], tool_request("Weather", {}), "no recordings at all"),
    "played already": ([place("a")], place("a").request, "1 recording of this call, replayed already"),
    "an HTTP request": (
        [Interaction(Request("GET", "https://x/a?q=1&size=2"), Response(200))],
        Request("GET", "https://x/a?q=2&size=2"),
        "1 request of this address; the nearest differs in q: '1'",
    ),
    "an HTTP body": (
        [Interaction(Request("POST", "https://x/a", "old"), Response(200))],
        Request("POST", "https://x/a", "new"),
        "1 request of this address; the nearest differs in body: 'old'",
    ),
}


@pytest.mark.parametrize(("held", "live_request", "found"), TOOL_CASES.values(), ids=TOOL_CASES)
def test_the_nearest_recorded_call(
    tmp_path: Path, held: list[Interaction], live_request: Request, found: str
) -> None:
    """The reader sees whether the agent asked something else, or the recording is another one."""
    assert miss(tmp_path, held, live_request).splitlines()[2] == f"  found:    {found}"


def test_an_http_request_is_named_by_its_address(tmp_path: Path) -> None:
    """Method, address, then what was asked for by name."""
    request = Request("POST", "https://x/a?key=abc&q=1", '{"size": 2}')

    assert (
        miss(tmp_path, [], request).splitlines()[0]
        == f"{NAME}: POST https://x/a(key='<redacted>', q='1', size=2)"
    )


def test_the_mode_once_says_why_it_does_not_record(tmp_path: Path) -> None:
    """With once the file's existence is the reason, which the reader may not expect."""
    report = miss(tmp_path, [place("a")], tool_request("x", {}), "once")

    assert report.splitlines()[1] == (
        "  expected: a recorded call (mode is once, and the file already exists: nothing is sent)"
    )


USER, SYSTEM = {"role": "user", "content": "Route it"}, {"role": "system", "content": "Be brief"}
SEARCH = {"name": "search", "parameters": {}}
ASKED = {"messages": [SYSTEM, USER], "tools": [SEARCH], "settings": {"temperature": 0, "seed": 1}}


def ask(model: str = "claude", repetition: int = 1, number: int = 2, **changed: Any) -> Request:
    """Give an ask that differs from the recorded one in what is said."""
    return chat_request("agent", model, repetition, number, {**ASKED, **changed})


CHAT_CASES = {
    "model": (ask(model="gpt"), "1 ask of this role; the nearest differs in alias: 'claude'"),
    "repetition": (ask(repetition=3), "1 ask of this role; the nearest differs in repetition: 1"),
    "ask number": (ask(number=5), "1 ask of this role; the nearest differs in ask: 2"),
    "a message": (
        ask(messages=[SYSTEM, {"role": "user", "content": "Now"}]),
        "1 ask of this role; the nearest differs in messages[1].content: 'Route it'",
    ),
    "one message more": (
        ask(messages=[SYSTEM, USER, USER]),
        "1 ask of this role; the nearest differs in messages: 2 of them, not 3",
    ),
    "a tool": (
        ask(tools=[{**SEARCH, "name": "find"}]),
        "1 ask of this role; the nearest differs in tools[0].name: 'search'",
    ),
    "settings": (
        ask(settings={"temperature": 1, "top_p": 1}),
        "1 ask of this role; the nearest differs in settings.temperature: 0, settings.top_p: (not given), "
        "settings.seed: 1",
    ),
    "a key": (
        ask(response_schema={}),
        "1 ask of this role; the nearest differs in response_schema: (not given)",
    ),
}


@pytest.mark.parametrize(("live_request", "found"), CHAT_CASES.values(), ids=CHAT_CASES)
def test_what_differs_in_a_chat(tmp_path: Path, live_request: Request, found: str) -> None:
    """A changed model, message, tool or setting is named, as each of them has another remedy."""
    held = Interaction(chat_request("agent", "claude", 1, 2, ASKED), chat_response({"text": "done"}))

    lines = miss(tmp_path, [held], live_request, kind="chat").splitlines()

    assert lines[1] == "  expected: a recorded reply (mode is replay: nothing is sent)"
    assert lines[2] == f"  found:    {found}"


def test_a_chat_is_named_by_who_asks_whom(tmp_path: Path) -> None:
    """Role, model, repetition and ask number say which reply is missing."""
    lines = miss(tmp_path, [place("a")], ask(), kind="chat").splitlines()

    assert lines[0] == f"{NAME}: agent asks claude (repetition 1, ask 2)"
    assert lines[2] == "  found:    no ask of this role; recorded are: (none)"


def to_model(address: str, question: str) -> Request:
    """Give what a client sends to a model."""
    body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": question}]}
    return Request("POST", f"{address}/chat/completions", json.dumps(body))


def test_one_request_more_to_a_model_is_counted_at_any_address(tmp_path: Path) -> None:
    """A reply is replayed at another address too, so the address is not what is missing."""
    (tmp_path / "cassettes").mkdir()
    choice = {"message": {"role": "assistant", "content": "Hello"}}
    reply = Response(200, "OK", body=json.dumps({"choices": [choice]}))
    held = Interaction(to_model("http://127.0.0.1:8811/v1", "Hello?"), reply)
    write_cassette(tmp_path / "cassettes" / "own-1.yaml", CassetteContent((held,)))
    library = Library(tmp_path, started=(tmp_path / "cassettes" / "own-1.yaml").stat().st_mtime + 1)
    tape = ModelTape(library.open(Path("cassettes/own-1.yaml"), "none", "chat"), RETRY)
    asked = to_model("https://api.openai.com/v1", "Hello?")
    assert tape.find_ask(asked, None) is not None
    assert tape.find_ask(asked, None) is None

    text = str(tape.miss(asked))

    assert "found:    1 reply of gpt-5-mini, replayed already: this request is one more" in text
    assert f"record it:  {RETRY}" in text
