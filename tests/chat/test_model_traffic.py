"""What an agent asks models by itself, over the ways in which clients of providers end a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_agenteval.engine import agent_run
from pytest_agenteval.store.run_reader import load_run
from tests.extended.frameworks.model_server import Serving, serving
from tests.extended.frameworks.weather_model import answer, question
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

RECORD = ("--agent-record=once", "--agent-record-chat=once")
REPLAY = ("--agent-record=none", "--agent-record-chat=none")

BOT = """
import asyncio
import threading
import httpx

BASE = "{base}/v1"
TOOL = dict(type="function", name="get_weather")

def leaves_at_done(question):
    body = dict(model="gpt-5-mini", stream=True, tools=[TOOL], messages=[dict(role="user", content=question)])
    with httpx.stream("POST", BASE + "/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if line == "data: [DONE]":
                return "It is so."

OPEN = []

def leaves_it_open(question):
    body = dict(model="gpt-5-mini", stream=True, tools=[TOOL], messages=[dict(role="user", content=question)])
    client = httpx.Client()
    OPEN.append(client.send(client.build_request("POST", BASE + "/chat/completions", json=body), stream=True))
    for line in OPEN[-1].iter_lines():
        if line == "data: [DONE]":
            return "It is so."

def goes_on_by_id(question):
    told, previous = [dict(role="user", content=question)], None
    while told:
        body = dict(model="gpt-5-mini", instructions="Be brief.", tools=[TOOL], input=told)
        body |= dict(previous_response_id=previous) if previous else {{}}
        response = httpx.post(BASE + "/responses", json=body).json()
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        result = dict(type="function_call_output", output="Oslo: -7 degrees")
        told, previous = [dict(result, call_id=call["call_id"]) for call in calls], response["id"]
    return response["output"][0]["content"][0]["text"]

async def in_a_group(question):
    body = dict(model="gpt-5-mini", messages=[dict(role="user", content=question)])
    async with httpx.AsyncClient() as client, asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(client.post(BASE + "/chat/completions", json=body))

async def waits_for_the_background(question):
    words = asyncio.Queue()
    async def feed():
        async with httpx.AsyncClient() as client:
            for _ in range(2):
                body = dict(model="gpt-5-mini", messages=[dict(role="user", content=question)])
                await client.post(BASE + "/chat/completions", json=body)
        await words.put("It is over.")
    fed = asyncio.create_task(feed())
    return await words.get()

meeting = threading.Barrier(2)

def meets_another(question):
    try:
        meeting.wait(0.3)
    except threading.BrokenBarrierError:
        return "It is quiet."
"""


@pytest.fixture
def server() -> Iterator[Serving]:
    """Give a provider on this machine."""
    with serving() as server:
        yield server


def prepare(pytester: pytest.Pytester, server: Serving, function: str, more: str = "") -> None:
    """Write a suite of one task, done by a function of the bot."""
    grader = {"name": "answer_contains", "config": {"text": "It is"}}
    task = {"id": "oslo", "input": {"content": question("Oslo", "oslo")}, "graders": [grader]}
    suite = f"name: weather\nkind: regression\nmodel: own\nagent: {{call: bot:{function}}}\n{more}"
    bot = BOT.format(base=server.address)
    write(pytester.path, {"bot.py": bot, "evals/suite.yaml": suite, "evals/oslo.json": task})
    pytester.syspathinsert()


def messages(pytester: pytest.Pytester) -> list[tuple[Any, ...]]:
    """Give what was said in the only trial of the latest run."""
    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    (entry,) = latest.entries
    return [(m.role, m.content, m.phase) for m in latest.trial(entry).transcript.messages]


@pytest.mark.parametrize("agent", ["leaves_at_done", "leaves_it_open"])
def test_a_stream_that_is_left_after_its_last_event_is_recorded(
    pytester: pytest.Pytester, server: Serving, agent: str
) -> None:
    """Clients leave at ``[DONE]``, before the connection says that the body is over: nothing is missing."""
    prepare(pytester, server, agent)
    run(pytester, "evals", *RECORD)
    server.stop()

    result = run(pytester, "evals", *REPLAY)

    result.assert_outcomes(passed=1)


def test_instructions_that_are_sent_anew_with_each_request_are_said_once(
    pytester: pytest.Pytester, server: Serving
) -> None:
    """A provider keeps a conversation but its instructions, so each request has them again."""
    prepare(pytester, server, "goes_on_by_id")

    run(pytester, "evals", *RECORD)

    assert messages(pytester) == [
        ("system", "Be brief.", 1),
        ("user", question("Oslo", "oslo"), 1),
        ("assistant", "", 1),
        ("tool", "Oslo: -7 degrees", 1),
        ("assistant", answer("Oslo"), 1),
    ]


def test_a_limit_that_is_reached_in_a_group_of_tasks_is_a_limit(
    pytester: pytest.Pytester, server: Serving
) -> None:
    """A task group wraps what ends its tasks, and frameworks run on them: the agent did not crash."""
    prepare(pytester, server, "in_a_group", "defaults: {limits: {steps: 1}}\n")

    run(pytester, "evals", *RECORD)

    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    assert [(entry.limit, entry.ending) for entry in latest.entries] == [("steps", "failed")]
    assert len(server.traffic.models) <= 1


@pytest.mark.parametrize(
    ("how", "ending", "limit"), [(RECORD, "failed", "steps"), (REPLAY, "errored", "")], ids=["limit", "miss"]
)
def test_who_waits_for_what_was_refused_is_ended(
    pytester: pytest.Pytester,
    server: Serving,
    monkeypatch: pytest.MonkeyPatch,
    how: tuple[str, ...],
    ending: str,
    limit: str,
) -> None:
    """A stream never ends whose feeder in the background was refused; its trial does."""
    monkeypatch.setattr(agent_run, "_GRACE_S", 0.0)
    prepare(pytester, server, "waits_for_the_background", "defaults: {limits: {steps: 1}}\n")

    run(pytester, "evals", *how)

    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    assert [(entry.ending, entry.limit) for entry in latest.entries] == [(ending, limit)]


def test_nobody_else_is_there_when_an_agent_is_used_first(pytester: pytest.Pytester, server: Serving) -> None:
    """What libraries import and build at first use is not made for several threads."""
    prepare(pytester, server, "meets_another")

    result = run(pytester, "evals", "--repetitions=2")

    result.assert_outcomes(passed=2)
