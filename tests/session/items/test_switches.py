"""What pytest's own switches do with trials: facts/seam.md, section 4."""

from __future__ import annotations

import json
import shutil
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.journals import journal, junit, names, properties, run_folder
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

COUNTING = """
from pathlib import Path


class Grumpy:
    '''Answers what was asked for only when it was asked often enough.'''

    async def run(self, task_input, ctx):
        count = Path(task_input["counter"])
        asked = int(count.read_text()) + 1 if count.exists() else 1
        count.write_text(str(asked))
        return "Mina" if asked >= task_input["wanted"] else "no"


def pytest_agenteval_register(registry):
    registry.agent("grumpy", Grumpy)
"""
ENDINGS = ("good", "bad", "reg", "broken", "last")


@pytest.fixture(autouse=True)
def evals(pytester: pytest.Pytester) -> None:
    """Five trials: passed, missed, failed, errored, passed, in this order."""
    capability, regression = "name: cap\nkind: capability\n", "name: reg\nkind: regression\n"
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\n",
            "evals/1cap/suite.yaml": capability,
            "evals/1cap/tasks.yaml": [task("good"), task("bad", wants="Omar")],
            "evals/2reg/suite.yaml": regression,
            "evals/2reg/tasks.yaml": [task("reg", wants="Omar"), task("broken", script=[]), task("last")],
        },
    )


def carry_out(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run the five trials, one at a time so that it is known which were begun."""
    return run(pytester, "evals", "--agent-model=scripted", "--agent-concurrency=1", *args)


def reported_tasks(result: pytest.RunResult) -> list[str]:
    """Give which of the five were reported, in this order."""
    return [name for name in ENDINGS if any(f"::{name}[" in line for line in result.outlines if "%]" in line)]


@pytest.mark.parametrize("switch", ["-x", "--sw"])
def test_a_miss_does_not_stop_a_run_and_a_failure_does(pytester: pytest.Pytester, switch: str) -> None:
    """What runs just then is cancelled, and counted as not run like the rest."""
    endless = [task("reg", wants="Omar"), task("broken", script=[{"seconds": 60.0}]), task("last")]
    write(pytester.path, {"evals/2reg/tasks.yaml": endless})
    result = carry_out(pytester, switch, "-v")
    result.assert_outcomes(passed=1, xfailed=1, failed=1)
    assert reported_tasks(result) == ["good", "bad", "reg"]
    assert names(journal(pytester.path, "finished")) == ["good-1", "bad-1", "reg-1"]
    result.stdout.fnmatch_lines(
        ["*reg with scripted*", "*1 of 3*", "*1 not run*", "*1 started but not ended*"]
    )


@pytest.mark.parametrize("switch", ["--agent-strict", "--runxfail"])
def test_misses_are_failures_when_asked(pytester: pytest.Pytester, switch: str) -> None:
    """Shown as FAILED with the score, and the ending that is written down stays missed."""
    result = carry_out(pytester, switch, "-v")
    result.assert_outcomes(passed=2, failed=2, errors=1)
    result.stdout.fnmatch_lines(["*bad?scripted-1? FAILED 0.00*"])
    endings = {line["task"]: line["ending"] for line in journal(pytester.path, "finished")}
    assert (endings["bad"], endings["reg"]) == ("missed", "failed")


def test_last_failed_knows_failures_and_errors_and_no_misses(pytester: pytest.Pytester) -> None:
    """Known misses are not bought again, unless they counted as failures; --ff runs all, in its own order.

    The second --sw begins with what failed.
    """
    result = carry_out(pytester)
    result.assert_outcomes(passed=2, failed=1, xfailed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert reported_tasks(carry_out(pytester, "--lf", "-v")) == ["reg", "broken"]
    shutil.rmtree(pytester.path / ".agenteval")
    carry_out(pytester, "--ff")
    assert names(journal(pytester.path, "started")) == ["reg-1", "broken-1", "good-1", "bad-1", "last-1"]
    carry_out(pytester, "--agent-strict")
    assert reported_tasks(carry_out(pytester, "--lf", "-v")) == ["bad", "reg", "broken"]
    carry_out(pytester, "--sw")
    assert reported_tasks(carry_out(pytester, "--sw", "-v")) == ["reg"]
    carry_out(pytester, "-x", "--agent-strict").assert_outcomes(passed=1, failed=1)


def test_setup_switches_show_fixtures(pytester: pytest.Pytester) -> None:
    """A plan and a set-up alone begin no trial and cost nothing; --setup-show changes no ending."""
    for switch in ("--setup-plan", "--setup-only"):
        result = carry_out(pytester, switch)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["*SETUP*F trial*"])
        assert not list(pytester.path.glob(".agenteval/runs/*/journal-*"))
    result = carry_out(pytester, "--setup-show")
    result.stdout.fnmatch_lines(["*SETUP*F trial*", "*TEARDOWN*F trial*"])
    result.assert_outcomes(passed=2, failed=1, xfailed=1, errors=1)


def test_durations_are_the_agents(pytester: pytest.Pytester) -> None:
    """Items wait for others and for fixtures: a trial's duration is what its agent took, in JUnit too."""
    slow = [task("slow", script=[{"text": "Mina", "seconds": 1.0}]), task("after")]
    fixture = "import pytest, time\n\n@pytest.fixture(autouse=True)\ndef slow():\n    time.sleep(0.5)\n"
    write(pytester.path, {"evals/conftest.py": fixture, "evals/2reg/tasks.yaml": slow})
    result = carry_out(pytester, "--durations=3", "-vv", "--junitxml=j.xml", "-k", "2reg")
    result.stdout.fnmatch_lines(["1.??s setup*slow?scripted-1?"])
    times = {name: float(case.attrib["time"]) for name, case in junit(pytester.path / "j.xml").items()}
    assert 1.0 <= times["slow[scripted-1]"] < 1.4
    assert times["after[scripted-1]"] < 0.4


@pytest.mark.parametrize("switch", ["--pdb", "-s"])
def test_a_debugger_and_no_capture_mean_one_at_a_time(pytester: pytest.Pytester, switch: str) -> None:
    """With --pdb and with -s nothing else runs while somebody looks."""
    write(pytester.path, {"evals/2reg/tasks.yaml": [task("a"), task("b")]})
    result = run(pytester, "evals/2reg", "--agent-model=scripted", switch)
    result.assert_outcomes(passed=2)
    (file,) = run_folder(pytester.path).glob("journal-*")
    lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    assert [(line["kind"], line["task"]) for line in lines] == [
        ("started", "a"),
        ("finished", "a"),
        ("started", "b"),
        ("finished", "b"),
    ]


def test_a_rerun_is_a_new_attempt(pytester: pytest.Pytester) -> None:
    """Failed and errored trials are tried again by a new agent; each has a case with one score of its own."""
    grumpy: dict[str, Any] = {"agent": "grumpy", "input": {"counter": str(pytester.path / "n"), "wanted": 3}}
    write(pytester.path, {"conftest.py": COUNTING, "evals/2reg/tasks.yaml": [task("grumpy", **grumpy)]})
    write(pytester.path, {"evals/2reg/more.yaml": [task("broken", script=[])]})
    result = carry_out(pytester, "-p", "pytest_rerunfailures", "--reruns=2", "--junitxml=j.xml", "-v")
    counts = result.parseoutcomes()
    assert (counts["passed"], counts["xfailed"], counts["errors"], counts["rerun"]) == (2, 1, 1, 4)
    attempts: dict[str, list[tuple[int, str]]] = {}
    for line in journal(pytester.path, "finished"):
        attempts.setdefault(line["task"], []).append((line["attempt"], line["ending"]))
    assert attempts == {
        "grumpy": [(1, "failed"), (2, "failed"), (3, "passed")],
        "broken": [(number, "errored") for number in (1, 2, 3)],
        "good": [(1, "passed")],
        "bad": [(1, "missed")],
    }
    result.stdout.fnmatch_lines(["*reg with scripted*", "*1 of 1 decided task passed*"])
    cases = [
        properties(case)
        for case in ElementTree.parse(pytester.path / "j.xml").getroot().iter("testcase")
        if case.attrib["name"] == "grumpy[scripted-1]"
    ]
    assert [case.get("agenteval.attempt", "1") for case in cases] == ["1", "2", "3"]
    assert [case["agenteval.score"] for case in cases] == ["0.0000", "0.0000", "1.0000"]
