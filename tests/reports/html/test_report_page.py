"""The HTML file of a run: its figures, its trials, and that nothing in it acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.compare.baseline_file import baseline_text
from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript, Usage
from pytest_agenteval.reports import html_report
from pytest_agenteval.reports.html_report import write_html
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.sides import sides_of_places
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from tests.reports.html.pages import Page
from tests.reports.runs import MIXED, PLANNED, key, store_run, trial

HOSTILE = "</script><script>window.PWNED=1</script><img src=x onerror='window.PWNED=2'><!--<script>"


def write(tmp_path: Path, *runs: Run) -> Page:
    """Write the page of runs, and take it apart."""
    write_html(tmp_path / "report.html", report_source(runs))
    return Page(tmp_path / "report.html")


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    """A run with trials of every ending."""
    return store_run(tmp_path / "runs", MIXED, PLANNED)


def test_the_figures_are_those_of_the_terminal(tmp_path: Path, mixed: Run) -> None:
    """One view makes every report: the page's scores, intervals and counts are its own, with all digits."""
    (suite,) = view_of(mixed).suites
    index = write(tmp_path, mixed).index
    (shown,) = index["suites"]
    rows = (shown["sides"], *(bucket["sides"] for bucket in shown["buckets"]))
    for row, (figures,) in zip((suite.total, *suite.rows), rows, strict=True):
        assert (figures["name"], figures["tasks"]) == (row.name, row.tasks)
        assert (figures["trials"], figures["planned"]) == (row.averaged, row.planned)
        assert figures["score"] == (row.mean.mean if row.mean else None)
        assert figures["passed"] == (row.pass_1.value if row.pass_1 else None)
    assert (index["old"], index["comparisons"], len(index["sides"])) == (None, [], 1)


def test_the_head_rounds_as_all_other_reports_do(tmp_path: Path) -> None:
    """The end of an interval rounds outwards: all tasks passed is 1.00, which lies in 0.87-1.00."""
    run = store_run(tmp_path / "runs", [trial(f"t{n}", 1, 1.0) for n in range(200)])
    shown = write(tmp_path, run).all("span", **{"class": "interval"})
    (total,) = [suite.total for suite in view_of(run).suites]
    assert total.mean is not None
    assert {span.text.strip() for span in shown} == {format_interval(total.mean.interval)} == {"0.99-1.00"}


def test_scores_that_lack_a_judge_are_marked(tmp_path: Path) -> None:
    """A score without the grades that only a judge gives has the mark that the warning explains."""
    grades = (Grade("g", 0.5, ""), Grade("tone", None, "no judge", undecided="no_judge"))
    page = write(tmp_path, store_run(tmp_path / "runs", [trial("a", 1, 0.5, grades=grades)]))
    assert page.index["suites"][0]["sides"][0]["mark"] == "*"
    assert page.all("h1")[0].text.strip() == "s 0.50*"
    assert "* not judged" in page.index["runs"][0]["warnings"][0]


def test_the_tasks_are_seen_at_once(tmp_path: Path) -> None:
    """Scorecards and boards are folded: a column for each side is what several runs are looked at for."""
    runs = [store_run(tmp_path / "runs", [trial("a", 1, 1.0)]) for _ in "abc"]
    for shown in (runs[:1], runs):
        assert not [each for each in write(tmp_path, *shown).all("details") if "open" in each.attributes]


def test_every_trial_is_in_a_row_and_every_row_opens(
    tmp_path: Path, mixed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that ended is missing: passed, missed and errored trials have a row, and a document each."""
    monkeypatch.setattr(html_report, "MOST_TRIALS", 4)
    page = write(tmp_path, mixed)
    rows, tasks = page.index["trials"], page.index["tasks"]
    assert {row["chunk"] for row in rows} == {0, 1}
    assert [(task["task"], task["scores"]) for task in tasks] == [("a", [0.75]), ("b", [1.0]), ("c", [0.0])]
    assert [(row["task"], row["reason"]) for row in rows] == [
        (0, ""),
        (0, "g 0.50: found 0.5"),
        (1, ""),
        (1, "provider: 503 from the provider"),
        (2, "g 0.00: found 0.0"),
        (2, "g 0.00: found 0.0"),
    ]
    for row in rows:
        opened = page.trial(row)
        same = ("name", "repetition", "ending", "reason")
        assert [opened[name] for name in same] == [row[name] for name in same]
    assert {row["name"] for row in rows} == {f"s/{t.key.task}[rules-{t.key.repetition}]" for t in MIXED}


def chips_of(folder: Path) -> dict[str, str]:
    """Give the counts of the filters."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    return dict(re.findall(r'data-filter="(\w+)"[^>]*>\w+ <b>(\d+)</b>', page))


def test_chips_count_the_tasks_that_they_show(tmp_path: Path, mixed: Run) -> None:
    """A task with a miss and an errored trial is counted by both filters, once each."""
    chips = {
        chip.attributes["data-filter"] for chip in write(tmp_path, mixed).all("a", **{"class": "chip missed"})
    }
    assert chips == {"missed"}
    assert chips_of(tmp_path) == {"missed": "2", "errored": "1", "disagree": "0", "undecided": "0"}


def test_two_runs_show_what_became_of_each_task(tmp_path: Path) -> None:
    """The change is that of the comparison, and the trials of both sides stand in a task's row."""
    old = store_run(tmp_path / "runs", [trial(task, n, 1.0) for task in "abc" for n in (1, 2, 3)])
    scores = {"a": 0.5, "b": 1.0, "c": 1.0}
    new = store_run(tmp_path / "runs", [trial(task, n, scores[task]) for task in "abc" for n in (1, 2, 3)])
    page = write(tmp_path, old, new)
    index = page.index
    assert index["old"] == 0
    assert [run["name"] for run in index["runs"]] == [old.header.name, new.header.name]
    rows = {task["task"]: task["scores"] for task in index["tasks"]}
    assert rows == {"a": [1.0, 0.5], "b": [1.0, 1.0], "c": [1.0, 1.0]}
    forwards, backwards = index["comparisons"]
    assert (forwards["broken"], forwards["mended"]) == ([0], [])
    assert (backwards["broken"], backwards["mended"]) == ([], [0])
    assert [trial["side"] for trial in index["trials"]] == [0, 0, 0, 1, 1, 1] * 3
    assert page.trial(index["trials"][0])["score"] == 1.0
    expected = compare_runs(compared_run(old), compared_run(new)).suites[0].suite
    assert expected is not None
    (shown,) = forwards["suites"]
    assert (shown["p"], shown["verdict"]) == (expected.p_of_verdict, expected.verdict)
    chips = chips_of(tmp_path)
    assert (chips["better"], chips["worse"], chips["missed"]) == ("0", "1", "1")


def test_three_models_of_a_run_share_the_rows_of_its_tasks(tmp_path: Path) -> None:
    """A task that three models tried is one task in each count, and one row with a score for each of them."""
    names = ("fast", "mid", "slow")
    trials = [
        trial(task, n, 1.0 if name == "slow" else 0.5, key=key(task, n, name))
        for task in "abcdefgh"
        for name in names
        for n in (1, 2)
    ]
    models = tuple(RunModel(name, name) for name in names)
    page = write(tmp_path, store_run(tmp_path / "runs", trials, models=models))
    index = page.index
    assert [side["label"] for side in index["sides"]] == list(names)
    assert [task["scores"] for task in index["tasks"]] == [[0.5, 0.5, 1.0]] * 8
    assert len(index["comparisons"]) == 6
    assert chips_of(tmp_path) == {
        "better": "8",
        "worse": "0",
        "missed": "8",
        "errored": "0",
        "disagree": "0",
        "undecided": "0",
    }
    assert "slow beats fast" in page.all("h1")[0].text
    assert len(page.all("table", **{"class": "fallback"})) == 1


def test_a_task_with_a_row_for_each_model_is_counted_once(tmp_path: Path) -> None:
    """Two runs of two models each have two rows of a task: filters count it as one."""
    models = (RunModel("rules", "rules"), RunModel("nop", "nop"))
    both = [trial("a", 1, 0.0), trial("a", 1, 0.5, key=key("a", model="nop"))]
    runs = [store_run(tmp_path / "runs", both, models=models) for _ in "ab"]
    index = write(tmp_path, *runs).index
    assert sorted(suite["label"] for suite in index["suites"]) == ["s[nop]", "s[rules]"]
    assert len(index["tasks"]) == 2
    assert chips_of(tmp_path)["missed"] == "1"


def test_a_baselines_file_gives_old_scores_without_transcripts(tmp_path: Path) -> None:
    """Old trials that nobody can open are shown all the same, and the page says why."""
    old = store_run(tmp_path / "runs", [trial("a", n, 1.0) for n in (1, 2)])
    new = store_run(tmp_path / "runs", [trial("a", n, 0.5) for n in (1, 2)])
    (tmp_path / "b.json").write_text(baseline_text(old.header, old.entries))
    write_html(tmp_path / "report.html", ReportSource(sides_of_places([tmp_path / "b.json", new.folder])))
    index = Page(tmp_path / "report.html").index
    first = [row for row in index["trials"] if row["side"] == 0]
    assert [(row["score"], row["chunk"]) for row in first] == [(1.0, None), (1.0, None)]
    assert "no transcripts" in index["runs"][0]["notes"][0]


def test_only_the_pages_own_script_may_run(tmp_path: Path, mixed: Run) -> None:
    """The policy names one script by its digest, and nothing may be loaded or sent."""
    page = write(tmp_path, mixed)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    (script,) = [element for element in page.all("script") if not element.attributes]
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in str(policy.attributes["content"])
    assert "default-src 'none'" in str(policy.attributes["content"])
    for element in page.elements:
        assert not {"src", "onerror", "onload", "onclick", "action"} & element.attributes.keys()
        assert str(element.attributes.get("href", "#")).startswith("#")


def hostile_trial() -> Any:
    """Give a trial in which every text tries to become markup."""
    grade = Grade(HOSTILE, 0.0, HOSTILE, (Check(HOSTILE, False, HOSTILE, HOSTILE),))
    after = Tree({HOSTILE.replace("/", "_"): FileText("1", 1, HOSTILE)})
    return trial(
        "a",
        1,
        0.0,
        HOSTILE,
        key=key(HOSTILE, model=HOSTILE),
        grades=(grade,),
        transcript=Transcript((Message("user", HOSTILE), Message("assistant", HOSTILE, turn=1))),
        outcome=Outcome(Answer(HOSTILE), Tree(), after),
        file=HOSTILE,
        message=HOSTILE,
    )


def test_hostile_texts_make_no_elements(tmp_path: Path) -> None:
    """What an agent, a task or a grader says is text, wherever it stands in the file."""
    models = (RunModel(HOSTILE, HOSTILE, note=HOSTILE),)
    plain, hostile = (
        write(tmp_path, store_run(tmp_path / f"runs{at}", [one], models=models if at else ()))
        for at, one in enumerate((trial("a", 1, 0.0), hostile_trial()))
    )
    assert len(hostile.all("script")) == len(plain.all("script"))
    assert hostile.all("img") == []
    (row,) = hostile.index["trials"]
    assert hostile.trial(row)["messages"][0]["content"] == HOSTILE


def test_a_transcript_alone_knows_where_judges_disagree(tmp_path: Path) -> None:
    """The filter counts its trial."""
    votes = [{"judge": name, "scores": {"tone": score}} for name, score in (("a", 1.0), ("b", 0.5))]
    judged = trial("a", 1, 1.0, grades=(Grade("g", 1.0, "", details={"judgement": {"votes": votes}}),))
    write(tmp_path, store_run(tmp_path / "runs", [judged, *MIXED[1:]]))
    assert chips_of(tmp_path)["disagree"] == "1"


def test_a_transcript_that_is_lost_loses_no_figure(tmp_path: Path, mixed: Run) -> None:
    """The row stays, and the page says that its transcript cannot be read."""
    (transcripts,) = mixed.folder.glob("transcripts-*.jsonl")
    transcripts.write_bytes(transcripts.read_bytes()[:-40])
    index = write(tmp_path, mixed).index
    assert [row["chunk"] is None for row in index["trials"]].count(True) == 1
    assert index["left_out"] == "The transcripts of 1 trial cannot be read."


def test_the_same_run_gives_the_same_file(tmp_path: Path, mixed: Run) -> None:
    """No clock and no chance is in the file: two writings can be compared byte by byte."""
    write(tmp_path, mixed)
    first = (tmp_path / "report.html").read_bytes()
    write(tmp_path, mixed)
    assert (tmp_path / "report.html").read_bytes() == first


def test_long_texts_are_cut_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply of megabytes does not make the page unusable; how much is missing stands instead."""
    monkeypatch.setattr(html_report, "MOST_TEXT", 10)
    run = store_run(tmp_path, [trial("a", 1, 1.0, outcome=Outcome(Answer("abcde" + "x" * 90 + "vwxyz")))])
    page = write(tmp_path, run)
    answer = page.trial(page.index["trials"][0])["answer"]
    assert answer.startswith("abcde\n\n… 90 characters are left out here")
    assert answer.endswith("vwxyz")


def test_secrets_that_are_known_now_are_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be older than what is known of secrets. What turns the writing direction is written out."""
    secret = key("a", model="hunter2hunter2\u202e")
    trials = [
        trial("a", 1, 0.0, outcome=Outcome(Answer("it is hunter2hunter2"))),
        trial("a", 1, 1.0, key=secret),
    ]
    run = store_run(tmp_path, trials)
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    KNOWN_SECRETS.know_environment()
    page = write(tmp_path, run)
    assert "hunter2" not in json.dumps(page.trial(page.index["trials"][0]))
    drawn = (
        (tmp_path / "report.html").read_text(encoding="utf-8").partition('<script type="application/json"')[0]
    )
    assert ("hunter2" in drawn, "\u202e" in drawn, "&lt;redacted&gt;\\u202e" in drawn) == (False, False, True)


def test_what_models_send_costs_no_report(tmp_path: Path) -> None:
    """Half a surrogate pair is written out, and an id of 64 bits, which browsers round, stands as text."""
    call = ToolCall("c", 1, 0, "find", {"id": 1234567890123456789, "n": 5, "half \ud800": 1})
    said = Transcript((Message("assistant", "half \ud800", calls=(call,), turn=1),), calls=(call,))
    page = write(tmp_path, store_run(tmp_path / "runs", [trial("a", 1, 0.5, "b \ud800", transcript=said)]))
    (row,) = page.index["trials"]
    (message,) = page.trial(row)["messages"]
    assert message["content"] == "half \\ud800"
    assert message["calls"][0]["args"] == {"id": "1234567890123456789", "n": 5, "half \\ud800": 1}
    assert page.index["suites"][0]["buckets"][0]["name"] == "b \\ud800"


def test_what_trials_took_sums_to_what_the_suite_took(tmp_path: Path) -> None:
    """Attempts that were begun anew count in the task's tokens, cost and time as in the suite's."""
    said = [Transcript(usage=Usage(100 * n, n, cost_usd=0.25 * n, asks=1, attempts=1)) for n in (1, 2)]
    first = trial("a", 1, None, transcript=said[0], seconds=3.0)
    page = write(tmp_path, store_run(tmp_path, [first, trial("a", 1, 0.5, attempt=2, transcript=said[1])]))
    (row,), (suite,) = page.index["trials"], page.index["suites"]
    names = ("tokens", "usd", "seconds")
    assert [row[name] for name in names] == [suite["sides"][0][name] for name in names] == [303, 0.75, 3.0]
    assert row["attempts"] == 2


def test_a_run_without_trials_says_so(tmp_path: Path) -> None:
    """Its heading is not empty."""
    (heading,) = write(tmp_path, store_run(tmp_path / "runs", [])).all("h1")
    assert heading.text.strip() == "No trials"
