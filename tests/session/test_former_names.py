"""Runs that were stored when the model ``rules`` was called ``baseline``, and users who still type that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def as_it_was(folder: Path) -> str:
    """Give a stored run of one trial the name that its model had, in every file."""
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8").replace('"rules"', '"baseline"')
        text = re.sub(r',"crc":"\w+"', "", text)
        file.write_text(text, encoding="utf-8", newline="\n")
    (transcripts,), (journal,) = folder.glob("transcripts-*"), folder.glob("journal-*")
    line = f'"transcript":[0,{len(transcripts.read_bytes())}]'  # the journal says where and how long it is
    text = journal.read_text(encoding="utf-8")
    journal.write_text(re.sub(r'"transcript": ?\[0, ?\d+\]', line, text), encoding="utf-8", newline="\n")
    return str(folder)


def test_an_old_run_is_read_and_shown_as_it_is(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report names the model that the run names, still no LLM; graded again, its trials stay its own."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/all.yaml": [task("good")]})
    run(pytester, "evals", "--agent-model=rules").assert_outcomes(passed=1)
    (folder,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    old = as_it_was(folder)
    assert main(["report", old]) == 0
    assert "\nbaseline: rule-based, no LLM\n" in capsys.readouterr().out
    regraded = run(pytester, "evals", f"--agent-regrade={old}", "-v")
    regraded.assert_outcomes(passed=1)
    regraded.stdout.fnmatch_lines(["*::good?baseline-1? PASSED 1.00*"])


@pytest.mark.parametrize("where", ["command line", "suite"])
def test_the_old_name_is_told_the_new_one(pytester: pytest.Pytester, where: str) -> None:
    """Wherever it is said, in one line and without a traceback."""
    suite_text = suite().replace("scripted", "baseline") if where == "suite" else suite()
    write(pytester.path, {"evals/suite.yaml": suite_text, "evals/all.yaml": [task("good")]})
    arguments = ["--agent-model=baseline"] if where == "command line" else []
    result = run(pytester, "evals", *arguments)
    output = str(result.stdout) + str(result.stderr)
    assert "unknown model 'baseline'" in output
    assert "it is called 'rules' now" in output
    assert "Traceback" not in output
