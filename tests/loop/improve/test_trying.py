"""What is to be tried: the focus that nobody chose, room for trials, and looks at held-out tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.loop.improve.paired_runs import variant_of
from pytest_agenteval.loop.improve.trying import looks_so_far, worst_bucket
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_metadata import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.runs import open_run
from tests.compare.samples import entry


def run(*entries: JournalEntry) -> Run:
    """A run of these trials."""
    return Run(Path("run"), RunHeader("2026-01-01T00:00:00", variants=("", "new")), (), entries)


def test_the_focus_is_the_worst_bucket_of_dev_that_has_a_miss() -> None:
    """Errored trials say nothing, held-out ones neither, and a low score that passed is no miss."""
    trials = (
        entry("x/a", 1, 0.5),
        entry("x/b", 1, 1.0),
        entry("y/c", 1, 0.7),
        entry("errored/d", 1, None),
        entry("held/e", 1, 0.0, split="held_out"),
        entry("elsewhere/f", 1, 0.0, suite="t"),
    )
    buckets = ("x", "y", "errored", "held", "elsewhere")
    assert worst_bucket(run(*trials), "s", buckets) == "y"
    assert worst_bucket(run(*trials), "s", ("x",)) == "x"
    assert worst_bucket(run(*trials), "s", ("errored", "held")) is None


def test_one_side_of_a_run_has_its_own_trials_only() -> None:
    """Feedback on what was kept must not show what was before."""
    both = run(entry("x/a", 1, 0.5), entry("x/a", 1, 1.0, variant="new"))
    assert [each.score for each in variant_of(both, "new").entries] == [1.0]
    assert [each.score for each in variant_of(both, "").entries] == [0.5]


@pytest.mark.parametrize(
    ("counts", "looks"),
    [
        ({}, 0),
        ({"a-held-out": 1}, 1),
        ({"a-held-out-old": 1, "a-held-out-new": 2}, 1),
        ({"a-held-out-old": 1, "a-held-out-new": 2, "b-held-out-old": 3, "b-held-out-new": 4}, 2),
        ({"mine": 1, "b-held-out-old": 2, "b-held-out-new": 3}, 2),
    ],
)
def test_two_runs_at_the_same_time_are_one_look(counts: dict[str, int], looks: int, tmp_path: Path) -> None:
    """Each run counts itself, for nobody told it that it has a counterpart."""
    for name, count in counts.items():
        open_run(tmp_path / name, RunHeader("2026-01-01T00:00:00", held_out_looks={"s": count}))
    assert looks_so_far(tmp_path, "s") == looks
