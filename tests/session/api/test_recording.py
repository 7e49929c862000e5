"""Code that asks models and servers, inside a ``with``: seen, taped, played without a server, refused."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest

from pytest_agenteval import CassetteMiss, TrialBroken, UsageMistake, record
from pytest_agenteval.session.api import running
from tests.loopback.model_server import ModelServer, ReplyPlan

CALL = ReplyPlan(calls=(("find_order", {"id": 7}),))
WORDS = ReplyPlan(text="Your refund is on its way.")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, outside of the session that runs these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_configs", [])
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr("sys.argv", [__file__])  # a script: hints are in its words
    return tmp_path


def answer(base: str, order: int = 7, prompt: str = "I want my money back") -> str:
    """Ask a model, call a tool over HTTP as it says, ask again."""
    messages: list[dict[str, object]] = [{"role": "user", "content": prompt}]
    with httpx.Client() as client:
        asked = {"model": "gpt-5-mini", "messages": messages}
        reply = client.post(f"{base}/chat/completions", json=asked).json()["choices"][0]["message"]
        found = client.get(f"{base}/orders?id={order}").text
        call = reply["tool_calls"][0]["id"]
        messages += [reply, {"role": "tool", "tool_call_id": call, "content": found}]
        last = client.post(f"{base}/chat/completions", json=asked).json()["choices"][0]["message"]
    return str(last["content"])


RECORDED: list[tuple[str, Path]] = []
"""Where the server stood, and a copy of the cassettes: recorded once."""


@pytest.fixture
def recorded(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Have what was recorded from a server that is gone; give its address."""
    if not RECORDED:
        with ModelServer([CALL, WORDS]) as server:
            base = server.openai_base
            with record("shop/refund", record="once", record_chat="once") as seen:
                assert answer(base) == "Your refund is on its way."
            assert seen.tape_counts[1].recorded == 2
        copy = tmp_path_factory.mktemp("recorded") / "cassettes"
        RECORDED.append((base, shutil.copytree("cassettes", copy)))
    else:
        shutil.copytree(RECORDED[0][1], "cassettes")
    return RECORDED[0][0]


def test_what_was_recorded_is_seen_and_played_without_a_server(recorded: str, project: Path) -> None:
    """Messages, calls, tokens and the model's name are read off the wire, and the same again in a replay."""
    with record("shop/refund") as seen:
        assert answer(recorded) == "Your refund is on its way."
    assert [message.role for message in seen.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(call.tool, call.args) for call in seen.calls] == [("find_order", {"id": 7})]
    assert (seen.usage.asks, seen.usage.input_tokens) == (2, 20)
    assert {ask.model for ask in seen.asks} == {"gpt-5-mini"}
    assert (seen.misses, seen.tape_counts[1].hits) == ((), 2)
    files = {path.relative_to(project).as_posix() for path in project.glob("cassettes/**/*.yaml")}
    assert files == {"cassettes/shop/refund.yaml", "cassettes/shop/refund.chat/own-1.yaml"}


def test_blocks_that_are_open_at_once_do_not_mix(recorded: str) -> None:
    """Async blocks on one loop, with clients in threads, each see all of their own and nothing else."""

    async def one() -> tuple[str, int]:
        async with record("shop/refund") as seen:
            reply = await asyncio.to_thread(answer, recorded)
        return reply, len(seen.messages)

    async def all_of_them() -> list[tuple[str, int]]:
        return await asyncio.gather(*(one() for _ in range(5)))

    assert asyncio.run(all_of_them()) == [("Your refund is on its way.", 4)] * 5


def test_of_blocks_within_each_other_the_inner_sees(recorded: str) -> None:
    """What is asked belongs to the innermost block."""
    with record("shop/refund") as outer, record("shop/refund") as inner:
        answer(recorded)
    assert (len(outer.calls), len(inner.calls)) == (0, 1)


def test_nothing_goes_out_that_nobody_let_out(project: Path) -> None:
    """With default modes a model is not asked, and the message has the commands that record or let out."""
    with ModelServer([CALL, WORDS]) as server:
        with pytest.raises(TrialBroken, match="AGENTEVAL_RECORD_CHAT=new_episodes"), record("fresh"):
            answer(server.openai_base)
        assert server.requests == []
    assert not (project / "cassettes").exists()


def test_a_miss_is_told_though_the_code_swallows_it(recorded: str) -> None:
    """What is not recorded breaks the block at its end, with the nearest recording."""
    block = record("shop/refund")
    with pytest.raises(CassetteMiss, match=r"orders\(id='8'\)"), block:
        _swallow(f"{recorded}/orders?id=8")
    assert len(block.misses) == 1


def test_replies_of_another_prompt_are_played_with_a_warning(recorded: str) -> None:
    """Who changed a prompt learns, where the block stands, that the old replies were played."""
    said = "2 replies were played.* AGENTEVAL_RECORD_CHAT=all"
    with pytest.warns(UserWarning, match=said) as warned, record("shop/refund"):
        answer(recorded, prompt="I want another one")
    assert warned[0].filename == __file__


@pytest.mark.parametrize("recorded_streamed", [True, False])
def test_who_reads_events_is_played_no_document(project: Path, recorded_streamed: bool) -> None:
    """A recorded stream is no reply to who asks for none, nor the other way round: an answer is lost."""

    def ask(base: str, *, streamed: bool) -> str:
        asked = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], "stream": streamed}
        return httpx.post(f"{base}/chat/completions", json=asked).text

    with ModelServer([WORDS]) as server:
        base = server.openai_base
        with record("way", record_chat="once"):
            reply = ask(base, streamed=recorded_streamed)
    with pytest.raises(CassetteMiss, match="stream"), record("way"):
        ask(base, streamed=not recorded_streamed)
    with record("way"):
        assert ask(base, streamed=recorded_streamed) == reply


def test_a_client_without_a_key_is_helped_in_a_replay(recorded: str) -> None:
    """Clients look for keys when they are made: the exception says that any text will do."""
    with pytest.raises(ValueError, match="set ACME_API_KEY") as raised, record("shop/refund"):
        raise ValueError("no credentials: set ACME_API_KEY")
    assert raised.value.__notes__ == ["hint: a replay sends no key, so any text will do: ACME_API_KEY=none"]


def _swallow(address: str) -> None:
    with pytest.raises(BaseException, match="not recorded"):
        httpx.get(address)


def test_the_codes_own_mistakes_stay_its_own(recorded: str) -> None:
    """An exception of the code inside is raised as it is, and a block that ended well raises nothing."""
    with pytest.raises(ZeroDivisionError), record("shop/refund"):
        print(1 / 0)
    with record("shop/refund") as seen:
        pass
    assert seen.messages == ()


@pytest.mark.parametrize("name", ["", "../up", "/tmp/x", "a\\b", 7])
def test_a_name_is_a_path_below_the_cassettes(name: str) -> None:
    """A name that leads elsewhere is refused before anything is opened."""
    with pytest.raises(UsageMistake, match="expected a name"):
        record(name)
    block = record("twice")
    with block, pytest.raises(UsageMistake, match="a second time"), block:
        pass
