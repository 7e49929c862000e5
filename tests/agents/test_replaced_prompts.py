"""Two prompts in one run on an agent that reads its own: its text is replaced in its requests to models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request
from pytest_agenteval.cassettes.wire.prompt_replacement import PromptReplacement
from tests.agents.test_command_agent import set_model
from tests.journals import trials_by_task
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

OLD, NEW = "You are brief.\nSay no more than you must.", "You are polite."
CONTENT = {"role": "user", "content": "Where is my refund?"}

BOT = """
import asyncio, json, os, urllib.request
from pathlib import Path

SYSTEM = Path(__file__).with_name("system.md").read_text()
BASE = os.environ["BOT_BASE"]
USER = {"role": "user", "content": "Where is my refund?"}
BODIES = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, USER]},
    "/v1/responses": {"model": "m", "instructions": SYSTEM, "input": [USER]},
    "/v1/messages": {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": SYSTEM}],
                     "messages": [USER]},
}

def httpx(url, body):
    import httpx
    httpx.post(url, json=body).raise_for_status()

def httpx_stream(url, body):
    import httpx
    with httpx.stream("POST", url, json=body) as response:
        assert b"data" in b"".join(response.iter_bytes())

def aiohttp(url, body):
    import aiohttp
    async def ask():
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
            assert response.status == 200, await response.text()
    asyncio.run(ask())

def requests(url, body):
    import requests
    requests.post(url, json=body).raise_for_status()

def urllib3(url, body):
    import urllib3
    assert urllib3.request("POST", url, json=body).status == 200

def http_client(url, body):
    import http.client
    connection = http.client.HTTPConnection(BASE.removeprefix("http://"))
    connection.request("POST", url.removeprefix(BASE), json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200

def answer(question):
    client, path = question.split()
    streams = {"stream": True} if client == "httpx_stream" else {}
    globals()[client](BASE + path, BODIES[path] | streams)
    return "done"

def by_urllib(url, body):
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    urllib.request.urlopen(asked).read()
"""
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
CLIENTS = ("httpx", "httpx_stream", "aiohttp", "requests", "urllib3", "by_urllib", "http_client")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model that is polite if its prompt is."""
    with ModelServer([ReplyPlan(text="ok")]) as started:
        monkeypatch.setenv("BOT_BASE", started.anthropic_base)
        yield started


def tasks(*contents: str) -> list[dict[str, Any]]:
    """Give a task for each of these questions."""
    return [
        {
            "id": f"t{n}",
            "input": {"content": content},
            "graders": [{"name": "answer_contains", "config": {"text": "done"}}],
        }
        for n, content in enumerate(contents)
    ]


def prepare(
    pytester: pytest.Pytester, *contents: str, agent: str = "{call: bot:answer}", more: str = ""
) -> None:
    """Write a bot, its prompt, another one, and a suite of tasks."""
    prompts = more or "prompts: {system: ../../system.md}\n"
    files = {"bot.py": BOT, "system.md": f"{OLD}\n", "polite.md": f"\n{NEW}\n"}
    suite = f"name: support\nagent: {agent}\n{prompts}"
    write(
        pytester.path, {**files, "evals/support/suite.yaml": suite, "evals/support/t.yaml": tasks(*contents)}
    )


def test_each_client_and_format_sends_the_text_of_its_variant(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """The transcript shows what was sent; recordings of both variants are replayed; the run has a verdict."""
    contents = [f"{client} {path}" for client in CLIENTS for path in PATHS]
    prepare(pytester, *contents)

    result = run(pytester, "evals", "--agent-prompt=polite=polite.md", "--agent-record-chat=once", workers=2)

    result.assert_outcomes(passed=2 * len(contents))
    bodies = [json.dumps(request.body) for request in server.requests]
    old, new = (json.dumps(text)[1:-1] for text in (OLD, NEW))
    assert sum(old in body for body in bodies) == len(contents)
    assert sum(new in body for body in bodies) == len(contents)
    for trials in trials_by_task(pytester.path).values():
        sent = {trial.key.variant: trial.transcript.messages[0].content.strip() for trial in trials}
        assert sent == {"": OLD, "polite": NEW}
        reads = {
            event.details["digest"]
            for trial in trials
            for event in trial.transcript.events
            if event.kind == "prompt_read"
        }
        assert len(reads) == 2
    result.stdout.fnmatch_lines(["*base*polite*"])
    count = len(server.requests)
    run(pytester, "evals", "--agent-prompt=polite=polite.md").assert_outcomes(passed=2 * len(contents))
    assert len(server.requests) == count


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "You are {mood}.",
            "a text with placeholders is sent with other words: use a parameter `system_prompt`",
        ),
        ("Calm.", "name the file whose whole text the agent sends, or use a parameter `system_prompt`"),
        ("\n", "its file is empty: it has to hold the text that the agent sends"),
    ],
)
def test_a_text_that_was_not_sent_breaks_its_trials(
    pytester: pytest.Pytester, server: ModelServer, text: str, advice: str
) -> None:
    """A verdict on prompts that were never sent is impossible; the message says what to do, once."""
    prepare(pytester, "httpx /v1/messages", "httpx /v1/responses")
    write(pytester.path, {"system.md": text})
    bot = pytester.path / "bot.py"
    bot.write_text(bot.read_text().replace(".read_text()", ".read_text().upper()"))

    result = run(pytester, "evals", "--agent-prompt=polite=polite.md")

    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "prompt: the text of the prompt 'system' (`prompts:` in suite.yaml) was in no request*",
            f"  {advice}",
            "the same in 3 more: *",
        ]
    )


def test_a_variant_of_a_prompt_that_nobody_names_is_refused_with_the_line_to_write(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """The agent is a function without a parameter, and suite.yaml names no file."""
    prepare(pytester, "httpx /v1/messages", more="kind: regression\n")
    result = run(pytester, "evals", "--agent-prompt=polite=polite.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*    prompts: {system: ../../prompts/system.md}", "*`system_prompt`"])


def test_a_command_that_reads_its_own_prompt_sends_that_of_the_variant(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests come by the trial's address; without any option they go to a model on this machine."""
    set_model(monkeypatch, server)
    body = json.dumps({"model": "m", "messages": [{"role": "system", "content": OLD}, CONTENT]})
    script = (
        "curl -s \"$OPENAI_BASE_URL/chat/completions\" -H 'Content-Type: application/json' "
        f"-d '{body}' >/dev/null; echo done\n"
    )
    prepare(pytester, "x", agent="{command: [bash, agent.sh], output: text}")
    write(pytester.path, {"evals/support/agent.sh": script})

    run(pytester, "evals", "--agent-prompt=polite=polite.md").assert_outcomes(passed=2)

    sent = sorted(request.body["messages"][0]["content"] for request in server.requests)
    assert sent == sorted([OLD, NEW])


def body_of(written: Request) -> Any:
    """Give the body of a request."""
    return json.loads(str(written.body))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"contents": [CONTENT], "systemInstruction": {"parts": [{"text": OLD}]}}, NEW),
        ({"system": [{"text": f"{OLD}\r\n"}], "messages": [CONTENT]}, NEW),
        (
            {"messages": [{"role": "developer", "content": f"Today: Monday.\n\n{OLD}"}]},
            f"Today: Monday.\n\n{NEW}",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": f"{OLD}\n\nHello"}]}]}, NEW),
        ({"input": f"{OLD} Hello", "model": "m"}, f"{NEW} Hello"),
    ],
)
def test_the_text_is_found_wherever_a_format_has_it(body: dict[str, Any], expected: str) -> None:
    """Instructions come first; else the text may be part of what the user says."""
    prompts = PromptReplacement({"system": f"\n{OLD}\n"}, {"system": NEW})
    written = prompts.in_request(Request("POST", "https://x.test/v1", json.dumps(body)))
    assert prompts.sent_names == {"system"}
    assert json.dumps(expected)[1:-1] in str(written.body)
    assert OLD not in json.dumps(body_of(written))


def test_results_of_tools_and_replies_of_models_stay() -> None:
    """Only instructions and what the user says are the agent's prompt."""
    result = {"type": "tool_result", "tool_use_id": "c1", "content": OLD}
    messages = [{"role": "assistant", "content": OLD}, {"role": "user", "content": [result]}]
    request = Request("POST", "https://x.test/v1", json.dumps({"messages": messages}))
    prompts = PromptReplacement({"system": OLD}, {"system": NEW})
    assert prompts.in_request(request) is request
    assert not prompts.sent_names


@pytest.mark.parametrize("new", [f"{OLD}\nThank the user.", "You are brief.", ""])
def test_a_text_that_holds_the_other_is_replaced_once(new: str) -> None:
    """A variant may lengthen or shorten the prompt, and a request may be prepared twice."""
    prompts = PromptReplacement({"system": OLD}, {"system": new})
    body = {"messages": [{"role": "system", "content": OLD}, CONTENT]}
    once = prompts.in_request(Request("POST", "https://x.test/v1", json.dumps(body)))
    twice = prompts.in_request(once)
    assert body_of(twice)["messages"][0]["content"] == new
    assert prompts.sent_names == {"system"}


def test_a_signed_request_is_not_changed() -> None:
    """Its provider would refuse it: the trial says so instead."""
    body = json.dumps({"system": [{"text": OLD}], "messages": []})
    request = Request("POST", "https://x.test/v1", body, {"Authorization": ["AWS4-HMAC-SHA256 x"]})
    prompts = PromptReplacement({"system": OLD}, {"system": NEW})
    assert prompts.in_request(request) is request
    assert (prompts.sent_names, prompts.signed) == (set(), True)


def test_an_endpoint_is_sent_the_prompt_where_its_form_says_so(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """``{system_prompt}`` in the body is the text of the suite's prompt, or of the variant's."""
    messages = '[{role: system, content: "{system_prompt}"}, {role: user, content: "{content}"}]'
    body = f"{{model: m, messages: {messages}}}"
    agent = f'{{http: "{server.openai_base}/chat/completions", as: openai, body: {body}}}'
    prepare(pytester, "x", agent=agent)
    write(pytester.path, {"evals/support/t.yaml": [{**tasks("x")[0], "graders": [CALM]}]})

    run(pytester, "evals", "--agent-prompt=polite=polite.md").assert_outcomes(passed=2)

    assert {request.body["messages"][0]["content"] for request in server.requests} == {OLD, NEW}


CALM = {"name": "answer_contains", "config": {"text": "ok"}}
