"""Graders of cards: whether one was saved, of which template, and what its text has to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, cast

import yaml
from msgspec.structs import replace

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    Mode,
    State,
    UnreadableState,
    card_path,
    card_state,
    check_flag,
    check_mode,
    contrast_text,
    days,
    disagreement_checks,
    entry_text,
    merge_states,
    needles,
    read_card,
    share_grade,
    state_list,
    texts,
    undecided_where_unreadable,
    upstream_state,
    value_check,
)
from pytest_agenteval.benchmarks.memex.journal import fact_id, plain_text
from pytest_agenteval.benchmarks.memex.text_search import (
    NUMBER_WORDS,
    Day,
    find_days,
    find_times,
    mentions,
    normalize_mention,
    parse_address,
    parse_times,
    tokens,
    without_days_and_times,
)
from pytest_agenteval.graders.grader_settings import cut
from pytest_agenteval.text.errors import did_you_mean

COMPLETE = "a complete card"


@dataclass(frozen=True, slots=True)
class CardCompletion:
    """Was a card saved, and is it complete on disk? One fifth for each of five questions.

    The answers come from the end state that the agent returns or, where it returns none, from the card's
    file. In ``default`` mode both have to say yes: a card that only the state speaks of is none. Only the
    truth value true counts as yes; a list of missing requirements that is no list is an error.

    In ``default`` mode two more answers cost: a title that is the entry over again (an entry of a few words
    may be its own title), and a card of another entry that was touched.
    """

    mode: Mode = "default"

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @undecided_where_unreadable("card_completion")
    def grade(self, evidence: Evidence) -> Grade:
        stated, on_disk = card_states(evidence, self.mode)
        # Memex casts the status to a text, which throws for another type; the grade then has no score.
        if self.mode == "upstream" and not isinstance(stated.get("status"), str | None):
            raise UnreadableState("status in the agent's state", "a text", stated["status"])
        checks: tuple[Check, ...] = (
            value_check("the card was saved", "card_save_tool_called", True, stated, on_disk),
            value_check("the card's status is completed", "status", "completed", stated, on_disk),
            value_check("the card has a title", "has_title", True, stated, on_disk),
            value_check("the card has a filled template", "has_ui_configs", True, stated, on_disk),
            _completeness_check(stated, on_disk),
        )
        if self.mode == "default":
            checks = (*checks, *_flaws(merge_states(stated, on_disk), evidence))
        return share_grade("card_completion", checks)


def _flaws(state: State, evidence: Evidence) -> Iterator[Check]:
    """Give a failed check for each flaw; a card without one earns nothing more."""
    content = " ".join(entry_text(evidence).split())
    title = plain_text(read_card(state.get("card_yaml_blob")).get("title")) or ""
    # An entry of up to 30 characters may be its own title; a longer one has to be put shorter.
    if len(content) > 30 and content in " ".join(title.split()):
        claim = "the title is more than the entry over again"
        yield Check(claim, False, "a title of its own", "the whole entry")
    own, changes = card_path(evidence), evidence.diff
    touched = [*changes.created, *changes.modified, *changes.deleted]
    others = [path for path in touched if path.startswith("Cards/") and path != own]
    if own and others:
        yield Check("no other entry's card was touched", False, "no other card", ", ".join(others))


def _completeness_check(stated: State, on_disk: State | None) -> Check:
    words = []
    for side in (merge_states(stated, on_disk), *([] if on_disk is None else [on_disk])):
        missing = ", ".join(map(str, state_list(side, "missing_requirements")))
        words.append(missing or (COMPLETE if side.get("is_complete") is True else "an incomplete card"))
    finding = words[0] if len(set(words)) == 1 else contrast_text(*words)
    return Check("nothing is missing", set(words) == {COMPLETE}, COMPLETE, finding)


@dataclass(frozen=True, slots=True)
class CardTemplateChoice:
    """Is one of the expected templates the card's first, or at least among its others?

    The score is 1 where the card's first template is expected, 0.5 where only a later one is, else 0; half
    credit passes. Ids are compared exactly.

    In ``default`` mode an empty list of expected ids and an unknown id are refused, and templates that an
    agent reports but that are not on its card score 0. With ``only``, the card may have no template but
    expected ones, none of them twice: anything else halves the score, and half credit does not pass.
    """

    expected_template_ids: Sequence[str]
    mode: Mode = "default"
    only: bool = False

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"

    @property
    def threshold(self) -> float:
        # As in Memex, half credit passes.
        return 1.0 if self.only else 0.5

    def __post_init__(self) -> None:
        check_mode(self.mode)
        expected = texts("expected_template_ids", self.expected_template_ids)
        object.__setattr__(self, "expected_template_ids", expected)
        if self.mode == "default":
            _check_template_ids(expected)
        check_flag("only", self.only, self.mode)

    @undecided_where_unreadable("card_template_choice")
    def grade(self, evidence: Evidence) -> Grade:
        stated, on_disk = card_states(evidence, self.mode)
        template_ids = state_list(merge_states(stated, on_disk), "template_ids")
        disagreements = disagreement_checks(stated, on_disk, "template_ids")
        expected = " or ".join(self.expected_template_ids)
        found = ", ".join(map(str, template_ids))
        score, why = self._score_and_reason(template_ids, expected, found)
        check = Check("the first template is expected", score == 1.0, expected, found or "no template")
        if disagreements:
            score, why = 0.0, str(disagreements[0])
        if self.only:
            once = len(set(map(str, template_ids))) == len(template_ids)
            passed = once and set(self.expected_template_ids).issuperset(template_ids)
            alone = Check("no other template is on the card", passed, expected, found or "no template")
            disagreements = (*disagreements, alone)
            score, why = (score, why) if alone.passed else (score / 2, f"{why}; {alone}")
        return Grade("card_template_choice", score, why, (check, *disagreements), {"full": score == 1.0})

    def _score_and_reason(self, template_ids: Sequence[Any], expected: str, found: str) -> tuple[float, str]:
        if not template_ids:
            return 0.0, f"no template was chosen; expected {expected}"
        if template_ids[0] in self.expected_template_ids:
            return 1.0, f"{template_ids[0]} comes first, as expected"
        later = next((id for id in template_ids[1:] if id in self.expected_template_ids), None)
        if later is not None:
            return 0.5, f"{later} is expected, but not first in: {found}"
        return 0.0, f"expected {expected}, found {found}"


def card_states(evidence: Evidence, mode: Mode) -> tuple[State, State | None]:
    """Give what the agent says of the card, and what its file shows; in upstream mode only one of them."""
    if mode == "upstream":
        return upstream_state(evidence, card_state), None
    stated = evidence.state
    # How a card came to its file is the agent's own affair: a state that denies the tool call denies no card.
    if stated.get("card_save_tool_called") is False:
        stated = {key: value for key, value in stated.items() if key != "card_save_tool_called"}
    return stated, card_state(evidence)


def _check_template_ids(ids: Sequence[str]) -> None:
    """Refuse an empty list, and ids that no template has."""
    from pytest_agenteval.benchmarks.memex.card_agent.agent import catalogue

    if not ids:
        raise ValueError("expected_template_ids must name at least one template")
    for id in (id for id in ids if id not in catalogue()):
        hint = did_you_mean(id, catalogue()) or f"known: {', '.join(catalogue())}"
        raise ValueError(f"expected_template_ids: there is no template {id!r}; {hint}")


if TYPE_CHECKING:
    from yaml import BaseLoader as _Loader
else:
    # Every scalar comes as it was written: 118.50 stays 118.50, which a number would not.
    _Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader

MUST_CONTAIN = "card_must_contain"
_NO_VALUES = frozenset({"", "true", "false", "null", "~"})


@dataclass(frozen=True, slots=True)
class CardMustContain:
    """Is each of the given texts on the card? The score is the share that is.

    ``upstream`` searches the card's raw YAML in lower case: keys, fact id and timestamp included; no texts
    score 0.

    ``default`` searches what the user gets to see: the title, and every text and number among the values of
    the filled templates, each by itself. There, a text is found as a whole: as words of any script, as a
    number by its value, as a date or a time in any spelling, as an address on its own host. A list in the
    place of a text holds several wordings, of which one is enough. Without texts the grade is undecided, and
    a blank text is refused.
    """

    substrings: Sequence[str | Sequence[str]]
    mode: Mode = "default"

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.mode == "upstream":
            needle_texts: Sequence[object] = texts("substrings", cast("Sequence[str]", self.substrings))
        else:
            needle_texts = needles("substrings", self.substrings)
        object.__setattr__(self, "substrings", needle_texts)

    @undecided_where_unreadable(MUST_CONTAIN)
    def grade(self, evidence: Evidence) -> Grade:
        stated, on_disk = card_states(evidence, self.mode)
        blob = card_text(merge_states(stated, on_disk))
        if self.mode == "upstream":
            # As Memex looks: through the whole file, keys, id and timestamp included.
            needles_found = [(str(text), str(text).lower() in blob.lower()) for text in self.substrings]
            shown = cut(blob) or "no card"
            return _text_grade(
                [Check(f"the card contains {t!r}", is_in, t, shown) for t, is_in in needles_found]
            )
        if not self.substrings:
            return Grade(MUST_CONTAIN, None, "nothing to check")
        values = card_values(blob)
        disagreements = disagreement_checks(stated, on_disk, "card_yaml_blob")
        checks = [_check(tuple(wordings), values) for wordings in self.substrings]
        grade = _text_grade([*checks, *disagreements])
        return replace(grade, rationale=str(disagreements[0])) if disagreements else grade


def _text_grade(checks: Sequence[Check]) -> Grade:
    """Score the checks; the reason names what is not there, and leaves the card's text to the checks."""
    missed = ", ".join(repr(check.expected) for check in checks if not check.passed)
    grade = share_grade(MUST_CONTAIN, tuple(checks))
    return replace(grade, rationale=f"not on the card: {missed}") if missed else grade


def card_values(blob: str) -> list[str]:
    """Give the title and all values of the filled templates; a card that cannot be read has none."""
    try:
        # The base loader makes texts, lists and maps only.
        card = yaml.load(blob, _Loader)
    except yaml.YAMLError:
        return []
    if not isinstance(card, dict):
        return []
    values = list(_leaves(card.get("title")))
    configs = card.get("ui_configs")
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict):
            values += _leaves(config.get("data"))
    return values


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.lower() not in _NO_VALUES:
            yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)


def _check(wordings: Sequence[str], values: Sequence[str]) -> Check:
    expected, finding = " or ".join(wordings), cut(" | ".join(values)) or "no card that can be read"
    passed = any(mentions(value, text) for text in wordings for value in values)
    return Check(f"the card says {expected!r}", passed, expected, finding)


def card_text(state: State) -> str:
    """Give the card's text; one that is not there is empty, anything but text is unreadable."""
    blob = state.get("card_yaml_blob")
    if blob is not None and not isinstance(blob, str):
        raise UnreadableState("card_yaml_blob in the agent's state", "a text", blob)
    return blob or ""


NUMBERS_GIVEN = "card_numbers_given"
# Numbers that a card may hold without its entry: the start of a streak, and the ends of scales.
_SCALES = frozenset(map(Decimal, (0, 1, 10, 100)))


@dataclass(frozen=True, slots=True)
class CardNumbersGiven:
    """Is every number on the card one that the entry gives? The score is the share that is.

    The grader looks at the title and the values of the filled templates, except dates, times, addresses and
    colours: ``card_must_contain`` can say what those have to be. A number counts by its value, whatever its
    spelling and sign; in the entry, English number words count too.

    0, 1, 10 and 100 are always allowed, because scales begin and end there, and so is the entry's year.
    ``also`` gives whatever else may stand there, such as what can be worked out. Where ``days`` are given,
    every full date has to be one of them, or the entry's day. A card without such a number or date leaves the
    grade undecided.
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
        stated, on_disk = card_states(evidence, "default")
        entry, fact = entry_text(evidence), fact_id(evidence.task_input.get("fact_id"))
        own = fact.day if fact else None
        year = {Decimal(own.year)} if own else set()
        # The sign between them keeps texts apart: 13 at the end of
        # one and 499 at the start of the next would be one number.
        allowed = frozenset(_numbers_of_entry(" ; ".join((entry, *self.also)))) | _SCALES | year
        disagreements = disagreement_checks(stated, on_disk, "card_yaml_blob")
        values = card_values(card_text(merge_states(stated, on_disk)))
        normal_entry = normalize_mention(entry)
        days_meant = days("days", self.days) | ({Day(own.month, own.day, own.year)} if own else set())
        days_known = days_meant | find_days(normal_entry, short=False)
        times_known = find_times(normal_entry)
        checks = [
            Check(f"{number} comes from the entry", bool(readings & allowed), "a number of the entry", number)
            for value in values
            for number, readings in _numbers(value)
            if not _is_known_day_or_time(number, days_known, times_known)
        ]
        for value in values if self.days else ():
            for named_day in find_days(normalize_mention(value), short=False):
                passed = any(named_day.can_equal(day) for day in days_meant)
                expected = " or ".join(self.days)
                checks.append(Check(f"{value} is a day that was meant", passed, expected, value))
        if not checks:
            return Grade(NUMBERS_GIVEN, None, "the card has no number to look at")
        return Grade.from_checks(NUMBERS_GIVEN, (*checks, *disagreements))


def _is_known_day_or_time(number: str, days_known: frozenset[Day], times_known: frozenset[int]) -> bool:
    """Whether a number is a day or a time of the entry, as those are written with a point: 18.9., 18.45."""
    times = parse_times(number.replace(".", ":"))
    days = find_days(number) if "." in number else ()
    return bool(times & times_known) or any(day.can_equal(other) for day in days for other in days_known)


def _numbers_of_entry(entry: str) -> Iterator[Decimal]:
    words = tokens(normalize_mention(entry))
    for place, token in enumerate(words):
        yield from token.readings
        number = NUMBER_WORDS.get(token.text)
        if number is not None:
            yield Decimal(number)
            # Words in a row, as in "twenty six", give the numbers 20 and 26.
            after = NUMBER_WORDS.get(words[place + 1].text, 0) if place + 1 < len(words) else 0
            yield Decimal(number + after) if number >= 20 and 0 < after < 10 else Decimal(number)


def _numbers(value: str) -> Iterator[tuple[str, frozenset[Decimal]]]:
    text = normalize_mention(value)
    words = (word for word in text.split() if parse_address(word.strip(".,;:!?()")) is None)
    for token in tokens(without_days_and_times(" ".join(words), named=True)):
        if token.readings:
            yield token.text, token.readings
