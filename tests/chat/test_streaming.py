"""Streamed replies: those that would have come whole, with the time of their first token."""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.chat.chat import Chat, Reply
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.chat.recording_chat import AgentChat, ChatTape, JudgeChat
from pytest_agenteval.records.plan import Model, ModelPrice, RecordMode, Via
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import Usage

from .bench import BREAK, QUESTION, Bench, ModelServer, ReplyPlan, Script

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

ADD = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "integer"}}})
COUNTS: dict[str, Any] = {
    "input_tokens": 100,
    "cached_tokens": 40,
    "output_tokens": 50,
    "reasoning_tokens": 20,
}
DONE = b"data: [DONE]\n\n"
LONG = "a text that is longer than one piece"
PLANS = {
    "text": ReplyPlan(text="안녕, this comes in pieces", **COUNTS),
    "reasoning": ReplyPlan(text="3", reasoning="1 and 2 together are 3", **COUNTS),
    "calls": ReplyPlan(
        calls=(("add", {"a": 1, "text": LONG}), ("add", {"city": "서울"}), ("now", {})), **COUNTS
    ),
    "text and calls": ReplyPlan(text=LONG, reasoning="hm", calls=(("add", {"a": 1}),)),
    "length": ReplyPlan(text="on and", finish_reason="length"),
    "filtered": ReplyPlan(text="no", finish_reason="content_filter"),
    "empty": ReplyPlan(),
}


def openai(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Write one of OpenAI's chunks."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.5"}
    return b"data: " + json.dumps({**body, "choices": [choice], **more}).encode() + b"\n\n"


def piece(index: int, arguments: str, **more: str) -> bytes:
    """Write OpenAI's chunk with a piece of a call."""
    name = {"name": more.pop("name")} if "name" in more else {}
    call = {"index": index, "function": {**name, "arguments": arguments}, **more}
    return openai({"tool_calls": [call]})


def error(bench: Bench) -> bytes:
    """Write an error that comes within a stream."""
    if bench.wire == "openai":
        return b'data: {"error": {"message": "inner trouble", "code": 503}}\n\n'
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "inner trouble"}}
    return b"event: error\ndata: " + json.dumps(event).encode() + b"\n\n"


def ask_until_in_time(bench: Bench, chat: Chat, rest_s: float, **said: Any) -> tuple[Reply, float]:
    """Ask up to 5 times for a reply whose rest took so long; give it with the seconds behind its first token.

    A busy machine may find the whole reply when it looks for its beginning.
    """
    rest = -math.inf
    for _ in range(5):
        began = time.perf_counter()
        reply = bench.ask(chat, **said)
        assert reply.first_token_s is not None
        took = time.perf_counter() - began if reply.seconds is None else reply.seconds
        rest = took - reply.first_token_s
        if rest >= rest_s:
            break
    return reply, rest


def test_a_streamed_reply_is_the_reply_that_comes_whole(bench: Bench) -> None:
    """Text, calls, ids, reasoning, end, tokens and cost are the same; the first token's time is added."""
    with ModelServer([*PLANS.values()]) as server:
        replies = [bench.ask(bench.chat(server), tools=[ADD]) for _ in PLANS]
    with ModelServer([*PLANS.values()]) as server:
        streams = [bench.ask(bench.chat(server, stream=True), tools=[ADD]) for _ in PLANS]
        assert {request.body["stream"] for request in server.requests} == {True}

    for (name, plan), whole, streamed in zip(PLANS.items(), replies, streams, strict=True):
        has_token = bool(plan.text or plan.calls)
        assert (streamed.first_token_s is not None, whole.first_token_s) == (has_token, None), name
        assert len({call.id for call in streamed.calls}) == len(plan.calls), name
        assert replace(streamed, first_token_s=None) == whole, name
        assert whole.cost_usd, name


@pytest.mark.parametrize("via", ["direct", "litellm"])
def test_pieces_are_joined_before_anybody_looks(loop: asyncio.Runner, via: Via) -> None:
    """Calls without ids, all of number 0, stay apart; halves of a character do not."""
    bench = Bench(loop, "openai", via)
    events = [
        openai({"content": "a\ud83d"}),
        openai({"content": "\ude00 \ud83d"}),
        piece(0, '{"city": "\ud83d', name="weather"),
        piece(0, '\ude00"}'),
        piece(0, "{}", name="now"),
        openai({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    with bench.streaming(events) as server:
        reply = bench.ask(bench.chat(server, stream=True), tools=[ADD])

    assert reply.text == "a😀 \ufffd"
    assert [(call.tool, dict(call.args)) for call in reply.calls] == [
        ("weather", {"city": "😀"}),
        ("now", {}),
    ]


def test_the_first_token_is_the_first_that_says_something(bench: Bench) -> None:
    """Its time runs from the sending of the request; an empty chunk is not yet a token."""
    events = bench.events(ReplyPlan(text=LONG))
    first = next(place for place, event in enumerate(events) if b"a text that" in event)
    with bench.streaming([*events[:first], 0.2, events[first], 0.4, *events[first + 1 :]]) as server:
        bench.begin()
        reply, rest = ask_until_in_time(bench, bench.retrying(bench.chat(server, stream=True)), 0.2)

    assert reply.text == LONG
    assert reply.first_token_s is not None
    assert reply.seconds is not None
    assert reply.first_token_s >= 0.2
    assert rest >= 0.2
    assert reply.seconds <= bench.budget.seconds


@pytest.mark.parametrize("plan", [PLANS["reasoning"], PLANS["calls"]], ids=["reasoning", "call"])
def test_thoughts_and_calls_are_tokens(bench: Bench, plan: ReplyPlan) -> None:
    """The first token need not be text."""
    with bench.streaming([*bench.events(plan)[:-3], 0.4, *bench.events(plan)[-3:]]) as server:
        _, rest = ask_until_in_time(bench, bench.chat(server, stream=True), 0.2, tools=[ADD])

    assert rest >= 0.2


def test_tokens_that_are_not_told_are_not_guessed(bench: Bench) -> None:
    """Where the provider counts nothing, nothing is reported: neither tokens nor a cost."""
    events = bench.events(ReplyPlan(text=LONG, reasoning=LONG), usage=False)
    silent = [event.replace(b'"usage"', b'"no_usage"') for event in events]
    with bench.streaming(silent) as server:
        reply = bench.ask(bench.chat(server, stream=True))

    assert (reply.text, reply.reasoning, reply.finish) == (LONG, LONG, "stop")
    assert reply.usage == Usage(asks=1, attempts=1, cost_usd=None)


def test_thoughts_that_are_not_counted_are_not_guessed(bench: Bench) -> None:
    """A provider that counts its output, and not the thoughts in it, gets no such count from us."""
    if bench.wire == "anthropic":
        pytest.skip("litellm itself counts Anthropic's thoughts, whole or streamed")
    counts = {"usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}}
    thought = [openai({"reasoning_content": LONG}), openai({"content": "3"}), openai({}, "stop")]
    with bench.streaming([*thought, openai({}, choices=[], **counts), DONE]) as server:
        reply = bench.ask(bench.chat(server, stream=True))

    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens or 0) == (100, 50, 0)
    assert reply.cost_usd == pytest.approx(100 * 5e-06 + 50 * 3e-05)


def test_a_price_of_the_users_holds_and_an_unknown_price_is_none(bench: Bench) -> None:
    """As for replies that come whole."""
    with ModelServer() as server:
        params = bench.model(server, stream=True).params
        unknown, prices = (
            Model("mine", f"{bench.wire}/no-such-model", params=params),
            {"mine": ModelPrice(1.0, 2.0)},
        )
        assert bench.ask(bench.chat_of(unknown)).cost_usd is None
        assert bench.ask(bench.chat_of(unknown, prices)).cost_usd == pytest.approx(10 * 1e-6 + 5 * 2e-6)


def test_a_refusal_is_read(bench: Bench) -> None:
    """OpenAI refuses beside the content, Anthropic in the reason to end; either is the first token."""
    if bench.wire == "openai":
        events = [openai({"role": "assistant", "content": None, "refusal": None})]
        events += [openai({"refusal": "I can"}), 0.4, openai({"refusal": "not."}), openai({}, "stop"), DONE]  # type: ignore[list-item]
    else:
        events = bench.events(ReplyPlan(text="I cannot.", finish_reason="content_filter"))
    with bench.streaming(events) as server:
        rest_s = 0.2 if bench.wire == "openai" else 0.0
        reply, rest = ask_until_in_time(bench, bench.chat(server, stream=True), rest_s)

    assert (reply.text, reply.finish) == ("I cannot.", "content_filter")
    assert rest >= rest_s


ODD: dict[str, tuple[list[bytes], list[str]]] = {
    "no ids": (
        [piece(0, '{"a"', name="add"), piece(0, ": 1}"), piece(1, '{"a": 2}', name="add")],
        ["call_1_0", "call_1_1"],
    ),
    "one place": (
        [piece(0, '{"a"', id="x", name="add"), piece(0, ": 1}"), piece(0, '{"a": 2}', id="y", name="add")],
        ["x", "y"],
    ),
    "by turns": (
        [
            piece(0, '{"a"', id="x", name="add"),
            piece(1, '{"a": 2', id="y", name="add"),
            piece(0, ": 1}", id="x", name="add"),
            piece(1, "}", id=""),
        ],
        ["x", "y"],
    ),
}
"""Pieces of two calls, and the ids under which they are read."""


@pytest.mark.parametrize("kind", ODD)
def test_calls_are_told_apart_however_they_are_numbered(loop: asyncio.Runner, kind: str) -> None:
    """A call is lost or run together with another neither for want of an id nor of a place of its own."""
    pieces, ids = ODD[kind]
    bench = Bench(loop, "openai")
    with bench.streaming([*pieces, openai({}, "tool_calls"), DONE]) as server:
        reply = bench.ask(bench.chat(server, stream=True), tools=[ADD])

    assert [(call.tool, dict(call.args)) for call in reply.calls] == [("add", {"a": 1}), ("add", {"a": 2})]
    assert ([call.id for call in reply.calls], reply.finish) == (ids, "tool_calls")


def test_malformed_arguments_are_kept_as_text_and_can_be_answered(bench: Bench) -> None:
    """They come back as the model wrote them, to Anthropic in the object that it asks for."""
    written = '{"a": 1, "city": "서'
    with ModelServer([ReplyPlan(calls=(("add", written),)), ReplyPlan(text="ok")]) as server:
        chat = bench.chat(server, stream=True)
        reply = bench.ask(chat, tools=[ADD])
        (call,) = reply.calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "no JSON object"}
        assert bench.ask(chat, [*QUESTION, reply.message(), result], tools=[ADD]).text == "ok"
        sent = server.requests[1].body["messages"][1]

    assert (dict(call.args), call.raw_args) == ({}, written)
    if bench.wire == "openai":
        assert sent["tool_calls"][0]["function"]["arguments"] == written
    else:
        assert sent["content"][-1]["input"] == {"INVALID_JSON": written}


def failed_attempt(bench: Bench, script: Script, **params: Any) -> AttemptFailed:
    """Ask a stream that fails, and see that its connection is let go of."""
    with bench.streaming(script) as server:
        with pytest.raises(AttemptFailed) as caught:
            bench.ask(bench.chat(server, stream=True, **params))
        for _ in range(500):
            if not server.left:
                bench.loop.run(asyncio.sleep(0.02))
        assert (len(server.bodies), server.left) == (1, 1)
    assert not any(word in caught.value.message for word in ("\n", "litellm", "Exception", "{"))
    return caught.value


@pytest.mark.parametrize("pieces", [0, 4])
def test_a_stream_that_breaks_is_no_reply(bench: Bench, pieces: int) -> None:
    """Half a reply is none, also where the line was closed in good order; another attempt may succeed."""
    begun = bench.events(ReplyPlan(text=LONG * 9))[:pieces]
    broken, closed = failed_attempt(bench, [*begun, 0.05, BREAK]), failed_attempt(bench, begun)

    assert (broken.cause, broken.retryable, broken.status) == ("connection", True, None)
    assert (closed.cause, closed.retryable, closed.status) == ("provider", True, None)
    assert "no usable reply: the stream ended before " in closed.message.replace("Stream", "the stream")


@pytest.mark.parametrize("pieces", [0, 4])
def test_an_error_within_a_stream_is_told_in_the_providers_words(bench: Bench, pieces: int) -> None:
    """It comes with a status of 200, and may pass."""
    found = failed_attempt(bench, [*bench.events(ReplyPlan(text=LONG))[:pieces], error(bench), 30.0])

    assert (found.cause, found.retryable, found.status) == ("provider", True, None)
    assert found.message.startswith("provider: no usable reply: inner trouble")


def test_a_provider_that_will_not_stream_is_quoted_in_its_own_words(bench: Bench) -> None:
    """In its own script, with its quotation marks."""
    plan = ReplyPlan(status=400, text='"so" geht\'s: 안녕')
    with ModelServer([plan]) as server, pytest.raises(AttemptFailed) as caught:
        bench.ask(bench.chat(server, stream=True))
    assert caught.value.message.startswith('400 bad_request: "so" geht\'s: 안녕')


@pytest.mark.parametrize("wait", [[30.0], [0.05, b": still here\n\n"] * 99], ids=["silent", "trickling"])
def test_the_whole_reply_has_request_seconds(bench: Bench, wait: list[bytes | float]) -> None:
    """A stream that falls silent, or never ends, is a time-out."""
    began = time.perf_counter()
    found = failed_attempt(bench, [*bench.events(ReplyPlan(text=LONG))[:4], *wait], request_seconds=0.4)

    assert (found.cause, found.retryable) == ("timeout", True)
    assert found.message == "timeout: no reply within 0.4 s"
    assert time.perf_counter() - began < 20


def test_a_refusal_to_stream_counts_is_heeded(bench: Bench) -> None:
    """A provider that knows no stream_options is asked again without, and from then on."""

    def picky(body: Any, n: int) -> ReplyPlan:
        refusal = ReplyPlan(status=400, text="Unknown parameter: 'stream_options.include_usage'")
        return refusal if "stream_options" in body or n == 0 else ReplyPlan(text="ok")

    with ModelServer(picky) as server:
        chat = bench.retrying(bench.chat(server, stream=True))
        replies = [bench.ask(chat), bench.ask(chat)]

    assert [(reply.text, reply.usage.attempts) for reply in replies] == [("ok", 2), ("ok", 1)]
    assert all(reply.first_token_s is not None for reply in replies)
    assert [reply.usage.output_tokens for reply in replies] == [None if bench.wire == "openai" else 5] * 2


def test_only_the_request_that_was_answered_is_timed(bench: Bench) -> None:
    """A failed attempt and the wait after it are no part of the time of the first token."""
    plans = [ReplyPlan(status=429, headers={"Retry-After": "0.4"}, hang_s=0.1), ReplyPlan(text="ok")]
    with ModelServer(plans) as server:
        began = time.perf_counter()
        reply = bench.ask(bench.retrying(bench.chat(server, stream=True)))
        took = time.perf_counter() - began

    assert reply.usage.attempts == 2
    assert reply.first_token_s is not None
    assert reply.seconds is not None
    assert reply.first_token_s <= reply.seconds <= took - 0.4


def test_connections_are_used_again(bench: Bench) -> None:
    """A stream that has been read leaves its connection to the next ask."""
    with ModelServer() as server:
        for _ in range(3):
            bench.ask(bench.chat(server, stream=True))
        assert server._traffic.connections == 1


def test_a_tape_keeps_the_time_of_the_first_token(bench: Bench, tmp_path: Path) -> None:
    """A replay reports what was measured when the reply was recorded, of an agent and of a judge."""
    path = tmp_path / "t.yaml"

    def talk(mode: RecordMode, inner: Any, model: Model) -> tuple[Reply, Reply]:
        library = Library(tmp_path)
        opened = library.open(path, mode, "chat")
        said: dict[str, Any] = {"model": model, "repetition": 1, "mode": mode, "retry_command": ""}
        agent = AgentChat(
            inner, recorder=bench.recorder, budget=bench.budget, tape=ChatTape(opened, role="agent", **said)
        )
        judge = JudgeChat(inner, recorder=bench.recorder, tape=ChatTape(opened, role="judge", **said))
        replies = bench.ask(agent), bench.ask(judge)
        library.save()
        return replies

    with ModelServer() as server:
        model = bench.model(server, stream=True)
        recorded = talk("once", bench.chat_of(model), model)
    played = talk("none", None, model)

    assert all(reply.first_token_s is not None for reply in recorded)
    assert [reply.first_token_s for reply in played] == [reply.first_token_s for reply in recorded]
    asks = bench.recorder.transcript().asks
    assert [ask.first_token_s for ask in asks] == [recorded[0].first_token_s] * 2
