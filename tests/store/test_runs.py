"""A run's folder: made once, ended once, found by any of its names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.imported_runs import ImportedRun, read_text, replace_imported_runs
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.merging import find_parts
from pytest_agenteval.store.run_folder import (
    PlannedGroup,
    RunHeader,
    RunModel,
    RunSuite,
    end_run,
    find_run,
    list_runs,
    new_run,
    open_run,
    planned_groups,
    read_header,
    write_planned,
)
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

from .samples import key, trial


def _header(started_at: str = "2026-11-21T09:30:15+09:00", *models: str) -> RunHeader:
    return RunHeader(started_at, models=tuple(RunModel(name, name) for name in models or ("rules",)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the place where runs are kept."""
    return tmp_path / ".agenteval" / "runs"


def test_a_run_is_named_by_time_and_models(root: Path) -> None:
    """The name tells runs apart in a listing, and the header knows it."""
    folder = new_run(root, _header("2026-11-21T09:30:15+09:00", "claude", "gpt/4o mini"))

    assert folder == root / "20261121-093015-claude+gpt-4o-mini"
    assert read_header(folder).name == folder.name


def test_a_taken_name_gets_a_number(root: Path) -> None:
    """Two runs of one second never share a folder."""
    names = [new_run(root, _header()).name for _ in range(3)]

    assert names == ["20261121-093015-rules", "20261121-093015-rules-2", "20261121-093015-rules-3"]


def test_a_folder_that_was_chosen_may_be_opened_by_every_process(root: Path) -> None:
    """Workers that agree on a name and a header do not disturb each other."""
    for _ in range(2):
        open_run(root / "20261121-agreed", _header())

    assert find_run(root, "latest") == root / "20261121-agreed"
    assert read_header(root / "20261121-agreed").name == "20261121-agreed"
    assert sorted(path.name for path in root.iterdir()) == ["20261121-agreed", "latest"]


def test_our_folder_stays_out_of_git_and_theirs_is_theirs(root: Path, tmp_path: Path) -> None:
    """``.agenteval`` ignores itself; a folder that the user named gets no file beside it."""
    new_run(root, _header())
    new_run(tmp_path / "mine" / "results", _header())

    assert (root.parent / ".gitignore").read_text() == "*\n"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["results"]


def test_a_run_is_read_by_the_text_of_its_path_too(root: Path) -> None:
    """As every function of Python's own takes a path."""
    folder = new_run(root, _header("2026-11-21T09:30:15+09:00", "gpt"))

    for path in (folder, str(folder), PurePath(folder)):
        run = load_run(path)
        assert (run.folder, run.header.models[0].name) == (folder, "gpt")


def test_the_end_of_a_run_is_added_to_its_header(root: Path) -> None:
    """All else stays as it was, and nothing but the header is left behind."""
    folder = new_run(root, _header())
    before = read_header(folder)
    end_run(folder, "2026-11-21T09:31:00+09:00", 1)

    assert (before.ended_at, before.exit_status) == ("", None)
    assert read_header(folder) == replace(before, ended_at="2026-11-21T09:31:00+09:00", exit_status=1)
    assert [path.name for path in folder.iterdir()] == ["run.json"]


_texts = st.text(max_size=20)


@given(
    st.builds(
        RunHeader,
        _texts,
        st.lists(_texts).map(tuple),
        st.lists(st.builds(RunModel, _texts, _texts, st.booleans(), _texts)).map(tuple),
        st.lists(_texts).map(tuple),
        st.lists(st.builds(RunSuite, _texts, st.just("mixed"), _texts, st.floats(0, 1))).map(tuple),
        st.integers(),
        st.none() | st.integers(1),
    )
)
def test_any_header_comes_back_equal(header: RunHeader) -> None:
    """Header to JSON and back loses nothing."""
    assert RunHeader.from_json(header.to_json()) == header


def test_a_header_with_more_keys_can_still_be_read() -> None:
    """Keys may be added within one version."""
    assert RunHeader.from_json(
        {"started_at": "x", "new": 1, "suites": [{"name": "s", "new": 1}]}
    ) == RunHeader("x", suites=(RunSuite("s"),))


def test_planned_trials_are_counted_by_bucket(root: Path) -> None:
    """Tasks, trials, and the repetitions of the task that has fewest."""
    trials = [(key("t1", 1), "a"), (key("t1", 2), "a"), (key("t2"), "a"), (key("t3"), "b")]
    trials += [(key("t3", model="claude"), "b")]
    folder = new_run(root, _header())
    write_planned(folder, planned_groups(trials))

    assert load_run(folder).planned == (
        PlannedGroup("s", "rules", "", "a", tasks=2, trials=3, repetitions=1),
        PlannedGroup("s", "rules", "", "b", tasks=1, trials=1, repetitions=1),
        PlannedGroup("s", "claude", "", "b", tasks=1, trials=1, repetitions=1),
    )


def test_runs_are_listed_newest_first_without_the_pointer(root: Path) -> None:
    """What is no run, or cannot be read, is passed over; ``latest`` is not a third run."""
    for day in (20, 21):
        new_run(root, _header(f"2026-11-{day}T08:00:00"))
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text("{")

    assert [run.path.name[:8] for run in list_runs(root)] == ["20261121", "20261120"]


def test_latest_is_a_text_where_links_cannot_be_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows without the right to make links reads the pointer all the same."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held")

    monkeypatch.setattr(Path, "symlink_to", refused)
    new_run(root, _header("2026-11-20T08:00:00"))
    last = new_run(root, _header("2026-11-21T08:00:00"))

    assert not (root / "latest").is_symlink()
    assert find_run(root, "latest") == last


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """The message names the file that is missing."""
    with pytest.raises(UsageMistake, match=r"is not a run: .*run\.json"):
        load_run(tmp_path)


def test_runs_that_another_run_holds_are_left_out_the_largest_first(root: Path) -> None:
    """Whenever they began: so ``agenteval merge`` names them."""
    begun = {"whole": ("10", "t1", "t2", "t3"), "small": ("11", "t1"), "large": ("12", "t1", "t2")}
    for name, (hour, *tasks) in begun.items():
        open_run(root / name, _header(f"2026-11-21T{hour}:00:00+09:00"))
        journal = JournalWriter(root / name, "main")
        journal.finished([trial(task) for task in tasks])
        journal.close()

    parts = find_parts([str(root)], root)

    assert [run.name for run in parts.runs] == ["whole"]
    assert [run.name for run in parts.repeated] == ["large", "small"]


def test_an_import_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    """What was imported before goes when all that takes its place is written, and gives it its name."""
    command = ("agenteval", "import", "x")
    first = ImportedRun("m", "s", "capability", "card", "2026-11-21T09:30:15", "", (trial(),))
    (folder,) = replace_imported_runs(tmp_path, command, [first], command)
    root, no_trial = folder.parent, cast(Trial, None)

    with pytest.raises(AttributeError):
        replace_imported_runs(tmp_path, command, [first, replace(first, trials=(no_trial,))], command)
    assert [run.path for run in list_runs(root)] == [folder]
    assert sorted(path.name for path in root.parent.iterdir()) == [".gitignore", "runs"]

    assert replace_imported_runs(tmp_path, command, [first], [*command, "again"]) == [folder]
    assert [run.header.command[-1] for run in list_runs(root)] == ["again"]
    assert find_run(root, "latest") == folder


def test_a_file_to_import_that_is_no_text_is_shown_with_its_line(tmp_path: Path) -> None:
    """Files of a benchmark may be in another encoding; the line is that of the first wrong byte."""
    (tmp_path / "log.json").write_bytes(b'{\n  "answer": "\xc0\xba"\n}\n')
    with pytest.raises(ProblemsFound) as found:
        read_text(tmp_path / "log.json")
    assert str(found.value).startswith(f"{tmp_path / 'log.json'}:2\n  expected: text in UTF-8\n")
