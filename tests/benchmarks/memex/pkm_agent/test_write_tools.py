"""Writing files: all of one, or a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .called import Called

careful = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KAYAK = "/Projects/Kayak.md"


@pytest.fixture
def tools(tmp_path: Path) -> Called:
    """A small knowledge base."""
    return Called(tmp_path)


def test_write_creates_a_file_and_its_folders(tools: Called) -> None:
    """A file may be written where nothing is yet, and the result says so."""
    result = tools.ok("Write", file_path="/Areas/Garden/Roses.md", content="# Roses\n\n- pruned\n")

    assert result == "Created /Areas/Garden/Roses.md: 3 lines."
    assert tools.file("Areas/Garden/Roses.md") == b"# Roses\n\n- pruned\n"


def test_write_replaces_a_file(tools: Called) -> None:
    """A file that is there is written over, without being read first."""
    assert tools.ok("Write", file_path="Inbox.md", content="") == "Replaced /Inbox.md: 0 lines."
    assert tools.file("Inbox.md") == b""


def test_write_makes_the_knowledge_base_where_there_is_none(tmp_path: Path) -> None:
    """The first entry of a new user finds no folder at all."""
    tools = Called(tmp_path, {})

    assert tools.ok("LS", path="/") == "/ is empty."
    tools.ok("Write", file_path="/Inbox.md", content="x\n")
    assert tools.file("Inbox.md") == b"x\n"


@careful
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_written_is_there_byte_by_byte(tools: Called, content: str) -> None:
    """No line end, no Unicode form and no white space is changed on the way to the disk."""
    tools.ok("Write", file_path="/Any.md", content=content)

    assert tools.file("Any.md") == content.encode("utf-8")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "is_a_folder"), ("/Areas", "is_a_folder"), ("/New/", "bad_arguments"), ("", "bad_arguments")],
)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_only_files_are_written(tools: Called, tool: str, path: str, kind: str) -> None:
    """A folder, or a path that can only be one, holds no text."""
    before = tools.tree()

    assert tools.refused(tool, file_path=path, content="x", old_string="", new_string="x")[0] == kind
    assert tools.tree() == before


@pytest.mark.parametrize("content", [None, 7, ["x"], {"text": "x"}, "half \ud83d"])
def test_content_must_be_a_text(tools: Called, content: object) -> None:
    """What no file can hold is refused before anything is written."""
    kind, message = tools.refused("Write", file_path=KAYAK, content=content)

    assert (kind, message[:7]) == ("bad_arguments", "content")
    assert tools.file("Projects/Kayak.md").startswith(b"# Kayak")


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("Write", {"content": "text"}),
        ("Edit", {"old_string": "", "new_string": "text"}),
        ("Edit", {"old_string": "a", "new_string": "text"}),
    ],
)
def test_a_file_that_is_not_text_survives(tools: Called, tool: str, args: dict[str, str]) -> None:
    """What could not be read is not written over."""
    tools.put("PKM/Photo.jpg", b"a\xff\xd8")

    kind, message = tools.refused(tool, file_path="Photo.jpg", **args)

    assert kind in ("not_text", "exists")
    assert "/Photo.jpg" in message
    assert tools.file("Photo.jpg") == b"a\xff\xd8"


def test_edit_replaces_the_one_place(tools: Called) -> None:
    """The old text goes, the new one stands where it was, and the rest stays."""
    result = tools.ok("Edit", file_path=KAYAK, old_string="- sanded", new_string="- oiled\n- sanded")

    assert result == "Edited /Projects/Kayak.md: 1 place, 5 lines now."
    assert tools.file("Projects/Kayak.md") == b"# Kayak\n\n- bought the varnish\n- oiled\n- sanded the hull\n"


def test_edit_replaces_all_places_where_told_to(tools: Called) -> None:
    """With replace_all, every place is changed, and counted."""
    result = tools.ok("Edit", file_path=KAYAK, old_string="- ", new_string="* ", replace_all=True)

    assert result == "Edited /Projects/Kayak.md: 2 places, 4 lines now."
    assert tools.file("Projects/Kayak.md") == b"# Kayak\n\n* bought the varnish\n* sanded the hull\n"


def test_edit_creates_a_file_from_nothing(tools: Called) -> None:
    """An empty old text and a file that is not there make a new file."""
    result = tools.ok("Edit", file_path="/Areas/New.md", old_string="", new_string="new\n")

    assert result == "Created /Areas/New.md: 1 line."
    assert tools.file("Areas/New.md") == b"new\n"


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        ({"old_string": "hull", "new_string": "hull"}, "bad_arguments", "are the same"),
        ({"old_string": "", "new_string": ""}, "bad_arguments", "are the same"),
        (
            {"file_path": "/Kayak.md", "old_string": "a", "new_string": "b"},
            "not_found",
            "there is no /Kayak.md",
        ),
        ({"old_string": "paddle", "new_string": "b"}, "no_match", "does not stand in /Projects/Kayak.md"),
        ({"old_string": "HULL", "new_string": "b"}, "no_match", "letter by letter"),
        ({"old_string": "- ", "new_string": "* "}, "ambiguous", "stands 2 times in /Projects/Kayak.md"),
        ({"old_string": "", "new_string": "b"}, "exists", "is there already"),
        ({"old_string": "a"}, "bad_arguments", "new_string must be a text, not nothing"),
        ({"new_string": "a"}, "bad_arguments", "old_string must be a text, not nothing"),
        (
            {"old_string": "a", "new_string": "b", "replace_all": "yes"},
            "bad_arguments",
            "replace_all must be true or",
        ),
    ],
)
def test_an_edit_that_cannot_be_made_changes_nothing(
    tools: Called, args: dict[str, object], kind: str, words: str
) -> None:
    """Equal texts, a missing file, no place, several places, a file that is there: each has its error."""
    before = tools.tree()

    error_type, message = tools.refused("Edit", **{"file_path": KAYAK, **args})

    assert (error_type, words in message) == (kind, True), message
    assert tools.tree() == before


def test_places_that_overlap_are_two(tools: Called) -> None:
    """A text that stands in two places which share letters does not stand there once."""
    tools.put("PKM/Hum.md", b"hum mmm\n")

    assert tools.refused("Edit", file_path="Hum.md", old_string="mm", new_string="n")[0] == "ambiguous"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("     3\t- bought the varnish", "leave out the line numbers"),
        ("     3\t- bought the varnish\n     4\t- sanded the hull", "leave out the line numbers"),
        ("- bought  the varnish - sanded", "with other spaces or line breaks"),
    ],
)
def test_a_text_that_is_nearly_there_comes_with_a_hint(tools: Called, old: str, hint: str) -> None:
    """Copied line numbers and other white space are the usual reasons, and are named."""
    assert hint in tools.refused("Edit", file_path=KAYAK, old_string=old, new_string="x")[1]


def test_line_ends_stay_as_the_file_has_them(tools: Called) -> None:
    """A file from another system is edited as it is shown, and keeps its line ends throughout."""
    tools.put("PKM/Windows.md", b"one\r\ntwo\r\nthree\r\n")

    tools.ok("Edit", file_path="Windows.md", old_string="one\ntwo", new_string="1\n2")
    assert tools.file("Windows.md") == b"1\r\n2\r\nthree\r\n"


def test_mixed_line_ends_stay_mixed(tools: Called) -> None:
    """Where lines end in two ways, only the text that was given is replaced."""
    tools.put("PKM/Mixed.md", b"one\r\ntwo\nthree")

    tools.ok("Edit", file_path="Mixed.md", old_string="two\n", new_string="2\n")
    assert tools.file("Mixed.md") == b"one\r\n2\nthree"


words = st.text(st.sampled_from("ab \n"), max_size=6)


@careful
@given(words, words.filter(bool), words, words)
def test_an_edit_changes_exactly_what_it_names(
    tools: Called, before: str, old: str, after: str, new: str
) -> None:
    """Whatever the texts: one place is replaced and nothing else, or the file stays as it was."""
    text = before + old + after
    tools.put("PKM/Any.md", text.encode())
    result = tools.call("Edit", {"file_path": "Any.md", "old_string": old, "new_string": new})
    places = [at for at in range(len(text)) if text.startswith(old, at)]

    if result.error is None:
        assert places == [len(before)]
        assert tools.file("Any.md").decode() == before + new + after
    else:
        assert old == new or len(places) > 1
        assert tools.file("Any.md").decode() == text
