"""Seeing what is there: the tree, the overview, and globs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import overview
from pytest_agenteval.benchmarks.memex.rules import files_of
from pytest_agenteval.records.limits import Clock
from pytest_agenteval.text.errors import FixtureBroken

from .called import NOW, Called

TREE = """\
/
  Areas/
    Choir/
      Repertoire.md
      Voice.md
  Inbox.md
  Projects/
    Kayak.md
  Resources/
    Bread.md"""


@pytest.fixture
def tools(tmp_path: Path) -> Called:
    """A small knowledge base."""
    return Called(tmp_path)


def test_a_folder_is_listed_as_a_tree(tools: Called) -> None:
    """Names stand below their folder, two spaces a level, by name; a folder ends with a slash."""
    assert tools.ok("LS", path="/") == TREE
    assert tools.ok("LS", path="") == TREE
    assert tools.ok("LS", path="Areas/Choir/") == "/Areas/Choir/\n  Repertoire.md\n  Voice.md"


def test_hidden_names_are_left_out(tools: Called) -> None:
    """What starts with a dot is neither listed nor found, nor what is in such a folder."""
    tools.put("PKM/.keep")
    tools.put("PKM/.hidden/Note.md", b"needle\n")

    assert tools.ok("LS", path="/") == TREE
    assert "hidden" not in tools.ok("Glob", pattern="**")
    assert tools.ok("Grep", pattern="needle").startswith("No match")


def test_a_tree_is_three_levels_deep(tools: Called) -> None:
    """Deeper levels are asked for; a folder at the last level says how many names it holds."""
    tools.put("PKM/Areas/Choir/Old/2019.md")
    tools.put("PKM/Areas/Choir/Old/2020.md")

    assert "      Old/\n        … 2 more\n" in tools.ok("LS", path="/")
    assert "      Old/\n        2019.md\n        2020.md\n" in tools.ok("LS", path="/", depth=4)
    assert tools.ok("LS", path="/", depth=1) == (
        "/\n  Areas/\n    … 1 more\n  Inbox.md\n  Projects/\n    … 1 more\n  Resources/\n    … 1 more"
    )


@pytest.mark.parametrize(
    ("ignore", "gone"),
    [
        (["*.md"], [".md"]),
        ("Choir", ["Choir", "Voice"]),
        (["Choir/"], ["Choir"]),
        (["/Areas/Choir/V*"], ["Voice"]),
        (["Areas/**"], ["Choir"]),
        (["**/Bread.md", "Inbox.*"], ["Bread", "Inbox"]),
    ],
)
def test_ignored_names_are_left_out(tools: Called, ignore: object, gone: list[str]) -> None:
    """A glob without a slash means a name at any level, one with a slash a path from the root."""
    listed = tools.ok("LS", path="/", ignore=ignore)

    assert not any(name in listed for name in gone)
    assert "Projects/" in listed


def test_a_tree_stops_at_a_thousand_names(tools: Called) -> None:
    """A longer list is cut, level by level, and says where and that there is more."""
    for number in range(600):
        tools.put(f"PKM/Many/{number:03}.md")
        tools.put(f"PKM/More/{number:03}.md")

    listed = tools.ok("LS", path="/")

    # 6 names at the root, 1 in Areas and 600 in Many leave room for 393 of More's 600.
    assert listed.count("\n  ") - listed.count("… ") == 1000
    assert "    … 207 more\n" in listed
    assert listed.endswith("\n\n(Stopped at 1000 names. List a folder by itself to see more of it.)")


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ({"path": "/Nothing"}, "not_found"),
        ({"path": "/Inbox.md"}, "not_a_folder"),
        ({"path": "/.."}, "outside"),
        ({"path": "/", "depth": 0}, "bad_arguments"),
        ({"path": "/", "ignore": [7]}, "bad_arguments"),
        ({"path": 7}, "bad_arguments"),
    ],
)
def test_what_is_no_folder_is_not_listed(tools: Called, args: dict[str, object], kind: str) -> None:
    """A missing path, a file, a path that leads out and a bad argument are errors."""
    assert tools.refused("LS", **args)[0] == kind


def test_the_overview_shows_everything(tools: Called) -> None:
    """The first message's tree goes all the way down, and counts the names it shows."""
    tools.put("PKM/Areas/Choir/Old/2019/May.md")

    view = overview(tools.workspace, Clock(NOW))

    assert view.tree == TREE.replace(
        "    Choir/\n", "    Choir/\n      Old/\n        2019/\n          May.md\n"
    )
    assert (view.entries, view.truncated) == (12, False)


@pytest.mark.parametrize("files", [{}, {"PKM/.keep": ""}, {"Facts/2026/09/17.md": "x"}])
def test_the_overview_of_a_new_user_is_empty(tmp_path: Path, files: dict[str, str]) -> None:
    """No folder, an empty one, or one with hidden names only: there is nothing."""
    view = overview(Called(tmp_path, files).workspace, Clock(NOW))

    assert (view.tree, view.entries, view.truncated) == ("/", 0, False)


def test_the_overview_says_that_it_was_cut(tools: Called) -> None:
    """Above a thousand names the upper levels are shown, and what is missing is counted in its place."""
    for number in range(1100):
        tools.put(f"PKM/Areas/Choir/Songs/{number:04}.md")

    view = overview(tools.workspace, Clock(NOW))

    assert (view.entries, view.truncated) == (1000, True)
    assert "  Resources/\n    Bread.md" in view.tree
    assert "        … 110 more\n" in view.tree


def test_exactly_a_thousand_names_are_not_cut(tmp_path: Path) -> None:
    """The limit itself may be reached."""
    tools = Called(tmp_path, {f"PKM/{number:04}.md": "" for number in range(1000)})

    view = overview(tools.workspace, Clock(NOW))

    assert (view.entries, view.truncated) == (1000, False)


def test_a_tree_deeper_than_an_agent_files_is_drawn(tmp_path: Path) -> None:
    """A fixture may have more levels than a path of the tools."""
    tools = Called(tmp_path / "t", {"PKM/" + "a/" * 100 + "Note.md": "x"})

    assert overview(tools.workspace, Clock(NOW)).entries == 101


def test_an_overview_of_no_folder_is_the_fixtures_fault(tmp_path: Path) -> None:
    """A file in the knowledge base's place is a broken fixture, not the agent's doing."""
    with pytest.raises(FixtureBroken, match="the knowledge base is no folder"):
        overview(Called(tmp_path, {"PKM": "x"}).workspace, Clock(NOW))


names = st.text(st.sampled_from("ab 한"), min_size=1, max_size=3).map(lambda name: f"n{name}n")


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.lists(names, min_size=1, max_size=4).map(tuple), max_size=8))
def test_a_drawn_tree_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]]
) -> None:
    """Whoever is shown the tree can tell every file's path from it, as the offline model does."""
    files = {"PKM/" + "/".join(path) + ".md": "" for path in paths}
    tools = Called(tmp_path_factory.mktemp("drawn"), files)

    assert sorted(files_of(overview(tools.workspace, Clock(NOW)).tree)) == sorted(path[3:] for path in files)


@pytest.mark.parametrize(
    ("args", "files"),
    [
        ({"pattern": "*.md"}, ["/Inbox.md"]),
        ({"pattern": "/*.md"}, ["/Inbox.md"]),
        ({"pattern": "./*.md"}, ["/Inbox.md"]),
        ({"pattern": "**/V*.md"}, ["/Areas/Choir/Voice.md"]),
        (
            {"pattern": "*.md", "path": "/Areas/Choir"},
            ["/Areas/Choir/Repertoire.md", "/Areas/Choir/Voice.md"],
        ),
        ({"pattern": "/Areas/**/V*", "path": "/Areas"}, ["/Areas/Choir/Voice.md"]),
        ({"pattern": "/Projects/*", "path": "/Areas"}, []),
        ({"pattern": "{Projects,Resources}/*"}, ["/Projects/Kayak.md", "/Resources/Bread.md"]),
        ({"pattern": "Areas"}, []),
        ({"pattern": "*.MD"}, []),
    ],
)
def test_globs_find_files(tools: Called, args: dict[str, str], files: list[str]) -> None:
    """A pattern is read from the folder, with a first slash from the root; only files are found."""
    result = tools.ok("Glob", **args)

    assert result == "\n".join(files) if files else result.startswith("No file below /")


def test_what_was_written_last_is_found_first(tools: Called) -> None:
    """Files that the trial wrote come first, the latest before all; the others follow by name."""
    tools.ok("Write", file_path="/Projects/B.md", content="x")
    tools.ok("Edit", file_path="/Projects/Kayak.md", old_string="hull", new_string="keel")
    tools.ok("Write", file_path="/Projects/A.md", content="x")
    tools.put("PKM/Projects/Z.md")
    tools.put("PKM/Projects/0.md")

    assert tools.ok("Glob", pattern="/Projects/*").split("\n") == [
        "/Projects/A.md",
        "/Projects/Kayak.md",
        "/Projects/B.md",
        "/Projects/0.md",
        "/Projects/Z.md",
    ]


def test_a_moved_file_stays_as_new_as_it_was(tools: Called) -> None:
    """Moving is not writing: the order goes by what was written, wherever it is now."""
    tools.ok("Write", file_path="/New/A.md", content="x")
    tools.ok("Write", file_path="/New/B.md", content="x")
    tools.ok("Move", source_path="/Inbox.md", destination_path="/New/Inbox.md")
    tools.ok("Move", source_path="/New", destination_path="/Areas/New")
    tools.ok("Remove", path="/Areas/New/B.md", confirm=True)
    tools.ok("Move", source_path="/Resources/Bread.md", destination_path="/Areas/New/B.md")

    assert tools.ok("Glob", pattern="/Areas/New/*").split("\n") == [
        "/Areas/New/A.md",
        "/Areas/New/B.md",
        "/Areas/New/Inbox.md",
    ]


def test_a_file_moved_over_another_does_not_take_its_age(tools: Called) -> None:
    """What was written last is gone when another file takes its place."""
    tools.ok("Write", file_path="/Projects/Z.md", content="x")
    tools.ok("Move", source_path="/Inbox.md", destination_path="/Projects/Z.md", overwrite=True)

    assert tools.ok("Glob", pattern="/Projects/*") == "/Projects/Kayak.md\n/Projects/Z.md"


def test_a_glob_gives_a_hundred_files(tools: Called) -> None:
    """More are not shown, and that is said."""
    for number in range(101):
        tools.put(f"PKM/Many/{number:03}.md")

    listed, _, note = tools.ok("Glob", pattern="/Many/*").partition("\n\n")

    assert listed.split("\n") == [f"/Many/{number:03}.md" for number in range(100)]
    assert note == "(The first 100 of 101. A narrower pattern shows others.)"


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ({}, "bad_arguments"),
        ({"pattern": ""}, "bad_arguments"),
        ({"pattern": "../*"}, "outside"),
        ({"pattern": "*", "path": "/Inbox.md"}, "not_a_folder"),
        ({"pattern": "*", "path": "/Nothing"}, "not_found"),
    ],
)
def test_a_glob_that_makes_no_sense_is_an_error(tools: Called, args: dict[str, str], kind: str) -> None:
    """No pattern, one that goes up, and a folder that is none are refused."""
    assert tools.refused("Glob", **args)[0] == kind


def test_a_name_that_is_no_text_is_shown_and_spares_the_rest(tools: Called) -> None:
    """A name on the disk that is not UTF-8, or breaks the line, stands in one line of its own."""
    (tools.root / "PKM" / "Line\nbreak.md").write_text("x")
    with open(bytes(tools.root / "PKM") + b"/\xff.md", "wb") as file:
        file.write(b"x")

    result = tools.ok("Glob", pattern="*")

    assert result.encode("utf-8").decode().split("\n") == ["/Inbox.md", "/Line?break.md", "/?.md"]
    assert "  Line?break.md\n" in tools.ok("LS", path="/")
