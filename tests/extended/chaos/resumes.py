"""Runs that are killed at a random point and resumed: nothing lost, nothing doubled, nothing paid twice."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.chaos.kills import Kill, alive, kills, workers_of
from tests.extended.chaos.project import (
    AT_ONCE,
    PATIENCE_S,
    TooSlow,
    bills,
    finished_lines,
    journaled,
    losses,
    output,
    project,
    provider,
    stacks,
    start,
    until,
)
from tests.extended.chaos.verdicts import Findings

RESUME = "--agent-resume"


def resumes(count: int, trials: int, seed: int) -> Iterator[Kill]:
    """Give so many kills of processes, controllers and workers, each with every signal in turn."""
    yield from kills(count, trials, seed + 1)


def resumed(
    root: Path, kill: Kill, trials: int = 200, conftest: str = "", patience_s: float = PATIENCE_S, **more: Any
) -> Findings:
    """Carry out a run, kill, resume, and say what was lost, doubled or paid for twice."""
    with provider() as server:
        project(root, server, trials, conftest, **more)
        arguments = ("-n", str(kill.workers), "-q")
        kept = killed_after(root, start(root, *arguments), kill, patience_s)
        printed = output(start(root, *arguments, RESUME))
        paid = bills(server)
    wrong = [f"pytest broke: {printed[-600:]}"] if "INTERNALERROR" in printed else []
    wrong += unlike_one_run(root, trials) + paid_again(paid, kept, AT_ONCE * max(1, kill.workers))
    return Findings(wrong, {"trials": trials, "requests": paid.total()})


def killed_after(
    root: Path, run: subprocess.Popen[str], kill: Kill, patience_s: float = PATIENCE_S
) -> set[str]:
    """Kill whom the kill names once so many trials have ended, and wait until nobody is left.

    Gives the tasks whose trials were written down by then. Raises TooSlow where the run never came so far.
    """
    try:
        if not until(lambda: finished_lines(root) >= kill.after, run, patience_s):
            raise TooSlow(f"{finished_lines(root)} of {kill.after} trials: {stacks(run, workers_of(root))}")
        victim = workers_of(root)[0] if kill.whom == "worker" else run.pid
        os.kill(victim, kill.signal)
        kept = journaled(root)
        output(run)
        wait_for_workers(root, run)
        return kept
    finally:
        run.kill()


def wait_for_workers(root: Path, run: subprocess.Popen[str]) -> None:
    """Wait until no worker of a run is left, which ends soon after its controller."""
    end = time.monotonic() + PATIENCE_S
    while any(map(alive, workers_of(root))):
        if time.monotonic() > end:
            raise TooSlow(f"workers of {run.pid} go on without it")
        time.sleep(0.02)


def unlike_one_run(root: Path, trials: int) -> list[str]:
    """Say how what is stored differs from one run that was never killed."""
    folders = sorted(root.glob(".agenteval/runs/2*"))
    if len(folders) != 1:
        return [f"{len(folders)} runs, where one was to go on: {[folder.name for folder in folders]}"]
    run = load_run(folders[0])
    ended = Counter(entry.key.task for entry in run.entries)
    wrong = [f"{task} stands there {times} times" for task, times in ended.items() if times > 1]
    wrong += [f"{task} is lost" for task in sorted(names(trials) - ended.keys())]
    broken = (entry for entry in run.entries if entry.ending != "passed")
    wrong += [f"{entry.key.task} {entry.ending}: {entry.message}" for entry in broken]
    # A line that a kill has torn is told of; the trial whose it was has run again.
    return wrong + _planned_otherwise(run, trials) + [each for each in losses(root) if "torn" not in each]


def _planned_otherwise(run: Run, trials: int) -> list[str]:
    planned = sum(group.trials for group in run.planned)
    return [] if planned == trials else [f"{planned} trials are planned, and not {trials}"]


def names(trials: int) -> set[str]:
    """Give the ids of a project's tasks."""
    return {f"t{number:03}" for number in range(trials)}


def paid_again(paid: Counter[str], kept: set[str], most: int) -> list[str]:
    """Say which requests were paid again though their trials were kept, and whether others were too many."""
    wrong = [f"{task} was kept, and paid for {paid[task]} times" for task in sorted(kept) if paid[task] != 1]
    again = sum(times - 1 for task, times in paid.items() if task not in kept)
    return wrong + ([f"{again} paid again, and {most} were in flight"] if again > most else [])
