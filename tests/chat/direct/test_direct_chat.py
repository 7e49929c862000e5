"""What a direct chat makes of mistakes before anything is sent."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.chat.chat import Send
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.chat.direct.direct_chat import DirectChat
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.plan import Model
from tests.loopback.model_server import ModelServer, ReplyPlan

IDS = ("openai/gpt-5.5", "anthropic/claude-sonnet-4-5")


async def ask(server: ModelServer, id: str, messages: list[Any], **more: Any) -> str:
    """Ask once, and close what was opened."""
    base = server.anthropic_base if id.startswith("anthropic") else server.openai_base
    try:
        chat = DirectChat(Model("m", id, params={"api_base": base}, **more))
        return (await chat.ask(messages)).text
    finally:
        await http_pool.close()


@pytest.mark.parametrize("id", IDS)
def test_messages_that_are_none_are_a_request_that_nobody_can_take(id: str) -> None:
    """An agent's slip is told as one, and not as a crash of ours; nothing is sent."""
    with ModelServer() as server:
        with pytest.raises(AttemptFailed, match="bad_request: the messages cannot be written") as caught:
            asyncio.run(ask(server, id, ["text"]))
        assert server.requests == []
    assert not caught.value.retryable


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(
    ("location", "named"),
    [("http://127.0.0.1:9/v1?key=x", "http://127.0.0.1:9/v1"), ("/v2{path}", "http://127.0.0.1:.*/v2")],
)
def test_a_redirect_is_told_and_not_followed(id: str, location: str, named: str) -> None:
    """The key is for the address that was named; where it says that it has moved, the user decides."""
    path = "/v1/messages" if id.startswith("anthropic") else "/chat/completions"
    moved = ReplyPlan(status=307, headers={"Location": location.format(path=path)})
    with ModelServer([moved]) as server:
        with pytest.raises(AttemptFailed, match=rf"307 .*: it redirects to {named}: name") as caught:
            asyncio.run(ask(server, id, [{"role": "user", "content": "?"}]))
        assert len(server.requests) == 1
    assert not caught.value.retryable


@pytest.mark.parametrize("id", IDS)
def test_half_a_character_in_what_is_sent_as_it_is_becomes_a_question_mark(id: str) -> None:
    """As in messages: no request can hold it."""
    with ModelServer() as server:
        model = Model("m", id, params={"extra_body": {"note": "half \ud83d"}})
        base = server.anthropic_base if id.startswith("anthropic") else server.openai_base
        asyncio.run(once(replace(model, params={**model.params, "api_base": base})))
        assert server.requests[0].body["note"] == "half ?"


async def once(model: Model) -> None:
    """Ask a model something."""
    try:
        await DirectChat(model).ask([{"role": "user", "content": "?"}])
    finally:
        await http_pool.close()


def test_what_goes_through_litellm_is_prepared_and_goes_on_from_the_same_thoughts(
    loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its import is no time of the trial, and Anthropic wants its thoughts back whichever way is taken."""
    seen: list[Any] = []

    async def ready(chat: LitellmChat, messages: Any = (), **ask: Any) -> Send:
        seen.append("prepared")
        return partial(chat._reply, messages, **ask)

    async def answer(chat: LitellmChat, call_ids: str, **request: Any) -> Any:
        seen.append(request["messages"][1].get("thinking_blocks"))
        raise ValueError("unread")

    monkeypatch.setattr(LitellmChat, "prepare", ready)
    monkeypatch.setattr(LitellmChat, "_answer", answer)
    thoughts = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
    call = {"id": "t", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    conversation: list[dict[str, Any]] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "content": "3"},
    ]
    chat = DirectChat(Model("m", "anthropic/claude-sonnet-4-5", params={"api_base": "http://127.0.0.1:9"}))
    chat._echoes["t"] = thoughts

    loop.run(chat.prepare(conversation, response_schema={"type": "object"}))
    assert seen == ["prepared"]
    with pytest.raises(AttemptFailed):
        loop.run(chat.ask(conversation, response_schema={"type": "object"}))
    assert seen[-1] == thoughts
