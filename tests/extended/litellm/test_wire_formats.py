"""What litellm understands of an exchange, and what it sends back, is what we read of both."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request, Response, bytes_of
from pytest_agenteval.cassettes.wire.classification import classify
from pytest_agenteval.cassettes.wire.reader import read_reply, read_request
from pytest_agenteval.records.plan import Via
from tests.cassettes.wire.exchanges import Exchange, exchanges
from tests.chat import test_asking, test_broken_installs, test_odd_replies, test_retries, test_streaming

LITELLM = tuple(map(int, version("litellm").split(".")[:2]))

MODELS = {
    "openai.chat": "openai/gpt-4o",
    "openai.responses": "openai/responses/gpt-5",
    "anthropic.messages": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama.chat": "ollama_chat/qwen3",
    "bedrock.converse": "bedrock/converse/anthropic.claude-sonnet-4-5-20250929-v1:0",
}
OTHERWISE = {
    "openai_chat/code_agent": "code is closed as smolagents closes it",
    "openai_chat/refusal": "litellm leaves the refusal out of what it sends back",
    "openai_chat/legacy_function": "litellm hands the legacy call on as such",
    "openai_chat/thoughts": "litellm leaves a place for thoughts, by model",
    "openai_responses/provider_tools": "litellm tells nothing of the provider's own calls",
    "anthropic_messages/server_tools": "litellm takes the provider's calls for the agent's",
    "gemini/provider_tools": "litellm leaves out what the provider's tools read",
    "gemini/blocked": "litellm raises where the prompt is blocked",
}
"""Exchanges that litellm reads in another way than we do, and how."""

EXCHANGES = [
    it
    for it in exchanges()
    if "reply" in it.expected and "cut_off" not in it.name and it.name not in OTHERWISE
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    response: Response
    requests: list[Request]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        host = f"http://{self.headers['Host']}"
        self.server.requests.append(Request("POST", host + self.path, body))
        raw = bytes_of(self.server.response.body)
        self.send_response(self.server.response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def _serving(response: Response) -> Iterator[_Server]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.response, server.requests = response, []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(exchange: Exchange, server: _Server, messages: list[dict[str, Any]]) -> Any:
    import litellm

    place = f"http://127.0.0.1:{server.server_address[1]}"
    settings: dict[str, Any] = {"api_base": place, "api_key": "none"}
    if exchange.format == "bedrock.converse":
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region_name": "eu-west-1"}
        settings = {"aws_bedrock_runtime_endpoint": place, **keys}
    if exchange.format == "gemini":
        settings["api_base"] = f"{place}/v1beta/models/gemini-2.5-flash"
    settings |= {"model": MODELS[exchange.format], "tools": [TOOL], "num_retries": 0, "max_retries": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return litellm.completion(messages=messages, **settings)


def _whole(exchange: Exchange) -> Response:
    """Give the response that is no stream."""
    for _, response in exchange.responses():
        with suppress(ValueError):
            json.loads(bytes_of(response.body))
            return response
    raise AssertionError(f"{exchange.name} has streams only")


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda it: it.name)
def test_litellm_reads_and_sends_back_the_same(exchange: Exchange) -> None:
    """Text, calls and tokens are those that litellm tells; what it sends back goes on from the reply."""
    with _serving(_whole(exchange)) as server:
        question = [{"role": "system", "content": "Terse."}, {"role": "user", "content": "Hi"}]
        answer = _ask(exchange, server, question)
        (request,) = server.requests
        assert (classify(request).kind, classify(request).format) == ("ask", exchange.format)
        asked = read_request(exchange.format, request)
        reply = read_reply(exchange.format, request, server.response)
        assert list(asked.messages) == question
        assert [spec.name for spec in asked.tools] == ["get_weather"]
        told = answer.choices[0].message
        assert _understood(told) == (
            reply.message["content"],
            [(it.tool, dict(it.args)) for it in reply.calls],
        )
        counts = reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens
        for count, of_litellm in zip(counts, _counted(answer.usage), strict=True):
            assert count in (None, of_litellm)  # litellm makes 0 of what a provider leaves out
        results = [{"role": "tool", "tool_call_id": it.id, "content": "snow"} for it in told.tool_calls or ()]
        last = results or [{"role": "user", "content": "Go on."}]
        _ask(exchange, server, [*question, told.model_dump(exclude_none=True), *last])
        later = read_request(exchange.format, server.requests[-1]).messages
        assert later[:3] == (*asked.messages, reply.message)
        assert [it["content"] for it in later[3:]] == [it["content"] for it in last]
        ids = [call["id"] for call in reply.message.get("tool_calls", ())]
        assert [it.get("tool_call_id") for it in later[3:]] == (ids or [None])


def _understood(told: Any) -> tuple[str, list[tuple[str, Any]]]:
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in told.tool_calls or ()]
    return (told.content or "").strip(), calls


def _counted(usage: Any) -> tuple[int, int, int]:
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    return usage.prompt_tokens, usage.completion_tokens, cached or 0


# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
WAYS: tuple[tuple[str, Via], ...] = (("openai", "litellm"), ("anthropic", "litellm"))

for module in (test_asking, test_odd_replies, test_retries, test_streaming):
    room = module.__name__.rpartition(".test_")[2]
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    globals().update({f"{name}_{room}": test for name, test in tests.items()})


@pytest.mark.skipif(LITELLM >= (1, 110), reason="litellm 1.110 no longer imports mcp for tools")
def test_a_release_of_mcp_that_does_not_fit_is_named_at_once(tmp_path: Path) -> None:
    """litellm imports it once tools are passed: nothing is sent, and the versions to install are named."""
    broken = "raise ImportError(\"cannot import name 'CacheableResult' from 'mcp.types'\")"
    test_broken_installs.check_broken_import(tmp_path, "mcp", broken, "CacheableResult")
