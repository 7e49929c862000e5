"""A trial's own tools, offered to programs over MCP: each call is the trial's, and stands there once."""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from pytest_agenteval.cassettes.http.loopback import open_address
from pytest_agenteval.cassettes.http.loopback_address import TrialAddress
from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tasks.task_spec import FaultSpec
from pytest_agenteval.tools import mcp_client
from pytest_agenteval.tools.offered_tools import OfferedTools
from pytest_agenteval.tools.tool import Tool, ToolFailed, planned_faults
from pytest_agenteval.tools.tool_tape import ToolTape
from pytest_agenteval.tools.toolbox import ToolBox
from tests.suites import only_our_plugin, run, suite, write

pytest_plugins = ["pytester"]

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PATIENCE_S = 30
never, arrived = threading.Event(), threading.Event()


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import the package once: what pytester's runs import is forgotten after them."""
    importlib.import_module("mcp.client.streamable_http")


def weather(args: Any) -> Any:
    """Give a map; fail for a city that nobody knows."""
    if args["city"] == "Nowhere":
        raise ToolFailed("there is no such city")
    return {"city": args["city"], "degrees": -7}


async def wait(args: Any) -> str:
    """Wait until the trial has ended."""
    arrived.set()
    await asyncio.sleep(PATIENCE_S)
    return "too late"


class Offered(NamedTuple):
    """A trial whose tools are offered."""

    url: str
    address: TrialAddress
    recorder: Recorder

    def ask(self, method: str, params: Any = None, id: int | None = 1, **headers: str) -> Any:
        """Ask as a program would, and give the whole answer."""
        return self.send(
            {"jsonrpc": "2.0", "method": method, **({"id": id} if id else {}), "params": params}, **headers
        )[1]

    def send(self, message: Any, way: str = "POST", **headers: str) -> tuple[int, Any]:
        """Send any body, and give status and answer."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(place.netloc), timeout=PATIENCE_S)
        body = message if isinstance(message, str) else json.dumps(message)
        connection.request(way, place.path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if text.startswith(("{", "[")) else text

    def call(self, tool: str, _meta: Any = None, **args: Any) -> Any:
        """Call a tool, and give its result."""
        return self.ask("tools/call", {"name": tool, "arguments": args, "_meta": _meta})["result"]


@pytest.fixture
def offered(tmp_path: Path) -> Iterator[Offered]:
    """A trial with a taped tool, one that waits, and one that fails at its first call."""
    recorder = Recorder(lambda: 0.0)
    tape = ToolTape(Library(tmp_path).open(Path("t.yaml"), "once", "tool"), retry_command="")
    box = ToolBox(
        recorder,
        tape=tape,
        faults=planned_faults([FaultSpec(tool="late", type="timeout", times=1).to_json()]),
    )
    box.offer(
        Tool(ToolSpec("weather", "The weather.", CITY, taped=True), weather),
        Tool(ToolSpec("wait", "Waits."), wait),
        Tool(ToolSpec("late"), lambda args: "here"),
    )
    with closing(open_address(Scope(lambda: tape.of_agent), [])) as address:
        url = address.mount("tools", OfferedTools(box, recorder, address.note_broken))
        yield Offered(url, address, recorder)


def test_the_official_client_lists_and_calls(offered: Offered) -> None:
    """Whatever form of the protocol it begins with."""

    async def talk() -> list[Any]:
        async with mcp_client.session_over(
            mcp_client.http_streams(offered.url, {"X-Of": "a program"})
        ) as session:
            listed = await mcp_client.list_tools(session)
            results = [
                await mcp_client.call_tool(session, "weather", {"city": city}) for city in ("Oslo", "Nowhere")
            ]
            return [listed, *results]

    listed, result, failed = asyncio.run(talk())
    assert [(tool["name"], tool.get("description")) for tool in listed][:1] == [("weather", "The weather.")]
    assert listed[0]["inputSchema"] == CITY
    assert result["structuredContent"] == {"city": "Oslo", "degrees": -7}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert (failed["isError"], "there is no such city" in failed["content"][0]["text"]) == (True, True)
    assert [(call.tool, call.tape, call.result) for call in offered.recorder.calls] == [
        ("weather", "live", {"city": "Oslo", "degrees": -7}),
        ("weather", "live", None),
    ]


def test_a_call_meets_faults_schema_and_tape(offered: Offered) -> None:
    """As a call of an agent in this process does."""
    assert [offered.call("late")["isError"], offered.call("late")["isError"]] == [True, False]
    assert "'city' is a required property" in offered.call("weather")["content"][0]["text"]
    assert "there is no tool 'nothing'" in offered.call("nothing")["content"][0]["text"]
    with ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda city: offered.call("weather", city=city), "abcdefgh")
    assert "".join(result["structuredContent"]["city"] for result in results) == "abcdefgh"
    assert len(offered.recorder.calls) == 12
    assert offered.address.broken == []


@pytest.mark.parametrize(
    ("name", "id"), [("weather", "other"), ("mcp__agenteval__weather", "other"), ("anything", "toolu_1")]
)
def test_a_call_that_the_wire_has_told_of_stands_there_once(offered: Offered, name: str, id: str) -> None:
    """It has the model's id and turn, and our name; by its id, else by its arguments and name."""
    offered.recorder.turn = 3
    offered.recorder.add_asked_calls([ToolCall(id, 3, 1, name, {"city": "Oslo"})])
    offered.call("weather", {"claudecode/toolUseId": "toolu_1"}, city="Oslo")
    (call,) = offered.recorder.calls
    assert (call.id, call.turn, call.index, call.tool) == (id, 3, 1, "weather")
    assert call.result == {"city": "Oslo", "degrees": -7}
    offered.call("weather", city="Oslo")
    assert [call.turn for call in offered.recorder.calls] == [3, 3]


def test_a_trial_that_ends_cuts_off_the_call_that_is_under_way(offered: Offered) -> None:
    """Nothing is called for a trial that is over, and what was cut off says so."""
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(offered.ask, "tools/call", {"name": "wait"})
        assert arrived.wait(PATIENCE_S)
        offered.address.close()
        assert "the trial has ended" in answer.result(PATIENCE_S)["error"]["message"]
    (call,) = offered.recorder.calls
    assert call.error is not None
    assert call.error.type == "not_finished"
    assert offered.send({})[0] == 403


def test_what_breaks_a_trial_is_told_to_whoever_runs_the_program(tmp_path: Path) -> None:
    """The program hears that nothing more is called; the trial has the reason."""
    recorder = Recorder(lambda: 0.0)
    tape = ToolTape(Library(tmp_path).open(Path("t.yaml"), "none", "tool"), retry_command="pytest")
    box = ToolBox(recorder, tape=tape)
    box.offer(Tool(ToolSpec("weather", parameters=CITY, taped=True), weather))
    with closing(open_address(Scope(lambda: tape.of_agent), [])) as address:
        offered = Offered(
            address.mount("tools", OfferedTools(box, recorder, address.note_broken)), address, recorder
        )
        answer = offered.ask("tools/call", {"name": "weather", "arguments": {"city": "Oslo"}})
    assert "the trial is broken" in answer["error"]["message"]
    assert [type(broken).__name__ for broken in address.broken] == ["CassetteMiss"]
    assert recorder.calls[0].tape == "miss"


def test_the_protocol_is_kept(offered: Offered) -> None:
    """Requests are answered, notifications are taken, and what is neither is refused in its own words."""
    hello = offered.ask("initialize", {"protocolVersion": "2025-03-26"})["result"]
    assert (hello["protocolVersion"], hello["capabilities"]) == ("2025-03-26", {"tools": {}})
    assert offered.ask("initialize", {"protocolVersion": "1999"})["result"]["protocolVersion"] == "2025-11-25"
    assert offered.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert offered.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, "")
    assert offered.send({"jsonrpc": "2.0", "id": 1, "result": {}}) == (202, "")
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    assert [answer["id"] for answer in offered.send([ping, {"method": "notifications/x"}])[1]] == [7]
    codes = [
        offered.ask("server/discover")["error"]["code"],
        offered.ask("tools/call", {"name": 5})["error"]["code"],
        offered.send("{")[1]["error"]["code"],
        offered.send({"id": 1})[1]["error"]["code"],
        offered.send("5")[1],
    ]
    assert codes[:4] == [-32601, -32602, -32700, -32600]
    assert [offered.send("", way)[0] for way in ("GET", "DELETE")] == [405, 405]
    assert offered.send(ping, Origin="https://evil.example")[0] == 403
    assert offered.send(ping, Origin="http://localhost:3000")[0] == 200


BOT = """
import json
import urllib.error
import urllib.request


def ask(url, method, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())["result"]


def answer(question, mcp_url, kept=[]):
    for url in kept:
        try:
            return ask(url, "ping")
        except urllib.error.HTTPError as refused:
            assert refused.code == 403
    kept.append(mcp_url)
    (tool,) = ask(mcp_url, "tools/list")["tools"]
    return ask(mcp_url, "tools/call", name=tool["name"], arguments={"city": "Oslo"})["content"][0]["text"]
"""
OWN = '''
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: -7"
'''


def test_a_python_agent_is_given_the_address_of_its_tools(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``mcp_url``, for as long as its trial lasts: a later trial finds nothing there."""
    only_our_plugin(monkeypatch)
    monkeypatch.syspath_prepend(pytester.path)
    graders = [
        {"name": "answer_contains", "config": {"text": "Oslo: -7"}},
        {"name": "tool_called", "config": {"tools": ["get_weather"], "succeeded": True}},
    ]
    task = {"id": "t", "input": {"content": "How is the weather in Oslo?"}, "graders": graders}
    more = "agent: {call: mcp_bot:answer}\ntools: [tools.py]\n"
    suite_yaml = f"name: s\nkind: regression\n{more}"
    write(
        pytester.path,
        {"mcp_bot.py": BOT, "evals/suite.yaml": suite_yaml, "evals/tools.py": OWN, "evals/t.json": task},
    )
    run(pytester, "--repetitions=2", "--agent-concurrency=1").assert_outcomes(passed=2)


def test_a_suite_takes_its_tools_from_an_address(
    offered: Offered, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever serves it; what was recorded is played when it is gone, and no header's secret is written."""
    only_our_plugin(monkeypatch)
    monkeypatch.setenv("TOOLS_URL", offered.url)
    monkeypatch.setenv("TOOLS_TOKEN", "canary-4713-of-mcp")
    entry = '{mcp: {url: "${TOOLS_URL}", headers: {Authorization: "Bearer ${TOOLS_TOKEN}"}}, only: [weather]}'
    call = {"tool": "weather", "args": {"city": "Oslo"}}
    called = {"name": "tool_called", "config": {"tools": ["weather"], "succeeded": True}}
    task = {
        "id": "t",
        "input": {"content": "?"},
        "script": [{"calls": [call]}, {"text": "!"}],
        "graders": [called],
    }
    write(pytester.path, {"evals/suite.yaml": suite(more=f"tools: [{entry}]\n"), "evals/t.json": task})
    run(pytester, "--agent-record=once").assert_outcomes(passed=1)
    assert [call.tool for call in offered.recorder.calls] == ["weather"]
    offered.address.close()
    run(pytester).assert_outcomes(passed=1)
    files = [path for path in pytester.path.rglob("*") if path.is_file()]
    assert [path for path in files if b"canary-4713" in path.read_bytes()] == []
