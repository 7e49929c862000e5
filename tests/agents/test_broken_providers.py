"""An agent that answers without its model's reply is errored by its provider, however that broke."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from pytest_agenteval.records.trial import Trial
from tests.journals import trials
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
import json
import os
from urllib.request import Request, urlopen


def ask(question, path="/v1/chat/completions", timeout=20, **more):
    messages = {"messages": [{"role": "user", "content": question}]}
    bodies = {
        "/v1/messages": {**messages, "max_tokens": 9},
        "/v1/responses": {"input": question},
        "/v1beta/models/m:generateContent": {"contents": [{"role": "user", "parts": [{"text": question}]}]},
    }
    body = json.dumps({"model": "m", **bodies.get(path, messages), **more}).encode()
    if path == "/v1/chat/completions":
        address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    else:
        address = os.environ["BOT_BASE"] + path
    with urlopen(Request(address, body, {"content-type": "application/json"}), timeout=timeout) as answer:
        return answer.read()


def falls_back(question):
    path, stream = json.loads(os.environ["BOT_CASES"]).get(question, ["/v1/chat/completions", False])
    try:
        ask(question, path, stream=stream)
    except Exception:
        pass
    return "It is 4."


def times_out(question):
    try:
        ask(question, timeout=0.3)
    except Exception:
        pass
    return "It is 4."


def asks_again(question):
    falls_back(question)
    ask(question, model="other")
    return "It is 4."


def asks_another(question):
    falls_back(question)
    ask("3 + 3?")
    return "It is 4."


async def gives_up(question):
    import asyncio
    import httpx
    async with httpx.AsyncClient(verify=False) as client:
        try:
            async with asyncio.timeout(0.3):
                await client.post(os.environ["BOT_BASE"] + "/v1/chat/completions",
                                  json={"model": "m", "messages": [{"role": "user", "content": question}]})
        except TimeoutError:
            return "It is 4."


async def takes_the_quicker(question):
    import asyncio
    import httpx
    async with httpx.AsyncClient(verify=False) as client:
        asked = []
        for said in ("slow", "quick"):
            body = {"model": "m", "messages": [{"role": "user", "content": said}]}
            address = os.environ["BOT_BASE"] + "/v1/chat/completions"
            asked.append(asyncio.create_task(client.post(address, json=body)))
        _, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    return "It is 4."
"""
PROGRAM = r"""
read -r task
name=$(sed -E 's/.*"content": ?"([^"]*)".*/\1/' <<<"$task")
case "$task" in *stream\":*true*) stream=true;; *) stream=false;; esac
case "$name" in late) patience=0.3;; *) patience=20;; esac
curl -s -m $patience "$OPENAI_BASE_URL/chat/completions" -H 'Content-Type: application/json' \
  -d "{\"model\": \"m\", \"stream\": $stream,
       \"messages\": [{\"role\": \"user\", \"content\": \"$name\"}]}" >&2
echo "It is 4."
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
    """Gives the answers to a question one after the other, the last for ever."""

    daemon_threads = True

    def __init__(self, answers: Mapping[str, list[Answer]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of programs that have gone."""


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        answers = next(found for text, found in self.server.answers.items() if f'"{text}"' in asked)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        time.sleep(answer.after_s)
        body = answer.body.encode()
        self.send_response(200)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body) + answer.missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


LATE = WHOLE._replace(after_s=1.5)
ANSWERS = {
    **{name: [answer] for name, (_, answer) in BROKEN.items()},
    "late": [LATE],
    "3 + 3?": [WHOLE],
    "again": [BROKEN["bad JSON"][1], WHOLE],
    "another": [BROKEN["bad JSON"][1]],
    "slow": [LATE],
    "quick": [WHOLE],
}
CASES = {name: (path, answer.kind != "application/json") for name, (path, answer) in BROKEN.items()}
OF_COMMANDS = [name for name, (path, _) in BROKEN.items() if path == CHAT]


def write_suite(pytester: pytest.Pytester, name: str, agent: Any, *questions: Mapping[str, Any]) -> None:
    """Write a suite whose tasks any answer of its agent's passes."""
    grader = {"name": "answer_contains", "config": {"text": "It is 4"}}
    tasks = [
        {"id": f"{name}_{n}", "input": question, "graders": [grader]} for n, question in enumerate(questions)
    ]
    suite = {"name": name, "kind": "regression", "model": "own", "live": True, "agent": agent}
    folder = f"evals/{name}"
    files = {f"{folder}/suite.yaml": suite, f"{folder}/tasks.json": tasks}
    write(pytester.path, {**files, f"{folder}/bot.py": BOT, f"{folder}/agent.sh": PROGRAM})


def write_suites(pytester: pytest.Pytester) -> None:
    """Write a suite for each way in which an agent asks."""
    broken = [{"content": name, "stream": stream} for name, (_, stream) in CASES.items()]
    write_suite(pytester, "falls_back", {"call": "bot:falls_back"}, *broken)
    questions = {
        "times_out": "late",
        "gives_up": "late",
        "asks_again": "again",
        "asks_another": "another",
        "takes_the_quicker": "any",
    }
    for name, question in questions.items():
        write_suite(pytester, name, {"call": f"bot:{name}"}, {"content": question})
    if shutil.which("bash") and shutil.which("curl"):
        of_commands = [case for case in broken if case["content"] in OF_COMMANDS]
        command = {"command": ["bash", "agent.sh"], "output": "text"}
        write_suite(pytester, "command", command, *of_commands, {"content": "late"})


_made: dict[str, Trial] = {}


@pytest.fixture
def found(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> dict[str, Trial]:
    """The trials of one run in which every provider breaks in its own way; made once."""
    if not _made:
        write_suites(pytester)
        with Provider(ANSWERS) as server:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            monkeypatch.setenv("BOT_BASE", server.address)
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
            monkeypatch.setenv("BOT_CASES", json.dumps(CASES))
            run(pytester, "evals", "--agent-concurrency=20")
            server.shutdown()
        _made.update(trials(pytester.path))
    return _made


def test_a_reply_that_is_none_is_the_providers_failure(found: dict[str, Trial]) -> None:
    """What the agent makes up instead would be graded as if the model had said it."""
    for number, (name, (path, _)) in enumerate(BROKEN.items()):
        trial = found[f"falls_back_{number}"]
        assert (name, trial.ending, trial.cause) == (name, "errored", "provider")
        assert trial.message.startswith("http")
        assert f"{path}: " in trial.message


def test_so_it_is_for_a_command(found: dict[str, Trial]) -> None:
    """A program's requests pass by the loopback; a broken reply is broken there too."""
    if "command_0" not in found:
        pytest.skip("no bash, or no curl for its program")
    for number, name in enumerate([*OF_COMMANDS, "late"]):
        trial = found[f"command_{number}"]
        assert (name, trial.ending, trial.cause) == (name, "errored", "provider")


@pytest.mark.parametrize("name", ["times_out", "gives_up"])
def test_who_waits_no_longer_got_no_reply(found: dict[str, Trial], name: str) -> None:
    """A provider slower than the agent's patience is a broken one, as it is through ``ctx.chat``."""
    trial = found[f"{name}_0"]
    assert (trial.ending, trial.cause) == ("errored", "provider")


@pytest.mark.parametrize(("name", "ending"), [("asks_again", "passed"), ("asks_another", "errored")])
def test_an_ask_that_was_answered_in_the_end_is_no_failure(
    found: dict[str, Trial], name: str, ending: str
) -> None:
    """Another model may answer the same; the reply to another question is no answer to the first."""
    assert found[f"{name}_0"].ending == ending


def test_the_slower_of_two_replies_is_no_failure(found: dict[str, Trial]) -> None:
    """An agent may ask in two ways and take what comes first."""
    assert found["takes_the_quicker_0"].ending == "passed"
