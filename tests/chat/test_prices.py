"""Prices of replies by the table that comes with litellm, without litellm."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pytest_agenteval.chat import model_prices
from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.transcript import Usage

ENTRY = {
    "litellm_provider": "p",
    "input_cost_per_token": 1.0,
    "output_cost_per_token": 10.0,
    "cache_read_input_token_cost": 0.5,
    "cache_creation_input_token_cost": 2.0,
    "cache_creation_input_token_cost_above_1hr": 3.0,
    "input_cost_per_audio_token": 4.0,
    "output_cost_per_audio_token": 20.0,
    "output_cost_per_reasoning_token": 30.0,
    "input_cost_per_token_above_200k_tokens": 1.5,
    "input_cost_per_token_flex": 0.25,
}


@pytest.mark.parametrize(
    ("usage", "apart", "cost"),
    [
        (Usage(10, 2, asks=1), {}, 30.0),
        (Usage(10, 2, 4, asks=1), {}, 6 + 2 + 20),
        (Usage(10, 2, 0, 1, asks=1), {}, 10 + 10 + 30),
        (Usage(10, 2, asks=1), {"cache_writes": 4, "hour_writes": 1}, 6 + 6 + 3 + 20),
        (Usage(10, 2, asks=1), {"audio_input": 3, "audio_output": 1}, 7 + 12 + 10 + 20),
        (Usage(10, 2, asks=1), {"service_tier": "flex"}, 2.5 + 20),
        (Usage(200_001, 0, asks=1), {}, 300_001.5),
        (Usage(200_000, 0, asks=1), {}, 200_000.0),
    ],
)
def test_each_kind_of_token_has_its_own_rate(
    monkeypatch: pytest.MonkeyPatch, usage: Usage, apart: dict[str, Any], cost: float
) -> None:
    """``tests/extended/litellm`` compares the whole table with litellm's own arithmetic."""
    monkeypatch.setattr(model_prices, "price_entry", {"m": ENTRY}.get)
    assert with_price("m", usage, PricedApart(**apart)).cost_usd == pytest.approx(cost)


@pytest.mark.parametrize("region", ["us.", "eu.", "apac.", "global.", "jp."])
def test_a_model_of_bedrock_has_its_price_in_every_region(region: str) -> None:
    """Under names that the table has not, which are asked across regions, it has the model's own."""
    name = f"{region}anthropic.claude-v2:1"
    usage = Usage(1000, 50, cost_usd=None, asks=1)

    assert with_price(name, usage).cost_usd == with_price("anthropic.claude-v2:1", usage).cost_usd is not None


def test_prices_do_not_depend_on_what_is_imported() -> None:
    """The same run costs the same with agents that import litellm and without."""
    code = (
        "import sys; from pytest_agenteval.chat.model_prices import token_rates; "
        "print(token_rates('openai/gpt-5-mini', 1000), 'litellm' in sys.modules)"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert there.stdout.strip() == f"{model_prices.token_rates('gpt-5-mini', 1000)} False"


def test_what_the_table_lacks_has_no_price() -> None:
    """And is not counted as free."""
    assert with_price("nobodys-model", Usage(5, 5, asks=1)).cost_usd is None
