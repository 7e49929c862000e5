"""What each recording mode plays, sends and keeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, read_cassette, write_cassette
from pytest_agenteval.cassettes.interaction import tool_answer, tool_interaction, tool_request, tool_response
from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake

NAME = Path("a.yaml")


def ask(tape: Tape, tool: str, live: str) -> str:
    """Do what a tool box does: play, else send and record, else miss."""
    request = tool_request(tool, {})
    played = tape.play(request)
    if played is not None:
        return str(tool_answer(played).result)
    if not tape.recording:
        return "miss"
    tape.record(request, tool_response(live))
    return live


def before(folder: Path, **results: str) -> None:
    """Leave a file of an earlier run."""
    held = tuple(tool_interaction(tool, {}, result=result) for tool, result in results.items())
    write_cassette(folder / NAME, CassetteContent(held))
    os.utime(folder / NAME, (time.time() - 60,) * 2)


def on_disk(folder: Path) -> dict[str, str]:
    """Give the result of each recorded tool."""
    found = read_cassette(folder / NAME).interactions
    return {it.request.uri.removeprefix("tool://"): tool_answer(it.response).result for it in found}


@pytest.mark.parametrize(
    ("mode", "there", "answers", "kept"),
    [
        ("none", False, ("miss", "miss"), {}),
        ("none", True, ("old", "miss"), {"a": "old"}),
        ("once", False, ("new", "new"), {"a": "new", "b": "new"}),
        ("once", True, ("old", "miss"), {"a": "old"}),
        ("new_episodes", False, ("new", "new"), {"a": "new", "b": "new"}),
        ("new_episodes", True, ("old", "new"), {"a": "old", "b": "new"}),
        ("all", False, ("new", "new"), {"a": "new", "b": "new"}),
        ("all", True, ("new", "new"), {"a": "new", "b": "new"}),
    ],
)
def test_modes(
    tmp_path: Path, mode: str, there: bool, answers: tuple[str, str], kept: dict[str, str]
) -> None:
    """vcrpy's meaning: none plays, once records a new file, new_episodes adds, all records anew."""
    if there:
        before(tmp_path, a="old")
    library = Library(tmp_path)
    tape = library.open(NAME, mode, "tool")  # type: ignore[arg-type]  # parametrized as text

    assert (ask(tape, "a", "new"), ask(tape, "b", "new")) == answers
    library.save()

    assert on_disk(tmp_path) == kept
    assert (tape.hits, tape.recorded, tape.misses) == (
        answers.count("old"),
        answers.count("new"),
        answers.count("miss"),
    )


def test_all_drops_what_was_recorded_before_the_run_and_nothing_else(tmp_path: Path) -> None:
    """The first save drops the earlier run's; later saves, here or in another worker, add to each other."""
    before(tmp_path, a="old", z="old")
    started = time.time()
    here, there = Library(tmp_path, started=started), Library(tmp_path, started=started)
    first, other = here.open(NAME, "all", "tool"), there.open(NAME, "all", "tool")

    ask(first, "a", "new")
    here.save()
    ask(other, "b", "new")
    there.save()
    late = Library(tmp_path, started=started)
    ask(late.open(NAME, "all", "tool"), "c", "new")
    late.save()
    ask(first, "d", "new")
    here.save()

    assert on_disk(tmp_path) == {"a": "new", "b": "new", "c": "new", "d": "new"}


def test_all_keeps_the_old_recording_until_there_is_a_new_one(tmp_path: Path) -> None:
    """A run that recorded nothing deletes nothing."""
    before(tmp_path, a="old")
    library = Library(tmp_path)
    library.open(NAME, "all", "tool")

    assert library.save() == ()
    assert on_disk(tmp_path) == {"a": "old"}


def test_once_goes_on_recording_in_a_worker_that_opens_the_file_later(tmp_path: Path) -> None:
    """A file that the same run has written was not there before the run."""
    started = time.time()
    for tool in ("a", "b"):
        library = Library(tmp_path, started=started)
        ask(library.open(NAME, "once", "tool"), tool, "new")
        library.save()

    assert on_disk(tmp_path) == {"a": "new", "b": "new"}


def test_once_goes_on_recording_for_every_trial_of_the_process(tmp_path: Path) -> None:
    """Whether the file was there is asked when the process first opens it, not by each trial."""
    library = Library(tmp_path)
    for tool in ("a", "b"):
        ask(library.open(NAME, "once", "tool"), tool, "new")
        library.save()

    assert on_disk(tmp_path) == {"a": "new", "b": "new"}


@pytest.mark.parametrize("mode", ["once", "all"])
def test_trials_that_record_the_same_calls_store_them_once(tmp_path: Path, mode: str) -> None:
    """Eight repetitions that ask twice leave two recordings, not sixteen; each trial counts its own."""
    library = Library(tmp_path)
    tapes = [library.open(NAME, mode, "tool") for _ in range(8)]  # type: ignore[arg-type]  # as above
    answers = [ask(tape, "a", f"{turn}") for turn in (1, 2) for tape in tapes]
    library.save()

    assert answers == ["1"] * 8 + ["2"] * 8
    assert [tool_answer(it.response).result for it in read_cassette(tmp_path / NAME).interactions] == [
        "1",
        "2",
    ]
    assert [tape.recorded for tape in tapes] == [2] * 8


def test_new_episodes_sends_what_another_trial_has_recorded_only_once(tmp_path: Path) -> None:
    """What another trial has just recorded is there and is played; an identical call beyond it is new."""
    library = Library(tmp_path)
    first, second = (library.open(NAME, "new_episodes", "tool") for _ in range(2))

    assert [ask(first, "a", "1"), ask(first, "a", "2")] == ["1", "2"]
    assert [ask(second, "a", "x"), ask(second, "a", "y"), ask(second, "a", "3")] == ["1", "2", "3"]
    assert (second.hits, second.recorded) == (2, 1)


def test_only_what_is_new_is_saved(tmp_path: Path) -> None:
    """Saving after each trial touches no file that nothing was recorded into."""
    before(tmp_path, a="old")
    stamp = (tmp_path / NAME).stat().st_mtime_ns
    library = Library(tmp_path)
    ask(library.open(NAME, "new_episodes", "tool"), "a", "new")
    ask(library.open(Path("deep/b.yaml"), "once", "tool"), "b", "new")

    assert library.save() == (tmp_path / "deep" / "b.yaml",)
    assert library.save() == ()
    assert (tmp_path / NAME).stat().st_mtime_ns == stamp


def test_what_nobody_needed_is_told(tmp_path: Path) -> None:
    """Unused recordings are those that no tape of the process played or made."""
    before(tmp_path, a="old", b="old", c="old")
    library = Library(tmp_path)
    for tool in ("a", "c", "d"):
        ask(library.open(NAME, "new_episodes", "tool"), tool, "new")

    (cassette,) = library.cassettes
    assert [cassette.requests[slot].uri for slot in cassette.unused_slots] == ["tool://b"]
    assert len(cassette) == 4


def test_a_file_has_one_mode_and_one_kind(tmp_path: Path) -> None:
    """Two for one file are the user's mistake, by whichever name it is opened."""
    library = Library(tmp_path)
    library.open(NAME, "none", "tool")
    with pytest.raises(UsageMistake, match="is open as a tool cassette in mode none; it cannot be a chat"):
        library.open(tmp_path / ".." / tmp_path.name / NAME, "none", "chat")


def test_recording_into_a_replay_is_our_mistake(tmp_path: Path) -> None:
    """Nothing is recorded where nothing may be sent: that would be a fault of the caller."""
    with pytest.raises(RuntimeError, match=r"a.yaml is open for replay only: t\(\)"):
        Library(tmp_path).open(NAME, "none", "tool").record(tool_request("t", {}), tool_response())


def test_a_failed_save_loses_nothing(tmp_path: Path) -> None:
    """Every cassette is tried, all problems are told together, and the next save tries again."""
    library = Library(tmp_path)
    for name in ("dir/a.yaml", "dir/b.yaml", "c.yaml"):
        ask(library.open(Path(name), "once", "tool"), "t", "new")
    (tmp_path / "dir").write_text("in the way")
    with pytest.raises(ProblemsFound) as found:
        library.save()
    assert [problem.file for problem in found.value.problems] == ["dir/a.yaml", "dir/b.yaml"]
    assert (tmp_path / "c.yaml").exists()

    (tmp_path / "dir").unlink()
    assert len(library.save()) == 2
