"""What somebody or something else wrote into a run's folder is told by file and line; the rest is read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.reports.leaderboard import leaderboards_json, leaderboards_of
from pytest_agenteval.reports.run_screen import miss_lines, screen_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store import journal_reader
from pytest_agenteval.store.journal_entry import started_line
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.record_files import add_checksum, encode_line
from pytest_agenteval.store.run_folder import PlannedGroup, RunHeader, list_runs, new_run, write_planned
from pytest_agenteval.store.run_reader import load_run, load_tasks
from pytest_agenteval.text.errors import UsageMistake

from .samples import FULL, plan, trial

FINISHED = json.dumps(
    {
        "v": 1,
        "kind": "finished",
        "attempt": 1,
        "suite": "s",
        "task": "t9",
        "agent": "card",
        "model": "baseline",
        "repetition": 1,
        "ending": "passed",
        "score": 1.0,
        "task_kind": "mixed",
        "grades": [],
        "transcript": [0, 10],
    }
)


def stored_run(root: Path) -> Path:
    """Give a run of two trials, one of which is not finished."""
    folder = new_run(root / "runs", RunHeader("2026-11-21T09:30:15+00:00"))
    writer = JournalWriter(folder, "main")
    writer.started([plan("t1"), plan("t2")])
    writer.finished([trial("t1")])
    write_planned(folder, [PlannedGroup("s", "baseline", "", "b", 2, 2, 1)])
    return folder


def finished_line(**keys: Any) -> str:
    """Give a finished line with other values; None takes a key out."""
    line = {**json.loads(FINISHED), **keys}
    return json.dumps({key: value for key, value in line.items() if value is not ...})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "missing required field `kind`"),
        ("[]", "no JSON object"),
        ('{"v": 1, "kind": "fin', "half a line"),
        ('{"v": 1, "kind": "paused"}', "'paused' - at `$.kind`"),
        ('{"v": 1, "kind": "started", "attempt": 1}', "missing required field `suite`"),
        ('{"v": "new", "kind": "started"}', "`$.v`"),
        (finished_line(ending="vanished"), "'vanished' - at `$.ending`"),
        (finished_line(ending=...), "missing required field `ending`"),
        (finished_line(repetition="1"), "Expected `int`, got `str` - at `$.repetition`"),
        (finished_line(task=["t"]), "`$.task`"),
        (finished_line(grades=[{"score": 1}]), "missing required field `grader` - at `$.grades[0]`"),
        (finished_line(transcript=[0]), "`$.transcript`"),
        (finished_line(score=7), "Expected `float` <= 1.0 - at `$.score`"),
        (finished_line(score=True), "`$.score`"),
        (finished_line(score=float("nan")), "`$.score`"),
        (finished_line(seconds=float("inf")), "`$.seconds`"),
        (finished_line(seconds=10**400), "`$.seconds`"),
        (finished_line(seconds=-1), "`$.seconds`"),
        (finished_line(full="yes"), "`$.full`"),
        (finished_line(tags=[1]), "`$.tags[0]`"),
        (finished_line(digests={"ruler": ["r"]}), "`$.digests.ruler`"),
        (finished_line(digests={"graders": {"g": 3}}), "`$.digests.graders"),
        (finished_line(usage={"in": "many"}), "`$.usage.in`"),
        (finished_line(usage={"cost_usd": float("nan")}), "`$.usage.cost_usd`"),
        (finished_line(judging={"asks": 1.5}), "`$.judging.asks`"),
        (finished_line(tapes={"tools": {"hits": "a"}}), "`$.tapes.tools.hits`"),
        (finished_line(grades=[{"grader": "g", "score": 3}]), "`$.grades[0].score`"),
        (finished_line(grades=[{"grader": "g", "score": 1, "threshold": None}]), "`$.grades[0].threshold`"),
        (finished_line(grades=[{"grader": "g", "score": 0, "unclamped": -(10**400)}]), "unclamped`"),
        (finished_line(planet="Mars"), "the unknown key 'planet'"),
        (finished_line(grades=[{"grader": "g", "score": 0, "mood": 4}]), "the unknown key 'mood'"),
    ],
)
def test_an_odd_line_is_told_and_the_others_are_read(tmp_path: Path, line: str, message: str) -> None:
    """By its file and its number, with what is odd about it."""
    folder = stored_run(tmp_path)
    journal = folder / "journal-main.jsonl"
    good = journal.read_text(encoding="utf-8")
    journal.write_text(good.replace("\n", f"\n{line}\n", 1), encoding="utf-8")

    run = load_run(folder)

    assert [entry.key.task for entry in run.entries] == ["t1"]
    assert [begun.key.task for begun in run.begun] == ["t2"]
    (odd,) = run.odd
    assert odd.startswith("journal-main.jsonl:2: left out: ")
    assert message in odd


@pytest.mark.parametrize(
    "text", ["[]", "{}", "", '{"v": 1, "started', '{"models": 3, "started_at": "x"}', "7"]
)
def test_a_run_without_its_header_or_plan_is_read_all_the_same(tmp_path: Path, text: str) -> None:
    """Its trials are in its journals; its folder's name says when it began; it stands in the list."""
    folder = stored_run(tmp_path)
    (folder / "run.json").write_text(text, encoding="utf-8")
    (folder / "planned.json").write_text(text, encoding="utf-8")

    run = load_run(folder)

    assert len(run.entries) == 1
    assert run.planned == ()
    assert [odd.partition(":")[0] for odd in run.odd] == ["run.json", "planned.json"]
    assert run.header.started_at == "2026-11-21T09:30:15"
    assert [stored.path for stored in list_runs(tmp_path / "runs")] == [folder]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(json.loads(FINISHED))), JSON, max_size=4))
@settings(max_examples=25, deadline=None)
def test_no_line_blinds_the_reader(keys: dict[str, Any]) -> None:
    """Whatever stands in the place of a value: the run is read, and all its reports can be made."""
    keys.pop("v", None)
    with tempfile.TemporaryDirectory() as place:
        folder = stored_run(Path(place))
        with (folder / "journal-main.jsonl").open("a", encoding="utf-8") as journal:
            journal.write(finished_line(**keys) + "\n")

        run = load_run(folder)

        assert len(run.entries) + len(run.odd) >= 2 or keys.get("kind") == "started"
        assert all("run: " in screen_lines(view_of(run), 80, much)[-1].text for much in (0, 1))
        assert json.dumps(leaderboards_json(leaderboards_of([run])), allow_nan=False)


def test_tokens_below_0_of_an_older_run_are_unknown(tmp_path: Path) -> None:
    """They would take tokens off other trials' in the sum; the trial itself counts."""
    folder = stored_run(tmp_path)
    with (folder / "journal-main.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(finished_line(usage={"in": -500, "out": 3, "cost_usd": 0.2, "asks": 1}) + "\n")

    (odd_one,) = [entry for entry in load_run(folder).entries if entry.key.task == "t9"]

    assert odd_one.usage == Usage(cost_usd=None, asks=1)


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "half of it": lambda raw: raw[: len(raw) // 3],
    "no JSON": lambda raw: raw.replace(b'"messages"', b'"messages'),
    "a key that is gone": lambda raw: raw.replace(b'"role"', b'"rule"'),
    "other bytes": lambda raw: b"\xff" * (len(raw) - 1) + b"\n",
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_transcript_hides_neither_its_trial_nor_the_others(
    folder: Path, damaged: Callable[[bytes], bytes]
) -> None:
    """What the journal says of the trial stands; that its transcript is lost is told once."""
    last = replace(FULL, key=FULL.key._replace(repetition=3))
    JournalWriter(folder, "main").finished([FULL, last])
    run = load_run(folder)
    path, place = folder / "transcripts-main.jsonl", run.entries[0].location
    raw = path.read_bytes()
    path.write_bytes(damaged(raw[: place.length]).ljust(place.length) + raw[place.length :])

    reports = [[line.text for line in miss_lines(run)] for _ in range(2)]

    assert reports[0] == reports[1]
    assert sum(line.startswith("MISSED 0.40") for line in reports[0]) == 2
    assert run.trial_if_readable(run.entries[1]) == last
    (odd,) = run.odd
    assert odd.startswith(f"card/{FULL.key.task}[claude@short-2]: no transcript at {path.name}:0 (")


def test_damaged_lines_of_tasks_that_are_not_needed_are_named_too(tmp_path: Path) -> None:
    """``agenteval show NAME`` reads one task of a large run, and says all the same what is broken."""
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    journal = JournalWriter(folder, "main")
    journal.finished([trial("t1"), trial("t2"), trial("t3")])
    journal.close()
    (path,) = folder.glob("journal-*")
    path.write_bytes(path.read_bytes().replace(b'"task":"t3"', b'"task":"t4"'))
    assert load_tasks(folder, "t1".__eq__).odd == load_run(folder).odd
    assert "t1" in [entry.key.task for entry in load_tasks(folder, "t1".__eq__).entries]
    path.write_bytes(path.read_bytes().replace(b'"task":"t4"', b'"task":"t3"'))
    assert [entry.key.task for entry in load_tasks(folder, "t1".__eq__).entries] == ["t1"]


def test_large_journals_are_read_in_parts_like_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines keep their numbers; one of a newer version is refused, whichever tasks are needed."""
    monkeypatch.setattr(journal_reader, "MOST_READ", 1)
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    journal = JournalWriter(folder, "main")
    journal.finished([trial("t1"), trial("t2"), trial("t3")])
    journal.close()
    (path,) = folder.glob("journal-*")
    path.write_bytes(path.read_bytes().replace(b'"task":"t3"', b'"task":"t4"'))
    assert [line.partition(": ")[0] for line in load_run(folder).odd] == [f"{path.name}:3"]
    newer = path.read_bytes().splitlines(keepends=True)[1].partition(b',"crc"')[0].replace(b'"v":1', b'"v":9')
    path.write_bytes(add_checksum(newer + b"}\n"))
    for needed in (None, "t1".__eq__):
        with pytest.raises(UsageMistake, match="written in format 9"):
            load_tasks(folder, needed)


@pytest.mark.parametrize(
    ("starts", "finished", "attempts", "begun"),
    [
        ([(2, "09:00")], 0, [], [2]),
        ([(1, "09:00"), (1, "09:01")], 1, [2], []),
        ([(1, "09:00"), (1, "09:00")], 1, [1], []),
        ([(1, "09:00"), (2, "09:01")], 1, [2], [2]),
    ],
)
def test_starts_beyond_the_first_count_as_attempts(
    starts: list[tuple[int, str]], finished: int, attempts: list[int], begun: list[int], tmp_path: Path
) -> None:
    """A line that stands there twice is one start."""
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    journal = JournalWriter(folder, "main")
    journal.finished([trial("t1")] * finished)
    journal.close()
    lines = [encode_line(started_line(plan("t1", attempt=attempt), at)) for attempt, at in starts]
    with (folder / "journal-main-1.jsonl").open("ab") as file:
        file.writelines(map(add_checksum, lines))
    run = load_run(folder)
    assert [entry.attempts for entry in run.entries] == attempts
    assert [attempt.attempt for attempt in run.begun] == begun
