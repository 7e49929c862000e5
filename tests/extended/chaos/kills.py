"""Processes of a run, killed at a random point of it, and resumed: nothing lost, doubled or paid twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.store.run_reader import load_run
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
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
GONE_S = 6.0
"""Workers promise to be gone two seconds after their controller, pytest to end five after Ctrl-C."""


class Kill(NamedTuple):
    """Who is killed, how, and after how many finished trials."""

    workers: int
    whom: str
    signal: signal.Signals
    after: int

    def __str__(self) -> str:
        return f"-n {self.workers}, {self.signal.name} to the {self.whom} after {self.after} trials"


def kills(count: int, trials: int, seed: int) -> Iterator[Kill]:
    """Give so many kills, of every kind in turn, at random points."""
    chance = random.Random(seed)
    kinds = [(0, "process"), (2, "controller"), (2, "worker")]
    for number in range(count):
        workers, whom = kinds[number % 3]
        kind = SIGNALS[number // 3 % 3]
        yield Kill(workers, whom, kind, chance.randrange(3, trials * 3 // 4))


def killed(
    root: Path,
    kill: Kill,
    trials: int = 200,
    patience_s: float = PATIENCE_S,
    *,
    conftest: str = "",
    **more: Any,
) -> Findings:
    """Carry out a run, kill, resume, and say what was lost; TooSlow where it never came to its kill point.

    ``conftest`` and ``more``, which every task has, are those of ``project``.
    """
    arguments = ("-n", str(kill.workers), "-q")
    with provider() as server:
        project(root, server, trials, conftest, **more)
        run = start(root, *arguments)
        try:
            if not until(lambda: finished_lines(root) >= kill.after, run, patience_s):
                return Findings(_not_reached(root, run, kill, patience_s))
            workers = workers_of(root) if kill.workers else []
            os.kill(workers[0] if kill.whom == "worker" else run.pid, kill.signal)
            kept = journaled(root)
            wrong = _processes_left(root, run, workers, kill)
        finally:
            run.kill()
        wrong += losses(root) + _lost(kept, journaled(root), bills(server), kill)
        printed = output(start(root, *arguments, RESUME))
        paid = bills(server)
    wrong += [f"pytest broke: {printed[-600:]}"] if "INTERNALERROR" in printed else []
    wrong += unlike_one_run(root, trials) + paid_again(paid, kept, AT_ONCE * max(1, kill.workers))
    return Findings(wrong, {"trials": trials, "requests": paid.total()})


def _lost(kept: set[str], left: set[str], paid: Counter[str], kill: Kill) -> list[str]:
    """Say what a kill has cost: trials that were written down, and more requests than were under way."""
    wrong = [f"{task} was written down and is gone" for task in sorted(kept - left)]
    lost = len(paid.keys() - left)
    if kill.whom == "worker" and kill.signal != signal.SIGINT and lost > 1:
        wrong.append(f"{lost} trials were asked and never written down")
    if lost > AT_ONCE * max(1, kill.workers):
        wrong.append(f"{lost} trials were answered and not written down; {AT_ONCE} at once were under way")
    return wrong


def _not_reached(root: Path, run: subprocess.Popen[str], kill: Kill, patience_s: float) -> list[str]:
    if run.poll() is not None:
        return [f"the run did not come so far: {run.communicate(timeout=10)[0][-300:]}"]
    came = f"{finished_lines(root)} of {kill.after} trials after {patience_s:g} s"
    raise TooSlow(f"{came}: {stacks(run, workers_of(root))}")


def _processes_left(root: Path, run: subprocess.Popen[str], workers: list[int], kill: Kill) -> list[str]:
    """Wait for the end; say who did not come to one."""
    if kill.whom == "worker":
        try:
            output = run.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            return [f"not ended {PATIENCE_S:g} s after the signal: {stacks(run, workers_of(root))}"]
        return [f"pytest broke: {output[-600:]}"] if "INTERNALERROR" in output else []
    killed_at = time.monotonic()
    try:
        run.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        return [f"not ended 60 s after the signal: {stacks(run, workers)}"]
    while any(map(alive, workers)) and time.monotonic() < killed_at + 30:
        time.sleep(0.02)
    took = time.monotonic() - killed_at
    for pid in filter(alive, workers):
        os.kill(pid, signal.SIGKILL)
    return [f"all were gone only after {took:.1f} s"] if took > GONE_S else []


def workers_of(root: Path) -> list[int]:
    """Give the process ids of the run's workers, as their journals are named."""
    names = sorted(path.stem for path in root.glob(".agenteval/runs/2*/journal-gw*"))
    return [int(name.rpartition("-")[2]) for name in names]


def alive(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def unlike_one_run(root: Path, trials: int) -> list[str]:
    """Say how what is stored differs from one run that was never killed."""
    folders = sorted(root.glob(".agenteval/runs/2*"))
    if len(folders) != 1:
        return [f"{len(folders)} runs, where one was to go on: {[folder.name for folder in folders]}"]
    run = load_run(folders[0])
    expected = {f"t{number:03}" for number in range(trials)}
    ended = Counter(entry.key.task for entry in run.entries)
    wrong = [f"{task} stands there {times} times" for task, times in ended.items() if times > 1]
    wrong += [f"{task} is lost" for task in sorted(expected - ended.keys())]
    broken = (entry for entry in run.entries if entry.ending != "passed")
    wrong += [f"{entry.key.task} {entry.ending}: {entry.message}" for entry in broken]
    # A line that a kill has torn is told of; the trial whose it was has run again.
    planned = sum(group.trials for group in run.planned)
    wrong += [] if planned == trials else [f"{planned} trials are planned, and not {trials}"]
    return wrong + [each for each in losses(root) if "torn" not in each]


def paid_again(paid: Counter[str], kept: set[str], most: int) -> list[str]:
    """Say which requests were paid again though their trials were kept, and whether others were too many."""
    wrong = [f"{task} was kept, and paid for {paid[task]} times" for task in sorted(kept) if paid[task] != 1]
    again = sum(times - 1 for task, times in paid.items() if task not in kept)
    return wrong + ([f"{again} paid again, and {most} were in flight"] if again > most else [])
