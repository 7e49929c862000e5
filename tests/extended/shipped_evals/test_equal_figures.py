"""The shipped evals, offline: every report of their runs has the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extended.shipped_evals.offline_runs import offline_runs
from tests.reports.equal_figures import check_reports

TASKS = {"card": 25, "pkm": 41, "ko": 91}
"""Those of each suite that are not held out."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All suites with three models, the Korean one with its scorecard, and cards in odd ways."""
    return offline_runs(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("name", ["all", "korean", "cards", "merged", "regraded", "reused", "resumed"])
def test_all_reports_of_shipped_evals_have_equal_figures(
    runs: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """Also where shards were merged, and trials regraded, taken over or gone on with."""
    document = check_reports([runs[name]], tmp_path)
    tasks = {board["suite"]: board["rows"][0]["all"]["tasks"] for board in document["boards"]}
    assert tasks.items() <= TASKS.items()
    if "ko" in tasks:
        (korean,) = (board for board in document["boards"] if board["suite"] == "ko")
        assert set(korean["rows"][0]["levels"]) == {f"L{level}" for level in range(1, 8)}


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("korean", "all"), ()),
        (("korean", "regraded"), ()),
        (("cards", "merged", "reused", "resumed"), ()),
        (("all",), ("--models", "rules,nop")),
    ],
    ids=["some in common", "the same again", "four", "named models"],
)
def test_so_do_those_of_several_sides(
    runs: dict[str, Path], tmp_path: Path, names: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Runs that share a suite, models of one run, and the same trials graded again."""
    check_reports([runs[name] for name in names], tmp_path, *options)
