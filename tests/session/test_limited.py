"""Trials that used up a limit of their own: graded all the same, with the limit named."""

from __future__ import annotations

import time

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
        return Reply("Hello, Mina!", usage=Usage(cost_usd=self.cost_usd, asks=1, attempts=1))


class Unpriced(Dear):
    cost_usd = None


def pytest_agenteval_register(registry):
    registry.model("dear", lambda model, plan: Dear())
    registry.model("unpriced", lambda model, plan: Unpriced())
    for agent in (Asking, Swallowing, Wrapping, Stubborn, Blocking, Forgiven, Late):
        registry.agent(agent.__name__.lower(), agent)
"""
CAPABILITY = "name: demo\nkind: capability\n"
SLOW = [{"text": "Hello, Mina!", "seconds": 0.01, "input_tokens": 40, "output_tokens": 10}] * 60


def carry_out(pytester: pytest.Pytester, *tasks: object, model: str = "scripted") -> pytest.RunResult:
    """Run tasks with agents that do not know when to stop."""
    write(
        pytester.path,
        {"conftest.py": AGENTS, "evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": list(tasks)},
    )
    return run(pytester, "evals", "-v", f"--agent-model={model}")


AGENTS_WITHOUT_END = ("asking", "swallowing", "wrapping", "stubborn")


@pytest.mark.parametrize(
    ("limit", "allowed", "asks"), [("steps", 3, 3), ("tokens", 120, 3), ("seconds", 0.3, None)]
)
def test_a_limit_ends_the_agent_and_the_trial_is_graded(
    pytester: pytest.Pytester, limit: str, allowed: float, asks: int | None
) -> None:
    """Whatever the agent makes of it: never errored, the limit in the journal, no ask beyond it."""
    tasks = [task(agent, agent=agent, script=SLOW, limits={limit: allowed}) for agent in AGENTS_WITHOUT_END]
    carry_out(pytester, *tasks).assert_outcomes(passed=len(tasks))
    endings, stored = finished(pytester.path), trials(pytester.path)
    for agent in AGENTS_WITHOUT_END:
        assert endings[agent]["limit"] == limit
        assert asks is None or stored[agent].usage.asks == asks
        (event_text,) = (event.text for event in stored[agent].transcript.events if event.kind == "limit")
        assert event_text.startswith(f"limit reached: {limit} (allowed {allowed:g}, used ")


def test_money_is_a_limit_too(pytester: pytest.Pytester) -> None:
    """At 0.40 an ask, a dollar is used up after the third."""
    carry_out(pytester, task("dear", agent="asking", limits={"cost_usd": 1.0}), model="dear")
    line = finished(pytester.path)["dear"]
    assert (line["limit"], line["usage"]["asks"]) == ("cost_usd", 3)
    assert line["usage"]["cost_usd"] == pytest.approx(1.2)


def test_a_limit_of_money_without_prices_is_said_to_be_none(pytester: pytest.Pytester) -> None:
    """Nobody knows what was spent: who set the limit learns that it did not hold."""
    limits = {"cost_usd": 0.01, "steps": 3}
    result = carry_out(pytester, task("free", agent="asking", limits=limits), model="unpriced")
    assert finished(pytester.path)["free"]["limit"] == "steps"
    result.stdout.fnmatch_lines(["! 1 trial with a limit of tokens or money took an unknown amount of it:*"])


def test_a_missed_trial_names_its_limit(pytester: pytest.Pytester) -> None:
    """What pytest says of the miss says that the limit was reached."""
    result = carry_out(pytester, task("long", agent="asking", script=SLOW, wants="Omar", limits={"steps": 2}))
    result.assert_outcomes(xfailed=1)
    assert finished(pytester.path)["long"]["ending"] == "missed"
    result.stdout.fnmatch_lines(["MISSED 0.00*", "*limit reached: steps*"])


def test_an_agent_that_needed_no_more_is_not_limited(pytester: pytest.Pytester) -> None:
    """The last step that is allowed is no step too many."""
    carry_out(pytester, task("just", limits={"steps": 1, "tokens": 1}))
    assert "limit" not in finished(pytester.path)["just"]


def test_an_agent_that_blocks_in_a_thread_is_left_behind(pytester: pytest.Pytester) -> None:
    """Its thread cannot be stopped, its trial can: it ends at its limit."""
    result = carry_out(pytester, task("stuck", agent="blocking", limits={"seconds": 0.1}), task("good"))
    result.assert_outcomes(xfailed=1, passed=1)
    line = finished(pytester.path)["stuck"]
    assert line["limit"] == "seconds"
    assert 0.1 <= line["seconds"] < 30  # its thread waits for 60


def test_seconds_that_are_not_the_trials_own_do_not_count(pytester: pytest.Pytester) -> None:
    """Back-off and failed attempts are forgiven: neither the limit nor the journal knows of them."""
    carry_out(pytester, task("waited", agent="forgiven", limits={"seconds": 0.8}))
    line = finished(pytester.path)["waited"]
    assert "limit" not in line
    assert line["ending"] == "passed"
    assert line["seconds"] - line["uncharged_seconds"] < 0.8 < 1.0 <= line["seconds"]


def test_an_answer_that_comes_late_is_graded_and_the_limit_is_named(pytester: pytest.Pytester) -> None:
    """A reply is charged when it is there: whoever waits for nothing after it has still used up its time."""
    carry_out(pytester, task("late", agent="late", limits={"seconds": 0.05})).assert_outcomes(passed=1)
    assert finished(pytester.path)["late"]["limit"] == "seconds"


def test_waiting_for_a_slot_does_not_count(pytester: pytest.Pytester) -> None:
    """Two trials of 0.6 s, one after the other: each took 0.6 s, not the second 1.2."""
    write(pytester.path, {"evals/suite.yaml": CAPABILITY})
    slow = [{"text": "Mina", "seconds": 0.6}]
    write(pytester.path, {"evals/tasks.yaml": [task("a", script=slow), task("b", script=slow)]})
    began = time.monotonic()
    run(pytester, "evals", "--agent-model=scripted", "--agent-concurrency=1")
    took = time.monotonic() - began
    seconds = [line["seconds"] for line in finished(pytester.path).values()]
    assert min(seconds) >= 0.6
    assert sum(seconds) <= took
