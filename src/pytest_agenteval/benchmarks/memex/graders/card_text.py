"""Does the card say what it must?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import yaml

from pytest_agenteval.benchmarks.memex.graders.both_sides import disagreement, merged
from pytest_agenteval.benchmarks.memex.graders.card import card_sides, scored
from pytest_agenteval.benchmarks.memex.graders.on_disk import State
from pytest_agenteval.benchmarks.memex.graders.settings import Mode, check_mode, needles, texts
from pytest_agenteval.benchmarks.memex.graders.unreadable import Unreadable, undecided_where_unreadable
from pytest_agenteval.graders.formatting import cut
from pytest_agenteval.graders.matching.mentions import mentions
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade

if TYPE_CHECKING:
    from yaml import BaseLoader as _Loader
else:
    # Every scalar comes as it was written: 118.50 stays 118.50.
    _Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader

NAME = "card_must_contain"
_NOT_SAID = frozenset({"", "true", "false", "null", "~"})


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
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        upstream = self.mode == "upstream"
        given = (
            texts("substrings", cast("Sequence[str]", self.substrings))
            if upstream
            else needles("substrings", self.substrings)
        )
        object.__setattr__(self, "substrings", given)

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Look for each text on the card."""
        stated, shown = card_sides(evidence, self.mode)
        blob = blob_of(merged(stated, shown))
        if self.mode == "upstream":
            return _summed_up(tuple(_raw_check(str(text), blob) for text in self.substrings))
        if not self.substrings:
            return Grade(NAME, None, "nothing to check")
        said = values(blob)
        untrue = disagreement(stated, shown, "card_yaml_blob")
        grade = _summed_up((*(_check(tuple(each), said) for each in self.substrings), *untrue))
        return replace(grade, rationale=str(untrue[0])) if untrue else grade


def _summed_up(checks: tuple[Check, ...]) -> Grade:
    """Score the checks; the reason names what is not there, and leaves the card's text to the checks."""
    missed = ", ".join(repr(check.expected) for check in checks if not check.passed)
    grade = scored(NAME, checks)
    return replace(grade, rationale=f"not on the card: {missed}") if missed else grade


def values(blob: str) -> list[str]:
    """Give the title and all values of the filled templates; a card that cannot be read has none."""
    try:
        card = yaml.load(blob, _Loader)  # makes texts, lists and maps only
    except yaml.YAMLError:
        return []
    return list(_seen(card)) if isinstance(card, dict) else []


def _seen(card: dict[str, Any]) -> Iterator[str]:
    yield from _leaves(card.get("title"))
    configs = card.get("ui_configs")
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict):
            yield from _leaves(config.get("data"))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.lower() not in _NOT_SAID:
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)


def _check(wordings: Sequence[str], said: Sequence[str]) -> Check:
    expected = " or ".join(wordings)
    passed = any(mentions(value, text) for text in wordings for value in said)
    return Check(f"the card says {expected!r}", passed, expected, _shown(said))


def _shown(said: Sequence[str]) -> str:
    return cut(" | ".join(said)) or "no card that can be read"


def _raw_check(text: str, blob: str) -> Check:
    found = cut(blob) or "no card"
    return Check(f"the card contains {text!r}", text.lower() in blob.lower(), text, found)


def blob_of(state: State) -> str:
    """Give the card's text; one that is not there is empty, anything but text is unreadable."""
    blob = state.get("card_yaml_blob")
    if blob is not None and not isinstance(blob, str):
        raise Unreadable("card_yaml_blob in the agent's state", "a text", blob)
    return blob or ""
