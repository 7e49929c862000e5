"""What a judge replied: read into scores from 0 to 1, or the reason why it cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, TypeAlias

from pytest_agenteval.graders.judge.prompt import LETTERS, RATIONALE, UNKNOWN, Rubric
from pytest_agenteval.records.record import FrozenValue

Scores: TypeAlias = Mapping[str, float | None]
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

MOST_SHOWN = 60
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_decoder = json.JSONDecoder()


class UnreadableReply(ValueError):
    """A reply that holds no verdict; the text says what is wrong with it."""


class Verdict(FrozenValue, frozen=True):
    """What a judge found: a score from 0 to 1 for each dimension, None where it could not tell."""

    scores: Scores
    rationale: str = ""


def parse_reply(reply: str, rubric: Rubric) -> Verdict:
    """Find the verdict in a reply; raises Unreadable.

    It may stand in a code fence or among other words. A number outside the scale is no score: it is not
    bent to the nearest. Nor is one picked where a reply holds several that differ.
    """
    return _verdict(_scored_object(reply, rubric), rubric)


def parse_reasoned_reply(reply: str, rubric: Rubric) -> Verdict:
    """Find the verdict in a reply that also says why, if in no words at all; raises Unreadable."""
    verdict = _scored_object(reply, rubric)
    if not isinstance(verdict.get(RATIONALE), str):
        raise UnreadableReply(f"there is no {RATIONALE} beside the score")
    return _verdict(verdict, rubric)


def parse_comparison(reply: str, rubric: Rubric, candidates: int) -> tuple[Verdict, ...]:
    """Find the verdicts on so many candidates, in the order in which they were shown; raises Unreadable."""
    letters = LETTERS[:candidates]
    verdicts = _single_object(
        _objects(reply, lambda value: any(isinstance(value.get(key), dict) for key in letters))
    )
    why = _rationale(verdicts)
    return tuple(Verdict(_scores(_candidate(verdicts, letter), rubric, letter), why) for letter in letters)


def _scored_object(reply: str, rubric: Rubric) -> dict[str, Any]:
    return _single_object(_objects(reply, lambda value: any(name in value for name in rubric.names)))


def _verdict(scores: Mapping[str, Any], rubric: Rubric) -> Verdict:
    return Verdict(_scores(scores, rubric), _rationale(scores))


def _objects(reply: str, holds: Predicate) -> Iterator[dict[str, Any]]:
    """Give every JSON object in a text that holds what is looked for, also inside of others."""
    at = reply.find("{")
    while at >= 0:
        try:
            value, end = _decoder.raw_decode(reply, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield from _within(value, holds)
        at = reply.find("{", end)


def _within(value: Any, holds: Predicate) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if holds(value):
            yield value
            return
        value = value.values()
    elif not isinstance(value, list):
        return
    for inner in value:
        yield from _within(inner, holds)


def _single_object(matches: Iterator[dict[str, Any]]) -> dict[str, Any]:
    try:
        objects = list(matches)
        differ = any(other != objects[0] for other in objects)
    except RecursionError:
        raise UnreadableReply("the JSON is nested too deeply") from None
    if not objects:
        raise UnreadableReply("there is no JSON object with the scores in it")
    if differ:
        raise UnreadableReply(f"there are {len(objects)} JSON objects with scores, and they differ")
    return objects[0]


def _candidate(verdicts: Mapping[str, Any], letter: str) -> Mapping[str, Any]:
    scores = verdicts.get(letter)
    if not isinstance(scores, dict):
        raise UnreadableReply(f"there are no scores for candidate {letter}")
    return scores


def _scores(scores: Mapping[str, Any], rubric: Rubric, of: str = "") -> Scores:
    return {name: _score(scores, name, rubric, f"{of}.{name}" if of else name) for name in rubric.names}


def _score(scores: Mapping[str, Any], name: str, rubric: Rubric, called: str) -> float | None:
    if name not in scores:
        raise UnreadableReply(f"{called} is missing")
    value = scores[name]
    if value is None or (isinstance(value, str) and value.strip().casefold() == UNKNOWN):
        return None
    number = _number(value)
    if number is None:
        raise UnreadableReply(f"{called} is {_short_value(value)}, neither a number nor {UNKNOWN!r}")
    if not rubric.low <= number <= rubric.high:
        raise UnreadableReply(
            f"{called} is {_short_value(value)}, outside of {rubric.low:g} to {rubric.high:g}"
        )
    return rubric.from_scale(number)


def _number(value: Any) -> float | None:
    """Give a number, also one written as text; a truth value is none, nor is what has no end."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _rationale(reply: Mapping[str, Any]) -> str:
    text = reply.get(RATIONALE)
    return text if isinstance(text, str) else ""


def _short_value(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
