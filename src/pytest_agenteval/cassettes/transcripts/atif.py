"""ATIF trajectories, as other programs write them: what the format has a field for, each read strictly."""

from __future__ import annotations

import re
from datetime import datetime

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.parts import (
    UNKNOWN_USAGE,
    CallRequest,
    Place,
    TranscriptBuilder,
    content_text,
    moment_of,
)
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import NO_PARAMETERS, ToolSpec
from pytest_agenteval.records.transcript import Role, Transcript, Usage

NEWEST = 8
_VERSION = re.compile(r"ATIF-v1\.([0-9]+)")
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def read_atif(trajectory: Place) -> Transcript:
    """Give the transcript of a trajectory; raises UnreadableTranscript, which names the place."""
    # Times count from the earliest one of any step.
    times = (step.get("timestamp") for step in trajectory.items_of("steps"))
    reader = _TrajectoryReader(min((moment_of(at) for at in times if at is not None), default=None))
    reader.read(trajectory)
    metrics = trajectory.get("final_metrics")
    return reader.built.transcript(None if metrics is None else _usage(metrics, "total_"))


class _TrajectoryReader:
    """Puts the steps of a trajectory, and of those that are embedded in it, together."""

    def __init__(self, start: datetime | None) -> None:
        self.built = TranscriptBuilder()
        self._start = start

    def read(self, trajectory: Place) -> None:
        version = trajectory.at("schema_version", f"ATIF-v1.0 to ATIF-v1.{NEWEST}")
        match = _VERSION.fullmatch(version.text())
        if match is None or int(match[1]) > NEWEST:
            raise version.wrong(f"ATIF-v1.0 to ATIF-v1.{NEWEST}")
        agent = trajectory.get("agent")
        if agent is not None and self.built.phase == 1:
            self.built.offer(tuple(map(_tool_definition, agent.items_of("tool_definitions"))))
        for step in trajectory.at("steps", "the list of steps").items():
            self._read_step(step)
        # A sub-agent has a conversation of its own, which a transcript holds as another phase.
        for inner in trajectory.items_of("subagent_trajectories"):
            self.built.phase += 1
            self.read(inner)

    def _read_step(self, step: Place) -> None:
        source = step.at("source", "one of system, user, agent")
        if source.text() not in _ROLES:
            raise source.wrong("one of system, user, agent")
        content = content_text(step.at("message", "a text or a list of parts"))
        observation = step.get("observation")
        results = [] if observation is None else list(observation.items_of("results"))
        is_copied = step.value.get("is_copied_context") is True
        if source.value == "agent":
            self._read_agent_step(step, content, results, is_copied=is_copied)
        # Others may write results of tools into a step of the system or the user, which has no text then.
        elif results and not content:
            texts = (content_text(result.get("content")) for result in results)
            self.built.say("tool", "\n".join(texts), seeded=is_copied)
        else:
            self.built.say(_ROLES[source.value], content, seeded=is_copied)

    def _read_agent_step(self, step: Place, content: str, results: list[Place], *, is_copied: bool) -> None:
        requests = tuple(map(_call_request, step.items_of("tool_calls")))
        inferences = step.number_of("llm_call_count")
        # Such a step holds calls that no model requested, and is no message.
        is_shown = bool(content) or inferences != 0
        if not is_shown:
            self.built.request(requests, self.built.replies)
        elif is_copied or inferences == 0:
            self.built.put_in_mouth(content, requests, seeded=is_copied)
        else:
            metrics, at = step.get("metrics"), step.get("timestamp")
            ended = (
                0.0 if at is None or self._start is None else (moment_of(at) - self._start).total_seconds()
            )
            self.built.reply(
                content,
                requests,
                started=ended,
                ended=ended,
                usage=UNKNOWN_USAGE if metrics is None else replace(_usage(metrics), attempts=None),
                reasoning=step.text_of("reasoning_content"),
                model=step.text_of("model_name"),
            )
        for result in results:
            id, text = result.text_of("source_call_id"), content_text(result.get("content"))
            # A result may leave out which call it is of where there is one alone.
            id = id or (requests[0].id if len(requests) == 1 else "")
            if any(request.id == id for request in requests):
                self.built.result(id, text, is_shown=is_shown)
            else:
                self.built.say("tool", text, seeded=is_copied)


def _call_request(call: Place) -> CallRequest:
    id, tool = call.at("tool_call_id", "a text"), call.at("function_name", "the name of a tool")
    return CallRequest(id.text(), tool.text(), call.at("arguments", "a map").map())


def _usage(metrics: Place, total: str = "") -> Usage:
    """Read a step's metrics or, with ``total_`` before each name, those of a trajectory."""
    read, written, cached = (
        metrics.known_count_of(f"{total}{name}_tokens") for name in ("prompt", "completion", "cached")
    )
    return Usage(read, written, cached, None, metrics.number_of(f"{total}cost_usd"), 1)


def _tool_definition(definition: Place) -> ToolSpec:
    """Read a tool as chat completions declare it; one without ``function`` around it will do."""
    function = definition.get("function") or definition
    # ``input_schema`` is Anthropic's word.
    parameters = function.get("parameters") or function.get("input_schema")
    schema = NOTHING if parameters is None else parameters.map()
    name = function.at("name", "the name of a tool").text()
    return ToolSpec(name, function.text_of("description"), NOTHING if schema == NO_PARAMETERS else schema)
