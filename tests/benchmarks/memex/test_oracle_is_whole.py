"""Every case that was derived from Memex is in the project, once and unchanged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[3]
SOURCE = ROOT.parent / "shared" / "oracle" / "memex-grader-cases.yaml"


def _cases(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(path)["cases"]
    return found


def test_every_case_is_here_once_and_unchanged() -> None:
    """Graders, derivations, aggregates: each case of the source is in one file of tests/oracle, equal."""
    if not SOURCE.exists():
        pytest.skip("the cases' source, ../shared/oracle, does not stand beside this checkout")
    ours = [case for path in sorted((ROOT / "tests/oracle").glob("memex_*.yaml")) for case in _cases(path)]
    theirs = _cases(SOURCE)

    assert len(theirs) > 100
    assert Counter(case["id"] for case in ours) == Counter(case["id"] for case in theirs)
    assert {case["id"]: case for case in ours} == {case["id"]: case for case in theirs}
