"""Did what was written land where it belongs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.end_state import undecided_where_unreadable
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import (
    changed_below,
    clean_path,
    enriched_below,
    lies_in,
    pkm_path,
    upstream_path,
)
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_flag, check_mode, texts

NAME = "pkm_routed_correctly"


@dataclass(frozen=True, slots=True)
class PkmRoutedCorrectly:
    """Did a change land in an expected file, or at least in an expected bucket?

    1 where one of ``expected_files`` was changed, or an expected bucket where no file is expected; 0.5, which
    passes, for the right bucket and another file; else 0. Undecided where the entry was skipped: whether that
    was right, ``pkm_completion`` says. ``upstream`` compares paths as Memex does: by their first letters.

    ``default`` compares whole names: ``Areas/Health/`` is a folder, ``Areas/Health`` may also be a file
    ``Areas/Health.md``, and neither is ``Areas/Healthcare.md``. Only created and changed files that hold
    something new count: white space, deletions and a new order do not. Of a split task, ``every_bucket`` asks
    for a change in each bucket: the score is the mean of what each bucket gets by the rule above, where the
    files expected of a bucket are those that lie in it. Wrong extra files are named (``elsewhere`` in the
    details) and cost nothing, unless ``only`` is set: then one of them halves the score. With
    ``every_bucket`` or ``only``, half credit does not pass: the threshold is 1.
    """

    expected_buckets: Sequence[str]
    expected_files: Sequence[str] = ()
    every_bucket: bool = False
    only: bool = False
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        check_mode(self.mode)
        for name in ("expected_buckets", "expected_files"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        for name in ("every_bucket", "only"):
            check_flag(name, getattr(self, name), self.mode)
        if self.mode == "default":
            _check_expected(self.expected_buckets, self.expected_files, self.every_bucket)

    @property
    def threshold(self) -> float:
        """The score wanted where the task says none."""
        return 1.0 if self.every_bucket or self.only else 0.5

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the changed files with the expected places."""
        if evidence.state.get("skipped_pkm") is True:
            return Grade(NAME, None, "the entry was skipped: there is nothing to place")
        if self.mode == "upstream":
            return self._upstream(evidence)
        paths = list(dict.fromkeys(map(pkm_path, enriched_below(evidence))))
        return self._every(paths) if self.every_bucket else self._any(paths)

    def _upstream(self, evidence: Evidence) -> Grade:
        changes = changed_below(evidence)
        paths = list(dict.fromkeys(map(upstream_path, (*changes.created, *changes.modified))))
        buckets, files = (
            tuple(map(upstream_path, self.expected_buckets)),
            set(map(upstream_path, self.expected_files)),
        )
        at_file, in_bucket = bool(files & set(paths)), any(path.startswith(buckets) for path in paths)
        return self._grade_of(
            _score(at_file, in_bucket, bool(files)), self._checks(at_file, in_bucket, paths), paths
        )

    def _any(self, paths: list[str]) -> Grade:
        at_file = any(pkm_path(file) in paths for file in self.expected_files)
        in_bucket = any(self._hit(bucket, paths) for bucket in self.expected_buckets)
        score = _score(at_file, in_bucket, bool(self.expected_files))
        return self._grade_of(score, self._checks(at_file, in_bucket, paths), paths)

    def _every(self, paths: list[str]) -> Grade:
        scores, checks = [], []
        for bucket in self.expected_buckets:
            files = [file for file in self.expected_files if lies_in(pkm_path(file), bucket)]
            at_file, in_bucket = any(pkm_path(file) in paths for file in files), self._hit(bucket, paths)
            scores.append(_score(at_file, in_bucket, bool(files)))
            target = " or ".join(files) or bucket
            checks.append(Check(f"a change landed in {target}", scores[-1] == 1.0, target, _path_list(paths)))
        return self._grade_of(sum(scores) / len(scores), tuple(checks), paths)

    def _hit(self, bucket: str, paths: Sequence[str]) -> bool:
        return any(lies_in(path, bucket) for path in paths)

    def _checks(self, at_file: bool, in_bucket: bool, paths: Sequence[str]) -> tuple[Check, ...]:
        changed, files, buckets = _path_list(paths), " or ".join(self.expected_files), self._buckets()
        file = Check("a change landed in an expected file", at_file, files, changed)
        bucket = Check("a change landed in an expected bucket", at_file or in_bucket, buckets, changed)
        return (file, bucket) if self.expected_files else (bucket,)

    def _grade_of(self, score: float, checks: tuple[Check, ...], paths: list[str]) -> Grade:
        elsewhere = [] if self.mode == "upstream" else self._elsewhere(paths)
        if self.only:
            claim = "nothing changed elsewhere"
            checks = (*checks, Check(claim, not elsewhere, "no file", _path_list(elsewhere)))
            score = score / 2 if elsewhere else score
        details = {"full": score == 1.0, "changed": paths, "elsewhere": elsewhere}
        return Grade(NAME, score, self._why(checks, paths, elsewhere), checks, details)

    def _elsewhere(self, paths: Sequence[str]) -> list[str]:
        expected = set(map(pkm_path, self.expected_files))
        outside = (path for path in paths if path not in expected)
        return [
            path for path in outside if not any(lies_in(path, bucket) for bucket in self.expected_buckets)
        ]

    def _why(self, checks: Sequence[Check], paths: Sequence[str], elsewhere: Sequence[str]) -> str:
        target = " or ".join(self.expected_files) or self._buckets()
        if not paths:
            return f"nothing new was written; expected {target}"
        missed = "; ".join(str(check) for check in checks if not check.passed)
        landed = ", ".join(path for path in paths if path not in elsewhere)
        also = f"; also changed: {', '.join(elsewhere)}" if elsewhere else ""
        return missed or f"changed as expected: {landed}{also}"

    def _buckets(self) -> str:
        between = " and " if self.every_bucket else " or "
        return between.join(self.expected_buckets) or "no bucket"


def _score(at_file: bool, in_bucket: bool, files_expected: bool) -> float:
    if at_file:
        return 1.0
    if in_bucket:
        return 0.5 if files_expected else 1.0
    return 0.0


def _path_list(paths: Sequence[str]) -> str:
    return ", ".join(paths) or "no file"


def _check_expected(buckets: Sequence[str], files: Sequence[str], every_bucket: bool) -> None:
    """Refuse what can never be met or always is."""
    if not buckets and (every_bucket or not files):
        raise ValueError("expected_buckets must name at least one bucket")
    for name, paths in (("expected_buckets", buckets), ("expected_files", files)):
        if not all(map(clean_path, paths)):
            raise ValueError(f"{name}: the root is no place to aim at; name a folder or a file")
    outside = [file for file in files if not any(lies_in(pkm_path(file), bucket) for bucket in buckets)]
    if every_bucket and outside:
        raise ValueError(f"expected_files: {outside[0]!r} lies in none of the expected buckets")
