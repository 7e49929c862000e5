"""Calibration files: read strictly, together with the rubric and the labels that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.calibration.calibration_file import CalibrationPlan, MetricThreshold, read_calibration
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.tasks.documents import holds_calibration
from pytest_agenteval.text.errors import ProblemsFound
from tests.calibration.judges import FILE, project, rows
from tests.suites import write


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the project lies."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(root: Path, more: str = "") -> CalibrationPlan:
    """Read the calibration of a project."""
    project(root, more)
    return read_calibration(root / FILE, root, installed_registry())


def problems_text(root: Path) -> str:
    """Give everything that is wrong with the calibration of a project."""
    with pytest.raises(ProblemsFound) as found:
        read_calibration(root / FILE, root, installed_registry())
    return str(found.value)


def test_a_calibration_is_read_with_rubric_and_labels(here: Path) -> None:
    """Paths start from the file's folder; what is not said has its default; recordings mirror the path."""
    plan = plan_of(here)

    assert (plan.id, plan.rubric.name, len(plan.examples)) == ("tidy", "tidy", 15)
    assert (plan.repeats, plan.tolerance, plan.pass_threshold, plan.thresholds) == (1, 0.15, 0.6, ())
    assert (plan.file, plan.line, plan.labels) == (FILE, 2, "evals/calibration/tidy.jsonl")
    assert plan.cassette == str(here / "cassettes/calibration/tidy")
    assert plan.dimensions == ("order", "tone")


def test_a_packaged_rubric_goes_by_its_name(here: Path) -> None:
    """A rubric of this package needs no file; its dimensions without a label are not compared."""
    example = {"input": {"task": "t", "calls": "c"}, "output": "d", "scores": {"completeness": 1}}
    project(here, examples=[example])
    text = (here / FILE).read_text().replace("tidy.jinja", "task_fulfilment")
    (here / FILE).write_text(text)

    plan = read_calibration(here / FILE, here, installed_registry())

    assert plan.rubric.name == "task_fulfilment"
    assert plan.dimensions == ("completeness",)


def test_a_threshold_is_for_all_dimensions_or_for_each(here: Path) -> None:
    """A number is wanted of every dimension, a map says of which."""
    plan = plan_of(here, "thresholds: {spearman: 0.7, mae: {tone: 0.2}}\n")
    assert plan.thresholds == (
        MetricThreshold("spearman", "order", 0.7),
        MetricThreshold("spearman", "tone", 0.7),
        MetricThreshold("mae", "tone", 0.2),
    )


def test_every_problem_is_told_with_its_line(here: Path) -> None:
    """Unknown figures and dimensions are told together with what is wrong with the labels."""
    project(here, "thresholds: {spearmen: 0.7, mae: {tune: 0.2}}\n", [*rows(2), {"output": 1}])
    output = problems_text(here)
    assert f"{FILE}:6: thresholds.spearmen" in output
    assert "did you mean 'spearman'?" in output
    assert f"{FILE}:6: thresholds.mae.tune" in output
    assert "did you mean 'tone'?" in output
    assert "evals/calibration/tidy.jsonl:3: output" in output


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("repeats: 0\n", "6: repeats\n  expected: a whole number, 1 or more"),
        ("repeat: 2\n", "6: repeat\n  expected: one of"),
        ("scale: [5, 1]\n", "6: scale\n  expected: a list of two numbers: the lowest"),
        ("scale: [1]\n", "6: scale"),
        ("tolerance: much\n", "6: tolerance\n  expected: a number above 0"),
        ("thresholds: {spearman: high}\n", "6: thresholds.spearman\n  expected: a number, or a map"),
        ("seed: -1\n", "6: seed"),
    ],
)
def test_a_value_that_cannot_be_obeyed(here: Path, more: str, place: str) -> None:
    """Each key says what it wants, at its own line."""
    project(here, more)
    assert f"{FILE}:{place}" in problems_text(here)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("tidy.jinja", "tydy.jinja", f"{FILE}:4: rubric\n  expected: a file: evals/calibration/tydy.jinja"),
        ("rubric: tidy.jinja", "rubric: task_fulfil", "did you mean 'task_fulfilment'?"),
        ("tidy.jsonl", "tydy.jsonl", "did you mean 'tidy.jsonl'?"),
    ],
)
def test_a_file_that_is_not_there(here: Path, old: str, new: str, expected: str) -> None:
    """A misspelled rubric or file is told with the nearest that there is."""
    project(here)
    path = here / FILE
    path.write_text(path.read_text().replace(old, new))
    assert expected in problems_text(here)


def test_a_rubric_that_compares_candidates_has_no_labels(here: Path) -> None:
    """Labels score one output by itself: a rubric for several side by side is refused."""
    project(here)
    rubric = here / "evals/calibration/tidy.jinja"
    rubric.write_text(rubric.read_text().replace("output: reply", "output: reply\ncandidates: true"))
    output = problems_text(here)
    assert output.startswith(f"{FILE}:4: rubric")
    assert "tidy, which compares candidates" in output


def test_a_broken_rubric_is_told_at_its_own_line(here: Path) -> None:
    """What is wrong with the rubric is its file's problem, not the calibration's."""
    project(here)
    rubric = here / "evals/calibration/tidy.jinja"
    rubric.write_text(rubric.read_text().replace("combine: mean", "combine: meen"))
    assert problems_text(here).startswith("evals/calibration/tidy.jinja:8: combine")


@pytest.mark.parametrize(
    ("name", "content", "holds"),
    [
        ("a.yaml", "kind: calibration\n", True),
        ("a.yaml", "id: x\n'kind': 'calibration'  # ours\n", True),
        ("a.yaml", "kind: capability\n", False),
        ("a.yaml", "text: |\n  kind: calibration\n", False),
        ("a.calibration.yaml", "labels: a\nrubric: b\nkind: calibraton\n", True),
        ("camera.calibration.yaml", "matrix: [1, 2]\n", False),
        ("calibration.yml", "rubric: b\nlabels: c\n", True),
        ("a.json", '{"kind": "calibration"}', False),
    ],
)
def test_a_file_says_that_it_is_a_calibration(tmp_path: Path, name: str, content: str, holds: bool) -> None:
    """By its kind, or by name and keys, so that a misspelled kind is told; others' files are not ours."""
    write(tmp_path, {name: content})
    assert holds_calibration(tmp_path / name) is holds
