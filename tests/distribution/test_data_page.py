"""docs/reference/data.md lists every column there is, and its examples run as they are typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.exports.row_files import TASK_COLUMNS
from pytest_agenteval.store.rows import ROW_KINDS, TRIAL_KEY, RowKind
from tests.reports.runs import MIXED, PLANNED, store_run

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    agenteval (sql .*)$", PAGE, re.MULTILINE)
TYPES = {"json": "JSON"}


def _rows_below(heading: str) -> list[str]:
    section = PAGE.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\| `.*\|$", section, re.MULTILINE)


@pytest.mark.parametrize("kind", ROW_KINDS.values(), ids=list(ROW_KINDS))
def test_each_column_is_listed_with_type_and_meaning(kind: RowKind) -> None:
    """In the order in which they stand in the rows; those that trials share stand at trials."""
    columns = [column for column in kind.columns if kind.name == "trials" or column not in TRIAL_KEY]

    assert _rows_below(f"{kind.name}: {kind.meaning}") == [
        f"| `{column.name}` | {TYPES.get(column.type, column.type)}"
        f"{', may be missing' if column.optional else ''} | {column.meaning} |"
        for column in columns
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=["pandas"])
def test_an_example_runs_as_it_is_typed(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the latest run of the folder that one stands in; it prints what it promises."""
    store_run(tmp_path / ".agenteval" / "runs", MIXED, PLANNED)
    monkeypatch.chdir(tmp_path)

    exec(compile(example, "docs/reference/data.md", "exec"), {})

    printed = capsys.readouterr().out
    assert "score" in printed


def test_each_column_of_tasks_is_listed() -> None:
    """As the view reckons them, in its order."""
    assert _rows_below("tasks: one row for each task of a run with one model and variant") == [
        f"| `{name}` | {meaning} |" for name, (_, meaning) in TASK_COLUMNS.items()
    ]


def test_the_queries_that_are_shown_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they are typed, on the runs that are there."""
    store_run(tmp_path / ".agenteval" / "runs", MIXED, PLANNED)
    monkeypatch.chdir(tmp_path)

    assert len(COMMANDS) > 5
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0, command
    assert capsys.readouterr().out.startswith("bucket  avg(score)\ny           0.0000\nx           0.8750\n")
