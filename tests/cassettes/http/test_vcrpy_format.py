"""Cassettes are in vcrpy's format: vcrpy plays what was recorded here, and what it recorded is played."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from pytest_agenteval.cassettes.http.patches import remove, taped_http
from pytest_agenteval.cassettes.tape import Library
from tests.cassettes.http.server import Server

vcr = pytest.importorskip("vcr")
httpx = pytest.importorskip("httpx")
requests = pytest.importorskip("requests")


def ask_both(base: str, word: str) -> list[tuple[int, str]]:
    """Ask with two libraries, and give what they were answered."""
    with httpx.Client(verify=False) as client:
        one = client.get(f"{base}/find", params={"q": word})
    two = requests.get(f"{base}/zipped", timeout=60)
    return [(one.status_code, one.text), (two.status_code, two.text)]


def test_vcrpy_plays_what_was_recorded_here(server: Server, tmp_path: Path) -> None:
    """With its own stubs, in mode none: status and text of each library are the same, and nothing is sent."""
    library = Library(tmp_path)
    with taped_http(library.open(Path("t.yaml"), "once", "tool")):
        live = ask_both(server.base, "서울")
    library.save()
    remove()
    before = len(server.asked)
    with vcr.use_cassette(str(tmp_path / "t.yaml"), record_mode="none"):
        assert ask_both(server.base, "서울") == live
    assert len(server.asked) == before


def test_what_vcrpy_recorded_is_played_here(server: Server, tmp_path: Path) -> None:
    """A team's cassettes can be brought along as they are."""
    with vcr.use_cassette(str(tmp_path / "t.yaml"), record_mode="once"):
        live = ask_both(server.base, "서울")
    before = len(server.asked)
    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")):
        assert ask_both(server.base, "서울") == live
    assert len(server.asked) == before


def test_two_trials_at_once_mix_with_stock_vcrpy_and_not_here(server: Server, tmp_path: Path) -> None:
    """The reason for a patch of our own: vcrpy's belongs to the process, so that trials share a cassette."""
    _two_at_once(server, lambda name: vcr.use_cassette(str(tmp_path / f"vcr-{name}.yaml")))
    for original in vcr.patch.reset_patchers():
        original.start()  # who left last has put the other's stub back, for this process and for good
    library = Library(tmp_path)
    _two_at_once(server, lambda name: taped_http(library.open(Path(f"ours-{name}.yaml"), "once", "tool")))
    library.save()

    assert [_held(tmp_path / f"ours-{name}.yaml") for name in "ab"] == [(5, 0), (0, 5)]
    assert [_held(tmp_path / f"vcr-{name}.yaml") for name in "ab"] != [(5, 0), (0, 5)]


def _two_at_once(server: Server, taped: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Let two threads ask five times each while both have a cassette open."""
    both = Barrier(2, timeout=60)

    def trial(name: str) -> None:
        with taped(name):
            both.wait()
            for n in range(5):
                requests.get(f"{server.base}/find", {"q": name, "n": n}, timeout=60)
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(trial, "ab"))


def _held(path: Path) -> tuple[int, int]:
    """Count the requests of each trial in a cassette, which may not be there at all."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    uris = [line for line in lines if "uri:" in line]
    return sum("q=a" in line for line in uris), sum("q=b" in line for line in uris)
