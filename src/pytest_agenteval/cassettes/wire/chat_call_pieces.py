"""Calls of OpenAI's chat completions, put together of the pieces that a stream brings."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.cassettes.wire.json_body import as_map, as_text
from pytest_agenteval.cassettes.wire.traffic import Json


def join_call(calls: list[dict[str, Any]], piece: Json) -> None:
    """Put a piece into the call that it goes on with, or begin a call with it."""
    call = _call_of(calls, piece)
    call["id"] = call["id"] or as_text(piece.get("id"))
    asked = as_map(piece.get("function") or piece.get("custom"))
    join_function(call["function"], {**asked, "arguments": asked.get("arguments", asked.get("input"))})


def join_function(function: dict[str, Any], piece: Json) -> None:
    """Put a piece of name and arguments behind what came before."""
    name, arguments = as_text(piece.get("name")), piece.get("arguments")
    if name != function["name"]:  # a server that repeats it with each piece means the same one
        function["name"] += name
    if isinstance(arguments, str) and isinstance(function["arguments"], str):
        function["arguments"] += arguments
    elif isinstance(arguments, dict):
        function["arguments"] = arguments


def _call_of(calls: list[dict[str, Any]], piece: Json) -> dict[str, Any]:
    """Find a piece's call, or begin one; some servers count none, or give each the number 0.

    Others give each piece an id of its own: what names no function goes on with the call before.
    """
    index, id = piece.get("index"), as_text(piece.get("id"))
    nameless = not as_map(piece.get("function") or piece.get("custom")).get("name")
    for started in calls[::-1]:
        same_place = index is None or started["index"] == index
        if same_place and (not id or not started["id"] or id == started["id"] or nameless):
            return started
    new: dict[str, Any] = {"index": index, "id": "", "function": {"name": "", "arguments": ""}}
    calls.append(new)
    return new
