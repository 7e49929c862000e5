"""Prices of replies that other people's clients asked for: litellm's own, without litellm."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from pytest_agenteval.chat import price_table
from pytest_agenteval.chat.prices import with_price
from pytest_agenteval.records.transcript import Usage

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


def test_prices_do_not_depend_on_what_is_imported() -> None:
    """The same run costs the same with agents that import litellm and without."""
    code = (
        "import sys; from pytest_agenteval.chat.price_table import rates_of; "
        "print(rates_of('openai/gpt-5-mini', 1000), 'litellm' in sys.modules)"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert there.stdout.strip() == f"{price_table.rates_of('gpt-5-mini', 1000)} False"


def test_what_the_table_lacks_has_no_price() -> None:
    """And is not counted as free."""
    assert with_price("nobodys-model", Usage(5, 5, asks=1)).cost_usd is None
