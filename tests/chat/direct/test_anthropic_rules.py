"""What Anthropic asks of a request, of whatever conversation it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts, WireCall
from pytest_agenteval.chat.direct.anthropic_request import (
    LONGEST_NAME,
    body_of,
    headers_of,
    reply_of,
    tool_names,
)
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.provider_schemas import anthropic_input_schema, anthropic_reply_schema
from pytest_agenteval.records.tool_spec import ToolSpec

from .anthropic_asks import PDF, PNG, image, result, said, system, text, user

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
WORDS = st.sampled_from(["", " ", "Well?", "x \n", "é"])
CONTENT = WORDS | st.lists(WORDS.map(text) | st.sampled_from([image(PNG), image({"url": PDF})]), max_size=3)
IDS = st.sampled_from(["t1", "t2", "a.b", "a:b", ""])
CALL = st.tuples(IDS, st.sampled_from(["add", "now"]), st.sampled_from(["{}", '{"a": 1}', "[1]", "{"]))
ANY = st.one_of(
    CONTENT.map(user),
    CONTENT.map(system),
    st.builds(lambda words, calls: said(words, *calls), WORDS | st.none(), st.lists(CALL, max_size=2)),
    st.builds(result, IDS, CONTENT),
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Give a conversation in which each call has its result, with words of the system anywhere."""
    messages, made = [user()], 0
    for kind in draw(st.lists(st.sampled_from(["user", "said", "system", "calls"]), max_size=8)):
        if kind == "calls":
            count = draw(st.integers(1, 3))
            ids = [f"toolu.{made + at}" for at in range(count)]
            made += count
            messages.append(said(draw(WORDS), *((id, "add", "{}") for id in ids)))
            messages += [system()] * draw(st.integers(0, 1))
            messages += [result(id, draw(CONTENT)) for id in ids]
        else:
            messages.append({"user": user, "said": said, "system": system}[kind](draw(WORDS)))
    return messages


def ask(messages: Sequence[Any], *, takes_system: bool = False, **told: Any) -> ModelAsk:
    """Give an ask of a model that takes a later system message, or none."""
    return ModelAsk("m", messages, abilities={"supports_mid_conversation_system": takes_system}, **told)


@given(st.lists(ANY, max_size=8), st.booleans())
def test_turns_take_turns(messages: list[dict[str, Any]], takes_system: bool) -> None:
    """User and model alternate; the system comes behind the user, and before the model or last."""
    sent = body_of(ask(messages, takes_system=takes_system))["messages"]
    roles = [message["role"] for message in sent]
    spoken = [role for role in roles if role != "system"]
    assert all(before != after for before, after in pairwise(spoken))
    for place, role in enumerate(roles):
        if role == "system":
            assert takes_system
            assert roles[:place][-1:] == ["user"]
            assert roles[place + 1 : place + 2] in ([], ["assistant"])


@given(st.lists(ANY, max_size=8), st.booleans())
def test_no_message_and_no_text_is_empty(messages: list[dict[str, Any]], takes_system: bool) -> None:
    """Each message holds a block, each text words, and each id letters that the provider knows."""
    body = body_of(ask(messages, takes_system=takes_system))
    for message in body["messages"]:
        assert message["content"]
        for block in message["content"]:
            if block["type"] == "text" and message["role"] != "system":
                assert block["text"].strip()
            if id := block.get("id") or block.get("tool_use_id"):
                assert NAME.fullmatch(id)
        ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert len(ids) == len(set(ids))
    assert all(block["text"].strip() for block in body.get("system", ()))


@given(exchanges(), st.booleans())
def test_results_come_right_after_their_calls(messages: list[dict[str, Any]], takes_system: bool) -> None:
    """Where each call has a result, they begin the next message, whatever the system says in between."""
    sent = body_of(ask(messages, takes_system=takes_system))["messages"]
    for place, message in enumerate(sent):
        called = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if called:
            answers = sent[place + 1]["content"][: len(called)]
            assert [block.get("tool_use_id") for block in answers] == called


@given(st.lists(st.text("ab._/é", min_size=1, max_size=6) | st.just("x." * 80), unique=True, max_size=8))
def test_each_tool_keeps_a_name_of_its_own(names: list[str]) -> None:
    """Names on the wire are of the provider's alphabet, differ, and lead back to the tools."""
    tools = [ToolSpec(name).declaration() for name in names]
    wire = [tool["name"] for tool in body_of(ask([user()], tools=tools)).get("tools", ())]
    assert len(set(wire)) == len(names)
    assert all(NAME.fullmatch(name) for name in wire)
    parts = ReplyParts(calls=[WireCall(f"t{at}", name, {}) for at, name in enumerate(wire)])
    told = reply_of(parts, ask([user()], tools=tools))
    assert [call.name for call in told.calls] == names


def test_a_good_name_stays_with_its_tool() -> None:
    """A tool whose name is good keeps it, though another that came before would take it."""
    tools = [ToolSpec(name).declaration() for name in ("a.b", "a_b", "y" * LONGEST_NAME, "y" * 200)]
    long = "y" * (LONGEST_NAME - 2) + "_2"
    assert tool_names(tools) == {"a.b": "a_b_2", "y" * 200: long}


def test_a_call_of_the_providers_keeps_its_name() -> None:
    """Only the agent's calls get the names of its tools: another tool may have the wire's."""
    tools = [ToolSpec("a.b").declaration()]
    parts = ReplyParts(calls=[WireCall("t1", "a_b", {}, "provider"), WireCall("t2", "a_b", {})])
    told = reply_of(parts, ask([user()], tools=tools))
    assert [call.name for call in told.calls] == ["a_b", "a.b"]


@pytest.mark.parametrize(
    ("body", "betas"),
    [
        ({}, None),
        ({"output_format": {}}, "structured-outputs-2025-11-13"),
        ({"output_config": {"format": {}}}, "structured-outputs-2025-11-13"),
        ({"output_config": {"effort": "low"}}, "effort-2025-11-24"),
        ({"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}}, None),
        ({"context_management": {"edits": []}}, "context-management-2025-06-27"),
        ({"mcp_servers": [{}]}, "mcp-client-2025-04-04"),
        ({"tools": [{"type": "web_fetch_20250910"}, {"name": "x"}]}, "web-fetch-2025-09-10"),
    ],
)
def test_a_beta_is_named_where_the_body_uses_it(body: dict[str, Any], betas: str | None) -> None:
    """The provider wants to be told which betas a request uses, and of no other."""
    headers = headers_of("k", body)
    assert headers.get("anthropic-beta") == betas
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")


def test_a_kept_file_in_a_result_is_a_beta_too() -> None:
    """A file that the provider keeps needs its beta wherever it stands."""
    shown = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    body = {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [shown]}]}]}
    assert headers_of("k", body)["anthropic-beta"] == "files-api-2025-04-14"


def test_a_subscription_goes_as_a_bearer() -> None:
    """The token of a subscription is no key: it stands in another header, with its beta."""
    headers = headers_of("sk-ant-oat01-x", {"output_format": {}})
    assert headers["authorization"] == "Bearer sk-ant-oat01-x"
    assert headers["anthropic-beta"] == "oauth-2025-04-20,structured-outputs-2025-11-13"
    assert "x-api-key" not in headers


def test_no_key_is_no_header() -> None:
    """Where there is no key, none is named."""
    assert set(headers_of("", {})) == {"anthropic-version"}


def test_a_reference_that_leads_into_itself_ends() -> None:
    """A schema that holds itself is written out once, and then referred to."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    inner = anthropic_reply_schema(schema)["properties"]["next"]
    assert inner == {"$ref": "#/$defs/Node"}


def test_arguments_are_an_objects() -> None:
    """The schema of arguments is that of an object, and says at its top only what the provider knows."""
    assert anthropic_input_schema({"type": "string", "title": "T", "examples": []}) == {
        "type": "object",
        "properties": {},
    }


def test_extra_body_has_the_last_word() -> None:
    """What the user adds to the body lies over what we write, key by key."""
    body = body_of(ask([user()], extra_body={"max_tokens": 7, "top_k": 3}, settings={"max_tokens": 9}))
    assert (body["max_tokens"], body["top_k"]) == (7, 3)
