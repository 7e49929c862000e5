"""OpenAI's chat completions, as a direct chat writes them."""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_agenteval.cassettes.wire.reader import read_parts
from pytest_agenteval.chat.chat import ChatSettings
from pytest_agenteval.chat.direct import openai_chat_request
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.openai_chat_request import account_headers, wants_responses
from pytest_agenteval.records.tool_spec import ToolSpec
from tests.chat.litellm_oracle import Compared, held_against_litellm

from .sent_bodies import ADD, ALL, CALLED, PARTS, SCHEMA, SYSTEM, USER, Case, Listener, listening

UNION = ToolSpec(
    "place",
    "Finds a place.",
    {
        "anyOf": [
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "x": {}},
                "required": ["name", "x"],
            },
            {"$ref": "#/$defs/point"},
        ],
        "properties": {"x": {"type": "number"}},
        "required": ["size"],
        "$defs": {"point": {"type": "object", "properties": {"y": {"type": "number"}}, "required": ["x"]}},
    },
)
PATTERNS = ToolSpec(
    "spell",
    "Spells.",
    {
        "type": "object",
        "properties": {
            "word": {"type": "string", "pattern": r"^\p{L}+$"},
            "words": {"type": "array", "items": {"type": "string", "pattern": "^a"}},
            "pattern": {"type": "string", "default": {"pattern": r"\p{L}"}},
        },
        "patternProperties": {r"\p{L}": {"type": "string"}, "^x": {"type": "string", "pattern": r"\p{L}"}},
    },
)
IMAGE_RESULT = [
    *CALLED[:-1],
    {"role": "tool", "tool_call_id": "call_a", "content": PARTS[0]["content"][:3]},
    *USER,
]
LATE_SYSTEM = [*USER, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": None}]
FAMILIES = (
    "openai/gpt-4o",
    "openai/gpt-4",
    "openai/gpt-5",
    "openai/gpt-5.1",
    "openai/gpt-5-chat-latest",
    "openai/gpt-5-search-api",
    "openai/gpt-5.7-mini",
    "openai/o3",
    "openai/my-own",
)
LOW = {"reasoning_effort": "low"}
COLD = ChatSettings(temperature=0.0, top_p=0.5)
CASES = [
    *(Case("plain", id) for id in FAMILIES),
    *(
        Case("all", id, own, CALLED, (ADD,), SCHEMA, ALL)
        for id in FAMILIES
        for own in (True, False)
        if id != "openai/gpt-5.7-mini"
    ),
    *(Case("effort", id, own, SYSTEM, params=LOW) for id in FAMILIES for own in (True, False)),
    *(
        Case("effort-none", id, True, SYSTEM, settings=COLD, params={"reasoning_effort": "none"})
        for id in ("openai/gpt-5", "openai/gpt-5.1", "openai/gpt-5.5", "openai/o3")
    ),
    *(
        Case("effort-xhigh", id, params={"reasoning_effort": "xhigh"})
        for id in ("openai/gpt-5.1", "openai/gpt-5.5", "openai/gpt-5.7-mini")
    ),
    *(
        Case("effort-minimal", id, params={"reasoning_effort": "minimal"})
        for id in ("openai/gpt-5", "openai/gpt-5.5", "openai/gpt-5.7-mini")
    ),
    Case("effort-max", "openai/gpt-5", params={"reasoning_effort": "max"}),
    Case("effort-map", "openai/gpt-5", params={"reasoning_effort": {"effort": "low", "summary": "auto"}}),
    *(Case("warm", id, settings=ChatSettings(temperature=1)) for id in ("openai/gpt-5", "openai/o3")),
    *(Case("cold", id, settings=COLD) for id in ("openai/gpt-5.1", "openai/gpt-5.5", "openai/gpt-5.7-mini")),
    Case("extra", "openai/gpt-4o", settings=COLD, params={"extra_body": {"temperature": 0.5, "own": [1]}}),
    Case("summary", "openai/gpt-5", params={"extra_body": {"reasoning_summary": "auto", "own": 1}}),
    *(
        Case("stream", id, own, params={"stream": True})
        for id in ("openai/gpt-4o", "openai/gpt-5")
        for own in (True, False)
    ),
    *(Case("parts", "openai/gpt-4o", own, PARTS) for own in (True, False)),
    *(Case("union", "openai/gpt-4o", own, tools=(UNION,)) for own in (True, False)),
    *(Case("patterns", "openai/gpt-4o", own, tools=(PATTERNS,)) for own in (True, False)),
    Case("image-result", "openai/gpt-4o", messages=IMAGE_RESULT),
    Case("late-system", "openai/gpt-4o", messages=LATE_SYSTEM),
    Case("choice", "openai/gpt-4o", tools=(ADD,), settings=ChatSettings(tool_choice="add")),
    Case("choice-without-tools", "openai/gpt-4o", settings=ChatSettings(tool_choice="required")),
    Case("open-schema", "openai/gpt-4o", schema={"type": "object", "properties": {"a": {}}}),
    Case("tools-elsewhere", "openai/gpt-5.5", False, CALLED, (ADD,)),
    Case("tools-unthinking", "openai/gpt-5.5", True, CALLED, (ADD,), params={"reasoning_effort": "none"}),
    Case("all", "hosted_vllm/qwen", False, CALLED, (ADD,), SCHEMA, ALL),
    Case("effort", "hosted_vllm/qwen", False, params=LOW),
    Case("parts", "hosted_vllm/qwen", False, PARTS, params={"stream": True}),
    Case("patterns", "hosted_vllm/qwen", False, tools=(PATTERNS,)),
]


VLLM_TOOLS = "openai/ and hosted_vllm/ are asked alike: a tool is declared as OpenAI's validator takes it"
DIFFERENCES: Mapping[str, tuple[str, str]] = {
    "openai.gpt-4o-image-result-own": ("messages", "what is said around the images is in our own words"),
    "hosted_vllm.qwen-all-elsewhere": ("tools", VLLM_TOOLS),
    "hosted_vllm.qwen-patterns-elsewhere": ("tools", VLLM_TOOLS),
}
"""Where the direct chat says something else on purpose: in which key, and why."""


COMPARED = Compared("openai_chat")


@pytest.fixture(scope="module")
def listener(loop: asyncio.Runner) -> Iterator[Listener]:
    """A server that takes down what is sent to it."""
    with listening(loop) as server:
        yield server


@held_against_litellm
def test_the_body_is_the_one_that_litellm_sends(listener: Listener) -> None:
    """What a model is asked does not depend on who asks it, but for what is listed with its reason."""
    for case in CASES:
        body = openai_chat_request.body_of(case.ask())
        assert not wants_responses(case.ask(), case.id.partition("/")[0]), str(case)
        if COMPARED.agreed(str(case), body):
            continue
        sent = listener.by_litellm(case)
        assert sent.path == f"/v1{openai_chat_request.PATH}"
        differing = {name for name in {*body, *sent.body} if body.get(name) != sent.body.get(name)}
        allowed = {DIFFERENCES[str(case)][0]} if str(case) in DIFFERENCES else set()
        assert (str(case), differing) == (str(case), allowed)
        COMPARED.record(str(case), body)


def test_every_difference_is_one_of_a_case() -> None:
    """A difference that no case shows would be listed for ever."""
    assert set(DIFFERENCES) <= set(map(str, CASES))


def test_nothing_of_an_ask_is_written_into() -> None:
    """An ask may be written twice: for a second attempt, and for the tape."""
    case = Case("all", "openai/gpt-4o", True, [*PARTS, *IMAGE_RESULT], (UNION, PATTERNS), SCHEMA, ALL)
    ask, untouched = case.ask(), copy.deepcopy(case.ask())

    assert openai_chat_request.body_of(ask) == openai_chat_request.body_of(ask)

    assert ask == untouched


def test_images_of_results_follow_the_results() -> None:
    """A result holds text only; what stays in it, and in which order images follow, is the tool's own."""
    body = openai_chat_request.body_of(Case("image", "openai/gpt-4o", messages=IMAGE_RESULT).ask())

    result, images, question = body["messages"][-3:]
    assert result == {"role": "tool", "tool_call_id": "call_a", "content": PARTS[0]["content"][:1]}
    assert images["role"] == "user"
    assert [part["type"] for part in images["content"]] == ["text", "image_url", "image_url"]
    assert question == USER[0]


def test_a_result_that_is_nothing_but_an_image_says_where_it_is() -> None:
    """An empty result would say that the tool gave nothing."""
    messages = [{"role": "tool", "tool_call_id": "a", "content": PARTS[0]["content"][1:2]}]
    body = openai_chat_request.body_of(ModelAsk("m", messages))

    assert body["messages"][0]["content"] == "[The images of this result follow in the next message]"


def test_a_server_that_counts_no_stream_is_not_asked_to() -> None:
    """``stream_options`` is left out once a server has refused it."""
    body = openai_chat_request.body_of(ModelAsk("m", USER, streamed=True, counts_streamed=False))

    assert body == {"model": "m", "messages": USER, "stream": True}


def test_the_key_is_the_bearer_s() -> None:
    """Nothing but the key goes into the headers of an address that may be anybody's."""
    assert openai_chat_request.headers_of("sk-a", {}) == {"Authorization": "Bearer sk-a"}


def test_organization_and_project_are_those_that_litellm_names(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPENAI_ORGANIZATION comes before OPENAI_ORG_ID, and what is not set is not sent."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-b")
    monkeypatch.setenv("OPENAI_ORGANIZATION", "org-a")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-a")

    ours = account_headers(os.environ)

    assert ours == {"OpenAI-Organization": "org-a", "OpenAI-Project": "project-a"}
    assert account_headers({"OPENAI_ORG_ID": "org-b"}) == {"OpenAI-Organization": "org-b"}
    assert account_headers({}) == {}
    if not COMPARED.agreed("account", ours):
        sent = listener.by_litellm(Case("headers", "openai/gpt-4o", messages=SYSTEM))
        assert {name: sent.headers[name.lower()] for name in ours} == ours
        COMPARED.record("account", ours)


def _reply(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, **message}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": said}]}


def test_signed_thoughts_go_back_with_the_results_of_their_calls() -> None:
    """A model behind another server's OpenAI API goes on from its thoughts; what is unsigned stays away."""
    thoughts = [{"type": "thinking", "thinking": "Add.", "signature": "s"}]
    echo = openai_chat_request.echo_of(_reply(thinking_blocks=thoughts, reasoning_content="Add."))
    body = openai_chat_request.body_of(ModelAsk("m", CALLED, echoes={"call_a": echo}))

    assert body["messages"][2] == {**CALLED[2], "thinking_blocks": thoughts}
    assert openai_chat_request.echo_of(_reply(reasoning_content="Add.")) is None
    assert openai_chat_request.echo_of({}) is None


@pytest.mark.parametrize("tag", ["think", "thinking"])
def test_thoughts_left_before_the_answer_are_reasoning(tag: str) -> None:
    """Servers without a parser of thoughts leave them in the text; what follows is the answer as it came."""
    parts = read_parts("openai.chat", _reply(content=f"<{tag}>Add\nthem.</{tag}>\n\n3 "))
    reply = openai_chat_request.reply_of(parts, ModelAsk("m", USER))

    assert (reply.reasoning, reply.content) == ("Add\nthem.", "\n\n3 ")


def test_thoughts_left_in_the_text_join_those_of_the_field() -> None:
    """A server's parser may miss some: they are no answer either."""
    parts = read_parts("openai.chat", _reply(content="<think>a</think>b", reasoning_content="Add."))

    reply = openai_chat_request.reply_of(parts, ModelAsk("m", USER))

    assert (reply.reasoning, reply.content) == ("Add.\n\na", "b")


def test_a_call_of_several_tools_at_once_is_those_calls() -> None:
    """Models of OpenAI's call a tool that nobody has given them where they mean several at once."""
    uses = [{"recipient_name": "functions.add", "parameters": {"a": 1}}, {"recipient_name": "sub"}]
    function = {"name": "multi_tool_use.parallel", "arguments": json.dumps({"tool_uses": uses})}
    parts = read_parts("openai.chat", _reply(tool_calls=[{"id": "call_a", "function": function}]))

    calls = openai_chat_request.reply_of(parts, ModelAsk("m", USER)).calls

    assert [(call.id, call.name, call.arguments_text) for call in calls] == [
        ("call_a_0", "add", '{"a":1}'),
        ("call_a_1", "sub", "{}"),
    ]


@pytest.mark.parametrize("arguments", ["", "no JSON", '{"tool_uses": 3}'])
def test_a_call_that_means_nothing_else_stays_as_it_is(arguments: str) -> None:
    """Whoever reads the transcript sees what the model did."""
    function = {"name": "multi_tool_use.parallel", "arguments": arguments}
    parts = read_parts("openai.chat", _reply(tool_calls=[{"id": "call_a", "function": function}]))

    assert [call.name for call in openai_chat_request.reply_of(parts, ModelAsk("m", USER)).calls] == [
        "multi_tool_use.parallel"
    ]
