"""Properties that survive JUnit: text only, legal XML, small."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.junit_properties import prefix_endings, suite_properties, trial_properties
from pytest_agenteval.reports.junit_report import write_junit
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.journal_entry import StartedAttempt
from pytest_agenteval.store.run_reader import Run
from tests.store.samples import FULL, TRIALS

from .runs import MIXED, PLANNED, key, store_run, trial

LEGAL = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def test_a_trial_has_these_properties() -> None:
    """What the trial was, how it ended, each grade; a cost that nobody knows is not there."""
    assert trial_properties(FULL, "run/transcripts-gw0.jsonl:120") == [
        ("agenteval.ending", "missed"),
        ("agenteval.score", "0.4000"),
        ("agenteval.limit", "steps"),
        ("agenteval.suite", "card"),
        ("agenteval.task", "생일 🎂"),
        ("agenteval.bucket", "positive"),
        ("agenteval.model", "claude"),
        ("agenteval.variant", "short"),
        ("agenteval.repetition", "2"),
        ("agenteval.attempt", "3"),
        ("agenteval.tokens", "120"),
        ("agenteval.transcript", "run/transcripts-gw0.jsonl:120"),
        ("agenteval.grade.card_must_contain", "0.4000"),
        ("agenteval.grade.judge", "undecided"),
    ]


def test_equal_properties_of_trials_are_one_object() -> None:
    """Pytest keeps every report to the end: ten thousand trials of one suite must not each have their own."""
    first, second = (
        trial_properties(FULL, "run/transcripts.jsonl"),
        trial_properties(FULL, "run/transcripts.jsonl"),
    )
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_nothing_is_rounded_to_a_full_score_or_to_none() -> None:
    """A trial that missed by a hair did not reach 1; a measure past the scale stands as it was taken."""
    grades = (Grade("g", 0.00004, ""), Grade("h", 1.0, ""), Grade("rate", 0.0, "", unclamped=-8.0))
    found = dict(trial_properties(trial("a", 1, 0.99996, grades=grades)))

    assert (found["agenteval.score"], found["agenteval.grade.g"]) == ("0.999960000", "0.000040000")
    assert (found["agenteval.grade.h"], found["agenteval.grade.rate"]) == ("1.0000", "-8.0000")

    case = ElementTree.fromstring(
        '<testcase><properties><property name="agenteval.ending" value="missed"/>'
        '<property name="agenteval.score" value="0.9960"/></properties>'
        '<skipped message="g 0.99: found 0.996"/></testcase>'
    )
    prefix_endings([case])
    assert [each.get("message") for each in case.iter("skipped")] == ["MISSED 0.99: g 0.99: found 0.996"]


@pytest.mark.parametrize(("tasks", "interval"), [("abcd", None), ("abcde", "0.62-1.00")])
def test_an_interval_that_four_tasks_cannot_give_is_not_there(
    tmp_path: Path, tasks: str, interval: str | None
) -> None:
    """A dash is no interval: whoever reads the file would have to know that."""
    found = dict(suite_properties(view_of(store_run(tmp_path, [trial(task, 1, 1.0) for task in tasks]))))

    assert found["agenteval.s[rules].mean_score"] == "1.0000"
    assert found.get("agenteval.s[rules].interval_95") == interval


def test_an_errored_trial_has_a_cause_and_no_score() -> None:
    """A score of 0 would enter somebody's average; a price of 0 is known."""
    found = dict(trial_properties(trial("a", 1, None)))

    assert "agenteval.score" not in found
    assert (found["agenteval.cause"], found["agenteval.cost_usd"]) == ("provider", "0.000000")


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(TRIALS)
def test_properties_of_any_trial_are_legal_xml_and_small(some: Trial) -> None:
    """They come back from XML as they went in, and cross the wire of xdist cheaply."""
    found = trial_properties(some, "path")
    element = ElementTree.Element(
        "properties", {f"n{place}": value for place, (_, value) in enumerate(found)}
    )
    back = ElementTree.fromstring(ElementTree.tostring(element))

    assert [*back.attrib.values()] == [value for _, value in found]
    assert all(LEGAL.fullmatch(part) for pair in found for part in pair)
    assert all(name.startswith("agenteval.") for name, _ in found)


def test_long_names_and_labels_are_cut() -> None:
    """Reports cross the wire of xdist, and every reader of the file shows all of a property."""
    long = "🎂" * 5000
    key = MIXED[0].key._replace(suite=long, task=long, model=long, variant=long)
    graded = trial("a", 1, 0.5, long, grades=(Grade(long, 0.5, ""),), key=key, limit=long, cause=long)

    assert sum(len(part.encode()) for pair in trial_properties(graded, long) for part in pair) < 3000


def test_a_trial_that_was_begun_and_never_ended_is_an_error(tmp_path: Path) -> None:
    """A worker that was killed must not leave a file in which all passed."""
    run = store_run(tmp_path, [trial("a", 1, 1.0)])
    lost = Run(run.folder, run.header, run.planned, run.entries, (StartedAttempt(key("b"), 1),))
    write_junit(tmp_path / "j.xml", report_source([lost]))
    (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()

    assert [suite.get(name) for name in ("tests", "errors", "failures")] == ["2", "1", "0"]
    (error,) = suite.findall("testcase[@name='b[rules-1]']/error")
    assert error.get("message") == "started, but never ended"


def test_totals_of_each_suite_with_their_denominators(tmp_path: Path) -> None:
    """The same figures as in the table."""
    run = store_run(tmp_path, MIXED, PLANNED)
    found = dict(suite_properties(view_of(run)))

    assert found.pop("agenteval.run") == str(run.folder)
    assert {name.removeprefix("agenteval.s[rules]."): value for name, value in found.items()} == {
        "mean_score": "0.5833",
        "pass@1": "0.5000",
        "pass^2": "0.0000",
        "pass@2": "0.5000",
        "trials": "5",
        "planned": "8",
        "errored": "1",
        "not_run": "2",
        "tasks": "4",
        "tasks_decided": "3",
        "tasks_passed": "2",
        "tokens": "0",
        "cost_usd": "0.000000",
        "note": "rule-based, no LLM",
    }
