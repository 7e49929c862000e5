"""Calls of OpenAI's chat completions, put together of the pieces that a stream brings."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.cassettes.wire.json_body import as_map, as_text
from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.records.tool import parse_arguments


def join_call(calls: list[dict[str, Any]], piece: Json) -> int:
    """Put a piece into the call that it goes on with, or begin a call with it; give the call's place."""
    asked = as_map(piece.get("function") or piece.get("custom"))
    written = {**asked, "arguments": asked.get("arguments", asked.get("input"))}
    place = _place_of(calls, piece, written)
    call = calls[place]
    call["id"] = call["id"] or as_text(piece.get("id"))
    join_function(call["function"], written)
    return place


def join_function(function: dict[str, Any], piece: Json) -> None:
    """Put a piece of name and arguments behind what came before."""
    name, arguments = as_text(piece.get("name")), piece.get("arguments")
    if name != function["name"]:  # a server that repeats it with each piece means the same one
        function["name"] += name
    if isinstance(arguments, str) and isinstance(function["arguments"], str):
        # Some servers begin with an empty object, and bring the arguments behind it.
        is_first = function["arguments"].strip() == "{}" and arguments.lstrip().startswith("{")
        function["arguments"] = arguments if is_first else function["arguments"] + arguments
    elif isinstance(arguments, dict):
        function["arguments"] = arguments


def _place_of(calls: list[dict[str, Any]], piece: Json, written: Json) -> int:
    """Find a piece's call, or begin one; some servers count none, or give each the number 0.

    Others give each piece an id of its own: what names no function goes on with the call before.
    """
    index, id = piece.get("index"), as_text(piece.get("id"))
    for place in reversed(range(len(calls))):
        started = calls[place]
        same_place = index is None or started["index"] == index
        same_id = not id or not started["id"] or id == started["id"] or not written.get("name")
        if same_place and same_id:
            if _begins_another(started["function"], written):
                break
            return place
    calls.append({"index": index, "id": "", "function": {"name": "", "arguments": ""}})
    return len(calls) - 1


def _begins_another(started: Json, written: Json) -> bool:
    """Whether a piece names a function and cannot go on with a call, as that has all of its arguments.

    A server that repeats the name with each piece has then nothing more to add.
    """
    name, added = as_text(written.get("name")), written.get("arguments")
    if not name or not (name != started["name"] or added):
        return False
    before = started["arguments"]
    if isinstance(before, str):
        return before.rstrip().endswith("}") and parse_arguments(before)[1] is None
    return True
