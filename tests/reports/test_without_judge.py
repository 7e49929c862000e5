"""Figures over trials that lack what only a judge decides: marked, and said before the first number."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.github import summary_markdown
from pytest_agenteval.reports.junit import suite_properties
from pytest_agenteval.reports.leaderboard.board_json import boards_json
from pytest_agenteval.reports.leaderboard.board_tables import board_tables
from pytest_agenteval.reports.leaderboard.level_summary import level_lines
from pytest_agenteval.reports.leaderboard.standings import boards_of
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.terminal import summary_lines
from pytest_agenteval.reports.view import view_of

from .runs import stored, trial

FINE = Grade("words", 1.0, "")
UNJUDGED = Grade("main", None, "no judge", details={"undecided": "no_judge"}, threshold=0.5)
NOT_ASKED_OF = Grade("main", None, "nothing to say", details={"undecided": "not_applicable"}, threshold=0.5)


def judged(score: float) -> Grade:
    """Give the main grade as a judge decided it."""
    return Grade("main", score, "", threshold=0.5)


def test_a_pass_that_a_judge_could_undo_is_marked_before_it_is_counted(tmp_path: Path) -> None:
    """The bucket with such trials is marked and the total; the bucket without is not."""
    run = stored(
        tmp_path,
        [
            trial("a", 1, 1.0, grades=(FINE, UNJUDGED)),
            trial("b", 1, 1.0, "y", grades=(FINE, judged(1.0))),
            trial("c", 1, 0.0, "y", grades=(Grade("words", 0.0, ""), judged(0.0))),
        ],
    )
    lines = [line.text for line in summary_lines(view_of(run), 120)]
    said = next(n for n, line in enumerate(lines) if "without what only a judge decides (1 main)" in line)
    assert lines[said].startswith("  * 1 of 3 trials")
    at = next(n for n, line in enumerate(lines) if "score" in line and "bucket" in line)
    assert said < at
    head, x, y, total = lines[at : at + 4]
    assert "score" in head
    assert (x.count("*"), y.count("*"), total.count("*")) == (4, 0, 4)
    assert "1.00*" in x
    assert "2* of 3 tasks passed" in lines[at + 4]

    written = summary_markdown(view_of(run))
    assert written.index("only a judge decides") < written.index("| bucket |")
    assert ("agenteval.s[rules].without_judge", "1") in suite_properties(view_of(run))


def test_what_no_judge_could_change_is_not_marked(tmp_path: Path) -> None:
    """A miss stays a miss, a grade that does not apply is none, a threshold of 0 undoes no pass."""
    lenient = Grade("main", None, "no judge", details={"undecided": "no_judge"}, threshold=0.0, weight=0.0)
    run = stored(
        tmp_path,
        [
            trial("a", 1, 1.0, grades=(FINE, NOT_ASKED_OF)),
            trial("b", 1, 0.0, grades=(Grade("words", 0.0, ""), UNJUDGED)),
            trial("c", 1, 1.0, grades=(FINE, lenient)),
        ],
    )
    total = view_of(run).suites[0].total
    assert (total.unscored, total.unproven) == (1, 0)


def level(task: str, *grades: Grade) -> Trial:
    """Give a trial of the Korean benchmark's first level."""
    return trial(task, 1, 1.0, "L1", grades=grades)


def test_a_metric_that_is_decided_only_where_no_judge_was_needed_is_marked(tmp_path: Path) -> None:
    """Its mean is over the trials that left nothing to judge: not what the metric says it is."""
    silent = level("a", Grade("ToolAcc", 0.0, ""), Grade("RespOK", 0.0, "nothing to judge"))
    unjudged = Grade("RespOK", None, "no judge", details={"undecided": "no_judge"})
    run = stored(tmp_path, [silent, level("b", Grade("ToolAcc", 1.0, ""), unjudged)])

    brief = " ".join(line.text for line in level_lines(run, 120, whole=False))
    assert "L1 0.25*" in brief
    whole = [line.text for line in level_lines(run, 120, whole=True)]
    assert "1 of 2 trials without what only a judge decides (1 RespOK)" in whole[1]
    cells = {line.split()[1]: line.split()[2] for line in whole if line.startswith("  L1 ")}
    assert cells["RespOK"] == "0.00*"
    assert cells["ToolAcc"] == "0.50"

    board = boards_of([run])[0]
    tables = [line.text for table in board_tables(board) for line in table_lines(table, 160)]
    assert any("0.25*" in line for line in tables)
    assert boards_json([board])["boards"][0]["rows"][0]["all"]["without_judge"] == 1


def test_a_composite_that_rests_on_a_marked_level_is_marked_wherever_it_stands(tmp_path: Path) -> None:
    """In one line after a run, with its parts under -v, and on the board; a part without the level is not."""
    metrics = {"L1": "ToolAcc", "L2": "SelectAcc", "L3": "FSM", "L5": "FallbackSR", "L6": "ReuseRate"}
    unjudged = Grade("RefRecall", None, "no judge", details={"undecided": "no_judge"})
    run = stored(
        tmp_path,
        [
            *(trial(name, 1, 0.5, name, grades=(Grade(own, 0.5, ""),)) for name, own in metrics.items()),
            trial("a", 1, 0.5, "L7", grades=(Grade("ContextRetention", 0.5, ""), unjudged)),
        ],
    )

    brief = " ".join(line.text for line in level_lines(run, 200, whole=False))
    assert "composite 0.50* (" in brief
    whole = " ".join(line.text.strip() for line in level_lines(run, 200, whole=True))
    assert "composite 0.50* = 0.4 x basic 0.50 + " in whole
    assert "0.15 x context 0.50*; L4 stands beside it with -" in whole
    tables = [line.text for table in board_tables(boards_of([run])[0]) for line in table_lines(table, 200)]
    assert any(line.split()[:2] == ["rules", "0.50*"] for line in tables)
