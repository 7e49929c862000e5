"""Does every number on the card come from the entry?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import ClassVar

from pytest_agenteval.benchmarks.memex.graders.both_sides import disagreement, merged
from pytest_agenteval.benchmarks.memex.graders.card import card_sides
from pytest_agenteval.benchmarks.memex.graders.card_text import blob_of, values
from pytest_agenteval.benchmarks.memex.graders.settings import days, entry_day, texts
from pytest_agenteval.benchmarks.memex.graders.unreadable import undecided_where_unreadable
from pytest_agenteval.graders.matching.addresses import parse_address
from pytest_agenteval.graders.matching.dates import (
    Day,
    find_days,
    find_times,
    parse_times,
    without_days_and_times,
)
from pytest_agenteval.graders.matching.mentions import NUMBER_WORDS, normalize_mention
from pytest_agenteval.graders.matching.tokens import tokens
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade

NAME = "card_numbers_given"
_SCALES = frozenset(map(Decimal, (0, 1, 10, 100)))
"""Where a streak begins and where scales end: no entry has to say so."""


@dataclass(frozen=True, slots=True)
class CardNumbersGiven:
    """Is every number on the card one that the entry gives? The score is the share that is.

    Looked at are the title and the values of the filled templates, except dates, times, addresses and
    colours: what those have to be, ``card_must_contain`` can say. A number counts by its value, whatever its
    spelling and sign; of the entry, English number words count too. 0, 1, 10 and 100 are where scales begin
    and end, and the entry's year is known; whatever else may stand there, such as what can be worked out, is
    given in ``also``. Where ``days`` are given, every full date is one of them, or the entry's day. A card
    without a number or such a date to look at leaves the grade undecided.
    """

    also: Sequence[str] = ()
    days: Sequence[str] = ()

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "1"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "also", texts("also", self.also))
        days("days", self.days)

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the numbers of the card with those of the entry."""
        stated, shown = card_sides(evidence, "default")
        entry = str(evidence.task_input.get("content") or "")
        own = entry_day(evidence.task_input.get("fact_id"))
        year = {Decimal(own.year)} if own else set()
        given = frozenset(_numbers_of_entry(" ; ".join((entry, *self.also)))) | _SCALES | year
        untrue = disagreement(stated, shown, "card_yaml_blob")
        said = values(blob_of(merged(stated, shown)))
        days_known, times_known = self._days_known(entry, own), find_times(normalize_mention(entry))
        checks = tuple(
            Check(f"{written} comes from the entry", bool(readings & given), "a number of the entry", written)
            for value in said
            for written, readings in _numbers(value)
            if not _is_one_of(written, days_known, times_known)
        )
        checks += tuple(self._days(said, own)) if self.days else ()
        if not checks:
            return Grade(NAME, None, "the card has no number to look at")
        return Grade.from_checks(NAME, (*checks, *untrue))

    def _days_known(self, entry: str, own: date | None) -> frozenset[Day]:
        return self._days_meant(own) | find_days(normalize_mention(entry), short=False)

    def _days_meant(self, own: date | None) -> frozenset[Day]:
        return days("days", self.days) | ({Day(own.month, own.day, own.year)} if own else set())

    def _days(self, said: Sequence[str], own: date | None) -> Iterator[Check]:
        known = self._days_meant(own)
        for value in said:
            for found in find_days(normalize_mention(value), short=False):
                passed = any(found.is_registrable(day) for day in known)
                yield Check(f"{value} is a day that was meant", passed, " or ".join(self.days), value)


def _is_one_of(written: str, days_known: frozenset[Day], times_known: frozenset[int]) -> bool:
    """Whether a number is a day or a time of the entry, as those are written with a point: 18.9., 18.45."""
    days_said = find_days(written) if "." in written else ()
    times_said = parse_times(written.replace(".", ":"))
    return any(one.is_registrable(other) for one in days_said for other in days_known) or bool(
        times_said & times_known
    )


def _numbers_of_entry(entry: str) -> Iterator[Decimal]:
    said = tokens(normalize_mention(entry))
    for place, token in enumerate(said):
        yield from token.readings
        number = NUMBER_WORDS.get(token.text)
        if number is not None:
            yield Decimal(number)
            after = NUMBER_WORDS.get(said[place + 1].text, 0) if place + 1 < len(said) else 0
            yield Decimal(number + after) if number >= 20 and 0 < after < 10 else Decimal(number)


def _numbers(value: str) -> Iterator[tuple[str, frozenset[Decimal]]]:
    said = normalize_mention(value)
    words = (word for word in said.split() if parse_address(word.strip(".,;:!?()")) is None)
    for token in tokens(without_days_and_times(" ".join(words), named=True)):
        if token.readings:
            yield token.text, token.readings
