"""What is secret in a session is in none of its files, nor in what pytest writes by itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agenteval.session.pytest_output import hide_in_report
from pytest_agenteval.text.secret_forms import MARK
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def test_a_pattern_that_cannot_be_obeyed_is_a_usage_mistake(pytester: pytest.Pytester) -> None:
    """It names the place; a pattern that fits anything would leave nothing to read."""
    for redact, message in (
        ("'one'", "*tool.agenteval.redact: expected a list of regular expressions; found 'one'*"),
        ("['(']", "*tool.agenteval.redact: expected regular expressions; '(':*"),
        ("['x*']", "*tool.agenteval.redact: 'x[*]' matches the empty text*"),
    ):
        project = f"[tool.agenteval]\nredact = {redact}\n"
        write(
            pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "pyproject.toml": project}
        )
        result = run(pytester, "evals")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


def test_a_grade_is_given_to_what_was_really_said(pytester: pytest.Pytester) -> None:
    """A grader that looks for a leak sees it; only what is told and kept of the trial is without it."""
    secret = "CUST-" + "604812"
    files = {
        "evals/suite.yaml": suite(),
        "evals/a.json": task("a", says=f"It is {secret}.", wants=f"is {secret}"),
        "pyproject.toml": "[tool.agenteval]\nredact = ['CUST-[0-9]+']\n",
    }
    write(pytester.path, files)
    result = run(pytester, "evals", "-v")
    result.stdout.fnmatch_lines(["*PASSED 1.00*"])
    stored_files = [path for path in Path(".agenteval").rglob("*.json*") if not path.is_symlink()]
    assert any(MARK in path.read_text(encoding="utf-8") for path in stored_files)
    assert not any(secret in path.read_text(encoding="utf-8") for path in stored_files)


CONFTEST = """
import logging
import os

import pytest

@pytest.fixture(autouse=True)
def told(record_testsuite_property):
    secret = os.environ["TRUMPET_TOKEN"]
    record_testsuite_property("deployed with", secret)
    logging.getLogger("fixture").warning("the fixture has %s", secret)

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("deployed with " + os.environ["TRUMPET_TOKEN"])
"""
TORN = """
import os

raise RuntimeError("torn by " + os.environ["TRUMPET_TOKEN"])
"""
PLAIN = """
import os

def test_plain():
    beginning = os.environ["TRUMPET_TOKEN"] + "x" * 300
    end = "x" * 300 + os.environ["TRUMPET_TOKEN"]
    middle = "x" * 105 + os.environ["TRUMPET_TOKEN"] * 20
    raise RuntimeError(end)
"""


@pytest.mark.parametrize("option", ["log_file", "none"])
def test_log_files_totals_and_shortened_locals_hold_no_secret(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """Also where a local is shown as its beginning and its end, and what falls between is half a secret."""
    monkeypatch.setenv("TRUMPET_TOKEN", "trumpet-marmalade-42")
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/t.yaml": task("t")})
    write(pytester.path, {"evals/conftest.py": CONFTEST, "evals/test_plain.py": PLAIN})
    write(pytester.path, {"evals/test_torn.py": TORN})
    logged = ["--log-file=log.txt"] if option == "log_file" else []

    result = run(pytester, "evals", "-l", "--continue-on-collection-errors", "--junitxml=junit.xml", *logged)

    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*RuntimeError: torn by *", "deployed with *"])
    written = [pytester.path / "junit.xml", *([pytester.path / "log.txt"] if logged else [])]
    for text in (result.stdout.str(), *(path.read_text(encoding="utf-8") for path in written)):
        assert "redacted" in text
        assert "malade" not in text
        assert "trumpet-" not in text


def test_a_property_that_has_no_text_stays_as_it_is() -> None:
    """What a plugin puts into a report may raise when it is written down."""

    class Unwritable:
        def __repr__(self) -> str:
            raise RuntimeError

    properties = [("own", Unwritable()), ("same", "1"), ("number", 1)]
    report: Any = SimpleNamespace(sections=[], user_properties=properties, longrepr=None)
    hide_in_report(report)
    assert report.user_properties == properties
