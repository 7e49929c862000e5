"""What both of OpenAI's APIs reply, in the words of what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts, WireCall
from pytest_agenteval.cassettes.wire.traffic import as_map, as_text, maps_in
from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.text.canonical import compact

_PARALLEL = "multi_tool_use.parallel"
"""A tool that nobody has given: models call it where they mean several calls at once."""


def in_our_words(parts: ReplyParts) -> ReplyParts:
    """Give a reply without calls that the provider answered."""
    calls = tuple(meant for call in parts.calls if call.by == "agent" for meant in _meant(call))
    return replace(parts, calls=calls)


def _meant(call: WireCall) -> Iterator[WireCall]:
    """Give the calls that a call means: itself, but for the one that names several."""
    uses = maps_in(parse_arguments(call.arguments_text)[0].get("tool_uses")) if call.name == _PARALLEL else []
    if not uses:
        yield call
    for place, use in enumerate(uses):
        name = as_text(use.get("recipient_name")).removeprefix("functions.")
        yield WireCall(f"{call.id}_{place}", name, compact(as_map(use.get("parameters"))))
