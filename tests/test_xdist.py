"""Trials on several workers: none lost, none twice, and what a dead worker takes with it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.run_folder import read_header
from pytest_agenteval.store.run_reader import load_run
from tests.journals import journal, names, run_folder
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

KILLING = """
import asyncio
import os
import signal


class Killer:
    '''Takes its whole process down.'''

    async def run(self, task_input, ctx):
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)


def pytest_agenteval_register(registry):
    registry.agent("killer", Killer)
"""
CAPABILITY = "name: demo\nkind: capability\ndefaults: {model: scripted}\n"


def mixed(count: int) -> list[dict[str, Any]]:
    """Give tasks of which each third misses, and one breaks."""
    tasks = [task(f"t{n:02}", wants="Mina" if n % 3 else "Omar") for n in range(count - 1)]
    return [*tasks, task("broken", script=[])]


def test_a_hundred_and_fifty_trials_on_eight_workers(pytester: pytest.Pytester) -> None:
    """None lost, none run twice, one folder for all, and the same figures as in one process."""
    write(pytester.path, {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": mixed(50)})
    outcomes, figures = [], []
    for workers in (0, 8):
        result = run(pytester, "evals", "--repetitions=3", f"--agent-results=runs{workers}", workers=workers)
        outcomes.append(result.parseoutcomes())
        (folder,) = (pytester.path / f"runs{workers}").glob("2*")
        (suite,) = view_of(load_run(folder)).suites
        total = suite.total
        figures.append(
            (total.mean, total.pass_1, total.pass_hat_k, total.planned, total.averaged, total.errored)
        )
        lines = _lines(folder)
        assert Counter(kind for kind, *_ in lines) == {"started": 150, "finished": 150}
        assert set(Counter(lines).values()) == {1}
    assert outcomes[0] == outcomes[1] == {"passed": 96, "xfailed": 51, "errors": 3}
    assert figures[0] == figures[1]


def _lines(folder: Path) -> list[tuple[str, ...]]:
    import json

    lines = (json.loads(line) for file in folder.glob("journal-*") for line in file.read_text().splitlines())
    return [(line["kind"], line["task"], str(line["repetition"]), str(line["attempt"])) for line in lines]


@pytest.mark.posix
def test_a_killed_worker_takes_one_trial_with_it(pytester: pytest.Pytester) -> None:
    """One crash report, for the item it was at; every other trial ends, and the loss is in the figures."""
    tasks = [task(f"t{n:02}", script=[{"text": "Mina", "seconds": 0.02}]) for n in range(30)]
    tasks.insert(3, task("killer", agent="killer"))
    write(
        pytester.path,
        {"evals/suite.yaml": CAPABILITY, "evals/conftest.py": KILLING, "evals/tasks.yaml": tasks},
    )
    result = run(pytester, "evals", workers=2)
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["passed"]) == (1, 30)
    assert len(re.findall(r"worker 'gw\d' crashed while running", result.stdout.str())) == 1
    ended = Counter(names(journal(pytester.path, "finished")))
    assert len(ended) == 30
    assert "killer-1" not in ended
    result.stdout.fnmatch_lines(
        ["*30 of 31*", "! 1 of demo's 31 trials started but interrupted: their usage is unknown"]
    )
    result.stdout.fnmatch_lines(["! demo/killer?scripted-1? was running when its process ended; *"])


def test_one_folder_serves_all_workers(pytester: pytest.Pytester) -> None:
    """Header, plan, the pointer to the latest, and a journal and transcripts of each worker's own."""
    write(pytester.path, {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": mixed(40)})
    run(pytester, "evals", workers=2)
    folder = run_folder(pytester.path)
    header = read_header(folder)
    assert (header.exit_status, [suite.name for suite in header.suites]) == (1, ["demo"])
    assert header.ended_at > header.started_at
    assert (folder.parent / "latest").resolve() == folder
    found = sorted(re.sub(r"-(gw\d)-\d+", r"-\1", path.name) for path in folder.iterdir())
    assert found == [
        "journal-gw0.jsonl",
        "journal-gw1.jsonl",
        "planned-trials.json",
        "planned.json",
        "run.json",
        "transcripts-gw0.jsonl",
        "transcripts-gw1.jsonl",
    ]


def test_without_results_nothing_is_left(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--agent-results none: no folder where pytest was started, none in the folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write(pytester.path, {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": mixed(6)})
    for workers in (0, 2):
        result = run(pytester, "evals", "--agent-results=none", "-p", "no:cacheprovider", workers=workers)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*run: not stored*"])
        assert not (pytester.path / ".agenteval").exists()
        assert [path.name for path in tmp_path.iterdir() if "agenteval" in path.name] == []


@pytest.mark.parametrize("dist", ["worksteal", "loadscope", "loadfile"])
def test_other_ways_of_sharing_are_xdists_own(pytester: pytest.Pytester, dist: str) -> None:
    """The user's choice stands, and every trial is run."""
    write(pytester.path, {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": mixed(12)})
    write(pytester.path, {"conftest.py": "import pytest\n\n@pytest.hookimpl(trylast=True)\n" + SCHEDULER})
    result = run(pytester, "evals", f"--dist={dist}", workers=2)
    assert sum(result.parseoutcomes().values()) == 12
    assert "Depth" not in result.stdout.str()
    assert sorted(set(names(journal(pytester.path, "finished")))) == sorted(
        f"{each['id']}-1" for each in mixed(12)
    )


SCHEDULER = """
def pytest_terminal_summary(terminalreporter, config):
    session = config.pluginmanager.get_plugin("dsession")
    terminalreporter.write_line(type(session.sched).__name__)
"""
