"""Writes cassettes of tool calls that were recorded elsewhere, so that a suite plays them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.files import Recording, write
from pytest_agenteval.cassettes.interaction import Interaction, Response, tool_interaction
from pytest_agenteval.records.record import Record


class RecordedCall(Record, frozen=True):
    """One call of a tool and its result, both JSON; ``remarks`` are further keys of the stored response."""

    tool: str
    args: Mapping[str, Any]
    result: Any
    remarks: Mapping[str, Any] = {}


def write_tool_cassette(path: Path, calls: Iterable[RecordedCall]) -> Path:
    """Write one cassette file (JSON or YAML by its ending), in place of one that is there; give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, Recording(tuple(map(_interaction, calls))))
    return path


def _interaction(call: RecordedCall) -> Interaction:
    plain = tool_interaction(call.tool, call.args, result=call.result)
    said = plain.response
    extra = dict(call.remarks)
    return Interaction(plain.request, Response(said.status, said.message, said.headers, said.body, extra))
