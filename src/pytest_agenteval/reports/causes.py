"""Why trials did not pass: misses and errors grouped by the grader, the check and the reason.

Reasons are alike where they differ only in numbers, ids, paths and quoted values: ``the card says 'cabin'``
and ``the card says 'Ghent'`` are one cause. No transcript is read: the journal holds what is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from pytest_agenteval.records.evidence import denied
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.tables import markdown_rows
from pytest_agenteval.store.journal_entry import MOST_CLAIMS, SHORT_CLAIM, JournalEntry
from pytest_agenteval.store.record_files import shorten
from pytest_agenteval.text.formatting import (
    INDENT,
    StyledLine,
    cell_width,
    cut,
    format_figure,
    one_line,
    pad,
    pluralize,
)

CauseKind = Literal["missed", "errored"]

MOST_REASON, MOST_PLACE = 200, 60
MOST_ALONE = 5
"""Causes of one grader, each of a task of its own, that are listed; more of them are one cause."""

LEAST_SHARED = 2
"""Words that reasons which are put together must have in common to be shown instead of them."""

_QUOTED = "|".join(
    rf"(?<!\w){opening}(?:[^{closing}\\]|\\.){{0,200}}(?:{closing}(?!\w)|\Z)"
    for opening, closing in (("'", "'"), ('"', '"'), ("`", "`"), ("“", "”"), ("‘", "’"), ("「", "」"))
)
_PLAIN = r"[^\s/'\"`(),;:=…]"
# A folder, then a name that goes on over blanks to its suffix, or ends at the next blank.
_PATH = (
    rf"(?<![\w/]){_PLAIN}{{0,80}}/"
    rf"(?:[^'\"`(),;:=\n]{{0,60}}?\.[A-Za-z]\w{{0,4}}(?!\w)|(?:{_PLAIN}|/){{0,200}})"
)
_ID = (
    r"(?<!\w)(?:0x[0-9a-fA-F]+|(?=\w{0,40}?\d)[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,5}"
    r"|(?=\w{0,60}?\d\w{0,60}?\d)\w{12,}|\w{1,30}[-_#]\d+)(?!\w)"
)
_UNIT = r"(?:Z|[a-z%]{1,2}(?![a-z]))?"
_NUMBER = rf"(?<![^\W\d_])(?:[$€£₩-]?\d[\d.,:/T_-]*\d|\d){_UNIT}"
_STATUS = r"(?i:\b(?:HTTP|status|code)(?: status| code)?:? \d{3}\b)"
_VALUE = rf"(?:{_QUOTED}|https?://\S{{1,300}}|{_PATH}|{_ID}|{_NUMBER})"
_FRAME = re.compile(r'^ *File "(?:[^"\n]*[/\\])?([^"\n]+)", line (\d+)', re.MULTILINE)

VALUE = "…"
_GAP = "\0"
"""Stands in a pattern where a value was: a character that no printable text has."""


class Likeness(NamedTuple):
    """A text without its values, and the values: texts of one pattern have as many of them."""

    pattern: str
    values: tuple[str, ...]


@cache
def _varying() -> re.Pattern[str]:
    """Make the pattern of what says nothing of a reason, a value or a list of them; a status does."""
    # Where everything passed it is not needed, and to make it takes 3 ms.
    return re.compile(rf"(?P<status>{_STATUS})|{_VALUE}(?:(?:, ?| or | and | \| ){_VALUE})*")


@lru_cache(4096)
def likeness(text: str) -> Likeness:
    """Split a text, put on one line, into what it has in common with texts like it, and its own values."""
    values: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match["status"]:
            return match[0]
        values.append(match[0])
        return _GAP

    pattern = _varying().sub(replaced, one_line(text, MOST_REASON))
    return Likeness(pattern, tuple(values))


class Cause(FrozenValue, frozen=True):
    """Misses or errors that have one reason.

    ``grader`` is the label of the grader that gave too low a score; it is empty for errors and for limits.
    ``check`` is the claim that did not hold, and empty where a grader gives a rationale only. ``check`` and
    ``reason`` have ``…`` in place of values that are not the same in all trials; ``words`` say all of it in
    one line. ``sides`` has the trials of each side, in their order, none twice; a trial that missed for two
    reasons is in both causes. ``below`` is how far their grades are below their thresholds, on average.
    """

    kind: CauseKind
    grader: str
    check: str
    reason: str
    words: str
    sides: tuple[tuple[JournalEntry, ...], ...]
    worst: JournalEntry
    below: float

    @property
    def entries(self) -> Iterator[JournalEntry]:
        return (entry for side in self.sides for entry in side)

    @property
    def trials(self) -> int:
        return sum(map(len, self.sides))

    @property
    def tasks(self) -> int:
        """How many tasks there are, whatever their repetitions, models and sides."""
        return len({entry.key[:2] for entry in self.entries})

    @property
    def worst_side(self) -> int:
        """The number of the side that has the worst trial."""
        return next(at for at, side in enumerate(self.sides) if any(each is self.worst for each in side))

    @property
    def traceback(self) -> str:
        """The traceback of the worst trial, or of the first that has one."""
        return self.worst.traceback or next(filter(None, (entry.traceback for entry in self.entries)), "")


class _Reason(NamedTuple):
    """One thing for which one trial did not pass.

    ``label`` is the grader's or, of an error, its cause; ``place`` is where code raised an error.
    """

    kind: CauseKind
    label: str
    is_check: bool
    text: str
    below: float
    place: str = ""

    @property
    def of(self) -> tuple[object, ...]:
        """What it is a reason of: a grader, its checks or a cause of errors."""
        return self.kind, self.label, self.is_check

    @property
    def group(self) -> tuple[object, ...]:
        """What reasons that are alike have in common."""
        return *self.of, likeness(self.text).pattern, self.place


def causes_of(entries_by_side: Sequence[Iterable[JournalEntry]]) -> list[Cause]:
    """Group the trials of each side that did not pass by what failed: the cause of most trials is first."""
    groups: dict[tuple[object, ...], _Group] = {}
    for side, entries in enumerate(entries_by_side):
        for entry in entries:
            if entry.ending != "passed":
                for reason in _reasons(entry):
                    key = reason.group
                    if key not in groups:
                        groups[key] = _Group(reason, len(entries_by_side))
                    groups[key].add(side, entry, reason)
    causes = [group.cause() for group in _folded(groups.values())]
    return sorted(causes, key=lambda cause: (-cause.trials, -cause.below, cause.kind, cause.words))


class _Group:
    """A cause while its trials are found."""

    def __init__(self, first: _Reason, sides: int) -> None:
        self.first = first
        self.sides: list[list[JournalEntry]] = [[] for _ in range(sides)]
        self.texts: dict[str, None] = {}
        self.below: list[float] = []
        self.tasks: set[tuple[str, ...]] = set()
        self.is_folded = False

    def add(self, side: int, entry: JournalEntry, reason: _Reason) -> None:
        self.texts[reason.text] = None
        self.below.append(reason.below)
        self.tasks.add(entry.key[:2])
        # Two checks of one kind may fail in a trial; the reasons of a trial come one after the other.
        if not self.sides[side] or self.sides[side][-1] is not entry:
            self.sides[side].append(entry)

    def cause(self) -> Cause:
        first = self.first
        is_error, label = first.kind == "errored", first.label
        text = (common_words if self.is_folded else common_text)(self.texts)
        words = self._denial() if first.is_check else text
        words = words or ("another reason in each task" if self.is_folded else "no reason given")
        place = f" ({first.place})" if first.place and not self.is_folded else ""
        words = one_line(": ".join(filter(None, (label, words))), MOST_REASON - len(place)) + place
        entries = [entry for side in self.sides for entry in side]
        return Cause(
            kind=first.kind,
            grader="" if is_error else label,
            check=text if first.is_check else "",
            reason=words if is_error else "" if first.is_check else text,
            words=words,
            sides=tuple(map(tuple, self.sides)),
            worst=min(entries, key=_badness),
            below=sum(self.below) / len(self.below),
        )

    def _denial(self) -> str:
        denials = [denied(_closed(claim)) for claim in self.texts]
        if self.is_folded:
            return common_words(denials)
        is_one = len({likeness(denial).pattern for denial in denials}) == 1
        return common_text(denials) if is_one else f"no: {common_text(self.texts)}"


def _closed(claim: str) -> str:
    """Close the quotes of a claim that was cut within them, as it is denied like a whole one."""
    opened = next((quote for quote in "'\"" if claim.count(quote) == 1), "")
    return claim + opened if opened and claim.endswith(VALUE) else claim


def _badness(entry: JournalEntry) -> tuple[object, ...]:
    return entry.score or 0.0, entry.key


def _folded(groups: Iterable[_Group]) -> Iterator[_Group]:
    """Put causes of one grader that have a task each together, where there are many.

    A judge may give each trial a reason in words of its own: as causes they would say nothing.
    """
    alone: dict[object, list[_Group]] = defaultdict(list)
    for group in groups:
        if len(group.tasks) == 1:
            alone[group.first.of].append(group)
        else:
            yield group
    for few in alone.values():
        tasks = {task for group in few for task in group.tasks}
        yield from few if len(tasks) <= MOST_ALONE else [_merged(few)]


def _merged(groups: Sequence[_Group]) -> _Group:
    merged = _Group(groups[0].first, len(groups[0].sides))
    merged.is_folded = True
    for group in groups:
        merged.below += group.below
        merged.texts |= group.texts
        merged.tasks |= group.tasks
    for side, entries in enumerate(merged.sides):
        # A trial that has two of these reasons counts once.
        alike = {id(entry): entry for group in groups for entry in group.sides[side]}
        entries += sorted(alike.values(), key=attrgetter("key"))
    return merged


def common_text(texts: Iterable[str]) -> str:
    """Write texts of one pattern as one: what is not the same in all of them is ``…``."""
    parts = [likeness(text) for text in texts]
    columns = zip(*(part.values for part in parts), strict=True)
    # Quoted texts may have most of their words in common: 'order … of nobody'.
    shared = [values[0] if len({*values}) == 1 else common_words(values) or VALUE for values in columns]
    pieces = parts[0].pattern.split(_GAP)
    return "".join(piece + value for piece, value in zip(pieces, [*shared, ""], strict=True))


def common_words(texts: Iterable[str]) -> str:
    """Give the words with which all texts begin and end, and ``…`` between them; empty for fewer than two."""
    lines = [one_line(text, MOST_REASON).split() for text in texts]
    head = _shared(lines)
    tail = _shared([line[len(head) :][::-1] for line in lines])[::-1]
    return " ".join([*head, VALUE, *tail]) if len(head) + len(tail) >= LEAST_SHARED else ""


def _shared(lines: Sequence[Sequence[str]]) -> list[str]:
    words = zip(*lines, strict=False)
    return [word for word, *_ in takewhile(lambda column: len({*column}) == 1, words)]


def _reasons(entry: JournalEntry) -> Iterator[_Reason]:
    """Give each reason for which a trial did not pass, one at least."""
    if entry.ending == "errored":
        message, place = entry.message.partition("\n")[0], crash_place(entry.traceback)
        yield _Reason("errored", entry.cause or "errored", False, message, 1.0, place)
        return
    below_threshold = [grade for grade in entry.grades if grade.passed is False]
    if entry.limit or not below_threshold:
        limit = f"limit reached: {entry.limit}" if entry.limit else "below its threshold"
        yield _Reason("missed", "", False, limit, 1.0 - (entry.score or 0.0))
    failed = entry.failed_checks or ((),) * len(entry.grades)
    for grade, claims in zip(entry.grades, failed, strict=True):
        if grade.passed is False:
            below = grade.threshold - (grade.score or 0.0)
            claims = claims or claims_in(grade.rationale)
            for claim in claims:
                yield _Reason("missed", grade.grader, True, claim, below)
            if not claims:
                yield _Reason("missed", grade.grader, False, grade.rationale, below)


def crash_place(traceback: str) -> str:
    """Give the innermost place of a traceback, ``bot.py:17``; empty for a text without one."""
    frames = _FRAME.findall(traceback)
    return one_line(f"{frames[-1][0]}:{frames[-1][1]}", MOST_PLACE) if frames else ""


def claims_in(rationale: str) -> tuple[str, ...]:
    """Read the claims of failed checks out of a rationale, for runs whose journals do not hold them."""
    beginning, *others = f"; {rationale}".split("; no: ")
    if beginning or not others:
        return ()
    claims = [claim for claim, expected, _ in (text.partition(" (expected ") for text in others) if expected]
    return tuple(shorten(claim, SHORT_CLAIM) for claim in claims[:MOST_CLAIMS])


FEW_TASKS, LEAST_COMMON = 5, 3
"""Tasks whose misses say all by themselves; tasks of one cause from which on a list of causes says more."""
LEAST_CAUSES, MOST_CAUSES, ALL_CAUSES = 3, 8, 25
"""Causes that are listed where there is no room, where there is, and where all misses are shown."""
MOST_SIDES, MOST_LABEL = 6, 20
"""Sides whose trials have a column each, and the characters of their labels."""
LEAST_WORDS = 48
"""Columns for the words of a cause; with fewer, its worst trial stands on a line below."""

GAP = "  "
_ENDINGS = {
    frozenset({"missed"}): "missed",
    frozenset({"failed"}): "failed",
    frozenset({"errored"}): "errored",
}


def common_causes(sides: Sequence[Iterable[JournalEntry]]) -> list[Cause]:
    """Give the causes where they say more than a list of misses: there are many, and some have one cause."""
    # A task counts once, whatever its other repetitions, models and variants did.
    not_passed = [[entry for entry in side if entry.ending != "passed"] for side in sides]
    if len({entry.key[:3] for side in not_passed for entry in side}) <= FEW_TASKS:
        return []
    causes = causes_of(not_passed)
    return causes if any(cause.tasks >= LEAST_COMMON for cause in causes) else []


def causes_title(causes: Sequence[Cause], trials: int) -> str:
    """Give the title of all causes of a number of trials: ``why trials missed (126 of 168)``."""
    entries = {id(entry): entry for cause in causes for entry in cause.entries}
    verb = _ENDINGS.get(frozenset(entry.ending for entry in entries.values()), "did not pass")
    # What the counts are of has to be known, or they would seem to add up to too much.
    several = sum(cause.trials for cause in causes) > len(entries)
    note = "; some for several causes" if several else ""
    return f"why trials {verb} ({len(entries):,} of {trials:,}{note})"


def cause_lines(
    causes: Sequence[Cause], width: int, room: int, most: int = MOST_CAUSES, labels: Sequence[str] = ()
) -> list[StyledLine]:
    """Give the first causes as a table of at most ``room`` lines, but three of them in any case.

    With the ``labels`` of a few sides it has the trials of each. Names of trials are whole: they are there to
    be pasted into ``agenteval show``.
    """
    head, *rows = _table(causes[:most], labels)
    widths = [max(map(cell_width, column)) for column in zip(head, *rows, strict=True)]
    figures = sum(len(GAP) + wide for wide in widths[1:-1])
    beside = width - len(INDENT) - figures - len(GAP) - widths[-1]
    is_wide = beside >= min(widths[0], LEAST_WORDS)
    widths[0] = min(widths[0], max(1, beside if is_wide else width - len(INDENT) - figures))
    while len(rows) > LEAST_CAUSES and _height(len(rows), len(causes), is_wide) > room:
        rows.pop()
    lines = [StyledLine(_row(["", *head[1:]], widths, is_wide), "dim")]
    for row in rows:
        lines.append(StyledLine(_row(row, widths, is_wide)))
        lines += [] if is_wide else [StyledLine(f"{INDENT * 2}{row[-1]}", "dim")]
    if len(rows) < len(causes):
        how = " (-v)" if most == MOST_CAUSES else ""
        lines.append(StyledLine(f"{INDENT}{pluralize(len(causes) - len(rows), 'more cause')}{how}", "dim"))
    return lines


def _height(rows: int, causes: int, is_wide: bool) -> int:
    return 1 + rows * (1 if is_wide else 2) + (rows < causes)


def _row(row: Sequence[str], widths: Sequence[int], is_wide: bool) -> str:
    words, *counts, worst = row
    figures = [pad(cell, wide, right=True) for cell, wide in zip(counts, widths[1:-1], strict=True)]
    cells = (pad(cut(words, widths[0]), widths[0]), *figures, worst if is_wide else "")
    return INDENT + GAP.join(cells).rstrip()


def _table(causes: Iterable[Cause], labels: Sequence[str]) -> list[list[str]]:
    """Give the head and a row for each cause; with the trials of each side where there are a few sides."""
    labels = [one_line(label, MOST_LABEL) for label in labels] if 1 < len(labels) <= MOST_SIDES else []
    rows = [["cause", *(labels or ["trials"]), "tasks", "worst"]]
    for cause in causes:
        worst = cause.worst
        score = "ERROR" if worst.ending == "errored" else format_figure(worst.score)
        counts = [f"{len(side):,}" for side in cause.sides] if labels else [f"{cause.trials:,}"]
        rows.append([cause.words, *counts, f"{cause.tasks:,}", f"{trial_name(worst.key)} {score}"])
    return rows


def causes_markdown(causes: Sequence[Cause], most: int, labels: Sequence[str] = ()) -> str:
    """Give the first causes as a table in Markdown; with the labels of a few sides, the trials of each."""
    more = len(causes) - most
    table = markdown_rows(_table(causes[:most], labels))
    return table + (f"\n\nand {pluralize(more, 'more cause')}" if more > 0 else "")


def errors_by_cause(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Put errored trials of one cause together, at the place of the first; all others are alone."""
    groups: dict[object, list[JournalEntry]] = {}
    for entry in entries:
        # What somebody noted of a trial would be lost beside others.
        is_plain_error = entry.ending == "errored" and not entry.note
        key = next(_reasons(entry)).group if is_plain_error else ("", id(entry))
        groups.setdefault(key, []).append(entry)
    return list(groups.values())


def cause_json(cause: Cause) -> dict[str, Any]:
    """Give a cause as documents have it, but for its worst trial; ``sides`` are the trials of each side."""
    return {
        "words": cause.words,
        "kind": cause.kind,
        "grader": cause.grader,
        "check": cause.check,
        "reason": cause.reason,
        "trials": cause.trials,
        "tasks": cause.tasks,
        "sides": list(map(len, cause.sides)),
        "traceback": cause.traceback,
    }


def causes_json(causes: Iterable[Cause]) -> list[dict[str, Any]]:
    """Give causes with the names of their worst trials, and the numbers of the sides that have these."""
    return [
        {
            **cause_json(cause),
            "worst": {
                "side": cause.worst_side,
                "trial": trial_name(cause.worst.key),
                "score": cause.worst.score,
            },
        }
        for cause in causes
    ]
