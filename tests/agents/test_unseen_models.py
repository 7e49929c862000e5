"""Requests of models that cannot be read: the run says so, live, recorded and replayed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pytest_agenteval import Trial
from tests.agents.endpoints import Received, Reply, serving
from tests.journals import latest_trials
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


def answer(request: Received) -> Reply:
    """Answer each request with -7."""
    usage = {"usage": {"total_tokens": 7}} if request.path == "/counted" else {}
    return Reply({"text": "-7", **usage})


def write_suites(pytester: pytest.Pytester, *names: str) -> None:
    """Write a suite for each of these functions of the bot."""
    for name in names:
        task = {
            "id": name,
            "input": {"content": "Hm?"},
            "graders": [{"name": "answer_contains", "config": {"text": "-7"}}],
        }
        suite = f"name: {name}\nkind: regression\nagent: {{call: bot:{name}}}\n"
        write(pytester.path, {"pytest.ini": "[pytest]\n", f"evals/{name}/bot.py": BOT})
        write(pytester.path, {f"evals/{name}/suite.yaml": suite, f"evals/{name}/task.yaml": task})


RECORDING = ("--agent-record=once", "--agent-record-chat=once")
UNSEEN = ("completing", "own_path", "counted")
MODES = {"recorded": RECORDING, "replayed": ("--agent-record=none",), "live": ("--agent-live",)}


class Ran(NamedTuple):
    """What a run printed, on one line, and its trials by task."""

    screen: str
    trials: dict[str, Trial]


_made: dict[str, Ran] = {}
_address: list[str] = []


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> dict[str, Ran]:
    """All agents, recorded, replayed and live; made once."""
    if not _made:
        write_suites(pytester, *UNSEEN, "searching", "by_socket")
        with serving(answer) as server:
            monkeypatch.setenv("BOT_BASE", server.url)
            _address.append(server.url.removeprefix("http://"))
            for mode, options in MODES.items():
                result = run(pytester, "evals", *options)
                screen = " ".join(result.stdout.str().split())
                _made[mode] = Ran(screen, latest_trials(pytester.path))
    return _made


@pytest.mark.parametrize("mode", MODES)
def test_a_request_that_looks_like_one_of_a_model_is_reported(runs: dict[str, Ran], mode: str) -> None:
    """It has a model with a prompt or messages, or its response counts tokens; all are unknown then.

    A field named ``model`` is not enough for a request of a model. Live, responses are not looked at.
    """
    screen, trials = runs[mode]
    reported = UNSEEN if mode != "live" else UNSEEN[:2]
    assert f"! {len(reported)} requests of models could not be read" in screen
    for name in (*UNSEEN, "searching"):
        assert trials[name].ending == "passed"
        is_reported = any(event.kind == "unread_model_request" for event in trials[name].transcript.events)
        assert (name, is_reported) == (name, name in reported)
        assert trials[name].usage.tokens is None or name not in reported


def test_a_connection_that_cannot_be_recorded_is_reported_while_recording(runs: dict[str, Ran]) -> None:
    """A raw connection, as that of a WebSocket, is refused in a replay."""
    opened = f"recorded were opened ({_address[0]} in 1 trial): they fail in a replay"
    assert opened in runs["recorded"].screen
    endings = [runs[mode].trials["by_socket"].ending for mode in MODES]
    assert endings == ["passed", "errored", "passed"]


@pytest.mark.parametrize(
    ("options", "is_reported"), [((), True), (("-v",), True), (("--agent-model=nop",), False)]
)
def test_a_run_without_any_request_of_a_model_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_reported: bool
) -> None:
    """The agent may have sent requests that were not intercepted; offline models send none."""
    monkeypatch.setenv("BOT_BASE", "http://127.0.0.1:9")
    write_suites(pytester, "silent")

    result = run(pytester, "evals", *options)

    assert ("no model request was seen in silent" in result.stdout.str()) is is_reported
