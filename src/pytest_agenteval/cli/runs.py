"""``agenteval runs``: which runs are kept."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.store.reader import read_run
from pytest_agenteval.store.runs import StoredRun, list_runs


def print_runs(results: str) -> int:
    """List runs, newest first: name, models, how many trials ended, how pytest ended."""
    found = list_runs(Path(results))
    if not found:
        print(f"no runs in {results}")
        return 0
    rows = [("RUN", "MODELS", "TRIALS", "EXIT"), *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(stored: StoredRun) -> tuple[str, str, str, str]:
    header = stored.header
    run = read_run(stored.path)
    planned = sum(group.trials for group in run.planned)
    status = "not ended" if header.exit_status is None else str(header.exit_status)
    models = ", ".join(model.name for model in header.models)
    return stored.path.name, models, f"{len(run.entries)} of {planned}", status
