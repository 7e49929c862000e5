"""The entries of a journal, and the lines that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from sys import intern
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import asdict

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Kind, Label, Plan, Split, TrialKey
from pytest_agenteval.records.record import NOTHING, Amount, Count, Record, Share
from pytest_agenteval.records.transcript import NO_USAGE, ToolCall, Usage, sum_figures
from pytest_agenteval.records.trial import NO_TAPE, Digests, Ending, Origin, TapeCounts, Trial
from pytest_agenteval.store.notes import NO_NOTE, Note
from pytest_agenteval.store.record_files import (
    DAMAGED,
    VERSION,
    Line,
    UsageLine,
    add_checksum,
    are_all_intact,
    check_version,
    is_intact,
    last_lines,
    present,
    shorten,
    usage_line,
)
from pytest_agenteval.store.run_schemas import FINISHED, GRADE, NOT_RUN, STARTED


class TranscriptLocation(NamedTuple):
    """A transcript's place in the run's folder: file, first byte, number of bytes."""

    file: str
    offset: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class TrialSpan(NamedTuple):
    """When an attempt ran: ``started_at``, and ``seconds`` or None."""

    started_at: str
    seconds: float | None


# What a line has that does not mention tapes or digests.
NO_DIGESTS = Digests()


class JournalEntry(Record, frozen=True, gc=False):
    """The last finished attempt of one trial.

    ``attempts`` counts how often the trial started. ``earlier`` and ``earlier_seconds`` hold the usage and
    the seconds of the finished attempts before this one. Grades have no checks and details, and long
    rationales, messages and tracebacks are cut: the trial itself has all of it. ``failed_checks`` has, for
    each grade, the claims of the first checks that failed where its score is too low; it is empty where no
    grade has any, and in journals from before they were stored. ``split`` is None in journals from before it
    was stored. ``own_models`` are the models that the agent called by itself, as their replies
    name them; ``doubtful_events`` counts, by kind, the events that make the trial doubtful. ``paid`` is what
    this run paid for, None if that is all that agent, judges and simulated user used. ``origin`` is the run
    and attempt in which the agent acted, if it was not this attempt. ``called_tools`` names the tools that
    the agent called, each once; journals of earlier versions do not have it.
    ``wall_seconds`` is None where it is unknown. ``turn_seconds`` are those of the replies whose time is
    known. ``earlier_spans`` say when the finished attempts before this one ran. ``note`` is what a person
    says about the trial; no journal holds it, ``load_run`` adds it.
    """

    key: TrialKey
    attempt: int
    ending: Ending
    score: float | None
    grades: tuple[Grade, ...]
    location: TranscriptLocation
    digests: Digests = NO_DIGESTS
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
    failed_checks: tuple[tuple[str, ...], ...] = ()
    called_tools: tuple[str, ...] = ()
    wall_seconds: float | None = None
    turn_seconds: tuple[float, ...] = ()
    earlier_spans: tuple[TrialSpan, ...] = ()
    note: Note = NO_NOTE

    @property
    def turns_known(self) -> bool:
        """Whether ``turn_seconds`` has every reply of a model; in older journals it has none."""
        asks = self.usage.asks
        return asks is not None and len(self.turn_seconds) >= asks

    @property
    def span(self) -> TrialSpan:
        """When the trial ran."""
        return TrialSpan(self.started_at, self.wall_seconds)

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
    """An attempt that started and did not finish, as far as the journal shows."""

    key: TrialKey
    attempt: int


def group_of(trial: JournalEntry | StartedAttempt) -> tuple[str, str, str]:
    """Give the suite, model and variant of a trial."""
    return trial.key.suite, trial.key.model, trial.key.variant


class NotRunTrial(NamedTuple):
    """A trial that was not run: ``cause`` in one word, ``reason`` for people."""

    key: TrialKey
    cause: str
    reason: str


_KEYS = {
    schema["properties"]["kind"]["const"]: frozenset(schema["properties"])
    for schema in (STARTED, FINISHED, NOT_RUN)
}
MOST_TOOLS = 50
SHORT_RATIONALE = 160
SHORT_MESSAGE = 300
MOST_CLAIMS, SHORT_CLAIM = 8, 120
"""Failed checks of a grade whose claims are stored, and characters of a claim."""

# How many characters of a traceback's end are stored: where it was raised, and what.
SHORT_TRACEBACK = 600


def started_line(plan: Plan, at: str) -> Line:
    return {**_head("started", plan.key, plan.attempt), "at": at}


def not_run_line(plan: Plan, cause: str, reason: str) -> Line:
    head = _head("not_run", plan.key, plan.attempt)
    return {**head, "cause": cause, "reason": shorten(reason, SHORT_MESSAGE)}


def finished_line(trial: Trial) -> Line:
    """Build the line of a finished trial; ``with_location`` adds where the trial's transcript stands."""
    origin, events = trial.origin, trial.transcript.events
    line: Line = _head("finished", trial.key, trial.attempt) | {
        "ending": trial.ending,
        "score": trial.score,
        # The key ``kind`` is taken: it is the kind of the line.
        "task_kind": trial.kind,
        "grades": [_grade_line(grade) for grade in trial.grades],
    }
    line |= present(
        limit=trial.limit,
        cause=trial.cause,
        message=shorten(trial.message, SHORT_MESSAGE),
        traceback=last_lines(trial.traceback, SHORT_TRACEBACK),
        full=trial.full,
        bucket=trial.bucket,
        tags=trial.tags,
        file=trial.file,
        label=trial.label,
        split=trial.split,
        own_models=trial.transcript.models,
        called_tools=_called_tools(trial.transcript.calls),
        doubtful_events=events and dict(trial.transcript.doubtful_events),
        origin=origin and present(attempt=origin.attempt, regraded=origin.regraded) | {"run": origin.run},
        started_at=trial.started_at,
        seconds=trial.seconds,
        uncharged_seconds=trial.uncharged_seconds,
        turn_seconds=trial.transcript.turn_seconds,
        digests=present(**asdict(trial.digests)),
        usage=usage_line(trial.usage),
        judging=events and usage_line(trial.judging),
        simulating=events and usage_line(trial.simulating),
        tapes=(trial.tool_tape is not NO_TAPE or trial.chat_tape is not NO_TAPE)
        and present(tools=present(**asdict(trial.tool_tape)), chats=present(**asdict(trial.chat_tape))),
    )
    # False, or nothing that was paid, is not the same as None.
    if trial.acted is not None:
        line["acted"] = trial.acted
    if trial.paid is not None:
        line["paid"] = usage_line(trial.paid)
    if trial.wall_seconds is not None:
        line["wall_seconds"] = round(trial.wall_seconds, 3)
    return line


def _head(kind: str, key: TrialKey, attempt: int) -> Line:
    parts = key._asdict()
    if not key.variant:
        del parts["variant"]
    return {"v": VERSION, "kind": kind, "attempt": attempt, **parts}


def _grade_line(grade: Grade) -> Line:
    # Defaults are left out, so that the lines of a short trial stay small.
    marks = {
        "passed": (grade.passed, None),
        "threshold": (grade.threshold, 1.0),
        "weight": (grade.weight, 1.0),
        "required": (grade.required, False),
        "rationale": (shorten(grade.rationale, SHORT_RATIONALE), ""),
        "undecided": (grade.undecided, ""),
        "unclamped": (grade.unclamped, None),
    }
    line: Line = {"grader": grade.grader, "score": grade.score}
    line |= {name: value for name, (value, default) in marks.items() if value != default}
    if grade.checks and grade.passed is False:
        failed = [check.claim for check in grade.checks if not check.passed]
        line |= present(failed=[shorten(claim, SHORT_CLAIM) for claim in failed[:MOST_CLAIMS]])
    return line


def _called_tools(calls: Sequence[ToolCall]) -> list[str]:
    """Name the tools that the agent called, each once; journals of earlier versions do not have them."""
    names = dict.fromkeys(call.tool for call in calls if call.by != "seed")
    return [shorten(name, SHORT_RATIONALE) for name in islice(names, MOST_TOOLS)]


def with_location(line: bytes, offset: int, length: int) -> bytes:
    """Add the transcript's offset and length, and the checksum, to an encoded finished line.

    They are known only when all transcripts of the batch have been written.
    """
    # ``[:-2]`` cuts off the closing brace and the line break.
    return add_checksum(b'%b,"transcript":[%d,%d]}\n' % (line[:-2], offset, length))


# Reasons for a missing score that earlier versions wrote, with their present names.
EARLIER_WORDS = {"not in the code": "not_defined", "resp_schema": "not_applicable"}


NO_USAGE_LINE = UsageLine()
_new_tuple = tuple.__new__


class _GradeLine(msgspec.Struct, frozen=True, gc=False):
    grader: str
    score: Share | None
    threshold: Share = 1.0
    weight: Amount = 1.0
    required: bool = False
    rationale: str = ""
    undecided: str = ""
    unclamped: float | None = None
    failed: tuple[str, ...] = ()


class _TapesLine(msgspec.Struct, frozen=True, gc=False):
    tools: TapeCounts = NO_TAPE
    chats: TapeCounts = NO_TAPE


class _KeyLine(msgspec.Struct, tag_field="kind", frozen=True, gc=False, kw_only=True):
    suite: str
    task: str
    agent: str
    model: str
    variant: str = ""
    repetition: int
    attempt: int = 1
    v: int = 0

    @property
    def key(self) -> TrialKey:
        # Most lines of a run have these texts in common: as one object each, they take no memory.
        names = intern(self.suite), self.task, intern(self.agent), intern(self.model), intern(self.variant)
        # Half as long as the class itself takes, which counts in a run of 100,000 trials.
        return _new_tuple(TrialKey, (*names, self.repetition))


class StartedLine(_KeyLine, tag="started", frozen=True, gc=False, kw_only=True):
    """A trial was started, at a second of UTC."""

    at: str = ""


class NotRunLine(_KeyLine, tag="not_run", frozen=True, gc=False, kw_only=True):
    """A trial was held back."""

    cause: str
    reason: str


class FinishedLine(_KeyLine, tag="finished", frozen=True, gc=False, kw_only=True):
    """A trial ended; ``transcript`` is the place of its first byte and its length."""

    ending: Ending
    score: Share | None
    grades: tuple[_GradeLine, ...]
    transcript: tuple[Count, Count]
    digests: Digests = NO_DIGESTS
    usage: UsageLine = NO_USAGE_LINE
    judging: UsageLine = NO_USAGE_LINE
    simulating: UsageLine = NO_USAGE_LINE
    full: bool = False
    task_kind: Kind
    bucket: str = ""
    tags: tuple[str, ...] = ()
    file: str = ""
    limit: str = ""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    started_at: str = ""
    seconds: Amount = 0.0
    tapes: _TapesLine = _TapesLine()
    label: Label = ""
    acted: bool | None = None
    split: Split | None = None
    own_models: tuple[str, ...] = ()
    doubtful_events: dict[str, int] = {}
    paid: UsageLine | None = None
    origin: Origin | None = None
    uncharged_seconds: Amount = 0.0
    called_tools: tuple[str, ...] = ()
    wall_seconds: Amount | None = None
    turn_seconds: tuple[Amount, ...] = ()

    def entry(self, key: TrialKey, transcripts: str) -> JournalEntry:
        """Make the entry of the line, which is of the trial ``key``; its transcript is in this file."""
        return JournalEntry(
            key,
            self.attempt,
            self.ending,
            self.score,
            tuple(
                [
                    Grade(
                        intern(grade.grader),
                        grade.score,
                        grade.rationale,
                        (),
                        NOTHING,
                        grade.threshold,
                        grade.weight,
                        grade.required,
                        grade.unclamped,
                        EARLIER_WORDS.get(grade.undecided, grade.undecided) if grade.undecided else "",
                    )
                    for grade in self.grades
                ]
            ),
            _new_tuple(TranscriptLocation, (transcripts, *self.transcript)),
            self.digests,
            NO_USAGE if self.usage is NO_USAGE_LINE else self.usage.usage,
            NO_USAGE if self.judging is NO_USAGE_LINE else self.judging.usage,
            NO_USAGE if self.simulating is NO_USAGE_LINE else self.simulating.usage,
            self.full,
            self.task_kind,
            intern(self.bucket),
            self.tags,
            intern(self.file),
            self.limit,
            self.cause,
            self.message,
            self.traceback,
            self.started_at,
            self.seconds,
            self.tapes.tools,
            self.tapes.chats,
            label=self.label,
            acted=self.acted,
            split=self.split,
            own_models=self.own_models,
            doubtful_events=self.doubtful_events or NOTHING,
            paid=None if self.paid is None else self.paid.usage,
            origin=self.origin,
            uncharged_seconds=self.uncharged_seconds,
            failed_checks=self._failed_checks(),
            called_tools=tuple(map(intern, self.called_tools)),
            wall_seconds=self.wall_seconds,
            turn_seconds=self.turn_seconds,
        )

    def _failed_checks(self) -> tuple[tuple[str, ...], ...]:
        # Most trials have none, and many of the others have the same.
        failed = [grade.failed for grade in self.grades]
        return tuple([tuple(map(intern, claims)) for claims in failed]) if any(failed) else ()


JournalLine: TypeAlias = StartedLine | FinishedLine | NotRunLine
_decode = msgspec.json.Decoder(JournalLine).decode


class _TaskLine(msgspec.Struct, frozen=True, gc=False):
    task: str
    v: int = 0


_decode_task = msgspec.json.Decoder(_TaskLine).decode


def read_journal_lines(
    raws: Sequence[bytes], path: Path, first: int, of_task: Callable[[str], bool] | None = None
) -> list[JournalLine | ValueError | None]:
    """Read the lines of a journal from number ``first`` on; a ValueError for one that cannot be read.

    ``of_task`` says which tasks' lines are needed: others may be None. Raises UsageMistake for a line of a
    newer version.
    """
    # Nearly always all lines are sound: in steps that each take all of them, they are read twice as fast.
    if are_all_intact(raws):
        with suppress(msgspec.MsgspecError):
            heads = None if of_task is None else [_decode_task(raw) for raw in raws]
            if of_task is None or heads is None:
                lines = [_decode(raw) for raw in raws]
                if not any(line.v > VERSION for line in lines):
                    return [*lines]
            elif not any(head.v > VERSION for head in heads):
                both = zip(raws, heads, strict=True)
                return [_decode(raw) if of_task(head.task) else None for raw, head in both]
    return [_line_or_problem(raw, path, number) for number, raw in enumerate(raws, first)]


def _line_or_problem(raw: bytes, path: Path, number: int) -> JournalLine | ValueError:
    try:
        return read_journal_line(raw, path, number)
    except ValueError as problem:
        return problem


HALF = "half a line, which a crash left behind, or no JSON object"


def read_journal_line(raw: bytes, path: Path, number: int) -> JournalLine:
    """Read line ``number`` of a journal; raises ValueError for one that is damaged or is none.

    Raises UsageMistake for a line of a newer version.
    """
    intact = is_intact(raw)
    if intact is False:
        raise ValueError(DAMAGED)
    try:
        line = _decode(raw)
    except msgspec.MsgspecError:
        line = _read_slowly(raw, f"{path}:{number}")
    if line.v > VERSION:
        check_version({"v": line.v}, f"{path}:{number}")
    if intact is None:
        _check_keys(json.loads(raw))
    return line


def _read_slowly(raw: bytes, where: str) -> JournalLine:
    """Read what msgspec refuses: half a surrogate pair is no reason to lose a trial."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError(HALF) from None
    if not isinstance(content, dict):
        raise ValueError(HALF)
    # Before the other keys are read, whose meaning a newer version may have changed.
    if isinstance(content.get("v"), int):
        check_version(content, where)
    try:
        line: JournalLine = msgspec.convert(content, JournalLine)
        return line
    except msgspec.ValidationError as problem:
        raise ValueError(f"no line of a journal: {problem}") from None


def _check_keys(line: Line) -> None:
    """Raise ValueError if a line without a checksum has a key that no version has written.

    A line with a checksum may have such a key: a newer version may write more.
    """
    # A damaged key would be read as a missing one, and its default, such as a weight of 1, would give another
    # score.
    unknown = [key for key in line if key not in _KEYS[line["kind"]]]
    unknown += [key for grade in line.get("grades", ()) for key in grade if key not in GRADE["properties"]]
    if unknown:
        raise ValueError(f"holds the unknown key {unknown[0]!r}")
