"""Where requests of models really go: by the user's variables, else to the provider."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_agenteval.agents.model_upstreams import bare_name, keys_of, model_upstreams, wire_of_path
from pytest_agenteval.cassettes.http.loopback_address import Upstream
from pytest_agenteval.records.plan import Model


def upstream(wire: str, **environ: str) -> Upstream:
    """Give the upstream of a wire in an environment."""
    return next(each for each in model_upstreams(environ) if each.name == wire)


@pytest.mark.parametrize(
    ("wire", "environ", "base", "needed"),
    [
        ("openai", {}, "https://api.openai.com/v1", True),
        ("openai", {"OPENAI_API_BASE": "http://gpu:8000/v1/"}, "http://gpu:8000/v1", False),
        ("anthropic", {"ANTHROPIC_BASE_URL": "http://proxy"}, "http://proxy", False),
        ("gemini", {}, "https://generativelanguage.googleapis.com", True),
        ("ollama", {}, "http://127.0.0.1:11434", False),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434", False),
        ("ollama", {"OLLAMA_HOST": "gpu:1234"}, "http://gpu:1234", False),
        ("ollama", {"OLLAMA_HOST": "https://gpu/ollama"}, "https://gpu/ollama", False),
        ("ollama", {"OLLAMA_HOST": "[::1]"}, "http://[::1]:11434", False),
    ],
)
def test_requests_go_where_the_users_variables_say(
    wire: str, environ: Mapping[str, str], base: str, needed: bool
) -> None:
    """Else to the provider's usual address, which wants a key."""
    found = upstream(wire, **environ)
    assert (found.base, found.needed) == (base, needed)


@pytest.mark.parametrize(
    ("id", "key"),
    [("openai/gpt", "OPENAI_API_KEY"), ("groq/llama", "GROQ_API_KEY"), ("mine/qwen", "GPU_KEY")],
)
def test_a_program_gets_the_bare_name_of_a_model_and_not_its_key(id: str, key: str) -> None:
    """The key that the model's alias names is none of the program's either."""
    model = Model("alias", id, api_key_env="GPU_KEY" if key == "GPU_KEY" else "")
    assert bare_name(model) == id.partition("/")[2]
    assert key in keys_of(model)


def test_each_provider_is_signed_for_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header for each; the key is read when it is needed, and no value holds it."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, f"the {name}")
    environ = {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x", "GEMINI_API_KEY": "x"}
    signed = {each.name: dict(each.signature()) for each in model_upstreams(environ)}
    assert signed == {
        "openai": {"Authorization": "Bearer the OPENAI_API_KEY"},
        "anthropic": {"X-Api-Key": "the ANTHROPIC_API_KEY"},
        "gemini": {"X-Goog-Api-Key": "the GEMINI_API_KEY"},
        "ollama": {},
    }
    by_token = upstream("anthropic", ANTHROPIC_AUTH_TOKEN="x")
    assert by_token.signature() == {"Authorization": "Bearer the ANTHROPIC_AUTH_TOKEN"}
    assert "the " not in repr(by_token)
    gemini = upstream("gemini", GEMINI_API_KEY="x")
    assert gemini.url_of("/v1beta/models/m:generateContent?key=agenteval&alt=sse") == (
        "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent?alt=sse"
    )


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/chat/completions", "openai"),
        ("/v1/responses", "openai"),
        ("/models/gpt", "openai"),
        ("/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1beta/models/flash:streamGenerateContent", "gemini"),
        ("/api/chat", "ollama"),
    ],
)
def test_the_path_tells_whose_client_asks(path: str, wire: str) -> None:
    """One address may stand for all providers."""
    assert wire_of_path(path) == wire
