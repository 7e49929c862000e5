"""What pytest prints of an ending, at any width and verbosity: once, whole, the user's own code first."""

from __future__ import annotations

import re

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CRASHING = """
def deeper(text):
    return {}["no " + text]


class Crashing:
    def run(self, task_input, ctx):
        return deeper(task_input["content"])


def pytest_agenteval_register(registry):
    registry.agent("crashing", Crashing)
"""
BUCKET = "greeting_people_by_name_politely"
CAPABILITY = "name: capability\nkind: capability\ndefaults: {model: scripted, trials_per_run: 2}\n"


def project(pytester: pytest.Pytester) -> None:
    """Write a suite with a miss in a bucket of a long name, and one with a failure and a crash."""
    write(
        pytester.path,
        {
            "conftest.py": CRASHING,
            f"a/{BUCKET}/m.json": task("m", says="Hm."),
            "a/suite.yaml": CAPABILITY,
            "a/other/n.json": task("n"),
            "b/suite.yaml": suite(),
            "b/f.json": task("f", says="Hm."),
            "b/c.json": task("c", agent="crashing"),
        },
    )


def test_a_miss_says_its_ending_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """``MISSED 0.00 (reason)`` under -v and in the summary; JUnit's message has word and score."""
    monkeypatch.setenv("COLUMNS", "160")
    project(pytester)

    result = run(pytester, "-v", "-rx", "--junitxml=junit.xml", "a", workers=1)

    lines = [line for line in result.outlines if "MISSED" in line and "m.json::" in line]
    assert len(lines) >= 3
    for line in lines:
        assert line.count("MISSED 0.00") == 1
        assert line.count("answer_contains") == (0 if line.startswith("[gw") else 1)  # xdist says no reason
    xml = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert xml.count('type="pytest.xfail" message="MISSED 0.00: answer_contains 0.00: no:') == 2


def test_a_traceback_is_printed_once_and_begins_with_the_users_code(pytester: pytest.Pytester) -> None:
    """Under -vv too, where pytest prints a whole text again in its short summary."""
    project(pytester)

    result = run(pytester, "-vv", "b")

    out = str(result.stdout)
    assert out.count("Traceback (most recent call last)") == 1
    assert out.count("answer: Hm.") == 1
    first = re.search(r'Traceback .*\n +File "([^"]+)", line (\d+), in run', out)
    assert first is not None
    assert first[1].endswith("conftest.py")
    assert "pytest_agenteval/engine" not in out
    result.stdout.fnmatch_lines(["ERROR b/c.json::c* - crash: KeyError: 'no Say hello to Mina.'"])
    result.stdout.fnmatch_lines(["FAILED 0.00 b/f.json::f* - answer_contains 0.00: no:*"])
