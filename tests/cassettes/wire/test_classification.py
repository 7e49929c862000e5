"""Which requests ask a model, which only serve one, and which are a tool's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request
from pytest_agenteval.cassettes.wire.classification import classify

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES = {"model": "m", "input": "Hi"}
GEMINI = {"contents": [{"parts": [{"text": "Hi"}]}]}
EMBEDDINGS = {"model": "m", "input": ["Hi"]}


def _post(uri: str, body: Any) -> Request:
    return Request("POST", uri, body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    ("uri", "body", "format"),
    [
        ("https://api.openai.com/v1/chat/completions", CHAT, "openai.chat"),
        (
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api=1",
            CHAT,
            "openai.chat",
        ),
        ("https://r.services.ai.azure.com/models/chat/completions?api-version=1", CHAT, "openai.chat"),
        ("https://openrouter.ai/api/v1/chat/completions", CHAT, "openai.chat"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", CHAT, "openai.chat"),
        ("http://10.0.0.7:8000/chat/completions/", CHAT, "openai.chat"),
        ("http://localhost:4000/v1/responses", RESPONSES, "openai.responses"),
        ("https://r.openai.azure.com/openai/v1/responses?api-version=preview", RESPONSES, "openai.responses"),
        ("http://localhost:4000/anthropic/v1/messages?beta=true", CHAT, "anthropic.messages"),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v1%3A0/invoke",
            {**CHAT, "anthropic_version": "bedrock-2023-05-31"},
            "anthropic.messages",
        ),
        (
            "https://aiplatform.googleapis.com/v1/publishers/anthropic/models/claude:streamRawPredict",
            {**CHAT, "anthropic_version": "vertex-2023-10-16"},
            "anthropic.messages",
        ),
        (
            "https://aiplatform.googleapis.com/v1/publishers/mistralai/m:rawPredict",
            CHAT,
            "openai.chat",
        ),
        ("http://localhost:1/v1beta/models/gemini:streamGenerateContent?alt=sse", GEMINI, "gemini"),
        ("https://aiplatform.googleapis.com/v1/publishers/google/models/g:generateContent", GEMINI, "gemini"),
        ("http://127.0.0.1:11434/api/chat", CHAT, "ollama.chat"),
        ("http://localhost/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ax%2Fy/converse", CHAT, "bedrock.converse"),
    ],
)
def test_asks_are_known_at_any_base_url(uri: str, body: Any, format: str) -> None:
    """Path and body tell an ask and its format, so servers and proxies of any address are seen."""
    assert classify(_post(uri, body)).format == format
    assert classify(_post(uri, body)).kind == "ask"


@pytest.mark.parametrize(
    ("uri", "body"),
    [
        ("https://api.openai.com/v1/embeddings", EMBEDDINGS),
        ("http://localhost:8000/v1/embeddings", EMBEDDINGS),
        ("https://api.openai.com/v1/moderations", {"input": "Hi"}),
        ("https://api.openai.com/v1/files", "--boundary"),
        ("https://api.openai.com/v1/traces/ingest", {"data": []}),
        ("https://api.openai.com/v1/responses/resp_1/cancel", {}),
        ("https://api.openai.com/v1/responses/input_tokens", RESPONSES),
        ("https://api.anthropic.com/v1/messages/count_tokens", CHAT),
        ("http://localhost:1/v1/messages/count_tokens", CHAT),
        ("https://api.anthropic.com/v1/messages/batches", {"requests": []}),
        ("https://api.anthropic.com/api/event_logging/batch", {"events": []}),
        ("https://generativelanguage.googleapis.com/v1beta/models/g:countTokens", GEMINI),
        ("https://generativelanguage.googleapis.com/v1beta/models/g:embedContent", {"content": {}}),
        ("https://generativelanguage.googleapis.com/upload/v1beta/files", "x"),
        ("http://localhost:11434/api/show", {"model": "m"}),
        ("http://localhost:11434/api/embed", EMBEDDINGS),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/count-tokens", {"input": {}}),
    ],
)
def test_what_serves_models_is_no_ask(uri: str, body: Any) -> None:
    """Embeddings, token counts, uploads, moderation and telemetry are the model's traffic, and no steps."""
    assert classify(_post(uri, body)).kind == "auxiliary"


@pytest.mark.parametrize(
    "uri",
    [
        "https://api.openai.com/v1/models",
        "https://api.openai.com/v1/responses/resp_1",
        "http://localhost:11434/api/tags",
        "https://openrouter.ai/api/v1/models",
    ],
)
def test_what_is_fetched_from_a_model_host_is_no_ask(uri: str) -> None:
    """Lists of models and stored replies are fetched without asking anything."""
    assert classify(Request("GET", uri)).kind == "auxiliary"


@pytest.mark.parametrize(
    ("uri", "body"),
    [
        ("https://api.openai.com/v1/completions", {"model": "m", "prompt": "Hi"}),
        ("https://api.openai.com/v1/audio/speech", {"model": "m", "input": "Hi"}),
        ("https://api.openai.com/v1/chat/completions", "not JSON"),
        ("https://api.cohere.com/v2/chat", CHAT),
        ("http://localhost:11434/api/generate", {"model": "m", "prompt": "Hi"}),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.titan/invoke", {"inputText": "Hi"}),
        ("https://api.openai.com/v1/threads/t/runs", {"assistant_id": "a"}),
    ],
)
def test_unknown_forms_at_a_model_host_are_unread(uri: str, body: Any) -> None:
    """What is sent to a model's host in a form that is not known here is never dropped in silence."""
    assert classify(_post(uri, body)).kind == "unread"


@pytest.mark.parametrize(
    ("method", "uri", "body"),
    [
        ("POST", "https://api.example.com/v1/messages", {"to": "Kim", "text": "Hi"}),
        ("POST", "https://api.example.com/v1/messages", {"messages": [{"text": "Hi"}]}),
        ("POST", "https://api.example.com/responses", {"survey": 7, "input": "fine"}),
        (
            "POST",
            "https://app.example.com/api/chat",
            {"id": "1", "messages": [{"role": "user"}]},
        ),
        ("POST", "https://api.example.com/v1/chat/completions", {"messages": "none"}),
        ("GET", "https://api.example.com/v1/models", None),
        ("PUT", "https://api.example.com/v1/chat/completions", CHAT),
        ("POST", "https://api.example.com/graphql", {"query": "{ a }"}),
        ("POST", "https://api.example.com:99999/v1/x", {}),
        ("POST", "not a url", {}),
        ("POST", "http://[broken", CHAT),
    ],
)
def test_tools_of_other_hosts_are_nothing_to_do_with_models(method: str, uri: str, body: Any) -> None:
    """A tool's request is left to the tool's tape, though its path be like a model's."""
    assert classify(Request(method, uri, None if body is None else json.dumps(body))).kind == "other"


@pytest.mark.parametrize(
    ("named", "uri", "kind", "format"),
    [
        ("http://127.0.0.1:8000/llm", "http://127.0.0.1:8000/llm/ask", "ask", "openai.chat"),
        ("http://127.0.0.1:8000/llm/", "http://127.0.0.1:8000/llm/ask", "ask", "openai.chat"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/ask", "ask", "openai.chat"),
        ("models.example.com", "https://models.example.com/ask", "ask", "openai.chat"),
        ("*.example.com", "https://models.example.com/ask", "ask", "openai.chat"),
        ("https://models.example.com", "https://models.example.com:443/ask", "ask", "openai.chat"),
        ("http://127.0.0.1:8000/llm", "http://127.0.0.1:8000/llms/ask", "other", ""),
        ("http://127.0.0.1:8000/llm", "http://127.0.0.1:8001/llm/ask", "other", ""),
        ("http://127.0.0.1:8000/llm", "http://127.0.0.1:8000/llm/health", "auxiliary", ""),
    ],
)
def test_servers_of_unusual_paths_can_be_named(named: str, uri: str, kind: str, format: str) -> None:
    """At a server of which the user says that it is a model's, the body alone tells the format."""
    classified = classify(_post(uri, CHAT), [named])
    assert (classified.kind, classified.format) == (kind, format)
    if kind == "ask":
        assert classify(_post(uri, {"odd": 1}), [named]).kind == "unread"
        assert classify(_post(uri, {**CHAT, "max_tokens": 5, "system": "s"}), [named]).format.startswith(
            "anth"
        )
        assert classify(_post(uri, RESPONSES), [named]).format == "openai.responses"
        assert classify(_post(uri, GEMINI), [named]).format == "gemini"
