"""Which files are there, and which are as they were?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.graders.outcome.readings import fitting
from pytest_agenteval.graders.settings import WrongSetting, paths
from pytest_agenteval.graders.shown import cut
from pytest_agenteval.records.evidence import Evidence, FileText, Tree
from pytest_agenteval.records.grade import Check, Grade


@dataclass(frozen=True, slots=True)
class FileExists:
    """Is there a file at each of ``paths``, and none at each of ``absent``? The score is the share of both.

    Paths and globs start at the workspace's root; a glob in ``paths`` wants at least one file, one in
    ``absent`` none. Files that are no text count like any other, and so do links; folders do not. There is
    always something to judge: an empty workspace has none of the ``paths``.
    """

    paths: Sequence[str] = ()
    absent: Sequence[str] = ()

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", paths("paths", self.paths, least=0))
        object.__setattr__(self, "absent", paths("absent", self.absent, least=0))
        if not self.paths and not self.absent:
            raise WrongSetting(("paths",), "at least one path, here or in absent", "none")

    def grade(self, evidence: Evidence) -> Grade:
        """Look for each path in the workspace after the trial."""
        there = [_check(path, evidence.after, wanted=True) for path in self.paths]
        gone = [_check(path, evidence.after, wanted=False) for path in self.absent]
        return Grade.from_checks("file_exists", [*there, *gone])


@dataclass(frozen=True, slots=True)
class FileUnchanged:
    """Are the files that were there before as they were? The score is the share of them that is.

    Asked of every file that fitted one of ``paths`` (paths or globs from the workspace's root), and none of
    ``but``, when the trial began. Files that came are not looked at: ``file_exists`` with ``absent`` asks
    about those. Where no such file was there before, the grade is undecided. Doing nothing scores 1.
    """

    paths: Sequence[str]
    but: Sequence[str] = ()

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", paths("paths", self.paths))
        object.__setattr__(self, "but", paths("but", self.but, least=0))

    def grade(self, evidence: Evidence) -> Grade:
        """Compare both trees by content."""
        left_out = _all_fitting(self.but, evidence.before)
        asked = sorted(_all_fitting(self.paths, evidence.before) - left_out)
        if not asked:
            return Grade("file_unchanged", None, f"no file was there that fits {', '.join(self.paths)}")
        checks = tuple(_unchanged(path, evidence) for path in asked)
        return Grade.from_checks("file_unchanged", checks)


def _check(path: str, tree: Tree, *, wanted: bool) -> Check:
    found = fitting(path, tree)
    claim = f"there is {'a' if wanted else 'no'} file {path}"
    told = cut(", ".join(found)) or "no such file"
    return Check(claim, bool(found) is wanted, path if wanted else "no such file", told)


def _all_fitting(globs: Sequence[str], tree: Tree) -> set[str]:
    return {path for glob in globs for path in fitting(glob, tree)}


def _unchanged(path: str, evidence: Evidence) -> Check:
    old, new = evidence.before.files[path], evidence.after.files.get(path)
    return Check(f"{path} is unchanged", _alike(old, new), "the same content", _change(old, new))


def _alike(old: FileText, new: FileText | None) -> bool:
    # A link's digest is that of its target's name: a file that holds just this name is no link.
    return new is not None and old.digest == new.digest and (old.why == "link") == (new.why == "link")


def _change(old: FileText, new: FileText | None) -> str:
    if new is None:
        return "no such file"
    if _alike(old, new):
        return "the same content"
    return "a link" if new.why == "link" else f"other content ({old.size} bytes before, {new.size} after)"
