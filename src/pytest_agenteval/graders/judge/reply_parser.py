"""What a judge replied: read into scores from 0 to 1, or the reason why it cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.graders.judge.prompt import LETTERS, RATIONALE, UNKNOWN, Rubric
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import split_thoughts

Scores: TypeAlias = Mapping[str, float | None]
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

MOST_SHOWN = 60
NO_VERDICT = "there is no JSON object with the scores in it"
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_PROSE_BRACES = re.compile(r"\{[\w\s{}]*(?:\}|\Z)")
"""Braces around words, as in ``{name}``, which begin no object."""
_STATED = (
    r"(?<!\w){}\W{{0,4}}?[:=：]\W{{0,3}}?([-+]?[0-9]+(?:\.[0-9]+)?|null|unknown)"
    r"(?!\.?[0-9]|\s*%|\s*(?:[-–~]|to)\s*[0-9])"
)
"""A score in words, as in ``tone: 4``; no percentage, and no scale as in ``tone: 1-5``."""
_FENCE_BEGINS = re.compile(r"\s*(?:[`~]+\w*)?\s*")
_FENCE_ENDS = re.compile(r"\s*[`~]*\s*")
_ENDS_THOUGHTS = re.compile(
    r"/(?:\w{1,20}:)?(?:think|thought)|end_of_thought|channel\|>|assistantfinal", re.I
)
_LABEL = re.compile(r"\b(?:json5?|(?:final )?(?:answer|grade|output|rating|result|scores?|verdict))\b", re.I)


class UnreadableReply(ValueError):
    """A reply that holds no verdict; the text says what is wrong with it."""


class Verdict(FrozenValue, frozen=True):
    """What a judge found: a score from 0 to 1 for each dimension, None where it could not tell."""

    scores: Scores
    rationale: str = ""


def parse_reply(reply: str, rubric: Rubric, material: Sequence[str] = ()) -> Verdict:
    """Find the verdict in a reply; raises UnreadableReply.

    A reply that is one JSON object, in a code fence or none, is the judge's own verdict: else an answer could
    escape its grade by containing it. Among other words an object counts only where it cannot be a quotation
    of what was judged: the outermost object is whole, has no key twice, is the only one with scores, does not
    stand in the ``material``, and the words around it give no other score. A number outside the scale is no
    score: it is not bent to the nearest.
    """
    verdict, words_around = _scored_object(reply, _has_key(rubric.names), material)
    _check_words(words_around, verdict, rubric.names)
    return _verdict(verdict, rubric)


def parse_reasoned_reply(reply: str, rubric: Rubric) -> Verdict:
    """Find the verdict in a reply that also says why, if in no words at all; raises UnreadableReply."""
    verdict, _ = _scored_object(reply, _has_key(rubric.names))
    if not isinstance(verdict.get(RATIONALE), str):
        raise UnreadableReply(f"there is no {RATIONALE} beside the score")
    return _verdict(verdict, rubric)


def parse_comparison(
    reply: str, rubric: Rubric, candidates: int, material: Sequence[str] = ()
) -> tuple[Verdict, ...]:
    """Find the verdicts on so many candidates, in the order in which they were shown; see ``parse_reply``."""
    letters = LETTERS[:candidates]
    verdicts, words_around = _scored_object(reply, _has_key(tuple(letters), dict), material)
    _check_words(words_around, verdicts, tuple(letters))
    why = _rationale(verdicts)
    return tuple(Verdict(_scores(_candidate(verdicts, letter), rubric, letter), why) for letter in letters)


def _has_key(names: Sequence[str], kind: type = object) -> Predicate:
    """Whether an object has one of these keys; in whatever case, so that a misspelt verdict stays one."""
    folded = {name.casefold() for name in names}
    return lambda value: any(
        key.strip().casefold() in folded and isinstance(inner, kind) for key, inner in value.items()
    )


def _verdict(scores: Mapping[str, Any], rubric: Rubric) -> Verdict:
    return Verdict(_scores(scores, rubric), _rationale(scores))


class _FoundObject(NamedTuple):
    """An outermost JSON object that holds scores: the objects in it that do, and its place in the text."""

    scored: list[dict[str, Any]]
    value: Any
    start: int
    end: int


def _scored_object(reply: str, holds: Predicate, material: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """Give the one object of a reply that holds scores, and the words around it."""
    text = _mend_escapes(reply)
    try:
        objects, broken = _objects(text, holds)
        verdicts = [scored for found in objects for scored in found.scored]
        differ = any(other != verdicts[0] for other in verdicts)
        is_whole = _is_whole_reply(text, objects)
        # What is the whole reply may still be all that a mark for the end of thoughts left of a quotation.
        suspects = [shown for shown in material if not is_whole or _ENDS_THOUGHTS.search(shown)]
        is_quoted = any(_is_quoted(objects, shown) for shown in suspects)
    except RecursionError:
        raise UnreadableReply("the JSON is nested too deeply") from None
    if not verdicts:
        raise UnreadableReply(f"{NO_VERDICT}: {broken[1]}" if broken else NO_VERDICT)
    # What follows the brace of a broken object may be inside of it: a quotation in its rationale.
    if broken and broken[0] < objects[-1].start:
        raise UnreadableReply(f"the JSON object around the scores cannot be read: {broken[1]}")
    if differ:
        raise UnreadableReply(f"there are {len(verdicts)} JSON objects with scores, and they differ")
    if is_quoted:
        raise UnreadableReply(
            "the JSON object with the scores stands in the material that was judged; to count, it must be the"
            " whole reply, with a rationale of its own"
        )
    if is_whole:
        return verdicts[0], ""
    if not any(_stands_alone(text, found) or RATIONALE in found.value | verdicts[0] for found in objects):
        raise UnreadableReply(f"the scores stand in a sentence, without a {RATIONALE}")
    places = [0, *(place for found in objects for place in found[-2:]), len(text)]
    return verdicts[0], "\n".join(
        text[start:end] for start, end in zip(places[::2], places[1::2], strict=True)
    )


def _objects(text: str, holds: Predicate) -> tuple[list[_FoundObject], tuple[int, str] | None]:
    """Give every object that no readable one is around; also where the first broken one begins, and why."""
    objects: list[_FoundObject] = []
    broken = None
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            words = None if broken else _PROSE_BRACES.match(text, at)
            end = words.end() if words else at + 1
            broken = broken if broken or words else (at, str(error))
        else:
            scored = list(_within(value, holds))
            if scored:
                objects.append(_FoundObject(scored, value, at, end))
        at = text.find("{", end)
    return objects, broken


def _mend_escapes(text: str) -> str:
    """Double each backslash that begins no escape of JSON, such as that of ``\\_``."""
    return _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len({key.strip().casefold() for key in value}) < len(pairs):
        raise ValueError("a key comes twice")
    return value


_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, strict=False)


def _within(value: Any, holds: Predicate) -> Iterator[dict[str, Any]]:
    """Give the objects in a value that hold what is looked for, but for those inside of a rationale."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if holds(inner):
                yield inner
            else:
                waiting += [part for key, part in inner.items() if key.strip().casefold() != RATIONALE]
        elif isinstance(inner, list):
            waiting += inner


def _is_whole_reply(text: str, objects: Sequence[_FoundObject]) -> bool:
    """Whether a reply is one object, in a fence or none, but for what the judge thought before."""
    if len(objects) != 1:
        return False
    written = text[objects[0].start : objects[0].end]
    before, found, after = split_thoughts(text).text.partition(written)
    return bool(found and _FENCE_BEGINS.fullmatch(before) and _FENCE_ENDS.fullmatch(after))


def _is_quoted(objects: Sequence[_FoundObject], shown: str) -> bool:
    """Whether an object, with its rationale where it has one, stands in a text; also as JSON in JSON."""
    texts = [_mend_escapes(shown), _mend_escapes(shown.replace("\\", ""))]
    own = [found.value if RATIONALE in found.value else found.scored[0] for found in objects]
    return any(_objects(text, each.__eq__)[0] for each in own for text in texts)


def _stands_alone(text: str, found: _FoundObject) -> bool:
    """Whether no words but a label stand on the lines on which an object begins and ends."""
    before, after = text[: found.start].rpartition("\n")[2], text[found.end :].partition("\n")[0]
    return not re.search(r"\w", _LABEL.sub("", f"{before} {after}"))


def _check_words(words: str, verdict: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a verdict beside which another score is written, as in ``tone: 1``, or more of an object."""
    for name in names:
        key = re.search(rf"""(["']){re.escape(name)}\1\s*:""", words, re.IGNORECASE)
        stated = re.finditer(_STATED.format(re.escape(name)), words, re.IGNORECASE)
        score = verdict.get(name)
        differs = (match for match in stated if _number(match[1]) != _number(score))
        other = key or (None if isinstance(score, dict) else next(differs, None))
        if other:
            raise UnreadableReply(f"the words around the JSON object have another score: {other[0]}")


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
