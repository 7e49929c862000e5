"""When an entry counts as dealt with, against Memex's own answers (tests/oracle/memex_pkm_evidence.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import INSIGHT, SKIP, pkm_end_state
from pytest_agenteval.records.transcript import ToolCall, ToolError
from tests.yaml_files import read_yaml

ORACLE = Path(__file__).parents[3] / "oracle/memex_pkm_evidence.yaml"
CASES = read_yaml(ORACLE)["cases"]
FACT = "2026/05/25.md#ts_1"
REFUSED = ToolError("tool_error", "no")


def call(tool: str, *, error: ToolError | None = None, raw: str | None = None, **args: Any) -> ToolCall:
    """Make a call as it stands in a transcript."""
    return ToolCall("c", 1, 0, tool, args, raw, error=error)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_evidence_is_as_upstream(case: Mapping[str, Any]) -> None:
    """Every flag, and the missing requirements in their order, are those of the original."""
    calls = [
        call(made["t"], error=REFUSED if made.get("err") else None, **made["a"]) for made in case["calls"]
    ]
    state = pkm_end_state(FACT, calls)

    assert {key: state[key] for key in case["expect"]} == case["expect"]


def test_the_state_has_its_seven_keys() -> None:
    """Graders find every key, whatever happened; without a skip there is no quote."""
    assert pkm_end_state(FACT, ()) == {
        "is_complete": False,
        "wrote_para": False,
        "updated_insight": False,
        "skipped_pkm": False,
        "successful_pkm_mutation": False,
        "missing_requirements": [
            "wrote_para_with_fact_id",
            "updated_timeline_card_insight",
            "skip_pkm_organization",
        ],
        "skip_evidence": None,
    }


def test_the_quote_is_that_of_the_last_skip() -> None:
    """The user's words come from the skip that succeeded last; a refused one quotes nothing."""
    calls = [
        call(SKIP, evidence="first"),
        call(SKIP, evidence="nicht merken"),
        call(SKIP, evidence="no", error=REFUSED),
    ]

    assert pkm_end_state(FACT, calls)["skip_evidence"] == "nicht merken"


@pytest.mark.parametrize(
    "args",
    [
        {"file_path": "/睡眠.md", "content": f"<!-- fact_id: {FACT} -->"},
        {"file_path": f"/{FACT}", "content": ""},
        {"edits": [{"deep": {FACT: float("nan")}}]},
    ],
)
def test_the_fact_id_counts_wherever_it_stands(args: Mapping[str, Any]) -> None:
    """The id is looked for in all arguments as they were sent, in whatever company."""
    assert pkm_end_state(FACT, [call("Write", **args)])["wrote_para"]


@pytest.mark.parametrize("tool", ["Move", "Remove", "Read", "Grep"])
def test_only_writing_counts_as_filed(tool: str) -> None:
    """A call of any other tool that names the fact id files nothing."""
    assert not pkm_end_state(FACT, [call(tool, path=FACT)])["wrote_para"]


def test_an_unknown_fact_is_filed_nowhere() -> None:
    """Where the task names no fact, no call can have filed it."""
    assert not pkm_end_state("", [call("Write", content="x")])["wrote_para"]


@given(st.lists(st.sampled_from(("Write", "Edit", "Move", "LS", INSIGHT, SKIP)), max_size=5), st.booleans())
def test_what_is_complete_misses_nothing(tools: list[str], named: bool) -> None:
    """Nothing is missing exactly where the entry is dealt with; a skip that was made is not missing."""
    state = pkm_end_state(FACT, [call(tool, content=FACT if named else "") for tool in tools])
    assert state["is_complete"] == (state["missing_requirements"] == [])
    assert not (state["skipped_pkm"] and "skip_pkm_organization" in state["missing_requirements"])


@given(st.lists(st.sampled_from(("Write", "Edit", "Move", "Remove", "LS", INSIGHT, SKIP)), max_size=6))
def test_refused_calls_tell_nothing(tools: list[str]) -> None:
    """Whatever was only tried leaves the evidence as if it had not been."""
    calls = [call(tool, error=REFUSED, content=FACT, evidence="e") for tool in tools]

    assert pkm_end_state(FACT, calls) == pkm_end_state(FACT, ())
