"""Requests of clients become asks, and replies are written as each format's own reader expects them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cassettes.interaction import Request
from pytest_agenteval.cassettes.wire.reader import FORMATS, read_reply, read_request, without_ids
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.chat.bridge.client_ask import ClientAsk, NotExpressible
from pytest_agenteval.chat.bridge.client_reply import ClientReply, write_client_reply
from pytest_agenteval.chat.bridge.model_bridge import ModelBridge, read_client_request
from pytest_agenteval.chat.bridge.openai_requests import namespaced_tools
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.transcript import ToolCall, Usage
from tests.cassettes.wire.exchanges import exchanges

URIS = {
    "openai.chat": "http://h/v1/chat/completions",
    "openai.responses": "http://h/v1/responses",
    "anthropic.messages": "http://h/v1/messages",
    "bedrock.converse": "http://h/model/m/converse",
    "gemini": "http://h/v1beta/models/m:generateContent?alt=sse",
    "ollama.chat": "http://h/api/chat",
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNTS = st.integers(1, 10**6)


SCHEMA = {"type": "object"}


def _requests() -> Iterator[Any]:
    for exchange in exchanges():
        for name, request in (("request", exchange.request), *exchange.echoes()):
            yield pytest.param(exchange.format, request, id=f"{exchange.name}-{name}")


@pytest.mark.parametrize(("format", "request_"), [*_requests()])
def test_a_request_says_the_same_to_another_model_or_is_refused_by_name(
    format: str, request_: Request
) -> None:
    """Messages and tools of an ask are those of the client's request, as a second reader sees both."""
    body = json.loads(str(request_.body))
    ask = _ask_or_refusal(format, body)
    if isinstance(ask, NotExpressible):
        assert "cannot be passed to another model" in str(ask)
        return
    written = {"model": "m", "messages": list(ask.messages)}
    again = read_request("openai.chat", Request("POST", URIS["openai.chat"], json.dumps(written)))
    expected = read_request(format, request_)
    assert _plain(again.messages) == _plain(expected.messages)
    assert [spec.name for spec in ask.tools] == [spec.name for spec in expected.tools]


def _ask_or_refusal(format: str, body: Json) -> ClientAsk | NotExpressible:
    try:
        return read_client_request(format, body)
    except NotExpressible as refused:
        return refused


def _plain(messages: Any) -> list[Any]:
    plain = [without_ids(message) for message in messages]
    # OpenAI's shape has no mark for a failed result, and Ollama's none for the type of a picture.
    plain = [{**it, "content": f"Error: {it['content']}"} if it.pop("error", False) else it for it in plain]
    return [json.dumps(message, sort_keys=True).replace("image image/png, ", "image ") for message in plain]


@given(
    format=st.sampled_from(sorted(FORMATS)),
    streamed=st.booleans(),
    text=TEXTS,
    names=st.lists(st.sampled_from(["look", "write_file"]), max_size=3),
    args=st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers(-9, 9) | TEXTS, max_size=2),
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
    finish=st.sampled_from(["stop", "length"]),
)
def test_a_reply_is_read_as_it_was_written(
    format: str,
    streamed: bool,
    text: str,
    names: list[str],
    args: dict[str, Any],
    counts: tuple[int, int, int, int],
    finish: str,
) -> None:
    """Text, calls, counts and the reason of the end survive in each format, whole and streamed."""
    calls = tuple(ToolCall(f"c{n}", 0, n, name, args) for n, name in enumerate(names))
    read, cached, written, thought = counts
    usage = Usage(read + cached, written + thought, cached, thought, asks=1, attempts=1)
    ending = "tool_calls" if calls else finish
    reply = Reply(text, calls, usage, ending)

    response = write_client_reply(
        format, ClientReply(reply, "m", "1", streamed, path=URIS[format] + ("" if streamed else "?"))
    )
    seen = read_reply(format, Request("POST", URIS[format], '{"model": "m", "messages": []}'), response)

    assert (seen.message["content"], seen.finish) == (read_text(text), ending)
    assert [(call.tool, dict(call.args)) for call in seen.calls] == [(name, args) for name in names]
    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (read + cached, written + thought)


def test_tools_in_a_namespace_are_called_in_it() -> None:
    """Codex has one for each MCP server: another model knows one name of both, and the client gets two."""
    inner = {"type": "function", "name": "look", "parameters": {}}
    named = {"namespace": "mcp__a", "name": "look"}
    asked = {"type": "function_call", "call_id": "c", "arguments": "{}", **named}
    tools = [{"type": "namespace", "name": "mcp__a", "tools": [inner]}]
    ask = read_client_request("openai.responses", {"model": "m", "input": [asked], "tools": tools})
    assert [tool.name for tool in ask.tools] == ["mcp__a__look"]
    assert ask.messages[0]["tool_calls"][0]["function"]["name"] == "mcp__a__look"

    reply = Reply("", (ToolCall("c", 0, 0, "mcp__a__look", {}),), Usage(), "tool_calls")
    written = ClientReply(reply, "m", "1", False, spaces=namespaced_tools(tools))
    response = write_client_reply("openai.responses", written)
    assert json.loads(str(response.body))["output"][0].items() >= named.items()


def read_text(text: str) -> str:
    """Give a text as every reader brings it into normal form."""
    body = {"model": "m", "messages": [{"role": "assistant", "content": text}]}
    (message,) = read_request("openai.chat", Request("POST", URIS["openai.chat"], json.dumps(body))).messages
    return str(message["content"])


PICTURE = "iVBORw0KGgo="
USER = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("openai.chat", {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}]}]}),
        ("openai.responses", {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}]}]}),
        ("anthropic.messages", {"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]}]}),
        ("bedrock.converse", {"messages": [{"role": "user", "content": [
            {"image": {"format": "png", "source": {"bytes": PICTURE}}}]}]}),
        ("gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}]}),
        ("ollama.chat", {"messages": [{"role": "user", "content": "", "images": [PICTURE]}]}),
    ],
)  # fmt: skip
def test_a_picture_is_passed_on_whole(format: str, body: Json) -> None:
    """Each format's picture reaches the other model as it was sent."""
    ask = read_client_request(format, body)
    assert f"data:image/png;base64,{PICTURE}" in json.dumps(list(ask.messages))


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("openai.chat", {"messages": USER, "temperature": 0.5, "max_tokens": 9, "stop": ["."], "seed": 0,
                         "tool_choice": {"type": "function", "function": {"name": "look"}},
                         "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("openai.responses", {"input": "Hi", "temperature": 0.5, "max_output_tokens": 9, "store": False,
                              "tool_choice": {"type": "function", "name": "look"},
                              "text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        ("anthropic.messages", {"messages": USER, "temperature": 0.5, "max_tokens": 9,
                                "stop_sequences": ["."], "tool_choice": {"type": "tool", "name": "look"},
                                "output_format": {"type": "json_schema", "schema": SCHEMA}}),
        ("gemini", {"contents": [{"parts": [{"text": "Hi"}]}],
                    "tool_config": {"function_calling_config": {"allowed_function_names": ["look"]}},
                    "generationConfig": {"temperature": 0.5, "maxOutputTokens": 9, "stopSequences": ["."],
                                         "responseSchema": {"type": "OBJECT"}}}),
        ("ollama.chat", {"messages": USER, "format": {"type": "object"},
                         "options": {"temperature": 0.5, "num_predict": 9, "stop": ["."]}}),
        ("bedrock.converse", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}],
                              "toolConfig": {"tools": [], "toolChoice": {"tool": {"name": "look"}}},
                              "inferenceConfig": {
                                  "temperature": 0.5, "maxTokens": 9, "stopSequences": ["."]}}),
    ],
)  # fmt: skip
def test_settings_of_each_format_reach_the_other_model(format: str, body: Json) -> None:
    """Temperature, limits, stop words, the choice of a tool and a schema have a place in every ask."""
    ask: ClientAsk = read_client_request(format, body)
    assert (ask.settings.temperature, ask.settings.max_tokens) == (0.5, 9)
    assert ask.settings.tool_choice == (None if format == "ollama.chat" else "look")
    assert format == "openai.responses" or ask.settings.extra == {"stop": ["."]}
    assert ask.response_schema == (None if format == "bedrock.converse" else {"type": "object"})
    assert [message["content"] for message in ask.messages] == ["Hi"]
    assert not ask.left_out


@pytest.mark.parametrize(
    ("format", "body", "named"),
    [
        ("openai.chat", {"messages": USER, "n": 3}, "'n'"),
        ("openai.chat", {"messages": USER, "logprobs": True}, "'logprobs'"),
        ("openai.responses", {"input": "Hi", "tools": [{"type": "web_search"}]}, "'web_search'"),
        ("openai.responses", {"input": "Hi", "previous_response_id": "resp_9"}, "'resp_9'"),
        ("anthropic.messages", {"messages": USER, "tools": [{"type": "bash_20250124"}]}, "'bash_20250124'"),
        ("gemini", {"contents": [], "tools": [{"googleSearch": {}}]}, "'googleSearch'"),
        ("gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav"}}]}]}, "'audio/wav'"),
        ("bedrock.converse", {"messages": [], "guardrailConfig": {"id": "g"}}, "'guardrailConfig'"),
        ("openai.chat", {"messages": USER, "web_search_options": {}}, "'web_search_options'"),
        ("openai.responses", {"input": "Hi", "include": ["message.output_text.logprobs"]}, "logprobs"),
        ("gemini", {"contents": [], "tools": [{"functionDeclarations": [], "googleSearch": {}}]}, "'googleS"),
        ("ollama.chat", {"messages": [{"role": "assistant", "images": [PICTURE]}]}, "a picture"),
        ("ollama.chat", {"messages": USER, "format": {"type": "array"}}, "'array'"),
        ("ollama.chat", {"messages": [{"role": "user", "images": 5}]}, "not as ollama.chat has it"),
    ],
)
def test_what_cannot_be_passed_on_is_named(format: str, body: Json, named: str) -> None:
    """A provider's own tools, several replies and the like are an error, and never dropped in silence."""
    with pytest.raises(NotExpressible, match=named):
        read_client_request(format, body)


TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "walk")]
DECLARED = [{"function_declarations": [{"name": "look"}, {"name": "walk"}]}]


@pytest.mark.parametrize(
    ("format", "body", "names", "choice"),
    [
        ("openai.chat", {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "required", "tools": TOOLS[:1]}}}, ["look", "walk"], "look"),
        ("openai.chat", {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": TOOLS[:1]}}}, ["look"], "auto"),
        ("gemini", {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["look", "walk"]}}}, ["look", "walk"], "required"),
        ("gemini", {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {
            "mode": "VALIDATED", "allowedFunctionNames": ["walk"]}}}, ["walk"], "auto"),
        ("gemini", {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
         ["look", "walk"], "none"),
    ],
)  # fmt: skip
def test_a_choice_among_some_tools_offers_only_these(
    format: str, body: Json, names: list[str], choice: str
) -> None:
    """Whatever a format says of which tools may be called, the other model can call no others."""
    ask = read_client_request(format, {"messages": USER, **body})
    assert ([tool.name for tool in ask.tools], ask.settings.tool_choice) == (names, choice)


def test_geminis_schemas_become_json_schemas() -> None:
    """Types in capitals, counts as texts, nullable and names in snake case are what its clients send."""
    schema = {
        "type": "OBJECT",
        "property_ordering": ["min_items"],
        "properties": {
            "min_items": {"type": "ARRAY", "min_items": "1", "items": {"any_of": [{"type": "STRING"}]}},
            "type": {"type": "STRING", "nullable": True, "example": {"type": "HOUSE"}},
        },
    }
    body = {"contents": [], "generationConfig": {"responseSchema": schema}}
    string = {"type": "string"}
    assert read_client_request("gemini", body).response_schema == {
        "type": "object",
        "properties": {
            "min_items": {"type": "array", "minItems": 1, "items": {"anyOf": [string]}},
            "type": {"anyOf": [{**string, "example": {"type": "HOUSE"}}, {"type": "null"}]},
        },
    }


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("format", ["openai.chat", "openai.responses"])
def test_a_refusal_has_its_own_place(format: str, streamed: bool) -> None:
    """Clients that parse a reply look there; a reason that a format lacks stays the provider's own word."""
    for finish, kind in (("content_filter", "refusal"), ("malformed_function_call", "text")):
        written = ClientReply(Reply("No.", (), Usage(), finish), "m", "1", streamed)
        response = write_client_reply(format, written)
        assert f'"{kind}":"No."' in str(response.body) or kind == "text"
        seen = read_reply(format, Request("POST", URIS[format], '{"model": "m", "messages": []}'), response)
        assert (seen.message["content"], seen.finish) == ("No.", finish)


def test_a_timeout_of_the_chat_ends_the_wait() -> None:
    """It is of the class that says that nothing has come yet."""

    class TimingOut:
        async def ask(self, messages: Any, **_: Any) -> Reply:
            raise TimeoutError("too late")

    request = Request("POST", URIS["openai.chat"], json.dumps({"model": "m", "messages": USER}))

    async def answer() -> None:
        bridge = ModelBridge(TimingOut(), Model("m", "openai/m"), asyncio.get_running_loop())
        await asyncio.to_thread(bridge.answer, request, read_request("openai.chat", request), {})

    with pytest.raises(TimeoutError, match="too late"):
        asyncio.run(asyncio.wait_for(answer(), 20))


def test_a_setting_without_a_counterpart_is_noted() -> None:
    """Effort of reasoning belongs to the model that is named: what the client says of it is left out."""
    harmless = {"user": "u", "n": 1, "logprobs": False, "parallel_tool_calls": True, "stop": []}
    ask = read_client_request("openai.chat", {"messages": USER, "reasoning_effort": "high", **harmless})
    assert (ask.left_out, ask.settings.extra) == (["reasoning_effort"], {})
    ask = read_client_request("openai.responses", {"input": "Hi", "text": {"verbosity": "low"}})
    assert ask.left_out == ["verbosity"]
