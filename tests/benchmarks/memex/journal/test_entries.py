"""Where entries and cards are found."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from pytest_agenteval.benchmarks.memex.journal import fact_id, find_entry, read_file, write_file
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.tools.tool import ToolFailed

DAY = """# Thursday
## <id:ts_1> 08:30:00 "{}"

Heron again.

## <id:ts_12> 12:55:00 "{}"

Soup.
## not a heading of ours
More soup.

## <id:ts_2> 17:42:00 "{}"
"""


def test_a_fact_id_tells_its_files() -> None:
    """The id of an entry names the day's file and the card's file."""
    fact = fact_id("2026/09/17.md#ts_12")

    assert fact is not None
    assert fact.daily_file == "Facts/2026/09/17.md"
    assert fact.card_file == "Cards/2026/09/17_ts_12.yaml"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2026/09/17.md",
            "2026/9/17.md#ts_1",
            "2026/13/01.md#ts_1",
            "2026/02/30.md#ts_1",
            "2026/09/17.md#ts_",
        ),
        *(
            "../2026/09/17.md#ts_1",
            "2026/09/17.md#ts_1\n",
            "2026/09/17.md#ts_1x",
            "\u0662026/09/17.md#ts_1",
            None,
            5,
        ),
    ],
)
def test_what_is_no_fact_id_is_refused(text: object) -> None:
    """Only a real date and an entry number make a fact id, with nothing before or after."""
    assert fact_id(text) is None


@pytest.mark.parametrize(
    ("id", "clock", "text"),
    [
        ("ts_1", "08:30:00", "Heron again."),
        ("ts_12", "12:55:00", "Soup.\n## not a heading of ours\nMore soup."),
        ("ts_2", "17:42:00", ""),
    ],
)
def test_an_entry_runs_to_the_next_heading(id: str, clock: str, text: str) -> None:
    """An entry is found by its own number, not by a longer one that begins alike."""
    fact = fact_id(f"2026/09/17.md#{id}")
    assert fact is not None
    entry = find_entry(DAY, fact)

    assert entry is not None
    assert entry.written_at == datetime.fromisoformat(f"2026-09-17T{clock}")
    assert entry.text == text


@pytest.mark.parametrize("daily", [None, "", DAY, "## <id:ts_3> 25:00:00"])
def test_an_entry_that_is_not_there_is_none(daily: str | None) -> None:
    """No file, no heading and a heading without a proper time all mean that there is no such entry."""
    fact = fact_id("2026/09/17.md#ts_3")
    assert fact is not None

    assert find_entry(daily, fact) is None


def test_reading_makes_no_tree(tmp_path: Path) -> None:
    """Looking at a fixture's file does not copy the fixture."""
    (tmp_path / "a.md").write_text("hello", encoding="utf-8")
    workspace = Workspace([tmp_path])

    assert read_file(workspace, "a.md") == "hello"
    assert read_file(workspace, "b.md") is None
    assert not workspace.exists


@pytest.mark.posix
def test_nothing_is_read_or_written_through_a_link_that_leaves(tmp_path: Path) -> None:
    """A link in a fixture that points out of the tree leads nowhere."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text("x", encoding="utf-8")
    (inside / "Cards").symlink_to(outside)
    workspace = Workspace([], at=inside)

    assert read_file(workspace, "Cards/secret") is None
    with pytest.raises(ToolFailed, match="could not be written"):
        write_file(workspace, "Cards/card.yaml", "x")
    assert [file.name for file in outside.iterdir()] == ["secret"]
