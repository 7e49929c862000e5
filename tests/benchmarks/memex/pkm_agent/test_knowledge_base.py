"""Where the file tools reach: the knowledge base, and nothing else."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.pkm_agent.agent import pkm_tools
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import format_path, parts_of
from pytest_agenteval.records.limits import Clock
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.tools.tool import ToolFailed

from .called import FILES, Called

careful = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = """
..|.|~|PKM|Areas|Choir|Inbox.md|out|in|gone|loop|secret.md|tmp|etc|Facts|..\\..|C:|한글|é|e\u0301|\0|...|*|a\nb
"""
names = st.sampled_from(["", *NAMES[1:-1].split("|")]) | st.text(max_size=5)
paths = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "//", "~/", "./", "../", "/../"]),
    st.lists(names, max_size=6),
    st.sampled_from(["", "/"]),
)


def every_file_tool(path: str, other: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give one call of each file tool with the paths in every place where one can stand."""
    yield "Read", {"file_path": path}
    yield "BatchRead", {"file_patterns": [path, other]}
    yield "LS", {"path": path}
    yield "Glob", {"pattern": path, "path": other}
    yield "Write", {"file_path": path, "content": "written"}
    yield "Edit", {"file_path": path, "old_string": "written", "new_string": "edited"}
    yield "Edit", {"file_path": path, "old_string": "treasure", "new_string": "edited"}
    yield "Edit", {"file_path": other, "old_string": "", "new_string": "edited"}
    yield "Move", {"source_path": path, "destination_path": other, "overwrite": True}
    yield "Remove", {"path": path, "confirm": True}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What no tool may reach: a folder with a secret."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("treasure")
    return folder


@pytest.fixture
def tools(tmp_path: Path, outside: Path) -> Called:
    """A knowledge base with links in it: out of it, to another part of it, to nothing, and in a circle."""
    made = Called(tmp_path / "tree")
    pkm = tmp_path / "tree/PKM"
    if os.name != "posix":  # there links are a privilege
        return made
    (pkm / "out").symlink_to(outside)
    (pkm / "out.md").symlink_to(outside / "secret.md")
    (pkm / "in").symlink_to("Areas")
    (pkm / "in.md").symlink_to("Inbox.md")
    (pkm / "gone").symlink_to("nowhere")
    (pkm / "gone.md").symlink_to("../Facts/new.md")
    (pkm / "loop").symlink_to("loop")
    return made


def everything_but_the_knowledge_base(tools: Called) -> Mapping[str, bytes]:
    """Look at each file around the knowledge base."""
    top = tools.root.parent
    files = (Path(folder, name) for folder, _, names in os.walk(top) for name in names)
    outside = (file for file in files if not file.is_relative_to(tools.root / "PKM"))
    return {str(file): file.read_bytes() for file in outside}


@careful
@given(paths, paths)
def test_whatever_path_is_given_nothing_outside_is_touched(tools: Called, path: str, other: str) -> None:
    """No tool reads, writes, moves or removes anything beyond the root, links followed or not."""
    before = everything_but_the_knowledge_base(tools)
    for tool, args in every_file_tool(path, other):
        result = tools.call(tool, args)
        assert "treasure" not in result.content
    assert everything_but_the_knowledge_base(tools) == before


@careful
@given(paths, paths)
def test_whatever_path_is_given_it_is_the_tool_that_says_no(tools: Called, path: str, other: str) -> None:
    """A path that is no good is an error of the tool's own, which names no place on the real disk."""
    error_types = {
        "outside",
        "not_found",
        "not_a_folder",
        "is_a_folder",
        "bad_arguments",
        "exists",
        "same_place",
    }
    error_types |= {"no_match", "not_text", "ambiguous", "disk"}
    for tool, args in every_file_tool(path, other):
        error = tools.call(tool, args).error
        if error is not None:
            assert error.type in error_types
            assert str(tools.root) not in error.message


@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="/\\~:"), min_size=1
        )
    )
)
def test_names_are_kept_letter_by_letter(parts: list[str]) -> None:
    """A path leads to the names that it is written with, whichever Unicode form they have."""
    named = [part for part in parts if part not in (".", "..")]
    assert parts_of("/" + "/".join(named)) == tuple(named)
    assert parts_of("/".join(named)) == tuple(named)


@given(paths)
def test_a_path_that_was_read_is_read_again_as_the_same(path: str) -> None:
    """What a tool calls a place is a path to that place."""
    try:
        parts = parts_of(path)
    except ToolFailed:
        return
    assert parts_of(format_path(parts)) == parts


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", ()),
        ("/", ()),
        (".", ()),
        ("/Areas/X.md", ("Areas", "X.md")),
        ("Areas/X.md", ("Areas", "X.md")),
        ("./Areas//./X.md", ("Areas", "X.md")),
        ("Areas/../Inbox.md", ("Inbox.md",)),
        ("Areas/Choir/..", ("Areas",)),
        ("Areas/...", ("Areas", "...")),
        ("/Areas/a~b.md", ("Areas", "a~b.md")),
        (" Areas ", (" Areas ",)),
    ],
)
def test_paths_start_at_the_root(path: str, parts: tuple[str, ...]) -> None:
    """A first slash makes no difference; dots, doubled slashes and steps back come out."""
    assert parts_of(path) == parts


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "/..",
        "Areas/../../Facts/2026/09/17.md",
        "/../PKM/Inbox.md",
        "~",
        "~/Inbox.md",
        "~root/Inbox.md",
        "/~/Inbox.md",
        "Inbox.md\0",
        "In\nbox.md",
        "..\\..\\Inbox.md",
        "C:/Inbox.md",
        "c:\\Inbox.md",
        "/etc/passwd",
        "/tmp/notes/Inbox.md",
        "/Users/me/Inbox.md",
    ],
)
def test_what_can_be_no_path_of_the_knowledge_base_is_refused(tools: Called, path: str) -> None:
    """Steps out of the root, homes, drives, zero bytes and paths of the machine are refused by every tool."""
    before = tools.tree()
    for tool, args in every_file_tool(path, "/Areas"):
        if tool == "Glob" or tool == "BatchRead" or "edited" in args.values():
            continue
        kind, message = tools.refused(tool, **args)
        assert kind == "outside"
        assert "from the root, like /Areas/" in message
    assert tools.refused("Glob", pattern="*", path=path)[0] == "outside"
    assert tools.refused("Grep", pattern="x", path=path)[0] == "outside"
    assert tools.refused("Move", source_path="/Inbox.md", destination_path=path)[0] == "outside"
    assert "no path in the knowledge base" in tools.ok("BatchRead", file_patterns=[path])
    assert tools.tree() == before


def test_a_folder_of_the_user_may_be_called_as_one_of_the_machine(tmp_path: Path) -> None:
    """Where the knowledge base has a folder of that name, the path means it."""
    tools = Called(tmp_path, {"PKM/home/Garden.md": "roses\n"})

    assert tools.ok("Read", file_path="/home/Garden.md").endswith("roses")


@pytest.mark.parametrize(
    "path",
    [
        "out.md",
        "in.md",
        "gone.md",
        "out",
        "in",
        "gone",
        "loop",
        "out/secret.md",
        "in/Choir/Voice.md",
        "gone/x",
    ],
)
@pytest.mark.posix
def test_symbolic_links_are_refused(tools: Called, path: str) -> None:
    """A link is not followed wherever it leads, also to nothing, as the target or on the way."""
    before = tools.tree()
    for tool, args in every_file_tool(path, path):
        if tool != "BatchRead":
            kind, message = tools.refused(tool, **args)
            assert (kind, "symbolic link" in message) == ("outside", True)
    assert tools.refused("Move", source_path="/Inbox.md", destination_path=path)[0] == "outside"
    assert "symbolic link" in tools.ok("BatchRead", file_patterns=[path])
    assert tools.tree() == before
    assert (tools.root / "PKM" / path.split("/")[0]).is_symlink()


@pytest.mark.posix
def test_lists_and_searches_pass_links_by(tools: Called) -> None:
    """What is behind a link is neither listed nor found nor searched."""
    assert "out" not in tools.ok("LS", path="/")
    assert "secret" not in tools.ok("Glob", pattern="**")
    assert tools.ok("Grep", pattern="treasure").startswith("No match")
    assert tools.ok("Glob", pattern="**/Voice.md") == "/Areas/Choir/Voice.md"


@pytest.mark.posix
def test_removing_and_moving_folders_leaves_alone_what_their_links_lead_to(
    tools: Called, outside: Path
) -> None:
    """A folder goes with the links in it, and no further."""
    (tools.root / "PKM/Areas/Choir/away").symlink_to(outside)

    tools.ok("Move", source_path="/Areas/Choir", destination_path="/Archives/Choir")
    tools.ok("Remove", path="/Archives", confirm=True)

    assert (outside / "secret.md").read_text() == "treasure"


@pytest.mark.posix
def test_a_knowledge_base_that_is_itself_a_link_is_refused(tmp_path: Path, outside: Path) -> None:
    """The root may not lead out either."""
    tools = Called(tmp_path / "tree", {})
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/PKM").symlink_to(outside)

    assert tools.refused("Read", file_path="secret.md")[0] == "outside"
    assert tools.refused("Write", file_path="new.md", content="x")[0] == "outside"
    assert [file.name for file in outside.iterdir()] == ["secret.md"]


def test_two_unicode_forms_are_two_names(tools: Called) -> None:
    """A composed and a decomposed name are kept apart, as the disk does."""
    composed = unicodedata.normalize("NFC", "Café.md")
    tools.ok("Write", file_path=composed, content="one\n")

    kind, _ = tools.refused("Read", file_path=unicodedata.normalize("NFD", composed))
    assert kind == "not_found"
    assert tools.file(composed) == b"one\n"


@pytest.mark.parametrize("tool", ["Read", "Write", "LS", "Glob", "Grep"])
def test_a_path_through_a_file_is_refused(tools: Called, tool: str) -> None:
    """A file holds no files."""
    args = {"file_path": "/Inbox.md/x", "content": "x", "path": "/Inbox.md/x", "pattern": "x"}

    assert tools.refused(tool, **args) == ("not_a_folder", "/Inbox.md is a file, so nothing lies below it")


def test_a_name_that_no_disk_takes_is_an_error(tools: Called) -> None:
    """The disk's own refusal is told without a real path."""
    kind, message = tools.refused("Write", file_path="/Areas/" + "x" * 300, content="x")

    assert kind == "disk"
    assert str(tools.root) not in message


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "Move", "Remove"])
def test_half_a_character_is_refused(tools: Called, tool: str) -> None:
    """A lone surrogate, which JSON can carry and a file cannot, never reaches the disk."""
    path = "a\ud800.md"
    args = {"file_path": path, "source_path": path, "path": path, "content": "x", "new_string": "x"}
    args |= {"old_string": "", "destination_path": "/x", "confirm": "yes"}

    before = tools.tree()

    kind, message = tools.refused(tool, **args)

    assert (kind, "half a character" in message) == ("bad_arguments", True)
    assert tools.tree() == before


def test_the_tree_is_made_when_it_is_first_used(tmp_path: Path) -> None:
    """Making the tools makes no tree: a trial that calls none costs none."""
    Called(tmp_path / "layer", FILES)
    workspace = Workspace([tmp_path / "layer"], parent=tmp_path / "trees")
    tools = {tool.spec.name: tool for tool in pkm_tools(workspace, Clock())}
    assert not workspace.exists

    assert "varnish" in str(tools["Read"].function({"file_path": "/Projects/Kayak.md"}))
    assert workspace.exists
