"""What holds of every metric, whatever the task and whatever the trial."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetricGrader, own_rubric
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoCall,
    KoMessage,
    KoTrace,
)
from tests.benchmarks.ko_agentbench.graders.sample_trials import grader_class, result_of, says

TOOLS = st.sampled_from(["A", "B", "C"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.text(max_size=3))
JSON = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["items", "places", "total_count", "error", "success", "x", "code", "message"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
ARGS = st.dictionaries(st.sampled_from(["q", "n"]), VALUES, max_size=2)
CALLS = st.builds(
    KoCall,
    step=st.one_of(st.none(), st.integers(1, 4)),
    tool=TOOLS,
    args=ARGS,
    success=st.booleans(),
    error=st.sampled_from([None, "boom"]),
    result=JSON,
    seeded=st.booleans(),
)
MESSAGES = st.builds(
    KoMessage, st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=4), st.booleans()
)
TRACES = st.builds(
    KoTrace,
    calls=st.lists(CALLS, max_size=5).map(tuple),
    final_response=st.one_of(st.none(), st.text(max_size=5)),
    success=st.booleans(),
    repetition_results=st.lists(st.booleans(), max_size=3).map(tuple),
    messages=st.one_of(st.none(), st.lists(MESSAGES, max_size=5).map(tuple)),
    level=st.sampled_from([None, 0, 5]),
)
ACTIONS = st.one_of(
    st.fixed_dictionaries(
        {"tool": TOOLS, "args": ARGS},
        optional={"step": st.integers(1, 3), "weight": st.floats(0.5, 3)},
    ),
    st.just({"action": "context_used"}),
)
FLOWS = st.fixed_dictionaries(
    {
        "from_step": st.integers(1, 2),
        "from_output": st.sampled_from(["x", "items[0].x"]),
        "to_step": st.integers(1, 3),
        "to_parameter": st.sampled_from(["q", "n"]),
    }
)
KINDS = st.sampled_from(["timeout", "partial", "stale", "malformed"])
TASKS = st.fixed_dictionaries(
    {},
    optional={
        "golden_action": st.lists(ACTIONS, max_size=4),
        "arg_schema": st.just({"n": {"type": "integer", "default": 1}}),
        "resp_schema": st.sampled_from([{"type": "string"}, {"type": "object"}, {"type": "nonsense"}]),
        "available_tools": st.lists(TOOLS, max_size=3),
        "golden_fields": st.just([{"tool": "A", "fields": ["items[0].x"]}]),
        "minimum_steps": st.integers(0, 3),
        "data_flow": st.lists(FLOWS, max_size=3),
        "error_injection": st.fixed_dictionaries({"tool": TOOLS, "error_type": KINDS}),
        "fallback_options": st.lists(st.fixed_dictionaries({"tool": TOOLS}), max_size=2),
        "minimum_calls": st.integers(0, 3),
        "task_level": st.sampled_from([None, 1, 5, "L5"]),
    },
)
MANY = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
CLASSES = {name: grader_class(name) for name in sorted(GRADERS)}
COMPUTED = {name: each for name, each in CLASSES.items() if issubclass(each, ComputedGrader)}


@given(TASKS, TRACES, st.lists(st.integers(0, 6), max_size=3))
@MANY
def test_a_score_is_a_share_or_undecided(config: dict[str, Any], trace: KoTrace, numbers: list[int]) -> None:
    """In mode ``default`` no score leaves 0 to 1, whatever judges say, and the reason is never empty."""
    for grader_type in CLASSES.values():
        grader, judges = grader_type(**config), []
        if isinstance(grader, JudgedMetricGrader):
            dimension = own_rubric(grader.rubrics["default"]).names[0]
            judges = [says(json.dumps({dimension: number})) for number in numbers]
        result = result_of(grader, trace, judges)
        assert result.score is None or 0.0 <= result.score <= 1.0
        assert result.reason
        assert result.details is None
        json.dumps(dict(result.more))


@given(TASKS, TRACES)
@MANY
def test_what_upstream_throws_is_told(config: dict[str, Any], trace: KoTrace) -> None:
    """In mode ``upstream`` an odd trial gives a score, or the benchmark's own exception as a 0."""
    for grader_type in COMPUTED.values():
        result = result_of(grader_type(**config, mode="upstream"), trace)
        assert result.score is None or result.score <= 1.0
        assert result.reason
        if "upstream_error" in result.more:
            assert (result.score, result.details) == (0.0, None)


@given(TRACES)
@MANY
def test_an_empty_task_is_not_applicable_to_what_needs_one(trace: KoTrace) -> None:
    """Where the task says nothing, metrics of its levels have nothing to say about any trial."""
    for name, grader_type in COMPUTED.items():
        if name not in ("ko_valid_calls", "ko_response_rate"):
            assert result_of(grader_type(), trace).score is None
