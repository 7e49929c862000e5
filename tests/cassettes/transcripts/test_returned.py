"""What an agent returns of its course is graded, unless its requests were seen: then those stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_agenteval.store.run_reader import load_run
from tests.agents.endpoints import Received, Reply, serving
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

AGENTS = """
import json
from collections.abc import Callable
import urllib.request

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
TOLD = [
    {"role": "user", "content": "Weather in Oslo?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"c": -7}'},
    {"role": "assistant", "content": "It is -7."},
]


def unseen(question):
    return {"messages": TOLD, "usage": {"input_tokens": 30, "output_tokens": 3}}


def broken(question):
    return {"answer": "-7", "messages": [*TOLD[:3], {"role": "assistant", "tool_calls": [{"id": "c1"}]}]}


def seen(question, url):
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "From the wire"}]}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()
    return {"messages": TOLD}
"""


def _task(agent_suite: str) -> dict[str, Any]:
    return {
        "id": agent_suite,
        "input": {"content": "Weather in Oslo?"},
        "graders": [
            {"name": "answer_contains", "config": {"text": "-7"}},
            {"name": "tool_called", "config": {"tools": ["weather"]}},
        ],
    }


def _chat_reply(asked: Received) -> Reply:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 8, "completion_tokens": 2}
    return Reply({"object": "chat.completion", "model": "gpt-5", "choices": [choice], "usage": usage})


def test_a_returned_transcript_is_graded_and_never_overrides_what_was_seen(pytester: pytest.Pytester) -> None:
    """Nothing was seen of the first agent, the second's is malformed, the third asks a model."""
    with serving(_chat_reply) as server:
        files: dict[str, Any] = {"bots.py": AGENTS}
        for name in ("unseen", "broken", "seen"):
            settings = {"url": f"{server.url}/v1/chat/completions"} if name == "seen" else {}
            suite = {"name": name, "agent": {"call": f"bots:{name}"}, "settings": settings}
            files |= {f"evals/{name}/suite.yaml": json.dumps(suite), f"evals/{name}/task.json": _task(name)}
        write(pytester.path, files)
        result = run(pytester, "--agent-live")

    result.assert_outcomes(passed=2, errors=1)
    place = "messages[[]3].tool_calls[[]0].name: expected the name of a tool, found nothing"
    result.stdout.fnmatch_lines([f"*answer: {place}"])
    read = load_run("latest", pytester.path / ".agenteval" / "runs")
    trials = {entry.key.task: read.trial(entry).transcript for entry in read.entries}
    unseen, seen = trials["unseen"], trials["seen"]
    assert [message.content for message in unseen.messages][-1] == "It is -7."
    assert (unseen.usage.input_tokens, unseen.usage.asks) == (30, 2)
    assert [(call.args, call.result) for call in unseen.calls] == [({"city": "Oslo"}, {"c": -7})]
    assert [message.content for message in seen.messages] == ["From the wire", ""]
    assert (seen.usage.input_tokens, seen.asks[0].model) == (8, "gpt-5")
    assert [(call.id, call.result, call.error) for call in seen.calls] == [("c1", {"c": -7}, None)]


def _text_reply(asked: Received) -> Reply:
    message = {"role": "assistant", "content": "Action: weather[Oslo]"}
    return Reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def _other_call(asked: Received) -> Reply:
    call = {"id": "x1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return Reply({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


@pytest.mark.parametrize(
    ("server", "calls", "passed"),
    [(_text_reply, ["weather"], 1), (_other_call, ["search"], 0)],
    ids=["calls in texts", "another call"],
)
def test_calls_that_no_reply_asked_for_are_added_or_said(
    pytester: pytest.Pytester, server: Callable[[Received], Reply], calls: list[str], passed: int
) -> None:
    """An agent that reads its calls in texts tells of them; beside calls that were seen, they are said."""
    with serving(server) as served:
        settings = {"url": f"{served.url}/v1/chat/completions"}
        suite = {"name": "seen", "kind": "regression", "agent": {"call": "bots:seen"}, "settings": settings}
        files = {"bots.py": AGENTS, "evals/suite.yaml": json.dumps(suite), "evals/task.json": _task("one")}
        write(pytester.path, files)
        result = run(pytester, "--agent-live")

    result.assert_outcomes(passed=passed, failed=1 - passed)
    if not passed:
        result.stdout.fnmatch_lines(["*1 trial reported tool calls that no model reply requested*"])
    read = load_run("latest", pytester.path / ".agenteval" / "runs")
    (entry,) = read.entries
    assert [call.tool for call in read.trial(entry).transcript.calls] == calls
