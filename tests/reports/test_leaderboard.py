"""Runs side by side, and the scorecard that a benchmark makes of them: drawn by what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    leaderboard_tables,
    leaderboards_json,
    leaderboards_of,
    scorecard_lines,
)
from pytest_agenteval.reports.scorecard import (
    Metric,
    MetricGroup,
    RegisteredScorecard,
    Scorecard,
    scorecard_of,
)
from pytest_agenteval.reports.tables import ReportTable, TableColumn, table_lines
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import cell_width
from tests.reports.runs import MIXED, PLANNED, key, store_run, trial
from tests.reports.sample_scorecards import SAMPLE, scorecard


def board(*runs: Run, scorecards: Sequence[RegisteredScorecard] = (SAMPLE,)) -> Leaderboard:
    """Give the only board of these runs."""
    (found,) = leaderboards_of(runs, scorecards)
    return found


def text(found: Leaderboard, width: int = 120) -> list[str]:
    """Give a board as lines of a terminal."""
    return [line.text for table in leaderboard_tables(found) for line in table_lines(table, width)]


def graded_trial(task: str, model: str = "rules", **scores: float | None) -> Trial:
    """Give a trial with a grade for each of these labels."""
    grades = tuple(Grade(label, score, "why") for label, score in scores.items())
    return trial(task, 1, 0.5, key=key(task, model=model), grades=grades)


def two_runs(root: Path) -> list[Run]:
    """Give a run with everything decided, and one that lacks a group."""
    whole = [
        graded_trial("a", fast=1.0, tidy=0.5, kind=None),
        graded_trial("b", fast=0.5, tidy=1.0, kind=0.0),
    ]
    return [
        store_run(root, whole),
        store_run(root, [graded_trial("a", "other", fast=1.0)], models=(RunModel("other", "other"),)),
    ]


def test_a_figure_may_be_a_number_of_numpys(tmp_path: Path) -> None:
    """Benchmarks work out means with numpy: its float64 and its float32 are figures as a plain float is."""
    figures: list[Any] = [np.float64(0.5), np.float32(0.5)]
    groups = tuple(MetricGroup(Metric(type(figure).__name__, figure), ()) for figure in figures)
    own = RegisteredScorecard("own", frozenset({"fast"}), lambda: lambda entries: Scorecard(groups), tuple)

    card = scorecard_of(store_run(tmp_path, [graded_trial("a", fast=1.0)]).entries, [own])

    assert card is not None
    assert [group.value for group in card.groups] == [0.5, 0.5]


def test_hangul_counts_double() -> None:
    """A column of Korean names stays a column."""
    table = ReportTable("표", "모델", ("가나다", "abc"), ((TableColumn("점수", ("0.50", "1.00")),),))

    lines = [line.text for line in table_lines(table, 60)]

    assert [cell_width(line) for line in lines[1:]] == [14, 14, 14]
    assert lines[3] == "  abc     1.00"


def test_other_suites_stand_side_by_side_by_bucket(tmp_path: Path) -> None:
    """A row for each bucket, a column for each run, best first; an interval where there are five tasks."""
    passed = [trial(f"e{task}", 1, 1.0, "y") for task in range(5)]
    found = board(store_run(tmp_path, MIXED, PLANNED), store_run(tmp_path, MIXED[:3] + passed, PLANNED))
    lines = text(found)

    assert not found.has_scorecard
    assert [line.split() for line in lines[1:7]] == [
        ["bucket", "1", "2"],
        ["score", "0.96", "0.58"],
        ["95", "%", "0.69-1.00", "-"],
        ["trials", "8", "of", "8", "5", "of", "8"],
        ["x", "0.88", "0.88"],
        ["y", "1.00", "0.62-1.00", "0.00"],
    ]
    assert lines[7] == f"  1: rules {found.standings[0].run}"


def test_groups_and_total_are_drawn_under_the_names_that_the_benchmark_gives_them(tmp_path: Path) -> None:
    """The total orders the rows; what is undecided is a dash; formula and notes stand below."""
    lines = text(board(*two_runs(tmp_path)))

    assert lines[1].split() == ["model", "index", "95", "%", "trials", "pace", "care"]
    assert lines[2].split() == ["rules", "0.56*", "-", "2", "of", "2", "0.75", "0.38*"]
    assert lines[3].split() == ["other", "-", "-", "1", "of", "1", "1.00", "-"]
    assert "  index = 0.5 x pace + 0.5 x care" in lines
    assert "  other: no index, no grade is decided in category care" in lines
    assert "  rules: a made-up benchmark" in lines
    care = lines.index("care")
    assert lines[care + 1].split() == ["model", "value", "95", "%", "tasks", "tidy", "kind", "sure"]
    assert lines[care + 2].split() == ["rules", "0.38*", "-", "2", "0.75", "0.00*", "0.25"]


def test_one_model_has_one_line_or_the_whole_scorecard(tmp_path: Path) -> None:
    """In brief: the total, or which groups it lacks and why these have no value; else every metric."""
    run = two_runs(tmp_path)[1]

    (brief,) = (line.text for line in scorecard_lines(run, [SAMPLE], 120, whole=False))
    assert brief == "s index -: lacks category care (nobody looked)"
    whole = [line.text for line in scorecard_lines(run, [SAMPLE], 120, whole=True)]
    assert whole[0] == "categories of s with other"
    assert whole[1].split() == ["category", "value", "95", "%", "tasks"]
    assert "  no index: no grade is decided in category care" in whole
    assert "metrics of every category, not part of a category's value" in whole


def test_a_benchmark_without_a_total_is_ordered_by_the_mean_score(tmp_path: Path) -> None:
    """Its groups stand beside the score, as buckets do, and in the one line after a run."""

    def groups_only(entries: Sequence[JournalEntry]) -> Scorecard | None:
        made = scorecard(entries)
        return replace(made, total=None, notes=()) if made else None

    without_total = replace(SAMPLE, load=lambda: groups_only)
    runs = two_runs(tmp_path)
    lines = text(board(*runs, scorecards=[without_total]))
    (brief,) = (line.text for line in scorecard_lines(runs[1], [without_total], 120, whole=False))

    assert brief == "categories of s with other: pace 1.00, care - (nobody looked)"
    assert lines[1].split() == ["model", "score", "95", "%", "trials", "pace", "care"]
    assert not any("index" in line for line in lines)


def test_rows_with_other_groups_stand_on_one_board(tmp_path: Path) -> None:
    """A benchmark's newer version may have a group that an older run lacks: it has a dash there."""

    def fewer(entries: Sequence[JournalEntry]) -> Scorecard | None:
        made = scorecard(entries)
        known = entries[0].key.model == "rules"
        return replace(made, groups=made.groups[: 2 if known else 1]) if made else None

    lines = text(board(*two_runs(tmp_path), scorecards=[replace(SAMPLE, load=lambda: fewer)]))

    assert lines[3].split()[-2:] == ["1.00", "-"]


def test_a_benchmark_is_loaded_only_for_grades_of_its_own(tmp_path: Path) -> None:
    """A run of somebody's own suite pays for no benchmark, and is not asked about by one."""

    def load() -> object:
        raise AssertionError("nobody has a use for it")

    unused = replace(SAMPLE, load=load)  # type: ignore[arg-type]

    assert not board(store_run(tmp_path, MIXED, PLANNED), scorecards=[unused]).has_scorecard
    assert (
        list(scorecard_lines(two_runs(tmp_path)[0], [replace(unused, graders=frozenset())], 80, whole=True))
        == []
    )


def test_machines_get_the_same_keys_whatever_a_benchmark_calls_its_groups(tmp_path: Path) -> None:
    """Groups are ``levels`` and the total is ``composite``, each total with the weights it was made with."""
    scorecards = [replace(SAMPLE, settings={"half": 0.25})]
    data = leaderboards_json(leaderboards_of(two_runs(tmp_path), scorecards))

    assert data["weights"] == {"speed": 0.25, "quality": 0.75}
    first, last = data["boards"][0]["rows"]
    assert first["composite"]["weights"] == data["weights"]
    assert first["composite"]["parts"] == {"speed": 0.75, "quality": 0.375}
    assert (last["composite"]["value"], last["composite"]["missing"]) == (None, ["care"])
    assert first["levels"]["pace"]["metrics"]["fast"] == {
        "value": 0.75,
        "low": None,
        "high": None,
        "tasks": 2,
    }
    assert first["levels"]["pace"]["common"]["sure"]["high"] == 0.5
    assert first["notes"] == ["a made-up benchmark"]
    plain = leaderboards_json(leaderboards_of([store_run(tmp_path, MIXED, PLANNED)], scorecards))
    assert (plain["weights"], "composite" in plain["boards"][0]["rows"][0]) == ({}, False)


def test_tasks_that_other_graders_graded_are_counted_over_and_within_runs(tmp_path: Path) -> None:
    """Their scores do not compare, be it between rows or between repetitions of one."""

    def graded_by(*rulers: str) -> Run:
        return store_run(
            tmp_path, [trial("a", at, 1.0, digests=Digests(ruler=each)) for at, each in enumerate(rulers)]
        )

    counts = [
        leaderboards_json(leaderboards_of(runs))["boards"][0]["graded_differently"]
        for runs in (
            [graded_by("1", "1")],
            [graded_by("1", "2")],
            [graded_by("1"), graded_by("2")],
            [graded_by("")],
        )
    ]
    assert counts == [0, 1, 1, 0]
