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


def of_the_screen(lines: list[str]) -> list[str]:
    """Give the lines of a run's end, but for those that are there to be copied and stay whole."""
    start = next(place for place, line in enumerate(lines) if "agent evals" in line)
    return [line for line in lines[start:-1] if not line.startswith(("run: ", "next: "))]


@pytest.mark.parametrize(("width", "workers"), [(40, 0), (100, 1)])
def test_the_screen_names_the_bucket_that_missed_and_the_next_command(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, width: int, workers: int
) -> None:
    """Whole, whatever the width; what is typed next shows the trial that went worst."""
    monkeypatch.setenv("COLUMNS", str(width))
    project(pytester)

    result = run(pytester, "--color=no", "a", workers=workers)

    lines = of_the_screen(result.outlines)
    assert all(len(line) <= max(width, len(BUCKET) + 2) for line in lines)
    assert any(line.split()[:1] == [BUCKET] for line in lines)
    result.stdout.fnmatch_lines(["*next: agenteval show latest:worst"])
