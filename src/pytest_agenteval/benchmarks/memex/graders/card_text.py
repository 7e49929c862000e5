"""Does the card say what it must, and does every number on it come from the entry?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, cast

import yaml
from msgspec.structs import replace

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.card import card_states, share_grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    State,
    UnreadableState,
    disagreement_checks,
    merge_states,
    undecided_where_unreadable,
)
from pytest_agenteval.benchmarks.memex.graders.settings import (
    Mode,
    check_mode,
    days,
    entry_day,
    needles,
    texts,
)
from pytest_agenteval.benchmarks.memex.text_search.dates import (
    Day,
    find_days,
    find_times,
    parse_times,
    without_days_and_times,
)
from pytest_agenteval.benchmarks.memex.text_search.mentions import (
    NUMBER_WORDS,
    mentions,
    normalize_mention,
    parse_address,
)
from pytest_agenteval.benchmarks.memex.text_search.tokens import tokens
from pytest_agenteval.graders.grader_settings import cut

if TYPE_CHECKING:
    from yaml import BaseLoader as _Loader
else:
    # Every scalar comes as it was written: 118.50 stays 118.50.
    _Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader

MUST_CONTAIN = "card_must_contain"
_NO_VALUES = frozenset({"", "true", "false", "null", "~"})


@dataclass(frozen=True, slots=True)
class CardMustContain:
    """Is each of the given texts on the card? The score is the share that is.

    ``upstream`` looks, in lower case, through the card's raw YAML: keys, fact id and timestamp included; no
    texts score 0. ``default`` looks through what the user gets to see: the title, and every text and number
    among the values of the filled templates, each by itself. There, a text is found as a whole: as words of
    any script, as a number by its value, as a date or a time in any spelling, as an address on its own host.
    A list in the place of a text holds several, of which one is enough. No texts leave the grade undecided, a
    blank one is refused.
    """

    substrings: Sequence[str | Sequence[str]]
    mode: Mode = "default"

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        upstream = self.mode == "upstream"
        needle_texts = (
            texts("substrings", cast("Sequence[str]", self.substrings))
            if upstream
            else needles("substrings", self.substrings)
        )
        object.__setattr__(self, "substrings", needle_texts)

    @undecided_where_unreadable(MUST_CONTAIN)
    def grade(self, evidence: Evidence) -> Grade:
        """Look for each text on the card."""
        stated, on_disk = card_states(evidence, self.mode)
        blob = card_text(merge_states(stated, on_disk))
        if self.mode == "upstream":
            return _text_grade(tuple(_raw_check(str(text), blob) for text in self.substrings))
        if not self.substrings:
            return Grade(MUST_CONTAIN, None, "nothing to check")
        values = card_values(blob)
        disagreements = disagreement_checks(stated, on_disk, "card_yaml_blob")
        grade = _text_grade(
            (*(_check(tuple(wordings), values) for wordings in self.substrings), *disagreements)
        )
        return replace(grade, rationale=str(disagreements[0])) if disagreements else grade


def _text_grade(checks: tuple[Check, ...]) -> Grade:
    """Score the checks; the reason names what is not there, and leaves the card's text to the checks."""
    missed = ", ".join(repr(check.expected) for check in checks if not check.passed)
    grade = share_grade(MUST_CONTAIN, checks)
    return replace(grade, rationale=f"not on the card: {missed}") if missed else grade


def card_values(blob: str) -> list[str]:
    """Give the title and all values of the filled templates; a card that cannot be read has none."""
    try:
        card = yaml.load(blob, _Loader)  # makes texts, lists and maps only
    except yaml.YAMLError:
        return []
    return list(_visible_values(card)) if isinstance(card, dict) else []


def _visible_values(card: dict[str, Any]) -> Iterator[str]:
    yield from _leaves(card.get("title"))
    configs = card.get("ui_configs")
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict):
            yield from _leaves(config.get("data"))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.lower() not in _NO_VALUES:
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)


def _check(wordings: Sequence[str], values: Sequence[str]) -> Check:
    expected = " or ".join(wordings)
    passed = any(mentions(value, text) for text in wordings for value in values)
    return Check(f"the card says {expected!r}", passed, expected, _values_text(values))


def _values_text(values: Sequence[str]) -> str:
    return cut(" | ".join(values)) or "no card that can be read"


def _raw_check(text: str, blob: str) -> Check:
    finding = cut(blob) or "no card"
    return Check(f"the card contains {text!r}", text.lower() in blob.lower(), text, finding)


def card_text(state: State) -> str:
    """Give the card's text; one that is not there is empty, anything but text is unreadable."""
    blob = state.get("card_yaml_blob")
    if blob is not None and not isinstance(blob, str):
        raise UnreadableState("card_yaml_blob in the agent's state", "a text", blob)
    return blob or ""


NUMBERS_GIVEN = "card_numbers_given"
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
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "also", texts("also", self.also))
        days("days", self.days)

    @undecided_where_unreadable(NUMBERS_GIVEN)
    def grade(self, evidence: Evidence) -> Grade:
        """Compare the numbers of the card with those of the entry."""
        stated, on_disk = card_states(evidence, "default")
        entry = str(evidence.task_input.get("content") or "")
        own = entry_day(evidence.task_input.get("fact_id"))
        year = {Decimal(own.year)} if own else set()
        # The sign keeps texts apart: 13 at one's end and 499 at the next one's start would be one number.
        allowed = frozenset(_numbers_of_entry(" ; ".join((entry, *self.also)))) | _SCALES | year
        disagreements = disagreement_checks(stated, on_disk, "card_yaml_blob")
        values = card_values(card_text(merge_states(stated, on_disk)))
        days_known, times_known = self._days_known(entry, own), find_times(normalize_mention(entry))
        checks = tuple(
            Check(f"{number} comes from the entry", bool(readings & allowed), "a number of the entry", number)
            for value in values
            for number, readings in _numbers(value)
            if not _is_known_day_or_time(number, days_known, times_known)
        )
        checks += tuple(self._days(values, own)) if self.days else ()
        if not checks:
            return Grade(NUMBERS_GIVEN, None, "the card has no number to look at")
        return Grade.from_checks(NUMBERS_GIVEN, (*checks, *disagreements))

    def _days_known(self, entry: str, own: date | None) -> frozenset[Day]:
        return self._days_meant(own) | find_days(normalize_mention(entry), short=False)

    def _days_meant(self, own: date | None) -> frozenset[Day]:
        return days("days", self.days) | ({Day(own.month, own.day, own.year)} if own else set())

    def _days(self, values: Sequence[str], own: date | None) -> Iterator[Check]:
        days_meant = self._days_meant(own)
        for value in values:
            for named_day in find_days(normalize_mention(value), short=False):
                passed = any(named_day.can_equal(day) for day in days_meant)
                yield Check(f"{value} is a day that was meant", passed, " or ".join(self.days), value)


def _is_known_day_or_time(number: str, days_known: frozenset[Day], times_known: frozenset[int]) -> bool:
    """Whether a number is a day or a time of the entry, as those are written with a point: 18.9., 18.45."""
    days_said = find_days(number) if "." in number else ()
    times_said = parse_times(number.replace(".", ":"))
    return any(day.can_equal(other) for day in days_said for other in days_known) or bool(
        times_said & times_known
    )


def _numbers_of_entry(entry: str) -> Iterator[Decimal]:
    words = tokens(normalize_mention(entry))
    for place, token in enumerate(words):
        yield from token.readings
        number = NUMBER_WORDS.get(token.text)
        if number is not None:
            yield Decimal(number)
            after = NUMBER_WORDS.get(words[place + 1].text, 0) if place + 1 < len(words) else 0
            yield Decimal(number + after) if number >= 20 and 0 < after < 10 else Decimal(number)


def _numbers(value: str) -> Iterator[tuple[str, frozenset[Decimal]]]:
    text = normalize_mention(value)
    words = (word for word in text.split() if parse_address(word.strip(".,;:!?()")) is None)
    for token in tokens(without_days_and_times(" ".join(words), named=True)):
        if token.readings:
            yield token.text, token.readings
