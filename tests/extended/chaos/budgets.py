"""Runs with a budget of half their price: they end within one trial's cost of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from pytest_agenteval.store.run_reader import load_run
from tests.extended.chaos.project import bills, output, project, question, start
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
