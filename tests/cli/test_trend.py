"""``agenteval trend``: a suite over its last runs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.cli.conftest import Agenteval, Said
from tests.forked_workers import run_python
from tests.reports.test_trend import ALL_HALF, store, trials
from tests.suites import only_our_plugin, suite, task, write


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite of two tasks that was run twice; in between one of them got another grader."""
    root = tmp_path_factory.mktemp("greetings")
    write(root, {"evals/suite.yaml": suite(), "evals/a.json": task("a"), "evals/b.json": task("b")})
    with pytest.MonkeyPatch.context() as patch:
        only_our_plugin(patch)
        assert "2 passed" in run_python("-m", "pytest", cwd=root).stdout
        write(root, {"evals/b.json": task("b", wants="Jun")})
        assert "1 failed, 1 passed" in run_python("-m", "pytest", cwd=root).stdout
    return root


@pytest.fixture
def two_runs(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Agenteval:
    """Give the command, in the folder of the project."""
    monkeypatch.chdir(project)

    def run(*args: str) -> Said:
        return Said(main([*args]), *capsys.readouterr())

    return run


def test_scores_come_oldest_first_and_a_changed_grader_is_told(two_runs: Agenteval) -> None:
    """As a table, and with all digits as JSON, to a file or in the place of the table."""
    output = two_runs("trend", "greetings", "--json", "trend.json")

    assert (output.status, output.err) == (0, "")
    assert "greetings with scripted: follows a script: 2 runs" in output.out
    assert ["all", "1.00", "█", "|", "0.50", "▄"] in [line.split()[:6] for line in output.out.splitlines()]
    assert "(1 task), scores before and after are not comparable" in " ".join(output.out.split())
    data = json.loads(Path("trend.json").read_text(encoding="utf-8"))
    (of_suite,) = data["suites"]
    (series,) = of_suite["series"]
    assert [point["total"]["score"] for point in series["points"]] == [1.0, 0.5]
    (change,) = series["points"][1]["changes"]
    assert (change["what"], change["tasks"]) == ("graders", 1)
    printed = two_runs("trend", "--json", "-", "--last", "1")
    (again,) = json.loads(printed.out)["suites"]
    assert len(again["runs"]) == 1


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("greeting",), "no run of the suite 'greeting' in .agenteval/runs; suites that were run: greetings"),
        (("--model", "claude"), "no such runs in .agenteval/runs; models of runs: scripted"),
        (("--results", "nowhere"), "there are no runs in nowhere yet"),
        (("-o", "trend.pdf"), "trend.pdf: expected a file that ends in .html"),
    ],
)
def test_what_is_not_there_is_a_mistake_in_use(
    two_runs: Agenteval, args: tuple[str, ...], problem: str
) -> None:
    """One line that names what there is instead, and the exit status 2."""
    output = two_runs("trend", *args)

    assert (output.status, output.out) == (2, "")
    assert output.err.strip() == f"agenteval: {problem}"


def test_runs_in_which_no_agent_was_tried_are_no_trend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trials that were graded again, or a plan of which nothing ended: it says so, and names no models."""
    store(tmp_path, 1, trials(ALL_HALF), regraded=("another",))
    store(tmp_path, 2, [])

    assert main(["trend", "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"agenteval: no agent's trial has ended in the runs of {tmp_path} yet\n"


def test_a_terminal_that_knows_no_blocks_gets_digits(
    two_runs: Agenteval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoding of the standard output decides; nothing is written as an escape."""
    screen = io.BytesIO()
    terminal = io.TextIOWrapper(screen, "ascii", write_through=True)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        two_runs("trend", "greetings")

    printed = screen.getvalue().decode("ascii")
    assert ["all", "1.00", "|", "0.50"] in [line.split()[:4] for line in printed.splitlines()]
    assert "\\u" not in printed


def test_a_page_and_a_document_can_be_written_at_once(two_runs: Agenteval, tmp_path: Path) -> None:
    """The page's name is printed in the place of the table; its folder is made."""
    page, document = tmp_path / "new" / "trend.html", tmp_path / "trend.json"

    output = two_runs("trend", "-o", str(page), "--json", str(document))

    assert (output.status, output.out, output.err) == (0, f"{page}\n", "")
    assert "<h1>Trend of greetings</h1>" in page.read_text(encoding="utf-8")
    assert json.loads(document.read_text(encoding="utf-8"))["suites"]
    alone = two_runs("trend", "-o", str(page), "--json", "-")
    assert json.loads(alone.out)["suites"]
