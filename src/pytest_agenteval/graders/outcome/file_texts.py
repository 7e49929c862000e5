"""Do the files say what they must?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.graders.outcome.readings import Reading, best, readings
from pytest_agenteval.graders.outcome.text_checks import enough, pattern_check, text_check
from pytest_agenteval.graders.settings import path_at, patterns, texts
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade


@dataclass(frozen=True, slots=True)
class FileContains:
    """Does a file contain each of these texts? The score is the share that it contains.

    ``path`` starts at the workspace's root and may be a glob: then the one file that contains most counts.
    ``fold`` takes no notice of case, width and kinds and lengths of white space. With ``any``, one text is
    enough for 1. A file that is not there, a binary one, one too large to be kept and a link contain nothing.
    """

    path: str
    texts: Sequence[str]
    fold: bool = False
    any: bool = False

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "texts", texts("texts", self.texts))

    def grade(self, evidence: Evidence) -> Grade:
        """Look for each text in each file that fits."""
        return best("file_contains", readings(self.path, evidence.after), self._asked)

    def _asked(self, file: Reading) -> Sequence[Check]:
        checks = [text_check(file.path, one, file.text, file.problem, fold=self.fold) for one in self.texts]
        return enough(checks, any_will_do=self.any)


@dataclass(frozen=True, slots=True)
class FileMatches:
    """Is each of these regular expressions found in a file? The score is the share that is.

    ``path`` starts at the workspace's root and may be a glob: then the one file that matches most counts. A
    pattern is searched for anywhere; ``^`` and ``$`` are the ends of each line. With ``any``, one pattern is
    enough for 1. In a file that is not there, a binary one, one too large to be kept and a link nothing is
    found.
    """

    path: str
    patterns: Sequence[str]
    any: bool = False

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        """Search each file that fits for each pattern."""
        return best("file_matches", readings(self.path, evidence.after), self._asked)

    def _asked(self, file: Reading) -> Sequence[Check]:
        checks = [pattern_check(file.path, one, file.text, file.problem) for one in self.patterns]
        return enough(checks, any_will_do=self.any)
