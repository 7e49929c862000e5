"""docs/reference/data.md lists every column there is, and its examples run as they are typed.

``python -m tests.distribution.test_data_page`` writes the tables of columns from the code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.exports.row_files import TASK_COLUMNS
from pytest_agenteval.store.rows import ROW_KINDS, TRIAL_KEY, RowKind
from tests.reports.runs import MIXED, PLANNED, store_run

FILE = Path(__file__).parents[2] / "docs" / "reference" / "data.md"
PAGE = FILE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    agenteval (sql .*)$", PAGE, re.MULTILINE)
TYPES = {"json": "JSON"}


TASKS = "tasks: one row for each task of a run with one model and variant"


def _rows_below(heading: str) -> list[str]:
    section = PAGE.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\|`.*\|$", section, re.MULTILINE)


def _table(columns: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the rows of a table; neighbours of equal meaning share a row."""
    for meaning, row in groupby(columns, itemgetter(2)):
        names = [
            ", ".join(f"`{name}`" for name, _, _ in group) + (type and f" {type}")
            for type, group in groupby(row, itemgetter(1))
        ]
        yield f"|{', '.join(names)}|{meaning}|"


def _columns(kind: RowKind) -> list[str]:
    """Give the rows of the page for a kind; those that trials share stand at trials."""
    return list(
        _table(
            (column.name, TYPES.get(column.type, column.type) + "?" * column.optional, column.meaning)
            for column in kind.columns
            if kind.name == "trials" or column not in TRIAL_KEY
        )
    )


def _task_columns() -> list[str]:
    return list(_table((name, "", meaning) for name, (_, meaning) in TASK_COLUMNS.items()))


@pytest.mark.parametrize("kind", ROW_KINDS.values(), ids=list(ROW_KINDS))
def test_each_column_is_listed_with_type_and_meaning(kind: RowKind) -> None:
    """In the order in which they stand in the rows."""
    assert _rows_below(f"{kind.name}: {kind.meaning}") == _columns(kind)


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
    """In the order of the view."""
    assert _rows_below(TASKS) == _task_columns()


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


def written() -> str:
    """Give the page with the tables of columns as the code has them."""
    text = PAGE
    tables = {f"{kind.name}: {kind.meaning}": _columns(kind) for kind in ROW_KINDS.values()}
    for heading, rows in {**tables, TASKS: _task_columns()}.items():
        head, found, rest = text.partition(f"\n### {heading}\n")
        assert found, f"the page has no heading {heading!r}"
        after = rest[end.start() :] if (end := re.search(r"^#", rest, re.MULTILINE)) else ""
        text = (
            f"{head}{found}\n"
            + "\n".join(["|column|what it is|", "|---|---|", *rows])
            + "\n"
            + f"\n{after}" * bool(after)
        )
    return text


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
