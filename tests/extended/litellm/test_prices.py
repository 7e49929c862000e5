"""Prices of replies are litellm's own, for models of every provider."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.transcript import Usage

from .differential.test_differential import compared_release

SHAPES = (
    "input_cost_per_token_above_",
    "tiered_pricing",
    "cache_read_input_token_cost",
    "input_cost_per_token",
)
PROMPTS = ((1000, 0), (1000, 600), (32_000, 1), (128_000, 0), (200_000, 10), (250_001, 240_000), (600_000, 7))


@pytest.fixture(scope="module")
def litellm() -> Any:
    """Import it with the table that it came with, which ``tests/conftest.py`` sees to."""
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _sample(table: dict[str, dict[str, Any]]) -> list[str]:
    """Give models of every provider and of every way in which prices are written."""
    chats = {name: entry for name, entry in table.items() if entry.get("mode") in ("chat", "responses")}
    kinds: dict[tuple[Any, str], list[str]] = {}
    for name, entry in chats.items():
        shape = next((shape for shape in SHAPES if any(key.startswith(shape) for key in entry)), "")
        kinds.setdefault((entry["litellm_provider"], shape), []).append(name)
    chance = random.Random(1)
    return [name for names in kinds.values() for name in chance.sample(names, min(2, len(names)))]


@compared_release
def test_prices_are_litellms_own(litellm: Any) -> None:
    """Of cached tokens, long prompts and tiers too; what litellm cannot price of its table is left out."""
    compared = 0
    for name in _sample(litellm.model_cost):
        if "off_peak_pricing" in litellm.model_cost[name]:  # by the hour
            continue
        for prompt, cached in PROMPTS:
            try:
                cost = sum(
                    litellm.cost_per_token(
                        name, prompt_tokens=prompt, completion_tokens=50, cache_read_input_tokens=cached
                    )
                )
            except Exception:
                break
            usage = with_price(name, Usage(prompt, 50, cached, cost_usd=None, asks=1))
            assert (name, prompt, usage.cost_usd) == (name, prompt, pytest.approx(cost) if cost else None)
            compared += 1
    assert compared > 500


APART = (
    {},
    {"cache_writes": 4_000},
    {"cache_writes": 4_000, "hour_writes": 3_000},
    {"audio_input": 2_000, "audio_output": 100},
    {"service_tier": "flex"},
    {"service_tier": "priority"},
)
MODELS_APART = (
    "claude-sonnet-4-5",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gpt-audio",
    "gpt-5-mini",
    "gemini/gemini-2.5-flash",
    "gemini-2.5-pro",
    "dashscope/qwen-turbo",
    "perplexity/sonar-deep-research",
)


@pytest.mark.parametrize("prompt", [10_000, 250_001])
def test_what_has_a_price_of_its_own_is_priced_as_litellm_does(litellm: Any, prompt: int) -> None:
    """What was written to a cache, audio, thoughts, and replies that were quicker or slower than usual."""
    for name in MODELS_APART:
        for told in APART:
            apart = PricedApart(**told)
            cost = sum(
                litellm.cost_per_token(
                    name,
                    usage_object=_in_litellms_words(litellm, prompt, apart),
                    service_tier=apart.service_tier,
                )
            )

            usage = with_price(name, Usage(prompt, 500, 1_000, 200, None, asks=1), apart)

            assert (name, told, usage.cost_usd) == (name, told, pytest.approx(cost))


def _in_litellms_words(litellm: Any, prompt: int, apart: PricedApart) -> Any:
    words, for_an_hour = litellm.types.utils, apart.hour_writes
    kept = {"ephemeral_5m_input_tokens": apart.cache_writes - for_an_hour}
    return words.Usage(
        prompt_tokens=prompt,
        completion_tokens=500,
        prompt_tokens_details=words.PromptTokensDetailsWrapper(
            cached_tokens=1_000,
            audio_tokens=apart.audio_input,
            cache_creation_tokens=apart.cache_writes,
            cache_creation_token_details=words.CacheCreationTokenDetails(
                **kept, ephemeral_1h_input_tokens=for_an_hour
            ),
        ),
        completion_tokens_details=words.CompletionTokensDetailsWrapper(
            reasoning_tokens=200, audio_tokens=apart.audio_output
        ),
    )
