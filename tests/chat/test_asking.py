"""A real model's replies, over real HTTP, in both wire formats, asked directly and by litellm."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from pytest_agenteval.chat.chat import ChatSettings, Reply
from pytest_agenteval.chat.provider_failures import AttemptFailed, retry_after_s
from pytest_agenteval.records.plan import Model, ModelPrice
from pytest_agenteval.records.tool_spec import ToolSpec

from .bench import QUESTION, Bench, ModelServer, ReplyPlan

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

ADD = ToolSpec("add", "adds", {"type": "object", "properties": {"a": {"type": "integer"}}})
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
USAGE = {"input_tokens": 1, "output_tokens": 1, "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def test_text_usage_and_cost_of_a_reply(bench: Bench) -> None:
    """Cached and reasoning tokens are parts of the counts, and a known price gives a cost above 0."""
    plan = ReplyPlan(text="안녕", input_tokens=100, cached_tokens=40, output_tokens=50, reasoning_tokens=20)
    with ModelServer([plan]) as server:
        reply = bench.ask(bench.chat(server))

    usage = reply.usage
    assert (reply.text, reply.finish, reply.calls, reply.first_token_s) == ("안녕", "stop", (), None)
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == (
        100,
        50,
        40,
        20,
    )
    assert (usage.asks, usage.attempts) == (1, 1)
    fresh, cached, output = (5e-06, 5e-07, 3e-05) if bench.wire == "openai" else (3e-06, 3e-07, 1.5e-05)
    assert reply.cost_usd == pytest.approx(60 * fresh + 40 * cached + 50 * output)


def test_the_cost_of_an_unknown_model_is_unknown(bench: Bench) -> None:
    """A model without a price costs None, never 0; the user may say the price."""
    with ModelServer() as server:
        unknown = Model("mine", f"{bench.wire}/no-such-model", params=bench.model(server).params)
        prices = {"mine": ModelPrice(1.0, 2.0)}
        assert bench.ask(bench.chat_of(unknown)).cost_usd is None
        assert bench.ask(bench.chat_of(unknown, prices)).cost_usd == pytest.approx(10 * 1e-6 + 5 * 2e-6)


def test_parallel_calls_and_their_results(bench: Bench) -> None:
    """Two calls of one reply come in order with ids of their own, and their results go back under these."""
    calls = (("add", {"a": 1}), ("add", {"city": "서울"}))
    with ModelServer([ReplyPlan(calls=calls), ReplyPlan(text="done")]) as server:
        chat = bench.chat(server)
        reply = bench.ask(chat, tools=[ADD])
        results = [{"role": "tool", "tool_call_id": call.id, "content": "7"} for call in reply.calls]
        last = bench.ask(chat, [*QUESTION, reply.message(), *results], tools=[ADD])
        sent = [request.body for request in server.requests]

    assert [(call.tool, dict(call.args), call.raw_args) for call in reply.calls] == [
        (name, args, None) for name, args in calls
    ]
    assert len({call.id for call in reply.calls}) == 2
    assert (reply.finish, last.finish, last.text) == ("tool_calls", "stop", "done")
    ids = [call.id for call in reply.calls]
    if bench.wire == "openai":
        assert sent[0]["tools"] == [ADD.declaration()]
        assert [message["tool_call_id"] for message in sent[1]["messages"][2:]] == ids
    else:
        assert sent[0]["tools"][0]["name"] == "add"
        assert [block["tool_use_id"] for block in sent[1]["messages"][2]["content"]] == ids


def test_one_call_and_a_cut_reply_say_how_they_ended(bench: Bench) -> None:
    """A call means tool_calls, a full reply length, and tools that are not offered are not sent."""
    plans = [ReplyPlan(calls=(("add", {}),)), ReplyPlan(text="on and", finish_reason="length")]
    with ModelServer(plans) as server:
        chat = bench.chat(server)
        assert bench.ask(chat, tools=[ADD], settings=ChatSettings(tool_choice="auto")).finish == "tool_calls"
        assert bench.ask(chat, settings=ChatSettings(tool_choice="auto")).finish == "length"
        assert "tools" not in server.requests[1].body
        assert "tool_choice" not in server.requests[1].body


def test_malformed_arguments_are_kept_as_text(bench: Bench) -> None:
    """What is no JSON object comes back as the model wrote it, beside empty arguments."""
    with ModelServer([ReplyPlan(calls=(("add", '{"a": 1'),))]) as server:
        (call,) = bench.ask(bench.chat(server), tools=[ADD]).calls

    if bench.wire == "openai":
        assert (dict(call.args), call.raw_args) == ({}, '{"a": 1')
    else:  # Anthropic's own wrapping is an object
        assert (dict(call.args), call.raw_args) == ({"INVALID_JSON": '{"a": 1'}, None)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_reasoning_is_read_and_signed_thoughts_go_back(bench: Bench, stream: bool) -> None:
    """A provider that signs its thoughts gets them back with the results of the calls."""
    with ModelServer([ReplyPlan(reasoning="hm, so", calls=(("add", {}),)), ReplyPlan(text="3")]) as server:
        chat = bench.chat(server, stream=stream)
        reply = bench.ask(chat, tools=[ADD])
        result = {"role": "tool", "tool_call_id": reply.calls[0].id, "content": "3"}
        bench.ask(chat, [*QUESTION, reply.message(), result], tools=[ADD])
        sent = server.requests[1].body["messages"][1]

    assert reply.reasoning == "hm, so"
    if bench.wire == "anthropic":
        assert sent["content"][0] == {"type": "thinking", "thinking": "hm, so", "signature": "c2lnbmVk"}


def test_settings_of_the_model_win_and_a_schema_is_sent(bench: Bench) -> None:
    """What the user set for a model beats what an agent asks for; a closed schema is sent as strict."""
    with ModelServer([ReplyPlan(text='{"ok": true}')]) as server:
        model = bench.model(server, temperature=0.5, max_tokens=77)
        chat = bench.chat_of(Model("m", f"{bench.wire}/some-model", params=model.params))
        bench.ask(chat, settings=ChatSettings(temperature=0.0, top_p=0.9), response_schema=SCHEMA)
        body = server.requests[0].body

    assert (body["temperature"], body["max_tokens"]) == (0.5, 77)
    if bench.wire == "openai":
        assert body["top_p"] == 0.9
        assert body["response_format"]["json_schema"] == {"name": "reply", "schema": SCHEMA, "strict": True}


def test_a_refused_temperature_is_left_out(bench: Bench) -> None:
    """A model that knows no temperature is asked without it, whether litellm or the provider says so."""

    def picky(body: Any, n: int) -> ReplyPlan:
        refusal = ReplyPlan(status=400, text="Unsupported parameter: 'temperature' is not supported")
        return refusal if "temperature" in body else ReplyPlan(text="ok")

    warm = ChatSettings(temperature=0.0)
    with ModelServer(picky) as server:
        base = bench.model(server)
        chat = bench.retrying(bench.chat_of(Model("m", f"{bench.wire}/some-model", params=base.params)))
        assert bench.ask(chat, settings=warm).usage.attempts == 2
        assert bench.ask(chat, settings=warm).usage.attempts == 1
        known = {"openai": "openai/gpt-5.5", "anthropic": "anthropic/claude-sonnet-5-5"}[bench.wire]
        assert bench.ask(bench.chat_of(Model("m", known, params=base.params)), settings=warm).text == "ok"


def test_what_is_asked_is_not_written_into(bench: Bench) -> None:
    """litellm gets copies of messages, tools and schema; half a character does not stop the request."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "half \ud83d"}]}]
    before = json.dumps([messages, ADD.declaration(), SCHEMA])
    with ModelServer() as server:
        assert bench.ask(bench.chat(server), messages, tools=[ADD], response_schema=SCHEMA).text == "ok"
        assert "half ?" in json.dumps(server.requests[0].body)
    assert json.dumps([messages, ADD.declaration(), SCHEMA]) == before


def test_connections_are_used_again(bench: Bench) -> None:
    """Asks one after the other, also of other trials, share a connection."""
    with ModelServer() as server:
        for _ in range(4):
            bench.ask(bench.chat(server))
        assert server._traffic.connections == 1


def test_a_key_is_sent_only_where_it_belongs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of the user's own gets the key that its table names, never that of the real provider."""
    monkeypatch.setenv("OPENAI_API_KEY", "real-openai-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real-anthropic-key")
    monkeypatch.setenv("MY_KEY", "my-own-key")
    with ModelServer(
        [ReplyPlan(text="ok"), ReplyPlan(text="ok"), ReplyPlan(status=401, text="bad: my-own-key")]
    ) as server:
        model = bench.model(server)
        named = Model("m", model.id, params=model.params, api_key_env="MY_KEY")
        bench.ask(bench.chat_of(model))
        bench.ask(bench.chat_of(named))
        with pytest.raises(AttemptFailed) as caught:
            bench.ask(bench.chat_of(named))
        sent = [json.dumps(dict(request.headers)) for request in server.requests]
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(AttemptFailed, match="MY_KEY is not set"):
        bench.ask(bench.chat_of(named))

    assert "real-" not in sent[0]
    assert "my-own-key" in sent[1]
    assert "my-own-key" not in str(caught.value)


def test_a_key_that_no_header_can_hold_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line break behind it is left out, as files have one; within it there is something wrong."""
    with ModelServer([ReplyPlan(text="ok")]) as server:
        model = bench.model(server)
        named = Model("m", model.id, params=model.params, api_key_env="MY_KEY")
        monkeypatch.setenv("MY_KEY", "my-own-key\n")
        assert bench.ask(bench.chat_of(named)).text == "ok"
        monkeypatch.setenv("MY_KEY", "my-own-key\nanother")
        with pytest.raises(AttemptFailed, match="auth: MY_KEY holds a line break within it") as caught:
            bench.ask(bench.chat_of(named))
        assert len(server.requests) == 1

    assert not caught.value.retryable


def test_a_reply_that_trickles_in_for_ever_times_out(bench: Bench) -> None:
    """The limit is on the whole request: a sign of life now and then does not stretch it."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.05)

    async def ask() -> None:
        async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
            base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            model = Model("m", f"{bench.wire}/x", params={"api_base": base, "request_seconds": 0.2})
            await bench.chat_of(model).ask(QUESTION)

    with pytest.raises(AttemptFailed, match=r"timeout: no reply within 0.2 s"):
        bench.loop.run(ask())


# A dropped connection comes first: one that was used before would be tried again on a new one.
FAILURES: dict[str, tuple[ReplyPlan, str, bool, int | None]] = {
    "dropped": (ReplyPlan(drop=True), "connection", True, None),
    "bad request": (ReplyPlan(status=400), "bad_request", False, 400),
    "key": (ReplyPlan(status=401), "auth", False, 401),
    "forbidden": (ReplyPlan(status=403), "auth", False, 403),
    "model": (ReplyPlan(status=404), "unknown_model", False, 404),
    "rate": (ReplyPlan(status=429), "rate_limit", True, 429),
    "quota": (ReplyPlan(status=429, text="You exceeded your current quota"), "quota", False, 429),
    "server": (ReplyPlan(status=500), "provider", True, 500),
    "unavailable": (ReplyPlan(status=503), "provider", True, 503),
    "length": (
        ReplyPlan(status=400, text="prompt is too long: 9 tokens > 8 maximum"),
        "context_length",
        False,
        400,
    ),
    "hang": (ReplyPlan(hang_s=30), "timeout", True, None),
}


@pytest.mark.parametrize("streamed", [{}, {"stream": True}], ids=["whole", "streamed"])
def test_each_failure_is_told_apart(bench: Bench, streamed: dict[str, Any]) -> None:
    """A failing request is one request; its cause is one word, and only what may pass is tried again."""
    plans = {kind: plan for kind, (plan, *_) in FAILURES.items()}
    if bench.wire == "openai":
        plans["length"] = ReplyPlan(status=400, text="This model's maximum context length is 8 tokens.")
    with ModelServer([*plans.values()]) as server:
        for number, (kind, (_, cause, retryable, status)) in enumerate(FAILURES.items(), 1):
            patience = {"request_seconds": 0.3} if kind == "hang" else {}
            with pytest.raises(AttemptFailed) as caught:
                bench.ask(bench.chat(server, **patience, **streamed))
            failed = caught.value
            assert len(server.requests) == number, kind
            assert (failed.cause, failed.retryable, failed.status) == (cause, retryable, status), kind
            wrappings = ("\n", "litellm", "Exception", "Error:", "{")
            assert not any(wrapping in failed.message for wrapping in wrappings), kind


def test_no_server_and_no_key_are_not_the_providers_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection may pass; a key that is missing does not, though litellm calls both a 500."""
    with ModelServer() as server:
        chat = bench.chat(server)
    with pytest.raises(AttemptFailed) as refused:
        bench.ask(chat)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(AttemptFailed) as keyless:
        bench.ask(bench.chat_of(Model("m", chat.model.id)))

    assert (refused.value.cause, refused.value.retryable) == ("connection", True)
    assert (keyless.value.cause, keyless.value.retryable) == ("auth", False)


def test_a_key_that_the_provider_repeats_is_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where litellm found key and address by itself, and where the text is cut within the key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-real-key")
    text = "wrong key: sk-real-key " + "x" * 270 + " sk-real-key"
    with ModelServer([ReplyPlan(status=401, text=text)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.anthropic_base)
        with pytest.raises(AttemptFailed) as caught:
            bench.ask(bench.chat_of(Model("m", bench.model(server).id)))
        assert "sk-real-key" in json.dumps(dict(server.requests[0].headers))

    assert caught.value.cause == "auth"
    assert "wrong key: <redacted>" in caught.value.message
    assert "sk-" not in caught.value.message


def reply_to_body(bench: Bench, body: bytes) -> Reply:
    """Ask a server that answers with this body, whatever it is."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async def ask() -> Reply:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return await bench.chat_of(Model("m", f"{bench.wire}/x", params={"api_base": base})).ask(QUESTION)

    reply: Reply = bench.loop.run(ask())
    return reply


UNREADABLE = (
    b"<html>hello</html>",
    b"[1]",
    b'{"error": {"message": "inner trouble", "code": 503}}',
    b'{"id": "x", "object": "chat.completion", "model": "x", "choices": [], "content": 7}',
)


def test_a_reply_that_cannot_be_read_is_no_lost_connection(bench: Bench) -> None:
    """Somebody is there and says something else: one line says so, and no traceback of litellm's."""
    for body in UNREADABLE:
        with pytest.raises(AttemptFailed) as caught:
            reply_to_body(bench, body)
        assert caught.value.cause == "provider", body
        assert not any(word in caught.value.message for word in ("\n", "Traceback", 'File "')), body


def test_calls_with_one_id_are_told_apart(bench: Bench) -> None:
    """Each result answers one call, also where the model has given two calls the same id."""
    if bench.wire == "openai":
        call = {"id": "same", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call, call]}
        reply = {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    else:
        use = {"type": "tool_use", "id": "same", "name": "add", "input": {}}
        reply = {"type": "message", "role": "assistant", "content": [use, use], "stop_reason": "tool_use"}
    calls = reply_to_body(
        bench, json.dumps({"id": "x", "model": "x", "usage": USAGE, **reply}).encode()
    ).calls

    assert [call.id for call in calls] == ["same", "call_1_1"]


def test_retry_after_is_read_in_every_form() -> None:
    """Seconds, milliseconds and a date are understood; nonsense is as good as nothing."""
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    assert retry_after_s({"Retry-After": "2.5"}) == 2.5
    assert retry_after_s({"retry-after": "9", "retry-after-ms": "250"}) == 0.25
    assert 25 < (retry_after_s({"retry-after": soon}) or 0) <= 30
    for nonsense in ("later", f"Thu, 01 Jan {10**19} 00:00:00 GMT", f"Thu, 01 Jan 2026 00:00:00 +{10**19}"):
        assert retry_after_s({"retry-after": nonsense}) is None
    assert retry_after_s({}) is None
