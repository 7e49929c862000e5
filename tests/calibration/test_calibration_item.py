"""A calibration as a test: how it is collected, run, told and written down."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from tests.calibration.judges import FILE, found_in, project, rows
from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]

ITEM = f"{FILE}::tidy"


def page(root: pytest.Pytester) -> str:
    """Give the page of the only calibration."""
    (path,) = (root.path / ".agenteval" / "runs").glob("2*/calibration-tidy.html")
    return path.read_text(encoding="utf-8")


def test_without_a_judge_it_is_skipped(letters: pytest.Pytester) -> None:
    """A calibration that nobody can carry out is no failure; the reason names the flag."""
    result = run(letters, "evals", "-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*no judge: add --agent-judge=MODEL"])


def test_it_is_collected_under_its_id_and_its_judges(letters: pytest.Pytester) -> None:
    """``path::id[judges]``; its id, its tags and its rubric are keywords; nobody is asked.

    A camera's calibration is no calibration of ours.
    """
    write(letters.path, {"camera.calibration.yaml": "matrix: [1, 0, 0, 1]\n", "calibration.yaml": "k: 1\n"})
    assert collected_ids(letters) == [ITEM]
    assert collected_ids(letters, "evals", "-k", "not letters") == []
    asked = ("--agent-judge=broken,noisy", "-k", "letters and calibration")
    assert collected_ids(letters, "evals", *asked) == [f"{ITEM}[broken+noisy]"]
    assert collected_ids(letters, "evals", "-m", "calibration and letters", "--strict-markers") == [ITEM]
    assert collected_ids(letters, "evals", "-m", "not calibration") == []
    assert not (letters.path / ".agenteval").exists()


def test_a_disk_that_is_full_is_told(letters: pytest.Pytester) -> None:
    """What cannot be written down is no calibration: an error of one line, and no traceback of ours."""
    full = """
import os
from pathlib import Path

def pytest_runtest_setup(item):
    for run in Path(".agenteval/runs").glob("2*"):  # where a file is to be written stands a folder
        (run / f".calibration-tidy.html.{os.getpid()}").mkdir()
"""
    write(letters.path, {"evals/conftest.py": full})

    result = run(letters, "evals", "--agent-judge=perfect")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the calibration cannot be written to *: Is a directory"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_what_was_not_reached_fails_and_is_run_again_alone(letters: pytest.Pytester) -> None:
    """The item names its shortfalls; under ``--lf`` no judge is paid for a calibration that had passed."""
    project(letters.path, "thresholds: {spearman: 0.7}\n")
    text = (letters.path / FILE).read_text().replace("id: tidy", "id: twin").replace("0.7", "-1")
    write(letters.path, {"evals/calibration/twin.calibration.yaml": text})

    result = letters.runpytest("evals", "--agent-judge=inverted")

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["tidy: 2 of 2 thresholds not reached", "  spearman of order 0.7 or more (found -1.00*"]
    )
    assert "Traceback" not in str(result.stdout)
    letters.runpytest("evals", "--agent-judge=inverted", "--lf").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("judges", "lines"),
    [
        ("perfect,broken", ["*provider: broken: no reply after 4 attempts; try again later"]),
        (
            "crashing",
            # As of a grader that crashes: the author's line, and none of pytest's.
            [
                "judge_crash: ZeroDivisionError: *",
                "Traceback*",
                "*conftest.py*in ask",
                "ZeroDivisionError: *",
            ],
        ),
    ],
)
def test_a_judge_that_fails_is_an_error_and_no_figure(
    letters: pytest.Pytester, judges: str, lines: list[str]
) -> None:
    """The item is errored in its setup, and nothing is written that could be taken for a result."""
    result = run(letters, "evals", f"--agent-judge={judges}")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*_pytest*")
    assert not list(letters.path.glob(".agenteval/runs/*/calibration-*"))


@pytest.mark.parametrize("judges", ["mumbling", "perfect,mumbling"])
def test_a_judge_that_cannot_be_read_at_all_is_an_error(letters: pytest.Pytester, judges: str) -> None:
    """Alone or beside others: the problem of its replies is told, and no page speaks of agreement."""
    result = run(letters, "evals", f"--agent-judge={judges}")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*unreadable: mumbling: 15 of 15 replies cannot be read: *",
            "  mumbling: 15 of 15 replies cannot be read: *",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    found = found_in(letters.path)
    assert found["passed"] is False
    assert [judge.get("unread", {}).get("count") for judge in found["judges"]] in ([15], [None, 15])
    if judges == "mumbling":
        assert "None: 0 of " in page(letters)


def test_a_judge_without_a_key_is_refused_before_anyone_is_asked(letters: pytest.Pytester) -> None:
    """Exit status 4 and the variable's name; with chats from cassettes alone no key is wanted."""
    result = run(letters, "evals", "--agent-judge=claude")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    refusal = "--agent-judge=claude: no key: the environment variable ANTHROPIC_API_KEY is not set"
    assert refusal in str(result.stderr)
    assert not (letters.path / ".agenteval").exists()

    replayed = run(letters, "evals", "--agent-judge=claude", "--agent-record-chat=none")

    replayed.assert_outcomes(errors=1)
    replayed.stdout.fnmatch_lines(
        ["*cassette_miss: *", f"*pytest {FILE} -k tidy --agent-record-chat=new_episodes*"]
    )


def test_broken_files_tell_everything_and_stop_nothing_else(letters: pytest.Pytester) -> None:
    """A calibration whose labels are wrong is a collection error with all problems; others are collected.

    Two calibrations of one id would overwrite each other's findings: the second is an error, too.
    """
    text = (letters.path / FILE).read_text()
    broken = [{"id": "a", "input": {"leter": "x"}, "output": "y", "scores": {"order": 7}}]
    project(letters.path, "thresholds: {spearmen: 1}\n", broken)
    write(letters.path, {"evals/other/suite.yaml": suite(), "evals/other/task.json": task("hello")})

    result = run(letters, "evals", "--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            f"{FILE}:6: thresholds.spearmen",
            "evals/calibration/tidy.jsonl:1: input.leter",
            "evals/calibration/tidy.jsonl:1: scores.order",
        ]
    )
    assert "Traceback" not in str(result.stdout)

    project(letters.path)
    write(letters.path, {"evals/calibration/twin.calibration.yaml": text})
    twice = run(letters, "evals/calibration")
    twice.assert_outcomes(errors=1)
    twice.stdout.fnmatch_lines([f"  found:    'tidy', which is also in {FILE}"])


def test_it_may_stand_among_tasks(letters: pytest.Pytester) -> None:
    """Below a suite any YAML file may be a calibration; trials and calibrations run side by side."""
    text = (letters.path / FILE).read_text().replace("id: tidy", "id: beside")
    tasks = {"evals/calibration/suite.yaml": suite(), "evals/calibration/a/task.json": task("hello")}
    write(letters.path, {**tasks, "evals/calibration/beside.yaml": text})

    result = run(letters, "evals", "--agent-judge=perfect")

    result.assert_outcomes(passed=3)
    assert found_in(letters.path, "beside")["passed"]
    assert found_in(letters.path, "tidy")["passed"]


def test_the_figures_are_everywhere_whoever_asked(
    letters: pytest.Pytester, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, JUnit and GitHub's summary say the figures of whoever counts, in workers too."""
    summary = letters.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = run(letters, "evals", "--agent-judge=perfect", "--junitxml=out.xml", workers=workers)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["calibration tidy (rubric tidy 3)", "  compared with 15 constructed labels", "  judge perfect (*"]
    )
    found = ElementTree.parse(letters.path / "out.xml").iterfind(".//testcase//property")
    values = {one.attrib["name"]: one.attrib["value"] for one in found}
    assert values["agenteval.calibration"] == "tidy"
    assert values["agenteval.labels"] == "15 constructed labels"
    assert values["agenteval.judges"] == "perfect"
    assert values["agenteval.order.spearman"] == "1.0000"
    assert values["agenteval.tone.mae"] == "0.0000"
    # A block that nothing in it can end.
    text = summary.read_text(encoding="utf-8")
    block = text[text.index("```text\n") : text.rindex("\n```")]
    assert block.count("```") == 1
    for title in ("spearman", "pearson", "MAE", "within", "kappa", "alpha"):
        (row,) = [line for line in result.outlines if line.startswith(f"    {title} ")]
        assert f"\n{row}\n" in block


def test_no_results_are_kept_where_none_are_wanted(letters: pytest.Pytester) -> None:
    """With ``--agent-results=none`` the figures are printed all the same, and nobody is sent to a page."""
    result = run(letters, "evals", "--agent-judge=perfect", "--agent-results=none")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["calibration tidy*", "  page: not stored*"])
    assert not (letters.path / ".agenteval").exists()


def test_judges_of_a_calibration_are_paid_of_the_runs_budget(letters: pytest.Pytester) -> None:
    """Ten examples, asked about twice at a tenth of a cent; the document says what that took."""
    project(letters.path, "repeats: 2\n", rows(10))

    result = run(letters, "evals", "--agent-judge=perfect", "--agent-max-cost=0.03")

    result.stdout.fnmatch_lines_random(["budget: $0.0200 of $0.0300"])
    assert [judge["usage"]["asks"] for judge in found_in(letters.path)["judges"]] == [20]
    assert BootstrapSettings().draws == 1000
