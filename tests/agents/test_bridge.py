"""An unchanged agent under another model: its own requests are answered by the model that the run names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.journals import latest_trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
import json
import os
from urllib.request import Request, urlopen

FUNCTION = {"name": "get_weather", "parameters": {"type": "object"}}
GONE = "http://127.0.0.1:1"


def chat(question, base=GONE + "/v1", **more):
    messages = [{"role": "user", "content": question}]
    while True:
        body = {"model": "gpt-x", "messages": messages, "tools": [{"type": "function", "function": FUNCTION}]}
        request = Request(base + "/chat/completions", json.dumps({**body, **more}).encode())
        with urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            city = json.loads(call["function"]["arguments"])["city"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": city + ": -7 degrees"})


async def streaming(question):
    import httpx

    said, items = "", [{"role": "user", "content": question}]
    async with httpx.AsyncClient() as client:
        while not said:
            tools = [{"type": "function", **FUNCTION}]
            body = {"model": "gpt-x", "input": items, "stream": True, "tools": tools}
            async with client.stream("POST", GONE + "/v1/responses", json=body) as response:
                lines = [line[6:] async for line in response.aiter_lines() if line.startswith("data: ")]
            for item in json.loads(lines[-1])["response"]["output"]:
                items.append(item)
                if item["type"] == "message":
                    said = item["content"][0]["text"]
                else:
                    output = {"call_id": item["call_id"], "output": "Oslo: -7 degrees"}
                    items.append({"type": "function_call_output", **output})
    return said


async def waiting(question):
    import aiohttp

    body = {"contents": [{"parts": [{"text": question + " result"}]}]}
    async with aiohttp.ClientSession() as session:
        async with session.post(GONE + "/v1beta/models/g:generateContent", json=body) as response:
            reply = await response.json()
    return reply["candidates"][0]["content"]["parts"][0]["text"]


def by_id(question):
    said, previous = "", None
    for words in (question, open("evals/by_id/second.txt").read()):
        body = {"model": "gpt-x", "input": words, "previous_response_id": previous}
        body["max_output_tokens"] = 999_999
        with urlopen(Request(GONE + "/v1/responses", json.dumps(body).encode())) as answer:
            reply = json.load(answer)
        previous, said = reply["id"], reply["output"][0]["content"][0]["text"]
    return said


def prefilling(question):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": "{"}]
    body = json.dumps({"messages": messages, "model": "m"}).encode()
    with urlopen(Request(GONE + "/v1/chat/completions", body)):
        return "-7 degrees"


def shortening(question):
    try:
        return chat(question * 1000)
    except OSError:
        return chat(question + " result")


def embedding(question):
    urlopen(Request("https://api.openai.com/v1/embeddings", b'{"model": "e", "input": "x"}'))


def searching(question):
    return chat(question, web_search_options={"search_context_size": "low"})


def thinking(question):
    return chat(question, reasoning_effort="high")


def endless(question):
    while True:
        chat(question)


if __name__ == "__main__":
    import sys

    task = json.loads(sys.stdin.readline())
    base, question = os.environ["OPENAI_BASE_URL"], task["input"]["content"]
    if "impatient" in sys.argv:
        question = "slow result"
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": question}]}
        try:
            urlopen(Request(base + "/chat/completions", json.dumps(body).encode()), timeout=1)
        except OSError:
            pass
    text = chat(question, base)
    print(json.dumps({"type": "answer", "text": text}))
"""
FORMS = {
    "chat": "{call: bot:chat, args: {question: content}}",
    "streaming": "{call: bot:streaming}",
    "waiting": "{call: bot:waiting}",
    "program": "{command: [python3, bot.py]}",
    "by_id": "{call: bot:by_id}",
    "prefilling": "{call: bot:prefilling}",
    "shortening": "{call: bot:shortening}",
    "embedding": "{call: bot:embedding}",
    "impatient": "{command: [python3, bot.py, impatient]}",
    "searching": "{call: bot:searching}",
    "thinking": "{call: bot:thinking}",
    "endless": "{call: bot:endless}",
    "provider": "{call: bot:chat, via: provider}",
}
ANSWERING = ("chat", "streaming", "waiting", "program", "thinking")
TOKENS = {"waiting": 15}
CLAUDE = "--agent-model=anthropic/claude-haiku-4-5"


def _reply(body: dict[str, Any], number: int) -> ReplyPlan:
    """Call the tool until there is its result; be busy at the first request of all."""
    if number == 0:
        return ReplyPlan(status=529, text="overloaded")
    if "result" in json.dumps(body["messages"]):
        return ReplyPlan(text="It is -7 degrees in Oslo.", cached_tokens=4)
    return ReplyPlan(calls=(("get_weather", {"city": "Oslo"}),))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that speaks Anthropic's messages alone; the agents' own providers cannot be reached."""
    with ModelServer(_reply) as started:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", started.anthropic_base)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-loopback")
        monkeypatch.setenv("OPENAI_API_KEY", "")
        yield started


def _write(pytester: pytest.Pytester, *names: str) -> None:
    files: dict[str, Any] = {"pytest.ini": "[pytest]\n"}
    for name in names:
        folder = f"evals/{name}"
        files |= {f"{folder}/bot.py": BOT, f"{folder}/suite.yaml": f"name: {name}\nagent: {FORMS[name]}\n"}
        limits = {"limits": {"steps": 3}} if name == "endless" else {}
        grader = {"name": "answer_contains", "config": {"text": "-7 degrees"}}
        task = {"id": name, "input": {"content": "Weather in Oslo?"}, "graders": [grader], **limits}
        files[f"{folder}/t.yaml"] = task
    write(pytester.path, files)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n2")], ids=["one process", "workers"])
def test_a_named_model_answers_agents_that_are_not_changed(
    pytester: pytest.Pytester, server: ModelServer, workers: tuple[str, ...]
) -> None:
    """Each client gets replies in its own format, whole or streamed, of the model that the run names.

    Tokens are the model's own, tables and cassettes say who answered, and a replay needs no server.
    """
    _write(pytester, *ANSWERING)
    result = run(pytester, "evals", CLAUDE, "--agent-record-chat=once", *workers)
    result.assert_outcomes(passed=len(ANSWERING))
    result.stdout.fnmatch_lines(["*model: anthropic/claude-haiku-4-5*"])
    result.stdout.fnmatch_lines(["*not passed to the named model*", "*(reasoning_effort in 1 trial)*"])
    live = latest_trials(pytester.path)
    for name in ANSWERING:
        transcript = live[name].transcript
        assert transcript.models == ("anthropic/claude-haiku-4-5",)
        assert live[name].usage.tokens == TOKENS.get(name, 30)
        assert [ask.usage.cached_tokens for ask in transcript.asks][-1] == 4
        assert [(call.tool, call.result) for call in transcript.calls] == (
            [] if name == "waiting" else [("get_weather", "Oslo: -7 degrees")]
        )
    # One request was refused as overloaded, and repeated.
    assert sum(trial.usage.attempts or 0 for trial in live.values()) == len(server.requests)
    cassettes = [file.read_text("utf-8") for file in (pytester.path / "cassettes").rglob("*.yaml")]
    assert len(cassettes) == len(ANSWERING)
    assert all("answered_by: anthropic/claude-haiku-4-5" in text for text in cassettes)
    assert not any("sk-ant-loopback" in text for text in cassettes)

    served = len(server.requests)
    run(pytester, "evals", CLAUDE, "--agent-record-chat=none", *workers).assert_outcomes(
        passed=len(ANSWERING)
    )
    again = latest_trials(pytester.path)
    assert len(server.requests) == served
    for name, trial in live.items():
        assert again[name].transcript.usage.tokens == trial.transcript.usage.tokens
        assert [m.content for m in again[name].transcript.messages] == [
            m.content for m in trial.transcript.messages
        ]


def test_what_is_not_answered_is_named(pytester: pytest.Pytester, server: ModelServer) -> None:
    """A setting without a counterpart is an error; limits hold; `own` and `via: provider` leave it alone."""
    _write(pytester, "searching", "endless", "provider")
    run(pytester, "evals", CLAUDE)
    trials = latest_trials(pytester.path)
    assert trials["searching"].cause == "bridge"
    assert "'web_search_options' cannot be passed to another model" in trials["searching"].message
    assert (trials["endless"].limit, trials["endless"].usage.asks) == ("steps", 3)
    assert trials["provider"].cause == "crash" or trials["provider"].cause == "provider"

    served = len(server.requests)
    run(pytester, "evals/endless", "--agent-model=own")
    assert latest_trials(pytester.path)["endless"].ending == "errored"
    assert len(server.requests) == served


def test_a_reply_is_continued_by_its_id(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may name a reply in place of its messages, also one that was replayed."""
    _write(pytester, "by_id")
    second = pytester.path / "evals/by_id/second.txt"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-loopback")
    with ModelServer([ReplyPlan(text="-7 degrees")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        second.write_text("And tomorrow?")
        run(pytester, "evals", CLAUDE, "--agent-record-chat=once").assert_outcomes(passed=1)
        second.write_text("And on Sunday?")
        run(pytester, "evals", CLAUDE, "--agent-record-chat=new_episodes").assert_outcomes(passed=1)
        *_, last = [request.body for request in server.requests]
        assert len(server.requests) == 3
    texts = [block["text"] for message in last["messages"] for block in message["content"]]
    assert texts == ["Weather in Oslo?", "-7 degrees", "And on Sunday?"]
    # Claude Haiku 4.5 writes no more, and clients fill in what their own model can.
    assert last["max_tokens"] == 64000


def test_the_beginning_of_a_reply_is_not_passed_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only Anthropic's models continue it; any other would answer a conversation that is over."""
    _write(pytester, "prefilling")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    run(pytester, "evals", "--agent-model=openai/gpt-4.1").assert_outcomes(errors=1)
    assert "the beginning of a reply" in latest_trials(pytester.path)["prefilling"].message


class _Slow:
    """Refuses long prompts, and lets the first slow one wait."""

    def __init__(self) -> None:
        self.slow = 0

    def reply(self, body: dict[str, Any], number: int) -> ReplyPlan:
        words = json.dumps(body["messages"])
        if len(words) > 1000:
            return ReplyPlan(status=400, text="prompt is too long")
        self.slow += "slow" in words
        return ReplyPlan(text="-7 degrees", hang_s=20 if "slow" in words and self.slow == 1 else 0)


def test_an_agent_handles_failures_as_with_a_model_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused ask that is answered later breaks nothing, and one that was given up is not waited for.

    The name of a model allows its asks, and nothing else that agents send to providers.
    """
    _write(pytester, "shortening", "impatient", "embedding")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-loopback")
    with ModelServer(_Slow().reply) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        run(pytester, "evals", CLAUDE).assert_outcomes(passed=2, errors=1)
    trials = latest_trials(pytester.path)
    assert (trials["shortening"].usage.asks, trials["shortening"].usage.attempts) == (1, 2)
    impatient = trials["impatient"]
    assert (impatient.usage.asks, impatient.usage.known_tokens) == (1, 15)
    assert 1 <= impatient.seconds - impatient.uncharged_seconds < 10
    assert (trials["embedding"].cause, trials["embedding"].usage.asks) == ("not_allowed", 0)


def test_a_failure_is_replayed_as_it_was(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that shortens its prompt does so again; a refusal of another kind breaks the trial."""
    _write(pytester, "shortening")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-loopback")
    with ModelServer(_Slow().reply) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        for mode in ("once", "none"):
            run(pytester, "evals", CLAUDE, f"--agent-record-chat={mode}").assert_outcomes(passed=1)
            usage = latest_trials(pytester.path)["shortening"].usage
            assert (usage.asks, usage.attempts, len(server.requests)) == (1, 2, 2)
    with ModelServer([ReplyPlan(status=400, text="unknown field")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        run(pytester, "evals", CLAUDE).assert_outcomes(errors=1)
    trial = latest_trials(pytester.path)["shortening"]
    assert (trial.cause, trial.usage.attempts) == ("provider", 2)
    assert "unknown field" in trial.message


def test_a_provider_that_stays_down_breaks_the_trial(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent gets an error that its client does not retry, and the trial names the provider's failure."""
    _write(pytester, "chat", "streaming")
    with ModelServer([ReplyPlan(status=401, text="bad key")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
        run(pytester, "evals", CLAUDE)
    for trial in latest_trials(pytester.path).values():
        assert (trial.ending, trial.cause) == ("errored", "provider")
        assert "check the key in ANTHROPIC_API_KEY" in trial.message
        assert trial.usage.asks == 0
