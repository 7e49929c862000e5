"""An agent that answers without its model's reply is errored by its provider, however that broke."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
import json
import os
import sys
from urllib.request import Request, urlopen

BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "2 + 2?"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "2 + 2?"}], "max_tokens": 9},
    "/v1/responses": {"input": "2 + 2?"},
    "/v1beta/models/m:generateContent": {"contents": [{"role": "user", "parts": [{"text": "2 + 2?"}]}]},
    "/api/chat": {"messages": [{"role": "user", "content": "2 + 2?"}]},
}


def ask(path, timeout=20, **more):
    body = json.dumps({"model": "m", **BODIES[path], **more}).encode()
    if path == "/v1/chat/completions":
        address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    else:
        address = os.environ["BOT_BASE"] + path
    with urlopen(Request(address, body, {"content-type": "application/json"}), timeout=timeout) as answer:
        return answer.read()


def falls_back(question):
    try:
        streamed = (sys.argv[2] if __name__ == "__main__" else os.environ["BOT_STREAM"]) == "1"
        ask(os.environ.get("BOT_PATH", "/v1/chat/completions"), stream=streamed)
    except Exception:
        pass
    return "It is 4."


def times_out(question):
    try:
        ask("/v1/chat/completions", timeout=0.3)
    except Exception:
        pass
    return "It is 4."


def asks_again(question):
    falls_back(question)
    ask("/v1/chat/completions", model="other")
    return "It is 4."


def asks_another(question):
    falls_back(question)
    ask("/v1/chat/completions", messages=[{"role": "user", "content": "3 + 3?"}])
    return "It is 4."


async def gives_up(question):
    import asyncio
    import httpx
    async with httpx.AsyncClient() as client:
        try:
            async with asyncio.timeout(0.3):
                await client.post(os.environ["BOT_BASE"] + "/v1/chat/completions",
                                  json={"model": "m", **BODIES["/v1/chat/completions"]})
        except TimeoutError:
            return "It is 4."


async def takes_the_quicker(question):
    import asyncio
    import httpx
    async with httpx.AsyncClient() as client:
        asked = []
        for said in ("slow", "quick"):
            body = {"model": "m", "messages": [{"role": "user", "content": said}]}
            address = os.environ["BOT_BASE"] + "/v1/chat/completions"
            asked.append(asyncio.create_task(client.post(address, json=body)))
        _, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    return "It is 4."


if __name__ == "__main__":
    print(globals()[sys.argv[1]](""))
"""


class Answer(NamedTuple):
    """What the server sends; with ``missing`` bytes it says that more would come."""

    body: str
    kind: str = "application/json"
    missing: int = 0
    after_s: float = 0.0


def _sse(*events: Any) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def _chat(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}


def _delta(finish: str | None = None, **delta: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


EVENTS = "text/event-stream"
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI, OLLAMA = "/v1beta/models/m:generateContent", "/api/chat"
WHOLE = Answer(json.dumps(_chat("It is 4.")))
TROUBLE = {"error": {"message": "inner trouble", "type": "server_error"}}
BROKEN: dict[str, tuple[str, Answer]] = {
    "bad JSON": (CHAT, Answer('{"choices": [{"message": {"content": "It')),
    "HTML": (CHAT, Answer("<html><body>Bad gateway</body></html>", "text/html")),
    "empty": (CHAT, Answer("")),
    "no choices": (CHAT, Answer('{"id": "x", "choices": []}')),
    "error": (CHAT, Answer(json.dumps(TROUBLE))),
    "a choice that failed": (
        CHAT,
        Answer('{"choices": [{"index": 0, "finish_reason": "error", "message": {"content": "It"}}]}'),
    ),
    "shorter than it says": (CHAT, Answer(WHOLE.body, missing=10)),
    "cut stream": (CHAT, Answer(_sse(_delta(content="It is")), EVENTS)),
    "dropped stream": (CHAT, Answer(_sse(_delta(content="It is")), EVENTS, missing=10)),
    "error in a stream": (CHAT, Answer(_sse(_delta(content="It is"), TROUBLE), EVENTS)),
    "page for a stream": (CHAT, Answer("<html></html>", EVENTS)),
    "messages without content": (MESSAGES, Answer('{"type": "message", "role": "assistant"}')),
    "messages with an error": (
        MESSAGES,
        Answer('{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'),
    ),
    "cut stream of messages": (
        MESSAGES,
        Answer(_sse({"type": "message_start", "message": {"role": "assistant", "content": []}}), EVENTS),
    ),
    "responses without output": (RESPONSES, Answer('{"id": "resp_1"}')),
    "responses that were called off": (
        RESPONSES,
        Answer(
            '{"status": "cancelled", "output": [{"type": "message", "role": "assistant",'
            ' "content": [{"type": "output_text", "text": "It"}]}]}'
        ),
    ),
    "failed responses": (
        RESPONSES,
        Answer(_sse({"type": "response.failed", "response": {"error": {"message": "no"}}}), EVENTS),
    ),
    "gemini without candidates": (GEMINI, Answer('{"modelVersion": "m"}')),
    "cut lines of ollama": (
        OLLAMA,
        Answer('{"message": {"content": "It"}, "done": false}\n', "application/x-ndjson"),
    ),
}


class Provider(ThreadingHTTPServer):
    """Gives one answer after the other, the last for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.by_text: dict[str, Answer] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of programs that have gone."""


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        named = (answer for text, answer in self.server.by_text.items() if text in asked)
        answers = self.server.answers
        answer = next(named, None) or (answers.pop(0) if len(answers) > 1 else answers[0])
        time.sleep(answer.after_s)
        body = answer.body.encode()
        self.send_response(200)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body) + answer.missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Give a provider on this machine, which the bot asks."""
    with Provider() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("BOT_BASE", server.address)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        monkeypatch.setenv("BOT_PATH", CHAT)
        monkeypatch.setenv("BOT_STREAM", "0")
        yield server
        server.shutdown()


def prepare(pytester: pytest.Pytester, name: str, agent: str = "call") -> None:
    """Write a suite of one task that any answer of the bot's passes."""
    command = [sys.executable, "bot.py", name, os.environ["BOT_STREAM"]]
    forms = {"call": {"call": f"bot:{name}"}, "command": {"command": command}}
    grader = {"name": "answer_contains", "config": {"text": "It is 4"}}
    task = {"id": "sum", "input": {"content": "2 + 2?"}, "graders": [grader]}
    suite = {"name": "sums", "kind": "regression", "model": "own", "live": True, "agent": forms[agent]}
    write(pytester.path, {"evals/bot.py": BOT, "evals/suite.yaml": suite, "evals/sum.json": task})


@pytest.mark.parametrize("name", BROKEN)
def test_a_reply_that_is_none_is_the_providers_failure(
    pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What the agent makes up in its place would be graded as if the model had said it."""
    path, answer = BROKEN[name]
    monkeypatch.setenv("BOT_PATH", path)
    monkeypatch.setenv("BOT_STREAM", "1" if answer.kind != "application/json" else "0")
    provider.answers = [answer]
    prepare(pytester, "falls_back")

    result = run(pytester, "evals")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"provider: http*{path}: *"])


@pytest.mark.parametrize("name", [name for name, (path, _) in BROKEN.items() if path == CHAT])
def test_so_it_is_for_a_command(
    pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A program's requests pass by the loopback; a broken reply is broken there too."""
    _, answer = BROKEN[name]
    monkeypatch.setenv("BOT_STREAM", "1" if answer.kind != "application/json" else "0")
    provider.answers = [answer]
    prepare(pytester, "falls_back", "command")

    run(pytester, "evals").assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("name", "agent"), [("times_out", "call"), ("gives_up", "call"), ("times_out", "command")]
)
def test_who_waits_no_longer_got_no_reply(
    pytester: pytest.Pytester, provider: Provider, name: str, agent: str
) -> None:
    """A provider slower than the agent's patience is a broken one, as it is through ``ctx.chat``."""
    provider.answers = [WHOLE._replace(after_s=1.5)]
    prepare(pytester, name, agent)

    run(pytester, "evals").assert_outcomes(errors=1)


@pytest.mark.parametrize(("name", "passed"), [("asks_again", 1), ("asks_another", 0)])
def test_an_ask_that_was_answered_in_the_end_is_no_failure(
    pytester: pytest.Pytester, provider: Provider, name: str, passed: int
) -> None:
    """Another model may answer the same; the reply to another question is no answer to the first."""
    provider.answers = [BROKEN["bad JSON"][1], WHOLE]
    prepare(pytester, name)

    run(pytester, "evals").assert_outcomes(passed=passed, errors=1 - passed)


def test_the_slower_of_two_replies_is_no_failure(pytester: pytest.Pytester, provider: Provider) -> None:
    """An agent may ask in two ways and take what comes first."""
    provider.by_text = {"slow": WHOLE._replace(after_s=2), "quick": WHOLE}
    prepare(pytester, "takes_the_quicker")

    run(pytester, "evals").assert_outcomes(passed=1)
