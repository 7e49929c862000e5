"""Levels and composite as reports show them: after a run, side by side, and for machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    leaderboard_tables,
    leaderboards_json,
    leaderboards_of,
    scorecard_lines,
    scorecard_tables,
)
from pytest_agenteval.reports.tables import table_lines, table_markdown
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import cell_width
from tests.benchmarks.ko_agentbench.report.sample_runs import (
    SCORECARDS,
    errored_trial,
    every_level,
    grade,
    key,
    ko_run,
    ko_trial,
)
from tests.reports.runs import store_run, trial

LONG = RunModel("bedrock/global.anthropic.claude-haiku-4-5-20251001-v1:0", "x")


def board(*runs: Run) -> Leaderboard:
    """Give the only board of these runs."""
    (leaderboard,) = leaderboards_of(runs, SCORECARDS)
    return leaderboard


def text(leaderboard: Leaderboard, width: int = 120) -> list[str]:
    """Give a board as lines of a terminal."""
    return [line.text for table in leaderboard_tables(leaderboard) for line in table_lines(table, width)]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Give three runs: a middling one, a good one with gaps, and one that lacks a level."""
    good = [trial for trial in every_level(0.75, LONG.name) if trial.key.task != "L7-002"]
    good.append(errored_trial("L7-002", key=key("L7-002", LONG.name)))
    less = [trial for trial in every_level(1.0, "none") if trial.bucket != "L6"]
    return [
        ko_run(tmp_path, every_level(0.5)),
        ko_run(tmp_path, good, (LONG,), [(key("L1-003", LONG.name), "L1")]),
        ko_run(tmp_path, less, (RunModel("none", "none"),)),
    ]


def test_the_best_composite_comes_first_and_none_last(runs: list[Run]) -> None:
    """A composite that cannot be told is never worked out from what is there, however good that is."""
    leaderboard = board(*runs)

    assert [row.view.model for row in leaderboard.standings] == [LONG.name, "gpt", "none"]
    assert [row.value for row in leaderboard.standings] == [0.75, 0.5, None]
    assert "  none: no composite, no grade is decided in level L6" in text(leaderboard)


def test_errored_and_planned_trials_are_counted_beside_every_figure(runs: list[Run]) -> None:
    """A figure over 13 of 15 planned trials says so, and what became of the other two."""
    rows = text(board(*runs))

    assert any("0.75" in row and "13 of 15" in row for row in rows)
    assert any(row.endswith("1 errored, 1 not run of 15 planned, in no average") for row in rows)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_asked_for(runs: list[Run], width: int) -> None:
    """Groups of columns move below each other where they do not fit; a name stays whole, if need be above."""
    lines = text(board(*runs), width)

    assert max(map(cell_width, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert "…" not in "".join(lines)
    assert sum(LONG.name in line for line in lines) > 8  # in each table, and among the remarks


def test_runs_of_one_model_are_told_apart_at_40_columns(tmp_path: Path) -> None:
    """The run is in the name: a name that is cut would be the same twice."""
    runs = [ko_run(tmp_path, every_level(value)) for value in (0.25, 0.75)]

    lines = text(board(*runs), 40)

    assert max(map(cell_width, lines)) <= 40
    assert all(lines.count(f"  gpt {run.folder.name}") > 1 for run in runs)


def test_a_wide_terminal_has_one_table_and_a_narrow_one_keeps_groups_together(runs: list[Run]) -> None:
    """At 160 columns the levels stand beside the composite, at 80 in a table below it.

    A level is not called as its bucket is, whose score is made otherwise, and a line says so.
    """
    wide, narrow = text(board(*runs), 160), text(board(*runs), 80)

    levels = [f"level L{number}" for number in range(1, 8)]
    assert "  ".join(["composite  95 %    trials", *levels]) in wide[1]
    assert narrow[1].split() == ["model", "composite", "95", "%", "trials"]
    assert narrow[6].split("  ")[-7:] == levels
    assert "  level L1 comes from its metrics, bucket L1 from its trials' scores" in wide


def test_every_level_has_a_table_of_its_metrics(runs: list[Run]) -> None:
    """Its own ones, with value and number of tasks, and those of every level; nobody's level has none."""
    lines = text(board(*runs), 200)
    at = lines.index("level L3")

    assert lines[at + 1].split("  ")[1:2] == ["model"]
    for title in ("value", "tasks", "FSM", "PSM", "ΔSteps_norm", "ProvAcc", "SR", "EPR_CVR", "pass@k share"):
        assert title in lines[at + 1]


def test_the_same_model_in_two_runs_is_told_apart_by_run(tmp_path: Path) -> None:
    """Its name alone would not say which is which."""
    first = ko_run(tmp_path, every_level(0.5))
    second = ko_run(tmp_path, every_level(0.6))

    lines = text(board(first, second))

    assert [line.split("  ")[1] for line in lines[2:4]] == [
        "gpt 20261121-093015-gpt-2",
        "gpt 20261121-093015-gpt",
    ]


def test_different_rulers_are_never_compared_in_silence(tmp_path: Path) -> None:
    """A task that was graded by another version, judge or mode is counted below the table."""
    first = ko_run(tmp_path, every_level(0.5))
    other = ko_run(tmp_path, every_level(0.6, digests=Digests(ruler="another")))
    same = ko_run(tmp_path, every_level(0.6))

    assert any("14 tasks graded by different" in line for line in text(board(first, other)))
    assert not any("graded by different" in line for line in text(board(first, same)))


def test_a_single_model_has_its_levels_with_the_way_to_the_composite(tmp_path: Path) -> None:
    """Each metric, its interval and how many tasks decided it; then what the composite is made of."""
    trials = [*every_level(0.5), ko_trial("L3-003", {"FSM": 1.0, "PSM": None})]
    (standing,) = board(ko_run(tmp_path, trials)).standings
    assert standing.scorecard is not None
    tables = scorecard_tables(standing, standing.scorecard)
    lines = [line.text for table in tables for line in table_lines(table, 80)]

    assert any(line.split() == ["L3", "FSM", "0.67", "-", "3"] for line in lines)
    assert any(line.split()[:3] == ["L3", "PSM", "0.50"] and line.endswith("2") for line in lines)
    assert any("0.4 x basic 0.51 + 0.2 x robustness 0.50" in line for line in lines)
    assert any(line.split() == ["level", "SR", "EPR_CVR", "pass@k", "share", "RRR"] for line in lines)


def test_a_level_without_a_value_says_what_it_lacks(tmp_path: Path) -> None:
    """After a run its line names every level that the composite lacks; one never tried is just lacking."""
    unjudged = replace(grade("ContextRetention", None), undecided="no_judge")
    trials = [trial for trial in every_level(0.5) if trial.bucket not in ("L5", "L6", "L7")]
    trials += [ko_trial("L6-001", {"ReuseRate": None}), ko_trial("L7-001", {}, grades=(unjudged,))]

    lines = [line.text for line in scorecard_lines(ko_run(tmp_path, trials), SCORECARDS, 200, whole=False)]

    assert lines == ["ko composite -: lacks levels L5, L6 (undecided), L7 (needs --agent-judge)"]


def test_markdown_has_every_column_in_one_table(runs: list[Run]) -> None:
    """A page scrolls: nothing is cut, and no name can end a cell."""
    tricky = ko_run(Path(runs[0].folder).parent, every_level(0.1, "a|b"), (RunModel("a|b", "x"),))
    markdown = table_markdown(next(leaderboard_tables(board(*runs, tricky))))

    head, rule, *rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert head.count("|") == rule.count("|") == 12
    assert LONG.name in rows[0]
    assert any("a\\|b" in row for row in rows)


def test_machines_get_every_digit(runs: list[Run]) -> None:
    """The JSON says what the tables say, unrounded, and is JSON."""
    data = json.loads(json.dumps(leaderboards_json(leaderboards_of(runs, SCORECARDS))))
    first, _, last = data["boards"][0]["rows"]

    assert data["v"] == 1
    assert (first["all"]["averaged"], first["all"]["planned"]) == (13, 15)
    assert first["composite"]["value"] == 0.75
    assert first["levels"]["L6"]["metrics"]["EffScore"] == {
        **first["levels"]["L6"]["metrics"]["EffScore"],
        "value": 0.75,
        "tasks": 2,
    }
    assert last["composite"] == {**last["composite"], "value": None, "low": None, "missing": ["L6"]}


def first_level(task: str, *grades: Grade) -> Trial:
    """Give a trial of the Korean benchmark's first level."""
    return trial(task, 1, 1.0, "L1", grades=grades)


def test_a_metric_that_is_decided_only_where_no_judge_was_needed_is_marked(tmp_path: Path) -> None:
    """Its mean is over the trials that left nothing to judge: not what the metric says it is."""
    silent = first_level("a", Grade("ToolAcc", 0.0, ""), Grade("RespOK", 0.0, "nothing to judge"))
    unjudged = Grade("RespOK", None, "no judge", undecided="no_judge")
    run = store_run(tmp_path, [silent, first_level("b", Grade("ToolAcc", 1.0, ""), unjudged)])

    whole = [line.text for line in scorecard_lines(run, SCORECARDS, 120, whole=True)]
    assert "1 of 2 trials without a judge's grade (1 RespOK)" in whole[1]
    cells = {line.split()[1]: line.split()[2] for line in whole if line.startswith("  L1 ")}
    assert cells["RespOK"] == "0.00*"
    assert cells["ToolAcc"] == "0.50"

    board = leaderboards_of([run], SCORECARDS)[0]
    tables = [line.text for table in leaderboard_tables(board) for line in table_lines(table, 160)]
    assert any("0.25*" in line for line in tables)
    assert leaderboards_json([board])["boards"][0]["rows"][0]["all"]["without_judge"] == 1


def test_a_composite_that_rests_on_a_marked_level_is_marked_wherever_it_stands(tmp_path: Path) -> None:
    """In one line after a run, with its parts under -v, and on the board; a part without the level is not."""
    metrics = {"L1": "ToolAcc", "L2": "SelectAcc", "L3": "FSM", "L5": "FallbackSR", "L6": "ReuseRate"}
    unjudged = Grade("RefRecall", None, "no judge", undecided="no_judge")
    run = store_run(
        tmp_path,
        [
            *(trial(name, 1, 0.5, name, grades=(Grade(own, 0.5, ""),)) for name, own in metrics.items()),
            trial("a", 1, 0.5, "L7", grades=(Grade("ContextRetention", 0.5, ""), unjudged)),
        ],
    )

    brief = " ".join(line.text for line in scorecard_lines(run, SCORECARDS, 200, whole=False))
    assert brief == "s composite 0.50*"
    whole = " ".join(line.text.strip() for line in scorecard_lines(run, SCORECARDS, 200, whole=True))
    assert "composite 0.50* = 0.4 x basic 0.50 + " in whole
    assert "0.15 x context 0.50*; L4 stands beside it with -" in whole
    tables = [
        line.text
        for table in leaderboard_tables(leaderboards_of([run], SCORECARDS)[0])
        for line in table_lines(table, 200)
    ]
    assert any(line.split()[:2] == ["rules", "0.50*"] for line in tables)
