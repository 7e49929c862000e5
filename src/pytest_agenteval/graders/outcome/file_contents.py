"""Do the files say what they must, and hold the values that they must?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.graders.formatting import brief
from pytest_agenteval.graders.matching.matchers import check_values, values
from pytest_agenteval.graders.outcome.files import SelectedFile, best_grade, best_of, select_files
from pytest_agenteval.graders.outcome.texts import (
    ParsedText,
    checks_to_score,
    parse_front_matter,
    parse_text,
    pattern_checks,
    text_checks,
)
from pytest_agenteval.graders.settings import WrongSetting, path_at, patterns, texts
from pytest_agenteval.records.evidence import Check, Evidence, Grade


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
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "texts", texts("texts", self.texts))

    def grade(self, evidence: Evidence) -> Grade:
        """Look for each text in each file that fits."""
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
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        """Search each file that fits for each pattern."""
        return best_grade("file_matches", select_files(self.path, evidence.after), self._checks)

    def _checks(self, file: SelectedFile) -> Sequence[Check]:
        checks = pattern_checks(file.path, self.patterns, file.text, file.problem)
        return checks_to_score(checks, any_will_do=self.any)


ENDINGS = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Does a Markdown file's front matter hold these values? The score is the share that it holds.

    ``values`` maps paths into the front matter (``tags[0]``) to matchers; see ``matching/matchers.py``.
    ``path`` starts at the workspace's root and may be a glob: then the one file that fits best counts. The
    YAML is read as other programs read it: merge keys count, of a key that comes twice the last one does, and
    ``yes`` or a date is a text or what YAML 1.1 makes of it, whichever is wanted. Without front matter no
    value is there; where the file is missing or no text, every value is missed, also one that should be
    absent. Where its front matter cannot be read, the grade is undecided (``unreadable``).
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        """Compare each value in each file that fits."""
        files = select_files(self.path, evidence.after)
        return best_of(
            _values_grade("front_matter", file, self.values, parse_front_matter(file.text)) for file in files
        )


@dataclass(frozen=True, slots=True)
class FileValue:
    """Does a JSON or YAML file hold these values? The score is the share that it holds.

    ``values`` maps paths into the file (``author.name``, ``[0].id``) to matchers; see
    ``matching/matchers.py``. ``path`` starts at the workspace's root, ends in .json, .yaml or .yml and may be
    a glob: then the one file that fits best counts. Both formats are read as other programs read them:
    Python's JSON, and YAML as in ``front_matter``. Where the file is missing or no text, every value is
    missed, also one that should be absent. Where it cannot be read, the grade is undecided (``unreadable``).
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not path_at(("path",), self.path).lower().endswith(ENDINGS):
            raise WrongSetting(("path",), f"a path that ends in {', '.join(ENDINGS)}", brief(self.path))
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        """Compare each value in each file that fits."""
        files = select_files(self.path, evidence.after)
        return best_of(
            _values_grade("file_value", file, self.values, parse_text(file.text, file.path)) for file in files
        )


def _values_grade(grader: str, file: SelectedFile, expected: Mapping[str, Any], parsed: ParsedText) -> Grade:
    """Compare each value in one file; undecided where it is a text that nobody can read."""
    if parsed.problem and not file.problem:
        return Grade(grader, None, f"{file.path}: {parsed.problem}", undecided="unreadable")
    checks = check_values(file.path, values("values", expected), parsed.readings, file.problem)
    return Grade.from_checks(grader, checks)
