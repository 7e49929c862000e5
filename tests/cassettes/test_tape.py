"""One trial's play counts: order, repeats, extra calls, other trials and threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.interaction import (
    Interaction,
    tool_answer,
    tool_interaction,
    tool_request,
    tool_response,
)
from pytest_agenteval.cassettes.tape import Library, Tape


def search(word: str, result: str) -> Interaction:
    """Give a recorded search."""
    return tool_interaction("search", {"q": word}, result=result)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library over one recording: a asked twice, b once, c once."""
    held = (search("a", "a1"), search("b", "b1"), search("a", "a2"), search("c", "c1"))
    write_cassette(tmp_path / "x.yaml", CassetteContent(held))
    return Library(tmp_path)


def ask(tape: Tape, word: str, tool: str = "search") -> str | None:
    """Give what the tape plays, or None."""
    played = tape.play(tool_request(tool, {"q": word}))
    return tool_answer(played).result if played else None


def test_calls_play_in_any_order(library: Library) -> None:
    """The agent decides: its calls are answered in whatever order, extra ones miss, and the rest plays on."""
    tape = library.open(Path("x.yaml"), "none", "tool")

    assert [ask(tape, word) for word in "cazba"] == ["c1", "a1", None, "b1", "a2"]
    assert (tape.hits, tape.misses, tape.recorded) == (4, 1, 0)


def test_identical_calls_play_their_recordings_in_order_then_the_last_again(library: Library) -> None:
    """A tool asked again beyond what was recorded answers as it did last."""
    tape = library.open(Path("x.yaml"), "none", "tool")

    assert [ask(tape, "a") for _ in range(4)] == ["a1", "a2", "a2", "a2"]


def test_in_a_chats_cassette_one_request_too_many_is_a_miss(library: Library) -> None:
    """An ask has its own number, so a second one is a fault of the caller."""
    tape = library.open(Path("x.yaml"), "none", "chat")

    assert [ask(tape, "a") for _ in range(3)] == ["a1", "a2", None]


def test_trials_do_not_use_up_each_others_recordings(library: Library) -> None:
    """Every tape has counts of its own."""
    tapes = [library.open(Path("x.yaml"), "none", "tool") for _ in range(3)]

    assert [ask(tape, "a") for _ in range(2) for tape in tapes] == ["a1"] * 3 + ["a2"] * 3


def test_threads_play_each_recording_once(tmp_path: Path) -> None:
    """The calls of a turn may overlap: from many threads, each recording is played exactly once."""
    write_cassette(tmp_path / "x.yaml", CassetteContent(tuple(search("a", f"{n}") for n in range(200))))
    tape = Library(tmp_path).open(Path("x.yaml"), "none", "chat")

    with ThreadPoolExecutor(8) as pool:
        played = list(pool.map(lambda _: ask(tape, "a"), range(210)))

    assert sorted(filter(None, played)) == sorted(f"{n}" for n in range(200))
    assert (tape.hits, tape.misses) == (200, 10)


def test_threads_record_everything_once(tmp_path: Path) -> None:
    """Trials in several threads that record and save the same calls store each one, and no one twice."""
    library = Library(tmp_path)

    def trial(_: int) -> int:
        tape = library.open(Path("x.yaml"), "once", "tool")
        for n in range(25):
            tape.record(tool_request("t", {"n": n}), tool_response(n))
        library.save()
        return tape.recorded

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(trial, range(8))) == [25] * 8

    again = Library(tmp_path).open(Path("x.yaml"), "none", "tool")
    assert [tool_answer(it.response).result for it in again.cassette.interactions] == list(range(25))


def seconds_for_asks(folder: Path, size: int) -> float:
    """Time 300 asks, spread over a recording of that size; the best of five."""
    write_cassette(folder / f"{size}.json", CassetteContent(tuple(search(f"w{n}", "r") for n in range(size))))
    tape = Library(folder).open(Path(f"{size}.json"), "none", "tool")
    words = [f"w{n * 7919 % size}" for n in range(300)]

    def once() -> float:
        begun = time.process_time()
        assert all(ask(tape, word) for word in words)
        return time.process_time() - begun

    return min(once() for _ in range(5))


def test_looking_up_costs_the_same_in_a_large_recording(tmp_path: Path) -> None:
    """Among 1,500 recordings a call is found about as fast as among 10."""
    assert seconds_for_asks(tmp_path, 1500) < 3 * seconds_for_asks(tmp_path, 10)


def test_identical_calls_cost_the_same_the_thousandth_time(tmp_path: Path) -> None:
    """Played recordings are not walked over again and again: 3,000 equal calls take no minute."""
    write_cassette(tmp_path / "x.json", CassetteContent(tuple(search("a", f"{n}") for n in range(3000))))
    tape = Library(tmp_path).open(Path("x.json"), "none", "tool")

    begun = time.process_time()
    assert [ask(tape, "a") for _ in range(3000)] == [f"{n}" for n in range(3000)]
    assert time.process_time() - begun < 2


def test_a_file_and_a_link_to_it_are_one_cassette(library: Library, tmp_path: Path) -> None:
    """What one trial records by the one name, another must not write over by the other."""
    (tmp_path / "y.yaml").symlink_to("x.yaml")

    tapes = [library.open(Path(name), "none", "tool") for name in ("x.yaml", "y.yaml")]

    assert tapes[0].cassette is tapes[1].cassette
    assert len(library.cassettes) == 1
