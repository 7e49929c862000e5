"""The keys of the benchmark's cache, worked out without its code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import cache_key, catalogue

ORACLE = json.loads((Path(__file__).parents[3] / "oracle" / "ko-cache-keys.json").read_text(encoding="utf-8"))


def test_every_known_call_has_the_key_that_the_benchmark_gives_it() -> None:
    """Arguments are normalised, and keys are made, as the benchmark's own functions do: 187 of 187."""
    wrong = [
        call["tool"]
        for call in ORACLE["calls"]
        if cache_key(call["tool"], call["args"]) != (call["normalised"], call["key"])
    ]
    assert len(ORACLE["calls"]) == 187
    assert not wrong


def test_the_signatures_are_the_benchmarks() -> None:
    """Each of the 33 tools has the signature that was current when the cache was filled."""
    ours = {name: tool["signature"] for name, tool in catalogue().items()}
    assert ours == ORACLE["tool_signature"]


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        ("StockPrice_ls", {"symbol": "005930"}, {"exchgubun": "K", "shcode": "005930"}),
        (
            "CategorySearch_tmap",
            {"centerLon": "37.5", "count": 7},
            {"centerLon": 37.5, "count": 7, "radius": 1},
        ),
        ("MarketList_bithumb", {"isDetails": "yes"}, {"isDetails": True}),
        ("MarketList_bithumb", {"isDetails": "perhaps"}, {"isDetails": "perhaps"}),
        ("AddressToCoord_kakao", {"address": 7, "size": 5}, {"address": "7"}),
        ("USStockPrice_kis", {"symbol": 7}, {"exchange": "NASDAQ", "symbol": "7"}),
        ("StockChart_kis", {"period": "M", "count": "many"}, {"count": "many", "period": "M"}),
    ],
)
def test_arguments_are_forced_into_the_tools_types(
    tool: str, args: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Defaults come in, unknown keys go, and what cannot be of the type stays as it is."""
    assert cache_key(tool, args)[0] == expected
