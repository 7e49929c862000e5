"""Models that are asked in a way that nobody reads: the run says so, live, recorded and replayed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_agenteval import load_run
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
import json
import os
import socket
from urllib.request import Request, urlopen

BASE = os.environ["BOT_BASE"]


def post(path, body):
    data = json.dumps(body).encode()
    with urlopen(Request(BASE + path, data, {"content-type": "application/json"})) as answer:
        return json.load(answer)["text"]


def completing(question):
    return post("/v1/completions", {"model": "m", "prompt": question})


def own_path(question):
    return post("/assist", {"model": "m", "messages": [{"role": "user", "content": question}]})


def counted(question):
    return post("/counted", {"q": question})


def searching(question):
    return post("/search", {"q": question, "model": "by date"})


def by_socket(question):
    host, port = BASE.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        connection.recv(100)
    return "-7"


def silent(question):
    return "-7"
"""


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        usage = {"usage": {"total_tokens": 7}} if self.path == "/counted" else {}
        body = json.dumps({"text": "-7", **usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that says -7; the bot asks it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setenv("BOT_BASE", f"http://127.0.0.1:{server.server_address[1]}")
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def prepare(pytester: pytest.Pytester, name: str) -> None:
    """Write a suite whose agent is a function of the bot."""
    graders = [{"name": "answer_contains", "config": {"text": "-7"}}]
    task = {"id": "t", "input": {"content": "Hm?"}, "graders": graders}
    suite = f"name: s\nkind: regression\nagent: {{call: bot:{name}}}\n"
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/bot.py": BOT, "evals/suite.yaml": suite})
    write(pytester.path, {"evals/t.yaml": task})


RECORDING = ("--agent-record=once", "--agent-record-chat=once")


@pytest.mark.usefixtures("port")
@pytest.mark.parametrize("name", ["completing", "own_path", "counted"])
def test_what_looks_like_a_models_traffic_is_said_wherever_it_goes(
    pytester: pytest.Pytester, name: str
) -> None:
    """A model with a prompt or messages is asked, or tokens are counted: the figures lack all of it."""
    prepare(pytester, name)

    for options in [RECORDING, (), *([] if name == "counted" else [("--agent-live",)])]:
        result = run(pytester, "evals", *options)

        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["! 1 request of models could not be read*"])
        run_now = load_run("latest", results=pytester.path / ".agenteval/runs")
        assert run_now.entries[0].usage.tokens is None


@pytest.mark.usefixtures("port")
def test_other_requests_are_no_models(pytester: pytest.Pytester) -> None:
    """A field that is called model is none yet."""
    prepare(pytester, "searching")

    result = run(pytester, "evals", *RECORDING)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*could not be read*")


def test_a_connection_that_cannot_be_recorded_is_said_while_the_rest_is(
    pytester: pytest.Pytester, port: int
) -> None:
    """As that of a WebSocket: a replay will refuse it."""
    prepare(pytester, "by_socket")

    recorded = run(pytester, "evals", *RECORDING)
    replayed = run(pytester, "evals", "--agent-record-chat=none")

    recorded.assert_outcomes(passed=1)
    said = " ".join(recorded.stdout.str().split())
    assert f"recorded were opened (127.0.0.1:{port} in 1 trial): a replay refuses them" in said
    replayed.assert_outcomes(errors=1)


@pytest.mark.usefixtures("port")
@pytest.mark.parametrize(
    ("options", "is_said"), [((), True), (("-v",), True), (("--agent-model=nop",), False)]
)
def test_where_nobody_was_seen_asking_the_run_says_so(
    pytester: pytest.Pytester, options: tuple[str, ...], is_said: bool
) -> None:
    """An agent may ask by ways that nobody sees; offline models ask nobody."""
    prepare(pytester, "silent")

    result = run(pytester, "evals", *options)

    assert ("no model request was seen in s" in result.stdout.str()) is is_said
