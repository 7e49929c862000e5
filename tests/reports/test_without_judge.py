"""Figures over trials that lack what only a judge decides: marked, and said before the first number."""

from __future__ import annotations

from pathlib import Path

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.reports.junit_properties import suite_properties
from pytest_agenteval.reports.markdown_report import summary_markdown
from pytest_agenteval.reports.run_screen import screen_lines
from pytest_agenteval.reports.run_view import view_of

from .runs import store_run, trial

FINE = Grade("words", 1.0, "")
UNJUDGED = Grade("main", None, "no judge", undecided="no_judge", threshold=0.5)
NOT_ASKED_OF = Grade("main", None, "nothing to say", undecided="not_applicable", threshold=0.5)


def judged_grade(score: float) -> Grade:
    """Give the main grade as a judge decided it."""
    return Grade("main", score, "", threshold=0.5)


def test_a_pass_that_a_judge_could_undo_is_marked_before_it_is_counted(tmp_path: Path) -> None:
    """The bucket with such trials is marked and the total; the bucket without is not."""
    run = store_run(
        tmp_path,
        [
            trial("a", 1, 1.0, grades=(FINE, UNJUDGED)),
            trial("b", 1, 1.0, "y", grades=(FINE, judged_grade(1.0))),
            trial("c", 1, 0.0, "y", grades=(Grade("words", 0.0, ""), judged_grade(0.0))),
        ],
    )
    lines = [line.text for line in screen_lines(view_of(run), 120, 1)]
    line_number = next(n for n, line in enumerate(lines) if "without a judge's grade (1 main)" in line)
    assert lines[line_number].startswith("  * 1 of 3 trials")
    at = next(n for n, line in enumerate(lines) if "score" in line and "bucket" in line)
    assert line_number < at
    head, x, y, total = lines[at : at + 4]
    assert "score" in head
    assert (x.count("*"), y.count("*"), total.count("*")) == (4, 0, 4)
    assert "1.00*" in x
    assert "2* of 3 tasks passed" in lines[at + 4]

    written = summary_markdown(view_of(run))
    assert written.index("without a judge's grade") < written.index("| bucket |")
    assert ("agenteval.s[rules].without_judge", "1") in suite_properties(view_of(run))


def test_what_no_judge_could_change_is_not_marked(tmp_path: Path) -> None:
    """A miss stays a miss, a grade that does not apply is none, a threshold of 0 undoes no pass."""
    lenient = Grade("main", None, "no judge", undecided="no_judge", threshold=0.0, weight=0.0)
    run = store_run(
        tmp_path,
        [
            trial("a", 1, 1.0, grades=(FINE, NOT_ASKED_OF)),
            trial("b", 1, 0.0, grades=(Grade("words", 0.0, ""), UNJUDGED)),
            trial("c", 1, 1.0, grades=(FINE, lenient)),
        ],
    )
    total = view_of(run).suites[0].total
    assert (total.unscored, total.unproven) == (1, 0)
