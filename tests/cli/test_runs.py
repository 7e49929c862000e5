"""``agenteval runs``: which runs are kept, and how they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.text.formatting import cell_width
from tests.cli.conftest import Agenteval
from tests.reports.runs import MIXED, store_run
from tests.reports.screen_runs import several_models
from tests.suites import suite, task, write

pytest_plugins = ["pytester"]


def printed_table(capsys: pytest.CaptureFixture[str], *args: str) -> list[list[str]]:
    """Give the table that the command prints, without the blanks that align it."""
    capsys.readouterr()
    assert main(["runs", *args]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


@pytest.mark.usefixtures("agenteval_command")
def test_runs_are_listed_newest_first(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each suite with each model: score, over how many of the planned trials, pytest's status."""
    monkeypatch.setenv("COLUMNS", "140")
    options = ("-p", "pytest_agenteval.plugin")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    pytester.runpytest_inprocess(*options, "--agent-model=scripted").assert_outcomes(passed=2)
    pytester.runpytest_inprocess(*options, "--agent-model=scripted,nop", "-x").assert_outcomes(
        passed=1, failed=1
    )

    title, head, second, other, first = printed_table(capsys)

    assert title == ["2 runs in .agenteval/runs, newest first"]
    assert head == ["run", "started", "suite", "model", "score", "95 %", "trials", "cost", "wall", "exit"]
    assert first[8].endswith(" s")
    assert first[2:] == ["greetings", "scripted", "1.00", "-", "2 of 2", "-", first[8], "0"]
    assert [*second[2:4], second[-1]] == ["greetings", "scripted", "1"]
    assert other[:2] == ["greetings", "nop"]
    results = pytester.path / ".agenteval" / "runs"
    assert all((results / row[0] / "run.json").is_file() for row in (first, second))
    assert (results / "latest").resolve().name == second[0]


@pytest.mark.usefixtures("agenteval_command")
def test_errored_trials_are_not_among_those_that_the_score_is_over(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the run's own screen: who reads 2 of 2 beside a score believes that both count."""
    monkeypatch.setenv("COLUMNS", "140")
    write(
        pytester.path,
        {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b", script=[])},
    )
    pytester.runpytest_inprocess("-p", "pytest_agenteval.plugin", "--agent-model=scripted")

    assert printed_table(capsys)[2][4:7] == ["1.00", "-", "1 of 2"]


@pytest.mark.usefixtures("agenteval_command")
def test_a_run_that_was_compared_has_its_verdict(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its end said it; nothing is compared anew. As JSON with all figures; what is torn is said."""
    monkeypatch.setenv("COLUMNS", "140")
    options = ("-p", "pytest_agenteval.plugin", "--agent-model=scripted")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    pytester.runpytest_inprocess(*options)
    pytester.runpytest_inprocess(*options, "--agent-baseline=latest")

    rows = printed_table(capsys)
    assert [rows[1][-1], rows[2][-1], rows[3][-1]] == ["verdict", "identical", "-"]
    assert main(["runs", "--json", "-", "-n", "1"]) == 0
    (new,) = json.loads(capsys.readouterr().out)["runs"]
    (of_suite,) = new["suites"]
    assert (of_suite["score"], of_suite["ended"], of_suite["planned"]) == (1.0, 2, 2)
    assert of_suite["verdict"]["verdict"] == "identical"
    assert new["headline"].startswith("greetings: identical")
    (Path(new["path"]) / "comparison.json").write_text("{", encoding="utf-8")
    assert main(["runs"]) == 0
    printed = capsys.readouterr()
    assert "verdict" not in printed.out
    assert "comparison.json: left out" in printed.err


@pytest.mark.usefixtures("agenteval_command")
def test_another_folder_can_be_named(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Where ``--agent-results`` put them."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("a")})
    pytester.runpytest_inprocess("-p", "pytest_agenteval.plugin", "--agent-results=kept").assert_outcomes(
        passed=1
    )

    assert printed_table(capsys, "--results", "kept")[0] == ["1 run in kept, newest first"]
    assert printed_table(capsys) == [["no runs in .agenteval/runs"]]


def test_the_newest_20_are_listed_and_as_many_as_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The title says how many there are; other runs are not read."""
    monkeypatch.setenv("COLUMNS", "200")
    for _ in range(25):
        store_run(tmp_path, MIXED)

    def rows(*args: str) -> list[list[str]]:
        return printed_table(capsys, "--results", str(tmp_path), *args)

    title, _, *some = rows()
    assert (title, len(some)) == ([f"25 runs in {tmp_path}, newest first, 20 of 25 (--all, -n)"], 20)
    assert len(rows("-n", "3")) == 2 + 3
    assert len(rows("--all")) == 2 + 25
    assert some[0][4:] == ["0.58", "-", "5 of 6", "-", "-", "not ended"]
    with pytest.raises(SystemExit):
        main(["runs", "-n", "0"])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_lines_fit_and_names_are_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Columns give way one by one, the moment of the start first; a name is there to be pasted."""
    monkeypatch.setenv("COLUMNS", str(width))
    name = several_models(tmp_path).folder.name

    assert main(["runs", "--results", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if line.split()[:1] == ["run"])
    assert all(cell_width(line) <= width for line in lines if str(tmp_path) not in line)
    assert sum(name in line for line in lines) == 1
    assert {"suite", "model", "score", "trials"} <= set(head.split())
    assert ("started" in head) == (width == 120)


def test_a_damaged_run_hides_no_other(pytester: pytest.Pytester, agenteval_command: Agenteval) -> None:
    """What cannot be read is left out; the exit status stays 0."""
    write(pytester.path, {".agenteval/runs/torn/run.json": "{", ".agenteval/runs/empty/notes.txt": ""})

    output = agenteval_command("runs")

    assert (output.status, output.out.strip()) == (0, "no runs in .agenteval/runs")


@pytest.mark.usefixtures("agenteval_command")
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
    odd = f"{path.name}:5: left out: no line of a journal: Object missing required field `suite`"
    (run / "run.json").write_text("[]", encoding="utf-8")
    (run / "planned.json").write_text('{"v": 1, "gro', encoding="utf-8")
    capsys.readouterr()

    assert main(["runs"]) == 0
    printed = capsys.readouterr()
    assert run.name in printed.out
    assert f"{run.name}: {odd}" in printed.err

    assert main(["report", "latest"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for file in ("run.json: left out", "planned.json: left out", odd):
        assert file in out

    again = pytester.runpytest_inprocess(*options, "--agent-only=failed")
    again.assert_outcomes(failed=1, deselected=1)
    again.stdout.fnmatch_lines([f"{run.name}: {path.name}:5: left out*"])


def test_runs_are_found_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pytest keeps them at its root, from wherever it is started; beyond the repository nobody looks."""
    store_run(tmp_path / "p/.agenteval/runs", MIXED)
    (tmp_path / "p/docs").mkdir()
    monkeypatch.chdir(tmp_path / "p/docs")
    assert printed_table(capsys)[0] == ["no runs in .agenteval/runs"]
    (tmp_path / "p/.git").mkdir()
    assert printed_table(capsys)[0] == ["1 run in ../.agenteval/runs, newest first"]
