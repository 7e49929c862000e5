"""Requests of models that cannot be read: the run says so, live, recorded and replayed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_agenteval import load_run
from tests.agents.endpoints import Received, Reply, serving
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
        connection.sendall(b"POST / HTTP/1.0\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
        connection.recv(100)
    return "-7"


def silent(question):
    return "-7"
"""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server to which the bot sends its requests, and which answers each of them with -7."""

    def answer(request: Received) -> Reply:
        usage = {"usage": {"total_tokens": 7}} if request.path == "/counted" else {}
        return Reply({"text": "-7", **usage})

    with serving(answer) as server:
        monkeypatch.setenv("BOT_BASE", server.url)
        yield server.url.removeprefix("http://")


def prepare(pytester: pytest.Pytester, name: str) -> None:
    """Write a suite whose agent is a function of the bot."""
    graders = [{"name": "answer_contains", "config": {"text": "-7"}}]
    task = {"id": "t", "input": {"content": "Hm?"}, "graders": graders}
    suite = f"name: s\nkind: regression\nagent: {{call: bot:{name}}}\n"
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/bot.py": BOT, "evals/suite.yaml": suite})
    write(pytester.path, {"evals/t.yaml": task})


RECORDING = ("--agent-record=once", "--agent-record-chat=once")


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("name", ["completing", "own_path", "counted"])
def test_a_request_that_looks_like_one_of_a_model_is_reported(pytester: pytest.Pytester, name: str) -> None:
    """It has a model with a prompt or messages, or its response counts tokens; all are unknown then."""
    prepare(pytester, name)

    for options in [RECORDING, (), *([] if name == "counted" else [("--agent-live",)])]:
        result = run(pytester, "evals", *options)

        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["! 1 request of models could not be read*"])
        latest = load_run("latest", results=pytester.path / ".agenteval/runs")
        assert latest.entries[0].usage.tokens is None


@pytest.mark.usefixtures("address")
def test_other_requests_are_no_models(pytester: pytest.Pytester) -> None:
    """A field named ``model`` is not enough for a request of a model."""
    prepare(pytester, "searching")

    result = run(pytester, "evals", *RECORDING)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*could not be read*")


def test_a_connection_that_cannot_be_recorded_is_reported_while_recording(
    pytester: pytest.Pytester, address: str
) -> None:
    """A raw connection, as that of a WebSocket, is refused in a replay."""
    prepare(pytester, "by_socket")

    recorded = run(pytester, "evals", *RECORDING)
    replayed = run(pytester, "evals", "--agent-record-chat=none")

    recorded.assert_outcomes(passed=1)
    output = " ".join(recorded.stdout.str().split())
    assert f"recorded were opened ({address} in 1 trial): a replay refuses them" in output
    replayed.assert_outcomes(errors=1)


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("options", "is_reported"), [((), True), (("-v",), True), (("--agent-model=nop",), False)]
)
def test_a_run_without_any_request_of_a_model_says_so(
    pytester: pytest.Pytester, options: tuple[str, ...], is_reported: bool
) -> None:
    """The agent may have sent requests that were not intercepted; offline models send none."""
    prepare(pytester, "silent")

    result = run(pytester, "evals", *options)

    assert ("no model request was seen in s" in result.stdout.str()) is is_reported
