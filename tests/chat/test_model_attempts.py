"""What an agent asks models at once, and what brings no reply: attempts, steps and results stay right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from pytest_agenteval import Trial, load_run
from tests.loopback import openai_wire
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

RECORD = ("--agent-record=once", "--agent-record-chat=once")

BOT = """
import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import httpx

BASE = "{base}"

def say(said):
    body = dict(model="gpt-5-mini", messages=[dict(role="user", content=it) for it in said])
    response = httpx.post(BASE + "/chat/completions", json=body).raise_for_status()
    return response.json()["choices"][0]["message"]

def insist(said):
    try:
        return say([said])
    except httpx.HTTPError:
        return say([said])

def insists(question):
    return insist(question)["content"]

def insists_thrice(question):
    with ThreadPoolExecutor(3) as workers:
        return list(workers.map(insist, "abc"))[0]["content"]

async def races(question):
    async def ask(said):
        body = dict(model="gpt-5-mini", messages=[dict(role="user", content=said)])
        return (await client.post(BASE + "/chat/completions", json=body)).json()
    async with httpx.AsyncClient(timeout=60) as client:
        quick, slow = [asyncio.ensure_future(ask(said)) for said in ("quick", "slow")]
        reply = await quick
        slow.cancel()
        await asyncio.wait([slow])
    return reply["choices"][0]["message"]["content"]

def splits(question):
    def work(part):
        body = dict(model="gpt-5-mini", messages=[dict(role="user", content=part)])
        body["messages"].insert(0, dict(role="system", content="It is " + str(time.time())))
        return httpx.post(BASE + "/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    parts = ["left", "right"][:: int(os.environ["WAY"])]
    return ", ".join(part + ": " + work(part) for part in parts)

async def waits(question):
    async with httpx.AsyncClient(timeout=60) as client:
        body = dict(model="gpt-5-mini", messages=[dict(role="user", content=question)])
        return (await client.post(BASE + "/chat/completions", json=body)).text

def streams(question, last):
    body = dict(model="gpt-5-mini", stream=True, messages=[dict(role="user", content=question)])
    response = urlopen(Request(BASE + "/chat/completions", json.dumps(body).encode()))
    for line in response:
        if last in line:
            break
    response.close()
    return "It is read."

def streams_to_the_end(question):
    return streams(question, b"[DONE]")

def streams_a_little(question):
    return streams(question, b"so.")

def looks_twice(said):
    messages = [dict(role="user", content=said)]
    for _ in range(3):
        body = dict(model="gpt-5-mini", messages=messages)
        message = httpx.post(BASE + "/chat/completions", json=body).json()["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls") or []:
            result = dict(role="tool", content=call["function"]["arguments"])
            messages.append(dict(result, tool_call_id=call["id"]))
    return message["content"]

def delegates(question):
    with ThreadPoolExecutor(2) as workers:
        return list(workers.map(looks_twice, ["left", "right"]))[0]
"""


class BreaksOff(BaseHTTPRequestHandler):
    """A provider that sends a part of its first reply, and then all of it."""

    replies = 0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Reply."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(openai_wire.reply(ReplyPlan(text="It is so."), asked, 0)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        type(self).replies += 1
        self.close_connection = self.replies == 1
        self.wfile.write(body[:20] if self.replies == 1 else body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def trial_of(pytester: pytest.Pytester, server: ModelServer | str, function: str, **limits: float) -> Trial:
    """Let a function of the bot do a task, and give the trial."""
    grader = {"name": "answer_contains", "config": {"text": "It is"}}
    task: dict[str, Any] = {"id": "oslo", "input": {"content": "How is it?"}, "graders": [grader]}
    task |= {"limits": limits} if limits else {}
    suite = f"name: weather\nkind: regression\nagent: {{call: bot:{function}}}\n"
    bot = BOT.format(base=server if isinstance(server, str) else server.openai_base)
    write(pytester.path, {"bot.py": bot, "evals/suite.yaml": suite, "evals/oslo.json": task})
    pytester.syspathinsert()
    run(pytester, "evals", *RECORD)
    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    (entry,) = latest.entries
    return latest.trial(entry)


def test_a_connection_that_is_dropped_is_an_attempt_and_no_step(pytester: pytest.Pytester) -> None:
    """A client that tries again asks the same conversation on, and has all its steps left."""
    with ModelServer([ReplyPlan(drop=True), ReplyPlan(text="It is so.")]) as server:
        trial = trial_of(pytester, server, "insists", steps=1)

    assert (trial.limit, trial.transcript.usage.asks, trial.transcript.usage.attempts) == ("", 1, 2)
    assert [(message.role, message.phase) for message in trial.transcript.messages] == [
        ("user", 1),
        ("assistant", 1),
    ]


def test_requests_that_fail_side_by_side_are_forgiven_their_time_once(pytester: pytest.Pytester) -> None:
    """Replies are numbered without gaps, and what the last of them took is the trial's own time."""
    failed = set()

    def reply(body: Mapping[str, Any], number: int) -> ReplyPlan:
        said = body["messages"][0]["content"]
        if said in failed:
            return ReplyPlan(text="It is so.", latency_s=0.3)
        failed.add(said)
        return ReplyPlan(status=500, latency_s=0.3)

    with ModelServer(reply) as server:
        trial = trial_of(pytester, server, "insists_thrice")

    assert trial.seconds >= 0.3
    assert sorted(ask.turn for ask in trial.transcript.asks) == [1, 2, 3]


def test_who_takes_the_quickest_of_several_replies_has_no_provider_that_is_down(
    pytester: pytest.Pytester,
) -> None:
    """A request that its agent gives up is an attempt; nothing is wrong with the model."""

    def reply(body: Mapping[str, Any], number: int) -> ReplyPlan:
        waits = {"quick": 0.1, "slow": 30.0}
        return ReplyPlan(text="It is so.", latency_s=waits[body["messages"][0]["content"]])

    with ModelServer(reply) as server:
        trial = trial_of(pytester, server, "races")

    assert (trial.ending, trial.transcript.usage.asks, trial.transcript.usage.attempts) == ("passed", 1, 2)


def test_calls_of_one_id_have_each_their_own_result(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers count the calls of each reply anew, or those of each conversation."""

    def reply(body: Mapping[str, Any], number: int) -> ReplyPlan:
        said, length = body["messages"][0]["content"], len(body["messages"])
        if length > 4:
            return ReplyPlan(text="It is so.")
        return ReplyPlan(calls=(("look", {"at": f"{said} {length}"}),), latency_s=0.1)

    numbered = openai_wire._calls
    monkeypatch.setattr(openai_wire, "_calls", lambda plan, _: numbered(plan, 0))
    with ModelServer(reply) as server:
        trial = trial_of(pytester, server, "delegates")

    calls = trial.transcript.calls
    assert {call.id for call in calls} == {"call_0_0"}
    assert [call.result for call in calls] == [dict(call.args) for call in calls]
    assert len({call.args["at"] for call in calls}) == 4


@pytest.mark.parametrize(
    ("function", "said", "recorded"),
    [("streams_to_the_end", "It is so. Yes.", 1), ("streams_a_little", "It is so. Ye", 0)],
)
def test_what_came_of_a_stream_that_urllib_leaves_is_read(
    pytester: pytest.Pytester, function: str, said: str, recorded: int
) -> None:
    """At its last event the reply is whole and recorded; before it, what the agent was told is there."""
    with ModelServer([ReplyPlan(text="It is so. Yes.")]) as server:
        trial = trial_of(pytester, server, function)

    assert [m.content for m in trial.transcript.messages if m.role == "assistant"] == [said]
    assert trial.chat_tape.recorded == recorded
    assert "unread_model_reply" not in {event.kind for event in trial.transcript.events}


@pytest.mark.parametrize("function", ["insists", "waits"])
def test_a_request_that_waits_when_its_trials_time_is_over_is_an_attempt_and_takes_time(
    pytester: pytest.Pytester, function: str
) -> None:
    """Nobody knows whether the provider would have answered: the trial is limited, not broken."""
    with ModelServer([ReplyPlan(text="It is so.", latency_s=30)]) as server:
        trial = trial_of(pytester, server, function, seconds=0.4)

    assert (trial.limit, trial.ending) == ("seconds", "failed")
    assert trial.seconds >= 0.4
    usage = trial.transcript.usage
    assert (usage.asks, usage.attempts) == (0, len(server.requests))  # none where this machine is busy


def test_a_changed_prompt_is_answered_by_the_recording_that_is_like_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date in each prompt changes them all, and workers come in another order: each has its own reply."""
    monkeypatch.setenv("WAY", "1")
    with ModelServer(lambda body, _: ReplyPlan(text=f"It is {body['messages'][1]['content']}")) as server:
        trial_of(pytester, server, "splits")
    monkeypatch.setenv("WAY", "-1")

    run(pytester, "evals", "--agent-record=none", "--agent-record-chat=none")

    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    (entry,) = latest.entries
    assert latest.trial(entry).outcome.answer.text == "right: It is right, left: It is left"
    assert entry.doubtful_events == {"prompt_changed": 2}


def test_a_reply_that_breaks_off_is_no_reply(pytester: pytest.Pytester) -> None:
    """Its client tries again: one step, one reply, two attempts, and no doubt."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BreaksOff) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        trial = trial_of(pytester, f"http://127.0.0.1:{server.server_port}/v1", "insists", steps=1)
        server.shutdown()

    usage = trial.transcript.usage
    assert (trial.limit, usage.asks, usage.attempts) == ("", 1, 2)
    assert not trial.transcript.doubtful_events
