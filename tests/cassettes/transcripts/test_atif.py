"""Trajectories are read back as the transcripts that they were written from; others' by what they tell."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.parts import UnreadableTranscript
from pytest_agenteval.cassettes.transcripts.reading import read_transcript
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import Ask, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.reports.exports.atif import trajectory
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from tests.cassettes.transcripts.json_damage import damaged
from tests.reports.exports.atif_rules import check_trajectory
from tests.reports.exports.talk import TALK

RUN = Run(Path("r"), RunHeader("2026-11-21T09:30:15+00:00", name="r"), (), ())
TEXTS = st.text("ab 미\n", max_size=6)
VALUES = st.one_of(TEXTS, st.none(), st.integers(), st.lists(st.integers(), max_size=2), st.booleans())
TOOLS = (ToolSpec("find", "finds", {"type": "object", "properties": {"q": {}}}), ToolSpec("clock"))
RESULTS = st.one_of(VALUES, st.builds(ToolError, st.just("tool_error"), TEXTS))


def _exported(transcript: Transcript) -> Any:
    return json.loads(json.dumps(trajectory(RUN, replace(TALK, transcript=transcript))))


@st.composite
def _recorded(draw: st.DrawFn) -> Transcript:
    """A transcript as trials write theirs: loops that ask, call, start anew, and call by themselves."""
    clock = iter(number / 8 for number in range(10_000))
    recorder = Recorder(lambda: next(clock))
    recorder.seeded = draw(st.integers(0, 2))
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(TEXTS)}]
    messages += [{"role": "assistant", "content": "", "tool_calls": [_asked("s1", {"q": 1})]}] * draw(
        st.integers(0, 1)
    )
    messages += [{"role": "tool", "tool_call_id": "s1", "content": "seen"}] * draw(st.integers(0, 1))
    for _ in range(draw(st.integers(0, 4))):
        messages += [{"role": "user", "content": draw(TEXTS)}] * draw(st.integers(0, 1))
        if draw(st.integers(0, 4)) == 0:
            messages = messages[draw(st.integers(0, len(messages) - 1)) :]
        _reply(draw, recorder, messages)
        if draw(st.booleans()):
            _carry_out(recorder, ToolCall("own", recorder.turn, 0, "clock", {}), draw(RESULTS))
    recorder.offer_tools(TOOLS if draw(st.booleans()) else ())
    return recorder.transcript()


def _asked(id: str, args: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "find", "arguments": json.dumps(args)}}


def _reply(draw: st.DrawFn, recorder: Recorder, messages: list[dict[str, Any]]) -> None:
    recorder.turn += 1
    recorder.add_prompt(list(messages))
    calls = tuple(
        ToolCall(draw(st.sampled_from(["c1", "c2"])), recorder.turn, index, "find", {"q": index})
        for index in range(draw(st.integers(0, 3)))
    )
    usage = Usage(*draw(st.tuples(*[st.integers(1, 9)] * 4)), draw(st.sampled_from([None, 0.0, 0.25])), 1, 1)
    ask = Ask(recorder.turn, recorder.at(), recorder.at(), usage, "stop", None, draw(TEXTS), draw(TEXTS))
    reply = {"role": "assistant", "content": draw(TEXTS)}
    recorder.add_reply(reply, calls, ask)
    messages.append(reply)
    shown = [(call, _carry_out(recorder, call, draw(RESULTS))) for call in calls if draw(st.integers(0, 5))]
    for call, content in draw(st.permutations(shown)):
        messages.append(
            {"role": "tool", "tool_call_id": call.id, "content": draw(st.sampled_from([content, "cut"]))}
        )


def _carry_out(recorder: Recorder, call: ToolCall, outcome: Any) -> str:
    place = recorder.begin_call(call)
    error = outcome if isinstance(outcome, ToolError) else None
    result = None if error else outcome
    times = {"started": recorder.at(), "ended": recorder.at()}
    recorder.end_call(place, replace(call, result=result, error=error, tape="hit", **times))
    return json.dumps(result)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_recorded())
def test_what_is_written_as_a_trajectory_is_read_back_equal(transcript: Transcript) -> None:
    """Whatever a loop says and calls, in whichever order results come; the file itself keeps the rules."""
    data = _exported(transcript)
    check_trajectory(data)
    if transcript.messages or transcript.calls:  # else the format's one step is the answer
        assert read_transcript(data) == transcript


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
    """Replies with calls, results, tokens, model, times; a sub-agent's steps are another conversation."""
    read = read_transcript(json.dumps(FOREIGN))

    assert [(message.role, message.content, message.phase) for message in read.messages] == [
        ("user", "List files.", 1),
        ("assistant", "I look.\n[image]", 1),
        ("tool", "a.md", 1),
        ("assistant", "It is a.md.", 1),
        ("assistant", "Hm.", 2),
    ]
    assert [(call.id, call.turn, call.result, call.error and call.error.type) for call in read.calls] == [
        ("c1", 1, "a.md", None),
        ("c2", 1, None, "not_finished"),
    ]
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
        # Of several wrong values of one call, that of ``place`` is named first.
        (
            "steps.1.observation.results.0.extra",
            {"agenteval": {"place": "first", "ended_at": "noon"}},
            "steps[1].observation.results[0].extra.agenteval.place: expected a number, found 'first'",
        ),
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
@given(damaged(FOREIGN) | damaged(_exported(TALK.transcript)))
def test_a_damaged_trajectory_is_read_or_refused(data: Any) -> None:
    """Nothing that somebody writes makes an error of ours."""
    with suppress(UnreadableTranscript):
        assert isinstance(read_transcript(data), Transcript)
