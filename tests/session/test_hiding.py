"""What is secret in a session is in none of its files."""

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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("redact = 'one'", "*tool.agenteval.redact: expected a list of regular expressions; found 'one'*"),
        ("redact = ['(']", "*tool.agenteval.redact: expected regular expressions; '(':*"),
        ("redact = ['x*']", "*tool.agenteval.redact: 'x[*]' fits an empty text*"),
    ],
)
def test_a_pattern_that_cannot_be_obeyed_is_a_usage_mistake(
    pytester: pytest.Pytester, line: str, message: str
) -> None:
    """It names the place; a pattern that fits anything would leave nothing to read."""
    project = f"[tool.agenteval]\n{line}\n"
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "pyproject.toml": project})
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


def test_a_property_that_has_no_text_stays_as_it_is() -> None:
    """What a plugin puts into a report may raise when it is written down."""

    class Unwritable:
        def __repr__(self) -> str:
            raise RuntimeError

    properties = [("own", Unwritable()), ("same", "1"), ("number", 1)]
    report: Any = SimpleNamespace(sections=[], user_properties=properties, longrepr=None)
    hide_in_report(report)
    assert report.user_properties == properties
