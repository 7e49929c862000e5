"""A provider that puts every request off for a minute: all trials pass, and few requests more are sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.store.run_reader import load_run
from tests.extended.chaos.project import output, project, question, start, until
from tests.extended.chaos.verdicts import Findings
from tests.loopback.model_server import ModelServer, ReplyPlan

TRIALS = 200
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


def storm(root: Path, workers: str = "0", seconds: float = STORM_S, trials: int = TRIALS) -> Findings:
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
