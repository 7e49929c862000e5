"""Runs whose surroundings fail them: each ends clearly, and nothing that was finished is lost."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

from pytest_agenteval.store.run_reader import load_run
from tests.extended.chaos.project import bills, journaled, losses, output, project, provider, start

TRIALS = 40

NO_TEMP = """
import tempfile

tempfile.tempdir = "/nowhere/to/be/found"


class Looker:
    async def run(self, task_input, ctx):
        return str(ctx.workspace.path)


def pytest_agenteval_register(registry):
    registry.agent("looker", Looker)
"""
BACKWARDS = """
import datetime
import itertools
import time

import pytest_agenteval.engine.trial
import pytest_agenteval.store.journal_writer

steps = itertools.count()
real = datetime.datetime


class Backwards(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) - datetime.timedelta(hours=next(steps))


began = time.time()
time.time = lambda: began - next(steps) * 60
for module in (pytest_agenteval.engine.trial, pytest_agenteval.store.journal_writer):
    module.datetime = Backwards
"""


def disk_full(root: Path) -> list[str]:
    """Files may grow to 16 KiB: the run says that it cannot write, asks no more, and keeps what ended."""
    with provider() as server:
        project(root, server, 200)
        full = (16 * 1024, 16 * 1024)
        run = start(root, "-s", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, full))
        printed = output(run)
        request_count = sum(bills(server).values())
    # The line that did not fit is torn: it is told as such, and no trial of it was given out.
    wrong = [each for each in losses(root) if not each.startswith("torn")]
    there = journaled(root)
    wrong += _missing_words(run, printed, "File too large")
    passed = printed.count("PASSED") or printed.count(" passed")
    if not there or passed is None:
        wrong.append("nothing that had finished was kept")
    if request_count > len(there) + 100:
        wrong.append(f"{request_count} were asked and paid for, {len(there)} could be written down")
    return wrong


def results_cannot_be_written(root: Path) -> list[str]:
    """A place for results where no folder can be made is told before anything is asked."""
    with provider() as server:
        project(root, server, TRIALS)
        run = start(root, "--agent-results=/proc/agenteval/runs")
        printed = output(run)
        request_count = sum(bills(server).values())
    return _missing_words(run, printed, "/proc/agenteval") + (
        [f"{request_count} were asked all the same"] if request_count else []
    )


def two_runs_at_once(root: Path) -> list[str]:
    """Two runs into the same folder of results: each has a folder of its own, whole."""
    with provider() as server:
        project(root, server, TRIALS)
        both = [start(root, "-q"), start(root, "-q")]
        for run in both:
            output(run)
    folders = list(root.glob(".agenteval/runs/2*"))
    wrong = [f"exit status {run.returncode}" for run in both if run.returncode]
    wrong += [] if len(folders) == 2 else [f"{len(folders)} folders"]
    for folder in folders:
        finished = sum(path.read_text().count('"finished"') for path in folder.glob("journal-*"))
        wrong += [] if finished == TRIALS else [f"{folder.name} holds {finished} of {TRIALS} trials"]
    return wrong


def no_temporary_folder(root: Path) -> list[str]:
    """Workspaces cannot be made: each trial says so for itself."""
    with provider() as server:
        project(root, server, TRIALS, NO_TEMP, {"base_fixture": "start"}, agent="looker")
        (root / "fixtures" / "start" / "PKM").mkdir(parents=True)
        (root / "fixtures" / "start" / "PKM" / "note.md").write_text("hello", encoding="utf-8")
        run = start(root, "--capture=sys")
        printed = output(run)
    wrong = _missing_words(run, printed, "the workspace could not be built")
    count = len(journaled(root))
    return wrong + ([] if count == TRIALS else [f"{count} of {TRIALS} trials are written down"])


def clock_goes_backwards(root: Path) -> list[str]:
    """Every look at the clock is an hour before the last: all trials are there, once, with seconds >= 0."""
    with provider() as server:
        project(root, server, TRIALS, BACKWARDS)
        run = start(root, "-q")
        printed = output(run)
    wrong = losses(root)
    wrong += [] if run.returncode == 0 else [f"exit status {run.returncode}: {printed[-300:]}"]
    return wrong + ([] if len(journaled(root)) == TRIALS else ["trials are missing"])


def bit_rot(root: Path) -> list[str]:
    """One bit flips in a line that was written: a resume tells of it, and runs that trial again alone."""
    with provider() as server:
        project(root, server, TRIALS)
        output(start(root, "-q"))
        (journal,) = root.glob(".agenteval/runs/2*/journal-*.jsonl")
        damaged = bytearray(journal.read_bytes())
        damaged[damaged.rindex(b'"score":1') + len('"score":')] ^= 1  # 1.0 is 0.0 then
        journal.write_bytes(damaged)
        run, before = load_run(journal.parent), sum(bills(server).values())
        printed = output(start(root, "-q", "--agent-resume"))
        again = sum(bills(server).values()) - before
    wrong = [] if len(run.entries) == TRIALS - 1 and run.odd else [f"{len(run.entries)} read, {run.odd}"]
    wrong += [] if "damaged since it was written" in printed else [f"the resume says: {printed[-400:]}"]
    wrong += [] if again == 1 else [f"{again} were asked again"]
    return wrong + ([] if len(journaled(root)) == TRIALS else ["trials are missing"])


def _missing_words(run: subprocess.Popen[str], printed: str, words: str) -> list[str]:
    wrong = [] if words in printed else [f"nothing says {words!r}: {printed[-400:]}"]
    wrong += [f"pytest broke: {printed[-400:]}"] if "INTERNALERROR" in printed else []
    return wrong + (["exit status 0"] if run.returncode == 0 else [])


SURROUNDINGS = (
    disk_full,
    results_cannot_be_written,
    two_runs_at_once,
    no_temporary_folder,
    clock_goes_backwards,
    bit_rot,
)
