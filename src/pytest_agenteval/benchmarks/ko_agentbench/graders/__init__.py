"""Graders after the Korean tool-calling benchmark's metrics.

Each has a ``mode``. ``upstream`` counts as the benchmark's code does, faults included, so that figures can be
laid beside its own. ``default`` counts what it documents. What registers them needs ``groups`` only; all else
is imported when it is first wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agenteval.benchmarks.ko_agentbench.graders.groups import (
    GRADERS,
    GROUPS,
    LEVEL_METRICS,
    LEVELS,
    UPSTREAM_LABELS,
)

if TYPE_CHECKING:
    from pytest_agenteval.benchmarks.ko_agentbench.graders.replies import verdict_text

__all__ = ["GRADERS", "GROUPS", "LEVELS", "LEVEL_METRICS", "UPSTREAM_LABELS", "verdict_text"]


def __getattr__(name: str) -> object:
    """Import the graders themselves only for who plays back verdicts."""
    if name == "verdict_text":
        from pytest_agenteval.benchmarks.ko_agentbench.graders import replies

        return replies.verdict_text
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
