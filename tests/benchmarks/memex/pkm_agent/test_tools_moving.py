"""Moving and removing files and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import MOST_LEVELS

from .called import Called

KAYAK = "/Projects/Kayak.md"


@pytest.fixture
def tools(tmp_path: Path) -> Called:
    """A small knowledge base."""
    return Called(tmp_path)


def paths(tools: Called) -> set[str]:
    """Give the paths of all files of the knowledge base."""
    return {path.removeprefix("PKM") for path in tools.tree() if path.startswith("PKM/")}


@pytest.mark.parametrize(
    ("source", "destination", "target"),
    [
        (KAYAK, "/Projects/Boat.md", "/Projects/Boat.md"),
        (KAYAK, "/Archives/2026/Kayak.md", "/Archives/2026/Kayak.md"),
        (KAYAK, "/Areas", "/Areas/Kayak.md"),
        (KAYAK, "/Areas/", "/Areas/Kayak.md"),
        (KAYAK, "/", "/Kayak.md"),
        (KAYAK, "/Archives/", "/Archives/Kayak.md"),
        ("/Areas/Choir", "/Archives/Choir", "/Archives/Choir/Voice.md"),
        ("/Areas/Choir", "/Resources", "/Resources/Choir/Voice.md"),
        ("Areas/Choir/", "/Singing", "/Singing/Voice.md"),
    ],
)
def test_a_move_goes_where_mv_goes(tools: Called, source: str, destination: str, target: str) -> None:
    """To the new path, or into the folder that is there or that the slash asks for; folders are made."""
    before = paths(tools)
    tools.ok("Move", source_path=source, destination_path=destination)

    after = paths(tools)
    assert target in after
    assert len(after) == len(before)
    assert not any(path.startswith(source.strip("/")) for path in after)


def test_a_move_says_where_to(tools: Called) -> None:
    """The result names both ends, as they are now."""
    result = tools.ok("Move", source_path="Inbox.md", destination_path="Areas")

    assert result == "Moved /Inbox.md to /Areas/Inbox.md."


def test_the_bytes_of_a_file_move_unchanged(tools: Called) -> None:
    """Also what is not text is moved."""
    tools.put("PKM/Photo.jpg", b"\xff\xd8")

    tools.ok("Move", source_path="Photo.jpg", destination_path="/Resources/Photo.jpg")

    assert tools.file("Resources/Photo.jpg") == b"\xff\xd8"


@pytest.mark.parametrize(
    ("source", "destination", "kind", "words"),
    [
        ("/Nothing.md", "/Areas", "not_found", "there is no /Nothing.md"),
        (KAYAK, KAYAK, "same_place", "/Projects/Kayak.md is there already"),
        (KAYAK, "/Projects", "same_place", "is there already"),
        (KAYAK, "/Projects/../Projects/./Kayak.md", "same_place", "is there already"),
        ("/Areas", "/Areas", "same_place", "/Areas is there already"),
        ("/Areas", "/", "same_place", "/Areas is there already"),
        ("/Areas", "/Areas/Choir", "same_place", "cannot be moved into itself"),
        ("/Areas", "/Areas/New/Place", "same_place", "cannot be moved into itself"),
        (KAYAK, "/Inbox.md", "exists", "/Inbox.md is there already"),
        (KAYAK, "/Inbox.md/", "not_a_folder", "/Inbox.md is a file"),
        (KAYAK, "/Inbox.md/x.md", "not_a_folder", "/Inbox.md is a file"),
        ("/Areas", "/Inbox.md", "exists", "/Inbox.md is a file, and /Areas is none"),
        ("/", "/Areas", "bad_arguments", "the root itself cannot be moved"),
        ("/Areas/..", "/Archives", "bad_arguments", "the root itself cannot be moved"),
        (KAYAK, "/../Kayak.md", "outside", ".. leads out of the root"),
        (" ", "/Areas", "bad_arguments", "source_path must not be empty"),
        (KAYAK, "", "bad_arguments", "destination_path must not be empty"),
        (KAYAK, "/" + "a/" * MOST_LEVELS, "outside", f"at most {MOST_LEVELS} levels"),
        ("/Areas", "/" + "a/" * (MOST_LEVELS - 2) + "b", "bad_arguments", f"at most {MOST_LEVELS} levels"),
    ],
)
def test_a_move_that_cannot_be_made_changes_nothing(
    tools: Called, source: str, destination: str, kind: str, words: str
) -> None:
    """Onto itself, into itself, over another, through a file, out of the root: each has its error."""
    before = tools.tree()

    error_type, message = tools.refused("Move", source_path=source, destination_path=destination)

    assert (error_type, words in message) == (kind, True), message
    assert tools.tree() == before


def test_a_file_is_replaced_only_where_told_to(tools: Called) -> None:
    """With overwrite the file that was there is gone, and that is said."""
    result = tools.ok("Move", source_path=KAYAK, destination_path="/Inbox.md", overwrite=True)

    assert result == "Moved /Projects/Kayak.md to /Inbox.md, over what was there."
    assert tools.file("Inbox.md").startswith(b"# Kayak")


def test_a_folder_with_something_in_it_is_never_replaced(tools: Called) -> None:
    """Overwriting a folder would lose every note in it: only an empty one gives way."""
    tools.put("PKM/Archives/Choir/Old.md", b"old\n")
    args = {"source_path": "/Areas/Choir", "destination_path": "/Archives", "overwrite": True}

    assert tools.refused("Move", **args)[0] == "exists"
    tools.ok("Remove", path="/Archives/Choir/Old.md", confirm=True)
    tools.ok("Move", **args)
    assert tools.file("Archives/Choir/Voice.md").startswith(b"# Voice")


@pytest.mark.parametrize(
    ("path", "result", "left"),
    [
        (KAYAK, "Removed /Projects/Kayak.md.", 4),
        ("/Areas", "Removed /Areas with 2 files in it.", 3),
        ("Areas/Choir/", "Removed /Areas/Choir with 2 files in it.", 3),
        ("/Projects", "Removed /Projects with 1 file in it.", 4),
    ],
)
def test_what_is_removed_is_gone_with_all_that_is_in_it(
    tools: Called, path: str, result: str, left: int
) -> None:
    """A folder goes as a whole, and the result counts its files."""
    assert tools.ok("Remove", path=path, confirm=True) == result
    assert len(paths(tools)) == left


@pytest.mark.parametrize("confirm", [None, False, "true", 1])
def test_nothing_is_removed_unless_it_is_confirmed(tools: Called, confirm: object) -> None:
    """Only a plain yes is one."""
    before = tools.tree()

    kind, message = tools.refused("Remove", path="/Areas", confirm=confirm)

    assert (kind, "confirm must be true" in message) == ("bad_arguments", True)
    assert tools.tree() == before


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "bad_arguments"),
        (".", "bad_arguments"),
        ("/Areas/..", "bad_arguments"),
        ("", "bad_arguments"),
        ("/Nothing", "not_found"),
        ("/..", "outside"),
        ("../Facts", "outside"),
    ],
)
def test_the_root_and_what_is_not_there_cannot_be_removed(tools: Called, path: str, kind: str) -> None:
    """However the root is written, it stays."""
    before = tools.tree()

    assert tools.refused("Remove", path=path, confirm=True)[0] == kind
    assert tools.tree() == before
