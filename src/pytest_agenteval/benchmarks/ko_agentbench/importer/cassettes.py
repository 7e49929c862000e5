"""Cassettes of the benchmark's cache: one file for each tool, for the whole suite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_agenteval.benchmarks.ko_agentbench.importer.cache import Cache, Recorded
from pytest_agenteval.cassettes.files import Recording, write
from pytest_agenteval.cassettes.interaction import Interaction, Response, tool_interaction

STALE = "stale"


def write_cassettes(cache: Cache, folder: Path) -> list[Path]:
    """Write ``TOOL.json`` for each tool of which anything is kept; give the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for tool in sorted(cache.entries):
        path = folder / f"{tool}.json"
        write(path, Recording(tuple(_interactions(cache.of(tool)))))
        written.append(path)
    return written


def _interactions(entries: Iterable[Recorded]) -> Iterable[Interaction]:
    for one in entries:
        made = tool_interaction(one.tool, one.args, result=one.data)
        yield Interaction(made.request, _noted(made.response, one))


def _noted(response: Response, one: Recorded) -> Response:
    """Say when it was recorded, and whether the benchmark itself would still find it."""
    extra = {"recorded_at": one.created_at, **({STALE: True} if one.stale else {})}
    return Response(response.status, response.message, response.headers, response.body, extra)
