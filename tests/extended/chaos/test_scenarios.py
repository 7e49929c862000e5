"""A little of ``python -m tests.extended.chaos``, whose whole takes minutes: that its scenarios still run."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.extended.chaos import kills
from tests.extended.chaos.figures import unequal_figures
from tests.extended.chaos.hostile import INPUTS, run_beside
from tests.extended.chaos.kills import Kill, killed
from tests.extended.chaos.project import TooSlow, until
from tests.extended.chaos.verdicts import BEGIN, END, LOST, NO_VERDICT, OK, verdict, write_table
from tests.journals import journal, names
from tests.reports import equal_figures
from tests.suites import only_our_plugin, suite, task, write

pytest_plugins = ["pytester"]

ASKING = """
import json
import os
import tomllib
from pathlib import Path
from urllib.request import Request, urlopen

os.environ["AGENTEVAL_LIVE"] = "1"
MODELS = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["agenteval"]["models"]
URL = MODELS["local"]["api_base"] + "/chat/completions"


class Asking:
    def run(self, task_input, ctx):
        messages = [{"role": "user", "content": task_input["content"]}]
        body = json.dumps({"model": "any", "messages": messages}).encode()
        with urlopen(Request(URL, body, {"Content-Type": "application/json"})) as response:
            return json.load(response)["choices"][0]["message"]["content"]


def pytest_agenteval_register(registry):
    registry.agent("asking", Asking)
"""
"""An agent that asks the provider by itself: to import what asks real ones takes longer than the run."""

HANGING = """
from pathlib import Path
from threading import Event


class Hanging:
    def run(self, task_input, ctx):
        Path("hangs").touch()
        Event().wait()


def pytest_agenteval_register(registry):
    registry.agent("hanging", Hanging)
"""


def test_a_killed_run_keeps_what_was_answered(tmp_path: Path) -> None:
    """Killed in the middle and resumed: what was written down is whole, there, and asked for once."""
    kill = Kill(0, "process", signal.SIGKILL, 10)
    assert killed(tmp_path / "project", kill, trials=40, conftest=ASKING, agent="asking").wrong == []
    assert unequal_figures(tmp_path) == []


def test_a_hostile_task_leaves_equal_figures(tmp_path: Path) -> None:
    """Every report shows the same of a grader that ended its process: a trial without a score."""
    (given,) = (each for each in INPUTS if each.name == "a grader that calls sys.exit")
    assert run_beside(tmp_path, given) == []
    assert len(list(tmp_path.glob(".agenteval/runs/2*/run.json"))) == 1
    assert unequal_figures(tmp_path) == []


def test_figures_that_differ_are_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario that lost nothing is no good where two reports of its run disagree."""
    (given,) = (each for each in INPUTS if each.name == "a grader that calls sys.exit")
    monkeypatch.setattr(equal_figures, "check_screens", lambda *_: 1 / 0)
    said = verdict(partial(run_beside, given=given))
    assert said.word == LOST
    (reason,) = said.reasons
    assert reason.startswith("figures of 2")
    assert "differ: ZeroDivisionError" in reason


def test_a_run_too_slow_for_its_kill_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was never killed: there is no verdict, and its stacks show where it was, or where it hangs."""
    project = tmp_path / "project"

    def wait(happened: Callable[[], bool], run: subprocess.Popen[str], seconds: float) -> bool:
        assert until((project / "hangs").exists, run)  # before that, a slow machine has no stack to show
        return until(happened, run, seconds)

    monkeypatch.setattr(kills, "until", wait)
    with pytest.raises(TooSlow, match=r"(?s)^0 of 40 trials after 0.1 s: .*recent call first.* in run\n"):
        killed(
            project,
            Kill(0, "process", signal.SIGKILL, 40),
            trials=40,
            patience_s=0.1,
            conftest=HANGING,
            agent="hanging",
        )


@pytest.mark.parametrize(
    ("tries", "word"),
    [([TooSlow(), []], OK), ([TooSlow(), ["t1 is gone"]], LOST), ([TooSlow(), TooSlow()], NO_VERDICT)],
    ids=["then-fine", "then-lost", "twice"],
)
def test_a_run_too_slow_is_tried_once_more(tries: list[TooSlow | list[str]], word: str) -> None:
    """Slow once says nothing, slow twice is told as such, and a loss is never taken for slowness."""
    left = iter(tries)

    def scenario(root: Path) -> list[str]:
        match next(left):
            case TooSlow() as slow:
                raise slow
            case wrong:
                return wrong

    assert verdict(scenario).word == word
    assert not list(left)


def test_a_full_disk_ends_the_run_with_one_clear_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written down is not given out, nothing more is asked, and what ended stays."""
    only_our_plugin(monkeypatch)
    tasks = [task(f"t{n}", says="Mina" * 200, wants="Mina") for n in range(60)]
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/tasks.yaml": tasks})
    most = 10 * 1024
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        result = pytester.runpytest_inprocess("evals", "-s", "--agent-concurrency=1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    outcomes = result.parseoutcomes()
    assert outcomes["errors"] == 1
    assert 0 < outcomes["passed"] <= len(names(journal_lines(pytester.path)))
    result.stdout.fnmatch_lines(["*Interrupted: the run cannot be written to *too large; no further trial*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def journal_lines(root: Path) -> list[dict[str, object]]:
    """Give the finished lines that are whole: the last one may be torn."""
    for path in root.glob(".agenteval/runs/2*/journal-*"):
        whole, _, torn = path.read_text(encoding="utf-8").rpartition("\n")
        if torn:
            path.write_text(f"{whole}\n", encoding="utf-8")
    return journal(root, "finished")


def test_results_that_cannot_be_written_are_told_before_anything_is_asked(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A usage error with the place and the way out, not a crash of pytest."""
    only_our_plugin(monkeypatch)
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/tasks.yaml": [task("t")], "taken": "a file"})
    result = pytester.runpytest_inprocess("evals", "--agent-results=taken/runs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*results cannot be written to *taken/runs: Not a directory; choose *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_the_table_keeps_what_was_not_tried_this_time(tmp_path: Path) -> None:
    """A group that was tried again has its new row in the old one's place; the text around stays."""
    page = tmp_path / "page.md"
    page.write_text(f"above\n\n{BEGIN}\n\n{END}\nbelow\n", encoding="utf-8")
    write_table([("killed", "19 of 20", ""), ("resumed", "20 of 20", "4,021 requests")], page)
    write_table([("killed", "20 of 20", ""), ("shards", "1 of 1", "120 trials")], page)
    write_table([("shards", "1 of 1", "240 trials")], page)
    text = page.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == [
        "|killed|20 of 20||",
        "|resumed|20 of 20|4,021 requests|",
        "|shards|1 of 1|240 trials|",
    ]
    assert text.startswith(f"above\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
