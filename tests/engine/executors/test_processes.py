"""``--agent-executor=processes``: what holds in this process holds in those that know the conftests alone."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.engine import process_executor
from pytest_agenteval.engine.executor import ExecutorContext, ExecutorReport, TrialRequest
from pytest_agenteval.engine.process_executor import ProcessExecutor
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.registry.registry import Registry
from tests.calibration.judges import found_in, project, rows
from tests.journals import finished, trials
from tests.suites import import_multiprocessing, only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

import_multiprocessing()

PROCESSES = "--agent-executor=processes"
CONFTEST = """
import logging
import os
import threading
import time
from multiprocessing import parent_process

from sibling import GREETING

LOCK = threading.Lock()  # no pickle of anything here: only its path travels


class Agent:
    tools = ("look",)

    async def run(self, task_input, ctx):
        word = task_input["content"]
        if word == "die":
            os._exit(7)
        if word == "spin":
            open(task_input["pid_file"], "w").write(str(os.getpid()))
            while True:
                pass
        from pytest_agenteval.records.transcript import ToolCall
        result = await ctx.tools.call(ToolCall("c", 1, 0, "look", {"at": word}))
        print(f"looked at {word} with hunter22-{word}")
        logging.getLogger("agent").warning("seen in another process: %s", parent_process() is not None)
        (ctx.path / "said.md").write_text(GREETING)
        from pytest_agenteval import Answer
        state = {"held": Held(), "local": local_object()} if word == "object" else {}
        return Answer(f"{GREETING}, Mina: {result.value}", state)


class Held:
    def __reduce__(self):
        raise TypeError("cannot be copied")

    def __repr__(self):
        return "held"


def local_object():
    class Local:  # can be copied, and not be sent
        def __repr__(self):
            return "local"

    return Local()


class Busy:
    def grade(self, evidence):
        with LOCK:
            return 0.5 if evidence.after.text("said.md") == GREETING else 0.0


def pytest_agenteval_register(registry):
    from pytest_agenteval.records.tool_spec import ToolSpec
    from pytest_agenteval.tools.tool import Tool

    registry.agent("looking", lambda **settings: Agent())
    registry.grader("busy", lambda **config: Busy())
    registry.tool(Tool(ToolSpec("look", taped=True), lambda args: f"seen {args['at']}"))
"""
PYPROJECT = '[tool.agenteval]\nredact = ["hunter22-[a-z]+"]\n'


def looking(id: str, word: str, **more: Any) -> dict[str, Any]:
    """Give a task of the agent that looks at a word, with a grader of the conftest's own."""
    graders = [
        {"name": "answer_contains", "config": {"text": "Mina"}},
        {"name": "busy", "threshold": 0.5},
    ]
    return task(id, input={"content": word, **more}, graders=graders, agent="looking")


@pytest.fixture
def evals(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose conftest registers things of its own, with the help of a module beside it."""
    only_our_plugin(monkeypatch)
    files = {
        "conftest.py": CONFTEST,
        "sibling.py": 'GREETING = "Good morning"\n',
        "pyproject.toml": PYPROJECT,
        "evals/suite.yaml": suite(),
    }
    write(pytester.path, files)
    return pytester.path / "evals"


def add(folder: Path, *tasks: dict[str, Any]) -> None:
    """Write tasks into the suite."""
    write(folder, {f"{each['id']}.json": each for each in tasks})


def comparable_records(root: Path) -> dict[str, Any]:
    """Give what does not depend on where and when a trial was carried out."""
    there = trials(root)
    return {
        name: (
            trial.ending,
            trial.score,
            trial.grades,
            trial.outcome,
            trial.output,
            trial.digests,
            trial.tool_tape,
            [(call.tool, call.args, call.result) for call in trial.transcript.calls],
        )
        for name, trial in there.items()
    }


def test_trials_are_what_they_are_in_one_process(evals: Path, pytester: pytest.Pytester) -> None:
    """Scores, workspaces, recordings, states that hold objects, output without secrets.

    A process that dies takes one trial with it.
    """
    add(evals, looking("a", "bread"), looking("b", "die"), looking("c", "object"), looking("d", "salt"))
    record = ("--agent-record=once", "--deselect=evals/b.json")
    run(pytester, "evals", *record).assert_outcomes(passed=3)
    here = comparable_records(pytester.path)
    tapes = {path.name: path.read_text() for path in (pytester.path / "cassettes").rglob("*.yaml")}
    for path in (pytester.path / "cassettes").rglob("*.yaml"):
        path.unlink()
    (pytester.path / ".agenteval").rename(pytester.path / "here")

    result = run(pytester, "evals", PROCESSES, "--agent-record=once", "-v")

    result.assert_outcomes(passed=3, errors=1)
    there = comparable_records(pytester.path)
    assert {name: there[name] for name in ("a", "c", "d")} == here
    assert trials(pytester.path)["c"].outcome.answer.state == {"held": "held", "local": "local"}
    assert there["a"][4] == "looked at bread with <redacted>\n"
    assert trials(pytester.path)["a"].log == "WARNING agent: seen in another process: True\n"
    assert len(tapes) == 3
    assert {name for path in (pytester.path / "cassettes").rglob("*.yaml") if (name := path.name)} == set(
        tapes
    )
    dead = finished(pytester.path)["b"]
    assert dead["cause"] == "executor"
    assert dead["message"] == "the process that carried it out died (exit status 7)"
    assert [dead["usage"][name] for name in ("in", "cost_usd", "attempts")] == [None] * 3  # it told nobody


DYING = """
import os
from pathlib import Path

from pytest_agenteval import Tool, ToolCall, ToolSpec

FIRST = Path(__file__).with_name("first")


class Agent:
    tools = ("look",)

    async def run(self, task_input, ctx):
        try:
            FIRST.touch(exist_ok=False)
            word = "bread"
        except FileExistsError:
            word = "salt"
        await ctx.tools.call(ToolCall("c", 1, 0, "look", {"at": word}))
        if word == "bread" and "DIE" in os.environ:
            os._exit(7)
        return "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("dying", Agent)
    registry.tool(Tool(ToolSpec("look", taped=True), lambda args: f"seen {args['at']}"))
"""


def test_what_a_process_played_before_it_died_is_not_called_unused(
    evals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can tell nobody what it played, so the run says nothing of unused recordings."""
    add(evals, task("a", agent="dying", trials_per_run=2))
    write(pytester.path, {"conftest.py": DYING})
    run(pytester, "evals", "--agent-record=once").assert_outcomes(passed=2)
    (pytester.path / "first").unlink()
    monkeypatch.setenv("DIE", "1")

    result = run(pytester, "evals", f"{PROCESSES}:1", "-v")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.no_fnmatch_line("*were not played*")


def wait_until_no_children(until: float) -> None:
    """Fail where a killed process has not ended by then: a busy machine may need a moment."""
    while active_children() and time.monotonic() < until:
        time.sleep(0.05)
    assert not active_children()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that computes for ever is killed soon: its computing costs other tests their time."""
    monkeypatch.setattr(process_executor, "CLOSING_S", 0.4)


@pytest.mark.usefixtures("impatient")
def test_minus_x_leaves_no_process_behind(evals: Path, pytester: pytest.Pytester) -> None:
    """One that computes for ever hears nothing: it is killed, and the run is over at once."""
    pid_file = pytester.path / "pid"
    add(evals, looking("a", "die"), looking("b", "spin", pid_file=str(pid_file)))
    (pytester.path / "conftest.py").write_text(
        CONFTEST.replace(
            "os._exit(7)", "[time.sleep(0.05) for _ in iter(lambda: slept(task_input), True)]; os._exit(7)"
        )
        + f"\ndef slept(task_input):\n    return os.path.exists({str(pid_file)!r})\n"
    )
    began = time.monotonic()

    result = run(pytester, "evals", PROCESSES, "-x")

    result.assert_outcomes(errors=1)
    assert time.monotonic() - began < 60
    wait_until_no_children(began + 60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.usefixtures("impatient")
def test_a_process_that_is_still_coming_up_holds_up_no_end(tmp_path: Path, capfd: Any) -> None:
    """Its conftest takes minutes there: it is killed like one that computes, and nothing is printed."""
    (tmp_path / "conftest.py").write_text("import time\ntime.sleep(100)\n", encoding="utf-8")
    plan = Plan(PlannedTask("suite", "task", "mine", "mixed", "", ()), Model("rules", "rules"))

    async def stopped() -> ExecutorReport:
        executor = ProcessExecutor(Registry())
        await executor.ready(ExecutorContext(root=str(tmp_path), conftests=(str(tmp_path),)))
        trial = asyncio.ensure_future(executor.run(TrialRequest(plan)))
        await asyncio.sleep(0.3)
        trial.cancel()
        return await executor.close()

    began = time.monotonic()
    assert asyncio.run(stopped()) == ExecutorReport()
    wait_until_no_children(began + 30)
    assert capfd.readouterr().err == ""


def test_a_script_that_calls_pytest_is_run_once(evals: Path, pytester: pytest.Pytester) -> None:
    """A spawned process would run it again, and every trial with it, where it does not ask for its name."""
    add(evals, looking("a", "bread"))
    arguments = ["evals", PROCESSES, "--agent-record=once", "-p", "no:cacheprovider"]
    script = f"import pytest\nprint('begun')\nraise SystemExit(pytest.main({arguments}))\n"
    (pytester.path / "script.py").write_text(script, encoding="utf-8")
    result = pytester.run(sys.executable, "script.py")
    assert result.ret == 0
    assert result.outlines.count("begun") == 1
    assert len(list((pytester.path / ".agenteval" / "runs").glob("2*"))) == 1


def test_a_conftest_that_breaks_there_is_told_with_every_trial(
    evals: Path, pytester: pytest.Pytester
) -> None:
    """It may need what only this process has; nothing hangs, and no traceback is shown."""
    add(evals, looking("a", "bread"))
    broken = CONFTEST + "\nif parent_process() is not None:\n    raise RuntimeError('only in the first')\n"
    (pytester.path / "conftest.py").write_text(broken)

    result = run(pytester, "evals", PROCESSES)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*executor: the conftests could not be loaded*"])
    assert "RuntimeError: only in the first" in finished(pytester.path)["a"]["message"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("procesess", "*unknown executor 'procesess'*did you mean 'processes'?*"),
        ("processes:0", "*--agent-executor=processes:0: expected a number of processes, 1 or more"),
        ("processes:two", "*--agent-executor=processes:two: expected a number of processes, 1 or more"),
        ("local:4", "*--agent-executor=local:4: expected local alone; --agent-concurrency=4 says *"),
    ],
)
def test_an_executor_that_nobody_knows_is_refused(
    evals: Path, pytester: pytest.Pytester, option: str, words: str
) -> None:
    """Before anything is tried, with what may have been meant; and so is an argument it cannot obey."""
    add(evals, looking("a", "bread"))
    result = run(pytester, "evals", f"--agent-executor={option}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words])


def test_a_calibration_and_a_regraded_run_have_the_same_figures(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judges are asked there, and stored trials are sent there to be graded again."""
    only_our_plugin(monkeypatch)
    project(pytester.path, examples=rows(5))
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": task("t")})
    found = []
    for executor in ("local", "processes:1"):
        options = ("--agent-judge=noisy", f"--agent-executor={executor}")
        run(pytester, "evals", *options).assert_outcomes(passed=2)
        found.append((found_in(pytester.path), finished(pytester.path)["t"]["score"]))
        (pytester.path / ".agenteval").rename(pytester.path / executor.partition(":")[0])
    assert found[0] == found[1]
    (pytester.path / "processes").rename(pytester.path / ".agenteval")
    result = run(pytester, "evals/t.json", "--agent-regrade=latest", "--agent-executor=processes:1")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("lambda registry: 1 / 0", "the executor 'own' cannot be made: ZeroDivisionError: division by zero"),
        ("lambda registry: 5", "the executor 'own': expected one with ready, run, calibrate, close; found 5"),
    ],
)
def test_an_executor_that_cannot_be_made_is_told_with_every_trial(
    pytester: pytest.Pytester, factory: str, why: str
) -> None:
    """They are errored and written down like any other; no traceback leads into our code."""
    conftest = f"def pytest_agenteval_register(registry):\n    registry.executor('own', {factory})\n"
    write(
        pytester.path, {"conftest.py": conftest, "evals/suite.yaml": suite(), "evals/t.yaml": [task("good")]}
    )

    result = run(pytester, "evals", "--agent-executor=own")

    result.assert_outcomes(errors=1)
    assert f"executor: {why}" in result.stdout.str()
    assert "! 1 of greetings's 1 trial errored, in no average: 1 executor" in result.stdout.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
