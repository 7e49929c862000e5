"""Four shards of a run, merged: equal to the run in one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.chaos.project import bills, output, project, provider, start
from tests.extended.chaos.verdicts import Findings

TRIALS = 60
MERGE = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
MOVING = frozenset({"started_at", "run", "command", "ended_at", "package", "shard", "shards"})
"""Columns that differ between two runs of the same, or say where a run lies; so do all seconds."""


def four_shards(root: Path) -> Findings:
    """Try the tasks twice each in one run and in four shards, one of them with workers, and merge these."""
    with provider() as server:
        project(root, server, TRIALS)
        wrong = _run(root, "one", "-n", "0")
        for number in (1, 2, 3, 4):
            wrong += _run(root, f"s{number}", "-n", "2" if number == 3 else "0", f"--agent-shard={number}/4")
        paid = bills(server).total()
    merging = [sys.executable, "-c", MERGE, "merge", "s1", "s2", "s3", "s4", "--into", "merged"]
    merged = subprocess.run(merging, cwd=root, text=True, capture_output=True)
    if merged.returncode:
        return Findings([*wrong, f"merge ends with {merged.returncode}: {merged.stderr[-400:]}"])
    runs = root / ".agenteval" / "runs"
    one, four = load_run(runs / "one"), load_run(runs / "merged")
    wrong += [] if paid == 4 * TRIALS else [f"{paid} were asked, and not {4 * TRIALS}"]
    return Findings(wrong + differences(one, four), {"trials": len(four.entries)})


def _run(root: Path, name: str, *arguments: str) -> list[str]:
    run = start(root, "-q", "--repetitions=2", f"--agent-run-name={name}", *arguments)
    printed = output(run)
    return [] if run.returncode == 0 else [f"{name} ends with {run.returncode}: {printed[-400:]}"]


def differences(one: Run, other: Run) -> list[str]:
    """Say in which figures two runs of the same trials differ."""
    wrong = [] if one.planned == other.planned else [f"{other.planned} is planned, and not {one.planned}"]
    rows, others = _rows(one), _rows(other)
    wrong += [f"{name} is in one of them only" for name in sorted(rows.keys() ^ others.keys())]
    for name in rows.keys() & others.keys():
        fixed = [column for column in rows[name] if column not in MOVING and not column.endswith("seconds")]
        differing = [column for column in fixed if rows[name][column] != others[name].get(column)]
        wrong += [f"{name} differs in {column}" for column in differing]
    return wrong


def _rows(run: Run) -> Mapping[str, dict[str, Any]]:
    return {f"{row['task']}-{row['repetition']}": row for row in run.rows()}
