"""Trajectories are read by what they tell, whoever wrote them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from pytest_agenteval.cassettes.transcripts.parts import UnreadableTranscript
from pytest_agenteval.cassettes.transcripts.reading import read_transcript
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.reports.exports.atif import trajectory
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from tests.cassettes.transcripts.json_damage import damaged
from tests.reports.exports.talk import TALK

EXPORTED = json.loads(
    json.dumps(trajectory(Run(Path("r"), RunHeader("2026-11-21T09:30:15+00:00", name="r"), (), ()), TALK))
)


def test_our_own_trajectory_is_read_as_anybodys() -> None:
    """What was said and called, and the tokens of each reply."""
    read = read_transcript(EXPORTED)

    def said(transcript: Transcript) -> list[tuple[str, str]]:
        return [(it.role, it.content) for it in transcript.messages if it.role != "tool"]

    def called(transcript: Transcript) -> list[str]:
        return sorted(f"{it.id} {it.tool} {it.args}" for it in transcript.calls)

    assert said(read) == said(TALK.transcript)
    assert called(read) == called(TALK.transcript)
    assert [ask.usage.tokens for ask in read.asks] == [ask.usage.tokens for ask in TALK.transcript.asks]


FOREIGN: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {
        "name": "codex",
        "version": "1",
        "tool_definitions": [{"type": "function", "function": {"name": "shell", "description": "runs"}}],
    },
    "steps": [
        {"step_id": 1, "source": "user", "message": "List files.", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": [{"type": "text", "text": "I look."}, {"type": "image", "source": {}}],
            "model_name": "gpt-5",
            "timestamp": "2026-01-01T00:00:02Z",
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "shell", "arguments": {"cmd": "ls"}},
                {"tool_call_id": "c2", "function_name": "shell", "arguments": {}},
            ],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.md"}]},
            "metrics": {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.5},
        },
        {"step_id": 3, "source": "agent", "message": "It is a.md."},
        {
            "step_id": 4,
            "source": "agent",
            "message": "",
            "llm_call_count": 0,
            "tool_calls": [{"tool_call_id": "c3", "function_name": "shell", "arguments": {}}],
            "observation": {"results": [{"content": "[1]"}, {"source_call_id": "c9", "content": "lost"}]},
        },
        {
            "step_id": 5,
            "source": "agent",
            "message": "<think>Hm.</think>Once more.",
            "is_copied_context": True,
            "tool_calls": [{"tool_call_id": "c4", "function_name": "shell", "arguments": {}}],
        },
        {"step_id": 6, "source": "system", "message": "", "observation": {"results": [{"content": "late"}]}},
    ],
    "subagent_trajectories": [
        {
            "schema_version": "ATIF-v1.7",
            "trajectory_id": "sub",
            "agent": {"name": "sub", "version": "1"},
            "steps": [{"step_id": 1, "source": "agent", "message": "Hm."}],
        }
    ],
}


def test_somebody_elses_trajectory_is_read_by_what_it_tells() -> None:
    """Replies with calls, results, tokens, model, times; a sub-agent's steps are another conversation.

    Calls that no model asked for are no reply, nor is what was copied from an earlier conversation.
    """
    read = read_transcript(json.dumps(FOREIGN))

    assert [(message.role, message.content, message.phase) for message in read.messages] == [
        ("user", "List files.", 1),
        ("assistant", "I look.\n[image]", 1),
        ("tool", "a.md", 1),
        ("assistant", "It is a.md.", 1),
        ("tool", "lost", 1),
        ("assistant", "<think>Hm.</think>Once more.", 1),
        ("tool", "late", 1),
        ("assistant", "Hm.", 2),
    ]
    calls = [(it.id, it.turn, it.by, it.result, it.error and it.error.type) for it in read.calls]
    assert calls == [
        ("c1", 1, "agent", "a.md", None),
        ("c2", 1, "agent", None, "not_finished"),
        ("c3", 2, "agent", [1], None),
        ("c4", 0, "seed", None, "not_finished"),
    ]
    assert [message.seeded for message in read.messages].index(True) == 5
    first = read.asks[0]
    assert (first.model, first.ended, first.finish, first.usage.cost_usd) == ("gpt-5", 2.0, "tool_calls", 0.5)
    assert (read.usage.tokens, read.usage.known_tokens, read.usage.asks) == (None, 12, 3)
    assert read.tools == (ToolSpec("shell", "runs"),)


def _broken(path: str, value: Any) -> Any:
    data = json.loads(json.dumps(FOREIGN))
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = data
    for key in keys:
        place = place[key]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (
            "steps.0.source",
            "robot",
            "steps[0].source: expected one of system, user, agent, found 'robot'",
        ),
        (
            "steps.1.timestamp",
            "noon",
            "steps[1].timestamp: expected a time in ISO 8601, found 'noon'",
        ),
        (
            "steps.1.tool_calls.1.arguments",
            "{}",
            "steps[1].tool_calls[1].arguments: expected a map, found '{}'",
        ),
        (
            "steps.2.message",
            None,
            "steps[2].message: expected a text or a list of parts, found nothing",
        ),
        ("steps", "none", "steps: expected a list, found 'none'"),
        (
            "steps.1.metrics.cost_usd",
            "1",
            "steps[1].metrics.cost_usd: expected a number, found '1'",
        ),
    ],
)
def test_a_trajectory_that_is_none_names_its_place(path: str, value: Any, complaint: str) -> None:
    """As the messages do."""
    with pytest.raises(UnreadableTranscript) as raised:
        read_transcript(_broken(path, value))
    assert str(raised.value) == f"transcript.{complaint}"


@settings(max_examples=30, deadline=None)
@given(damaged(FOREIGN) | damaged(EXPORTED))
def test_a_damaged_trajectory_is_read_or_refused(data: Any) -> None:
    """Nothing that somebody writes makes an error of ours."""
    with suppress(UnreadableTranscript):
        assert isinstance(read_transcript(data), Transcript)
