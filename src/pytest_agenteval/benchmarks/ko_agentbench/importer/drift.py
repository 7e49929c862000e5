"""Where tasks say something else than they did when the logged runs were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask
from pytest_agenteval.benchmarks.ko_agentbench.importer.findings import Finding
from pytest_agenteval.benchmarks.ko_agentbench.importer.grading import FROM_THE_LOG
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import LoggedRun


def drift_of(tasks: Mapping[str, SourceTask], runs: Sequence[LoggedRun]) -> Iterator[Finding]:
    """Say of each task which of its keys had another value in how many of the logged runs."""
    changed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for logged in (logged for run in runs for logged in run.results if logged.task in tasks):
        fields = tasks[logged.task].fields
        for key in FROM_THE_LOG:
            if (logged.fields.get(key) or None) != (fields.get(key) or None):
                changed[logged.task][key] += 1
    for task, keys in changed.items():
        told = ", ".join(f"{key} in {count} of {len(runs)} logged runs" for key, count in keys.items())
        yield Finding(task, f"was another when it was tried: {told}")
