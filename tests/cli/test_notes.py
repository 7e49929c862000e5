"""Notes on trials from the terminal, and wherever a trial is reported."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.reports.page_index import page_index
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.store.notes import NOTES, read_notes
from pytest_agenteval.store.run_reader import load_run
from tests.journals import properties
from tests.reports.runs import MIXED, store_run
from tests.reports.show.sample_trials import TRIAL

WORST, SECOND = "s/c[rules-1]", "s/c[rules-2]"
HOSTILE = "</script><b>*wrong* tool</b> \x1b[31m\u202e"


class Verbs:
    """Runs a verb on a stored run of five trials that did not pass, and gives what it printed."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = store_run(root / "runs", [TRIAL, *MIXED]).folder
        self._capsys = capsys

    def __call__(self, *args: str, status: int = 0) -> str:
        """Give the standard output; of a mistake what it says."""
        assert main([*args, "--results", str(self.folder.parent)]) == status
        printed = self._capsys.readouterr()
        return printed.err if status else printed.out


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verbs:
    """Give the verbs, with a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    return Verbs(tmp_path, capsys)


def names(shown: str) -> list[str]:
    """Give the trials that were shown, in order."""
    return re.findall(r"^(?:MISSED|ERROR|PASSED) .*?(\S+\])", shown, re.MULTILINE)


def test_misses_are_worked_through_one_after_the_other(verb: Verbs) -> None:
    """The worst that nobody has looked at, a comment on it, the next one; until all have been looked at."""
    assert names(verb("show", "--new")) == [WORST]
    assert "wrong tool" in verb("show", "--new", "--note", "wrong tool")
    assert names(verb("show", "--new")) == [SECOND]
    assert names(verb("show", "missed", "--new"))[0] == SECOND
    assert len(names(verb("show", "missed"))) == 4
    head = verb("show", WORST).partition("why")[0]
    assert re.search(r"looked at \d{4}-\d\d-\d\d \d\d:\d\d: wrong tool\n", head)

    assert verb("show", "missed", "--looked-at").count("looked at") == 4
    assert "wrong tool" in verb("show", WORST)
    assert "4 trials are missed, and all of them have been looked at" in verb(
        "show", "missed", "--new", status=2
    )
    assert names(verb("show", "--new")) == ["s/b[rules-2]"]
    verb("show", "errored", "--looked-at")
    # Trials that passed are not what is left to look at.
    assert "5 trials did not pass, and all of them" in verb("show", "--new", status=2)

    assert verb("show", WORST, "--note", "") == f"{WORST}\n  without a note\n"
    assert names(verb("show", "--new")) == [WORST]


def test_a_report_says_which_misses_were_looked_at(verb: Verbs) -> None:
    """Beside each name and in the title, and comments where there is room."""
    assert "looked at" not in verb("report", "latest") + verb("report", "latest", "--markdown", "-")
    verb("show", WORST, "--note", f"first\n{HOSTILE}")
    verb("show", "s/a[rules-2]", "--looked-at")

    brief, whole = verb("report", "latest"), verb("report", "latest", "-v")
    assert "misses, the worst first (-v says more); 2 of 5 misses looked at\n" in brief
    assert re.findall(r"(\S+) \(looked at\)", brief) == [WORST, "s/a[rules-2]"]
    assert f"MISSED 0.00  {WORST} (looked at)\n  note: first </script><b>*wrong* tool</b>" in whole
    assert "\x1b" not in brief + whole + verb("show", WORST)
    markdown = verb("report", "latest", "--markdown", "-")
    assert "5 trials not passed; 2 of 5 misses looked at" in markdown
    assert r"*(looked at: first &lt;/script&gt;&lt;b&gt;\*wrong\* tool&lt;/b&gt;" in markdown
    assert len(markdown.splitlines()) == len(re.split(r"\r?\n", markdown.rstrip("\n")))


def test_every_export_has_the_same_notes(verb: Verbs, tmp_path: Path) -> None:
    """Frames, CSV, SQL, JSON, JUnit and the page's index: what a person said stands beside each trial."""
    verb("show", WORST, "--note", "falsches Werkzeug: 검색")
    verb("show", SECOND, "--looked-at")
    run = load_run(verb.folder)
    expected = {entry.key.label: (entry.note.looked_at, entry.note.comment) for entry in run.entries}
    assert sum(bool(seen) for seen, _ in expected.values()) == 2
    files = {end: tmp_path / f"x.{end}" for end in ("csv", "json", "xml")}
    verb("report", "latest", *(part for path in files.values() for part in ("-o", str(path))))

    def noted(rows: Any) -> dict[str, tuple[str, str]]:
        return {row["trial"]: (_seconds(row["looked_at"]), row["comment"] or "") for row in rows}

    assert noted(csv.DictReader(files["csv"].open(encoding="utf-8", newline=""))) == expected
    assert noted(json.loads(files["json"].read_text("utf-8"))["trials"]) == expected
    assert noted(run.rows()) == expected
    cases = ElementTree.parse(files["xml"]).iter("testcase")
    of_case = {case.get("name", ""): properties(case) for case in cases}
    assert {
        name: (of.get("agenteval.looked_at", ""), of.get("agenteval.comment", ""))
        for name, of in of_case.items()
    } == {name.partition("/")[2]: note for name, note in expected.items()}
    index, _ = page_index(report_source([run], ()))
    in_page = {row["name"]: row["note"] and (*row["note"].values(),) for row in index["trials"]}
    assert in_page == {name: note if any(note) else None for name, note in expected.items()}
    (shown,) = json.loads(verb("show", WORST, "--json", "-"))["trials"]
    looked_at, comment = expected[WORST]
    assert shown["note"] == {"looked_at": looked_at, "comment": comment, "attempt": 1}


def _seconds(moment: Any) -> str:
    """Write a moment as notes have it."""
    text = moment if isinstance(moment, str) else moment.isoformat() if moment else ""
    return text.replace("+00:00", "Z")


def test_what_cannot_be_noted_is_refused_before_anything_is_written(verb: Verbs) -> None:
    """Two trials beside each other are not one; and --new is for a choice among many."""
    run = verb.folder.name
    assert "remove it to write a note" in verb("show", WORST, "--diff", run, "--note", "x", status=2)
    assert "found a name" in verb("show", WORST, "--new", "--looked-at", status=2)
    assert "there is no trial" in verb("show", "nothing", "--note", "x", status=2)
    assert not (verb.folder / NOTES).exists()
    (verb.folder / NOTES).mkdir()
    assert "notes cannot be written there" in verb("show", WORST, "--note", "x", status=2)


def test_damaged_notes_are_named_and_the_others_shown(
    verb: Verbs, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the standard error, as whatever else of a run cannot be read."""
    verb("show", WORST, "--note", "wrong tool")
    with (verb.folder / NOTES).open("ab") as file:
        file.write(b'{"v":1,"sui')

    assert len(read_notes(verb.folder)) == 1
    assert "notes.jsonl:2: left out: half a line" in verb("report", "latest")
    assert main(["show", WORST, "--results", str(verb.folder.parent)]) == 0
    shown = capsys.readouterr()
    assert "looked at" in shown.out
    assert "notes.jsonl:2: left out: half a line" in shown.err
