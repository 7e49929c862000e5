"""The panel of a run on a terminal: it says what the run is at, and leaves pytest's lines as they were."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.processes.signals import is_terminal_with_escapes
from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.session.panel import RunProgress
from pytest_agenteval.store.run_reader import load_run
from tests.suites import run, suite, task, write

if os.name == "posix":
    from tests.terminals import PytestOnTerminal, Terminal

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]

TOLD = [{"text": "Mina", "input_tokens": 1200, "output_tokens": 34}]
CONFTEST = """
import asyncio
import os
from pathlib import Path


class Waiting:
    async def run(self, task_input, ctx):
        for _ in range(int(os.environ.get("LOOKS", 3000))):  # a minute: whoever looks may be gone
            if "LOOKS" not in os.environ and Path("seen").exists():
                break
            await asyncio.sleep(0.02)
        return "Mina"


def pytest_agenteval_register(registry):
    registry.agent("waiting", Waiting)


def pytest_runtest_setup(item):
    print("half a line", end="", flush=True)


def pytest_runtest_logreport(report):
    if report.when == "call":
        print("a hook prints", end=" ", flush=True)
"""
ERASE, DOWN = b"\x1b[J", b"\x1bD"


def evals(root: Path) -> None:
    """Write trials of every ending, of which two wait until somebody has seen the panel."""
    more = [task("errs", script=[]), task("quick", script=TOLD), task("misses", says="no")]
    tasks = [task("slow", agent="waiting"), *more]
    write(
        root,
        {
            "evals/able/suite.yaml": suite("able").replace("regression", "capability"),
            "evals/able/tasks.json": json.dumps(tasks),
        },
    )
    tasks = [task("holds", agent="waiting"), task("fails", says="no")]
    write(root, {"evals/firm/suite.yaml": suite("firm"), "evals/firm/tasks.json": json.dumps(tasks)})
    write(root, {"conftest.py": CONFTEST})


ARGUMENTS = ("evals", "--agent-model=scripted", "-pno:cacheprovider")
OPTIONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "dots": (80, ("--agent-results=none",)),
    "words": (80, ("--agent-results=none", "-v")),
    "workers": (120, ("--agent-results=kept", "-v", "-pxdist.plugin", "-n2", "--repetitions=2")),
}
COUNTS = {"dots": "4 of 6   2 in flight", "words": "4 of 6   2 in flight", "workers": "8 of 12   4 in flight"}
AFTER_EACH_OTHER = ("--agent-progress=no", "-v --agent-progress=no", "-q", "-s", "CI", "")
"""What one process runs: each of them but the last switches the panel off, CI as a variable."""

PROGRAM = """
import os, sys, pytest
from pytest_agenteval.session import panel

panel.PATIENCE_S, panel.TICK_S = 0.0, 0.02
for more in sys.argv[1].split(","):
    os.environ.pop("CI", None)
    if more == "CI":
        os.environ["CI"] = "true"
    pytest.main([*sys.argv[2:], "--agent-results=none", *more.replace("CI", "").split()])
    print("<over>", flush=True)
"""


class Runs:
    """Pytest on many terminals at once: with a panel, and without."""

    def __init__(self, root: Path) -> None:
        stopped = self.start(root, 80, "--agent-results=none")
        self.on = {name: self.start(root, columns, *args) for name, (columns, args) in OPTIONS.items()}
        others = (",".join(AFTER_EACH_OTHER), *ARGUMENTS)
        off = PytestOnTerminal(root, 80, others, program=("-c", PROGRAM), LOOKS="10")
        stopped.wait_for("in flight")
        self.in_shell = stopped.stop()
        stopped.process.send_signal(signal.SIGCONT)
        stopped.wait_for("in flight")
        for _ in range(2):
            stopped.process.send_signal(signal.SIGINT)
        self.stopped = stopped.end()
        self.seen = {name: run.wait_for(COUNTS[name], "firm 0.00", "slow[") for name, run in self.on.items()}
        (root / "seen").touch()
        self.with_panel = {name: run.end() for name, run in self.on.items()}
        lines = "\n".join(off.end()).split("<over>\n")
        self.without = {name: lines[at].split("\n")[:-1] for at, name in enumerate(("dots", "words"))}
        self.written = dict(zip(AFTER_EACH_OTHER, off.terminal.written.split(b"<over>"), strict=False))
        self.folder = next((root / "kept").iterdir())

    @staticmethod
    def start(root: Path, columns: int, *args: str) -> PytestOnTerminal:
        return PytestOnTerminal(root, columns, (*ARGUMENTS, *args))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All of them, side by side: each waits most of the time."""
    root = tmp_path_factory.mktemp("project")
    evals(root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        from tests.suites import only_our_plugin

        only_our_plugin(monkeypatch)
        for name in ("CI", "BUILD_NUMBER", "PYTHONDONTWRITEBYTECODE"):
            monkeypatch.delenv(name, raising=False)
        yield Runs(root)


def test_the_panel_says_what_the_run_is_at(runs: Runs) -> None:
    """Below pytest's line: trials, endings, scores, tokens, and who has been in flight longest."""
    at = next(number for number, line in enumerate(runs.seen["dots"]) if "in flight" in line)
    assert runs.seen["dots"][at - 1] == ""
    assert runs.seen["dots"][at - 2].startswith("evals/able/tasks.json")
    panel = runs.seen["dots"][at:]
    assert panel[0].startswith("  trials   ━━━━━━━━━━━━━━────────   4 of 6   2 in flight")
    assert panel[1].startswith("  ended    1 passed   1 missed   1 failed   1 errored")
    assert panel[2] == "  score    able 0.50   firm 0.00"
    assert panel[3].startswith("  slowest  able/slow[scripted-1]   ")
    assert len(panel) == 4


@pytest.mark.parametrize("name", ["dots", "words"])
def test_the_screen_at_the_end_is_as_without_it(runs: Runs, name: str) -> None:
    """Nothing of it is left, and nothing of pytest's lines is gone, hooks that print included."""
    assert runs.with_panel[name] == runs.without[name]
    assert any("1 failed" in line for line in runs.with_panel[name])


def test_with_workers_each_line_of_theirs_is_whole(runs: Runs) -> None:
    """Their controller draws; which of them is first is chance."""
    lines = runs.with_panel["workers"]
    assert sum(line.startswith("[gw") and "tasks.json::" in line for line in lines) == 12
    assert not any("in flight" in line or "slowest" in line for line in lines)


@pytest.mark.parametrize("option", AFTER_EACH_OTHER)
def test_where_it_is_not_wanted_nothing_of_it_is_written(runs: Runs, option: str) -> None:
    """Under -q and -s, on CI servers, and where it is switched off: not one byte."""
    assert (DOWN in runs.written[option]) is (ERASE in runs.written[option]) is (option == "")


def test_ctrl_z_takes_it_away_until_the_run_goes_on(runs: Runs) -> None:
    """The shell writes where it stood; the process really stops."""
    assert runs.in_shell[-1].startswith("evals/able/tasks.json")


def test_ctrl_c_takes_it_away(runs: Runs) -> None:
    """Pressed twice, too: what pytest says of it stands alone."""
    assert any("KeyboardInterrupt" in line for line in runs.stopped)
    assert not any("in flight" in line or "slowest" in line for line in runs.stopped)


def test_nothing_is_written_to_a_pipe(pytester: pytest.Pytester) -> None:
    """A log file gets no escape sequences and no passing figures."""
    slow = task("slow", script=[{"text": "Mina", "seconds": 1.0}])
    write(pytester.path, {"evals/suite.yaml": suite("able"), "evals/tasks.json": json.dumps([slow])})
    result = run(pytester, "evals")
    assert "in flight" not in result.stdout.str()
    assert "\x1b" not in result.stdout.str()


def test_its_figures_are_those_of_the_end(runs: Runs) -> None:
    """Read from the journals of all processes, piece by piece, half lines too."""
    journals = {path: path.read_bytes() for path in runs.folder.glob("journal-*")}
    for path in journals:
        path.write_bytes(b"")
    progress = RunProgress(runs.folder)
    for path, data in journals.items():
        for end in range(0, len(data), 1000):  # in the middle of lines
            with path.open("ab") as file:
                file.write(data[end : end + 1000])
            progress.update(float(end))
    assert len(journals) >= 2
    compare(progress.progress(1.0), runs.folder)


def compare(shown: Any, folder: Path) -> None:
    """See that a panel shows what the run's own report says."""
    from pytest_agenteval.reports.run_view import view_of

    stored = load_run(folder)
    view = view_of(stored)
    assert shown.ended == len(stored.entries) == shown.planned
    assert [score.mean for score in shown.scores] == [
        pytest.approx(suite.total.mean.mean) for suite in view.suites if suite.total.mean
    ]
    assert shown.errored == sum(sum(suite.total.errored.values()) for suite in view.suites)
    assert shown.spent.tokens == sum((suite.total.spent.tokens for suite in view.suites), Figure())
    assert shown.in_flight == 0


@pytest.mark.parametrize(("term", "knows"), [("xterm", True), ("dumb", False), ("", False)])
def test_terminals_that_know_no_escapes(monkeypatch: pytest.MonkeyPatch, term: str, knows: bool) -> None:
    """TERM says so; a pipe is no terminal."""
    terminal = Terminal(80)
    monkeypatch.setenv("TERM", term)
    assert is_terminal_with_escapes(terminal.its) is knows
    ours, its = os.pipe()
    assert not is_terminal_with_escapes(its)
    os.close(ours)
    os.close(its)
    terminal.close()
