"""What goes to other machines: the project's own files, and paths that are right where they arrive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.cluster import transfer
from pytest_agenteval.engine.cluster.ray_executor import named_variables, usual_variables
from pytest_agenteval.engine.cluster.transfer import (
    PathMapping,
    pack_project,
    pack_workspace,
    unpack_project,
    unpack_workspace,
)
from pytest_agenteval.engine.executor import ExecutorBroken, ExecutorContext
from pytest_agenteval.records.plan import McpServer
from tests.engine.executing import plan
from tests.suites import write


def arrived(root: Path, to: Path) -> set[str]:
    """Send a project, and give the files that arrive."""
    unpack_project(pack_project(root), to)
    return {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file() or path.is_symlink()}


def test_only_what_its_author_wrote_travels(tmp_path: Path) -> None:
    """Caches, environments and runs stay at home; a link out of the project travels as what it leads to."""
    root = tmp_path / "project"
    own = {"a.py": "1", "evals/t/workspace/b.md": "2", ".env.example": "3"}
    left = {"__pycache__/a.pyc": "", ".mypy_cache/x": "", "venv/pyvenv.cfg": "", "venv/lib/x.py": ""}
    write(root, {**own, **left, ".agenteval/runs/r/run.json": "", "evals/__pycache__/b.pyc": ""})
    write(tmp_path, {"outside.txt": "from outside"})
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "inner.txt").symlink_to("a.py")
    os.utime(root / "a.py", (1_000_000, 1_000_000))

    assert arrived(root, tmp_path / "there") == {*own, "link.txt", "inner.txt"}
    assert (tmp_path / "there" / "link.txt").read_text() == "from outside"
    assert not (tmp_path / "there" / "link.txt").is_symlink()
    assert os.readlink(tmp_path / "there" / "inner.txt") == "a.py"
    assert (tmp_path / "there" / "a.py").stat().st_mtime == 1_000_000


def test_links_to_folders_lead_to_what_they_lead_to_at_home(tmp_path: Path) -> None:
    """What is behind a link out of the project travels; one within it leads to the copy."""
    root = tmp_path / "project"
    write(root, {"a.py": "1", "fixtures/b.md": "2"})
    write(tmp_path, {"outside/tree/c.md": "3"})
    (root / "linked").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to(root / "fixtures")

    arrived(root, tmp_path / "there")

    assert (tmp_path / "there" / "linked" / "tree" / "c.md").read_text() == "3"
    assert (tmp_path / "there" / "inner" / "b.md").read_text() == "2"
    assert (tmp_path / "there" / "inner").resolve() == tmp_path / "there" / "fixtures"


def test_what_git_ignores_stays_at_home(tmp_path: Path) -> None:
    """In a repository git says what is the author's, committed or not; a file that is gone is none."""
    root = tmp_path / "project"
    write(root, {".gitignore": ".env\nbig/\n", ".env": "KEY=1", "big/data": "", "a.py": "1", "gone.py": "2"})
    for command in (["init", "-q"], ["add", "gone.py"]):
        subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)
    (root / "gone.py").unlink()

    assert arrived(root, tmp_path / "there") == {".gitignore", "a.py"}


def test_a_project_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what is large in it, and how that stays at home."""
    monkeypatch.setattr(transfer, "MOST_BYTES", 2 * 1024 * 1024)
    write(tmp_path, {"data/large.bin": "x" * 3 * 1024 * 1024, "small.py": "1"})

    with pytest.raises(ExecutorBroken, match=r"at most 2 MiB.*found 3 MiB: data \(3 MiB\).*\.gitignore"):
        pack_project(tmp_path)


def test_a_kept_workspace_comes_home_without_links_that_lead_out(tmp_path: Path) -> None:
    """An agent may have made anything: what is unpacked stays within its folder."""
    write(tmp_path, {"there/a.md": "1"})
    (tmp_path / "there" / "out").symlink_to("/etc/passwd")

    home = unpack_workspace(pack_workspace(tmp_path / "there"), tmp_path / "kept")

    assert not (tmp_path / "there").exists()
    assert home.parent == tmp_path / "kept"
    assert [path.name for path in home.iterdir()] == ["a.md"]


def test_a_workspace_that_cannot_be_packed_is_none(tmp_path: Path) -> None:
    """An agent may have removed its own, or made more folders in folders than an archive can be made of."""
    write(tmp_path, {"deep/a.md": "1"})
    os.chdir(tmp_path / "deep")
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(tmp_path)

    assert pack_workspace(tmp_path / "removed") == b""
    assert pack_workspace(tmp_path / "deep") == b""
    assert not (tmp_path / "deep").exists()


def test_paths_are_those_of_the_copy(tmp_path: Path) -> None:
    """Those of the project are mapped, others have to be there; what people are shown stays as it is."""
    rerooting = PathMapping("/home/me/project", str(tmp_path))
    server = McpServer(command=("serve",), folder="/home/me/project/evals", schemas="/home/me/project/c/s")
    task = plan(
        layers=("/home/me/project/fixtures/a", str(tmp_path)),
        cassette="/home/me/project/cassettes/t",
        tools=("/home/me/project/tools.yaml", "toolset", server),
        form={"command": ["run"], "folder": "/home/me/project/evals", "paths": ["/home/me/project"]},
        file="evals/t.json",
    ).task

    there = rerooting.task(task)

    assert there.layers == (f"{tmp_path}/fixtures/a", str(tmp_path))
    assert there.cassette == f"{tmp_path}/cassettes/t"
    moved = replace(server, folder=f"{tmp_path}/evals", schemas=f"{tmp_path}/c/s")
    assert there.tools == (f"{tmp_path}/tools.yaml", "toolset", moved)
    assert there.form == {"command": ["run"], "folder": f"{tmp_path}/evals", "paths": [str(tmp_path)]}
    assert there.file == "evals/t.json"
    context = ExecutorContext(
        root="/home/me/project",
        conftests=("/home/me/project/evals",),
        pytest_options=("--rootdir=/home/me/project", "-c/home/me/project/pytest.ini", "-pplugin"),
    )
    options = (f"--rootdir={tmp_path}", f"-c{tmp_path}/pytest.ini", "-pplugin")
    assert rerooting.context(context).pytest_options == options
    assert rerooting.context(context).conftests == (f"{tmp_path}/evals",)
    with pytest.raises(ExecutorBroken, match="below the rootdir /home/me/project, which is copied"):
        rerooting.task(replace(task, layers=("/home/me/project-two/a",)))


def test_variables_travel_that_the_project_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of models always; others where a plan or its tool files name them; those of machines never."""
    for name in ("ANTHROPIC_API_KEY", "IN_FILE", "IN_SERVER", "IN_FORM", "OF_MODEL", "OF_JUDGE", "UNNAMED"):
        monkeypatch.setenv(name, f"value of {name}")
    write(tmp_path, {"tools.yaml": "url: https://x/${IN_FILE}?home=${HOME}&missing=${MISSING}"})
    server = McpServer(url="http://x", headers={"X": "${IN_SERVER}"})
    asked = plan(
        tools=(str(tmp_path / "tools.yaml"), server), form={"command": ["x"], "env_pass": ["IN_FORM"]}
    )
    judge = replace(asked.model, api_key_env="OF_JUDGE")
    asked = replace(asked, model=replace(asked.model, api_key_env="OF_MODEL"))
    asked = replace(asked, conditions=replace(asked.conditions, judges=(judge,)))

    named = {"IN_FILE", "IN_SERVER", "IN_FORM", "OF_MODEL", "OF_JUDGE"}
    assert named_variables(asked.conditions, asked) == {name: f"value of {name}" for name in named}
    assert usual_variables()["ANTHROPIC_API_KEY"] == "value of ANTHROPIC_API_KEY"
    assert not {"UNNAMED", "HOME", *named} & usual_variables().keys()
