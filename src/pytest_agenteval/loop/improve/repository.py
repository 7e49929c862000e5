"""The user's repository, as far as an improvement uses it: trees of its own, commits and one branch.

Nothing here touches the user's checkout, index, HEAD or stash. Every git command names the repository, runs
neither hooks nor a file watcher, and follows no replaced objects.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake

QUIET = (
    # Hooks and watchers are programs for the user's own work.
    *(f"core.hooksPath={os.devnull}", "core.fsmonitor=false", "core.quotePath=false", "gc.auto=0"),
    # A tree is all of its commit, and what is committed is what stands there.
    "core.sparseCheckout=false", "core.safecrlf=false", "core.splitIndex=false",
)  # fmt: skip
# Without optional locks git status does not write the user's index; without replacements no object is taken
# for another; messages are read in English.
OWN_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
NOBODY = {f"GIT_{role}_NAME": "agenteval" for role in ("AUTHOR", "COMMITTER")} | {
    f"GIT_{role}_EMAIL": "agenteval@localhost" for role in ("AUTHOR", "COMMITTER")
}
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
REGULAR, PROGRAM = "100644", "100755"
NO_FILE = "000000"
NEEDED = "improve works in checkouts of commits"


class GitFailed(AgentEvalError):
    """A git command that failed; its text is git's message."""


class ChangedFile(FrozenValue, frozen=True):
    """A file that is not what a commit says: its path from the top, and its modes as git writes them.

    A mode is ``000000`` where there is no such file. ``matching`` says whether it is among the files that the
    caller named.
    """

    path: str
    old_mode: str
    new_mode: str
    matching: bool


class Repository:
    """A repository at ``root``, the top of the user's checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git_dir = Path(self._rev_parse("--absolute-git-dir"))
        self._objects = Path(os.path.normpath(root / self._rev_parse("--git-path", "objects")))

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Give the repository that a folder lies in; raises UsageMistake without one, or without git."""
        try:
            top = os.fsdecode(_run(["rev-parse", "--show-toplevel"], folder)).rstrip("\n")
        except FileNotFoundError:
            raise UsageMistake(f"{NEEDED}: expected the command git; found none") from None
        except GitFailed as refused:
            # Other refusals, as of a repository of somebody else, say themselves what to do; git init would
            # be bad advice.
            if "not a git repository" in str(refused):
                refused = GitFailed(f"it is not in a git repository ({refused}); git init makes one")
            raise UsageMistake(f"{NEEDED}: {folder}: {refused}") from None
        repository = cls(Path(top))
        try:
            repository.commit_of("HEAD")
        except GitFailed:
            raise UsageMistake(f"{NEEDED}: {top} has no commit yet") from None
        return repository

    def commit_of(self, name: str) -> str:
        """Give the full name of a commit; raises GitFailed where there is none."""
        return self._text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def uncommitted(self) -> list[str]:
        """Give the tracked files of the checkout, and the submodules, that differ from HEAD."""
        listed = self._git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
        return [os.fsdecode(entry[3:]) for entry in listed.split(b"\0") if entry]

    def untracked(self, pathspecs: Sequence[str]) -> list[str]:
        """Give the files of the checkout that git neither tracks nor ignores."""
        return self._listed("ls-files", "-z", "--others", "--exclude-standard", "--", *pathspecs)

    def files(self, commit: str, pathspecs: Sequence[str] = ()) -> list[str]:
        """Give the paths of a commit's files that match any of the pathspecs; all files, if there is none."""
        with self._index(commit) as index:
            return self._listed("ls-files", "-z", "--", *pathspecs, index=index)

    def texts(self, commit: str, paths: Iterable[str]) -> dict[str, str]:
        """Give the texts of a commit's files; bytes that are no UTF-8 are replaced, and CRLF is LF."""
        # As they are checked out: behind a filter, as of LFS, git stores only a pointer.
        blobs = {path: self._git("cat-file", "--filters", f"{commit}:{path}") for path in paths}
        return {path: blob.decode("utf-8", "replace").replace("\r\n", "\n") for path, blob in blobs.items()}

    def diff(self, old: str, new: str) -> str:
        return self._git("diff", *PLAIN_DIFF, old, new, "--").decode("utf-8", "replace")

    def changed_paths(self, old: str, new: str) -> list[str]:
        return self._listed("diff", "--name-only", "-z", *PLAIN_DIFF, old, new, "--")

    def without(self, commit: str, paths: Sequence[str]) -> str:
        """Make a commit without history that lacks these files; give its name."""
        with self._index(commit) as index:
            listed = "".join(f"{path}\0" for path in paths)
            self._git("update-index", "-z", "--force-remove", "--stdin", index=index, stdin=listed)
            return self._commit(index, "What a coding agent starts from", parent="")

    def commit_files(self, parent: str, tree: Path, paths: Sequence[str], message: str) -> str:
        """Make a commit on a parent with these files as they are in a tree; give its name."""
        with self._index(parent) as index:
            listed = "".join(f"{path}\0" for path in paths)
            add = ("update-index", "-z", "--add", "--remove", "--stdin")
            self._git(*add, index=index, tree=tree, stdin=listed)
            return self._commit(index, message, parent)

    def commit_again(self, commit: str, parent: str, message: str) -> str:
        """Make a commit with the files of another one, a parent and a message; give its name."""
        with self._index(commit) as index:
            return self._commit(index, message, parent)

    def changes(self, commit: str, tree: Path, pathspecs: Sequence[str]) -> list[ChangedFile]:
        """Give the files of a tree that differ from a commit, and new ones that are not ignored.

        The tree's own index is not used: files can be marked there as not to be looked at.
        """
        others = ("ls-files", "-z", "--others", "--exclude-standard", "--")
        with self._index(commit) as index:

            def listed(*arguments: str) -> list[str]:
                return self._listed(*arguments, index=index, tree=tree)

            # Exits with 1 where anything differs.
            with suppress(GitFailed):
                self._git("update-index", "-q", "--refresh", index=index, tree=tree)
            raw, new = listed("diff-files", "--raw", "-z", *PLAIN_DIFF), listed(*others)
            names = listed("diff-files", "--name-only", "-z", *PLAIN_DIFF, "--", *pathspecs)
            matching = {*names, *listed(*others, *pathspecs)}
        # Each file is two entries: ":old-mode new-mode digests status", and its path.
        pairs = zip(raw[::2], raw[1::2], strict=True)
        return [
            *(ChangedFile(path, line[1:7], line[8:14], path in matching) for line, path in pairs),
            *(
                ChangedFile(
                    path, NO_FILE, PROGRAM if os.access(tree / path, os.X_OK) else REGULAR, path in matching
                )
                for path in new
            ),
        ]

    def add_tree(self, path: Path, commit: str) -> None:
        """Check out a commit in a repository of its own, which borrows the objects of this one.

        Whatever is committed, stashed or configured there is nothing to the user's repository.
        """
        delete_tree(path)
        path.mkdir(parents=True)
        with self._index(commit) as index:
            # By this repository, whose filters and ends of lines are the user's.
            self._git("checkout-index", "--all", "--force", "--quiet", index=index, tree=path)
        form = f"--object-format={self._rev_parse('--show-object-format')}"
        _run(["init", "--quiet", "--template=", form, str(path)], path)
        own = path / ".git"
        (own / "objects" / "info" / "alternates").write_text(
            f"{self._objects}\n", encoding="utf-8", newline="\n"
        )
        _run(["update-ref", "--no-deref", "HEAD", commit], path)
        _run(["read-tree", "HEAD"], path)
        for name in ("user.name", "user.email"):
            # Who commits there is whoever commits here.
            with suppress(GitFailed):
                _run(["config", name, self._text("config", "--get", name)], path)

    def set_branch(self, branch: str, commit: str) -> None:
        self._git("update-ref", f"refs/heads/{branch}", commit)

    def _commit(self, index: Path, message: str, parent: str) -> str:
        tree = self._text("write-tree", index=index)
        parents = ("-p", parent) if parent else ()
        author: Mapping[str, str] = {}
        try:
            self._git("var", "GIT_AUTHOR_IDENT")
            self._git("var", "GIT_COMMITTER_IDENT")
        except GitFailed:  # git knows no author here
            author = NOBODY
        return self._text("commit-tree", tree, *parents, "-F", "-", stdin=message, variables=author)

    @contextmanager
    def _index(self, commit: str) -> Iterator[Path]:
        # The user's own index stays as it is.
        with tempfile.TemporaryDirectory(prefix="agenteval-index-") as folder:
            index = Path(folder, "index")
            self._git("read-tree", commit, index=index)
            yield index

    def _listed(self, *arguments: str, index: Path | None = None, tree: Path | None = None) -> list[str]:
        parts = self._git(*arguments, index=index, tree=tree).split(b"\0")
        return [os.fsdecode(part) for part in parts if part]

    def _text(
        self,
        *arguments: str,
        index: Path | None = None,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> str:
        out = self._git(*arguments, index=index, stdin=stdin, variables=variables)
        return os.fsdecode(out).strip("\n")

    def _rev_parse(self, *what: str) -> str:
        return os.fsdecode(_run(["rev-parse", *what], self.root)).rstrip("\n")

    def _git(
        self,
        *arguments: str,
        index: Path | None = None,
        tree: Path | None = None,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git on this repository, whatever git would find in ``tree``; ``index`` replaces its index."""
        own = {"GIT_INDEX_FILE": str(index)} if index else {}
        where = [f"--git-dir={self.git_dir}", f"--work-tree={tree or self.root}"]
        return _run([*where, *arguments], tree or self.root, stdin, {**own, **(variables or {})})


def delete_tree(path: Path) -> None:
    """Remove a tree, whatever is in it; of a link in its place the link alone."""
    if path.is_symlink():
        path.unlink()
    remove_tree(path)


def _run(
    arguments: Sequence[str], folder: Path, stdin: str = "", variables: Mapping[str, str] | None = None
) -> bytes:
    """Run git and give its output; raises GitFailed with its last line."""
    settings = [part for setting in QUIET for part in ("-c", setting)]
    done = subprocess.run(
        ["git", "--no-pager", *settings, *arguments],
        cwd=folder,
        env={**git_environment(), **OWN_VARIABLES, **(variables or {})},
        input=os.fsencode(stdin),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        words = " ".join(done.stderr.decode("utf-8", "replace").split()) or "no word"
        command = next(part for part in arguments if not part.startswith("-"))
        raise GitFailed(f"git {command}: {words.rpartition('fatal: ')[2]}")
    return done.stdout


def git_environment() -> dict[str, str]:
    """Give this process's variables without those that lead git elsewhere, as a hook sets them."""
    leading = (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES"),
    )
    return {name: value for name, value in os.environ.items() if name not in leading}
