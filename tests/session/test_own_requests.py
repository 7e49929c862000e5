"""What an agent sends by itself: with a mode ``none`` nothing, by default only requests to this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from tests.cassettes.http.server import Server, serving
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

for library in ("aiohttp", "requests", "urllib3"):
    import_module(library)  # pytester forgets what is imported later, and each run would import it again

WAYS = ("httpx", "httpx_async", "aiohttp", "requests", "urllib3", "urllib", "http_client", "thread", "tool")

CONFTEST = """
import asyncio
import threading
import time

from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.toolsets import tool_of

BASE = "{base}"


def httpx(url):
    import httpx
    return httpx.get(url).text

def httpx_async(url):
    import httpx
    async def ask():
        async with httpx.AsyncClient() as client:
            return (await client.get(url)).text
    return asyncio.run(ask())

def aiohttp(url):
    import aiohttp
    async def ask():
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.text()
    return asyncio.run(ask())

def requests(url):
    import requests
    return requests.get(url).text

def urllib3(url):
    import urllib3
    return urllib3.request("GET", url).data.decode()

def urllib(url):
    import urllib.request
    return urllib.request.urlopen(url).read().decode()

def http_client(url):
    import http.client
    connection = http.client.HTTPConnection(BASE.removeprefix("http://"))
    connection.request("GET", url.removeprefix(BASE))
    return connection.getresponse().read().decode()

def thread(url):
    said = []
    asking = threading.Thread(target=lambda: said.append(urllib(url)))
    asking.start()
    asking.join()
    return said[0]

def tool(url, ctx):
    look = ToolCall("c", 1, 0, "look", {{"url": url}})
    return asyncio.run(ctx.tools.call(look)).content

def look(url: str) -> str:
    return urllib(url)

def whole(url: str) -> str:
    return urllib(url)


class Own:
    tools = ("look",)

    def run(self, task_input, ctx):
        way = task_input["content"]
        more = (ctx,) if way == "tool" else ()
        return "Mina " + globals()[way](BASE + "/" + way, *more)


class Eager:
    '''Asks before it has anything to do.'''

    def __init__(self):
        self.greeting = urllib(BASE + "/eager")

    def run(self, task_input, ctx):
        return "Mina " + self.greeting


class Stubborn:
    '''Asks on whatever comes, and waits between, as clients of model providers do.'''

    def run(self, task_input, ctx):
        for _ in range(3):
            try:
                return "Mina " + urllib(BASE + "/again")
            except Exception:
                time.sleep(60)


class Endless:
    '''Does not know that its time is over.'''

    def run(self, task_input, ctx):
        while True:
            try:
                urllib(BASE + "/on")
            except Exception:
                pass
            time.sleep(0.01)


def pytest_agenteval_register(registry):
    registry.agent("own", Own)
    registry.agent("eager", Eager)
    registry.agent("stubborn", Stubborn)
    registry.agent("endless", Endless)
    registry.tool(tool_of(look))
    registry.tool(tool_of(whole, taped=True))
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that counts what it is asked."""
    with serving() as started:
        yield started


def prepare(pytester: pytest.Pytester, server: Server, *tasks: dict[str, Any], more: str = "") -> None:
    """Write a suite of agents that ask this server."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(more=more)})
    write(pytester.path, {"evals/conftest.py": CONFTEST.format(base=server.base)})
    write(pytester.path, {f"evals/{each['id']}.yaml": each for each in tasks})


def by(way: str, agent: str = "own", **more: Any) -> dict[str, Any]:
    """Give a task whose agent asks in this way."""
    return task(way, agent=agent, input={"content": way}, **more)


def paths(ways: Sequence[str]) -> list[str]:
    """Give what the server is asked in these ways, sorted."""
    return sorted(f"/{way}" for way in ways)


def test_with_mode_none_nothing_is_sent(pytester: pytest.Pytester, server: Server) -> None:
    """Each request is refused and named; once recorded, it is replayed, with the default options too."""
    prepare(pytester, server, *(by(way) for way in WAYS))

    refused = run(pytester, "evals", "--agent-record=none")

    assert server.asked == []
    refused.assert_outcomes(errors=len(WAYS))
    refused.stdout.fnmatch_lines(
        [
            f"*cassettes/httpx.yaml: GET {server.base}/httpx()*",
            "*expected: a recorded call (mode is replay: nothing is sent)*",
            "*record it:  pytest evals/httpx.yaml -k httpx --agent-record=once --agent-model=scripted*",
            "*or send it without recording:  pytest evals --agent-record=none* --agent-live",
        ]
    )
    assert "Traceback" not in refused.stdout.str()

    run(pytester, "evals", "--agent-record=once").assert_outcomes(passed=len(WAYS))
    assert sorted(server.asked) == paths(WAYS)
    server.asked.clear()

    played = run(pytester, "evals", "-v")
    played.assert_outcomes(passed=len(WAYS))
    assert server.asked == []
    assert "can be made by no tool any more" not in played.stdout.str()


def test_requests_to_this_machine_need_no_permission(pytester: pytest.Pytester, server: Server) -> None:
    """By default they are sent and not recorded, until there is a recording: that is replayed."""
    prepare(pytester, server, *(by(way) for way in WAYS))

    result = run(pytester, "evals", workers=2)

    result.assert_outcomes(passed=len(WAYS))
    assert sorted(server.asked) == paths(WAYS)
    assert not (pytester.path / "cassettes").exists()

    run(pytester, "evals", "--agent-record=once", "-k", "httpx").assert_outcomes(passed=2)
    server.asked.clear()
    run(pytester, "evals", "-k", "httpx").assert_outcomes(passed=2)
    assert server.asked == []


def test_what_a_recording_lacks_is_not_sent(pytester: pytest.Pytester, server: Server) -> None:
    """A trial with a recording is a replay: it sends nothing more, also not to this machine."""
    prepare(pytester, server, by("httpx"))
    run(pytester, "evals", "--agent-record=once").assert_outcomes(passed=1)
    server.asked.clear()
    conftest = pytester.path / "evals" / "conftest.py"
    conftest.write_text(conftest.read_text().replace('"/" + way', '"/other"'), encoding="utf-8")
    run(pytester, "evals").assert_outcomes(errors=1)
    assert server.asked == []


def test_the_environment_comes_before_the_suite(
    pytester: pytest.Pytester, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CI job that may ask nobody says so once, whatever suites say, also to processes of workers."""
    prepare(pytester, server, by("httpx"), by("http_client"), more="live: true\n")
    monkeypatch.setenv("AGENTEVAL_LIVE", "0")
    monkeypatch.setenv("AGENTEVAL_RECORD", "none")
    run(pytester, "evals", workers=1).assert_outcomes(errors=2)
    assert server.asked == []


def test_a_client_that_tries_again_is_answered_at_once(pytester: pytest.Pytester, server: Server) -> None:
    """Clients wait and ask three times where they meet an Exception; the miss is one, and not waited for."""
    prepare(pytester, server, by("again", "stubborn"))
    began = time.monotonic()

    result = run(pytester, "evals", "--agent-record=none")

    assert time.monotonic() - began < 60
    assert server.asked == []
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*cassette_miss*/again()*", "! 1 of greetings's 1 call not recorded"])


@pytest.mark.parametrize("option", ["--agent-live", "--agent-record=all"])
def test_a_thread_that_outlives_its_trial_dies_at_its_next_request(
    pytester: pytest.Pytester, server: Server, option: str
) -> None:
    """An agent that a limit has ended goes on in its thread: it spends nothing any more.

    A response that it was reading stays open: that warning is the agent's, and all others are ours.
    """
    prepare(pytester, server, by("on", "endless", limits={"seconds": 1}), by("httpx"))

    result = run(pytester, "evals", option, "-W", "error", "-W", "ignore::ResourceWarning")

    result.assert_outcomes(passed=1, failed=1)
    request_count = len(server.asked)
    assert request_count > 0
    time.sleep(0.5)
    assert len(server.asked) <= request_count + 1  # one may have been on its way


def test_what_an_agent_asks_when_it_is_made_is_not_sent_either(
    pytester: pytest.Pytester, server: Server
) -> None:
    """It is made when its first trial begins, and belongs to it; recorded, the agent is made of it again."""
    prepare(pytester, server, by("eager", "eager"))
    run(pytester, "evals", "--agent-record=none").assert_outcomes(errors=1)
    assert server.asked == []
    run(pytester, "evals", "--agent-record=once").assert_outcomes(passed=1)
    run(pytester, "evals").assert_outcomes(passed=1)
    assert server.asked == ["/eager"]


def test_a_tool_that_is_taped_by_its_calls_is_recorded_once(
    pytester: pytest.Pytester, server: Server
) -> None:
    """What it asks meanwhile is its own affair: the call is the recording."""
    calls = [{"tool": "whole", "args": {"url": f"{server.base}/whole"}}]
    script = [{"calls": calls}, {"text": "Mina"}]
    prepare(pytester, server, task("t", script=script, settings={"tools": ["whole"]}))
    run(pytester, "evals", "--agent-record=once").assert_outcomes(passed=1)
    recorded = (pytester.path / "cassettes" / "t.yaml").read_text(encoding="utf-8")
    assert (recorded.count("uri: tool://whole"), recorded.count("uri: http")) == (1, 0)
    assert server.asked == ["/whole"]
    run(pytester, "evals").assert_outcomes(passed=1)
    assert server.asked == ["/whole"]


pytest.importorskip("pytest_socket")

OTHERS = """
import socket
import pytest

def test_the_guard_is_still_up():
    with pytest.raises(RuntimeError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


@pytest.mark.parametrize(
    ("workers", "forbidding"),
    [(0, "--disable-socket"), (0, "--allow-hosts=127.0.0.1"), (2, "--disable-socket")],
)
def test_offline_trials_run_where_sockets_are_forbidden(
    pytester: pytest.Pytester, workers: int, forbidding: str
) -> None:
    """The loop of trials wakes itself through a pair of sockets, which reaches nobody; the guard stays up."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": [task("a"), task("b"), task("c")]})
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/test_others.py": OTHERS})

    result = run(pytester, "evals", "-p", "pytest_socket", forbidding, workers=workers)

    result.assert_outcomes(passed=4, warnings=None)


RAW = """
import http.client
import threading

first_is_over = threading.Event()

def pytest_runtest_logfinish():
    first_is_over.set()

class Raw:
    def run(self, task_input, ctx):
        if task_input["content"] != "t0":
            first_is_over.wait(20)
        connection = http.client.HTTPConnection("{place}")
        connection.request("GET", "/" + task_input["content"])
        return "Mina " + connection.getresponse().read().decode()

def pytest_agenteval_register(registry):
    registry.agent("raw", Raw)
"""


def test_what_a_replay_refuses_stays_refused(pytester: pytest.Pytester) -> None:
    """pytest-socket puts functions of sockets in place before each test, and Python's own back after it."""
    with serving() as server:
        raw = [task(f"t{n}", agent="raw", input={"content": f"t{n}"}) for n in range(3)]
        write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": raw, "pytest.ini": "[pytest]\n"})
        write(pytester.path, {"evals/conftest.py": RAW.format(place=server.base.removeprefix("http://"))})

        result = run(
            pytester, "evals", "-p", "pytest_socket", "--allow-hosts=127.0.0.1", "--agent-record=none"
        )

        assert server.asked == []
    result.assert_outcomes(errors=3)
