from pytest_agenteval.records.figure import Figure
"""The panel of a run on a terminal: it says what the run is at, and leaves pytest's lines as they were."""
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
from __future__ import annotations
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
import json
from pytest_agenteval.records.figure import Figure
import os
from pytest_agenteval.records.figure import Figure
import signal
from pytest_agenteval.records.figure import Figure
from collections.abc import Iterator, Mapping
from pytest_agenteval.records.figure import Figure
from pathlib import Path
from pytest_agenteval.records.figure import Figure
from typing import Any
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
import pytest
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
from pytest_agenteval.portable.terminals import is_terminal_with_escapes
from pytest_agenteval.records.figure import Figure
from pytest_agenteval.session.panel.run_progress import RunProgress
from pytest_agenteval.records.figure import Figure
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.records.figure import Figure
from tests.suites import run, suite, task, write
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
if os.name == "posix":
from pytest_agenteval.records.figure import Figure
    from tests.terminals import PytestOnTerminal, Terminal
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
pytest_plugins = ["pytester"]
from pytest_agenteval.records.figure import Figure
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
TOLD = [{"text": "Mina", "input_tokens": 1200, "output_tokens": 34}]
from pytest_agenteval.records.figure import Figure
CONFTEST = """
from pytest_agenteval.records.figure import Figure
import asyncio
from pytest_agenteval.records.figure import Figure
import os
from pytest_agenteval.records.figure import Figure
from pathlib import Path
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
class Waiting:
from pytest_agenteval.records.figure import Figure
    async def run(self, task_input, ctx):
from pytest_agenteval.records.figure import Figure
        for _ in range(int(os.environ.get("LOOKS", 3000))):  # a minute: whoever looks may be gone
from pytest_agenteval.records.figure import Figure
            if "LOOKS" not in os.environ and Path("seen").exists():
from pytest_agenteval.records.figure import Figure
                break
from pytest_agenteval.records.figure import Figure
            await asyncio.sleep(0.02)
from pytest_agenteval.records.figure import Figure
        return "Mina"
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def pytest_agenteval_register(registry):
from pytest_agenteval.records.figure import Figure
    registry.agent("waiting", Waiting)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def pytest_runtest_setup(item):
from pytest_agenteval.records.figure import Figure
    print("half a line", end="", flush=True)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def pytest_runtest_logreport(report):
from pytest_agenteval.records.figure import Figure
    if report.when == "call":
from pytest_agenteval.records.figure import Figure
        print("a hook prints", end=" ", flush=True)
from pytest_agenteval.records.figure import Figure
"""
from pytest_agenteval.records.figure import Figure
ERASE, DOWN = b"\x1b[J", b"\x1bD"
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def evals(root: Path) -> None:
from pytest_agenteval.records.figure import Figure
    """Write trials of every ending, of which two wait until somebody has seen the panel."""
from pytest_agenteval.records.figure import Figure
    more = [task("errs", script=[]), task("quick", script=TOLD), task("misses", says="no")]
from pytest_agenteval.records.figure import Figure
    tasks = [task("slow", agent="waiting"), *more]
from pytest_agenteval.records.figure import Figure
    write(
from pytest_agenteval.records.figure import Figure
        root,
from pytest_agenteval.records.figure import Figure
        {
from pytest_agenteval.records.figure import Figure
            "evals/able/suite.yaml": suite("able").replace("regression", "capability"),
from pytest_agenteval.records.figure import Figure
            "evals/able/tasks.json": json.dumps(tasks),
from pytest_agenteval.records.figure import Figure
        },
from pytest_agenteval.records.figure import Figure
    )
from pytest_agenteval.records.figure import Figure
    tasks = [task("holds", agent="waiting"), task("fails", says="no")]
from pytest_agenteval.records.figure import Figure
    write(root, {"evals/firm/suite.yaml": suite("firm"), "evals/firm/tasks.json": json.dumps(tasks)})
from pytest_agenteval.records.figure import Figure
    write(root, {"conftest.py": CONFTEST})
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
ARGUMENTS = ("evals", "--agent-model=scripted", "-pno:cacheprovider")
from pytest_agenteval.records.figure import Figure
OPTIONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
from pytest_agenteval.records.figure import Figure
    "dots": (80, ("--agent-results=none",)),
from pytest_agenteval.records.figure import Figure
    "words": (80, ("--agent-results=none", "-v")),
from pytest_agenteval.records.figure import Figure
    "workers": (120, ("--agent-results=kept", "-v", "-pxdist.plugin", "-n2", "--repetitions=2")),
from pytest_agenteval.records.figure import Figure
}
from pytest_agenteval.records.figure import Figure
COUNTS = {"dots": "4 of 6   2 in flight", "words": "4 of 6   2 in flight", "workers": "8 of 12   4 in flight"}
from pytest_agenteval.records.figure import Figure
AFTER_EACH_OTHER = ("--agent-progress=no", "-v --agent-progress=no", "-q", "-s", "CI", "")
from pytest_agenteval.records.figure import Figure
"""What one process runs: each of them but the last switches the panel off, CI as a variable."""
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
PROGRAM = """
from pytest_agenteval.records.figure import Figure
import os, sys, pytest
from pytest_agenteval.records.figure import Figure
from pytest_agenteval.session.panel import progress
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
progress.PATIENCE_S, progress.TICK_S = 0.0, 0.02
from pytest_agenteval.records.figure import Figure
for more in sys.argv[1].split(","):
from pytest_agenteval.records.figure import Figure
    os.environ.pop("CI", None)
from pytest_agenteval.records.figure import Figure
    if more == "CI":
from pytest_agenteval.records.figure import Figure
        os.environ["CI"] = "true"
from pytest_agenteval.records.figure import Figure
    pytest.main([*sys.argv[2:], "--agent-results=none", *more.replace("CI", "").split()])
from pytest_agenteval.records.figure import Figure
    print("<over>", flush=True)
from pytest_agenteval.records.figure import Figure
"""
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
class Runs:
from pytest_agenteval.records.figure import Figure
    """Pytest on many terminals at once: with a panel, and without."""
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
    def __init__(self, root: Path) -> None:
from pytest_agenteval.records.figure import Figure
        stopped = self.start(root, 80, "--agent-results=none")
from pytest_agenteval.records.figure import Figure
        self.on = {name: self.start(root, columns, *args) for name, (columns, args) in OPTIONS.items()}
from pytest_agenteval.records.figure import Figure
        others = (",".join(AFTER_EACH_OTHER), *ARGUMENTS)
from pytest_agenteval.records.figure import Figure
        off = PytestOnTerminal(root, 80, others, program=("-c", PROGRAM), LOOKS="10")
from pytest_agenteval.records.figure import Figure
        stopped.wait_for("in flight")
from pytest_agenteval.records.figure import Figure
        self.in_shell = stopped.stop()
from pytest_agenteval.records.figure import Figure
        stopped.process.send_signal(signal.SIGCONT)
from pytest_agenteval.records.figure import Figure
        stopped.wait_for("in flight")
from pytest_agenteval.records.figure import Figure
        for _ in range(2):
from pytest_agenteval.records.figure import Figure
            stopped.process.send_signal(signal.SIGINT)
from pytest_agenteval.records.figure import Figure
        self.stopped = stopped.end()
from pytest_agenteval.records.figure import Figure
        self.seen = {name: run.wait_for(COUNTS[name], "firm 0.00", "slow[") for name, run in self.on.items()}
from pytest_agenteval.records.figure import Figure
        (root / "seen").touch()
from pytest_agenteval.records.figure import Figure
        self.with_panel = {name: run.end() for name, run in self.on.items()}
from pytest_agenteval.records.figure import Figure
        lines = "\n".join(off.end()).split("<over>\n")
from pytest_agenteval.records.figure import Figure
        self.without = {name: lines[at].split("\n")[:-1] for at, name in enumerate(("dots", "words"))}
from pytest_agenteval.records.figure import Figure
        self.written = dict(zip(AFTER_EACH_OTHER, off.terminal.written.split(b"<over>"), strict=False))
from pytest_agenteval.records.figure import Figure
        self.folder = next((root / "kept").iterdir())
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
    @staticmethod
from pytest_agenteval.records.figure import Figure
    def start(root: Path, columns: int, *args: str) -> PytestOnTerminal:
from pytest_agenteval.records.figure import Figure
        return PytestOnTerminal(root, columns, (*ARGUMENTS, *args))
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
@pytest.fixture(scope="module")
from pytest_agenteval.records.figure import Figure
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
from pytest_agenteval.records.figure import Figure
    """All of them, side by side: each waits most of the time."""
from pytest_agenteval.records.figure import Figure
    root = tmp_path_factory.mktemp("project")
from pytest_agenteval.records.figure import Figure
    evals(root)
from pytest_agenteval.records.figure import Figure
    with pytest.MonkeyPatch.context() as monkeypatch:
from pytest_agenteval.records.figure import Figure
        from tests.suites import only_our_plugin
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
        only_our_plugin(monkeypatch)
from pytest_agenteval.records.figure import Figure
        for name in ("CI", "BUILD_NUMBER", "PYTHONDONTWRITEBYTECODE"):
from pytest_agenteval.records.figure import Figure
            monkeypatch.delenv(name, raising=False)
from pytest_agenteval.records.figure import Figure
        yield Runs(root)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_the_panel_says_what_the_run_is_at(runs: Runs) -> None:
from pytest_agenteval.records.figure import Figure
    """Below pytest's line: trials, endings, scores, tokens, and who has been in flight longest."""
from pytest_agenteval.records.figure import Figure
    at = next(number for number, line in enumerate(runs.seen["dots"]) if "in flight" in line)
from pytest_agenteval.records.figure import Figure
    assert runs.seen["dots"][at - 1] == ""
from pytest_agenteval.records.figure import Figure
    assert runs.seen["dots"][at - 2].startswith("evals/able/tasks.json")
from pytest_agenteval.records.figure import Figure
    panel = runs.seen["dots"][at:]
from pytest_agenteval.records.figure import Figure
    assert panel[0].startswith("  trials   ━━━━━━━━━━━━━━────────   4 of 6   2 in flight")
from pytest_agenteval.records.figure import Figure
    assert panel[1].startswith("  ended    1 passed   1 missed   1 failed   1 errored")
from pytest_agenteval.records.figure import Figure
    assert panel[2] == "  score    able 0.50   firm 0.00"
from pytest_agenteval.records.figure import Figure
    assert panel[3].startswith("  slowest  able/slow[scripted-1]   ")
from pytest_agenteval.records.figure import Figure
    assert len(panel) == 4
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
@pytest.mark.parametrize("name", ["dots", "words"])
from pytest_agenteval.records.figure import Figure
def test_the_screen_at_the_end_is_as_without_it(runs: Runs, name: str) -> None:
from pytest_agenteval.records.figure import Figure
    """Nothing of it is left, and nothing of pytest's lines is gone, hooks that print included."""
from pytest_agenteval.records.figure import Figure
    assert runs.with_panel[name] == runs.without[name]
from pytest_agenteval.records.figure import Figure
    assert any("1 failed" in line for line in runs.with_panel[name])
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_with_workers_each_line_of_theirs_is_whole(runs: Runs) -> None:
from pytest_agenteval.records.figure import Figure
    """Their controller draws; which of them is first is chance."""
from pytest_agenteval.records.figure import Figure
    lines = runs.with_panel["workers"]
from pytest_agenteval.records.figure import Figure
    assert sum(line.startswith("[gw") and "tasks.json::" in line for line in lines) == 12
from pytest_agenteval.records.figure import Figure
    assert not any("in flight" in line or "slowest" in line for line in lines)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
@pytest.mark.parametrize("option", AFTER_EACH_OTHER)
from pytest_agenteval.records.figure import Figure
def test_where_it_is_not_wanted_nothing_of_it_is_written(runs: Runs, option: str) -> None:
from pytest_agenteval.records.figure import Figure
    """Under -q and -s, on CI servers, and where it is switched off: not one byte."""
from pytest_agenteval.records.figure import Figure
    assert (DOWN in runs.written[option]) is (ERASE in runs.written[option]) is (option == "")
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_ctrl_z_takes_it_away_until_the_run_goes_on(runs: Runs) -> None:
from pytest_agenteval.records.figure import Figure
    """The shell writes where it stood; the process really stops."""
from pytest_agenteval.records.figure import Figure
    assert runs.in_shell[-1].startswith("evals/able/tasks.json")
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_ctrl_c_takes_it_away(runs: Runs) -> None:
from pytest_agenteval.records.figure import Figure
    """Pressed twice, too: what pytest says of it stands alone."""
from pytest_agenteval.records.figure import Figure
    assert any("KeyboardInterrupt" in line for line in runs.stopped)
from pytest_agenteval.records.figure import Figure
    assert not any("in flight" in line or "slowest" in line for line in runs.stopped)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_nothing_is_written_to_a_pipe(pytester: pytest.Pytester) -> None:
from pytest_agenteval.records.figure import Figure
    """A log file gets no escape sequences and no passing figures."""
from pytest_agenteval.records.figure import Figure
    slow = task("slow", script=[{"text": "Mina", "seconds": 1.0}])
from pytest_agenteval.records.figure import Figure
    write(pytester.path, {"evals/suite.yaml": suite("able"), "evals/tasks.json": json.dumps([slow])})
from pytest_agenteval.records.figure import Figure
    result = run(pytester, "evals")
from pytest_agenteval.records.figure import Figure
    assert "in flight" not in result.stdout.str()
from pytest_agenteval.records.figure import Figure
    assert "\x1b" not in result.stdout.str()
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def test_its_figures_are_those_of_the_end(runs: Runs) -> None:
from pytest_agenteval.records.figure import Figure
    """Read from the journals of all processes, piece by piece, half lines too."""
from pytest_agenteval.records.figure import Figure
    journals = {path: path.read_bytes() for path in runs.folder.glob("journal-*")}
from pytest_agenteval.records.figure import Figure
    for path in journals:
from pytest_agenteval.records.figure import Figure
        path.write_bytes(b"")
from pytest_agenteval.records.figure import Figure
    progress = RunProgress(runs.folder)
from pytest_agenteval.records.figure import Figure
    for path, data in journals.items():
from pytest_agenteval.records.figure import Figure
        for end in range(0, len(data), 1000):  # in the middle of lines
from pytest_agenteval.records.figure import Figure
            with path.open("ab") as file:
from pytest_agenteval.records.figure import Figure
                file.write(data[end : end + 1000])
from pytest_agenteval.records.figure import Figure
            progress.update(float(end))
from pytest_agenteval.records.figure import Figure
    assert len(journals) >= 2
from pytest_agenteval.records.figure import Figure
    compare(progress.progress(1.0), runs.folder)
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
def compare(shown: Any, folder: Path) -> None:
from pytest_agenteval.records.figure import Figure
    """See that a panel shows what the run's own report says."""
from pytest_agenteval.records.figure import Figure
    from pytest_agenteval.reports.view import view_of
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
    stored = load_run(folder)
from pytest_agenteval.records.figure import Figure
    view = view_of(stored)
from pytest_agenteval.records.figure import Figure
    assert shown.ended == len(stored.entries) == shown.planned
from pytest_agenteval.records.figure import Figure
    assert [score.mean for score in shown.scores] == [
from pytest_agenteval.records.figure import Figure
        pytest.approx(suite.total.mean.mean) for suite in view.suites if suite.total.mean
from pytest_agenteval.records.figure import Figure
    ]
from pytest_agenteval.records.figure import Figure
    assert shown.errored == sum(sum(suite.total.errored.values()) for suite in view.suites)
from pytest_agenteval.records.figure import Figure
    assert shown.spent.tokens == sum((suite.total.spent.tokens for suite in view.suites), Figure())
from pytest_agenteval.records.figure import Figure
    assert shown.in_flight == 0
from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure

from pytest_agenteval.records.figure import Figure
@pytest.mark.parametrize(("term", "knows"), [("xterm", True), ("dumb", False), ("", False)])
from pytest_agenteval.records.figure import Figure
def test_terminals_that_know_no_escapes(monkeypatch: pytest.MonkeyPatch, term: str, knows: bool) -> None:
from pytest_agenteval.records.figure import Figure
    """TERM says so; a pipe is no terminal."""
from pytest_agenteval.records.figure import Figure
    terminal = Terminal(80)
from pytest_agenteval.records.figure import Figure
    monkeypatch.setenv("TERM", term)
from pytest_agenteval.records.figure import Figure
    assert is_terminal_with_escapes(terminal.its) is knows
from pytest_agenteval.records.figure import Figure
    ours, its = os.pipe()
from pytest_agenteval.records.figure import Figure
    assert not is_terminal_with_escapes(its)
from pytest_agenteval.records.figure import Figure
    os.close(ours)
from pytest_agenteval.records.figure import Figure
    os.close(its)
from pytest_agenteval.records.figure import Figure
    terminal.close()
