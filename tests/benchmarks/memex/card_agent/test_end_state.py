"""When a card counts as finished, against Memex's own answers (tests/oracle/memex_card.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.card_agent.agent import was_saved
from pytest_agenteval.benchmarks.memex.journal import card_end_state
from pytest_agenteval.records.transcript import ToolCall, ToolError
from tests.yaml_files import read_yaml

ORACLE = read_yaml(Path(__file__).parents[3] / "oracle/memex_card.yaml")
CASES = [case for case in ORACLE["cases"] if case["grader"] == "derive.card_evidence"]
FACT = "2026/05/25.md#ts_1"


def _calls(case: Mapping[str, Any]) -> list[ToolCall]:
    error = ToolError("tool_error", "no")
    return [
        ToolCall(str(number), 1, 0, call["t"], call["a"], error=error if call.get("err") else None)
        for number, call in enumerate(case["calls"])
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_evidence_is_as_upstream(case: Mapping[str, Any]) -> None:
    """Completeness and the missing requirements, in their order, are those of the original."""
    saved = was_saved(FACT, _calls(case)) or not case.get("require_save", True)
    state = card_end_state(case["card"], FACT, saved)

    assert {key: state[key] for key in case["expect"]} == case["expect"]


def test_a_template_without_an_id_has_the_old_name() -> None:
    """A stored template without an id counts as the one id that no agent can choose."""
    card = {"ui_configs": [{"data": {}}, {"template_id": ""}, "odd", {"template_id": "task"}], "tags": "odd"}
    state = card_end_state(card, FACT, True)

    assert state["template_ids"] == ["classic_card"] * 3 + ["task"]
    assert state["card_tags"] == []


def test_a_cards_own_failure_is_the_reason() -> None:
    """What the card says of its failure goes before what is missing."""
    state = card_end_state({"status": "failed", "failure_reason": "no model"}, FACT, True)

    assert state["failure_reason"] == "no model"
    assert state["status"] == "failed"


@pytest.mark.parametrize("title", ["", "  ", None, ["a"]])
def test_a_blank_title_is_no_title(title: object) -> None:
    """White space, and what is no text, does not make a title."""
    assert "title_present" in card_end_state({"title": title}, FACT, True)["missing_requirements"]
