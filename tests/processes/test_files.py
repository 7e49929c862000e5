"""Files on systems that differ in what they allow: the portable case, with what POSIX has hidden."""

from __future__ import annotations

import ntpath
import os
import string
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.processes import files
from pytest_agenteval.processes.files import (
    file_lock,
    long_path,
    make_pointer,
    name_or_older,
    portable_name,
    read_pointer,
    remove_tree,
    replace_file,
    replace_pointer,
)

SOMEBODY = 65534

WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None
from pathlib import Path
from pytest_agenteval.processes.files import fcntl, file_lock
assert fcntl is None
count = Path(sys.argv[1])
for _ in range(100):
    with file_lock(count):
        count.write_text(str(int(count.read_text(encoding="utf-8")) + 1), encoding="utf-8")
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system is none of POSIX's, and nobody waits long."""
    monkeypatch.setattr(files, "POSIX", False)
    monkeypatch.setattr(files, "REPLACE_RETRIES_S", (0.0, 0.0, 0.0))


def test_processes_without_flock_take_turns(tmp_path: Path) -> None:
    """Who makes the lock's file has it: three processes count to a hundred each, and none is lost."""
    count = tmp_path / "count"
    count.write_text("0", encoding="utf-8")
    workers = [subprocess.Popen([sys.executable, "-c", WITHOUT_FCNTL, str(count)]) for _ in range(3)]

    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert count.read_text(encoding="utf-8") == "300"
    assert os.listdir(tmp_path) == ["count"]


def test_the_lock_of_a_dead_process_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no system gives it back, its age tells."""
    monkeypatch.setattr(files, "fcntl", None)
    left = tmp_path / ".a.lock"
    left.touch()
    os.utime(left, (0, 0))

    with file_lock(tmp_path / "a"):
        assert left.exists()

    assert not left.exists()


def test_a_file_that_somebody_reads_is_replaced_a_moment_later(
    elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses while it is open; whoever has it open has not for long."""
    refusals = iter([PermissionError("in use"), PermissionError("in use"), None])
    replace = os.replace

    def replacing(source: Path, target: Path) -> None:
        if refusal := next(refusals):
            raise refusal
        replace(source, target)

    monkeypatch.setattr(os, "replace", replacing)
    (tmp_path / "new").write_text("new", encoding="utf-8")
    (tmp_path / "old").write_text("old", encoding="utf-8")
    replace_file(tmp_path / "new", tmp_path / "old")

    assert (tmp_path / "old").read_text(encoding="utf-8") == "new"


def test_a_file_that_stays_open_is_told(
    elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second the error is the caller's."""

    def refused(*_: object) -> None:
        raise PermissionError("in use")

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(PermissionError, match="in use"):
        replace_file(tmp_path / "new", tmp_path / "old")


@pytest.mark.parametrize("links", [True, False])
def test_a_pointer_is_replaced_with_links_and_without(
    elsewhere: None, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where links are a privilege that nobody has, a text of the same name says the same."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held")

    if not links:
        monkeypatch.setattr(Path, "symlink_to", refused)
    elif os.name != "posix":
        pytest.skip("links are a privilege here")
    assert read_pointer(tmp_path / "latest") == ""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        make_pointer(tmp_path / "beside", name)
        replace_pointer(tmp_path / "beside", tmp_path / "latest")

        assert read_pointer(tmp_path / "latest") == name
        assert (tmp_path / "latest").is_symlink() is links


@pytest.mark.parametrize(
    ("name", "portable"),
    [
        ("mina", "mina"),
        ("L3-001", "L3-001"),
        ("안녕.yaml", "안녕.yaml"),
        ("claude@short-1.yaml", "claude@short-1.yaml"),
        ("llama3:8b-1.yaml", "llama3%3A8b-1.yaml"),
        ('what?"*', "what%3F%22%2A"),
        ("con", "con_"),
        ("NUL.yaml", "NUL_.yaml"),
        ("com1.chat", "com1_.chat"),
        ("concert", "concert"),
        ("ends.", "ends%2E"),
    ],
)
def test_a_name_that_windows_refuses_has_another(name: str, portable: str) -> None:
    """What every system takes stays as it is; two names never become one of those that stay."""
    assert portable_name(name) == portable
    assert portable_name(portable) == portable


@given(st.text(string.ascii_letters + '.:*?"<>|\\/ con1\x00é한', min_size=1, max_size=12))
def test_every_name_becomes_one_that_windows_takes(name: str) -> None:
    """As Python's own list of reserved names has it, where it has one."""
    portable = portable_name(name)
    reserved = getattr(ntpath, "isreserved", None)  # Python 3.13

    assert not set(portable) & set('<>:"/\\|?*\x00')
    assert reserved is None or not reserved(portable)


def test_a_file_with_an_older_name_is_still_found(tmp_path: Path) -> None:
    """Cassettes that were recorded before names were portable keep theirs."""
    chats = tmp_path / "t.chat"
    assert name_or_older(str(chats), "llama3:8b-1.yaml") == f"{chats}/llama3%3A8b-1.yaml"
    assert name_or_older(str(tmp_path), "what?", ".yaml", ".chat") == f"{tmp_path}/what%3F"
    if os.name == "posix":
        chats.mkdir()
        (chats / "llama3:8b-1.yaml").touch()
        (tmp_path / "what?.chat").mkdir()

        assert name_or_older(str(chats), "llama3:8b-1.yaml") == f"{chats}/llama3:8b-1.yaml"
        assert name_or_older(str(tmp_path), "what?", ".yaml", ".chat") == f"{tmp_path}/what?"


def test_a_long_path_is_marked_where_windows_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of absolute paths; what is marked stays, and POSIX has no mark."""
    if os.name == "posix":
        assert long_path("/tmp/" + "a" * 300) == "/tmp/" + "a" * 300
    monkeypatch.setattr(files, "POSIX", False)
    monkeypatch.setattr(files.os, "path", ntpath)

    assert long_path("C:\\runs\\a") == "\\\\?\\C:\\runs\\a"
    assert long_path("\\\\server\\share\\a") == "\\\\?\\UNC\\server\\share\\a"
    assert long_path("\\\\?\\C:\\runs\\a") == "\\\\?\\C:\\runs\\a"


@contextmanager
def bound_by_permissions(folder: Path) -> Iterator[None]:
    """Be somebody who owns all that is in a folder and whom permissions bind: they do not bind root."""
    if os.name != "posix" or os.geteuid() != 0:
        yield
        return
    subprocess.run(["chown", "-hR", str(SOMEBODY), str(folder)], check=True)
    os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_tree_goes_with_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that forbid their emptying, files that forbid writing, links, and 1,500 folders in folders."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "note.md").write_text("x", encoding="utf-8")
    tree = tmp_path / "tree"
    locked = tree / "locked" / "more"
    locked.mkdir(parents=True)
    (locked / "note.md").write_text("x", encoding="utf-8")
    if os.name == "posix":
        (locked / "link").symlink_to(outside)
        deep = os.open(tree, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=deep)
            deeper = os.open("d", os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = deeper
        os.close(deep)
    for path, mode in ((locked / "note.md", 0o400), (locked, 0o500), (locked.parent, 0o500), (tree, 0o500)):
        os.chmod(path, mode)

    monkeypatch.chdir(tmp_path)
    with bound_by_permissions(tmp_path):
        remove_tree(Path("tree"))
        remove_tree(Path("tree"))  # whoever is second finds nothing to do

    assert not tree.exists()
    assert (outside / "note.md").exists()
