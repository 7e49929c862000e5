"""Doors to the outside that pytest and its plugins open by themselves: no secret goes through them."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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
