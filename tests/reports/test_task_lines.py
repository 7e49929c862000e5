"""Lines of task files: the grader that was missed most, else the task, else nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.reports.junit_properties import stack_line
from pytest_agenteval.reports.task_lines import TaskFileLines

from .runs import trial

FILE = """\
- id: other
  graders: [{name: a}, {name: b}]
- description: two of one name, and a group
  id: a
  graders:
    - {name: contains, label: first}
    - name: contains
      label: second
    - name: group
    - {name: contains, label: "second: part"}
"""
HALF, NONE = Grade("first", 0.5, ""), Grade("second", 0.0, "")
PART = Grade("second: part", 1.0, "")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"grades": (HALF, NONE)}, 7),
        ({"grades": (HALF,)}, 6),
        ({"grades": (Grade("first", 1.0, ""),)}, 4),
        ({"grades": (Grade("group: member", 0.0, ""),)}, 9),
        ({"grades": (Grade("was renamed", 0.0, ""),)}, 4),
        ({"grades": (HALF, Grade("group", None, "raised", undecided="grader_crash"))}, 9),
        ({"grades": (HALF, NONE, PART, Grade("a member's own name", 0.0, "", weight=2))}, 9),
        ({"grades": (Grade("second: part", 0.0, ""),)}, 10),
        ({"grades": ()}, 4),
        ({"grades": (HALF,), "file": "evals/gone.yaml"}, None),
        ({"grades": (HALF,), "file": "evals/broken.json"}, None),
        ({"grades": (HALF,), "file": "evals/without.json"}, None),
        ({"grades": (HALF,), "file": ""}, None),
    ],
)
def test_a_trial_points_at_what_it_missed_most(
    tmp_path: Path, fields: dict[str, Any], line: int | None
) -> None:
    """By the grader's label in the task of that id; a file that has changed since points nowhere."""
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/tasks.yaml").write_text(FILE, encoding="utf-8")
    (tmp_path / "evals/broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "evals/without.json").write_text('[{"id": "b"}, 7]', encoding="utf-8")

    assert (
        TaskFileLines(tmp_path).line_of(trial("a", 1, 0.5, **{"file": "evals/tasks.yaml", **fields})) == line
    )


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("evals/travel/flights.yaml", "at evals.travel(flights.yaml:7)"),
        ("evals/L3/deep/task.json", "at deep(task.json:7)"),
        ("evals/v1.2/task.json", ""),
        ("evals/L3/task.json", ""),
        ("task.json", ""),
    ],
)
def test_a_folder_that_reads_as_a_class_is_left_out_of_a_stack_trace(file: str, line: str) -> None:
    """Readers of stack traces take what begins with a capital for a class: nothing wrong is claimed."""
    assert stack_line(file, 7) == line
