"""``--agent-baseline`` and ``--agent-report``: a run says at its end, and in files, whether it is better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.report_files import listed_files
from pytest_agenteval.store.journal_reader import Journal
from tests.greeters import (
    greet,
    latest_header,
    set_mood,
    task_names,
    write_greeters,
    write_tried_greeters,
)
from tests.reports.html.pages import Page
from tests.suites import write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
WORSE = "greetings is worse on these 12 tasks (1.00 -> 0.58)"


def test_the_verdict_stands_above_the_suites(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the terminal, in JUnit, in GitHub's summary, a comment and the run's folder, whoever ran it."""
    summary = pytester.path / "summary.md"
    write_tried_greeters(pytester)
    set_mood(pytester.path, "tired", task_names("night"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    files = ("--junitxml=junit.xml", "--agent-comment=out/comment.md")
    result = greet(pytester, "--agent-baseline=latest", *files, workers=1)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lines = result.outlines
    verdict = next(at for at, line in enumerate(lines) if WORSE in line)
    assert verdict < next(at for at, line in enumerate(lines) if line.startswith("greetings  0.58"))
    assert "  greetings with nop  1.00 -> 0.58" in "\n".join(lines)
    gate = next(line for line in lines if line.startswith("gate: "))
    assert gate == "gate: broken: night is worse (1.00 -> 0.00)"
    assert lines.count(gate) == 1
    xml = (pytester.path / "junit.xml").read_text()
    assert 'name="agenteval.verdict" value="greetings is worse on these 12 tasks' in xml
    assert 'name="agenteval.gate" value="broken: night is worse' in xml
    assert f"### {WORSE}" in summary.read_text().replace("\\", "").replace("&gt;", ">")
    assert "gate: broken: night is worse" in summary.read_text().replace("\\", "")
    folder = pytester.path / ".agenteval/runs/latest"
    figures = json.loads((folder / "comparison.json").read_text())
    assert figures["headline"].startswith(WORSE)
    assert figures["gate"]["broken"] == ["night is worse (1.00 -> 0.00)"]
    assert latest_header(pytester.path)["exit_status"] == 1
    first, _, gate, *_ = (pytester.path / "out/comment.md").read_text().splitlines()
    assert first.replace("&gt;", ">").startswith(f"### {WORSE}")
    assert gate.replace("&gt;", ">") == "**gate: broken: night is worse (1.00 -> 0.00)**"


def test_a_baseline_brings_rules_where_nobody_has_asked_for_any(pytester: pytest.Pytester) -> None:
    """A file is as good a baseline as a run, also in another process; what is said of a rule stays.

    A comment that cannot be written is named, and fails the run.
    """
    write_tried_greeters(pytester)
    alike = greet(pytester, "--agent-baseline=kept.json", workers=1)
    alike.stdout.fnmatch_lines(
        ["greetings: identical, every trial scored the same.",
         "gate: held (greetings 0 of 36 errored; greetings shows no fall)"]
    )  # fmt: skip
    assert (alike.ret, latest_header(pytester.path)["exit_status"]) == (0, 0)

    set_mood(pytester.path, "asleep", task_names("night"))
    off = greet(pytester, "--agent-baseline=kept.json", "--agent-gate=not_worse=false")
    off.stdout.fnmatch_lines(["gate: held (greetings 0 of 36 errored)"])
    unwritten = greet(pytester, "--agent-baseline=latest", "--agent-comment=evals", "-k", "night")
    assert "cannot be written: Is a directory" in " ".join(unwritten.outlines)
    assert (off.ret, unwritten.ret) == (0, pytest.ExitCode.TESTS_FAILED)


REFUSED = {
    "--agent-baseline=nightly": "--agent-baseline: there is no run 'nightly' in",
    "--agent-baseline=evals/b.json": "there is no file evals/b.json; agenteval baseline set RUN --to",
    "--agent-baseline=moods.json": "expected a baseline's file",
    "--agent-baseline=newer": "newer/run.json: written in format 99",
    "--agent-gate=scores=1": "--agent-gate: expected one of score, buckets.NAME",
    "--agent-gate=buckets.mornin=1": "expected a bucket of the suites; found 'mornin'; did you mean",
    "--agent-gate=score=2": "--agent-gate: expected numbers and true or false",
    "--agent-gate=score": "--agent-gate: expected KEY=VALUE, as in score=0.8,not_worse=true; or none",
    "--agent-gate=none,score=1": "none cannot be combined with rules",
    "--agent-gate=score=0.9,score=0.5": "each rule only once",
    "--agent-gate=buckets=1,buckets.morning=1": "--agent-gate: expected numbers and true or false",
}


def test_what_cannot_be_obeyed_is_refused_before_anything_is_tried(pytester: pytest.Pytester) -> None:
    """Exit status 4, in one line, with what may be typed."""
    write_greeters(pytester.path)
    write(pytester.path, {"newer/run.json": {"v": 99}})
    for argument, says in REFUSED.items():
        result = greet(pytester, argument)
        assert result.ret == pytest.ExitCode.USAGE_ERROR, argument
        assert says in str(result.stdout) + str(result.stderr)


def test_a_part_of_a_suite_is_compared_with_its_like(pytester: pytest.Pytester) -> None:
    """Tasks of the baseline that were not selected are no obstacle; those that differ are named."""
    write_tried_greeters(pytester)
    path = pytester.path / "evals/greetings/night/night_0.json"
    path.write_text(path.read_text().replace('"Mina"', '"Juna"'))

    result = greet(pytester, "-k", "night", "--agent-baseline=latest")

    out = " ".join(str(result.stdout).split())
    assert "(over 4 of 5 tasks: 1 cannot be compared)" in out
    assert "not compared: evals/greetings/night/night_0.json: night_0: graders: " in out
    assert "only in old" not in out
    assert result.ret == 0


def test_the_project_and_the_environment_may_name_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path in pyproject.toml is from there; ``none`` switches it off, and with it its gate."""
    write_tried_greeters(pytester)
    main(["baseline", "set", "latest", "--to=kept/mine.json"])
    table = '[tool.agenteval]\nbaseline = "kept/mine.json"\ngate = {score = 0.9, errored = 0.1}\n'
    (pytester.path / "pyproject.toml").write_text(table)

    result = greet(pytester)

    result.stdout.fnmatch_lines(["gate: held (greetings score 1.00; greetings 0 of 36 errored)"])
    off = greet(pytester, "--agent-baseline=none", "--agent-gate=none")
    off.stdout.no_fnmatch_line("gate: *")
    monkeypatch.setenv("AGENTEVAL_BASELINE", "nowhere")
    assert greet(pytester).ret == pytest.ExitCode.USAGE_ERROR


def test_a_baseline_of_two_runs_counts_all_of_their_trials(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate names it; that its runs differ stands beside the verdict wherever that is."""
    summary = pytester.path / "summary.md"
    write_greeters(pytester.path, {"baseline": "../two.json"})
    greet(pytester, "--agent-gate=none", "--agent-results=first")
    set_mood(pytester.path, "asleep", task_names("night"))
    greet(pytester, "--agent-gate=none", "--agent-results=second")
    runs = [str(pytester.path / folder / "latest") for folder in ("first", "second")]
    assert main(["baseline", "set", *runs]) == 0
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    result = greet(pytester, workers=1)

    text = " ".join(result.outlines)
    assert "one bucket accounts for all of it: night (0.50 -> 0.00)" in " ".join(text.split())
    assert "(the baseline's runs differ)." in " ".join(text.split())
    assert "baseline of 2 runs" in " ".join(text.split())
    folder = pytester.path / ".agenteval/runs/latest"
    (suite,) = json.loads((folder / "comparison.json").read_text())["suites"]
    assert suite["repetitions"] == [[6, 6], [3, 3]]
    assert [(each["mean"], each["drifted"]) for each in suite["baseline_runs"]] == [
        (1.0, True),
        (pytest.approx(7 / 12), True),
    ]
    names = [each["run"] for each in suite["baseline_runs"]]
    sentence = f"the runs differ by more than chance ({names[0]} 1.00, {names[1]} 0.58; p <0.001)"
    assert sentence in " ".join(text.split())
    assert sentence in " ".join(summary.read_text().split())
    assert main(["compare", "evals/two.json", "latest", "--json", "compared.json"]) == 1
    compared = json.loads((pytester.path / "compared.json").read_text())
    assert compared["suites"][0]["baseline_runs"] == suite["baseline_runs"]
    assert "(the baseline's runs differ)" in compared["headline"]


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
    changes = [after - before for before, after in (task["scores"] for task in page.index["tasks"])]
    worst = changes.index(min(changes))
    rows = [row for row in page.index["trials"] if row["task"] == worst]
    rows = [next(row for row in rows if row["side"] == side) for side in (0, 1)]
    old, new = map(page.trial, rows)
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
