"""Chats on tape: recorded once from a real server, then played without server, key or provider's library."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.chat import ChatSettings, Reply
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.offline.scripted import ScriptedChat
from pytest_agenteval.chat.recording_chat import AgentChat, ChatTape, JudgeChat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model, RecordMode
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import CassetteMiss

from .bench import QUESTION, Bench, ModelServer, ReplyPlan

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
RETRY = "pytest evals -k t --agent-record-chat=new_episodes"
ADD = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "integer"}}})
MODEL = Model("m", "openai/x", params={"api_base": "http://127.0.0.1:9", "temperature": 0.5})
SCRIPT: list[dict[str, Any]] = [
    {"text": "one", "calls": [{"tool": "add", "args": {"a": 1}}, {"tool": "add", "args": "{"}]},
    {"text": "두"},
]


def tape_of(path: Path, mode: RecordMode, library: Library | None = None, **said: Any) -> ChatTape:
    """Open a trial's tape; in mode off the cassette is there, but neither played nor written."""
    library = library or Library(path.parent)
    opened = library.open(path, "none" if mode == "off" else mode, "chat")
    usual: dict[str, Any] = {
        "role": "agent",
        "model": MODEL,
        "repetition": 1,
        "mode": mode,
        "retry_command": RETRY,
    }
    return ChatTape(opened, **{**usual, **said})


def talk(tape: ChatTape, inner: Any, first: str = "go", **said: Any) -> list[Reply]:
    """Ask twice, as an agent does."""
    budget = Budget(Allowance())
    chat = AgentChat(inner, recorder=Recorder(lambda: budget.at), budget=budget, tape=tape)

    async def both() -> list[Reply]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
        one = await chat.ask(messages, tools=[ADD], **said)
        messages.append(one.message())
        return [one, await chat.ask(messages, tools=[ADD], **said)]

    return asyncio.run(both())


def record(path: Path, **said: Any) -> list[Reply]:
    """Record both replies of the script."""
    library = Library(path.parent)
    replies = talk(tape_of(path, "once", library, **said), ScriptedChat(SCRIPT, "t"))
    library.save()
    return replies


NOBODY = ScriptedChat([], "nobody is there to be asked")


def test_a_recorded_chat_is_played_as_it_was(tmp_path: Path) -> None:
    """Text, calls with malformed arguments, ids and usage come back; the reply says that it was played."""
    live = record(tmp_path / "c.yaml")
    tape = tape_of(tmp_path / "c.yaml", "none")
    played = talk(tape, NOBODY)

    assert played == [replace(reply, taped=True) for reply in live]
    assert not any(reply.taped for reply in live)
    assert (tape.tape.hits, tape.tape.misses, tape.tape.recorded) == (2, 0, 0)
    assert "두" in (tmp_path / "c.yaml").read_text(encoding="utf-8")
    assert "127.0.0.1" not in (tmp_path / "c.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "ask", "differs"),
    [
        ({"role": "judge"}, {}, "no ask of this role; recorded are: agent"),
        ({"repetition": 2}, {}, "repetition: 1"),
        ({"model": Model("other", "openai/x")}, {}, "alias: 'm'"),
        ({"model": Model("m", "openai/new")}, {}, "model: 'openai/x'"),
        ({"model": Model("m", "openai/x", params={"temperature": 0.1})}, {}, "temperature: 0.5"),
        ({}, {"first": "stop"}, r"messages\[0\].content: 'go'"),
        ({}, {"settings": ChatSettings(seed=3)}, "settings.seed"),
        ({}, {"response_schema": {"type": "object"}}, "response_schema"),
    ],
)
def test_a_miss_names_what_differs_and_how_to_record(
    tmp_path: Path, said: dict[str, Any], ask: dict[str, Any], differs: str
) -> None:
    """Who is asked, for the how-manieth time, and what is asked all have to agree."""
    record(tmp_path / "c.yaml")
    tape = tape_of(tmp_path / "c.yaml", "none", **said)
    with pytest.raises(CassetteMiss, match=differs) as caught:
        talk(tape, NOBODY, **ask)

    assert RETRY in str(caught.value)
    assert (tape.tape.hits, tape.tape.misses) == (0, 1)


def test_new_episodes_adds_and_all_records_anew(tmp_path: Path) -> None:
    """What is known is played in the one mode, and nothing in the other."""
    record(tmp_path / "c.yaml")
    fresh = [{"text": "fresh"}, {"text": "fresh too"}]
    library = Library(tmp_path)
    more = talk(tape_of(tmp_path / "c.yaml", "new_episodes", library), ScriptedChat(fresh, "t"))
    assert [reply.text for reply in more] == ["one", "두"]
    other = talk(
        tape_of(tmp_path / "c.yaml", "new_episodes", library, repetition=2), ScriptedChat(fresh, "t")
    )
    assert [reply.taped for reply in other] == [False, False]
    library.save()
    assert [r.text for r in talk(tape_of(tmp_path / "c.yaml", "none", repetition=2), NOBODY)] == [
        "fresh",
        "fresh too",
    ]

    library = Library(tmp_path)
    anew = talk(tape_of(tmp_path / "c.yaml", "all", library), ScriptedChat(fresh, "t"))
    library.save()
    assert [reply.text for reply in anew] == ["fresh", "fresh too"]
    assert [r.text for r in talk(tape_of(tmp_path / "c.yaml", "none"), NOBODY)] == ["fresh", "fresh too"]


def test_off_neither_plays_nor_records(tmp_path: Path) -> None:
    """A model that was named is called, whatever the cassette holds."""
    record(tmp_path / "c.yaml")
    before = (tmp_path / "c.yaml").read_bytes()
    tape = tape_of(tmp_path / "c.yaml", "off")
    assert [reply.taped for reply in talk(tape, ScriptedChat(SCRIPT, "t"))] == [False, False]
    assert (tape.tape.hits, tape.tape.misses, tape.tape.recorded) == (0, 0, 0)
    assert (tmp_path / "c.yaml").read_bytes() == before


def test_a_judge_has_recordings_of_its_own(tmp_path: Path) -> None:
    """Agent and judge with one model on one tape do not answer for one another."""
    record(tmp_path / "c.yaml")
    library = Library(tmp_path)
    opened = tape_of(tmp_path / "c.yaml", "new_episodes", library, role="judge m")
    judge = JudgeChat(ScriptedChat([{"text": "good"}], "t"), recorder=Recorder(lambda: 0.0), tape=opened)
    assert asyncio.run(judge.ask([{"role": "user", "content": "go"}], tools=[ADD])).text == "good"
    library.save()
    again = JudgeChat(
        NOBODY, recorder=Recorder(lambda: 0.0), tape=tape_of(tmp_path / "c.yaml", "none", role="judge m")
    )
    assert asyncio.run(again.ask([{"role": "user", "content": "go"}], tools=[ADD])).taped


REPLAY = """
import asyncio, json, os, socket, sys
from pathlib import Path
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.rate_limiter import RateLimiters, limiter_of
from pytest_agenteval.chat.retries import RetryingChat
from pytest_agenteval.chat.recording_chat import AgentChat, ChatTape
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec

def guarded(self, address):
    raise SystemExit(f"connects to {address}")

socket.socket.connect = guarded
model = Model("model-a", sys.argv[2])
budget = Budget(Allowance())
recorder = Recorder(lambda: budget.at)
opened = Library(Path(sys.argv[1]).parent).open(Path(sys.argv[1]), "none", "chat")
tape = ChatTape(opened, role="agent", model=model, repetition=1, mode="none", retry_command="")
limiter = limiter_of(RateLimiters(), model, {})
live = RetryingChat(LitellmChat(model), budget=budget, recorder=recorder, limiter=limiter)
chat = AgentChat(live, recorder=recorder, budget=budget, tape=tape)
add = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "integer"}}})
reply = asyncio.run(chat.ask([{"role": "user", "content": "What is 1 + 2?"}], tools=[add]))
heavy = [name for name in ("litellm", "vcr", "openai", "httpx", "aiohttp") if name in sys.modules]
print(json.dumps([reply.text, reply.calls[0].args, reply.cost_usd, reply.taped, heavy]))
"""


def test_a_real_chat_is_replayed_with_nothing_but_its_cassette(loop: asyncio.Runner, tmp_path: Path) -> None:
    """The replay has no server, no key and no socket, and loads neither litellm nor vcrpy."""
    bench = Bench(loop, "openai", "litellm")
    path = tmp_path / "chat.yaml"
    library = Library(tmp_path)
    with ModelServer([ReplyPlan(text="서울", calls=(("add", {"a": 3}),))]) as server:
        model = bench.model(server)
        tape = tape_of(path, "once", library, model=model)
        inner = bench.retrying(LitellmChat(model))
        chat = AgentChat(inner, recorder=bench.recorder, budget=bench.budget, tape=tape)
        live = bench.ask(chat, QUESTION, tools=[ADD])
    library.save()
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path), model.id],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["서울", {"a": 3}, live.cost_usd, True, []]
    assert live.cost_usd
