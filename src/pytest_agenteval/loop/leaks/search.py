"""Which texts of a suite's tasks stand in prompts, and whether they stood in the old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby, islice, takewhile
from pathlib import Path

from pytest_agenteval.loop.leaks.leak import Leak
from pytest_agenteval.loop.leaks.ordinary_words import ENOUGH_ALONE, letters_of
from pytest_agenteval.loop.leaks.prompt_index import PromptIndex, Span
from pytest_agenteval.loop.leaks.suite_tasks import SuiteTasks, read_suites
from pytest_agenteval.loop.leaks.task_index import Owner, TaskIndex
from pytest_agenteval.records.record import FrozenValue

NEAR = 40
"""Letters and digits, at most, between two ordinary words that are a leak together."""


def prompt_leaks(old: Mapping[str, str], new: Mapping[str, str], suite: Path) -> tuple[Leak, ...]:
    """Give the texts of the suite's tasks that stand in the new files, in the order of files and lines.

    ``old`` and ``new`` are the texts of all files that are looked at, by their paths; a file may have moved
    from one path to another. What is wrong with the suite raises UsageMistake, or ProblemsFound.
    """
    return leaks_in(old, new, read_suites(suite))


def leaks_in(
    old: Mapping[str, str],
    new: Mapping[str, str],
    suites: Iterable[SuiteTasks],
    code: Collection[str] = (),
) -> tuple[Leak, ...]:
    """Give what of these suites' tasks stands in the new files, of which some are no prompts, but ``code``.

    There ordinary words are no leak, nor are names as only code has them; see ``prompt_leaks``.
    """
    index, before = PromptIndex(new, code), PromptIndex(old)
    tasks = TaskIndex(suites, index.beginnings)
    hits = [*_values(tasks, index, before), *_passages(tasks, index, before)]
    leaking = (hit for hit in hits if hit.owner.kind == "task_id" or not index.is_name_of_code(hit.span))
    return _in_order(((hit.span.reading, _leak(hit, tasks, index)) for hit in _outermost(leaking)), [*new])


def _in_order(leaks: Iterable[tuple[int, Leak]], files: list[str]) -> tuple[Leak, ...]:
    """Sort leaks by file and line, and tell one that several readings of a file show once."""
    first: dict[tuple[str, int, str, str, str], tuple[int, set[Leak]]] = {}
    for reading, leak in leaks:
        key = leak.file, leak.line, leak.kind, leak.task, leak.split
        told_by, same = first.setdefault(key, (reading, set()))
        if told_by == reading:
            same.add(leak)
    every = (leak for _, same in first.values() for leak in same)
    return tuple(sorted(every, key=lambda leak: (files.index(leak.file), leak.line, leak.text)))


class _Hit(FrozenValue, frozen=True):
    """A text of a task that stands in a new file; ``more`` is where the second of two words stands."""

    span: Span
    owner: Owner
    added: bool
    more: Span | None = None


def _values(tasks: TaskIndex, new: PromptIndex, old: PromptIndex) -> Iterator[_Hit]:
    ordinary = list[tuple[str, Span, Owner, bool]]()
    for value, owners in tasks.values.items():
        spans = list(new.places_of_value(value))
        if not spans or tasks.is_anybodys(value, owners):
            continue
        added = next(old.places_of_value(value), None) is None
        for owner in owners:
            if tasks.is_leak_as_spelt(value, owner):
                yield from (_Hit(span, owner, added) for span in spans if new.is_spelt(span, owner.spelling))
        owners = [owner for owner in owners if owner.spelling == "any"]
        if not owners:
            continue
        owner = tasks.owner_of(owners)
        if tasks.says_enough(value, owners):
            yield from (_Hit(span, owner, added) for span in spans)
            continue
        spans = [span for span in spans if not new.is_code(span)]
        if tasks.is_rare(value, owners):
            yield from (_Hit(span, owner, added) for span in spans if _is_word(span, value, owner, new))
        else:
            own = [owner for owner in owners if owner.kind == "expected_value"]
            ordinary += ((value, span, owner, added) for span in spans for owner in own)
    yield from _pairs(ordinary)


def _is_word(span: Span, value: str, owner: Owner, new: PromptIndex) -> bool:
    """Whether a rare word stands there as such: overtime is not in "over time", nor polite in "politely"."""
    is_apart = owner.words == 1 and letters_of(value) == len(value) and " " in new.words_of(span)
    return not is_apart and (letters_of(value) > ENOUGH_ALONE or new.ends_word(span))


def _pairs(ordinary: Iterable[tuple[str, Span, Owner, bool]]) -> Iterator[_Hit]:
    """Give the ordinary words of a task, of different facts, that stand near each other."""
    by_task = defaultdict[tuple[int, int, bool], list[tuple[str, Span, Owner]]](list)
    for value, span, owner, added in ordinary:
        by_task[owner.task, span.reading, added].append((value, span, owner))
    for (_, _, added), words in by_task.items():
        words.sort(key=lambda word: word[1])
        for number, (one, first, owner) in enumerate(words):
            for other, second, its in takewhile(partial(_is_near, first), islice(words, number + 1, None)):
                if owner.fact != its.fact and one not in other and other not in one:
                    yield _Hit(first, owner, added, second)
                    break


def _is_near(first: Span, word: tuple[str, Span, Owner]) -> bool:
    return word[1].start - first.end <= NEAR


def _passages(tasks: TaskIndex, new: PromptIndex, old: PromptIndex) -> Iterator[_Hit]:
    """Give the longest stretches that are copied, each put together from its pieces of eight words."""
    pieces = defaultdict[Owner, list[tuple[Span, bool]]](list)
    for piece, owners in tasks.pieces.items():
        if tasks.is_asked_by_several(piece):
            continue
        added = next(old.places_of_piece(piece), None) is None
        owner = tasks.owner_of(owners)
        pieces[owner] += ((span, added) for span in new.places_of_piece(piece))
    for owner, spans in pieces.items():
        yield from (_Hit(span, owner, added) for span, added in _joined(sorted(spans)))


def _joined(spans: Iterable[tuple[Span, bool]]) -> Iterator[tuple[Span, bool]]:
    current, added = Span(-1, 0, 0), False
    for span, new in spans:
        if span.reading == current.reading and span.start <= current.end:
            current = Span(span.reading, current.start, max(current.end, span.end))
            added = added or new
        else:
            if current.reading >= 0:
                yield current, added
            current, added = span, new
    if current.reading >= 0:
        yield current, added


def _outermost(hits: Iterable[_Hit]) -> Iterator[_Hit]:
    """Leave out what stands within a longer text that is told anyway."""
    ordered = sorted(hits, key=lambda hit: (hit.span.reading, hit.span.start, -hit.span.end))
    for _, of_reading in groupby(ordered, key=lambda hit: hit.span.reading):
        end = -1
        for hit in of_reading:
            if hit.span.end > end:
                yield hit
                end = hit.span.end


def _leak(hit: _Hit, tasks: TaskIndex, index: PromptIndex) -> Leak:
    task = tasks.tasks[hit.owner.task]
    held_out = task.split == "held_out"
    text = index.words_of(hit.span)
    if hit.more:
        text = f"{text} … {index.words_of(hit.more)}"
    return Leak(
        file=index.readings[hit.span.reading].file,
        line=index.line_of(hit.span),
        kind=hit.owner.kind,
        text=index.whole_line(hit.span) if held_out else text,
        task="" if held_out else task.id,
        split=task.split,
        added=hit.added,
    )
