"""What an agent asks models by itself, over the ways in which clients of providers end a conversation."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pytest_agenteval.engine import agent_run
from pytest_agenteval.records.trial import Trial
from tests.extended.frameworks.model_server import serving
from tests.extended.frameworks.weather_model import answer, question
from tests.journals import trials_by_task
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
    with httpx.stream("POST", BASE + "/chat/completions", json=body, verify=False) as response:
        for line in response.iter_lines():
            if line == "data: [DONE]":
                return "It is so."

OPEN = []

def leaves_it_open(question):
    body = dict(model="gpt-5-mini", stream=True, tools=[TOOL], messages=[dict(role="user", content=question)])
    client = httpx.Client(verify=False)
    OPEN.append(client.send(client.build_request("POST", BASE + "/chat/completions", json=body), stream=True))
    for line in OPEN[-1].iter_lines():
        if line == "data: [DONE]":
            return "It is so."

def goes_on_by_id(question):
    told, previous = [dict(role="user", content=question)], None
    while told:
        body = dict(model="gpt-5-mini", instructions="Be brief.", tools=[TOOL], input=told)
        body |= dict(previous_response_id=previous) if previous else {{}}
        response = httpx.post(BASE + "/responses", json=body, verify=False).json()
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        result = dict(type="function_call_output", output="Oslo: -7 degrees")
        told, previous = [dict(result, call_id=call["call_id"]) for call in calls], response["id"]
    return response["output"][0]["content"][0]["text"]

async def in_a_group(question):
    body = dict(model="gpt-5-mini", messages=[dict(role="user", content=question)])
    async with httpx.AsyncClient(verify=False) as client, asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(client.post(BASE + "/chat/completions", json=body))

async def waits_for_the_background(question):
    words = asyncio.Queue()
    async def feed():
        async with httpx.AsyncClient(verify=False) as client:
            for _ in range(2):
                body = dict(model="gpt-5-mini", messages=[dict(role="user", content=question)])
                await client.post(BASE + "/chat/completions", json=body)
        await words.put("It is over.")
    fed = asyncio.create_task(feed())
    fed.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await words.get()

meeting = threading.Barrier(2)

def meets_another(question):
    try:
        meeting.wait(0.3)
    except threading.BrokenBarrierError:
        return "It is quiet."
"""


TASKS = {
    "leaves_at_done": "",
    "leaves_it_open": "",
    "goes_on_by_id": "",
    "in_a_group": "defaults: {limits: {steps: 1}}\n",
    "waits_for_the_background": "defaults: {limits: {steps: 1}}\n",
    "meets_another": "defaults: {trials_per_run: 2}\n",
}
"""The bot's function that does each task, and what else its suite says."""


def write_suite(pytester: pytest.Pytester, name: str, function: str, more: str = "") -> None:
    """Write a suite of one task, done by a function of the bot."""
    grader = {"name": "answer_contains", "config": {"text": "It is"}}
    task = {"id": name, "input": {"content": question("Oslo", name)}, "graders": [grader]}
    agent = f"agent: {{call: bot:{function}, name: {name}}}"
    suite = f"name: {name}\nkind: regression\nmodel: own\n{agent}\n{more}"
    write(pytester.path, {f"evals/{name}/suite.yaml": suite, f"evals/{name}/task.json": task})


class Shared(NamedTuple):
    """All tasks as they were recorded, those that were replayed, and what the model was asked for each."""

    recorded: dict[str, list[Trial]]
    replayed: dict[str, list[Trial]]
    requests: list[str]


_made: list[Shared] = []


@pytest.fixture
def shared(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """One run that records, and one that replays without the provider; made once."""
    if _made:
        return _made[0]
    monkeypatch.setattr(agent_run, "_GRACE_S", 0.0)
    pytester.syspathinsert()
    with serving() as server:
        write(pytester.path, {"bot.py": BOT.format(base=server.address)})
        for function, more in TASKS.items():
            write_suite(pytester, function, function, more)
        run(pytester, "evals", *RECORD, "--agent-concurrency=20")
        requests = [ask.task for ask in server.traffic.models]
    recorded = trials_by_task(pytester.path)
    write_suite(pytester, "unrecorded", "waits_for_the_background")
    replayed = ("leaves_at_done", "leaves_it_open", "unrecorded")
    run(pytester, *(f"evals/{name}" for name in replayed), *REPLAY)
    _made.append(Shared(recorded, trials_by_task(pytester.path), requests))
    return _made[0]


@pytest.mark.parametrize("name", ["leaves_at_done", "leaves_it_open"])
def test_a_stream_that_is_left_after_its_last_event_is_recorded(shared: Shared, name: str) -> None:
    """Clients leave at ``[DONE]``, before the connection says that the body is over: nothing is missing."""
    assert [trial.ending for trial in (*shared.recorded[name], *shared.replayed[name])] == ["passed"] * 2


def test_instructions_that_are_sent_anew_with_each_request_are_said_once(shared: Shared) -> None:
    """A provider keeps a conversation but its instructions, so each request has them again."""
    (trial,) = shared.recorded["goes_on_by_id"]
    assert [(m.role, m.content, m.phase) for m in trial.transcript.messages] == [
        ("system", "Be brief.", 1),
        ("user", question("Oslo", "goes_on_by_id"), 1),
        ("assistant", "", 1),
        ("tool", "Oslo: -7 degrees", 1),
        ("assistant", answer("Oslo"), 1),
    ]


def test_a_limit_that_is_reached_in_a_group_of_tasks_is_a_limit(shared: Shared) -> None:
    """A task group wraps what ends its tasks, and frameworks run on them: the agent did not crash."""
    assert [(trial.limit, trial.ending) for trial in shared.recorded["in_a_group"]] == [("steps", "failed")]
    assert shared.requests.count("in_a_group") <= 1


def test_who_waits_for_what_was_refused_is_ended(shared: Shared) -> None:
    """A stream never ends whose feeder in the background was refused; its trial does."""
    (limited,), (missed,) = shared.recorded["waits_for_the_background"], shared.replayed["unrecorded"]
    assert (limited.ending, limited.limit) == ("failed", "steps")
    assert (missed.ending, missed.limit) == ("errored", "")


def test_nobody_else_is_there_when_an_agent_is_used_first(shared: Shared) -> None:
    """What libraries import and build at first use is not made for several threads."""
    assert [trial.ending for trial in shared.recorded["meets_another"]] == ["passed"] * 2
