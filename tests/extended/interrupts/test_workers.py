"""Ctrl-C while workers run the trials."""

from __future__ import annotations

import re

import pytest

from tests.journals import journal, names
from tests.session.test_interrupt import endless, evals, interrupted, start
from tests.suites import task

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.posix
def test_ctrl_c_with_workers(pytester: pytest.Pytester) -> None:
    """The same where workers run the trials and the signal reaches the controller only."""
    evals(pytester.path, task("good"), task("fine"), *(endless(f"t{n}") for n in range(6)))
    pytest_run = start(pytester.path, "-p", "xdist.plugin", "-n2")
    output = interrupted(pytester.path, pytest_run, finished=2)
    assert pytest_run.returncode == 2
    assert sorted(names(journal(pytester.path, "finished"))) == ["fine-1", "good-1"]
    assert "demo with scripted" in output
    assert re.search(r"(?m)^  \d not run$|^  6 begun and not ended", output)
    assert (pytester.path / "j.xml").exists()
