"""Looking at a tree: every file is there, its text as far as it has one, and no change is overlooked."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.records.evidence import diff
from pytest_agenteval.tasks import workspace as bounds
from pytest_agenteval.tasks.workspace import MOST_BYTES, snapshot, snapshot_layers

names = st.text(st.sampled_from("ab한é ."), min_size=1, max_size=4).filter(
    lambda name: name.strip(". ") == name
)
trees = st.dictionaries(names, st.binary(max_size=20), max_size=6)
careful = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(root: Path, files: dict[str, bytes]) -> None:
    """Make the tree hold these files and no others."""
    for path in root.iterdir():
        path.unlink()
    for name, content in files.items():
        (root / name).write_bytes(content)


@careful
@given(trees, trees)
def test_a_diff_says_exactly_what_changed(
    tmp_path: Path, old: dict[str, bytes], new: dict[str, bytes]
) -> None:
    """Whatever the files hold, text or not: created, modified and deleted are what they are."""
    write(tmp_path, old)
    before = snapshot(tmp_path)
    write(tmp_path, new)
    after = snapshot(tmp_path, earlier=before)
    changes = diff(before, after)
    assert set(changes.created) == new.keys() - old.keys()
    assert set(changes.deleted) == old.keys() - new.keys()
    assert set(changes.modified) == {name for name in old.keys() & new.keys() if old[name] != new[name]}
    assert after == snapshot(tmp_path)


@careful
@given(trees)
def test_texts_are_given_back_as_they_are(tmp_path: Path, files: dict[str, bytes]) -> None:
    """UTF-8 is text, everything else is binary with its true size."""
    write(tmp_path, files)
    for name, file in snapshot(tmp_path).files.items():
        assert file.size == len(files[name])
        try:
            assert (file.text, file.why) == (files[name].decode("utf-8"), "")
        except UnicodeDecodeError:
            assert (file.text, file.why) == (None, "binary")


def test_a_large_file_is_known_by_its_digest(tmp_path: Path) -> None:
    """Its text is left out, its size is right, and one changed byte at the end is a change."""
    large = tmp_path / "large.txt"
    large.write_bytes(b"x" * (MOST_BYTES + 1))
    before = snapshot(tmp_path)
    assert (before.files["large.txt"].text, before.files["large.txt"].why) == (None, "too large")
    assert before.files["large.txt"].size == MOST_BYTES + 1
    large.write_bytes(b"x" * MOST_BYTES + b"y")
    assert diff(before, snapshot(tmp_path, earlier=before)).modified == ("large.txt",)
    large.write_bytes(b"x" * MOST_BYTES)
    assert snapshot(tmp_path).text("large.txt") == "x" * MOST_BYTES


@pytest.mark.posix
def test_links_are_told_and_not_followed(tmp_path: Path) -> None:
    """A link out of the tree gives away nothing of what it points to; a new target is a change."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "tree"
    root.mkdir()
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside" / "secret")
    before = snapshot(root)
    assert [(path, file.why, file.text) for path, file in before.files.items()] == [
        ("file", "link", None),
        ("folder", "link", None),
    ]
    (root / "file").unlink()
    (root / "file").symlink_to("elsewhere")
    assert diff(before, snapshot(root)).modified == ("file",)


@pytest.mark.posix
def test_what_is_no_file_does_not_stop_anyone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would be read for ever, a socket cannot be: both are there, without a text."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        found = snapshot(tmp_path).files
    assert {path: (file.text, file.why) for path, file in found.items()} == {
        "pipe": (None, "binary"),
        "socket": (None, "binary"),
    }


def test_a_file_of_many_gigabytes_is_known_by_its_ends(tmp_path: Path) -> None:
    """A hole of 60 GiB would take minutes to hash; another end is another file all the same."""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(60 * 1024**3)
    begun = time.monotonic()
    before = snapshot(tmp_path)
    assert time.monotonic() - begun < 5
    assert (before.files["sparse"].size, before.files["sparse"].why) == (60 * 1024**3, "too large")
    assert snapshot(tmp_path, earlier=before) == before
    with (tmp_path / "sparse").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert snapshot(tmp_path, earlier=before) != before


def test_folders_without_end_are_no_endless_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty folders are no files, and take as long to look into."""
    monkeypatch.setattr("pytest_agenteval.tasks.workspace.MOST_NEW", 20)
    for number in range(40):
        (tmp_path / f"d{number}").mkdir()
    assert snapshot(tmp_path).files["…"].why == "too many"


def test_what_may_not_be_read_says_so_and_is_not_taken_for_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may forbid a folder or a file to everybody, itself included."""
    (tmp_path / "locked").mkdir()
    for name in ("locked/in.txt", "out.txt"):
        (tmp_path / name).write_text("x")
    before = snapshot(tmp_path)
    scandir, read_bytes = os.scandir, Path.read_bytes

    def forbidden(path: Path) -> bool:
        return path.name in ("locked", "out.txt")

    def scan(path: Path) -> Any:
        return _raise(PermissionError) if forbidden(path) else scandir(path)

    def read(path: Path) -> bytes:
        return _raise(PermissionError) if forbidden(path) else read_bytes(path)

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(Path, "read_bytes", read)
    after = snapshot(tmp_path, earlier=before)
    assert {name: file.why for name, file in after.files.items()} == dict.fromkeys(
        ("locked", "locked/in.txt", "out.txt"), "unreadable"
    )


def test_a_file_that_vanishes_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an agent has left running works on while its workspace is looked at."""
    for name in ("gone.txt", "stays.txt"):
        (tmp_path / name).write_text(name)
    is_symlink = Path.is_symlink

    def remove_first(path: Path) -> bool:
        if path.name == "gone.txt":
            path.unlink(missing_ok=True)
        return is_symlink(path)

    monkeypatch.setattr(Path, "is_symlink", remove_first)
    assert [*snapshot(tmp_path).files] == ["stays.txt"]


def _raise(kind: type[Exception]) -> Any:
    raise kind


def test_names_that_are_no_utf_8_survive(tmp_path: Path) -> None:
    """Such a file is in the tree, and the tree has a digest."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("hello")
    (tmp_path / "한글.md").write_text("안녕")
    tree = snapshot(tmp_path)
    assert sorted(file.text or "" for file in tree.files.values()) == ["hello", "안녕"]
    assert tree.digest() == snapshot(tmp_path).digest()


def test_layers_are_seen_as_one_tree(tmp_path: Path) -> None:
    """The upper layer's files stand for those below, in order of their paths."""
    for name, files in {"base": {"a": b"1", "c": b"1"}, "over": {"b": b"2", "c": b"2"}}.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name, files)
    tree = snapshot_layers([tmp_path / "base", tmp_path / "over"])
    assert {path: file.text for path, file in tree.files.items()} == {"a": "1", "b": "2", "c": "2"}
    assert list(tree) == ["a", "b", "c"]


def test_more_files_than_a_trial_can_hold_hide_none_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New files are looked at up to a bound, and an entry says so; what was there before is never lost."""
    write(tmp_path, {"old": b"old", "zoo": b"zoo", "gone": b"gone"})
    before = snapshot(tmp_path)
    monkeypatch.setattr(bounds, "MOST_NEW", 20)
    write(tmp_path, {"old": b"new", "zoo": b"zoo", **{f"p{n:03}": b"x" for n in range(100)}})
    after = snapshot(tmp_path, earlier=before)
    assert after.files["…"].why == "too many"
    assert len(after.files) == 2 + 20 + 1
    changes = diff(before, after)
    assert (changes.modified, changes.deleted) == (("old",), ("gone",))
    assert after.files["zoo"] is before.files["zoo"]


@pytest.mark.posix
def test_a_file_that_now_lies_behind_a_link_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No link is followed to find a file that was there before, however many new ones there are."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "note").write_text("secret")
    root = tmp_path / "tree"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "note").write_text("mine")
    before = snapshot(root)
    (root / "folder").rename(tmp_path / "elsewhere")
    (root / "a").write_text("new")
    (root / "folder").symlink_to(tmp_path / "outside")
    monkeypatch.setattr(bounds, "MOST_NEW", 0)
    assert set(snapshot(root, earlier=before).files) == {"…"}


def test_new_texts_are_kept_while_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it files are known by digest and size; those that did not change take no room."""
    write(tmp_path, {"a": b"a" * 50, "b": b"b" * 50})
    before = snapshot(tmp_path)
    monkeypatch.setattr(bounds, "MOST_TEXT", 60)
    write(tmp_path, {"a": b"a" * 50, "b": b"b" * 50, "c": b"c" * 50, "d": b"d" * 50})
    after = snapshot(tmp_path, earlier=before)
    kinds = {path: (file.text is not None, file.size, file.why) for path, file in after.files.items()}
    assert kinds == {
        "a": (True, 50, ""),
        "b": (True, 50, ""),
        "c": (True, 50, ""),
        "d": (False, 50, "too large"),
    }


def test_a_deep_tree_is_looked_at_down_to_a_folder_that_says_so(tmp_path: Path) -> None:
    """Two hundred folders deep: what lies above the bound is read, what lies below is named as too deep."""
    deep = tmp_path.joinpath(*(["d"] * 200))
    deep.mkdir(parents=True)
    (deep / "low").write_text("low")
    (tmp_path / "d" / "high").write_text("high")
    found = snapshot(tmp_path)
    assert found.text("d/high") == "high"
    (cut,) = (path for path, file in found.files.items() if file.why == "too deep")
    assert cut.count("/") == 100
    assert len(found.files) == 2
