"""Which recordings of a process's cassettes nobody had a use for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.engine.executors.executor import UnusedRecordings
from pytest_agenteval.tools.tool import Tool

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.cassette import Cassette
    from pytest_agenteval.cassettes.library import Library


def unused_calls(library: Library, tools: Iterable[Tool], *, agents: bool) -> dict[str, UnusedRecordings]:
    """Look at the tool cassettes that are open, without the shared ones.

    A stale call is one that no tool of the run can make any more: another name, address or schema. What
    agents of the user's own may ask, where ``agents`` says that there are any, nobody knows.
    """
    cassettes = [cassette for cassette in library.cassettes if cassette.kind == "tool" and len(cassette)]
    if not cassettes:
        return {}
    from pytest_agenteval.tools.tape import can_replay

    can = can_replay(tools, agents=agents)
    unused: dict[str, UnusedRecordings] = {}
    for cassette in cassettes:
        stale = [slot for slot, request in enumerate(cassette.requests) if not can(request)]
        slots = sorted(cassette.unused_slots)
        unused[cassette.name] = UnusedRecordings(len(cassette), tuple(slots), tuple(stale))
    return unused


def unused_replies(library: Library, whole_chats: Iterable[str]) -> dict[str, UnusedRecordings]:
    """Look at the chat cassettes of trials that have asked all that they ask.

    Such a file is one trial's, with its model, variant and repetition: what that trial has not played, nobody
    will. It holds what judges and simulated users were asked, too, but who these are each run says anew.
    """
    cassettes = library.cassettes_at(map(Path, whole_chats))
    return {cassette.name: _replies_of(cassette) for cassette in cassettes}


def _replies_of(cassette: Cassette) -> UnusedRecordings:
    from pytest_agenteval.cassettes.interaction import CHAT

    own = {slot for slot, request in enumerate(cassette.requests) if not request.uri.startswith(CHAT)}
    return UnusedRecordings(len(own), tuple(sorted(cassette.unused_slots & own)), kind="chat")
