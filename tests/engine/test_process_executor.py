"""``--agent-executor=processes``: what holds in this process holds in those that know the conftests alone."""

from __future__ import annotations

import asyncio
import pickle
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine import process_executor
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    ExecutorBroken,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
    UnusedRecordings,
    make_executor,
)
from pytest_agenteval.engine.local_executor import LocalExecutor
from pytest_agenteval.engine.process_executor import ProcessExecutor
from pytest_agenteval.engine.worker import Worker, pickle_result, read_result
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import Conditions, Model, Plan, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake
from tests.calibration.judges import found_in, project, rows
from tests.engine import executing
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


PLAN = Plan(PlannedTask("suite", "task", "mine", "mixed", "", ()), Model("rules", "rules"))


def looking(id: str, word: str, **more: Any) -> dict[str, Any]:
    """Give a task of the agent that looks at a word, with a grader of the conftest's own."""
    graders = [
        {"name": "answer_contains", "config": {"text": "Mina"}},
        {"name": "busy", "threshold": 0.5},
    ]
    return task(id, input={"content": word, **more}, graders=graders, agent="looking")


def looking_project(root: Path) -> Path:
    """Write a project whose conftest registers things of its own, with the help of a module beside it."""
    files = {
        "conftest.py": CONFTEST,
        "sibling.py": 'GREETING = "Good morning"\n',
        "pyproject.toml": PYPROJECT,
        "evals/suite.yaml": suite(),
    }
    write(root, files)
    return root / "evals"


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


def test_trials_are_what_they_are_in_one_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores, workspaces, recordings, judges' answers, states that hold objects, output without secrets.

    A process that dies takes one trial with it.
    """
    only_our_plugin(monkeypatch)
    project(pytester.path, examples=rows(5))
    (pytester.path / "conftest.py").rename(pytester.path / "evals/calibration/conftest.py")
    evals = looking_project(pytester.path)
    add(evals, looking("a", "bread"), looking("b", "die"), looking("c", "object"), looking("d", "salt"))
    options = ("evals", "--agent-record=once", "--agent-judge=noisy")
    run(pytester, *options, "--deselect=evals/b.json").assert_outcomes(passed=4)
    here, judged = comparable_records(pytester.path), found_in(pytester.path)
    tapes = {path.name: path.read_text() for path in (pytester.path / "cassettes").rglob("*.yaml")}
    for path in (pytester.path / "cassettes").rglob("*.yaml"):
        path.unlink()
    (pytester.path / ".agenteval").rename(pytester.path / "here")

    result = run(pytester, *options, f"{PROCESSES}:1", "-v")

    result.assert_outcomes(passed=4, errors=1)
    there = comparable_records(pytester.path)
    assert {name: there[name] for name in ("a", "c", "d")} == here
    assert found_in(pytester.path) == judged
    assert trials(pytester.path)["c"].outcome.answer.state == {"held": "held", "local": "local"}
    assert there["a"][4] == "looked at bread with <redacted>\n"
    assert trials(pytester.path)["a"].log == "WARNING agent: seen in another process: True\n"
    assert len(tapes) == 3
    assert {path.name for path in (pytester.path / "cassettes").rglob("*.yaml")} == set(tapes)
    dead = finished(pytester.path)["b"]
    assert dead["cause"] == "executor"
    assert dead["message"] == "the process that ran it died (exit status 7)"
    assert [dead["usage"][name] for name in ("in", "cost_usd", "attempts")] == [None] * 3  # it told nobody


def test_where_the_conftests_could_not_be_loaded_each_request_gets_the_reason() -> None:
    """So it is for trials and calibrations; a plan that cannot be unpickled says so."""
    calibration: Any = CalibrationRequest(None, Conditions())  # type: ignore[arg-type]  # nobody looks at it
    here, there = Pipe()
    for request in (pickle.dumps(TrialRequest(PLAN)), pickle.dumps(calibration), b"no pickle", b""):
        here.send_bytes(request)

    process_executor.answer_requests(there, "RuntimeError: only in the first")

    trial, result = read_result(here.recv_bytes()), read_result(here.recv_bytes())
    assert (trial.ending, trial.cause) == ("errored", "executor")
    assert trial.message == "RuntimeError: only in the first"
    assert (result.error.cause, result.error.message) == ("executor", "RuntimeError: only in the first")
    with pytest.raises(ExecutorBroken, match="the plan cannot be read in another process: "):
        read_result(here.recv_bytes())
    assert pickle.loads(here.recv_bytes()) == ExecutorReport()


class _Closed:
    """A process that has closed, with what it reported."""

    def __init__(self, unused: tuple[int, ...], *, has_died: bool = False) -> None:
        self.has_died, self._unused = has_died, unused

    async def close(self) -> ExecutorReport:
        return ExecutorReport(("a.yaml: read-only",), {"t.yaml": UnusedRecordings(3, self._unused)})


class _Unsendable:
    """An object of an agent's state that cannot be pickled; neither can its text be had where ``mute``."""

    def __init__(self, mute: bool) -> None:
        self.mute = mute

    def __reduce__(self) -> Any:
        raise TypeError("no pickle of this")

    def __repr__(self) -> str:
        if self.mute:
            raise RecursionError("no text of this")
        return "<a screen>"


def test_a_state_that_cannot_be_pickled_becomes_text_or_breaks_its_own_trial() -> None:
    """No process is lost for what one agent kept in its state, and nobody waits for its trial for ever."""
    plan = executing.plan("t")
    (trial,) = executing.execute(executing.registry(), plan)
    arrived = []
    for mute in (False, True):
        answer = Answer("Mina", {"screen": _Unsendable(mute)})
        ended = replace(trial, outcome=replace(trial.outcome, answer=answer))
        arrived.append(pickle.loads(pickle_result(ended, TrialRequest(plan))))

    assert arrived[0].outcome.answer.state == {"screen": "<a screen>"}
    assert arrived[1].ending == "errored"
    assert arrived[1].key == trial.key
    assert arrived[1].message.startswith("the trial's result cannot be sent to another process: ")


def test_whatever_the_executor_of_a_process_raises_is_the_end_of_its_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for that process for ever."""

    async def failing(executor: LocalExecutor, request: TrialRequest) -> Trial:
        raise SystemExit("a mistake of ours")

    monkeypatch.setattr(LocalExecutor, "run", failing)
    worker = Worker(ExecutorContext(captures_output=False))
    try:
        trial = worker.begin(TrialRequest(PLAN)).result(20)
    finally:
        worker.close()
    assert (trial.key, trial.cause, trial.message) == (PLAN.key, "crash", "SystemExit: a mistake of ours")


def test_unused_recordings_are_what_no_process_replayed() -> None:
    """One that died cannot say what it replayed: then nothing is called unused."""

    def closed(*processes: Any) -> ExecutorReport:
        executor = ProcessExecutor(Registry())
        executor._processes = list(processes)
        return asyncio.run(executor.close())

    both = closed(_Closed((0, 1)), _Closed((1, 2)))
    assert both == ExecutorReport(("a.yaml: read-only",), {"t.yaml": UnusedRecordings(3, (1,))})
    assert closed(_Closed((0, 1)), _Closed((1,), has_died=True)).unused_recordings == {}


class _Endless:
    """A process that computes without end until it is killed, and both ends of its pipe."""

    exitcode: int | None = None

    def kill(self) -> None:
        self.exitcode = -9

    def join(self, seconds: float) -> None:
        pass

    def send_bytes(self, message: bytes) -> None:
        pass


def test_a_process_that_does_not_close_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports nothing, and counts as dead."""
    monkeypatch.setattr(process_executor, "CLOSING_S", 0.01)
    endless: Any = _Endless()
    process = process_executor._Process(ExecutorContext())
    process._process = process._pipe = endless
    process._news = asyncio.Queue()
    assert asyncio.run(process.close()) == ExecutorReport()
    assert (process.has_died, endless.exitcode) == (True, -9)


def test_an_executor_that_nobody_knows_is_refused(pytester: pytest.Pytester) -> None:
    """Before anything is tried, with what may have been meant."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.yaml": [task("good")]})
    result = run(pytester, "evals", "--agent-executor=procesess")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown executor 'procesess'*did you mean 'processes'?*"])


def test_an_argument_that_an_executor_cannot_obey_is_refused() -> None:
    """Processes are counted; what is local has no number of its own."""
    for argument in ("0", "two"):
        with pytest.raises(UsageMistake) as refused:
            ProcessExecutor.check_argument(argument)
        words = f"--agent-executor=processes:{argument}: expected a number of processes, 1 or more"
        assert str(refused.value) == words
    ProcessExecutor.check_argument("")
    ProcessExecutor.check_argument("1")
    LocalExecutor.check_argument("")
    words = "--agent-executor=local:4: expected local without a number; --agent-concurrency=4 sets "
    with pytest.raises(UsageMistake, match=words):
        LocalExecutor.check_argument("4")


def test_there_are_as_many_processes_as_the_argument_says() -> None:
    """Two by default, and never more than trials that may run at once."""

    def number(argument: str, concurrency: int = 10) -> int:
        context = ExecutorContext(argument=argument, concurrency=concurrency)
        return asyncio.run(ProcessExecutor(Registry()).ready(context))

    assert [number(""), number("8"), number("8", 3)] == [2, 8, 3]


def test_an_executor_that_cannot_be_made_gives_its_reason_with_every_trial() -> None:
    """A factory may raise, or make something else."""
    registry = Registry()
    registry.executor("raising", lambda registry: 1 / 0)
    registry.executor("number", lambda registry: 5)
    reasons = {
        "raising": "the executor 'raising' cannot be made: ZeroDivisionError: division by zero",
        "number": "the executor 'number': expected one with ready, run, calibrate, close; found 5",
    }
    for name, reason in reasons.items():
        with pytest.raises(ExecutorBroken) as broken:
            asyncio.run(make_executor(name, registry).ready(ExecutorContext()))
        assert str(broken.value).startswith(reason)


def test_trials_of_a_broken_executor_are_errored(pytester: pytest.Pytester) -> None:
    """They are written down like any other; no traceback leads into our code."""
    conftest = "def pytest_agenteval_register(registry):\n    registry.executor('own', lambda registry: 5)\n"
    files = {"conftest.py": conftest, "evals/suite.yaml": suite(), "evals/t.yaml": [task("good")]}
    write(pytester.path, files)

    result = run(pytester, "evals", "--agent-executor=own")

    result.assert_outcomes(errors=1)
    assert "executor: the executor 'own': expected one with ready, run" in result.stdout.str()
    assert "! 1 of greetings's 1 trial errored, in no average: 1 executor" in result.stdout.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
