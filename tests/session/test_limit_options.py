"""What a trial may take, said for the whole run: steps, seconds, tokens, US dollars."""

from __future__ import annotations

import pytest

from tests.journals import trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CALL = {"calls": [{"tool": "gone", "args": {}}], "seconds": 0.05}
SCRIPT = [*[CALL] * 6, {"text": "Hello, Mina!"}]


@pytest.mark.parametrize(
    ("options", "limit", "asks"),
    [
        (("--agent-max-steps=3",), "steps", 3),
        (("--agent-timeout=0.12",), "seconds", None),
        (("--agent-max-steps=7", "--agent-timeout=60"), "", 7),
        ((), "steps", 5),
    ],
)
def test_what_the_run_allows_goes_before_what_the_task_does(
    pytester: pytest.Pytester, options: tuple[str, ...], limit: str, asks: int | None
) -> None:
    """More or less than the task allows; what is not said stays the task's own."""
    long = task("long", script=SCRIPT, limits={"steps": 5, "seconds": 30})
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/t.json": long})

    run(pytester, "evals", "-q", *options)

    trial = trials(pytester.path)["long"]
    assert (trial.limit or "") == limit
    assert asks is None or trial.usage.asks == asks
    assert asks is not None or trial.usage.asks < 5


PRICED = """
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.transcript import Usage

class Asking:
    async def run(self, task_input, ctx):
        for _ in range(6):
            await ctx.chat.ask([{"role": "user", "content": "more"}])

class Dear:
    async def ask(self, messages, **more):
        return Reply("Hello, Mina!", usage=Usage(100, 20, cost_usd=0.5, asks=1, attempts=1))

def pytest_agenteval_register(registry):
    registry.agent("asking", Asking)
    registry.model("dear", lambda model, plan: Dear())
"""


@pytest.mark.parametrize(
    ("option", "limit", "asks"),
    [("--agent-trial-tokens=300", "tokens", 3), ("--agent-trial-cost=$0.9", "cost_usd", 2)],
)
def test_tokens_and_dollars_of_each_trial_go_before_what_suites_say(
    pytester: pytest.Pytester, option: str, limit: str, asks: int
) -> None:
    """A suite's defaults allow more, and less where nobody says otherwise."""
    defaults = "defaults: {model: dear, limits: {tokens: 500, cost_usd: 2}}"
    write(
        pytester.path,
        {
            "conftest.py": PRICED,
            "evals/suite.yaml": f"name: g\nkind: capability\nagent: asking\n{defaults}\n",
            "evals/t.json": task("t", script=None),
        },
    )

    run(pytester, "evals", "-q", option)

    trial = trials(pytester.path)["t"]
    assert (trial.limit, trial.usage.asks) == (limit, asks)
