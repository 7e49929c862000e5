"""What actors have recorded arrives in the project's cassettes: united, differences told."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_agenteval.cassettes import cassette_files
from pytest_agenteval.cassettes.cassette_files import CassetteContent
from pytest_agenteval.cassettes.interaction import Interaction, tool_answer, tool_call, tool_interaction
from pytest_agenteval.engine.cluster.transfer import RecordingMerger

NAME = "cassettes/t.yaml"


def look(at: str, seen: str = "") -> Interaction:
    """Give a recorded call."""
    return tool_interaction("look", {"at": at}, result=seen or f"seen {at}")


def content(folder: Path, *interactions: Interaction) -> bytes:
    """Give the file that an actor has with these."""
    path = folder / "there.yaml"
    cassette_files.write_cassette(path, CassetteContent(interactions))
    return path.read_bytes()


def held(root: Path) -> list[tuple[str, str]]:
    """Give what the project's cassette holds: what was looked at, and what was seen."""
    there = cassette_files.read_cassette(root / NAME).interactions
    return [(tool_call(each.request)[1]["at"], tool_answer(each.response).result) for each in there]


def test_what_several_recorded_is_united(tmp_path: Path) -> None:
    """What was there stays first, then what is new as it comes, equal ones once."""
    (tmp_path / "cassettes").mkdir()
    cassette_files.write_cassette(tmp_path / NAME, CassetteContent((look("z"),), header="# by hand\n"))
    home = RecordingMerger(tmp_path, None)
    for sent in ((look("z"), look("c"), look("a")), (look("z"), look("b"), look("a"))):
        home.take(NAME, content(tmp_path, *sent), replacing=False)

    assert list(home.other_answers()) == []
    assert not home.problems
    assert [at for at, _ in held(tmp_path)] == ["z", "c", "a", "b"]
    assert (tmp_path / NAME).read_text().startswith("# by hand\n")


def test_another_answer_to_one_request_is_told(tmp_path: Path) -> None:
    """The first stays; that there was another is said with the file's name."""
    home = RecordingMerger(tmp_path, None)
    home.take(NAME, content(tmp_path, look("a", "sun"), look("b")), replacing=False)
    home.take(NAME, content(tmp_path, look("a", "rain"), look("b")), replacing=False)

    (said,) = home.other_answers()

    assert said == f"{NAME}: actors recorded different results of 1 recorded call; the first ones are stored"
    assert ("a", "sun") in held(tmp_path)
    assert ("a", "rain") not in held(tmp_path)


def test_recorded_anew_what_was_there_before_the_run_goes_once(tmp_path: Path) -> None:
    """Under `all` an old recording is replaced by the first actor's, to which the second's is added."""
    (tmp_path / "cassettes").mkdir()
    cassette_files.write_cassette(tmp_path / NAME, CassetteContent((look("old"),)))
    os.utime(tmp_path / NAME, (1_000_000, 1_000_000))
    home = RecordingMerger(tmp_path, 2_000_000.0)

    home.take(NAME, content(tmp_path, look("b")), replacing=True)
    home.take(NAME, content(tmp_path, look("a")), replacing=True)

    assert [at for at, _ in held(tmp_path)] == ["b", "a"]


def test_what_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    """It is told at the end of the run as any recording that could not be written."""
    (tmp_path / "cassettes").write_text("a file in the folder's place")
    home = RecordingMerger(tmp_path, None)

    home.take(NAME, content(tmp_path, look("a")), replacing=False)

    assert [problem.file for problem in home.problems] == [NAME]
