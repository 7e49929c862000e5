"""What an agent asks models at once, and what brings no reply: attempts, steps and results stay right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from pytest_agenteval import Trial, load_run
from tests.journals import latest_trials
from tests.loopback import openai_wire
from tests.loopback.model_server import ModelServer, RawReply, ReplyPlan
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

def message_of(body):
    response = httpx.post(BASE + "/chat/completions", json=body, verify=False).raise_for_status()
    return response.json()["choices"][0]["message"]

def say(said):
    return message_of(dict(model="gpt-5-mini", messages=[dict(role="user", content=it) for it in said]))

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
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        quick, slow = [asyncio.ensure_future(ask(said)) for said in ("quick", "slow")]
        reply = await quick
        slow.cancel()
        await asyncio.wait([slow])
    return reply["choices"][0]["message"]["content"]

def splits(question):
    def work(part):
        body = dict(model="gpt-5-mini", messages=[dict(role="user", content=part)])
        body["messages"].insert(0, dict(role="system", content="It is " + str(time.time())))
        return message_of(body)["content"]
    parts = ["first", "second"][:: int(os.environ["WAY"])]
    return ", ".join(part + ": " + work(part) for part in parts)

async def waits(question):
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
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
        message = message_of(body)
        messages.append(message)
        for call in message.get("tool_calls") or []:
            result = dict(role="tool", content=call["function"]["arguments"])
            messages.append(dict(result, tool_call_id=call["id"]))
    return message["content"]

def delegates(question):
    with ThreadPoolExecutor(2) as workers:
        return list(workers.map(looks_twice, ["left", "right"]))[0]
"""


OK = ReplyPlan(text="It is so.")
SLOW = {"quick": 0.1, "slow": 30.0, "forever": 30.0}


class Provider:
    """Replies by what it is asked, and counts how often that was."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def reply(self, body: Mapping[str, Any], number: int) -> ReplyPlan | RawReply:
        """Drop, refuse or break off the first reply to some questions; take long for others."""
        said = body["messages"][-1 if len(body["messages"]) == 2 else 0]["content"]
        self.asked[said] += 1
        is_first = self.asked[said] == 1
        if said == "dropped" and is_first:
            return ReplyPlan(drop=True)
        if said == "broken off" and is_first:
            whole = json.dumps(openai_wire.reply(OK, body, 0)).encode()
            return RawReply(whole[:20], ending="cut")
        if said in "abc":
            return ReplyPlan(status=500, latency_s=0.3) if is_first else ReplyPlan(OK.text, latency_s=0.3)
        if said in ("left", "right") and (length := len(body["messages"])) <= 4:
            return ReplyPlan(calls=(("look", {"at": f"{said} {length}"}),), latency_s=0.1)
        if said in ("first", "second"):
            return ReplyPlan(text=f"It is {said}")
        return ReplyPlan(text="It is so. Yes." if said == "streamed" else OK.text, latency_s=SLOW.get(said))


TASKS: dict[str, tuple[str, str, dict[str, float]]] = {
    "dropped": ("insists", "dropped", {"steps": 1}),
    "broken_off": ("insists", "broken off", {"steps": 1}),
    "thrice": ("insists_thrice", "any", {}),
    "races": ("races", "any", {}),
    "delegates": ("delegates", "any", {}),
    "to_the_end": ("streams_to_the_end", "streamed", {}),
    "a_little": ("streams_a_little", "streamed", {}),
    "insists": ("insists", "forever", {"seconds": 0.4}),
    "waits": ("waits", "forever", {"seconds": 0.4}),
    "splits": ("splits", "any", {}),
}
"""The bot's function, the question and the limits of each task."""


class Recorded(NamedTuple):
    """What came of all tasks while they were recorded, and of one that was replayed with another prompt."""

    trials: dict[str, Trial]
    asked: Counter[str]
    replayed: Trial
    doubts: Mapping[str, int]


def write_suites(pytester: pytest.Pytester, base: str) -> None:
    """Write a suite for each task."""
    grader = {"name": "answer_contains", "config": {"text": "It is"}}
    for name, (function, question, limits) in TASKS.items():
        task: dict[str, Any] = {"id": name, "input": {"content": question}, "graders": [grader]}
        task |= {"limits": limits} if limits else {}
        suite = f"name: {name}\nkind: regression\nagent: {{call: bot:{function}, name: {name}}}\n"
        files = {f"evals/{name}/suite.yaml": suite, f"evals/{name}/task.json": task}
        write(pytester.path, {"bot.py": BOT.format(base=base), **files})


_made: list[Recorded] = []


@pytest.fixture
def recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """All tasks, recorded in one run; made once."""
    if _made:
        return _made[0]
    provider = Provider()
    numbered = openai_wire._calls
    # Some servers count the calls of each reply anew, or those of each conversation.
    monkeypatch.setattr(openai_wire, "_calls", lambda plan, _: numbered(plan, 0))
    monkeypatch.setenv("WAY", "1")
    pytester.syspathinsert()
    with ModelServer(provider.reply) as server:
        write_suites(pytester, server.openai_base)
        run(pytester, "evals", *RECORD, "--agent-concurrency=20")
    trials = latest_trials(pytester.path)
    monkeypatch.setenv("WAY", "-1")
    run(pytester, "evals/splits", "--agent-record=none", "--agent-record-chat=none")
    latest = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    (entry,) = latest.entries
    _made.append(Recorded(trials, provider.asked, latest.trial(entry), entry.doubtful_events))
    return _made[0]


def test_a_connection_that_is_dropped_is_an_attempt_and_no_step(recorded: Recorded) -> None:
    """A client that tries again asks the same conversation on, and has all its steps left."""
    trial = recorded.trials["dropped"]
    assert (trial.limit, trial.transcript.usage.asks, trial.transcript.usage.attempts) == ("", 1, 2)
    said = [(message.role, message.phase) for message in trial.transcript.messages]
    assert said == [("user", 1), ("assistant", 1)]


def test_a_reply_that_breaks_off_is_no_reply(recorded: Recorded) -> None:
    """Its client tries again: one step, one reply, two attempts, and no doubt."""
    trial = recorded.trials["broken_off"]
    usage = trial.transcript.usage
    assert (trial.limit, usage.asks, usage.attempts) == ("", 1, 2)
    assert not trial.transcript.doubtful_events


def test_requests_that_fail_side_by_side_are_forgiven_their_time_once(recorded: Recorded) -> None:
    """Replies are numbered without gaps, and what the last of them took is the trial's own time."""
    trial = recorded.trials["thrice"]
    assert trial.seconds >= 0.3
    assert sorted(ask.turn for ask in trial.transcript.asks) == [1, 2, 3]


def test_who_takes_the_quickest_of_several_replies_has_no_provider_that_is_down(recorded: Recorded) -> None:
    """A request that its agent gives up is an attempt; nothing is wrong with the model."""
    trial = recorded.trials["races"]
    assert (trial.ending, trial.transcript.usage.asks, trial.transcript.usage.attempts) == ("passed", 1, 2)


def test_calls_of_one_id_have_each_their_own_result(recorded: Recorded) -> None:
    """Whoever counts them anew, each call is told apart by its conversation."""
    calls = recorded.trials["delegates"].transcript.calls
    assert {call.id for call in calls} == {"call_0_0"}
    assert [call.result for call in calls] == [dict(call.args) for call in calls]
    assert len({call.args["at"] for call in calls}) == 4


@pytest.mark.parametrize(
    ("name", "said", "count"), [("to_the_end", "It is so. Yes.", 1), ("a_little", "It is so. Ye", 0)]
)
def test_what_came_of_a_stream_that_urllib_leaves_is_read(
    recorded: Recorded, name: str, said: str, count: int
) -> None:
    """At its last event the reply is whole and recorded; before it, what the agent was told is there."""
    trial = recorded.trials[name]
    assert [m.content for m in trial.transcript.messages if m.role == "assistant"] == [said]
    assert trial.chat_tape.recorded == count
    assert "unread_model_reply" not in {event.kind for event in trial.transcript.events}


def test_a_request_that_waits_when_its_trials_time_is_over_is_an_attempt_and_takes_time(
    recorded: Recorded,
) -> None:
    """Nobody knows whether the provider would have answered: the trial is limited, not broken."""
    attempts = 0
    for name in ("insists", "waits"):
        trial = recorded.trials[name]
        assert (trial.limit, trial.ending) == ("seconds", "failed")
        assert trial.seconds >= 0.4
        assert trial.transcript.usage.asks == 0
        attempts += trial.transcript.usage.attempts or 0
    assert attempts == recorded.asked["forever"]  # none where this machine is busy


def test_a_changed_prompt_is_answered_by_the_recording_that_is_like_it(recorded: Recorded) -> None:
    """A date in each prompt changes them all, and workers come in another order: each has its own reply."""
    assert recorded.replayed.outcome.answer.text == "second: It is second, first: It is first"
    assert recorded.doubts == {"prompt_changed": 2}
