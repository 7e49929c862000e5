"""What judges reply: a reply read as a verdict, and several verdicts as one score."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, isfinite
from statistics import fmean, median
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.graders.judge.rubric import LETTERS, RATIONALE, UNKNOWN, Rubric
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.replies import ENDS_THOUGHTS, split_thoughts

Scores: TypeAlias = Mapping[str, float | None]
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

MOST_SHOWN = 60
# How many characters of a reply are read; replies of judges are far shorter.
MOST_READ = 100_000
NO_VERDICT = "there is no JSON object with the scores in it"
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
# Braces around words, as in ``{name}``, which do not begin an object.
_PROSE_BRACES = re.compile(r"\{[\w\s{}]*(?:\}|\Z)")
# A score in words, as in ``tone: 4``, but no percentage and no scale as in ``tone: 1-5``.
_STATED = (
    r"(?<!\w){}\W{{0,4}}?[:=：]\W{{0,3}}?([-+]?[0-9]+(?:\.[0-9]+)?|null|unknown)"
    r"(?!\.?[0-9]|\s*%|\s*(?:[-–~]|to)\s*[0-9])"
)
# What a further score behind an object would contain: a digit, a key, ``null`` or ``unknown``.
_STATED_BEHIND = re.compile(r"""\d|["']\s*:|\b(?:null|unknown)\b""", re.I)
# Differences between spellings of the same JSON: blanks, escapes, and ``5.0`` for ``5``.
_SPELLING = re.compile(r"\\[nrt]|[\s\\]|(?<=\d)\.0+(?!\d)")
_FENCE_BEGINS = re.compile(r"(?:[`~]+\w*)?")
_FENCE_ENDS = re.compile(r"[`~]*")
_LABEL = re.compile(r"\b(?:json5?|(?:final )?(?:answer|grade|output|rating|result|scores?|verdict))\b", re.I)


class UnreadableReply(ValueError):
    """A judge's reply has no verdict; the text says why."""


class Verdict(FrozenValue, frozen=True):
    """One judge's score from 0 to 1 for each dimension, None where undecided."""

    scores: Scores
    rationale: str = ""


def parse_reply(reply: str, rubric: Rubric, material: Sequence[str] = ()) -> Verdict:
    """Find the verdict in a reply; raises UnreadableReply.

    A reply that is one JSON object, in a code fence or none, is the judge's own verdict, whatever the
    material holds: else an answer could escape its grade by containing that object. Among other words an
    object counts only where it cannot be a quotation of what was judged. It must be outermost and whole, have
    no key twice, be the only one with scores, and not stand in the ``material``. The words before it must
    give no other score, and no digit may stand behind it.

    A number outside the scale makes the reply unreadable; it is not moved to the nearest end.
    """
    verdict, words_before = _scored_object(reply, _has_key(rubric.names), material)
    for name in rubric.names:
        for stated in re.finditer(_STATED.format(re.escape(name)), words_before, re.IGNORECASE):
            if _number(stated[1]) != _number(verdict.get(name)):
                raise UnreadableReply(f"the words before the JSON object have another score: {stated[0]}")
    return _verdict(verdict, rubric)


def parse_reasoned_reply(reply: str, rubric: Rubric) -> Verdict:
    """Find the verdict in a reply that has a reason, which may be empty; raises UnreadableReply."""
    verdict, _ = _scored_object(reply, _has_key(rubric.names))
    if not isinstance(verdict.get(RATIONALE), str):
        raise UnreadableReply(f"there is no {RATIONALE} beside the score")
    return _verdict(verdict, rubric)


def parse_comparison(
    reply: str, rubric: Rubric, candidates: int, material: Sequence[str] = ()
) -> tuple[Verdict, ...]:
    """Find the verdicts on so many candidates, in the order in which they were shown; see ``parse_reply``."""
    letters = LETTERS[:candidates]
    verdicts, _ = _scored_object(reply, _has_key(tuple(letters), dict), material)
    why = _rationale(verdicts)
    found = []
    for letter in letters:
        scores = verdicts.get(letter)
        if not isinstance(scores, dict):
            raise UnreadableReply(f"there are no scores for candidate {letter}")
        found.append(Verdict(_scores(scores, rubric, letter), why))
    return tuple(found)


def _has_key(names: Sequence[str], kind: type = object) -> Predicate:
    """Make a test for objects that have one of these keys, in any case, with a value of this kind."""
    # In any case, so that a verdict with a misspelt key is still the verdict, and unreadable as one.
    folded = {name.casefold() for name in names}
    return lambda value: any(
        key.strip().casefold() in folded and isinstance(inner, kind) for key, inner in value.items()
    )


def _verdict(scores: Mapping[str, Any], rubric: Rubric) -> Verdict:
    return Verdict(_scores(scores, rubric), _rationale(scores))


class _ScoredObject(NamedTuple):
    """An outermost JSON value with its place in the text; ``scored`` is the object in it that has scores."""

    scored: dict[str, Any]
    value: Any
    start: int
    end: int


def _scored_object(reply: str, holds: Predicate, material: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """Give the one object of a reply that holds scores, and the words before it."""
    if len(reply) > MOST_READ:
        raise UnreadableReply(f"it has more than {MOST_READ:,} characters")
    # Models write LaTeX and Markdown into JSON: a backslash that begins no escape of JSON stands for itself.
    text = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", reply)
    try:
        objects, broken = _objects(text, holds)
        if not objects:
            raise UnreadableReply(f"{NO_VERDICT}: {broken}" if broken else NO_VERDICT)
        verdict = objects[0].scored
        # A judge may repeat its verdict; of two different ones none is picked.
        if any(each.scored != verdict for each in objects):
            raise UnreadableReply(f"there are {len(objects)} JSON objects with scores, and they differ")
        is_whole = _is_whole_reply(text, objects)
        # The scores may lie within an object or list that
        # also holds words, and those may be the real verdict.
        outer = objects[0].value
        texts = (part for part in _parts(outer) if isinstance(part, str))
        has_words = outer is not verdict and any(map(str.strip, texts))
        # A mark that ends thoughts, such as </think> in an answer, may cut a quotation so that nothing but
        # the quoted verdict is left. Then even a whole reply is looked for in the material.
        is_own = is_whole and not has_words
        suspects = [shown for shown in material if not is_own or ENDS_THOUGHTS.search(shown)]
        is_quoted = any(_is_quoted(text, objects, shown) for shown in suspects)
    except RecursionError:
        raise UnreadableReply("the JSON is nested too deeply") from None
    if is_quoted:
        raise UnreadableReply(
            "the JSON object with the scores stands in the material that was judged; to count, it must be the"
            " whole reply, with a rationale of its own"
        )
    if is_whole:
        return verdict, ""
    if not any(_stands_alone(text, each) or RATIONALE in each.value | verdict for each in objects):
        raise UnreadableReply(f"the scores stand in a sentence, without a {RATIONALE}")
    for each, following in zip(objects, [*(each.start for each in objects[1:]), len(text)], strict=True):
        # What may be a score behind an object may be the judge's own, and the object a quotation.
        if score := _STATED_BEHIND.search(text, each.end, following):
            raise UnreadableReply(f"behind the JSON object with the scores stands {score[0]}")
    return verdict, text[: objects[0].start]


def _objects(text: str, holds: Predicate) -> tuple[list[_ScoredObject], str]:
    """Give the objects with scores up to the first that cannot be read, and why that one cannot."""
    objects: list[_ScoredObject] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            words = _PROSE_BRACES.match(text, at)
            if words is None:
                # What follows the brace of a broken object may be inside of it: a quotation in its rationale.
                return objects, str(error)
            end = words.end()
        else:
            scored = _scored_part(value, holds)
            if scored is not None:
                objects.append(_ScoredObject(scored, value, at, end))
        at = text.find("{", end)
    return objects, ""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len({key.strip().casefold() for key in value}) < len(pairs):
        raise ValueError("a key comes twice")
    return value


# Not strict: judges write raw line breaks and tabs into the text of a rationale.
_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, strict=False)


def _scored_part(value: Any, holds: Predicate) -> dict[str, Any] | None:
    """Give the object in a value that holds scores; those inside of a rationale do not count."""
    if isinstance(value, dict) and holds(value):
        return value
    parts = _parts(value)
    for at, part in enumerate(parts):
        scored = _scored_part(part, holds)
        if scored is not None:
            if any(map(_states_choice, [*parts[:at], *parts[at + 1 :]])):
                # What stands beside the scores may be the verdict,
                # and the scores no more than evidence for it.
                raise UnreadableReply("the JSON object around the scores has another value beside them")
            return scored
    return None


def _states_choice(value: Any) -> bool:
    """Whether a value is or contains a number, a truth value or a single word."""
    if isinstance(value, str):
        return len(value.split()) == 1
    if isinstance(value, dict | list):
        return any(map(_states_choice, _parts(value)))
    return value is not None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for key, part in value.items() if key.strip().casefold() != RATIONALE]
    return value if isinstance(value, list) else []


def _is_whole_reply(text: str, objects: Sequence[_ScoredObject]) -> bool:
    """Whether a reply is one object, in a fence or none, apart from thoughts before it."""
    if len(objects) != 1:
        return False
    written = text[objects[0].start : objects[0].end]
    before, is_there, after = split_thoughts(text).text.partition(written)
    return bool(is_there and _FENCE_BEGINS.fullmatch(before.strip()) and _FENCE_ENDS.fullmatch(after.strip()))


def _is_quoted(text: str, objects: Sequence[_ScoredObject], shown: str) -> bool:
    """Whether an object, with its rationale where it has one, stands in a text; also as JSON in JSON."""
    spellings = [text[holder.start : holder.end] for holder in objects]
    for holder in objects:
        own = holder.value if RATIONALE in holder.value else holder.scored
        spellings += [json.dumps(own), json.dumps(own, ensure_ascii=False)]
    bare = _SPELLING.sub("", shown)
    # Without its braces, because the object in the material may hold more keys.
    return any(_SPELLING.sub("", spelling[1:-1]) in bare for spelling in spellings)


def _stands_alone(text: str, holder: _ScoredObject) -> bool:
    """Whether the lines on which an object begins and ends hold no words but a label."""
    before, after = text[: holder.start].rpartition("\n")[2], text[holder.end :].partition("\n")[0]
    return not re.search(r"\w", _LABEL.sub("", f"{before} {after}"))


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
    # Nothing is bent into the scale: 0 on a scale from 1 to 5 is a mistake and not the lowest score.
    if not rubric.low <= number <= rubric.high:
        raise UnreadableReply(
            f"{called} is {_short_value(value)}, outside of {rubric.low:g} to {rubric.high:g}"
        )
    return rubric.from_scale(number)


def _number(value: Any) -> float | None:
    """Read a number, also from text; None for truth values, infinity and NaN."""
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


class Vote(FrozenValue, frozen=True):
    """One judge's verdict and full reply.

    ``problem`` says why no reply could be read; it is empty where one could. ``order`` names the candidates
    as they were shown, first to last, and ``seed`` is what that order was drawn from.
    """

    judge: str
    scores: Scores
    rationale: str = ""
    raw: tuple[str, ...] = ()
    problem: str = ""
    order: tuple[str, ...] = ()
    seed: str = ""

    def as_details(self) -> dict[str, Any]:
        """Give the vote as JSON, without what is not there."""
        optional = {"problem": self.problem, "order": list(self.order), "seed": self.seed}
        details = {"judge": self.judge, "scores": dict(self.scores), "rationale": self.rationale}
        return {**details, "raw": list(self.raw), **{key: value for key, value in optional.items() if value}}


class Judgement(FrozenValue, frozen=True):
    """The judges' combined scores for each dimension, None where no judge decided."""

    rubric: Rubric
    votes: tuple[Vote, ...]
    prompt_digest: str
    seed: str = ""

    @property
    def scores(self) -> Scores:
        """One score from 0 to 1 for each dimension, by the rubric's way to combine votes."""
        return {name: combine_scores(self.rubric, self.decided(name)) for name in self.rubric.names}

    @property
    def spread(self) -> Scores:
        """The highest minus the lowest vote for each dimension; None where there is none."""
        votes = {name: self.decided(name) for name in self.rubric.names}
        return {name: max(those) - min(those) if those else None for name, those in votes.items()}

    @property
    def score(self) -> float | None:
        """The mean of the dimensions that could be decided; None where none could."""
        return mean_of_known(self.scores.values())

    @property
    def rationale(self) -> str:
        """The judges' reasons, or what was wrong with a reply; each by name where there are several."""
        reasons = [vote.rationale or vote.problem or "no reason given" for vote in self.votes]
        if len(reasons) == 1:
            return reasons[0]
        return "; ".join(f"{vote.judge}: {text}" for vote, text in zip(self.votes, reasons, strict=True))

    def decided(self, dimension: str) -> list[float]:
        """Give the votes on a dimension of those who could tell."""
        scores = (vote.scores.get(dimension) for vote in self.votes)
        return [score for score in scores if score is not None]

    def as_details(self) -> dict[str, Any]:
        """Give everything about the judgement as JSON."""
        rubric = self.rubric
        return {
            "rubric": {"name": rubric.name, "version": rubric.version, "digest": rubric.digest()},
            "prompt": self.prompt_digest,
            "seed": self.seed,
            "judges": [vote.judge for vote in self.votes],
            "combine": rubric.combine,
            "scores": dict(self.scores),
            "spread": dict(self.spread),
            "votes": [vote.as_details() for vote in self.votes],
        }


def combine_scores(rubric: Rubric, votes: Sequence[float]) -> float | None:
    """Make one score of several, as the rubric says; None where there are none.

    ``majority``: each vote goes to the nearest whole step above the scale's low end (half a step counts
    up), and the step that more than half of the votes went to is the score; without such a step there
    is no score.
    """
    if not votes:
        return None
    if rubric.combine == "majority":
        steps = rubric.high - rubric.low
        # A vote that went through a division may lie a hair below the half step that it stands for.
        (step, count), *_ = Counter(floor(vote * steps + 0.5 + 1e-9) for vote in votes).most_common(1)
        return step / steps if 2 * count > len(votes) else None
    return median(votes) if rubric.combine == "median" else fmean(votes)


def mean_of_known(scores: Iterable[float | None]) -> float | None:
    decided = [score for score in scores if score is not None]
    return fmean(decided) if decided else None


def no_judgement(rubric: Rubric) -> Mapping[str, None]:
    """Give the scores of a judge that could not tell."""
    return dict.fromkeys(rubric.names)
