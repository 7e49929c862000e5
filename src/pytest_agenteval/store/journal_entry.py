"""A trial as its journal lines tell it: enough for every figure, without the transcript."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from msgspec.structs import astuple

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Kind, Label, Split, TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import NO_USAGE, Usage, sum_figures
from pytest_agenteval.records.trial import Digests, Ending, Origin, TapeCounts


class TranscriptLocation(NamedTuple):
    """Where a transcript stands: the file's name in the run's folder, the first byte, how many bytes."""

    file: str
    offset: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


NO_TAPE = TapeCounts()
"""Of a line that says nothing of it, as most do of judges and tapes."""


class JournalEntry(Record, frozen=True, gc=False):
    """The last finished attempt of one trial.

    ``attempts`` counts how often the trial was begun, ``earlier`` and ``earlier_seconds`` hold what the
    finished attempts before this one took. Grades are without checks and details, and long rationales,
    messages and tracebacks are cut: the trial itself has all of it. ``split`` is None in journals of before
    it was written down. ``own_models`` are those that the agent asked by itself, as their replies name them;
    ``doubtful_events`` counts what happened that makes the trial doubtful, by its kind. ``paid`` is what was
    paid in this run, None where that is all that agent, judges and user took. ``origin`` says where the trial
    was carried out, where that was not for this attempt.
    """

    key: TrialKey
    attempt: int
    ending: Ending
    score: float | None
    grades: tuple[Grade, ...]
    location: TranscriptLocation
    digests: Digests = Digests()
    usage: Usage = NO_USAGE
    judging: Usage = NO_USAGE
    simulating: Usage = NO_USAGE
    full: bool = False
    kind: Kind = "mixed"
    bucket: str = ""
    tags: tuple[str, ...] = ()
    file: str = ""
    limit: str = ""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    started_at: str = ""
    seconds: float = 0.0
    tool_tape: TapeCounts = NO_TAPE
    chat_tape: TapeCounts = NO_TAPE
    attempts: int = 1
    earlier: tuple[Usage, ...] = ()
    earlier_seconds: float = 0.0
    label: Label = ""
    acted: bool | None = None
    split: Split | None = None
    own_models: tuple[str, ...] = ()
    doubtful_events: Mapping[str, int] = NOTHING
    paid: Usage | None = None
    origin: Origin | None = None
    uncharged_seconds: float = 0.0

    @property
    def elapsed_seconds(self) -> float | None:
        """The seconds; None where the process died that carried the trial out."""
        return None if self.usage.asks is None and not self.seconds else self.seconds

    @property
    def charged_seconds(self) -> float | None:
        """The seconds that count against the trial's limit: in older journals all."""
        seconds = self.elapsed_seconds
        return None if seconds is None else seconds - self.uncharged_seconds

    @property
    def unended_attempts(self) -> int:
        """How many attempts before this one were begun and never ended: what they took is unknown."""
        return max(0, self.attempts - 1 - len(self.earlier))

    @property
    def averaged(self) -> bool:
        """Whether the trial enters averages: errored ones never do."""
        return self.ending != "errored" and self.score is not None

    @property
    def all_tokens(self) -> float | None:
        """Tokens of all attempts; None where those of any are unknown."""
        tokens = sum_figures([usage.tokens for usage in (self.usage, *self.earlier)]).value
        return None if self.unended_attempts else tokens

    @property
    def all_cost_usd(self) -> float | None:
        """The cost of all attempts; None where that of any is unknown."""
        cost = sum_figures([usage.cost_usd for usage in (self.usage, *self.earlier)]).value
        return None if self.unended_attempts else cost

    @property
    def all_seconds(self) -> float | None:
        """The time of all attempts; None where that of any is unknown."""
        seconds = None if self.unended_attempts else self.elapsed_seconds
        return None if seconds is None else seconds + self.earlier_seconds


def own_models_of(entries: Iterable[JournalEntry]) -> tuple[str, ...]:
    """Give the models that agents asked by themselves in any of the trials, by name."""
    return tuple(sorted({name for entry in entries for name in entry.own_models}))


class StartedAttempt(NamedTuple):
    """An attempt that was begun and, as far as the journal knows, never finished."""

    key: TrialKey
    attempt: int


class NotRunTrial(NamedTuple):
    """A trial that was held back: ``cause`` in one word, ``reason`` for people, equal for many."""

    key: TrialKey
    cause: str
    reason: str


_ENDINGS, _KINDS, _LABELS, _SPLITS = map(get_args, (Ending, Kind, Label, Split))
_NUMBERS = (int, float)
_MOST = sys.float_info.max
"""Reports reckon with floats: a whole number may be larger than any."""


def check_entry(entry: JournalEntry) -> None:
    """Raise ValueError where a part of a trial's entry is not what reports may reckon with."""
    check_key(entry.key, entry.attempt)
    if entry.ending not in _ENDINGS:
        raise ValueError(f"the ending {entry.ending!r}, and not one of {', '.join(_ENDINGS)}")
    if entry.kind not in _KINDS:
        raise ValueError(f"the kind {entry.kind!r}, and not one of {', '.join(_KINDS)}")
    if entry.label not in _LABELS:
        raise ValueError(f"the label {entry.label!r}, and not positive or negative")
    if entry.split is not None and entry.split not in _SPLITS:
        raise ValueError(f"the split {entry.split!r}, and not one of {', '.join(_SPLITS)}")
    if not all(isinstance(model, str) for model in entry.own_models):
        raise ValueError(f"own_models: {entry.own_models!r}, and not texts")
    if not all(isinstance(count, int) for count in entry.doubtful_events.values()):
        raise ValueError(f"doubtful_events: {entry.doubtful_events!r}, and not counts")
    if not isinstance(entry.acted, bool | None):
        raise ValueError(f"{entry.acted!r} in the place of true or false")
    if not isinstance(entry.full, bool):
        raise ValueError(f"{entry.full!r} in the place of true or false")
    if entry.score is not None:
        _check_share(entry.score)
    for grade in entry.grades:
        _check_grade(grade)
    _check_amounts((entry.seconds, entry.uncharged_seconds))
    _check_counts(entry.location[1:])
    _check_texts((entry.bucket, entry.cause, entry.message, entry.limit, entry.started_at, entry.traceback))
    _check_texts((entry.file, *entry.tags))
    _check_digests(entry.digests)
    _check_usage(entry.usage)
    _check_usage(entry.judging)
    _check_usage(entry.simulating)
    if entry.paid is not None:
        _check_usage(entry.paid)
    _check_tape(entry.tool_tape)
    _check_tape(entry.chat_tape)


def check_key(key: TrialKey, attempt: Any) -> None:
    """Raise ValueError where a trial's name, or the number of its attempt, is none."""
    if not all(isinstance(part, str) for part in key[:-1]):
        raise ValueError(f"a trial's name of {', '.join(map(repr, key[:-1]))}")
    _check_whole((key.repetition, attempt))


def _check_grade(grade: Grade) -> None:
    _check_texts((grade.grader, grade.rationale))
    if grade.score is not None:
        _check_share(grade.score)
    _check_share(grade.threshold)
    _check_amounts((grade.weight,))
    if grade.unclamped is not None:
        _check_number(grade.unclamped)


# A bool is no number here, and what is no number at all satisfies no comparison.
def _check_share(number: Any) -> None:
    if not (type(number) in _NUMBERS and 0 <= number <= 1):
        raise ValueError(f"{number!r} in the place of a number from 0 to 1")


def _check_number(number: Any) -> None:
    if not (type(number) in _NUMBERS and -_MOST <= number <= _MOST):
        raise ValueError(f"{number!r} in the place of a number")


def _check_amounts(numbers: Iterable[Any]) -> None:
    for number in numbers:
        if not (type(number) in _NUMBERS and 0 <= number <= _MOST):
            raise ValueError(f"{number!r} in the place of a number")


def _check_counts(numbers: tuple[Any, ...]) -> None:
    for number in numbers:
        if type(number) is not int or number < 0:
            _check_whole(numbers)
            raise ValueError(f"{number!r} in the place of a number")


def _check_whole(numbers: Iterable[Any]) -> None:
    for number in numbers:
        if type(number) is not int:
            raise ValueError(f"{number!r} in the place of a whole number")


def _check_texts(texts: Iterable[Any]) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"{text!r} in the place of a text")


def _check_digests(digests: Digests) -> None:
    *texts, graders, offered, tool_code, acted_out, grader_code, sent = astuple(digests)
    _check_texts((*texts, offered, tool_code, acted_out))
    if not isinstance(grader_code, dict):
        raise ValueError(f"{grader_code!r} in the place of a digest for each grader")
    _check_texts(grader_code.values())
    if not isinstance(sent, dict):
        raise ValueError(f"{sent!r} in the place of a digest for each part of what was sent")
    _check_texts(sent.values())
    if not isinstance(graders, dict):
        raise ValueError(f"{graders!r} in the place of a digest for each grader")
    for grader in graders.values():
        if not (isinstance(grader, str) and ":" in grader):
            raise ValueError(f"{grader!r} in the place of a grader's version and digest")


def _check_usage(usage: Usage) -> None:
    if usage is NO_USAGE:
        return
    read, written, cached, reasoning, cost, asks, attempts, partial_tokens, partial_cost = astuple(usage)
    counts = (read, written, cached, reasoning, asks, attempts, partial_tokens)
    _check_counts(tuple(count for count in counts if count is not None))
    _check_amounts(amount for amount in (cost, partial_cost) if amount is not None)


def _check_tape(counts: TapeCounts) -> None:
    if counts is not NO_TAPE:
        _check_counts(astuple(counts))
