"""The tree a trial works in: its own, walled in, built from layers, gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_agenteval.tasks.workspace import OutsideWorkspace, Workspace
from pytest_agenteval.text.errors import FixtureBroken

careful = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
parts = st.sampled_from(
    ["a", "b.md", ".", "..", "in", "out", "loop", "", "~", "한글", "\\", "c:", "*"]
) | st.text(max_size=6)
paths = st.lists(parts, min_size=1, max_size=6).map("/".join)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no trial may reach, with a secret."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("secret")
    return folder


@pytest.fixture
def tricky(tmp_path: Path, outside: Path) -> Workspace:
    """A workspace with links in it: to its own folder, out of it, and in a circle."""
    root = tmp_path / "tree"
    (root / "a" / "b.md").parent.mkdir(parents=True)
    (root / "a" / "b.md").write_text("b")
    (root / "in").symlink_to("a")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    return Workspace([], at=root)


@pytest.mark.posix
@careful
@given(paths)
def test_no_path_leads_out(tricky: Workspace, outside: Path, path: str) -> None:
    """Whatever is asked for, what is given lies in the tree, links followed, or it is refused as outside."""
    try:
        found = tricky.inside(path)
    except OutsideWorkspace:
        return
    root = tricky.path.resolve()
    assert Path(os.path.realpath(found)).is_relative_to(root)


@careful
@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8), min_size=1
    )
)
def test_a_plain_relative_path_is_itself(tmp_path: Path, steps: list[str]) -> None:
    """Any name that the system knows is allowed where it leads nowhere else."""
    assume(not {".", ".."} & set(steps))
    workspace = Workspace([], at=tmp_path)
    assert workspace.inside("/".join(steps)) == tmp_path.resolve() / PurePosixPath(*steps)


@pytest.mark.posix
@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "out", "out/secret.md", "in/../../x", "loop", "a\0b"]
)
def test_what_leaves_the_tree_is_refused(tricky: Workspace, path: str) -> None:
    """By two dots, by being absolute, through a link, round in a circle, by a zero byte."""
    with pytest.raises(OutsideWorkspace):
        tricky.inside(path)


@pytest.mark.posix
def test_what_stays_in_the_tree_is_allowed(tricky: Workspace) -> None:
    """A link within the tree, dots that stay inside, an absolute path of the tree itself."""
    b = tricky.path.resolve() / "a" / "b.md"
    for path in ("a/b.md", "in/b.md", "./a/../a/b.md", str(b)):
        assert tricky.inside(path) == b


def layer(root: Path, **files: str) -> Path:
    """Write a folder of files; two underscores stand for a slash, a text after -> is a link's target."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)
    return root


def built_workspace(*layers: Path) -> Workspace:
    """Build a tree, and see that what it is taken for is what it is."""
    workspace = Workspace(layers)
    assert workspace.path.is_dir()
    assert workspace.before() == workspace.after()
    return workspace


def texts(workspace: Workspace) -> dict[str, str | None]:
    """Give the texts of a tree, and what is no text by its reason."""
    return {path: file.text or file.why for path, file in workspace.after().files.items()}


def test_an_overlay_goes_over_the_base(tmp_path: Path) -> None:
    """Its files replace those of the same path, and the rest of the base stays; neither layer is touched."""
    base = layer(tmp_path / "base", a="base a", folder__b="base b", folder__c="base c")
    overlay = layer(tmp_path / "overlay", folder__b="overlay b", d="overlay d")
    workspace = built_workspace(base, overlay)
    assert texts(workspace) == {
        "a": "base a",
        "d": "overlay d",
        "folder/b": "overlay b",
        "folder/c": "base c",
    }
    (workspace.path / "a").write_text("changed")
    assert (base / "a").read_text() == "base a"
    workspace.remove()


def test_an_overlay_never_writes_through_a_link(tmp_path: Path, outside: Path) -> None:
    """Where the base has a link out of the tree, the overlay's file takes its place."""
    base = layer(tmp_path / "base", note=f"->{outside / 'secret.md'}", folder=f"->{outside}")
    overlay = layer(tmp_path / "overlay", note="mine", folder__secret_md="mine too")
    workspace = built_workspace(base, overlay)
    assert (workspace.path / "note").read_text() == "mine"
    assert not (workspace.path / "folder").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["secret.md"]
    assert (outside / "secret.md").read_text() == "secret"
    workspace.remove()


@pytest.mark.posix
def test_an_overlay_may_replace_a_folder_by_a_file_and_a_file_by_a_link(tmp_path: Path) -> None:
    """What is on top counts, of whatever kind it is."""
    base = layer(tmp_path / "base", thing__b="b", other="other", kept="kept")
    overlay = layer(tmp_path / "overlay", thing="now a file", other="->kept")
    workspace = built_workspace(base, overlay)
    assert (workspace.path / "thing").read_text() == "now a file"
    assert os.readlink(workspace.path / "other") == "kept"
    workspace.remove()


def test_two_trials_of_one_task_share_nothing(tmp_path: Path) -> None:
    """Each has a tree of its own, and what one writes the other never sees."""
    base = layer(tmp_path / "base", a="a")
    one, two = Workspace([base]), Workspace([base])
    (one.path / "a").write_text("changed by one")
    (one.path / "new").write_text("new")
    assert one.path != two.path
    assert texts(two) == {"a": "a"}
    one.remove()
    assert not one.path.exists()
    assert two.path.exists()
    two.remove()


def test_a_tree_that_nobody_asks_for_is_not_made(tmp_path: Path) -> None:
    """Its content is known all the same, before and after, and removing it does nothing."""
    base = layer(tmp_path / "base", a="a")
    scratch = tmp_path / "scratch"
    workspace = Workspace([base], parent=scratch)
    assert workspace.before().text("a") == workspace.after().text("a") == "a"
    workspace.remove()
    assert not workspace.exists
    assert not scratch.exists()


def test_a_layer_that_is_gone_breaks_the_fixture_and_leaves_nothing(tmp_path: Path) -> None:
    """The error names the layer, and no half-made tree stays behind."""
    with pytest.raises(FixtureBroken, match="no-such-layer"):
        _ = Workspace(
            [layer(tmp_path / "base", a="a"), tmp_path / "no-such-layer"], parent=tmp_path / "scratch"
        ).path
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.posix
def test_what_was_made_read_only_goes_too(tmp_path: Path) -> None:
    """A fixture from a read-only checkout, or an agent, may take away every right."""
    workspace = Workspace([layer(tmp_path / "base", folder__deep__a="a")])
    for folder in ("folder/deep", "folder"):
        (workspace.path / folder).chmod(0o500)
    workspace.remove()
    assert not workspace.path.exists()


def test_a_tree_that_was_given_is_used_and_kept(tmp_path: Path) -> None:
    """Whoever gave it takes it away."""
    given_tree = layer(tmp_path / "given", a="a")
    workspace = Workspace([layer(tmp_path / "base", b="b")], at=given_tree)
    (workspace.path / "c").write_text("c")
    assert list(workspace.before()) == ["a"]
    assert list(workspace.after()) == ["a", "c"]
    workspace.remove()
    assert given_tree.exists()
