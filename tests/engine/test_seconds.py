"""A trial's seconds are those that passed; its limit does not count imports, nor what others held up."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.engine import worker_context
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, PlannedGrader
from pytest_agenteval.records.recorder import Recorder
from tests.engine.executing import execute, plan, registry

IMPORT_S = 1.0
SLOW = f"""
import time

time.sleep({IMPORT_S})


class Agent:
    async def run(self, task_input, ctx):
        return "Mina"
"""
GREETED = PlannedGrader("answer_contains", "greeted", {"text": "Mina"})


class Waiting:
    """Waits a little, again and again, on the loop of all trials."""

    async def run(self, task_input: object, ctx: object) -> str:
        """Take a quarter of a second and more."""
        for _ in range(5):
            await asyncio.sleep(0.05)
        return "Mina"


@pytest.fixture
def slow_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the place of an agent whose module takes a second to import."""
    (tmp_path / "slow_to_import.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_to_import", raising=False)
    return "slow_to_import:Agent"


def test_importing_an_agent_is_no_second_of_its_trial(slow_import: str) -> None:
    """Nor of a limit of its seconds, which is shorter than the import."""
    known = registry()
    known.agent("slow", slow_import)
    asked = plan("t", GREETED, agent="slow", limits=Allowance(seconds=IMPORT_S / 2))

    (trial,) = execute(known, asked)

    assert (trial.ending, trial.limit) == ("passed", "")
    assert trial.seconds < IMPORT_S / 2


class Blocking:
    """Computes on the loop of all trials, as a busy machine does."""

    async def run(self, task_input: object, ctx: object) -> str:
        """Let nobody else on for a second."""
        await asyncio.sleep(0.05)
        time.sleep(IMPORT_S)
        return "Mina"


for each in (Waiting, Blocking):
    each.run.__module__ = "pytest_agenteval.agents"  # by which ours are known


def test_what_others_hold_up_passes_and_is_not_charged() -> None:
    """The time that is shown is no less than what happened within it took; the limit spares the agent."""
    known = registry()
    known.agent("blocking", Blocking)
    known.agent("waiting", Waiting)
    limited = plan("w", GREETED, agent="waiting", limits=Allowance(seconds=0.25 + IMPORT_S / 2))

    trial, _ = execute(known, limited, plan("b", GREETED, agent="blocking"))

    assert (trial.ending, trial.limit) == ("passed", "")
    assert trial.charged_seconds < 0.25 + IMPORT_S / 2 < IMPORT_S < trial.seconds


def test_the_setup_of_other_trials_is_charged_to_nobody_however_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many of them it adds up, though no single one makes the loop late."""
    now = [100.0]
    monkeypatch.setattr(worker_context, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def acting() -> tuple[float, float]:
        watch, budget = worker_context.TimeWatch(), Budget(Allowance(), lambda: now[0])
        with watch.agent_running(budget, on_loop=True):
            for _ in range(100):
                now[0] += 0.002
                watch.hold_up(0.002)
                now[0] += 0.001
        return budget.elapsed, budget.seconds

    assert asyncio.run(acting()) == pytest.approx((0.3, 0.1))


def test_modules_imported_within_a_function_are_not_charged(slow_import: str) -> None:
    """Neither to who imports nor to who waits for that import, in the agent's thread or in asyncio's."""

    def function(task_input: object, ctx: object) -> str:
        import slow_to_import  # type: ignore[import-not-found] # noqa: F401

        return "Mina"

    async def coroutine(task_input: object, ctx: object) -> str:
        return await asyncio.to_thread(function, task_input, ctx)

    known = registry()
    known.agent("function", function)
    known.agent("coroutine", coroutine)
    limit = Allowance(seconds=IMPORT_S / 2)
    agents = ("function", "function", "coroutine")
    plans = [plan(f"t{number}", GREETED, agent=name, limits=limit) for number, name in enumerate(agents)]

    trials = execute(known, *plans)

    assert [(trial.ending, trial.limit) for trial in trials] == [("passed", "")] * 3
    assert all(trial.charged_seconds < IMPORT_S / 2 for trial in trials)
    assert max(trial.seconds for trial in trials) > IMPORT_S


def test_a_limit_names_the_seconds_it_counts_and_those_that_passed(slow_import: str) -> None:
    """Where both differ much, one alone would look wrong beside the other."""

    def function(task_input: object, ctx: object) -> str:
        import slow_to_import  # noqa: F401

        time.sleep(60)
        return "Mina"

    known = registry()
    known.agent("function", function)
    (trial,) = execute(known, plan("t", GREETED, agent="function", limits=Allowance(seconds=0.3)))

    (event,) = [event for event in trial.transcript.events if event.kind == "limit"]
    found = re.fullmatch(r"limit reached: seconds \(allowed 0.3, used (.*); (.*) s passed\)", event.text)
    assert found is not None, event.text
    assert 0.2 < float(found[1]) < 0.9 < IMPORT_S < float(found[2])


HELD_UP = 100


class HeldUp:
    """Is held up again and again, as by requests; then takes longer than it may."""

    async def run(self, task_input: object, ctx: AgentContext) -> str:
        """Wait for a third of a second in all, then for a minute."""
        for _ in range(HELD_UP):
            with ctx.limits.time.span("uncharged"):
                await asyncio.sleep(0.003)
        await asyncio.sleep(60)
        return "Mina"


def test_a_limit_holds_however_often_it_was_put_off() -> None:
    """What was put off for a request that was brought back comes at its time, neither sooner nor never."""
    known = registry()
    known.agent("held_up", HeldUp)
    began = time.monotonic()

    (trial,) = execute(known, plan("h", GREETED, agent="held_up", limits=Allowance(seconds=0.2)))

    assert trial.limit == "seconds"
    assert HELD_UP * 0.003 + 0.2 <= time.monotonic() - began < 30


FIRST_USE = """
import asyncio, sys
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import execute, plan, registry

before = {}

class Agent:
    templates = {"hello": "Say hello to {{ name }}."}
    tools = ("greet",)

    async def run(self, task_input, ctx):
        before["modules"] = set(sys.modules)
        from pytest_agenteval.records.transcript import ToolCall
        await ctx.tools.call(ToolCall("c", 1, 0, "greet", {"name": "Mina"}))
        said = ctx.prompts.render("hello", name="Mina")
        before["after"] = set(sys.modules) - before["modules"]
        return said

schema = {"type": "object", "properties": {"name": {"type": "string"}}}
known = registry()
known.agent("mine", Agent)
known.tool(Tool(ToolSpec("greet", parameters=schema), lambda args: "Hello"))
asked = PlannedGrader("answer_contains", "a", {"text": "Mina"})
(trial,) = execute(known, plan("t", asked, agent="mine"))
assert trial.ending == "passed", trial.message
late = sorted(name for name in before["after"] if name.partition(".")[0] in ("jinja2", "jsonschema"))
sys.exit(repr(late) if late else 0)
"""


def test_an_agent_whose_reply_used_up_its_time_may_answer() -> None:
    """A reply is charged when it is there; an agent in a thread learns of it a moment later."""

    def slow(task_input: object, ctx: AgentContext) -> str:
        with ctx.limits.time.span("uncharged") as request:
            time.sleep(0.4)
            request.kind = "charged"
        time.sleep(0.5)
        return "Mina"

    known = registry()
    known.agent("slow", slow)
    (trial,) = execute(known, plan("t", GREETED, agent="slow", limits=Allowance(seconds=0.3)))

    assert (trial.ending, trial.limit) == ("passed", "seconds")


def test_a_limit_stays_reached_whatever_is_forgiven_after_it() -> None:
    """What was held up last is forgiven once the agent has ended: its requests have been cut all the same."""
    budgets = []

    class Ending:
        async def run(self, task_input: object, ctx: AgentContext) -> str:
            budgets.append(ctx.limits)
            try:
                await asyncio.sleep(9)
            finally:
                ctx.limits.time.stopped.seconds += 10
            return "too late"

    known = registry()
    known.agent("ending", Ending)
    (trial,) = execute(known, plan("t", GREETED, agent="ending", limits=Allowance(seconds=0.05)))

    (budget,) = budgets
    assert trial.limit == "seconds"
    assert (budget.seconds_left or 0) > 0
    assert budget.reached is not None
    assert budget.reached.limit == "seconds"


@pytest.mark.parametrize("goes_on", ["replied", "ended"])
def test_the_first_trial_of_a_function_goes_alone_until_its_model_has_replied(goes_on: str) -> None:
    """Libraries import and build more when they are first used; a trial that ends is not waited for."""
    order: list[str] = []

    async def both() -> None:
        use, over = worker_context.FirstUse(), asyncio.Event()
        recorders = [Recorder(lambda: 0.0), Recorder(lambda: 0.0)]

        async def first() -> None:
            async with use.turn(recorders[0]):
                await asyncio.sleep(0.1)
                order.append("first")
                recorders[0].turn = 2 if goes_on == "replied" else 1
                if goes_on == "replied":
                    await over.wait()

        async def second() -> None:
            async with use.turn(recorders[1]):
                order.append("second")
                over.set()

        async with asyncio.timeout(4), asyncio.TaskGroup() as group:
            group.create_task(first())
            group.create_task(second())

    asyncio.run(both())
    assert order == ["first", "second"]


def test_what_prompts_and_tools_need_is_loaded_before_the_clock_starts() -> None:
    """The first trial of a process is no slower than the others."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FIRST_USE)],
        cwd=root,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
