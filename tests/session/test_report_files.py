"""``--agent-report``: the files that are written when a run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.reports.report_files import listed_files
from pytest_agenteval.store.journal_reader import Journal
from tests.greeters import greet, set_mood, task_names, write_greeters, write_tried_greeters
from tests.reports.html.pages import Page

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def test_reports_are_written_with_what_the_run_is_compared_with(pytester: pytest.Pytester) -> None:
    """Each ending has its own form; the old run's trials can be opened beside the new ones."""
    write_tried_greeters(pytester)
    set_mood(pytester.path, "tired", task_names("night"))

    files = ("--agent-report=out/report.html", "--agent-report=report.md")
    result = greet(pytester, "--agent-baseline=latest", *files, workers=1)

    assert result.outlines.count("report: out/report.html") == 1
    assert result.outlines.count("report: report.md") == 1
    assert "greetings is worse" in (pytester.path / "report.md").read_text()
    page = Page(pytester.path / "out/report.html")
    assert page.index["headline"].startswith("greetings is worse on these 12 tasks (1.00 -> 0.58)")
    worst = min(page.index["tasks"], key=lambda task: task["change"])
    old, new = (page.trial(page.index["trials"][worst[side][0]]) for side in ("old", "trials"))
    assert (old["ending"], new["ending"]) == ("passed", "missed")
    assert {each["exit_status"] for each in page.index["runs"]} == {0, 1}


def test_a_variable_names_several_files(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comma list, as every list is there; a comma in a name stays what it is."""
    write_greeters(pytester.path)
    monkeypatch.setenv("AGENTEVAL_REPORT", "out/a.md, out/b.xml")
    greet(pytester, times=1)
    assert {file.name for file in (pytester.path / "out").iterdir()} == {"a.md", "b.xml"}
    assert listed_files("a, b.md") == ["a, b.md"]


def test_the_end_of_a_run_reads_it_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status, gates, JUnit, reports and summary share what is read."""
    write_greeters(pytester.path)
    journals: list[Path] = []
    read = Journal.read

    def counted(journal: Journal, path: Path, *rest: Any) -> None:
        journals.append(path)
        read(journal, path, *rest)

    monkeypatch.setattr(Journal, "read", counted)
    options = ("--agent-gate=score=0", "--junitxml=junit.xml", "--agent-report=report.html")
    result = greet(pytester, *options, times=1)

    result.stdout.fnmatch_lines(["*agent evals*", "*gate: *held*"])
    assert len(journals) == 1
    assert "agenteval" in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert (pytester.path / "report.html").is_file()


def test_a_file_that_cannot_be_written_is_refused_before_the_run_or_fails_it(
    pytester: pytest.Pytester,
) -> None:
    """An ending that is not known costs no run, nor does a folder in the file's place.

    Else the others are written, also of a run that is not kept, and one sentence says why.
    """
    write_greeters(pytester.path)
    (pytester.path / "out.html").mkdir()
    for file in ("report.pdf", "out.html"):
        result = greet(pytester, f"--agent-report={file}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --agent-report: *{file}: expected a file that ends in .html,*"])
    (pytester.path / "file").write_text("no folder")
    reports = ("--agent-report=file/report.html", "--agent-report=report.html")
    result = greet(pytester, *reports, "--agent-results=none", times=1)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert any("file/report.html: cannot be written" in line for line in result.outlines)
    assert "report: report.html" in result.outlines
    assert "Traceback" not in result.stdout.str()
    page = Page(pytester.path / "report.html")
    assert all(page.trial(row)["name"] == row["name"] for row in page.index["trials"])
    assert not (pytester.path / ".agenteval").exists()
