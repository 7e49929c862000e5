"""What a coding agent may leave behind in its tree, and what refuses its round."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_agenteval.loop.improve.coding_agent import Edit, check_edit, pathspecs_of, repository_state
from pytest_agenteval.loop.improve.repository import GitFailed, Repository
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
    repository.remove_tree(path)


def edited(repository: Repository, tree: Path, edit: Callable[[Path], object]) -> Edit:
    """What is said of a tree without the held-out task, after somebody has worked in it."""
    start = repository.without(repository.commit_of("HEAD"), ["evals/held/task.yaml"])
    before = repository_state(repository, start, tree, repository.add_tree(tree, start))
    edit(tree)
    return check_edit(repository, before, pathspecs_of(PROMPTS, "."))


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


def lead_git_elsewhere(tree: Path) -> None:
    """Let the tree be one of the user's own checkout: whoever cleans it there cleans that."""
    git_dir = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    (tree / ".git").write_text(f"gitdir: {git_dir}\n", encoding="utf-8")


def add_hook(tree: Path) -> None:
    """Leave a program that git runs."""
    hooks = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-checkout").write_text("#!/bin/sh\ntouch hooked\n", encoding="utf-8")


def commit(tree: Path) -> None:
    """Commit, and move everybody's main there."""
    write("prompts/system.md", "Be brief.\n")(tree)
    git(tree, "commit", "-q", "-a", "-m", "Better")
    git(tree, "update-ref", "refs/heads/main", "HEAD")


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
        (replace_by_link, "prompts/system.md was made a link"),
        (
            lambda tree: (tree / "prompts/system.md").chmod(0o755),
            "prompts/system.md was made a file to be run",
        ),
        (lambda tree: (tree / "prompts/system.md").write_bytes(b"\xff\xfe"), "is no text in UTF-8"),
        (replace_by_pipe, "prompts/system.md is no file"),
    ],
)
def test_what_is_no_change_of_prompts_alone_is_refused(
    edit: Callable[[Path], object], reason: str, repository: Repository, tree: Path
) -> None:
    """Each by name, whatever the agent has told git to overlook."""
    assert reason in edited(repository, tree, edit).refusal


def test_commits_are_refused_and_branches_put_back(repository: Repository, tree: Path) -> None:
    """What the agent made on its own start can be told from what the user does meanwhile."""
    before = repository.refs()
    git(repository.root, "branch", "of-the-user")
    assert "made commits or branches of its own" in edited(repository, tree, commit).refusal
    assert repository.refs() == {**before, "refs/heads/of-the-user": before["refs/heads/main"]}
    git(repository.root, "branch", "-D", "of-the-user")


@pytest.mark.skipif(os.name != "posix", reason="hooks of a shell")
def test_gits_own_files_are_watched_and_its_hooks_are_not_run(repository: Repository, tree: Path) -> None:
    """The round is refused, a person is told where to look, and our own commands run no program of it."""
    refusal = edited(repository, tree, add_hook).refusal
    hook = repository.common_dir / "hooks" / "post-checkout"
    assert refusal == f"files that git or pytest obeys were changed, look at them: {hook}"
    hook.chmod(0o755)
    repository.add_tree(tree, repository.commit_of("HEAD"))
    hook.unlink()
    assert not (tree / "hooked").exists()


def test_a_tree_that_leads_to_the_users_checkout_does_that_no_harm(
    repository: Repository, tree: Path
) -> None:
    """Removing it removes the tree alone, whatever its ``.git`` says."""
    assert "look at them" in edited(repository, tree, lead_git_elsewhere).refusal
    repository.remove_tree(tree)
    assert not tree.exists()
    assert (repository.root / "prompts/system.md").is_file()
    assert git(repository.root, "status", "--porcelain") == ""


def replace_prompt(tree: Path) -> None:
    """Have git take another text for the prompt that the new one is compared with."""
    other = tree / "prompts/system.md"
    other.write_text("Say nothing.\n", encoding="utf-8")
    worse = git(tree, "hash-object", "-w", "prompts/system.md").strip()
    git(tree, "replace", git(tree, "rev-parse", "HEAD:prompts/system.md").strip(), worse)
    other.write_text("Be kind.\nBe brief.\n", encoding="utf-8")


def test_no_object_is_taken_for_another(repository: Repository, tree: Path) -> None:
    """Both sides would be checked out as the agent likes them; its replacement is taken away."""
    assert "refs/replace/" in edited(repository, tree, replace_prompt).refusal
    assert not [name for name in repository.refs() if "replace" in name]
    repository.add_tree(tree, repository.commit_of("HEAD"))
    replace_prompt(tree)
    try:
        repository.add_tree(tree, repository.commit_of("HEAD"))
        assert (tree / "prompts/system.md").read_text() == FILES["prompts/system.md"]
    finally:
        git(repository.root, "replace", "-d", *git(repository.root, "replace", "-l").split())


def test_a_stash_of_the_users_is_as_it_was(repository: Repository, tree: Path) -> None:
    """A stash is everybody's: what an agent puts there is dropped, what it takes from there is told."""
    (repository.root / "prompts/tools.md").write_text("Mine.\n", encoding="utf-8")
    git(repository.root, "stash")
    stashes = git(repository.root, "stash", "list")

    def stash(tree: Path) -> None:
        write("prompts/system.md", "Be brief.\n")(tree)
        git(tree, "stash")

    assert "taken back: refs/stash" in edited(repository, tree, stash).refusal
    assert git(repository.root, "stash", "list") == stashes
    mine = repository.refs()["refs/stash"]
    told = edited(repository, tree, lambda tree: git(tree, "stash", "pop")).refusal
    assert f"refs/stash (was {mine})" in told


def test_a_branch_that_is_gone_or_led_elsewhere_is_told(repository: Repository, tree: Path) -> None:
    """With what it was; one that has grown is the user's own work, and none of ours."""
    base = repository.commit_of("HEAD")
    new = git(repository.root, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "More").strip()
    git(repository.root, "branch", "of-the-user", new)
    try:
        for words in (("branch", "-D", "of-the-user"), ("branch", "-f", "of-the-user", base)):
            told = edited(repository, tree, lambda tree, words=words: git(tree, *words)).refusal
            assert f"refs/heads/of-the-user (was {new})" in told
            git(repository.root, "branch", "-f", "of-the-user", base)
            grown = edited(repository, tree, lambda tree: git(tree, "branch", "-f", "of-the-user", new))
            assert grown == Edit(())
    finally:
        git(repository.root, "branch", "-D", "of-the-user")


def test_gits_own_tidying_is_no_tampering(repository: Repository, tree: Path) -> None:
    """A fetch of the user's may start it at any time."""
    assert edited(repository, tree, lambda tree: git(tree, "gc", "--prune=now")) == Edit(())


@pytest.mark.parametrize("pipe", [False, True])
def test_a_tree_that_git_no_longer_knows_is_refused(repository: Repository, tree: Path, pipe: bool) -> None:
    """And git does not wait for what it would read of it."""

    def forget(tree: Path) -> None:
        head = Path(git(tree, "rev-parse", "--absolute-git-dir").strip(), "HEAD")
        head.unlink()
        if pipe:
            os.mkfifo(head)

    assert "no longer knows" in edited(repository, tree, forget).refusal
    assert str(tree) in git(repository.root, "worktree", "list")


@pytest.mark.parametrize("name", ["home/.gitconfig", "home/.config/git/attributes", "pytest.ini"])
def test_what_all_repositories_and_tests_above_obey_is_watched(
    name: str, repository: Repository, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter for every file would change graders while they are checked out, on both sides."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    file = tmp_path / name if "home" in name else tree.parent / name
    assert (
        str(file)
        in edited(repository, tree, lambda _: write(name, "# x\n")(file.parents[name.count("/")])).refusal
    )
    file.unlink()


def test_removing_a_tree_touches_no_other(repository: Repository, tree: Path, tmp_path: Path) -> None:
    """Neither one of the user's on a disk that is away today, nor what a link in its place leads to."""
    for name in ("away", "other"):
        git(repository.root, "worktree", "add", "-q", "--detach", str(tmp_path / name))
    (tmp_path / "away").rename(tmp_path / "disk")
    before = git(repository.root, "worktree", "list")
    repository.add_tree(tree, repository.commit_of("HEAD"))
    (tree / ".git").unlink()
    repository.remove_tree(tree)
    assert git(repository.root, "worktree", "list") == before
    tree.symlink_to(tmp_path / "other")
    repository.remove_tree(tree)
    assert git(repository.root, "worktree", "list") == before
    assert (tmp_path / "other/prompts/system.md").is_file()
    (tmp_path / "disk").rename(tmp_path / "away")
    for name in ("away", "other"):
        git(repository.root, "worktree", "remove", "--force", str(tmp_path / name))


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
    attributes = repository.common_dir / "info/attributes"
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
