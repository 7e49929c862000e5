"""Files that are replaced whole leave nothing beside them, whatever becomes of the writing."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import CassetteContent, write_cassette
from pytest_agenteval.cassettes.interaction import tool_interaction
from pytest_agenteval.store.record_files import replace_json, replace_link, replace_text
from pytest_agenteval.text.errors import AgentEvalError

LONG = "x" * 100_000
CALL = tool_interaction("search", {"q": LONG}, result="found")
WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: replace_text(path, LONG),
    "json": lambda path: replace_json(path, [LONG]),
    "cassette": lambda path: write_cassette(path, CassetteContent((CALL,))),
}


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes; Python is told by an error, as of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, kind: str) -> None:
    """Half a new file stays nowhere: not in place of the old one, and not beside it."""
    path = tmp_path / ("it.yaml" if kind == "cassette" else "it.json")
    path.write_text("old", encoding="utf-8")
    with full_disk(1000), pytest.raises((OSError, AgentEvalError)):
        WRITERS[kind](path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize(
    "replace", [lambda path: replace_text(path, "new"), lambda path: replace_link(path, "x")]
)
def test_what_cannot_be_replaced_stays_and_nothing_lies_beside_it(
    tmp_path: Path, replace: Callable[[Path], object]
) -> None:
    """A folder stands where the file should be: the new text goes, too."""
    place = tmp_path / "latest"
    (place / "full").mkdir(parents=True)
    with suppress(OSError):
        replace(place)
    assert [file.name for file in tmp_path.iterdir()] == ["latest"]
    assert (place / "full").is_dir()
