"""Each example of docs/guides/frameworks.md is short, and `python -m tests.extended.frameworks` runs it."""

from __future__ import annotations

import ast

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


def test_every_way_of_every_framework_was_tried_in_both_ages_and_holds() -> None:
    """A way that was never run, or that failed, is not promised by docs/reference/frameworks.md."""
    table = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:]] for line in table if ", " in line.split("|")[1]]
    tried = {row[0]: (row[2], row[3]) for row in rows}

    assert tried == {
        line.title: (f"not tested: {line.lacks}", "")
        if line.lacks
        else (", ".join(line.ways) + line.without, UNREAD_NOTE if line.is_unread else "all")
        for line in lines_of_page()
    }
