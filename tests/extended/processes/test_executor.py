"""``--agent-executor=processes``: processes that die, hang, break or are started by a script."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.engine import process_executor
from pytest_agenteval.engine.executor import ExecutorContext, ExecutorReport, TrialRequest
from pytest_agenteval.engine.process_executor import ProcessExecutor
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.registry.registry import Registry
from tests.agents.test_own_models import records_as_one_process, server, write_suite
from tests.calibration.judges import found_in, project, rows
from tests.cassettes.test_recording_processes import check_recorded, start
from tests.engine.test_process_executor import CONFTEST, PROCESSES, add, looking, looking_project
from tests.journals import finished
from tests.loopback.model_server import ModelServer
from tests.suites import import_multiprocessing, only_our_plugin, run, suite, task, write
from tests.tools.mcp.test_served_tools import NOTED, SERVER, asking, served

__all__ = ["server"]  # a fixture
pytest_plugins = ["pytester"]

import_multiprocessing()


@pytest.fixture
def evals(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose conftest registers things of its own, with the help of a module beside it."""
    only_our_plugin(monkeypatch)
    return looking_project(pytester.path)


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


FORKED = """
import os
import time


class Agent:
    async def run(self, task_input, ctx):
        if os.fork() == 0:
            time.sleep(30)
        os._exit(7)


def pytest_agenteval_register(registry):
    registry.agent("forked", Agent)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_died_is_noticed_while_what_it_forked_lives_on(
    evals: Path, pytester: pytest.Pytester
) -> None:
    """The trial is errored at once, with the exit status: it does not wait for what the agent left behind."""
    add(evals, task("a", agent="forked"))
    write(pytester.path, {"conftest.py": FORKED})
    began = time.monotonic()
    result = run(pytester, "evals", PROCESSES)
    assert time.monotonic() - began < 25
    result.assert_outcomes(errors=1)
    assert "(exit status 7)" in result.stdout.str()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no masks of signals")
def test_ctrl_c_is_blocked_in_the_first_process_too() -> None:
    """Starting the helper of multiprocessing, which comes first, must not unblock it again."""
    script = (
        "import signal\n"
        "from multiprocessing import resource_tracker\n"
        "from pytest_agenteval.processes.signals import interrupts_held_back\n"
        "with interrupts_held_back():\n"
        "    resource_tracker.ensure_running()\n"
        "    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


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


def test_an_agent_with_a_model_of_its_own_is_recorded_there(
    pytester: pytest.Pytester, quick: None, server: ModelServer
) -> None:
    """A plan says where the agent is: spawned processes find it, and record as one does."""
    write_suite(pytester.path)
    records_as_one_process(pytester, "--agent-executor=processes:2")
    assert len(server.requests) == 4


WAITS = """
import time
from pathlib import Path

NOTES = Path({notes!r})


def wait(task_input, ctx):
    while "hangs" not in (NOTES.read_text() if NOTES.exists() else ""):
        time.sleep(0.01)
    return "no"


def pytest_agenteval_register(registry):
    registry.agent("waits", wait)
"""


def test_a_run_that_is_cut_short_leaves_no_server(pytester: pytest.Pytester) -> None:
    """As by -x or Ctrl-C, which cancel what is under way."""
    notes = pytester.path / "starts.txt"
    files = {
        "suite.yaml": served(where=NOTED).replace("STARTS_FILE", str(notes)),
        "server.py": SERVER.read_text(encoding="utf-8"),
        "conftest.py": WAITS.format(notes=str(notes)),
        "a.json": asking(id="a", agent="waits"),
        "b.json": asking("hang", id="b"),
    }
    write(pytester.path, {f"evals/{name}": content for name, content in files.items()})
    run(pytester, "evals", "--agent-record=once", "-x").assert_outcomes(failed=1)
    (line,) = (line for line in notes.read_text(encoding="utf-8").splitlines() if "hangs" in line)
    processes = [int(number) for number in line.split()[1:]]
    assert len(processes) == 2
    assert not any(map(is_running, processes))


@pytest.mark.parametrize(("mode", "more"), [("once", ()), ("all", ()), ("new_episodes", ("portable",))])
def test_processes_that_record_one_file_at_once_lose_nothing(
    tmp_path: Path, mode: str, more: tuple[str, ...]
) -> None:
    """Each saves twenty times meanwhile: all calls are kept, those of both once, and nothing else stays."""
    path = tmp_path / "a.yaml"
    started = time.time()
    workers = [start(path, mode, me, started, *more) for me in (1, 2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
    for worker in workers:
        worker.communicate("go\n")
        assert worker.returncode == 0

    check_recorded(path)
