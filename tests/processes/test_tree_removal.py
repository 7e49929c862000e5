"""Trees are deleted whole, also by path where the system opens no folder to name files by it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_agenteval.processes import files
from pytest_agenteval.processes.files import BY_HANDLE, remove_tree


@pytest.mark.parametrize("by_handle", sorted({BY_HANDLE, False}))
def test_a_tree_goes_with_what_may_only_be_read(
    by_handle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that forbids its emptying, a file that forbids writing, and many folders in folders."""
    monkeypatch.setattr(files, "BY_HANDLE", by_handle)
    tree = tmp_path / "tree"
    deep = tree.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "note.md").write_text("x", encoding="utf-8")
    (tree / "only read").mkdir()
    (tree / "only read" / "note.md").write_text("x", encoding="utf-8")
    os.chmod(tree / "only read" / "note.md", 0o400)
    os.chmod(tree / "only read", 0o500)

    remove_tree(tree)

    assert not tree.exists()


@pytest.mark.posix
@pytest.mark.parametrize("by_handle", [True, False])
def test_no_link_is_followed(by_handle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree goes with its links, and what they lead to stays."""
    monkeypatch.setattr(files, "BY_HANDLE", by_handle)
    sibling = tmp_path / "kept"
    sibling.mkdir()
    (sibling / "note.md").write_text("x", encoding="utf-8")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(sibling)

    remove_tree(tmp_path / "tree")

    assert not (tmp_path / "tree").exists()
    assert (sibling / "note.md").exists()


def test_what_is_not_there_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is second finds nothing to do."""
    remove_tree(tmp_path / "gone")
    monkeypatch.setattr(files, "BY_HANDLE", False)
    remove_tree(tmp_path / "gone")
