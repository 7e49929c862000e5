"""The lines about a run on a terminal: they say what the run is at, and leave pytest's lines as they were."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_agenteval.processes.signals import is_terminal_with_escapes
from pytest_agenteval.session.panel import RunCounts
from tests.suites import only_our_plugin, suite, task, write

if os.name == "posix":
    from tests.terminals import PytestOnTerminal, Terminal

pytestmark = pytest.mark.posix

REPLY = [{"text": "Mina", "input_tokens": 1200, "output_tokens": 34}]
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
"""
# Off in all of them but the last; CI stands for the variable.
SWITCHES = (
    "--agent-progress=no",
    "-v --agent-progress=no",
    "-q",
    "-s",
    "CI",
    "--collect-only",
    "torn.py",
    "",
)
PROGRAM = """
import os, sys, pytest
from pytest_agenteval.session import panel

panel.FIRST_S = panel.REDRAW_S = 0.02
for more in sys.argv[1].split(","):
    os.environ.pop("CI", None)
    if more == "CI":
        os.environ["CI"] = "true"
    pytest.main([*sys.argv[2:], "--agent-results=none", *more.replace("CI", "").split()])
    print("<over>", flush=True)
"""
ARGUMENTS = ("evals", "--agent-model=scripted", "-pno:cacheprovider")
OPTIONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "dots": (80, ("--agent-results=none",)),
    "words": (80, ("--agent-results=none", "-v")),
    "workers": (120, ("--agent-results=kept", "-v", "-pxdist.plugin", "-n2", "--repetitions=2")),
}
COUNTS = "4 of 6 trials   2 in flight"


def evals(root: Path) -> None:
    """Write trials of every ending, of which two wait until somebody has seen the lines."""
    able = [task("slow", agent="waiting"), task("errs", script=[])]
    able += [task("quick", script=REPLY), task("misses", says="no")]
    firm = [task("holds", agent="waiting"), task("fails", says="no")]
    files = {
        "evals/able/suite.yaml": suite("able").replace("regression", "capability"),
        "evals/able/tasks.json": json.dumps(able),
        "evals/firm/suite.yaml": suite("firm"),
        "evals/firm/tasks.json": json.dumps(firm),
        "conftest.py": CONFTEST,
        "torn.py": "raise OSError",  # nothing begins where something cannot be collected
    }
    write(root, files)


class Runs:
    """Pytest on many terminals at once: with the lines, and without."""

    def __init__(self, root: Path) -> None:
        def start(*args: str, columns: int = 80) -> PytestOnTerminal:
            return PytestOnTerminal(root, columns, (*ARGUMENTS, *args))

        stopped = start("--agent-results=none")
        running = {name: start(*args, columns=columns) for name, (columns, args) in OPTIONS.items()}
        switched = (",".join(SWITCHES), *ARGUMENTS)
        off = PytestOnTerminal(root, 80, switched, program=("-c", PROGRAM), LOOKS="10")
        stopped.wait_for("in flight")
        for _ in range(2):
            stopped.process.send_signal(signal.SIGINT)
        self.stopped = stopped.end()
        texts = (COUNTS, "1 errored", "firm 0.00", "slow[")
        self.seen = {name: running[name].wait_for(*texts) for name in ("dots", "words")}
        (root / "seen").touch()
        self.at_end = {name: run.end() for name, run in running.items()}
        lines = "\n".join(off.end()).split("<over>\n")
        self.without = {name: lines[at].split("\n")[:-1] for at, name in enumerate(("dots", "words"))}
        self.written = dict(zip(SWITCHES, off.terminal.written.split(b"<over>"), strict=False))
        self.folder = next((root / "kept").iterdir())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All of them, side by side: each waits most of the time."""
    root = tmp_path_factory.mktemp("project")
    evals(root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        only_our_plugin(monkeypatch)
        for name in ("CI", "BUILD_NUMBER", "PYTHONDONTWRITEBYTECODE"):
            monkeypatch.delenv(name, raising=False)
        yield Runs(root)


def test_two_lines_say_what_the_run_is_at(runs: Runs) -> None:
    """Below pytest's line: trials, endings, scores, tokens, and who has been in flight longest."""
    at = next(number for number, line in enumerate(runs.seen["dots"]) if "in flight" in line)
    assert runs.seen["dots"][at - 1].startswith("evals/able/tasks.json")
    counts, figures = runs.seen["dots"][at:]
    assert counts.startswith("   4 of 6 trials   2 in flight   1 passed   1 missed   1 failed   1 errored")
    assert figures.startswith("   able 0.50   firm 0.00   1,234 tokens   $0.00")
    assert "able/slow[" in figures


@pytest.mark.parametrize("name", ["dots", "words"])
def test_the_screen_at_the_end_is_as_without_them(runs: Runs, name: str) -> None:
    """Nothing of them is left, and nothing of pytest's lines is gone."""
    assert runs.at_end[name] == runs.without[name]
    assert any("1 failed" in line for line in runs.at_end[name])


def test_with_workers_each_line_of_theirs_is_whole(runs: Runs) -> None:
    """Their controller draws; which of them is first is chance."""
    lines = runs.at_end["workers"]
    assert sum(line.startswith("[gw") and "tasks.json::" in line for line in lines) == 12
    assert not any("in flight" in line for line in lines)


@pytest.mark.parametrize("option", SWITCHES)
def test_where_they_are_not_wanted_nothing_of_them_is_written(runs: Runs, option: str) -> None:
    """Under -q and -s, on CI servers, where they are switched off or nothing runs: not one byte."""
    assert b"INTERNALERROR" not in runs.written[option]
    assert (b"in flight" in runs.written[option]) is (b"\x1bD" in runs.written[option]) is (option == "")


def test_ctrl_c_takes_them_away(runs: Runs) -> None:
    """Pressed twice, too: what pytest says of it stands alone."""
    assert any("KeyboardInterrupt" in line for line in runs.stopped)
    assert not any("in flight" in line for line in runs.stopped)


def test_the_figures_are_those_of_the_end(runs: Runs) -> None:
    """Read from the journals of all processes, piece by piece, half lines too."""
    journals = {path: path.read_bytes() for path in runs.folder.glob("journal-*")}
    for path in journals:
        path.write_bytes(b"")
    counts = RunCounts(runs.folder)
    for path, data in journals.items():
        for end in range(0, len(data), 1000):  # in the middle of lines
            with path.open("ab") as file:
                file.write(data[end : end + 1000])
            counts.update(0.0)
    assert len(journals) >= 2
    trials, figures = counts.lines(0.0, 120)
    assert trials == "   12 of 12 trials   0 in flight   6 passed   2 missed   2 failed   2 errored"
    assert figures == "   able 0.67   firm 0.50   2,468 tokens   $0.00"
    # Where the run is resumed all of them ended before: they cost nothing now.
    header = json.loads((runs.folder / "run.json").read_text())
    resumed = {**header, "resumed": [{"at": header["started_at"], "command": ["pytest"]}]}
    (runs.folder / "run.json").write_text(json.dumps(resumed))
    again = RunCounts(runs.folder)
    again.update(0.0)
    assert again.lines(0.0, 120) == (trials, "   able 0.67   firm 0.50")


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
