"""What ATIF-v1.7 demands of a trajectory, written down from its description: no harbor is needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

KEYS: Mapping[str, str] = {
    "trajectory": "schema_version session_id trajectory_id agent steps notes final_metrics "
    "continued_trajectory_ref extra subagent_trajectories",
    "agent": "name version model_name tool_definitions extra",
    "step": "step_id timestamp source model_name reasoning_effort message reasoning_content tool_calls "
    "observation metrics is_copied_context llm_call_count extra",
    "tool call": "tool_call_id function_name arguments extra",
    "observation": "results",
    "result": "source_call_id content subagent_trajectory_ref extra",
    "metrics": "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids "
    "completion_token_ids logprobs extra",
    "final metrics": "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd "
    "total_steps extra",
}
OF_AGENTS_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def check_trajectory(data: Mapping[str, Any]) -> None:
    """Raise AssertionError at the first thing that the format does not allow."""
    _known(data, "trajectory")
    assert data["schema_version"] == "ATIF-v1.7"
    _known(data["agent"], "agent")
    assert data["agent"]["name"]
    assert data["agent"]["version"]
    assert data["steps"], "at least one step"
    assert [step["step_id"] for step in data["steps"]] == list(range(1, len(data["steps"]) + 1))
    for step in data["steps"]:
        _check_step(step)
    _known(data.get("final_metrics", {}), "final metrics")
    assert data["final_metrics"]["total_steps"] == len(data["steps"])


def _check_step(step: Mapping[str, Any]) -> None:
    _known(step, "step")
    assert step["source"] in {"system", "user", "agent"}
    assert isinstance(step["message"], str)
    assert step["source"] == "agent" or OF_AGENTS_ONLY.isdisjoint(step)
    if "timestamp" in step:
        assert datetime.fromisoformat(step["timestamp"]).tzinfo is not None
    if step.get("llm_call_count") == 0:
        assert {"metrics", "reasoning_content"}.isdisjoint(step)
    for call in step.get("tool_calls", ()):
        _known(call, "tool call")
        assert isinstance(call["arguments"], dict)
    _known(step.get("metrics", {}), "metrics")
    _check_results(step)


def _check_results(step: Mapping[str, Any]) -> None:
    ids = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    _known(step.get("observation", {}), "observation")
    for result in step.get("observation", {}).get("results", ()):
        _known(result, "result")
        assert "source_call_id" not in result or result["source_call_id"] in ids
        assert isinstance(result["content"], str)


def _known(part: Mapping[str, Any], kind: str) -> None:
    assert set(part) <= set(KEYS[kind].split()), f"{kind}: keys that the format does not know"
    assert isinstance(part.get("extra", {}), dict)
    assert None not in part.values(), f"{kind}: what is not known is left out"
