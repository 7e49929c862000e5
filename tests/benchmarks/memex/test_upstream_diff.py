"""Our comparison of two workspaces against Memex's, case by case (tests/oracle/memex_diff.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.evidence import diff
from pytest_agenteval.tasks.workspace import snapshot
from tests.yaml_files import read_yaml

ORACLE = read_yaml(Path(__file__).parents[2] / "oracle/memex_diff.yaml")


def _write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["id"])
def test_what_changed_is_what_memex_says_changed(case: Mapping[str, Any], tmp_path: Path) -> None:
    """Snapshots of two real trees, compared: every list is the original's, sorted as it sorts."""
    before = snapshot(_write_tree(tmp_path / "before", case["before"]))
    after = snapshot(_write_tree(tmp_path / "after", case["after"]), earlier=before)
    changes, expect = diff(before, after), case["expect"]

    assert case["grader"] == "derive.workspace_diff"
    assert list(changes.created) == expect["created"]
    assert list(changes.modified) == expect["modified"]
    assert list(changes.deleted) == expect["deleted"]
