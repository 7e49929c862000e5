"""Graders of the workspace's files: which are there, which are unchanged, and what they contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from pytest_agenteval.graders.grader_settings import WrongSetting, brief, cut, path_at, paths, patterns, texts
from pytest_agenteval.graders.matchers import check_values, values
from pytest_agenteval.graders.text_reading import (
    ParsedText,
    checks_to_score,
    parse_front_matter,
    parse_text,
    pattern_checks,
    text_checks,
)
from pytest_agenteval.records.evidence import Check, Evidence, FileText, Grade, Tree
from pytest_agenteval.tasks.globs import matches
from pytest_agenteval.text.json_values import normal_text


class SelectedFile(NamedTuple):
    """One file's text or, where it has none that can be read, what it is instead."""

    path: str
    text: str = ""
    problem: str = ""


def matching_paths(path: str, tree: Tree) -> list[str]:
    """Give the file of exactly this path, else every file that fits it as a glob."""
    # Brackets are part of many names: a path that is there is not read as a glob.
    if path in tree:
        return [path]
    wanted = normal_text(path)
    names = [(name, normal_text(name)) for name in tree]
    # Systems spell one name in NFC or in NFD.
    same = [name for name, normal in names if normal == wanted]
    return same or [name for name, normal in names if matches(wanted, normal)]


def select_files(path: str, tree: Tree) -> list[SelectedFile]:
    """Read each file that a path or glob selects; where it selects none, one entry says so."""
    selected = []
    for name in matching_paths(path, tree):
        file = tree.files[name]
        if file.text is not None:
            selected.append(SelectedFile(name, file.text))
        else:
            what = _WITHOUT_TEXT.get(file.why, "a binary file")
            selected.append(SelectedFile(name, problem=f"{what} ({file.size} bytes)"))
    return selected or [SelectedFile(path, problem="no such file")]


def best_grade(
    grader: str, files: Sequence[SelectedFile], check: Callable[[SelectedFile], Sequence[Check]]
) -> Grade:
    """Check every file in the same way and return the best grade: any one file is enough."""
    return best_of(Grade.from_checks(grader, check(file)) for file in files)


def best_of(grades: Iterable[Grade]) -> Grade:
    """Return the best grade; an undecided one only where no grade is decided."""
    return max(grades, key=lambda grade: -1.0 if grade.score is None else grade.score)


_WITHOUT_TEXT = {
    "link": "a link",
    "too large": "a file too large to look at",
    "unreadable": "a file that may not be read",
}


@dataclass(frozen=True, slots=True)
class FileExists:
    """Is there a file at each of ``paths``, and none at each of ``absent``? The score is the share of both.

    Paths and globs start at the workspace's root; a glob in ``paths`` wants at least one file, one in
    ``absent`` none. Files that are no text count like any other, and so do links; folders do not. There is
    always something to judge: an empty workspace has none of the ``paths``.
    """

    paths: Sequence[str] = ()
    absent: Sequence[str] = ()

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", paths("paths", self.paths, least=0))
        object.__setattr__(self, "absent", paths("absent", self.absent, least=0))
        if not self.paths and not self.absent:
            raise WrongSetting(("paths",), "at least one path, here or in absent", "none")

    def grade(self, evidence: Evidence) -> Grade:
        present = [_presence(path, evidence.after, expected=True) for path in self.paths]
        absent = [_presence(path, evidence.after, expected=False) for path in self.absent]
        return Grade.from_checks("file_exists", [*present, *absent])


@dataclass(frozen=True, slots=True)
class FileUnchanged:
    """Are the files that were there before as they were? The score is the share of them that is.

    The files are those that fitted one of ``paths`` (paths or globs from the workspace's root), and none of
    ``but``, when the trial began. New files are not looked at: ``file_exists`` with ``absent`` checks those.
    Where no such file was there before, the grade is undecided. Doing nothing scores 1.
    """

    paths: Sequence[str]
    but: Sequence[str] = ()

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", paths("paths", self.paths))
        object.__setattr__(self, "but", paths("but", self.but, least=0))

    def grade(self, evidence: Evidence) -> Grade:
        left_out = _all_matching_paths(self.but, evidence.before)
        paths = sorted(_all_matching_paths(self.paths, evidence.before) - left_out)
        if not paths:
            return Grade("file_unchanged", None, f"no file matches {', '.join(self.paths)}")
        before, after = evidence.before.files, evidence.after.files
        # A file whose name only changed its Unicode form is the same file. A new file beside an old one of
        # the other form is another file, so paths that were there before are left out.
        respelt = {normal_text(path): file for path, file in after.items() if path not in before}
        checks = []
        for path in paths:
            old, new = before[path], after.get(path) or respelt.get(normal_text(path))
            same = _is_same_content(old, new)
            checks.append(Check(f"{path} is unchanged", same, "the same content", _change(old, new)))
        return Grade.from_checks("file_unchanged", checks)


def _presence(path: str, tree: Tree, *, expected: bool) -> Check:
    paths = matching_paths(path, tree)
    claim = f"there is {'a' if expected else 'no'} file {path}"
    found_text = cut(", ".join(paths)) or "no such file"
    return Check(claim, bool(paths) is expected, path if expected else "no such file", found_text)


def _all_matching_paths(globs: Sequence[str], tree: Tree) -> set[str]:
    return {path for glob in globs for path in matching_paths(glob, tree)}


def _is_same_content(old: FileText, new: FileText | None) -> bool:
    # A link's digest is that of its target's name: a file that holds just this name has the same digest.
    return new is not None and old.digest == new.digest and (old.why == "link") == (new.why == "link")


def _change(old: FileText, new: FileText | None) -> str:
    if new is None:
        return "no such file"
    if _is_same_content(old, new):
        return "the same content"
    return "a link" if new.why == "link" else f"other content ({old.size} bytes before, {new.size} after)"


@dataclass(frozen=True, slots=True)
class FileContains:
    """Does a file contain each of these texts? The score is the share that it contains.

    ``path`` starts at the workspace's root and may be a glob: then the one file that contains most counts.
    ``fold`` takes no notice of case, width and kinds and lengths of white space. With ``any``, one text is
    enough for 1. A file that is not there, a binary one, one too large to look at and a link contain nothing.
    """

    path: str
    texts: Sequence[str]
    fold: bool = False
    any: bool = False

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "texts", texts("texts", self.texts))

    def grade(self, evidence: Evidence) -> Grade:
        return best_grade("file_contains", select_files(self.path, evidence.after), self._checks)

    def _checks(self, file: SelectedFile) -> Sequence[Check]:
        checks = text_checks(file.path, self.texts, file.text, file.problem, fold=self.fold)
        return checks_to_score(checks, any_will_do=self.any)


@dataclass(frozen=True, slots=True)
class FileMatches:
    """Is each of these regular expressions found in a file? The score is the share that is.

    ``path`` starts at the workspace's root and may be a glob: then the one file that matches most counts.
    A pattern is searched for anywhere; ``^`` and ``$`` are the ends of each line, which is a newline in
    any file unless the pattern names ``\\r``. With ``any``, one pattern is enough for 1. In a file that
    is not there, a binary one, one too large to look at and a link nothing is found.
    """

    path: str
    patterns: Sequence[str]
    any: bool = False

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        return best_grade("file_matches", select_files(self.path, evidence.after), self._checks)

    def _checks(self, file: SelectedFile) -> Sequence[Check]:
        checks = pattern_checks(file.path, self.patterns, file.text, file.problem)
        return checks_to_score(checks, any_will_do=self.any)


ENDINGS = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Does a Markdown file's front matter hold these values? The score is the share that it holds.

    ``values`` maps paths into the front matter (``tags[0]``) to matchers; see ``graders/matchers.py``.
    ``path`` starts at the workspace's root and may be a glob: then the one file that fits best counts.

    The YAML is read as other programs read it: merge keys count, and of a key that comes twice the last one
    does. ``yes`` or a date is a text or what YAML 1.1 makes of it, whichever is wanted.

    Without front matter no value is there. Where the file is missing or no text, every value is missed, also
    one that should be absent. Where its front matter cannot be read, the grade is undecided (``unreadable``).
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        files = select_files(self.path, evidence.after)
        return best_of(
            _values_grade("front_matter", file, self.values, parse_front_matter(file.text)) for file in files
        )


@dataclass(frozen=True, slots=True)
class FileValue:
    """Does a JSON or YAML file hold these values? The score is the share that it holds.

    ``values`` maps paths into the file (``author.name``, ``[0].id``) to matchers; see
    ``graders/matchers.py``. ``path`` starts at the workspace's root, ends in .json, .yaml or .yml and may be
    a glob: then the one file that fits best counts. Both formats are read as other programs read them:
    Python's JSON, and YAML as in ``front_matter``. Where the file is missing or no text, every value is
    missed, also one that should be absent. Where it cannot be read, the grade is undecided (``unreadable``).
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        if not path_at(("path",), self.path).lower().endswith(ENDINGS):
            raise WrongSetting(("path",), f"a path that ends in {', '.join(ENDINGS)}", brief(self.path))
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        files = select_files(self.path, evidence.after)
        return best_of(
            _values_grade("file_value", file, self.values, parse_text(file.text, file.path)) for file in files
        )


def _values_grade(grader: str, file: SelectedFile, expected: Mapping[str, Any], parsed: ParsedText) -> Grade:
    # A document that nobody can read says nothing of its values, not even of one that should be absent.
    if parsed.problem and not file.problem:
        return Grade(grader, None, f"{file.path}: {parsed.problem}", undecided="unreadable")
    checks = check_values(file.path, values("values", expected), parsed.readings, file.problem)
    return Grade.from_checks(grader, checks)
