"""Whole runs with a budget of half their price, in four shards, or of a provider that refuses a minute."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.chaos.project import bills, output, project, provider, question, start, until
from tests.extended.chaos.verdicts import Findings
from tests.loopback.model_server import ModelServer, ReplyPlan

TRIALS = 120
PRICE = "\n[tool.agenteval.prices.local]\ninput = 10\noutput = 0\n"
"""US dollars for a million tokens: a thousand cost a cent."""


def half_the_price(root: Path, arguments: Sequence[str] = (), seed: int = 1) -> Findings:
    """Carry out 120 trials of 1 to 5 cents each with a budget of half of it, then the rest with all of it."""
    cents = _prices(seed)
    dearest, budget = max(cents.values()), sum(cents.values()) / 2
    with ModelServer(lambda request, number: _reply(cents[question(request)]), latency_s=0.05) as server:
        project(root, server, TRIALS)
        with (root / "pyproject.toml").open("a", encoding="utf-8") as settings:
            settings.write(PRICE)
        first = start(root, "-q", *arguments, f"--agent-max-cost={budget / 100:.2f}")
        printed = output(first)
        paid = sum(cents[task] * times for task, times in bills(server).items())
        wrong = [] if first.returncode == 2 else [f"exit status {first.returncode}: {printed[-400:]}"]
        if abs(paid - budget) > dearest:
            wrong.append(
                f"{paid} cents were paid with a budget of {budget:g}; a trial costs {dearest} at most"
            )
        rest = start(root, "-q", *arguments, "--agent-resume", f"--agent-max-cost={budget / 50 + 1:.2f}")
        printed = output(rest)
        wrong += [] if rest.returncode == 0 else [f"exit status {rest.returncode}: {printed[-400:]}"]
        wrong += [f"{task} was paid {times} times" for task, times in bills(server).items() if times > 1]
    (folder,) = root.glob(".agenteval/runs/2*")
    run = load_run(folder)
    wrong += [] if len(run.entries) == TRIALS else [f"{len(run.entries)} of {TRIALS} trials have an ending"]
    return Findings(wrong, {"cents of budget": budget, "cents paid": paid})


def _prices(seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    return {f"t{number:03}": chance.randrange(1, 6) for number in range(TRIALS)}


def _reply(cents: int) -> ReplyPlan:
    return ReplyPlan(text="Hello!", input_tokens=1000 * cents, output_tokens=0)


STORM_TRIALS = 200
AT_ONCE = 50
STORM_S = 60.0
MOST_REQUESTS = 1.5
MANY = 10
LONGEST_S = 300.0


class Storm:
    """Answers until so many requests are under way, then puts every one off for a while, then answers."""

    def __init__(self, seconds: float, after: int) -> None:
        self._seconds, self._after = seconds, after
        self._began = 0.0
        self.refused = 0

    def __call__(self, request: Mapping[str, Any], number: int) -> ReplyPlan:
        """Answer a request, by the moment at which it comes."""
        now = time.monotonic()
        if number >= self._after and not self._began:
            self._began = now
        if self._began and now - self._began < self._seconds:
            self.refused += 1
            return ReplyPlan(status=429, latency_s=0.2)
        return ReplyPlan(text=f"Hello, {question(request)}!", latency_s=0.5)


def storm(root: Path, workers: str = "0", seconds: float = STORM_S, trials: int = STORM_TRIALS) -> Findings:
    """Run with a storm that begins when so many requests as may be are under way."""
    weather = Storm(seconds, after=2 * AT_ONCE)
    with ModelServer(weather) as server:
        project(root, server, trials)
        settings = root / "pyproject.toml"
        table = settings.read_text(encoding="utf-8")
        limits = f"requests_at_once = {AT_ONCE}, requests_at_start = {AT_ONCE}, api_base"
        settings.write_text(table.replace("api_base", limits), encoding="utf-8")
        at_once = f"--agent-concurrency={AT_ONCE // max(1, int(workers))}"
        run = start(root, "-q", "-n", workers, at_once, "--agent-timeout=20")
        until(lambda: False, run, LONGEST_S)
        printed = output(run)
        sent = len(server.requests)
    (folder,) = root.glob(".agenteval/runs/2*")
    passed = sum(entry.ending == "passed" for entry in load_run(folder).entries)
    wrong = [] if passed == trials else [f"{passed} of {trials} passed: {printed[-1000:]}"]
    if weather.refused < MANY:
        wrong.append(f"only {weather.refused} requests were put off: that was no storm")
    if sent > MOST_REQUESTS * trials:
        wrong.append(f"{sent} requests for {trials} trials, {MOST_REQUESTS * trials:g} at most")
    return Findings(wrong, {"requests": sent, "trials": trials})


SHARDS_TRIALS = 60
MERGE = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
MOVING = frozenset({"started_at", "run", "command", "ended_at", "package", "shard", "shards"})
"""Columns that differ between two runs of the same, or say where a run lies; so do all seconds."""


def four_shards(root: Path) -> Findings:
    """Try the tasks twice each in one run and in four shards, one of them with workers, and merge these."""
    with provider() as server:
        project(root, server, SHARDS_TRIALS)
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
    wrong += [] if paid == 4 * SHARDS_TRIALS else [f"{paid} were asked, and not {4 * SHARDS_TRIALS}"]
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
