"""Do the files hold the values that they must?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.graders.matching.matchers import check_values, values
from pytest_agenteval.graders.outcome.documents import Read, read, read_front_matter
from pytest_agenteval.graders.outcome.readings import Reading, best, readings
from pytest_agenteval.graders.settings import WrongSetting, path_at
from pytest_agenteval.graders.shown import shown
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade

ENDINGS = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Does a Markdown file's front matter hold these values? The score is the share that it holds.

    ``values`` maps paths into the front matter (``tags[0]``) to matchers; see ``matching/matchers.py``.
    ``path`` starts at the workspace's root and may be a glob: then the one file that fits best counts. The
    YAML is read strictly: only ``true`` and ``false`` are truth values, dates are texts, and a key that comes
    twice is a mistake. Without front matter no value is there; where the file is missing, no text, or its
    front matter cannot be read, every value is missed, also one that should be absent.
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        path_at(("path",), self.path)
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        """Compare each value in each file that fits."""
        return best("front_matter", readings(self.path, evidence.after), self._asked)

    def _asked(self, file: Reading) -> Sequence[Check]:
        found = Read(problem=file.problem) if file.problem else read_front_matter(file.text)
        return check_values(file.path, values("values", self.values), found.value, found.problem)


@dataclass(frozen=True, slots=True)
class FileValue:
    """Does a JSON or YAML file hold these values? The score is the share that it holds.

    ``values`` maps paths into the file (``author.name``, ``[0].id``) to matchers; see
    ``matching/matchers.py``. ``path`` starts at the workspace's root, ends in .json, .yaml or .yml and may be
    a glob: then the one file that fits best counts. Both formats are read strictly: no key twice, and in YAML
    only ``true`` and ``false`` are truth values and dates are texts. Where the file is missing, no text, or
    cannot be read, every value is missed, also one that should be absent.
    """

    path: str
    values: Mapping[str, Any]

    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not path_at(("path",), self.path).lower().endswith(ENDINGS):
            raise WrongSetting(("path",), f"a path that ends in {', '.join(ENDINGS)}", shown(self.path))
        values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        """Compare each value in each file that fits."""
        return best("file_value", readings(self.path, evidence.after), self._asked)

    def _asked(self, file: Reading) -> Sequence[Check]:
        found = Read(problem=file.problem) if file.problem else read(file.text, file.path)
        return check_values(file.path, values("values", self.values), found.value, found.problem)
