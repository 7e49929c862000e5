"""Recorded calls that a run had no use for: said where somebody looks closely, or records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agenteval.engine.executors.executor import UnusedRecordings

MOST_FILES = 5


def should_report_unused(config: pytest.Config) -> bool:
    """Whether anybody wants to know: under ``-v``, and while tools are recorded."""
    recording = str(config.getoption("agent_record", None) or "none")
    return config.getoption("verbose") > 0 or recording != "none"


def format_unused(cassettes: Mapping[str, UnusedRecordings]) -> Iterator[str]:
    """Say it in a few lines: how many there are, and in which files most of them lie."""
    recorded = sum(cassette.recorded for cassette in cassettes.values())
    unused = {name: len(cassette.unused) for name, cassette in cassettes.items() if cassette.unused}
    stale = {name: len(cassette.stale) for name, cassette in cassettes.items() if cassette.stale}
    for counts, means in ((unused, "were not played"), (stale, "can be made by no tool any more")):
        if counts:
            most = sorted(counts, key=lambda name: (-counts[name], name))
            files = ", ".join(f"{name} ({counts[name]})" for name in most[:MOST_FILES])
            more = f" and {len(most) - MOST_FILES} more files" if len(most) > MOST_FILES else ""
            yield f"{sum(counts.values())} of {recorded} recorded calls {means}: {files}{more}"
