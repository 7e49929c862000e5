"""Recorded calls that a run had no use for: said where somebody looks closely, or records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.engine.worker_context import WorkerContext

MOST_FILES = 5

UnusedRecordings = Mapping[str, Mapping[str, Any]]
"""By cassette: how many calls it holds, and the places of those ``unused`` and of those ``stale``."""


def should_report_unused(config: pytest.Config) -> bool:
    """Whether anybody wants to know: under ``-v``, and while tools are recorded."""
    recording = str(config.getoption("agent_record", None) or "none")
    return config.getoption("verbose") > 0 or recording != "none"


def find_unused_recordings(context: WorkerContext) -> dict[str, dict[str, Any]]:
    """Look at the tool cassettes that this process has opened.

    A stale call is one that no tool of the run can make any more: another name, address or schema. What
    agents of the user's own may ask, nobody knows.
    """
    held = [each for each in context.opened if each.kind == "tool" and len(each)]
    if not held:
        return {}
    from pytest_agenteval.tools.tape import can_replay

    can = can_replay(context.every_tool, agents=context.has_own_agents)
    return {
        each.name: {
            "held": len(each),
            "unused": sorted(each.unused_slots),
            "stale": [slot for slot, request in enumerate(each.requests) if not can(request)],
        }
        for each in held
    }


def merge_unused(one: UnusedRecordings, other: UnusedRecordings) -> dict[str, dict[str, Any]]:
    """Put two processes' reports together: unused is what neither has played."""
    found = {name: dict(told) for name, told in one.items()}
    for name, told in other.items():
        here = found.setdefault(name, dict(told))
        here["unused"] = sorted(set(here["unused"]) & set(told["unused"]))
    return found


def format_unused(found: UnusedRecordings) -> Iterator[str]:
    """Say it in a few lines: how many there are, and in which files most of them lie."""
    held = sum(told["held"] for told in found.values())
    for what, means in (("unused", "were not played"), ("stale", "can be made by no tool any more")):
        counts = {name: len(told[what]) for name, told in found.items() if told[what]}
        if counts:
            most = sorted(counts, key=lambda name: (-counts[name], name))
            files = ", ".join(f"{name} ({counts[name]})" for name in most[:MOST_FILES])
            more = f" and {len(most) - MOST_FILES} more files" if len(most) > MOST_FILES else ""
            yield f"{sum(counts.values())} of {held} recorded calls {means}: {files}{more}"
