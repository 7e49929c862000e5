"""Requests to OpenAI's chat completions: what is written, and what goes through litellm instead."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_agenteval.cassettes.wire.reader import read_parts
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.openai_chat_request import (
    account_headers,
    body_of,
    echo_of,
    needs_litellm,
    response_format,
)
from pytest_agenteval.chat.model_prices import price_entry
from pytest_agenteval.records.tool_spec import ToolSpec

USER = [{"role": "user", "content": "What is 1 + 2?"}]
CALL = {"id": "call_a", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CALLED = [
    *USER,
    {"role": "assistant", "content": "I add.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_a", "content": "3"},
]
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}).declaration()
PICTURE = {"type": "image_url", "image_url": {"url": "https://x.test/y.png"}}
LIMITED = {"temperature": 0.0, "top_p": 0.5, "max_tokens": 9}


def ask(model: str = "gpt-4.1", messages: Any = USER, **rest: Any) -> ModelAsk:
    """Give an ask of a model of OpenAI, with what the table of prices says of it."""
    return ModelAsk(model, messages, **{"abilities": price_entry(f"openai/{model}") or {}, **rest})


def test_an_ask_is_written_as_it_is() -> None:
    """Only roles that the model lacks and fields that are null are changed; extra_body comes last."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        *CALLED,
        {"role": "user", "content": [PICTURE]},
    ]
    messages[2] = {**messages[2], "content": None}
    asked = ask(
        messages=messages,
        tools=[ADD],
        response_schema={"type": "object"},
        settings={**LIMITED, "seed": 3, "tool_choice": "add"},
        extra_body={"seed": 4, "own": [1]},
        streamed=True,
    )
    untouched = copy.deepcopy(asked)

    assert body_of(asked) == {
        "model": "gpt-4.1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            USER[0],
            {"role": "assistant", "tool_calls": [CALL]},
            *messages[3:],
        ],
        "tools": [ADD],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": response_format({"type": "object"}),
        "stream": True,
        "stream_options": {"include_usage": True},
        **LIMITED,
        "seed": 4,
        "own": [1],
    }
    assert asked == untouched


@pytest.mark.parametrize(
    ("model", "settings", "written"),
    [
        ("gpt-4.1", {"reasoning_effort": "low", "tool_choice": "required"}, {}),
        ("my-own", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("gpt-5", LIMITED, {"max_completion_tokens": 9}),
        ("gpt-5", {"temperature": 1}, {"temperature": 1}),
        ("gpt-5", {"reasoning_effort": "minimal"}, {"reasoning_effort": "minimal"}),
        ("gpt-5", {"reasoning_effort": "none"}, {}),
        ("gpt-5", {"reasoning_effort": "xhigh"}, {}),
        ("gpt-5", {"reasoning_effort": "max"}, {"reasoning_effort": "max"}),
        ("gpt-5.1", {"temperature": 0, "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (
            "gpt-5.1",
            {"temperature": 0, "reasoning_effort": "none"},
            {"temperature": 0, "reasoning_effort": "none"},
        ),
        ("gpt-5-chat-latest", LIMITED, LIMITED),
    ],
)
def test_settings_are_those_that_the_model_takes(
    model: str, settings: dict[str, Any], written: dict[str, Any]
) -> None:
    """The families differ in the name of the limit, in the temperature, and in the efforts."""
    body = body_of(ask(model, settings=settings))
    assert {name: body[name] for name in body.keys() - {"model", "messages"}} == written


def test_the_table_says_nothing_of_the_effort_max() -> None:
    """It is about the responses API there: the server decides."""
    table = {"supports_max_reasoning_effort": False}
    asked = ask("gpt-5", settings={"reasoning_effort": "max"}, abilities=table)
    assert body_of(asked)["reasoning_effort"] == "max"


def test_a_server_that_counts_no_stream_is_not_asked_to() -> None:
    """``stream_options`` is left out once a server has refused it."""
    asked = ask("m", streamed=True, counts_streamed=False)
    assert body_of(asked) == {"model": "m", "messages": USER, "stream": True}


def tool(**parameters: Any) -> list[dict[str, Any]]:
    """Give one tool with this schema."""
    return [ToolSpec("x", "", {"type": "object", **parameters}).declaration()]


@pytest.mark.parametrize(
    ("asked", "by_litellm"),
    [
        (ask(tools=[ADD], response_schema={}, settings={"reasoning_effort": "low"}), False),
        (ask(messages=[{"role": "user", "content": [PICTURE]}]), False),
        (ask(messages=[*CALLED[:2], {**CALLED[2], "content": [PICTURE]}]), True),
        (ask("qwen", [*CALLED[:2], {**CALLED[2], "content": [PICTURE]}], has_family=False), True),
        (ask("o3"), True),
        (ask("gpt-5-codex"), True),
        (ask("gpt-5-search-api"), True),
        (ask("gpt-5", tools=[ADD], settings={"reasoning_effort": "low"}), False),
        (ask("gpt-5", settings={"reasoning_effort": {"effort": "low", "summary": "auto"}}), True),
        (ask("gpt-5", extra_body={"reasoning_summary": "auto"}), True),
        (ask("gpt-5.3", tools=[ADD]), False),
        (ask("gpt-5.4", tools=[ADD]), True),
        (ask("gpt-5.4"), False),
        (ask("gpt-6.1-sol", tools=[ADD]), True),
        (ask("gpt-6.1-sol", tools=[ADD], own_host=False), False),
        (ask("gpt-6.1-sol", tools=[ADD], own_host=False, settings={"reasoning_effort": "low"}), True),
        (ask("gpt-6.1-sol", tools=[ADD], has_family=False), False),
        (ask(tools=tool(anyOf=[{}])), True),
        (ask(tools=tool(anyOf=[{}]), own_host=False), False),
        (ask(tools=tool(properties={"a": {"pattern": r"\p{L}"}})), True),
    ],
)
def test_what_has_to_be_written_anew_goes_through_litellm(asked: ModelAsk, by_litellm: bool) -> None:
    """That is what needs the responses API, and what OpenAI's own host refuses in tools."""
    assert needs_litellm(asked) == by_litellm


def test_organization_and_project_are_those_of_the_environment() -> None:
    """OPENAI_ORGANIZATION comes before OPENAI_ORG_ID, and what is not set is not sent."""
    environ = {"OPENAI_ORG_ID": "b", "OPENAI_ORGANIZATION": "a", "OPENAI_PROJECT_ID": "p"}
    assert account_headers(environ) == {"OpenAI-Organization": "a", "OpenAI-Project": "p"}
    assert account_headers({"OPENAI_ORG_ID": "b"}) == {"OpenAI-Organization": "b"}
    assert account_headers({}) == {}


def _reply(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, **message}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": said}]}


def test_signed_thoughts_go_back_with_the_results_of_their_calls() -> None:
    """A model behind another server's OpenAI API goes on from its thoughts; what is unsigned stays away."""
    thoughts = [{"type": "thinking", "thinking": "Add.", "signature": "s"}]
    echo = echo_of(_reply(thinking_blocks=thoughts, reasoning_content="Add."))
    body = body_of(ask(messages=CALLED, echoes={"call_a": echo}))

    assert body["messages"][1] == {**CALLED[1], "thinking_blocks": thoughts}
    assert echo_of(_reply(reasoning_content="Add.")) is None
    assert echo_of({}) is None


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "<think>Add\nthem.</think>\n\n3 "}, "\n\n3 ", "Add\nthem."),
        ({"content": "<think>a</think>b", "reasoning_content": "Add."}, "b", "Add.\n\na"),
    ],
)
def test_thoughts_left_in_the_text_are_reasoning(message: dict[str, Any], text: str, reasoning: str) -> None:
    """Servers without a parser of thoughts leave them there; what follows is the answer as it came."""
    parts = read_parts("openai.chat", _reply(**message))
    assert (parts.content, parts.reasoning) == (text, reasoning)


def test_only_a_closed_schema_is_strict() -> None:
    """OpenAI's strict mode wants every key required and no others, at every depth."""
    closed = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    opened = {**closed, "additionalProperties": True}
    nested = {**closed, "properties": {"a": {"anyOf": [opened]}}}
    strict = [response_format(it)["json_schema"]["strict"] for it in (closed, opened, nested, {"a": 1})]
    assert strict == [True, False, False, True]


def test_of_several_choices_the_first_is_read() -> None:
    """As clients do: the one with the lowest index, wherever it stands."""
    choices = [{"index": at, "message": {"content": text}} for at, text in ((1, "b"), (0, "a"))]

    assert read_parts("openai.chat", {"choices": choices}).content == "a"
