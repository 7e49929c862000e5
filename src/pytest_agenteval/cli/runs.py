"""``agenteval runs``: which runs are kept."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.store.runs import list_runs


def print_runs(results: str) -> int:
    """List runs, newest first: name, models, how many trials ended, how pytest ended."""
    stored_runs = list_runs(Path(results))
    if not stored_runs:
        print(f"no runs in {results}")
        return 0
    runs = [load_run(stored.path) for stored in stored_runs]
    rows = [("RUN", "MODELS", "TRIALS", "EXIT"), *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for run in runs:
        for odd in first_unreadable(run.odd):
            print(f"{run.folder.name}: {odd}", file=sys.stderr)
    return 0


def _row(run: Run) -> tuple[str, str, str, str]:
    header = run.header
    planned = sum(group.trials for group in run.planned)
    status = "not ended" if header.exit_status is None else str(header.exit_status)
    models = ", ".join(model.name for model in header.models)
    return run.folder.name, models, f"{len(run.entries)} of {planned}", status
