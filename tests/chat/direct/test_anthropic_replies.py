"""Anthropic's replies, read without litellm: what was said, called and thought is the same as with it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.reader import read_parts, whole_reply
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.chat.direct import anthropic_request
from pytest_agenteval.chat.direct.model_request import NO_KEY
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.replies import finish_of
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments
from tests.chat.bench import ModelServer, ReplyPlan
from tests.chat.litellm_oracle import Compared, held_against_litellm

from .anthropic_asks import ADAPTS, ADD, CALLED, OBJECT, OLD, Asked, said, user
from .test_anthropic_messages import ask_of

ODD = (ToolSpec("a.b"), ToolSpec("a/b"), ToolSpec("a_b"))
OBJECT_CALL = ("json_tool_call", {"sum": 3})
CASES: Mapping[str, tuple[Asked, ReplyPlan]] = {
    "text": (Asked([user()]), ReplyPlan(text="3")),
    "a call": (Asked([user()], tools=[ADD]), ReplyPlan(calls=(("add", {"a": 1}),))),
    "parallel calls": (
        Asked([user()], tools=[ADD]),
        ReplyPlan(text="Both.", calls=(("add", {"a": 1}), ("add", {"a": 2}))),
    ),
    "a call without arguments": (Asked([user()], tools=[ADD]), ReplyPlan(calls=(("add", {}),))),
    "odd names": (
        Asked([user()], tools=ODD),
        ReplyPlan(calls=(("a_b", {}), ("a_b_2", {}), ("a_b_3", {}))),
    ),
    "a tool nobody offered": (Asked([user()], tools=[ADD]), ReplyPlan(calls=(("mul", {"a": 1}),))),
    "thoughts": (
        Asked([user()], ADAPTS, params={"reasoning_effort": "low"}),
        ReplyPlan(text="3", reasoning="One and two.", reasoning_tokens=4, output_tokens=9),
    ),
    "thoughts and a call": (
        Asked([user()], ADAPTS, tools=[ADD], params={"reasoning_effort": "low"}),
        ReplyPlan(calls=(("add", {"a": 1}),), reasoning="Hm."),
    ),
    "cut off": (Asked([user()]), ReplyPlan(text="3 is", finish_reason="length")),
    "refused": (Asked([user()]), ReplyPlan(text="No.", finish_reason="content_filter")),
    "cached": (Asked([user()]), ReplyPlan(text="3", input_tokens=90, cached_tokens=60)),
    "an object as arguments": (Asked([user()], OLD, schema=OBJECT), ReplyPlan(calls=(OBJECT_CALL,))),
    "an object among calls": (
        Asked([user()], OLD, tools=[ADD], schema=OBJECT),
        ReplyPlan(calls=(OBJECT_CALL, ("add", {"a": 1}))),
    ),
    "an object as text": (Asked([user()], schema=OBJECT), ReplyPlan(text='{"sum": 3}')),
    "letters of the world": (
        Asked([user()], OLD, schema=OBJECT),
        ReplyPlan(calls=(("json_tool_call", {"sum": "drei é"}),)),
    ),
}
WHOLE_ONLY: Mapping[str, tuple[Asked, ReplyPlan]] = {
    "an object below values": (
        Asked([user()], OLD, schema=OBJECT),
        ReplyPlan(calls=(("json_tool_call", {"values": {"sum": 3}}),)),
    ),
    "a prefix": (Asked([user(), {**said("It is"), "prefix": True}]), ReplyPlan(text=" 3")),
    "a prefix that is repeated": (
        Asked([user(), {**said("It is"), "prefix": True}]),
        ReplyPlan(text="It is 3"),
    ),
}
EACH = [
    *(pytest.param(*case, streamed, id=f"{name}{', streamed' * streamed}")
      for name, case in CASES.items() for streamed in (False, True)),
    *(pytest.param(*case, False, id=name) for name, case in WHOLE_ONLY.items()),
]  # fmt: skip


COMPARED = Compared("anthropic_replies")


@pytest.fixture(scope="module")
def plans() -> list[ReplyPlan]:
    """Hold what the server says next."""
    return []


@pytest.fixture(scope="module")
def server(plans: list[ReplyPlan]) -> Iterator[ModelServer]:
    """Serve one reply as often as it is asked for."""
    with ModelServer(lambda body, n: plans[-1]) as server:
        yield server


def sent(server: ModelServer, body: Mapping[str, Any]) -> Response:
    """Send a body as it is."""
    headers = {**anthropic_request.headers_of(NO_KEY, body), "content-type": "application/json"}
    address = server.anthropic_base + anthropic_request.PATH
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        kind = {"content-type": (answer.headers["content-type"],)}
        return Response(answer.status, "OK", kind, answer.read())


def by_us(server: ModelServer, asked: Asked) -> tuple[ReplyParts, Any]:
    """Ask directly; give the reply in the words of the ask, and its echo."""
    ask = ask_of(asked)
    whole = whole_reply(anthropic_request.FORMAT, sent(server, anthropic_request.body_of(ask)))
    parts = read_parts(anthropic_request.FORMAT, whole)
    return anthropic_request.reply_of(parts, ask), anthropic_request.echo_of(whole)


def chat_with(server: ModelServer, asked: Asked) -> LitellmChat:
    """Give the chat that asks through litellm."""
    params = {"api_base": server.anthropic_base, **asked.params}
    return LitellmChat(Model("m", f"anthropic/{asked.model}", params=params))


async def by_litellm(chat: LitellmChat, asked: Asked) -> Reply:
    """Ask through litellm."""
    return await chat.ask(
        asked.messages, tools=asked.tools, response_schema=asked.schema, settings=asked.settings
    )


def streaming(asked: Asked) -> Asked:
    """Give the same ask of a model that streams."""
    return replace(asked, params={**asked.params, "stream": True})


@held_against_litellm
@pytest.mark.parametrize(("asked", "plan", "streamed"), EACH)
def test_a_reply_says_what_litellm_reads_of_it(
    loop: asyncio.Runner,
    server: ModelServer,
    plans: list[ReplyPlan],
    asked: Asked,
    plan: ReplyPlan,
    streamed: bool,
    request: pytest.FixtureRequest,
) -> None:
    """Text, calls, finish, thoughts and tokens of a reply are those that litellm makes of it."""
    plans.append(plan)
    asked = streaming(asked) if streamed else asked
    parts, _ = by_us(server, asked)
    calls = [(call.name, *parse_arguments(call.arguments_text)) for call in parts.calls]
    finish = finish_of(parts.finish, calls=bool(calls), refused=parts.refused)
    ours, case = (parts.content, calls, finish, parts.reasoning), request.node.callspec.id
    if COMPARED.agreed(case, [*ours, msgspec.to_builtins(parts.usage)]):
        return
    theirs = loop.run(by_litellm(chat_with(server, asked), asked))
    usage = theirs.usage
    assert ours == (
        theirs.text,
        [(call.tool, call.args, call.raw_args) for call in theirs.calls],
        theirs.finish,
        theirs.reasoning,
    )
    assert (parts.usage.input_tokens, parts.usage.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert parts.usage.cached_tokens == usage.cached_tokens
    if plan.reasoning_tokens:
        assert parts.usage.reasoning_tokens == usage.reasoning_tokens == plan.reasoning_tokens
    COMPARED.record(case, [*ours, msgspec.to_builtins(parts.usage)])


@pytest.mark.parametrize("streamed", [False, True])
def test_thoughts_go_back_before_the_calls_that_they_led_to(
    loop: asyncio.Runner, server: ModelServer, plans: list[ReplyPlan], streamed: bool
) -> None:
    """What echo_of gives for a reply stands before its calls in the next body, as litellm puts it there."""
    plans.append(ReplyPlan(calls=(("add", {"a": 1}),), reasoning="Hm."))
    first = Asked([user()], ADAPTS, tools=[ADD], params={"reasoning_effort": "low"})
    first = streaming(first) if streamed else first
    parts, echo = by_us(server, first)
    call = parts.calls[0]
    assert [block["type"] for block in echo] == ["thinking"]
    reply = said("Adding.", (call.id, "add", '{"a": 1}'))
    told = [user(), reply, {"role": "tool", "tool_call_id": call.id, "content": "3"}]
    second = Asked(told, ADAPTS, tools=[ADD], params=first.params)
    body = anthropic_request.body_of(msgspec.structs.replace(ask_of(second), echoes={call.id: echo}))
    kinds = [block["type"] for block in body["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "tool_use"]
    case, sent_back = f"thoughts go back{', streamed' * streamed}", _without_id(body["messages"], call.id)
    if COMPARED.agreed(case, sent_back):
        return
    chat = chat_with(server, first)
    id_of_litellm = loop.run(by_litellm(chat, first)).calls[0].id
    second = replace(second, messages=json.loads(json.dumps(told).replace(call.id, id_of_litellm)))
    loop.run(by_litellm(chat, second))
    assert sent_back == _without_id(server.requests[-1].body["messages"], id_of_litellm)
    COMPARED.record(case, sent_back)


def _without_id(messages: Any, id: str) -> Any:
    return json.loads(json.dumps(messages).replace(id, "call"))


def test_sealed_thoughts_go_back_too() -> None:
    """A thought that only the provider can read is part of the echo; a reply without thoughts has none."""
    sealed = {"type": "redacted_thinking", "data": "eA=="}
    whole = {"content": [{"type": "text", "text": "x"}, sealed]}
    assert anthropic_request.echo_of(whole) == [sealed]
    assert anthropic_request.echo_of({"content": [{"type": "text", "text": "x"}]}) is None


def test_an_echo_stands_beside_its_own_call_only() -> None:
    """The thoughts of one reply are not put before the calls of another."""
    ask = ask_of(Asked(CALLED, tools=[ADD]))
    echoes = {"toolu_9": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}
    body = anthropic_request.body_of(msgspec.structs.replace(ask, echoes=echoes))
    assert body == anthropic_request.body_of(ask)


def test_the_thoughts_of_a_forced_object_are_kept() -> None:
    """Unlike litellm's, a reply whose text stood in a tool keeps its thoughts."""
    whole = {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "tool_use", "id": "t", "name": "json_tool_call", "input": {"sum": 3}},
        ],
        "stop_reason": "tool_use",
    }
    parts = read_parts(anthropic_request.FORMAT, whole)
    told = anthropic_request.reply_of(parts, ask_of(Asked([user()], OLD, schema=OBJECT)))
    assert (told.content, told.calls, told.finish, told.reasoning) == ('{"sum": 3}', (), "stop", "Hm.")


def test_a_tool_of_that_name_is_called_where_no_schema_was_asked_for() -> None:
    """Without a schema, a call of json_tool_call is a call like any other."""
    block = {"type": "tool_use", "id": "t", "name": "json_tool_call", "input": {"sum": 3}}
    parts = read_parts(anthropic_request.FORMAT, {"content": [block], "stop_reason": "tool_use"})
    told = anthropic_request.reply_of(parts, ask_of(Asked([user()])))
    assert [call.name for call in told.calls] == ["json_tool_call"]
