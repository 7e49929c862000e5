"""What a coding agent may leave behind in its tree, and what refuses its round."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_agenteval.loop.improve.coding_agent import Edit, check_edit, pathspecs_of
from pytest_agenteval.loop.improve.repository import GitFailed, Repository, delete_tree
from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.text.errors import UsageMistake
from tests.loop.prompt_projects import git

PROMPTS = ["prompts/*.md"]
FILES = {
    "prompts/system.md": "Be kind.\n",
    "prompts/tools.md": "Call few.\n",
    "evals/task.yaml": "id: a\n",
    "evals/held/task.yaml": "id: b\n",
    ".gitignore": "*.log\n__pycache__/\n.agenteval/\n",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with two prompts, two tasks and one commit."""
    root = tmp_path_factory.mktemp("repository")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "All of it")
    yield root
    assert git(root, "worktree", "list").count("\n") == 1


@pytest.fixture
def repository(checkout: Path) -> Repository:
    """The repository as the loop sees it."""
    return Repository.around(checkout / "evals")


@pytest.fixture
def tree(repository: Repository) -> Iterator[Path]:
    """Where the coding agent's tree is; it is gone afterwards."""
    path = repository.root / ".agenteval" / "tree"
    yield path
    delete_tree(path)


def edited(repository: Repository, tree: Path, edit: Callable[[Path], object]) -> Edit:
    """What is said of a tree without the held-out task, after somebody has worked in it."""
    start = repository.without(repository.commit_of("HEAD"), ["evals/held/task.yaml"])
    repository.add_tree(tree, start)
    edit(tree)
    return check_edit(repository, start, tree, pathspecs_of(PROMPTS, "."))


def write(name: str, text: str) -> Callable[[Path], object]:
    """The edit that writes a file."""

    def edit(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")

    return edit


def replace_by_link(tree: Path) -> None:
    """Put a link in the place of a prompt."""
    (tree / "prompts/system.md").unlink()
    (tree / "prompts/system.md").symlink_to("/etc/hostname")


def replace_by_pipe(tree: Path) -> None:
    """Put a pipe in the place of a prompt: git takes it for a file, and whoever reads it waits."""
    (tree / "prompts/system.md").unlink()
    os.mkfifo(tree / "prompts/system.md")


def hide_from_index(tree: Path) -> None:
    """Change a task, and tell git not to look at it."""
    git(tree, "update-index", "--assume-unchanged", "evals/task.yaml")
    write("evals/task.yaml", "id: easy\n")(tree)


def test_changed_new_and_deleted_prompts_are_the_change(repository: Repository, tree: Path) -> None:
    """And the commit that is made of them has every other file of the base, held-out tasks too."""

    def edit(tree: Path) -> None:
        write("prompts/system.md", "Be brief.\n")(tree)
        write("prompts/more.md", "Think.\n")(tree)
        write("notes.log", "ignored\n")(tree)
        (tree / "prompts/tools.md").unlink()

    found = edited(repository, tree, edit)
    assert found == Edit(("prompts/system.md", "prompts/tools.md", "prompts/more.md"))
    base = repository.commit_of("HEAD")
    made = repository.commit_files(base, tree, found.files, "Better\n")
    assert repository.files(made, pathspecs_of(PROMPTS, ".")) == ["prompts/more.md", "prompts/system.md"]
    assert "evals/held/task.yaml" in repository.files(made)
    assert repository.texts(made, ["prompts/system.md"]) == {"prompts/system.md": "Be brief.\n"}
    assert "+Be brief." in repository.diff(base, made)
    assert git(repository.root, "status", "--porcelain") == ""


def test_the_tree_has_neither_held_out_tasks_nor_history(repository: Repository, tree: Path) -> None:
    """Nobody comes upon them by looking around, or by going back."""
    seen: list[object] = []

    def look(tree: Path) -> None:
        seen.append((tree / "evals/held").exists())
        seen.append(git(tree, "log", "--format=%s", "--name-only").count("held"))

    assert edited(repository, tree, look) == Edit(())
    assert seen == [False, 0]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (write("evals/task.yaml", "id: easy\n"), "1 file outside the prompts changed: evals/task.yaml"),
        (hide_from_index, "1 file outside the prompts changed: evals/task.yaml"),
        (write("conftest.py", "x = 1\n"), "1 file outside the prompts changed: conftest.py"),
        (
            write("evals/held/task.yaml", "id: b\n"),
            "1 file outside the prompts changed: evals/held/task.yaml",
        ),
        (
            write("prompts/deep/system.md", "x\n"),
            "1 file outside the prompts changed: prompts/deep/system.md",
        ),
        (replace_by_link, "prompts/system.md became a link, a folder, a program or a pipe"),
        (lambda tree: (tree / "prompts/system.md").chmod(0o755), "prompts/system.md became a link, a"),
        (lambda tree: (tree / "prompts/new.md").symlink_to("system.md"), "prompts/new.md became a link, a"),
        (lambda tree: (tree / "prompts/new.md").touch(0o755), "prompts/new.md became a link, a"),
        (lambda tree: (tree / "prompts/system.md").write_bytes(b"\xff\xfe"), "is not UTF-8 text"),
        (replace_by_pipe, "prompts/system.md became a link, a folder, a program or a pipe"),
    ],
)
def test_what_is_no_change_of_prompts_alone_is_refused(
    edit: Callable[[Path], object], reason: str, repository: Repository, tree: Path
) -> None:
    """Each by name, whatever the agent has told git to overlook."""
    assert reason in edited(repository, tree, edit).refusal


def work_in_git(tree: Path) -> None:
    """Commit, branch, configure, leave a hook, replace, tidy and stash, as coding agents do unasked."""
    write("prompts/system.md", "Be brief.\n")(tree)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    git(tree, *identity, "commit", "-q", "-a", "-m", "Better")
    git(tree, "branch", "main")
    git(tree, "config", "core.fsmonitor", "true")
    hook = tree / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    git(tree, "replace", "HEAD", "HEAD~1")
    git(tree, "gc", "-q", "--prune=now")
    write("prompts/system.md", "Be briefer.\n")(tree)
    git(tree, *identity, "stash")
    git(tree, "stash", "pop")


def test_what_an_agent_does_with_git_is_nothing_to_the_user(repository: Repository, tree: Path) -> None:
    """Its tree is a repository of its own: what counts is how the files differ in the end."""
    state = ("for-each-ref", "config -l --local", "status --porcelain", "stash list", "worktree list")
    before = [git(repository.root, *words.split()) for words in state]

    assert edited(repository, tree, work_in_git) == Edit(("prompts/system.md",))

    assert [git(repository.root, *words.split()) for words in state] == before
    made = repository.commit_files(repository.commit_of("HEAD"), tree, ["prompts/system.md"], "Better\n")
    assert repository.texts(made, ["prompts/system.md"]) == {"prompts/system.md": "Be briefer.\n"}


def test_a_tree_without_its_git_folder_is_looked_at_all_the_same(repository: Repository, tree: Path) -> None:
    """The user's repository compares the files; without the tree all of them are gone."""
    assert edited(repository, tree, lambda tree: remove_tree(tree / ".git")) == Edit(())
    assert edited(repository, tree, remove_tree).refusal == "its checkout is gone"


def test_of_a_link_in_the_place_of_a_tree_the_link_alone_goes(tmp_path: Path) -> None:
    """What it leads to is not ours."""
    write("other/mine.md", "x")(tmp_path)
    (tmp_path / "tree").symlink_to(tmp_path / "other")
    delete_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").is_symlink()
    assert (tmp_path / "other/mine.md").is_file()


def test_a_tree_of_a_sparse_checkout_is_whole(repository: Repository, tree: Path) -> None:
    """What the user has not checked out is not what the agent has deleted."""
    git(repository.root, "sparse-checkout", "set", "prompts")
    try:
        assert edited(repository, tree, write("prompts/system.md", "Be brief.\n")) == Edit(
            ("prompts/system.md",)
        )
        assert repository.uncommitted() == []
    finally:
        git(repository.root, "sparse-checkout", "disable")
        git(repository.root, "config", "--unset", "extensions.worktreeConfig")


def test_ends_of_lines_are_committed_as_the_user_has_them(repository: Repository, tree: Path) -> None:
    """Also where git is told to stop rather than to convert them."""
    settings = ("core.autocrlf", "core.safecrlf")
    for name in settings:
        git(repository.root, "config", name, "true")
    try:
        found = edited(repository, tree, write("prompts/system.md", "Be brief.\n"))
        made = repository.commit_files(repository.commit_of("HEAD"), tree, found.files, "Better\n")
        assert repository.texts(made, found.files) == {"prompts/system.md": "Be brief.\n"}
    finally:
        for name in settings:
            git(repository.root, "config", "--unset", name)


@pytest.mark.skipif(os.name != "posix", reason="programs of POSIX")
def test_a_prompt_is_what_is_checked_out_not_what_git_stores(repository: Repository, tree: Path) -> None:
    """Leaks would be looked for in a pointer, or in what is encrypted, and agents would be given that."""
    for how in ("clean", "smudge"):
        git(repository.root, "config", f"filter.rot.{how}", "tr a-z n-za-m")
    attributes = repository.git_dir / "info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("*.md filter=rot\n", encoding="utf-8")
    try:
        commit = repository.commit_files("HEAD", repository.root, ["prompts/system.md"], "Stored otherwise")
        assert git(repository.root, "show", f"{commit}:prompts/system.md") == "Br xvaq.\n"
        assert repository.texts(commit, ["prompts/system.md"]) == {"prompts/system.md": "Be kind.\n"}
    finally:
        attributes.unlink()
        git(repository.root, "config", "--remove-section", "filter.rot")


def test_globs_are_meant_from_a_folder_whatever_its_name(repository: Repository) -> None:
    """Brackets in the name of a folder are no pattern."""
    assert pathspecs_of(["prompts/*.md"], "apps/[core]*") == [r":(top,glob)apps/\[core]\*/prompts/*.md"]


def test_a_repository_of_somebody_else_is_no_missing_one(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git says whose it is and what to do; to make another one there would be bad advice."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageMistake, match=r"dubious ownership.* safe\.directory") as refused:
        Repository.around(checkout)
    assert "git init" not in str(refused.value)


def test_git_says_in_its_own_words_what_it_cannot_do(repository: Repository) -> None:
    """Without its usage, and without a traceback of ours."""
    with pytest.raises(GitFailed, match="git cat-file: path 'nothing' does not exist"):
        repository.texts("HEAD", ["nothing"])
