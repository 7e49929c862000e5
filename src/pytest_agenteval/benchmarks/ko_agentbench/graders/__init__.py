"""Graders after the Korean tool-calling benchmark's metrics.

Each has a ``mode``. ``upstream`` counts as the benchmark's code does, faults included, so that figures can be
laid beside its own. ``default`` counts what it documents. What registers them needs ``groups`` only; all else
is imported when it is first wanted.
"""

from pytest_agenteval.benchmarks.ko_agentbench.graders.groups import (
    GRADERS,
    GROUPS,
    LEVEL_METRICS,
    LEVELS,
    UPSTREAM_LABELS,
)

__all__ = ["GRADERS", "GROUPS", "LEVELS", "LEVEL_METRICS", "UPSTREAM_LABELS"]
