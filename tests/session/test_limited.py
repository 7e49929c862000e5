"""Trials that used up a limit of their own, or of the run's options: graded all the same, the limit named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journals import finished, trials
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

AGENTS = """
import asyncio
import time

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import Usage


class Asking:
    '''Asks until somebody stops it.'''

    async def run(self, task_input, ctx):
        while True:
            await ctx.chat.ask([{"role": "user", "content": "more"}])


class Swallowing:
    '''Asks until something is raised, and makes light of it.'''

    async def run(self, task_input, ctx):
        try:
            await Asking().run(task_input, ctx)
        except BaseException:
            return Answer("Mina, in spite of it")


class Wrapping:
    '''Turns whatever is raised into an error of its own.'''

    async def run(self, task_input, ctx):
        async with asyncio.TaskGroup() as group:
            group.create_task(Asking().run(task_input, ctx))


class Stubborn:
    '''Tries again whatever happens, and lets nobody else run meanwhile.'''

    async def run(self, task_input, ctx):
        while True:
            try:
                await Asking().run(task_input, ctx)
            except Exception:
                continue


class Blocking:
    '''Waits in a thread, where nobody can stop it.'''

    def run(self, task_input, ctx):
        time.sleep(60)


class Forgiven:
    '''Takes longer than it may, of which most was not its own time.'''

    async def run(self, task_input, ctx):
        with ctx.limits.time.span("uncharged"):
            await asyncio.sleep(1.0)
        return Answer("Mina")


class Late:
    '''Waits for a reply that is charged once it is there, and says it at once.'''

    async def run(self, task_input, ctx):
        with ctx.limits.time.span("uncharged") as request:
            await asyncio.sleep(0.1)
            request.kind = "charged"
        return Answer("Mina")


class Dear:
    cost_usd = 0.4

    async def ask(self, messages, **more):
        return Reply("Hello, Mina!", usage=Usage(100, 20, cost_usd=self.cost_usd, asks=1, attempts=1))


class Unpriced(Dear):
    cost_usd = None


def pytest_agenteval_register(registry):
    registry.model("dear", lambda model, plan: Dear())
    registry.model("unpriced", lambda model, plan: Unpriced())
    for agent in (Asking, Swallowing, Wrapping, Stubborn, Blocking, Forgiven, Late):
        registry.agent(agent.__name__.lower(), agent)
"""
CAPABILITY = "name: demo\nkind: capability\n"
SLOW = [{"text": "Hello, Mina!", "seconds": 0.05, "input_tokens": 40, "output_tokens": 10}] * 60


def carry_out(
    pytester: pytest.Pytester, *tasks: object, model: str = "scripted", options: Any = ()
) -> pytest.RunResult:
    """Run tasks with agents that do not know when to stop."""
    suite = f"{CAPABILITY}defaults: {{limits: {{tokens: 5000, cost_usd: 2}}}}\n"
    write(pytester.path, {"conftest.py": AGENTS, "evals/suite.yaml": suite, "evals/tasks.yaml": list(tasks)})
    return run(pytester, "evals", "-v", f"--agent-model={model}", *options)


AGENTS_WITHOUT_END = ("asking", "swallowing", "wrapping", "stubborn")
# The limit, what is allowed, and how many asks that is.
LIMITS = (("steps", 3, 3), ("tokens", 120, 3), ("seconds", 1, None))


def test_a_limit_ends_the_agent_and_the_trial_is_graded(pytester: pytest.Pytester) -> None:
    """Whatever the agent makes of it: never errored, the limit in the journal, no ask beyond it.

    A miss names its limit, and the last step that is allowed is no step too many.
    """
    ended = [
        task(f"{agent}_{limit}", agent=agent, script=SLOW, limits={limit: allowed})
        for agent in AGENTS_WITHOUT_END
        for limit, allowed, _ in LIMITS
    ]
    long = task("long", agent="asking", script=SLOW, wants="Omar", limits={"steps": 2})
    result = carry_out(pytester, *ended, long, task("just", limits={"steps": 1, "tokens": 1}))
    result.assert_outcomes(passed=len(ended) + 1, xfailed=1)
    endings, stored = finished(pytester.path), trials(pytester.path)
    for agent in AGENTS_WITHOUT_END:
        for limit, allowed, asks in LIMITS:
            name = f"{agent}_{limit}"
            assert endings[name]["limit"] == limit
            assert asks is None or stored[name].usage.asks == asks
            (text,) = (event.text for event in stored[name].transcript.events if event.kind == "limit")
            assert text.startswith(f"limit reached: {limit} (allowed {allowed:g}, used ")
    assert endings["long"]["ending"] == "missed"
    result.stdout.fnmatch_lines(["MISSED 0.00*", "*limit reached: steps*"])
    assert "limit" not in endings["just"]


def test_money_is_a_limit_too(pytester: pytest.Pytester) -> None:
    """At 0.40 an ask, a dollar is used up after the third.

    Where nobody knows what was spent, who set the limit learns that it did not hold.
    """
    carry_out(pytester, task("dear", agent="asking", limits={"cost_usd": 1.0}), model="dear")
    line = finished(pytester.path)["dear"]
    assert (line["limit"], line["usage"]["asks"]) == ("cost_usd", 3)
    assert line["usage"]["cost_usd"] == pytest.approx(1.2)
    free = task("free", agent="asking", limits={"cost_usd": 0.01, "steps": 3})
    result = carry_out(pytester, free, model="unpriced", options=["--agent-results=other"])
    result.stdout.fnmatch_lines(["! 1 trial used an unknown amount of limited tokens or money:*"])


CALLS = [*[{"calls": [{"tool": "gone", "args": {}}], "seconds": 0.05}] * 6, {"text": "Hello, Mina!"}]


@pytest.mark.parametrize(
    ("options", "model", "limit", "asks"),
    [
        (("--agent-max-steps=3",), "scripted", "steps", 3),
        (("--agent-timeout=0.12",), "scripted", "seconds", None),
        (("--agent-max-steps=7", "--agent-timeout=60"), "scripted", "", 7),
        ((), "scripted", "steps", 5),
        (("--agent-trial-tokens=300", "--agent-max-steps=7"), "dear", "tokens", 3),
        (("--agent-trial-cost=$0.9", "--agent-max-steps=7"), "dear", "cost_usd", 3),
    ],
)
def test_what_the_run_allows_goes_before_what_task_and_suite_do(
    pytester: pytest.Pytester, options: tuple[str, ...], model: str, limit: str, asks: int | None
) -> None:
    """More or less than they allow; what is not said stays their own."""
    agent = "asking" if model == "dear" else "tool_calling"
    carry_out(
        pytester,
        task("long", agent=agent, script=CALLS, limits={"steps": 5, "seconds": 30}),
        model=model,
        options=options,
    )
    trial = trials(pytester.path)["long"]
    assert (trial.limit or "") == limit
    assert trial.usage.asks == asks if asks else trial.usage.asks < 5


def test_only_the_trials_own_seconds_count(pytester: pytest.Pytester) -> None:
    """Not back-off, failed attempts or waiting for a slot; a late answer is charged when it is there.

    A thread cannot be stopped, its trial can: it ends at its limit.
    """
    slow = [{"text": "Mina", "seconds": 0.6}]
    tasks = [
        task("waited", agent="forgiven", limits={"seconds": 0.8}),
        task("late", agent="late", limits={"seconds": 0.05}),
        task("stuck", agent="blocking", limits={"seconds": 0.1}),
        *(task(name, script=slow, limits={"seconds": 1.1}) for name in "ab"),
    ]
    carry_out(pytester, *tasks, options=["--agent-concurrency=1"]).assert_outcomes(passed=4, xfailed=1)
    lines = finished(pytester.path)
    limits = {name: line.get("limit") for name, line in lines.items()}
    assert limits == {"waited": None, "late": "seconds", "stuck": "seconds", "a": None, "b": None}
    waited, stuck = lines["waited"], lines["stuck"]
    assert waited["seconds"] - waited["uncharged_seconds"] < 0.8 < 1.0 <= waited["seconds"]
    assert 0.1 <= stuck["seconds"] < 30  # its thread waits for 60
