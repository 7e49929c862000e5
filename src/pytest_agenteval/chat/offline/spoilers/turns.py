"""A reference's turns as they are taken apart and put together again: calls, and the values in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

Turns = list[dict[str, Any]]
"""Turns as a task's file has them, each with ``text`` and ``calls``; ours to change."""

EVERYTHING = "\0everything\0"
"""Stands, in a text, for all that the player was told and all that its calls gave."""

_REFERENCE = re.compile(r"\$\$|\$(\d+)((?:\.\w+|\[\d+\])*)")


class Spot(NamedTuple):
    """One value of a reference: in which turn, in which of its calls, and the keys that lead to it.

    ``call`` is None, and ``keys`` are empty, where the value is what the turn says.
    """

    turn: int
    call: int | None
    keys: tuple[str | int, ...] = ()


def turns_of(reference: Mapping[str, Any] | None) -> Turns:
    """Give a reference's turns, free to be changed; none where there is no reference."""
    turns = (reference or {}).get("turns") or ()
    return [
        {
            "text": turn.get("text") or "",
            "calls": [
                {"tool": call["tool"], "args": deepcopy(_plain(call.get("args") or {}))}
                for call in turn.get("calls") or ()
            ],
        }
        for turn in turns
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def spots(turns: Turns) -> Iterator[tuple[Spot, Any]]:
    """Give every value that is no map and no list, in the order in which it is said or sent."""
    for at, turn in enumerate(turns):
        for number, call in enumerate(turn["calls"]):
            for keys, value in leaves(call["args"]):
                yield Spot(at, number, keys), value
        if turn["text"]:
            yield Spot(at, None), turn["text"]


def leaves(value: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Give every value below one that is no map and no list, with the keys that lead to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*keys, index))
    else:
        yield keys, value


def replaced(turns: Turns, changes: Mapping[Spot, Any]) -> Turns:
    """Give the turns with other values in these spots."""
    changed = deepcopy(turns)
    for spot, value in changes.items():
        if spot.call is None:
            changed[spot.turn]["text"] = value
            continue
        holder = changed[spot.turn]["calls"][spot.call]
        *above, last = ("args", *spot.keys)
        for key in above:
            holder = holder[key]
        holder[last] = value
    return changed


def without_call(turns: Turns, left_out: tuple[int, int], given: int) -> Turns:
    """Give the turns without one call: a turn, and a place in it.

    ``given`` results stand in the conversation before the first of the reference. What later calls refer to
    as ``$2`` keeps its meaning; what they refer to and is left out is empty.
    """
    changed = deepcopy(turns)
    places = [(at, place) for at, turn in enumerate(turns) for place, _ in enumerate(turn["calls"])]
    gone = given + places.index(left_out) + 1
    del changed[left_out[0]]["calls"][left_out[1]]
    changed = [turn for turn in changed if turn["calls"] or turn["text"]] or [{"text": "", "calls": []}]
    return replaced(changed, {spot: _renumbered(value, gone) for spot, value in _referring(changed)})


def _referring(turns: Turns) -> Iterator[tuple[Spot, str]]:
    for spot, value in spots(turns):
        if spot.call is not None and isinstance(value, str) and "$" in value:
            yield spot, value


def _renumbered(text: str, gone: int) -> str:
    def other(match: re.Match[str]) -> str:
        number = int(match[1] or 0)
        if number == gone:
            return ""
        return match[0] if number < gone else f"${number - 1}{match[2]}"

    return _REFERENCE.sub(other, text)
