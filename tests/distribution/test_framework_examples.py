"""Each example of docs/guides/frameworks.md is short, and `python -m tests.extended.frameworks` runs it."""

from __future__ import annotations

import ast
import re

import yaml

from tests.extended.frameworks.catalogue import BY_NAME
from tests.extended.frameworks.examples import MOST_LINES, read_examples, read_tool
from tests.extended.frameworks.table import PAGE, UNREAD_NOTE, lines_of_page


def test_every_example_is_of_a_framework_that_is_run() -> None:
    """A framework that is run may have no example."""
    assert set(read_examples()) <= set(BY_NAME)


def test_what_a_user_adds_is_five_lines_or_fewer() -> None:
    """Those of suite.yaml are among them; blank lines are none."""
    lines = {name: example.lines for name, example in read_examples().items()}

    assert all(2 <= count <= MOST_LINES for count in lines.values()), lines


def test_an_example_is_code_and_a_suite_s_lines() -> None:
    """So that a slip shows before an hour of installing."""
    ast.parse(read_tool())
    for name, example in read_examples().items():
        assert "agent" in yaml.safe_load(example.suite), name
        if not BY_NAME[name].node:
            ast.parse(example.module)


def test_every_way_of_every_framework_was_tested_in_both_ages_and_passed() -> None:
    """A way that was never run, or that failed, is not promised by docs/reference/frameworks.md."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    rows = {row[0]: row for row in cells if len(row) == 6 and row[0] not in ("framework", "---")}

    expected = list(lines_of_page())
    assert {name: (row[3], row[4]) for name, row in rows.items()} == {
        line.framework: (line.ways, UNREAD_NOTE if line.is_unread else "all") for line in expected
    }
    for line in expected:
        for age, cell in zip(line.ages, rows[line.framework][1:3], strict=True):
            lacks = f"not tested: {age.lacks}" if age.lacks else age.without
            assert cell.endswith(lacks), (line.framework, age.age)
            assert "never tested" not in cell
            assert age.lacks or re.match(r"([\w@/-]+ )?\d", cell), (line.framework, cell)
