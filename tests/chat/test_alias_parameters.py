"""What an alias says of a model reaches the provider: nothing of it is dropped in silence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.models import resolve

from .bench import QUESTION, ModelServer

pytestmark = pytest.mark.filterwarnings("ignore")

TABLE: dict[str, Any] = {
    "reasoning_effort": "low",
    "seed": 7,
    "extra_body": {"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}},
}


def _sent(loop: asyncio.Runner, id: str, **table: Any) -> dict[str, Any]:
    with ModelServer() as server:
        base = server.anthropic_base if id.startswith("anthropic/") else server.openai_base
        model = resolve("mine", {"mine": {"id": id, "api_base": base, **table}}, frozenset())
        loop.run(LitellmChat(model).ask(QUESTION))
        (request,) = server.requests
        body: dict[str, Any] = request.body
        return body


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm", "lm_studio", "llamafile"])
def test_effort_seed_and_extra_body_reach_openais_kind(loop: asyncio.Runner, provider: str) -> None:
    """Whatever litellm knows of the model's name."""
    body = _sent(loop, f"{provider}/qwen3", **TABLE)
    assert {key: body.get(key) for key in ("reasoning_effort", "seed", "top_k")} == {
        "reasoning_effort": "low",
        "seed": 7,
        "top_k": 5,
    }
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "extra_body" not in body


def test_anthropic_is_sent_its_own_words(loop: asyncio.Runner) -> None:
    """Effort as thinking; what stands in extra_body as keys of the request."""
    body = _sent(loop, "anthropic/claude-sonnet-4-5", **{**TABLE, "extra_body": {"top_k": 5}})
    assert body["thinking"]["type"] == "enabled"
    assert body["top_k"] == 5
    assert not {"reasoning_effort", "seed", "extra_body"} & body.keys()
