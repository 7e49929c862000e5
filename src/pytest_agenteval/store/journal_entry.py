"""The entries of a journal, and the lines that hold them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from msgspec.structs import astuple

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Kind, Label, Plan, Split, TrialKey
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.transcript import NO_USAGE, Usage, sum_figures
from pytest_agenteval.records.trial import Digests, Ending, Origin, TapeCounts, Trial
from pytest_agenteval.store.record_files import (
    VERSION,
    Line,
    add,
    add_checksum,
    last_lines,
    shorten,
    stored_usage,
    usage_line,
)
from pytest_agenteval.store.run_schemas import FINISHED, GRADE, NOT_RUN, STARTED


class TranscriptLocation(NamedTuple):
    """Where a transcript stands: the file's name in the run's folder, the first byte, how many bytes."""

    file: str
    offset: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


# The counts of a line that does not mention a tape, as most lines do not.
NO_TAPE = TapeCounts()


class JournalEntry(Record, frozen=True, gc=False):
    """The last finished attempt of one trial.

    ``attempts`` counts how often the trial started. ``earlier`` and ``earlier_seconds`` hold the usage and
    the seconds of the finished attempts before this one. Grades have no checks and details, and long
    rationales, messages and tracebacks are cut: the trial itself has all of it. ``split`` is None in journals
    from before it was stored. ``own_models`` are the models that the agent called by itself, as their replies
    name them; ``doubtful_events`` counts, by kind, the events that make the trial doubtful. ``paid`` is what
    this run paid for, None if that is all that agent, judges and simulated user used. ``origin`` is the run
    and attempt in which the agent acted, if it was not this attempt.
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
        """The seconds that the trial took; None if the process that ran it died."""
        # Such an attempt is written with unknown usage and 0 seconds.
        return None if self.usage.asks is None and not self.seconds else self.seconds

    @property
    def charged_seconds(self) -> float | None:
        """The seconds that count against the trial's limit; in older journals these are all of them."""
        seconds = self.elapsed_seconds
        return None if seconds is None else seconds - self.uncharged_seconds

    @property
    def unended_attempts(self) -> int:
        """How many attempts before this one started and never ended; their usage is unknown."""
        return max(0, self.attempts - 1 - len(self.earlier))

    @property
    def averaged(self) -> bool:
        """Whether the trial enters averages: errored ones never do."""
        return self.ending != "errored" and self.score is not None

    @property
    def all_tokens(self) -> float | None:
        """Tokens of all attempts; None if those of any attempt are unknown."""
        tokens = sum_figures([usage.tokens for usage in (self.usage, *self.earlier)]).value
        return None if self.unended_attempts else tokens

    @property
    def all_cost_usd(self) -> float | None:
        """The cost of all attempts; None if that of any attempt is unknown."""
        cost = sum_figures([usage.cost_usd for usage in (self.usage, *self.earlier)]).value
        return None if self.unended_attempts else cost

    @property
    def all_seconds(self) -> float | None:
        """The seconds of all attempts; None if those of any attempt are unknown."""
        seconds = None if self.unended_attempts else self.elapsed_seconds
        return None if seconds is None else seconds + self.earlier_seconds


def own_models_of(entries: Iterable[JournalEntry]) -> tuple[str, ...]:
    return tuple(sorted({name for entry in entries for name in entry.own_models}))


class StartedAttempt(NamedTuple):
    """An attempt that began and, as far as the journal knows, never finished."""

    key: TrialKey
    attempt: int


class NotRunTrial(NamedTuple):
    """A trial that was held back: ``cause`` in one word, ``reason`` for people, equal for many."""

    key: TrialKey
    cause: str
    reason: str


_ENDINGS, _KINDS, _LABELS, _SPLITS = map(get_args, (Ending, Kind, Label, Split))
_NUMBERS = (int, float)
# Larger whole numbers cannot be converted to a float, with which reports compute.
_MOST = sys.float_info.max


def check_entry(entry: JournalEntry) -> None:
    """Raise ValueError if a value of the entry is not one that reports can calculate with."""
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
        _check_texts((grade.grader, grade.rationale))
        if grade.score is not None:
            _check_share(grade.score)
        _check_share(grade.threshold)
        _check_amounts((grade.weight,))
        if grade.unclamped is not None:
            _check_number(grade.unclamped)
    _check_amounts((entry.seconds, entry.uncharged_seconds))
    # The file's name is not in the line: it follows from the journal's own name.
    _check_counts(entry.location[1:])
    _check_texts((entry.bucket, entry.cause, entry.message, entry.limit, entry.started_at, entry.traceback))
    _check_texts((entry.file, *entry.tags))
    *texts, graders, offered, tool_code, acted_out, grader_code, sent = astuple(entry.digests)
    _check_texts((*texts, offered, tool_code, acted_out))
    by_name = ((grader_code, "grader"), (sent, "part of what was sent"), (graders, "grader"))
    for digests, owner in by_name:
        if not isinstance(digests, dict):
            raise ValueError(f"{digests!r} in the place of a digest for each {owner}")
        if digests is not graders:
            _check_texts(digests.values())
    # Each is ``VERSION:DIGEST``; merging runs compares the part before the colon.
    for grader in graders.values():
        if not (isinstance(grader, str) and ":" in grader):
            raise ValueError(f"{grader!r} in the place of a grader's version and digest")
    for usage in (entry.usage, entry.judging, entry.simulating):
        _check_usage(usage)
    if entry.paid is not None:
        _check_usage(entry.paid)
    for counts in (entry.tool_tape, entry.chat_tape):
        if counts is not NO_TAPE:
            _check_counts(astuple(counts))


def check_key(key: TrialKey, attempt: Any) -> None:
    """Raise ValueError if a part of the key is not a text, or a number is not a whole one."""
    if not all(isinstance(part, str) for part in key[:-1]):
        raise ValueError(f"a trial's name of {', '.join(map(repr, key[:-1]))}")
    _check_whole((key.repetition, attempt))


# ``type()`` and not ``isinstance``: a bool is no number here. NaN is refused too: it satisfies no comparison.
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
            # Raises a more exact message if the number is not a whole one; here it may be below 0 instead.
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


def _check_usage(usage: Usage) -> None:
    if usage is NO_USAGE:
        return
    read, written, cached, reasoning, cost, asks, attempts, partial_tokens, partial_cost = astuple(usage)
    counts = (read, written, cached, reasoning, asks, attempts, partial_tokens)
    _check_counts(tuple(count for count in counts if count is not None))
    _check_amounts(amount for amount in (cost, partial_cost) if amount is not None)


# Reasons for a missing score that earlier versions wrote, with their present names.
EARLIER_WORDS = {"not in the code": "not_defined", "resp_schema": "not_applicable"}

# Digests that many tasks of a suite have in common.
ALIKE = frozenset({"fixture", "prompt", "settings", "tools", "ruler", "model", "code", "tool_code"})

_KEYS = {
    schema["properties"]["kind"]["const"]: frozenset(schema["properties"])
    for schema in (STARTED, FINISHED, NOT_RUN)
}
SHORT_RATIONALE = 160
SHORT_MESSAGE = 300
# How many characters of a traceback's end are stored: where it was raised, and what.
SHORT_TRACEBACK = 600


def started_line(plan: Plan, at: str) -> Line:
    line: Line = {"v": VERSION, "kind": "started", "attempt": plan.attempt}
    _write_key(line, plan.key)
    line["at"] = at
    return line


def not_run_line(plan: Plan, cause: str, reason: str) -> Line:
    line: Line = {"v": VERSION, "kind": "not_run", "attempt": plan.attempt}
    _write_key(line, plan.key)
    line["cause"], line["reason"] = cause, shorten(reason, SHORT_MESSAGE)
    return line


def finished_line(trial: Trial) -> Line:
    """Build the line of a finished trial; ``with_location`` adds where the trial's transcript stands."""
    line: Line = {"v": VERSION, "kind": "finished", "attempt": trial.attempt}
    _write_key(line, trial.key)
    line["ending"], line["score"] = trial.ending, trial.score
    add(line, limit=trial.limit, cause=trial.cause, message=shorten(trial.message, SHORT_MESSAGE))
    add(line, traceback=last_lines(trial.traceback, SHORT_TRACEBACK))
    # The key ``kind`` is taken: it is the kind of the line.
    line["task_kind"] = trial.kind
    add(line, full=trial.full, bucket=trial.bucket, tags=trial.tags, file=trial.file, label=trial.label)
    add(line, split=trial.split, own_models=trial.transcript.models)
    add(line, doubtful_events=dict(trial.transcript.doubtful_events))
    # Written by hand where false or 0 differs from None: ``add`` leaves out both.
    if trial.acted is not None:
        line["acted"] = trial.acted
    if trial.origin is not None:
        line["origin"] = {"run": trial.origin.run, "attempt": trial.origin.attempt}
        add(line["origin"], regraded=trial.origin.regraded)
    add(line, started_at=trial.started_at, seconds=trial.seconds, uncharged_seconds=trial.uncharged_seconds)
    add(line, digests=_digests(trial.digests))
    tapes: Line = {}
    add(tapes, tools=_counts(trial.tool_tape), chats=_counts(trial.chat_tape))
    add(line, usage=usage_line(trial.usage), judging=usage_line(trial.judging), tapes=tapes)
    add(line, simulating=usage_line(trial.simulating))
    if trial.paid is not None:
        line["paid"] = usage_line(trial.paid)
    line["grades"] = [_grade(grade) for grade in trial.grades]
    return line


def with_location(line: bytes, offset: int, length: int) -> bytes:
    """Add the transcript's offset and length, and the checksum, to an encoded finished line.

    They are known only when all transcripts of the batch have been written.
    """
    # ``[:-2]`` cuts off the closing brace and the line break.
    return add_checksum(b'%b,"transcript":[%d,%d]}\n' % (line[:-2], offset, length))


def check_keys(line: Line) -> None:
    """Raise ValueError if a line without a checksum has a key that no version has written.

    A line with a checksum may have such a key: a newer version may write more.
    """
    # A damaged key would be read as a missing one, and its default, such as a weight of 1, would give another
    # score.
    known, grades = _KEYS.get(str(line.get("kind"))), line.get("grades")
    unknown = [] if known is None else [key for key in line if key not in known]
    for grade in grades if isinstance(grades, list) else ():
        if isinstance(grade, dict):
            unknown += [key for key in grade if key not in GRADE["properties"]]
    if unknown:
        raise ValueError(f"the unknown key {unknown[0]!r}")


def _read_key(line: Line) -> TrialKey:
    return TrialKey(
        _shared(line["suite"]),
        line["task"],
        _shared(line["agent"]),
        _shared(line["model"]),
        _shared(line.get("variant", "")),
        line["repetition"],
    )


def _shared(text: Any) -> Any:
    """Intern a text, as most lines of a run repeat it; anything else is left to ``check_entry`` to refuse."""
    return sys.intern(text) if type(text) is str else text


def read_started(line: Line) -> tuple[TrialKey, int]:
    """Read the trial and the attempt of a started line; raises ValueError if it lacks them."""
    try:
        key, attempt = _read_key(line), line["attempt"]
    except (LookupError, TypeError) as problem:
        raise ValueError(_lack(problem)) from None
    check_key(key, attempt)
    return key, attempt


def read_not_run(line: Line) -> NotRunTrial:
    """Read which trial was held back, and why; raises ValueError if the line lacks it."""
    try:
        key, cause, reason = _read_key(line), line["cause"], line["reason"]
    except (LookupError, TypeError) as problem:
        raise ValueError(_lack(problem)) from None
    check_key(key, line.get("attempt", 1))
    if not (isinstance(cause, str) and isinstance(reason, str)):
        raise ValueError(f"a trial that was not run for {cause!r}, {reason!r}")
    # Interned, as one reason usually holds for many trials.
    return NotRunTrial(key, sys.intern(cause), sys.intern(reason))


def read_finished(line: Line, transcripts: str) -> JournalEntry:
    """Read a finished line; ``transcripts`` is the name of the file in which its transcript stands.

    Raises ValueError for a line without an ending, or with an unknown one.
    """
    try:
        entry = _entry(line, transcripts)
        check_entry(entry)
    # Values of a damaged line may be of any type, so building the records raises any of these.
    except (LookupError, TypeError, AttributeError) as problem:
        raise ValueError(_lack(problem)) from None
    return entry


def _lack(problem: Exception) -> str:
    return f"no key {problem}" if isinstance(problem, KeyError) else str(problem)


def _entry(line: Line, transcripts: str) -> JournalEntry:
    get, tapes, digests = line.get, line.get("tapes", {}), line.get("digests", {})
    # For a value that is not a map, ``Digests(**digests)`` raises below.
    if isinstance(digests, dict):
        digests = {name: _shared(value) if name in ALIKE else value for name, value in digests.items()}
    return JournalEntry(
        key=_read_key(line),
        attempt=line["attempt"],
        ending=line["ending"],
        score=line["score"],
        grades=tuple(_read_grade(grade) for grade in line["grades"]),
        location=TranscriptLocation(transcripts, *line["transcript"]),
        digests=Digests(**digests),
        usage=stored_usage(line["usage"]) if "usage" in line else NO_USAGE,
        judging=stored_usage(line["judging"]) if "judging" in line else NO_USAGE,
        simulating=stored_usage(line["simulating"]) if "simulating" in line else NO_USAGE,
        full=get("full", False),
        kind=line["task_kind"],
        bucket=_shared(get("bucket", "")),
        tags=tuple(get("tags", ())),
        file=_shared(get("file", "")),
        limit=get("limit", ""),
        cause=get("cause", ""),
        message=get("message", ""),
        traceback=get("traceback", ""),
        started_at=get("started_at", ""),
        seconds=get("seconds", 0.0),
        tool_tape=TapeCounts(**tapes["tools"]) if "tools" in tapes else NO_TAPE,
        chat_tape=TapeCounts(**tapes["chats"]) if "chats" in tapes else NO_TAPE,
        label=get("label", ""),
        acted=get("acted"),
        split=get("split"),
        paid=stored_usage(line["paid"]) if "paid" in line else None,
        own_models=tuple(get("own_models", ())),
        doubtful_events=get("doubtful_events", NOTHING),
        origin=Origin.from_json(line["origin"]) if "origin" in line else None,
        uncharged_seconds=get("uncharged_seconds", 0.0),
    )


# Written out, without a loop over fields: this runs for every trial, and the order of keys is part of the
# format.
def _write_key(line: Line, key: TrialKey) -> None:
    line["suite"], line["task"], line["agent"], line["model"] = key[:4]
    if key.variant:
        line["variant"] = key.variant
    line["repetition"] = key.repetition


def _digests(digests: Digests) -> Line:
    line: Line = {}
    add(line, input=digests.input, fixture=digests.fixture, prompt=digests.prompt, settings=digests.settings)
    add(line, tools=digests.tools, ruler=digests.ruler, model=digests.model)
    add(line, code=digests.code, offered=digests.offered, graders=digests.graders)
    add(line, tool_code=digests.tool_code, acted_out=digests.acted_out, grader_code=digests.grader_code)
    add(line, sent=digests.sent)
    return line


def _counts(counts: TapeCounts) -> Line:
    line: Line = {}
    add(line, hits=counts.hits, misses=counts.misses, recorded=counts.recorded)
    return line


def _grade(grade: Grade) -> Line:
    # Defaults are left out, so that the lines of a short trial stay small.
    line: Line = {"grader": grade.grader, "score": grade.score}
    if grade.score is not None:
        line["passed"] = grade.passed
    if grade.threshold != 1.0:
        line["threshold"] = grade.threshold
    if grade.weight != 1.0:
        line["weight"] = grade.weight
    add(line, required=grade.required, rationale=shorten(grade.rationale, SHORT_RATIONALE))
    add(line, undecided=grade.undecided)
    if grade.unclamped is not None:
        line["unclamped"] = grade.unclamped
    return line


def _read_grade(line: dict[str, Any]) -> Grade:
    get = line.get
    return Grade(
        _shared(line["grader"]),
        line["score"],
        get("rationale", ""),
        threshold=get("threshold", 1.0),
        weight=get("weight", 1.0),
        required=get("required", False),
        unclamped=get("unclamped"),
        # Earlier versions had other words for some of the reasons.
        undecided=EARLIER_WORDS.get(why := get("undecided", ""), why),
    )
