"""A run that has ended is read back once, however many tell of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.journal_reader import Journal
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]


def test_the_end_of_a_run_reads_it_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status, gates, JUnit, reports and summary share what is read."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    journals: list[Path] = []
    read = Journal.read

    def counted(journal: Journal, path: Path, *rest: Any) -> None:
        journals.append(path)
        read(journal, path, *rest)

    monkeypatch.setattr(Journal, "read", counted)
    options = ("--agent-gate=score=0", "--junitxml=junit.xml", "--agent-report=report.html")
    result = pytester.runpytest_inprocess("evals", "--agent-model=scripted", *options)

    result.stdout.fnmatch_lines(["*agent evals*", "*gate: *held*"])
    assert len(journals) == 1
    assert "agenteval" in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert (pytester.path / "report.html").is_file()
