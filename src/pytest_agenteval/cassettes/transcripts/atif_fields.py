"""The fields of ATIF's steps, calls and metrics, each read strictly; what we wrote beside them too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_agenteval.cassettes.transcripts.place import Place
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import NO_PARAMETERS, ToolSpec
from pytest_agenteval.records.transcript import Event, Role, ToolCall, Usage

OURS = "agenteval"
"""The key in ``extra`` below which stands what the format has no word for."""

NEWEST = 8
_VERSION = re.compile(r"ATIF-v1\.([0-9]+)")
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def check_version(trajectory: Place) -> None:
    """Raise UnreadableTranscript for a version that is not read here."""
    version = trajectory.at("schema_version", f"ATIF-v1.0 to ATIF-v1.{NEWEST}")
    match = _VERSION.fullmatch(version.text())
    if match is None or int(match[1]) > NEWEST:
        raise version.wrong(f"ATIF-v1.0 to ATIF-v1.{NEWEST}")


def ours_of(place: Place) -> Place:
    """Give what we wrote beside what the format knows; an empty map where that is nothing."""
    extra = place.get("extra") if "extra" in place.map() else None
    ours = extra.get(OURS) if extra is not None and isinstance(extra.value, Mapping) else None
    return Place(NOTHING, (*place.path, "extra", OURS)) if ours is None else ours


def without_ours(step: Place) -> Place:
    """Give a step as somebody else would have written it."""
    return Place({name: value for name, value in step.map().items() if name != "extra"}, step.path)


def place_in(ours: Place, places: list[Any]) -> int:
    """Give the number of a message or call: the one that is told, else the next."""
    return ours.count_of("place") if "place" in ours.value else len(places)


def in_order(numbered: list[tuple[int, Any]]) -> tuple[Any, ...]:
    """Give what is numbered, in the order of the numbers."""
    return tuple(each for _, each in sorted(numbered, key=lambda pair: pair[0]))


def role_of(step: Place) -> Role:
    """Give the role of a step's message."""
    source = step.at("source", "one of system, user, agent")
    if source.text() not in _ROLES:
        raise source.wrong("one of system, user, agent")
    return _ROLES[source.value]


def asked_times(step: Place) -> float | None:
    """Give how many inferences a step stands for, None where it does not say."""
    return step.number_of("llm_call_count")


def results_of(step: Place) -> Iterator[Place]:
    """Give the results of a step's observation."""
    observation = step.get("observation")
    return iter(()) if observation is None else observation.items_of("results")


def requests_of(step: Place, by: str, turn: int) -> tuple[ToolCall, ...]:
    """Give the calls that a step asks for; ``by`` and ``turn`` are what they are without a word."""
    return tuple(_request(call, index, by, turn) for index, call in enumerate(step.items_of("tool_calls")))


def _request(call: Place, index: int, by: str, turn: int) -> ToolCall:
    ours = ours_of(call)
    id, tool = call.at("tool_call_id", "a text"), call.at("function_name", "the name of a tool")
    args = call.at("arguments", "a map").map()
    fields: dict[str, Any] = {"by": by, "turn": turn, "index": index, "raw_args": None}
    return ToolCall(id.text(), tool=tool.text(), args=args, **(fields | differences_of(ours)))


def differences_of(ours: Place) -> dict[str, Any]:
    """Give the fields of a call that are told because they are not what the place of the call tells."""
    names = {"by": "by", "turn": "turn", "index": "index", "arguments": "args", "raw_arguments": "raw_args"}
    return {field: ours.value[name] for name, field in names.items() if name in ours.value}


def call_of(call: Place) -> ToolCall:
    """Read a call that was written as it stands in a run."""
    try:
        return ToolCall.from_json(call.map())
    except TypeError:
        raise call.wrong("a call as it was written") from None


def requested(result: Place, waiting: list[ToolCall], requests: tuple[ToolCall, ...]) -> ToolCall | None:
    """Give the call that an observation belongs to, None where it is of nobody's."""
    id = result.get("source_call_id")
    if id is None:
        return waiting[0] if len(requests) == 1 and waiting else None
    return next((call for call in waiting if call.id == id.text()), None)


def usage_of(metrics: Place | None, total: str = "") -> Usage | None:
    """Read a step's metrics or, with ``total_`` before each name, those of a trajectory."""
    if metrics is None:
        return None
    read, written, cached = (
        metrics.known_count_of(f"{total}{name}_tokens") for name in ("prompt", "completion", "cached")
    )
    reasoning = ours_of(metrics).known_count_of("reasoning_tokens")
    return Usage(read, written, cached, reasoning, metrics.number_of(f"{total}cost_usd"), 1)


def tool_of(definition: Place) -> ToolSpec:
    """Read a tool as chat completions declare it; one without ``function`` around it will do."""
    function = definition.get("function") or definition
    parameters = function.get("parameters") or function.get("input_schema")
    schema = NOTHING if parameters is None else parameters.map()
    name = function.at("name", "the name of a tool").text()
    return ToolSpec(name, function.text_of("description"), NOTHING if schema == NO_PARAMETERS else schema)


def event_of(event: Place) -> Event:
    """Read an event that was written as it stands in a run."""
    try:
        return Event.from_json(event.map())
    except TypeError:
        raise event.wrong("an event as it was written") from None


def start_of(trajectory: Place) -> datetime | None:
    """Give the moment from which times count: where ours began, else the first that a step tells."""
    began = ours_of(trajectory).get("started_at")
    if began is not None:
        return moment_of(began)
    times = (step.get("timestamp") for step in trajectory.items_of("steps"))
    return min((moment_of(at) for at in times if at is not None), default=None)


def moment_of(at: Place) -> datetime:
    """Read a time in ISO 8601, which is UTC where it does not say otherwise."""
    try:
        read = datetime.fromisoformat(at.text("a time in ISO 8601"))
    except ValueError:
        raise at.wrong("a time in ISO 8601") from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
