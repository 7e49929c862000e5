"""Why trials did not pass: misses and errors grouped by the grader, the check and the reason.

Reasons are alike where they differ only in numbers, ids, paths and quoted values: ``the card says 'cabin'``
and ``the card says 'Ghent'`` are one cause. No transcript is read: the journal holds what is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from pytest_agenteval.records.evidence import denied
from pytest_agenteval.records.plan import trial_name
from pytest_agenteval.records.record import FrozenValue, same_fields
from pytest_agenteval.reports.tables import markdown_rows
from pytest_agenteval.store.journal_entry import MOST_CLAIMS, SHORT_CLAIM, JournalEntry
from pytest_agenteval.store.record_files import shorten
from pytest_agenteval.text.formatting import (
    INDENT,
    StyledLine,
    align_columns,
    cell_width,
    cut,
    format_figure,
    one_line,
    pad,
    pluralize,
)

CauseKind = Literal["missed", "errored"]

MOST_REASON, MOST_PLACE = 200, 60
MOST_READ = 600
"""Characters of a reason that are compared: its values, such as a long path, are no part of MOST_REASON."""
MOST_ALONE = 5
"""Causes of one grader, each of a task of its own, that are listed; more of them are one cause."""

MOST_VALUES, MOST_VALUE = 3, 30
"""Quoted values that a cause names instead of ``…``, and the characters of each."""

LEAST_SHARED = 2
"""Words that reasons which are put together must have in common to be shown instead of them."""

_QUOTED = "|".join(
    rf"(?<!\w){opening}(?:[^{closing}\\]|\\.){{0,200}}(?:{closing}(?!\w)|\Z)"
    for opening, closing in ("''", '""', "``", "“”", "‘’", "「」")
)
_PLAIN = r"[^\s/'\"`(),;:=…]"
_VALUE = rf"""(?:
    {_QUOTED} | https?://\S{{1,300}}
    # A path: a folder, then a name that goes on over blanks to its suffix, or ends at the next blank.
    | (?<![\w/]) {_PLAIN}{{0,80}}/
      (?: [^'"`(),;:=\n]{{0,60}}?\.[A-Za-z]\w{{0,4}}(?!\w) | (?:{_PLAIN}|/){{0,200}} )
    # An id: a hash or a UUID, a long word with two digits, or a word with a number.
    | (?<!\w) (?: (?=\w{{0,40}}?\d) [0-9a-fA-F]{{8,}} (?:-[0-9a-fA-F]{{4,}}){{0,5}}
      | (?=\w{{0,60}}?\d\w{{0,60}}?\d) \w{{12,}} | \w{{1,30}}[-_\#]\d+ ) (?!\w)
    # A number with its unit, a date or a time.
    | (?<![^\W\d_]) [$€£₩-]? \d (?: [\w.,:/+-]{{0,60}}[\w%] | % )?
)"""
_VARYING = rf"""(?x)
    (?P<status> (?i:\b(?:HTTP|status|code)(?:\ status|\ code)?:?\ \d{{3}}\b) )
    | {_VALUE} (?: (?: ,\ ? | \ or\  | \ and\  | \ \|\  ) {_VALUE} )*
"""
"""What says nothing of a reason: a value, or a list of them. The status of a reply does say something."""

_FRAME = re.compile(r'^ *File "(?:[^"\n]*[/\\])?([^"\n]+)", line (\d+)', re.MULTILINE)

VALUE, _QUOTED_VALUE = "…", "'…'"
_GAP = "\0"
"""Stands in a pattern where a value was: a character that no printable text has."""


class Likeness(NamedTuple):
    """A text without its values, and the values: texts of one pattern have as many of them."""

    pattern: str
    values: tuple[str, ...]


@lru_cache(4096)
def likeness(text: str) -> Likeness:
    """Split a text, put on one line, into what it has in common with texts like it, and its own values."""
    values: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        if match["status"]:
            return match[0]
        values.append(match[0])
        return _GAP

    # Compiled by its first use, which takes 3 ms: where everything passed it is not needed.
    pattern = re.sub(_VARYING, replaced, one_line(text, MOST_READ))
    # Cut last: reasons whose paths differ in length would end at different words, and be different causes.
    if len(pattern) > MOST_REASON:
        pattern = pattern[: MOST_REASON - 1] + VALUE
    return Likeness(pattern, tuple(values[: pattern.count(_GAP)]))


class Cause(FrozenValue, frozen=True):
    """Misses or errors that have one reason.

    ``grader`` is the label of the grader that gave too low a score; it is empty for errors and for limits.
    ``check`` is the claim that did not hold, and empty where a grader gives a rationale only. ``check`` and
    ``reason`` have ``…`` in place of values that are not the same in all trials; ``words`` say all of it in
    one line. ``sides`` has the trials of each side, none twice; a trial that missed for two reasons is in
    both causes. ``below`` is how far their grades are below their thresholds, on average.
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
    def traceback(self) -> str:
        """The traceback of the worst trial, or of the first that has one."""
        return self.worst.traceback or next(filter(None, (entry.traceback for entry in self.entries)), "")


class _Reason(NamedTuple):
    """One thing for which a trial did not pass, and the number of the trial's side.

    ``label`` is the grader's or, of an error, its cause; ``place`` is where code raised an error.
    """

    side: int
    entry: JournalEntry
    kind: CauseKind
    label: str
    is_check: bool
    like: Likeness
    below: float
    place: str = ""

    @property
    def of(self) -> tuple[object, ...]:
        """Whose reason it is: a grader's, a check's, or that of a kind of error."""
        return self.kind, self.label, self.is_check

    @property
    def group(self) -> tuple[object, ...]:
        """What reasons that are alike have in common."""
        return *self.of, self.like.pattern, self.place


def causes_of(entries_by_side: Sequence[Iterable[JournalEntry]]) -> list[Cause]:
    """Group the trials of each side that did not pass by what failed: the cause of most trials is first."""
    groups: dict[object, list[_Reason]] = defaultdict(list)
    for side, entries in enumerate(entries_by_side):
        for entry in entries:
            if entry.ending != "passed":
                for reason in _reasons(entry, side):
                    groups[reason.group].append(reason)
    causes = [_cause(group, len(entries_by_side)) for group in _folded(groups.values())]
    return sorted(causes, key=lambda cause: (-cause.trials, -cause.below, cause.kind, cause.words))


def _folded(groups: Iterable[list[_Reason]]) -> Iterator[list[_Reason]]:
    """Put causes of one grader that have a task each together, where there are many.

    A judge may give each trial a reason in words of its own: as causes they would say nothing.
    """
    alone: dict[object, list[list[_Reason]]] = defaultdict(list)
    for group in groups:
        if len(_tasks(group)) == 1:
            alone[group[0].of].append(group)
        else:
            yield group
    for few in alone.values():
        together = [reason for group in few for reason in group]
        yield from few if len(_tasks(together)) <= MOST_ALONE else [together]


def _tasks(group: Iterable[_Reason]) -> set[tuple[str, ...]]:
    return {reason.entry.key[:2] for reason in group}


def _cause(group: Sequence[_Reason], sides: int) -> Cause:
    first, likes = group[0], list(dict.fromkeys(reason.like for reason in group))
    is_error = first.kind == "errored"
    is_folded = len({(reason.like.pattern, reason.place) for reason in group}) > 1
    if is_folded:
        texts = [_common([like]) for like in likes]
        text = common_words(texts)
        words = common_words(map(denied, texts)) if first.is_check else text
        words = words or "another reason in each task"
    else:
        # Denied before the quotes go: ``contains`` and ``matches`` are known by them.
        text = _common(likes)
        words = denied(text) if first.is_check else text
        for values in _quoted_values(likes):
            words = words.replace(_QUOTED_VALUE, _few_values(values, len(_tasks(group))), 1)
        text = text.replace(_QUOTED_VALUE, VALUE)
    place = f" ({first.place})" if first.place and not is_folded else ""
    words = ": ".join(filter(None, (first.label, words or "no reason given")))
    words = one_line(words, MOST_REASON - len(place)) + place
    # A trial of which two checks of one kind failed is there once.
    trials: list[dict[int, JournalEntry]] = [{} for _ in range(sides)]
    for reason in group:
        trials[reason.side][id(reason.entry)] = reason.entry
    return Cause(
        kind=first.kind,
        grader="" if is_error else first.label,
        check=text if first.is_check else "",
        reason=words if is_error else "" if first.is_check else text,
        words=words,
        sides=tuple(tuple(side.values()) for side in trials),
        worst=min((reason.entry for reason in group), key=lambda entry: (entry.score or 0.0, entry.key)),
        below=sum(reason.below for reason in group) / len(group),
    )


def common_text(texts: Iterable[str]) -> str:
    """Write texts of one pattern as one: what is not the same in all of them is ``…``."""
    return _common([likeness(text) for text in texts]).replace(_QUOTED_VALUE, VALUE)


def _quoted_values(likes: Sequence[Likeness]) -> Iterator[Sequence[str]]:
    """Give the values of each place that ``_common`` leaves as a quoted ``…``."""
    for values in zip(*(like.values for like in likes), strict=True):
        if _shared_value(values) == _QUOTED_VALUE:
            yield list(dict.fromkeys(values))


def _few_values(values: Sequence[str], tasks: int) -> str:
    """Name values that stand for several tasks each, ``'Friday' or 'refunded'``; many are ``…``."""
    is_few = len(values) <= MOST_VALUES and 2 * len(values) <= tasks
    if not is_few or any(len(value) > MOST_VALUE for value in values):
        return VALUE
    *others, last = values
    return f"{', '.join(others)} or {last}"


def _shared_value(values: Sequence[str]) -> str:
    different = _QUOTED_VALUE if values[0][0] in "'\"" else VALUE
    # Quoted texts may have most of their words in common: 'order … of nobody'.
    return values[0] if len({*values}) == 1 else common_words(values) or different


def _common(likes: Sequence[Likeness]) -> str:
    shared = [_shared_value(values) for values in zip(*(like.values for like in likes), strict=True)]
    pieces = likes[0].pattern.split(_GAP)
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


def _reasons(entry: JournalEntry, side: int = 0) -> Iterator[_Reason]:
    """Give each reason for which a trial did not pass, one at least."""
    if entry.ending == "errored":
        like, place = likeness(entry.message.partition("\n")[0]), crash_place(entry.traceback)
        yield _Reason(side, entry, "errored", entry.cause or "errored", False, like, 1.0, place)
        return
    below_threshold = [grade for grade in entry.grades if grade.passed is False]
    if entry.limit or not below_threshold:
        limit = f"limit reached: {entry.limit}" if entry.limit else "below its threshold"
        yield _Reason(side, entry, "missed", "", False, likeness(limit), 1.0 - (entry.score or 0.0))
    failed = entry.failed_checks or ((),) * len(entry.grades)
    for grade, stored in zip(entry.grades, failed, strict=True):
        if grade.passed is False:
            claims, below = stored or claims_in(grade.rationale), grade.threshold - (grade.score or 0.0)
            for text in map(_closed, claims) if claims else [grade.rationale]:
                yield _Reason(side, entry, "missed", grade.grader, bool(claims), likeness(text), below)


def _closed(claim: str) -> str:
    """Close the quotes of a claim that was cut within them, so that it reads like a whole one."""
    opened = next((quote for quote in "'\"" if claim.count(quote) % 2), "")
    return claim + opened if claim.endswith(VALUE) else claim


def crash_place(traceback: str) -> str:
    """Give the innermost place of a traceback, ``bot.py:17``; empty for a text without one."""
    frames = _FRAME.findall(traceback)
    return one_line(f"{frames[-1][0]}:{frames[-1][1]}", MOST_PLACE) if frames else ""


_FAILED_CLAIM = re.compile("; (?:not met|no): ")
"""How a failed check begins in a rationale; runs of earlier versions have ``no:``."""


def claims_in(rationale: str) -> tuple[str, ...]:
    """Read the claims of failed checks out of a rationale, for runs whose journals do not hold them."""
    beginning, *others = _FAILED_CLAIM.split(f"; {rationale}")
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
    endings = {entry.ending for entry in entries.values()}
    verb = endings.pop() if len(endings) == 1 else "did not pass"
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
    longest, *figures, worst = [max(map(cell_width, column)) for column in zip(head, *rows, strict=True)]
    left = width - len(INDENT) - sum(2 + figure for figure in figures)
    is_wide = left - 2 - worst >= min(longest, LEAST_WORDS)
    # Words that have no room beside the figures stand above them, and the worst trial below.
    words = left - 2 - worst if is_wide else left
    if words < 1 and labels:
        return cause_lines(causes, width, room, most)
    rows = [[cut(row[0], words if is_wide else width - len(INDENT)), *row[1:]] for row in rows]
    above = [cell_width(row[0]) > words for row in rows]
    while len(rows) > LEAST_CAUSES:
        lines_each = len(rows) * (1 if is_wide else 2) + sum(above[: len(rows)])
        if lines_each + 1 + (len(rows) < len(causes)) <= room:
            break
        rows.pop()
    cells = [["" if at < 0 or above[at] else row[0], *row[1:]] for at, row in enumerate([head, *rows], -1)]
    cells[0][0] = " " * (max(0, words) if any(above[: len(rows)]) else 0)
    top, *lines = align_columns([[*row[:-1], pad(row[-1], worst)] if is_wide else row[:-1] for row in cells])
    found = [StyledLine((INDENT + top).rstrip(), "dim")]
    for line, row, is_above in zip(lines, rows, above, strict=False):
        found += [StyledLine(INDENT + row[0])] if is_above else []
        found.append(StyledLine((INDENT + line).rstrip()))
        found += [] if is_wide else [StyledLine(f"{INDENT * 2}{row[-1]}", "dim")]
    if len(rows) < len(causes):
        how = " (-v)" if most == MOST_CAUSES else ""
        found.append(StyledLine(f"{INDENT}{pluralize(len(causes) - len(rows), 'more cause')}{how}", "dim"))
    return found


def _table(causes: Iterable[Cause], labels: Sequence[str]) -> list[list[str]]:
    """Give the head and a row for each cause; with the trials of each side where there are a few sides."""
    labels = [one_line(label, MOST_LABEL) for label in labels] if 1 < len(labels) <= MOST_SIDES else []
    rows = [["cause", *labels, "trials", "tasks", "worst"]]
    for cause in causes:
        worst = cause.worst
        score = "ERROR" if worst.ending == "errored" else format_figure(worst.score)
        sides = [f"{len(side):,}" for side in cause.sides] if labels else []
        figures = [f"{cause.trials:,}", f"{cause.tasks:,}"]
        rows.append([cause.words, *sides, *figures, f"{trial_name(worst.key)} {score}"])
    return rows


def causes_markdown(causes: Sequence[Cause], most: int, labels: Sequence[str] = ()) -> str:
    """Give the first causes as a table in Markdown; with the labels of a few sides, the trials of each."""
    more = len(causes) - most
    table = markdown_rows(_table(causes[:most], labels), texts=("worst",))
    return table + (f"\n\nand {pluralize(more, 'more cause')}" if more > 0 else "")


def errors_by_cause(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Put errored trials of one cause together, at the place of the first; all others are alone."""
    groups: dict[object, list[JournalEntry]] = defaultdict(list)
    for entry in entries:
        # What somebody noted of a trial would be lost beside others.
        is_plain_error = entry.ending == "errored" and not entry.note
        groups[next(_reasons(entry)).group if is_plain_error else id(entry)].append(entry)
    return list(groups.values())


def cause_json(cause: Cause) -> dict[str, Any]:
    """Give a cause as documents have it; ``sides`` are the trials of each side, ``worst`` names a trial."""
    worst = cause.worst
    side = next(at for at, side in enumerate(cause.sides) if any(entry is worst for entry in side))
    return {
        **same_fields(cause, ("words", "kind", "grader", "check", "reason", "trials", "tasks")),
        "sides": list(map(len, cause.sides)),
        "traceback": cause.traceback,
        # Named as the document's trials are, and without a score where they have none.
        "worst": {"side": side, "trial": worst.key.label, "score": worst.score if worst.averaged else None},
    }
