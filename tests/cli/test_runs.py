"""``agenteval runs``: which runs are kept."""

from __future__ import annotations

import pytest

from pytest_agenteval.cli.main import main
from tests.cli.conftest import Agenteval
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]


def printed_table(capsys: pytest.CaptureFixture[str], *args: str) -> list[list[str]]:
    """Give the table that the command prints, without the blanks that align it."""
    capsys.readouterr()
    assert main(["runs", *args]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


@pytest.mark.usefixtures("agenteval")
def test_runs_are_listed_newest_first(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Name, models, how many of the planned trials ended, and pytest's exit status."""
    options = ("-p", "pytest_agenteval.plugin")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    pytester.runpytest_inprocess(*options, "--agent-model=scripted").assert_outcomes(passed=2)
    pytester.runpytest_inprocess(*options, "--agent-model=scripted,nop", "-x").assert_outcomes(
        passed=1, failed=1
    )

    head, second, first = printed_table(capsys)

    assert head == ["RUN", "MODELS", "TRIALS", "EXIT"]
    assert first[1:] == ["scripted", "2 of 2", "0"]
    assert second[1] == "scripted, nop"
    assert second[2].endswith(" of 4")
    assert second[3] == "1"
    results = pytester.path / ".agenteval" / "runs"
    assert all((results / row[0] / "run.json").is_file() for row in (first, second))
    assert (results / "latest").resolve().name == second[0]


@pytest.mark.usefixtures("agenteval")
def test_another_folder_can_be_named(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Where ``--agent-results`` put them."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})
    pytester.runpytest_inprocess("-p", "pytest_agenteval.plugin", "--agent-results=kept").assert_outcomes(
        passed=1
    )

    assert len(printed_table(capsys, "--results", "kept")) == 2
    assert printed_table(capsys) == [["no runs in .agenteval/runs"]]


def test_a_damaged_run_hides_no_other(pytester: pytest.Pytester, agenteval: Agenteval) -> None:
    """What cannot be read is left out; the exit status stays 0."""
    write(pytester.path, {".agenteval/runs/torn/run.json": "{", ".agenteval/runs/empty/notes.txt": ""})

    output = agenteval("runs")

    assert (output.status, output.out.strip()) == (0, "no runs in .agenteval/runs")


@pytest.mark.usefixtures("agenteval")
def test_an_odd_line_blinds_nobody(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """``runs``, ``report`` and ``--agent-only`` tell it by file and line, and read everything else."""
    options = ("-p", "pytest_agenteval.plugin", "--agent-model=scripted")
    write(
        pytester.path,
        {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b", says="Hm.")},
    )
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1, failed=1)
    (run,) = (pytester.path / ".agenteval" / "runs").glob("2*")
    (path,) = run.glob("journal-*.jsonl")
    with path.open("a", encoding="utf-8") as journal:
        journal.write('{"v": 1, "kind": "finished"}\n')
    odd = f"{path.name}:5: left out: holds no key 'suite'"
    (run / "run.json").write_text("[]", encoding="utf-8")
    (run / "planned.json").write_text('{"v": 1, "gro', encoding="utf-8")
    capsys.readouterr()

    assert main(["runs"]) == 0
    printed = capsys.readouterr()
    assert run.name in printed.out
    assert f"{run.name}: {odd}" in printed.err

    assert main(["report", "latest"]) == 0
    out = capsys.readouterr().out
    for file in ("run.json: left out", "planned.json: left out", odd):
        assert file in out

    again = pytester.runpytest_inprocess(*options, "--agent-only=failed")
    again.assert_outcomes(failed=1, deselected=1)
    again.stdout.fnmatch_lines([f"{run.name}: {path.name}:5: left out*"])
