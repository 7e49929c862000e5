"""Does the card say what it must?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from pytest_agenteval.graders.memex.both_sides import disagreement, merged
from pytest_agenteval.graders.memex.card import card_sides, scored
from pytest_agenteval.graders.memex.on_disk import State
from pytest_agenteval.graders.memex.settings import Mode, check_mode, texts
from pytest_agenteval.graders.memex.unreadable import Unreadable, undecided_where_unreadable
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade

if TYPE_CHECKING:
    from yaml import BaseLoader as _Loader
else:
    # Every scalar comes as it was written: 118.50 stays 118.50.
    _Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader

NAME = "card_must_contain"
MOST_SHOWN = 200
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_NOT_SAID = frozenset({"", "true", "false", "null", "~"})


@dataclass(frozen=True, slots=True)
class CardMustContain:
    """Is each of the given texts on the card? The score is the share that is.

    ``upstream`` looks, in lower case, through the card's raw YAML: keys, fact id and timestamp included; no
    texts score 0. ``default`` looks through what the user gets to see: the title, and every text and number
    among the values of the filled templates, each by itself. Case, width and ligatures (NFKC), kinds of dash
    and lengths of white space make no difference there; no texts leave the grade undecided, a blank one is
    refused. The card is the one that the agent tells, else its file; a card that is told but is not the
    file's fails.
    """

    substrings: Sequence[str]
    mode: Mode = "default"

    agent: ClassVar[str] = "card"
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        given = texts("substrings", self.substrings)
        object.__setattr__(self, "substrings", given)
        if self.mode == "default" and not all(folded(text) for text in given):
            raise ValueError("substrings: a blank text is on every card; take it out")

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Look for each text on the card."""
        stated, shown = card_sides(evidence, self.mode)
        blob = _blob(merged(stated, shown))
        if self.mode == "upstream":
            return _summed_up(tuple(_raw_check(text, blob) for text in self.substrings))
        if not self.substrings:
            return Grade(NAME, None, "nothing to check")
        said = [folded(value) for value in values(blob)]
        untrue = disagreement(stated, shown, "card_yaml_blob")
        grade = _summed_up((*(_check(text, said) for text in self.substrings), *untrue))
        return replace(grade, rationale=str(untrue[0])) if untrue else grade


def _summed_up(checks: tuple[Check, ...]) -> Grade:
    """Score the checks; the reason names what is not there, and leaves the card's text to the checks."""
    missed = ", ".join(repr(check.expected) for check in checks if not check.passed)
    grade = scored(NAME, checks)
    return replace(grade, rationale=f"not on the card: {missed}") if missed else grade


def folded(text: str) -> str:
    """Write a text so that only differences worth a miss are left."""
    plain = _DASHES.sub("-", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(plain.split())


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


def _check(text: str, said: Sequence[str]) -> Check:
    wanted = folded(text)
    return Check(f"the card says {text!r}", any(wanted in value for value in said), text, _shown(said))


def _shown(said: Sequence[str]) -> str:
    return _cut(" | ".join(said)) or "no card that can be read"


def _raw_check(text: str, blob: str) -> Check:
    found = _cut(blob) or "no card"
    return Check(f"the card contains {text!r}", text.lower() in blob.lower(), text, found)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _blob(state: State) -> str:
    """Give the card's text; one that is not there is empty, anything but text is unreadable."""
    blob = state.get("card_yaml_blob")
    if blob is not None and not isinstance(blob, str):
        raise Unreadable("card_yaml_blob in the agent's state", "a text", blob)
    return blob or ""
