"""The list of runs: the verdict beside a suite, and figures of large runs that are stored."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_agenteval.reports import run_list
from pytest_agenteval.reports.run_list import verdict_text
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_documents import StoredVerdict
from pytest_agenteval.store.run_folder import RunHeader, new_run
from tests.store.samples import trial


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (None, "-"),
        (StoredVerdict("s", ("m", ""), "identical"), "identical"),
        (StoredVerdict("s", ("m", ""), "better", of_these_tasks=True), "better on these tasks"),
        (StoredVerdict("s", ("m", ""), "worse", ("b",)), "worse"),
        (StoredVerdict("s", ("m", ""), "better", ("b",)), "better"),
        (StoredVerdict("s", ("m", ""), "cannot tell", ("b",), ("c",)), "worse: 1 bucket"),
        (StoredVerdict("s", ("m", ""), "cannot tell", (), ("c", "d")), "better: 2 buckets"),
        (StoredVerdict("s", ("m", ""), "cannot tell", rules=0), "cannot tell, by older rules"),
    ],
)
def test_a_verdict_is_that_of_the_suite_else_of_its_buckets(verdict: StoredVerdict | None, text: str) -> None:
    """The worse ones first; rules may have changed since it was stored."""
    assert verdict_text(verdict) == text


def test_figures_of_a_large_run_are_stored_until_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored gives the same entry; a line that is added, or a file that is damaged, is read again."""
    monkeypatch.setattr(run_list, "LARGE", 0)
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00", ended_at="2026-11-21T09:40:15+00:00"))
    journal = JournalWriter(folder, "main")
    journal.finished([trial("t1"), trial("t2")])
    first = run_list.listed_run(folder)
    assert (folder / run_list.FIGURES).is_file()
    with monkeypatch.context() as unread:
        unread.delattr(run_list, "load_run")
        again = run_list.listed_run(folder)
    assert (msgspec.json.encode(again), again) == (msgspec.json.encode(first), first)
    journal.finished([trial("t3")])
    journal.close()
    assert [suite.ended for suite in run_list.listed_run(folder).figures.suites] == [3]
    for broken in ("half", (folder / run_list.FIGURES).read_text().replace('"ended":', '"had_ended":')):
        (folder / run_list.FIGURES).write_text(broken)
        assert [suite.ended for suite in run_list.listed_run(folder).figures.suites] == [3]


def test_figures_of_a_run_that_goes_on_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list entry would be old a moment later."""
    monkeypatch.setattr(run_list, "LARGE", 0)
    folder = new_run(tmp_path, RunHeader("2026-11-21T09:30:15+00:00"))
    journal = JournalWriter(folder, "main")
    journal.finished([trial("t1")])
    journal.close()
    assert run_list.listed_run(folder).figures.suites[0].ended == 1
    assert not (folder / run_list.FIGURES).exists()
