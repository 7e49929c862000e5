"""Requests to Anthropic's messages: what is written, and what goes through litellm instead."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.chat.direct.anthropic_request import (
    EMPTY_TEXT,
    body_of,
    echo_of,
    headers_of,
    needs_litellm,
)
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.tool_spec import ToolSpec

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}).declaration()
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
ADAPTS = {"supports_adaptive_thinking": True, "max_output_tokens": 64}
THINKS = {"supports_reasoning": True, "max_output_tokens": 64}


def user(content: Any = "What is 1 + 2?") -> dict[str, Any]:
    """Give what a user writes."""
    return {"role": "user", "content": content}


def called(*calls: tuple[str, str, str], text: Any = "") -> dict[str, Any]:
    """Give a reply with calls: id, tool and arguments as text."""
    made = [{"id": id, "function": {"name": name, "arguments": args}} for id, name, args in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def result(id: str, content: Any = "3") -> dict[str, Any]:
    """Give the result of a call."""
    return {"role": "tool", "tool_call_id": id, "content": content}


def text(words: str) -> dict[str, Any]:
    """Give a part that is a text."""
    return {"type": "text", "text": words}


SYSTEM = {"role": "system", "content": "Be brief."}


def ask(*messages: Mapping[str, Any], **rest: Any) -> ModelAsk:
    """Give an ask of a model that thinks, with a tool."""
    return ModelAsk("m", messages or (user(),), **{"tools": [ADD], "abilities": THINKS, **rest})


def test_a_conversation_is_turns_of_blocks() -> None:
    """System messages come first, results are the user's, and thoughts precede the calls they led to."""
    calls = called(("t.1", "add", '{"a": 1}'), ("t2", "add", "no JSON"), text="I add.")
    asked = ask(SYSTEM, user(), calls, result("t.1"), result("t2", [text("x")]), user("Well?"), called())
    asked = ask(*asked.messages, user(""), echoes={"t.1": [SIGNED], "t2": ["not these"]})
    untouched = copy.deepcopy(asked)

    body = body_of(asked)

    uses = [
        {"type": "tool_use", "id": "t_1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "add", "input": {"INVALID_JSON": "no JSON"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "t_1", "content": "3"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [text("x")]},
    ]
    assert body == {
        "model": "m",
        "system": [text("Be brief.")],
        "messages": [
            {"role": "user", "content": [text("What is 1 + 2?")]},
            {"role": "assistant", "content": [SIGNED, text("I add."), *uses]},
            {"role": "user", "content": [*results, text("Well?")]},
            {"role": "assistant", "content": [text(EMPTY_TEXT)]},
            {"role": "user", "content": [text(EMPTY_TEXT)]},
        ],
        "max_tokens": 64,
        "tools": [
            {
                "name": "add",
                "input_schema": ADD["function"]["parameters"],
                "type": "custom",
                "description": "Adds.",
            }
        ],
    }
    assert asked == untouched


@given(
    st.lists(
        st.sampled_from([user(), user(" "), called(), called(("t", "add", "{}")), result("t")]), max_size=8
    )
)
def test_user_and_model_alternate(messages: list[dict[str, Any]]) -> None:
    """Of whatever conversation: no message is empty, and no text is blank."""
    sent = body_of(ask(*messages, user()))["messages"]
    roles = [message["role"] for message in sent]
    assert all(before != after for before, after in pairwise(roles))
    for message in sent:
        assert message["content"]
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")


@pytest.mark.parametrize(
    ("settings", "abilities", "written"),
    [
        ({"temperature": 0, "top_p": 0.9, "seed": 3}, THINKS, {"temperature": 0, "top_p": 0.9}),
        ({"temperature": 0, "top_p": 0.9}, {**THINKS, "supports_sampling_params": False}, {}),
        ({"temperature": 1}, {**THINKS, "supports_sampling_params": False}, {"temperature": 1}),
        ({"max_tokens": 7}, THINKS, {"max_tokens": 7}),
        ({}, {"max_tokens": 9}, {"max_tokens": 9}),
        ({}, {}, {"max_tokens": 128_000}),
        ({"tool_choice": "auto"}, THINKS, {"tool_choice": {"type": "auto"}}),
        ({"tool_choice": "required"}, THINKS, {"tool_choice": {"type": "any"}}),
        ({"tool_choice": "add"}, THINKS, {"tool_choice": {"type": "tool", "name": "add"}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
            THINKS,
            {"tool_choice": {"type": "tool", "name": "add"}},
        ),
        (
            {"tool_choice": "required"},
            {**THINKS, "supports_forced_tool_use": False},
            {"tool_choice": {"type": "auto"}},
        ),
        (
            {"tool_choice": "none"},
            {**THINKS, "supports_forced_tool_use": False},
            {"tool_choice": {"type": "none"}},
        ),
        ({"reasoning_effort": "none"}, THINKS, {}),
        ({"reasoning_effort": "low"}, {"max_tokens": 9}, {"max_tokens": 9}),
        (
            {"reasoning_effort": "low"},
            THINKS,
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 5120},
        ),
        (
            {"reasoning_effort": "minimal"},
            ADAPTS,
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "low"},
            },
        ),
    ],
)
def test_settings_are_those_that_the_model_takes(
    settings: dict[str, Any], abilities: dict[str, Any], written: dict[str, Any]
) -> None:
    """By the provider's names; the length of a reply is always limited."""
    body = body_of(ask(settings=settings, abilities=abilities))
    rest = {name: body[name] for name in body.keys() - {"model", "messages", "tools"}}
    assert rest == {"max_tokens": 64, **written}


def test_an_unknown_effort_is_the_users_mistake() -> None:
    """No retry would help, and the words name the efforts that there are."""
    with pytest.raises(AttemptFailed, match=r"expected none, minimal, low.*found 'hgih'") as failed:
        body_of(ask(settings={"reasoning_effort": "hgih"}))
    assert not failed.value.retryable


@pytest.mark.parametrize(
    "asked",
    [
        ask(response_schema={"type": "object"}),
        ask(extra_body={"top_k": 3}),
        ask(SYSTEM),
        ask(user(), called(text="3,")),
        ask(user(), SYSTEM, user()),
        ask(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}])),
        ask(user(), called(("t", "add", "{}")), result("t", [{"type": "file"}])),
        ask(user(), called(("t", "add", "{}")), result("t"), tools=()),
        ask(user(), {**called(("t", "add", "{}")), "thinking_blocks": [SIGNED]}, result("t")),
        ask(tools=[ToolSpec("files.read").declaration()]),
        ask(tools=[ToolSpec("x" * 129).declaration()]),
        ask(tools=[ToolSpec("x", "", {"definitions": {}}).declaration()]),
    ],
)
def test_what_is_more_than_text_and_tools_goes_through_litellm(asked: ModelAsk) -> None:
    """Schemas, media, further settings, names and references that have to be written anew."""
    assert needs_litellm(asked)


@pytest.mark.parametrize(
    "asked",
    [
        ask(tools=()),
        ask(SYSTEM, user([text("a")]), called(("t", "add", "{}"), text=None), result("t", [text("3")])),
        ask(settings={"reasoning_effort": "low", "tool_choice": "add"}, streamed=True),
    ],
)
def test_text_and_tools_stay_direct(asked: ModelAsk) -> None:
    """litellm takes seconds to import, and milliseconds for each request."""
    assert not needs_litellm(asked)


def test_signed_thoughts_are_the_echo_of_a_reply() -> None:
    """The provider checks its own signature; a reply without thoughts has no echo."""
    sealed = {"type": "redacted_thinking", "data": "eA=="}
    assert echo_of({"content": [SIGNED, {"type": "thinking", "thinking": "?"}, text("x"), sealed]}) == [
        SIGNED,
        sealed,
    ]
    assert echo_of({"content": [text("x")]}) is None


def test_a_subscriptions_key_is_a_bearer() -> None:
    """Any other key has a header of its own."""
    assert headers_of("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    headers = headers_of("sk-ant-oat01-x")
    assert headers["authorization"] == "Bearer sk-ant-oat01-x"
    assert re.fullmatch(r"oauth-[\d-]+", headers["anthropic-beta"])
    assert "x-api-key" not in headers
