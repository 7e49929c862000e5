"""Is what was in the knowledge base still there: how many lines of each file, wherever they stand now?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import ClassVar

from pytest_agenteval import Check, Evidence, FileText, Grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    Mode,
    check_mode,
    count_marker,
    end_texts,
    files_below,
    undecided_where_unreadable,
)
from pytest_agenteval.records.record import FrozenValue

# The share of a line's words that a new line must hold to count as the same line, edited.
LIKE = 0.6

# The highest score of a file that lost a line.
LOSSY = 0.75

# The same share for a new line that stands exactly where the old one stood.
HALF = 0.5

# If either version has more lines than this, missing lines are not searched for in an edited form.
MOST_COMPARED = 200

# A script without spaces has no words to count: there, each letter counts as one.
_WORDS = re.compile(r"[\u3040-\ud7ff]|[^\W\u3040-\ud7ff]+")


class LineSurvival(FrozenValue, frozen=True):
    """What became of the lines of one text: their number, how many are there still, how many only edited."""

    lines: int
    kept: int
    edited: int = 0
    lost: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """The share of a text that survives, no more than 0.75 where a line with a word in it is gone."""
        # A rule or an empty bullet is no loss.
        return min(self.share, LOSSY) if self.loses_words else self.share

    @property
    def loses_words(self) -> bool:
        return any(_words(line) for line in self.lost)

    @property
    def share(self) -> float:
        """The share that survives, an edited line counted half; 1 where there was no line to lose."""
        return (self.kept + self.edited / 2) / self.lines if self.lines else 1.0


def count_lines(texts: Iterable[str | None]) -> Counter[str]:
    """Count the lines of texts; blank ones and white space at a line's end do not matter."""
    lines = (line.rstrip() for text in texts for line in (text or "").splitlines())
    return Counter(line for line in lines if line)


def line_survival(text: str, there: Counter[str], new: Iterable[str], now: str | None = None) -> LineSurvival:
    """Look for each line of a text among the lines that are there, then for an edited form among new ones.

    A line that stood twice must stand twice; that another text holds the same line does not matter. ``now``
    is what stands in the text's own place: a line of which something new took the place is edited where they
    share half of its words.
    """
    lines = count_lines([text])
    gone = lines - there
    edited = _edited_lines(gone, new)
    edited |= (gone - edited) & _replaced_lines(text, now or "", gone - edited)
    lost = tuple((gone - edited).elements())
    survived = lines.total() - gone.total()
    return LineSurvival(lines.total(), survived, edited.total(), lost)


def _edited_lines(gone: Counter[str], new: Iterable[str]) -> Counter[str]:
    """Give the missing lines most of whose words stand in one new line."""
    candidates = list(new)
    # Every line is compared with every other, so the time would grow with the square.
    if max(len(gone), len(candidates)) > MOST_COMPARED:
        return Counter()
    words = [_words(line) for line in candidates]
    return Counter({line: n for line, n in gone.items() if any(_is_like(_words(line), now) for now in words)})


def _replaced_lines(text: str, now: str, gone: Counter[str]) -> Counter[str]:
    """Give the missing lines whose place is taken by something that shares half of their words."""
    was, new = ([line.rstrip() for line in version.splitlines() if line.strip()] for version in (text, now))
    if not gone or max(len(was), len(new)) > MOST_COMPARED:
        return Counter()
    edited: Counter[str] = Counter()
    for kind, start, end, first, last in SequenceMatcher(None, was, new, autojunk=False).get_opcodes():
        if kind == "replace":
            words = _words(" ".join(new[first:last]))
            edited += Counter(line for line in was[start:end] if _is_like(_words(line), words, HALF))
    return edited


def _is_like(was: Counter[str], now: Counter[str], share: float = LIKE) -> bool:
    return bool(was) and (was & now).total() >= share * was.total()


def _words(line: str) -> Counter[str]:
    return Counter(_WORDS.findall(line.casefold()))


NAME = "pkm_no_overwrite"
ENOUGH = 0.8

Files = Mapping[str, FileText]


@dataclass(frozen=True, slots=True)
class PkmNoOverwrite:
    """Did the agent keep what the user had written?

    ``upstream`` looks whether ``seed_marker`` still stands in any file: what stood around it may be gone.

    ``default`` counts for every file that was there how many of its lines survive; the score is that of the
    worst file.

    - A line survives in whatever file it stands now, so that moving and merging cost nothing.
    - An edited line (most of its words are in one new line, or half of them in what took its place) counts
      half. The threshold is 0.8, so that an honest correction passes.
    - A file of which a line is gone without a trace scores 0.75 at most, however long it is.
    - A marker that is gone halves the score.
    - A file that is no text survives as it was or not at all. One that is too large for a snapshot, before or
      after, is left out.

    Where every file was blank before the trial, or none held the marker, the grade is undecided.
    """

    seed_marker: str | None = None
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "3"

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.mode == "upstream" and self.seed_marker is None:
            raise ValueError("seed_marker: mode upstream asks for one")
        if self.seed_marker is not None and not isinstance(self.seed_marker, str):
            raise ValueError(f"seed_marker must be a text, not {self.seed_marker!r}")
        if self.mode == "default" and self.seed_marker is not None and not self.seed_marker.strip():
            raise ValueError("seed_marker: a blank text is in every file; take it out")

    @property
    def threshold(self) -> float:
        # Memex wants its one marker, all of it; lines may be corrected.
        return 1.0 if self.mode == "upstream" else ENOUGH

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        marker = self.seed_marker
        claim = "the marker is still there"
        if self.mode == "upstream":
            texts = end_texts(evidence)
            path = next((path for path, text in texts.items() if (marker or "") in text), None)
            return Grade.from_checks(NAME, [Check(claim, path is not None, marker or "", path or "no file")])
        before, after = files_below(evidence.before), files_below(evidence.after)
        was_marked = marker is None or any(count_marker(marker, file.text) for file in before.values())
        survivals = file_survivals(before, after) if was_marked else {}
        if not survivals:
            return Grade(NAME, None, _nothing_to_keep(marker, was_marked, before))
        stands = marker is None or any(count_marker(marker, file.text) for file in after.values())
        # Of equally bad files the first by path, so that the same one is named in every run.
        worst = min(survivals, key=lambda path: (survivals[path].score, path))
        share = survivals[worst].score
        checks = [_check(path, own) for path, own in survivals.items() if own.share < 1 or path == worst]
        if marker is not None:
            checks.insert(0, Check(claim, stands, marker, "the marker" if stands else "no file"))
        missed = "; ".join(str(check) for check in checks if not check.passed)
        own = survivals[worst]
        why = missed or "every line that was there is still there"
        if not missed and own.share < 1:
            why = f"of the {own.lines} lines of {worst}, {own.kept} are kept and {own.edited} edited"
        details = {
            "file": worst,
            "lines": own.lines,
            "kept": own.kept,
            "edited": own.edited,
            "lost": list(own.lost[:20]),
            "files": {path: other.share for path, other in survivals.items() if other.share < 1},
        }
        return Grade(NAME, share if stands else share / 2, why, tuple(checks), details)


def file_survivals(before: Files, after: Files) -> dict[str, LineSurvival]:
    """Give what became of each file that held something and can be compared."""
    there = count_lines(file.text for file in after.values())
    # A line that was like the lost one all along must not stand for it: only new lines can be edited forms.
    new = list(there - count_lines(file.text for file in before.values()))
    digests = {file.digest for file in after.values()}
    survivals: dict[str, LineSurvival] = {}
    for path, file in before.items():
        now = after.get(path)
        # Before all else: a file that cannot be read has survived where the very same bytes lie anywhere.
        if file.text is None and file.digest in digests:
            survivals[path] = LineSurvival(1, 1)
        elif "too large" in (file.why, now.why if now else ""):
            continue
        elif file.text is None:
            survivals[path] = LineSurvival(1, 0, lost=(f"({file.why}, {file.size} bytes)",))
        elif file.text.strip():
            survivals[path] = line_survival(file.text, there, new, now.text if now else None)
    return survivals


def _check(path: str, survival: LineSurvival) -> Check:
    finding = f"{survival.kept} kept, {survival.edited} edited, {len(survival.lost)} lost"
    return Check(f"{path} keeps its lines", survival.score >= ENOUGH, f"{survival.lines} lines", finding)


def _nothing_to_keep(marker: str | None, was_marked: bool, before: Files) -> str:
    if not any(file.size for file in before.values()):
        return "the knowledge base was empty: there was nothing to keep"
    if not was_marked:
        return f"no file held {marker!r} before the trial: correct seed_marker, or the fixture"
    return "no file that was there can be compared"
