"""``agenteval calibrate``: pytest is started on labels, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from tests.calibration.judges import FILE, figures, found_in, project, rows
from tests.cli.conftest import Agenteval, Said
from tests.cli.documents import valid_document
from tests.forked_workers import fork_workers, run_python
from tests.suites import write

LABELS = "evals/calibration/tidy.jsonl"
RUBRIC = ("--rubric", "evals/calibration/tidy.jinja")
FEW_DRAWS = """
from functools import partial
from pytest_agenteval.calibration import analysis

analysis.BootstrapSettings = partial(analysis.BootstrapSettings, draws=40)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project, in which the command is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    fork_workers(monkeypatch)
    project(tmp_path)
    write(tmp_path, {"evals/conftest.py": FEW_DRAWS})  # intervals are nine tenths of what a calibration costs
    return tmp_path


@pytest.fixture
def command(here: Path, capfd: pytest.CaptureFixture[str]) -> Agenteval:
    """Give the command as a person does, in this process; the pytest that it starts has one of its own."""

    def given(*arguments: str) -> Said:
        capfd.readouterr()
        status = main(["calibrate", *arguments])
        return Said(status, *capfd.readouterr())

    return given


def test_labels_are_enough(here: Path) -> None:
    """Figures are printed with the page's place, and no file is left beside the labels."""
    before = sorted(path.name for path in (here / "evals/calibration").iterdir())
    code = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
    options = ("--judge", "perfect", "--threshold", "spearman=0.9", "--repeats", "2")

    done = run_python("-c", code, "calibrate", LABELS, *RUBRIC, *options)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "calibration tidy (rubric tidy 3)" in done.stdout
    assert "2 thresholds reached" in done.stdout
    assert figures(found_in(here), "perfect", "order")["spearman"]["value"] == pytest.approx(1)
    (page,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("  page: "))
    assert (here / page).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in (here / "evals/calibration").iterdir()) == before


def test_below_a_threshold_the_status_is_1(here: Path, command: Agenteval) -> None:
    """A threshold may be for one dimension; judges of one comma list or several options are an ensemble."""
    done = command(LABELS, *RUBRIC, "--judge=inverted", "--threshold=mae.order=0.1", "--tolerance=0.3")

    assert done.status == 1
    assert "mae of order 0.1 or less (found 0.60" in done.out
    assert found_in(here)["tolerance"] == 0.3


def test_all_figures_are_in_the_document(here: Path, command: Agenteval) -> None:
    """Those that the run keeps, and nothing else on standard output; pytest's words go to the other."""
    done = command(FILE, "--judge=perfect,hoarse", "--json", "-")

    document = valid_document("calibrate", done.out)
    assert (done.status, document["exit_status"]) == (0, 0)
    (calibration,) = document["calibrations"]
    assert is_part(found_in(here), {**calibration, "v": 1})
    assert (here / document["run"] / "run.json").is_file()
    assert (here / calibration["page"]).is_file()
    assert "calibration tidy" in done.err


def is_part(part: Any, whole: Any) -> bool:
    """Whether all that a JSON value says another says too, which may say more."""
    if isinstance(part, dict):
        return part.keys() <= whole.keys() and all(is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_part, part, whole))
    return bool(part == whole)


def test_a_calibration_file_says_everything_itself(
    here: Path, command: Agenteval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given in the place of labels it is run as it is; what it says cannot be said again.

    Nor is it changed by what somebody set for the project's other tests, say -x or workers.
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", "--nonsense")
    write(here, {"pytest.ini": "[pytest]\naddopts = --more-nonsense\n"})

    done = command(FILE, "--judge", "perfect")
    assert done.status == 0, done.out + done.err
    assert found_in(here)["file"] == FILE

    refused = command(FILE, "--judge", "perfect", "--repeats", "3")
    assert refused.status == 2
    assert refused.err == f"agenteval: {FILE} is a calibration file: repeats are set in that file\n"


def test_without_a_judge_it_says_what_is_missing(here: Path, command: Agenteval) -> None:
    """Nothing is asked and nothing is claimed: the reason names the flag."""
    done = command(FILE)
    assert "no judge: add --agent-judge=MODEL" in done.out
    assert not list(here.glob(".agenteval/runs/*/calibration-*"))


def test_a_packaged_rubric_is_found_by_the_name_of_the_labels(here: Path, command: Agenteval) -> None:
    """``task_fulfilment.csv`` needs no --rubric; another scale of labels may be said."""
    head = "input.task,input.calls,output,completeness\n"
    write(here, {"task_fulfilment.csv": head + "t,c,order 1 tone 1,10\nt,c,order 0 tone 0,1\n"})
    done = command("task_fulfilment.csv", "--scale", "1", "10")
    assert "1 skipped" in done.out, done.out + done.err


def test_problems_of_labels_are_told(here: Path, command: Agenteval) -> None:
    """Broken labels are pytest's collection error, with every problem and no traceback."""
    project(here, "", [*rows(1), {"output": "x"}])
    done = command(LABELS, *RUBRIC, "--judge", "perfect")
    assert done.status == 2
    assert f"{LABELS}:2: scores" in done.out
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jsonl",), "none.jsonl: expected a file of labels or a calibration; there is none"),
        ((LABELS,), "which rubric? add --rubric=R: a question, a .jinja file, or one of "),
        ((LABELS, *RUBRIC, "--threshold", "spearman"), "expected figure=number, as in spearman=0.7"),
        (
            (LABELS, *RUBRIC, "--threshold", "mae=1", "--threshold", "mae.order=1"),
            "mae is set for all dimensions already",
        ),
    ],
)
def test_a_mistake_in_use_starts_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """Status 2 and one line that says what was expected."""
    assert main(["calibrate", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (here / ".agenteval").exists()
