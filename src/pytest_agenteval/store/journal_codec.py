"""The kinds of journal line, written and read: a trial was begun, it finished, it is not run.

What is empty or as usual is left out. Dicts are built by hand: this runs for every trial.
"""

from __future__ import annotations

import sys
from typing import Any

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import Plan, TrialKey
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import NO_USAGE
from pytest_agenteval.records.trial import Digests, Origin, TapeCounts, Trial
from pytest_agenteval.store.journal_entry import (
    NO_TAPE,
    JournalEntry,
    NotRunTrial,
    TranscriptLocation,
    check_entry,
    check_key,
)
from pytest_agenteval.store.json_lines import (
    VERSION,
    Line,
    add,
    add_checksum,
    last_lines,
    read_usage,
    shorten,
    usage_line,
)
from pytest_agenteval.store.run_schemas import FINISHED, GRADE, NOT_RUN, STARTED

EARLIER_WORDS = {"not in the code": "not_defined", "resp_schema": "not_applicable"}
"""Reasons for no score that earlier versions wrote, and what they are called today."""

ALIKE = frozenset({"fixture", "prompt", "settings", "tools", "ruler", "model", "code", "tool_code"})
"""Digests that are the same for many tasks of a suite."""

_KEYS = {
    schema["properties"]["kind"]["const"]: frozenset(schema["properties"])
    for schema in (STARTED, FINISHED, NOT_RUN)
}
_GRADE_KEYS = frozenset(GRADE["properties"])

SHORT_RATIONALE = 160
SHORT_MESSAGE = 300
SHORT_TRACEBACK = 600
"""Characters of a traceback's last lines: where it was raised, and what."""


def started_line(plan: Plan, at: str) -> Line:
    """Say that a trial was begun."""
    line: Line = {"v": VERSION, "kind": "started", "attempt": plan.attempt}
    _write_key(line, plan.key)
    line["at"] = at
    return line


def not_run_line(plan: Plan, cause: str, reason: str) -> Line:
    """Say that a trial does not begin in this run, and why."""
    line: Line = {"v": VERSION, "kind": "not_run", "attempt": plan.attempt}
    _write_key(line, plan.key)
    line["cause"], line["reason"] = cause, shorten(reason, SHORT_MESSAGE)
    return line


def finished_line(trial: Trial) -> Line:
    """Say how a trial ended; ``with_location`` adds where its transcript stands."""
    line: Line = {"v": VERSION, "kind": "finished", "attempt": trial.attempt}
    _write_key(line, trial.key)
    line["ending"], line["score"] = trial.ending, trial.score
    add(line, limit=trial.limit, cause=trial.cause, message=shorten(trial.message, SHORT_MESSAGE))
    add(line, traceback=last_lines(trial.traceback, SHORT_TRACEBACK))
    line["task_kind"] = trial.kind
    add(line, full=trial.full, bucket=trial.bucket, tags=trial.tags, file=trial.file, label=trial.label)
    add(line, split=trial.split, own_models=trial.transcript.models)
    add(line, doubtful_events=dict(trial.transcript.doubtful_events))
    if trial.acted is not None:
        line["acted"] = trial.acted
    if trial.origin is not None:
        line["origin"] = _origin(trial.origin)
    add(line, started_at=trial.started_at, seconds=trial.seconds, uncharged_seconds=trial.uncharged_seconds)
    add(line, digests=_digests(trial.digests))
    add(line, usage=usage_line(trial.usage), judging=usage_line(trial.judging), tapes=_tapes(trial))
    add(line, simulating=usage_line(trial.simulating))
    if trial.paid is not None:
        line["paid"] = usage_line(trial.paid)
    line["grades"] = [_grade(grade) for grade in trial.grades]
    return line


def with_location(line: bytes, offset: int, length: int) -> bytes:
    """Add to an encoded finished line where its transcript stands, which is known when all are written.

    With the checksum it is whole.
    """
    return add_checksum(b'%b,"transcript":[%d,%d]}\n' % (line[:-2], offset, length))


def check_keys(line: Line) -> None:
    """Raise ValueError for a line without a checksum that has a key which no version has written.

    One that has a checksum may: a newer version may have more to say.
    """
    known, grades = _KEYS.get(str(line.get("kind"))), line.get("grades")
    unknown = [] if known is None else [key for key in line if key not in known]
    if isinstance(grades, list):
        unknown += [
            key for grade in grades if isinstance(grade, dict) for key in grade if key not in _GRADE_KEYS
        ]
    if unknown:
        raise ValueError(f"the unknown key {unknown[0]!r}")


def read_key(line: Line) -> TrialKey:
    """Read the trial's key out of a line of either kind."""
    return TrialKey(
        _shared(line["suite"]),
        line["task"],
        _shared(line["agent"]),
        _shared(line["model"]),
        _shared(line.get("variant", "")),
        line["repetition"],
    )


def _shared(text: Any) -> Any:
    """Give the text as the one object that all lines share which say the same, as most of a run do."""
    return sys.intern(text) if type(text) is str else text


def read_started(line: Line) -> tuple[TrialKey, int]:
    """Read a started line: the trial and the attempt; raises ValueError for what is no such line."""
    try:
        key, attempt = read_key(line), line["attempt"]
    except (LookupError, TypeError) as odd:
        raise ValueError(_lack(odd)) from None
    check_key(key, attempt)
    return key, attempt


def read_not_run(line: Line) -> NotRunTrial:
    """Read why a trial did not begin; raises ValueError for what is no such line."""
    try:
        key, cause, reason = read_key(line), line["cause"], line["reason"]
    except (LookupError, TypeError) as odd:
        raise ValueError(_lack(odd)) from None
    check_key(key, line.get("attempt", 1))
    if not (isinstance(cause, str) and isinstance(reason, str)):
        raise ValueError(f"a trial that was not run for {cause!r}, {reason!r}")
    return NotRunTrial(key, sys.intern(cause), sys.intern(reason))


def read_finished(line: Line, transcripts: str) -> JournalEntry:
    """Read a finished line; ``transcripts`` is the name of the file that its place refers to.

    Raises ValueError for a line that holds no ending, or one that nobody knows.
    """
    try:
        entry = _entry(line, transcripts)
        check_entry(entry)
    except (LookupError, TypeError, AttributeError) as odd:
        raise ValueError(_lack(odd)) from None
    return entry


def _lack(odd: Exception) -> str:
    return f"no key {odd}" if isinstance(odd, KeyError) else str(odd)


def _entry(line: Line, transcripts: str) -> JournalEntry:
    get, tapes = line.get, line.get("tapes", {})
    return JournalEntry(
        key=read_key(line),
        attempt=line["attempt"],
        ending=line["ending"],
        score=line["score"],
        grades=tuple(_read_grade(grade) for grade in line["grades"]),
        location=TranscriptLocation(transcripts, *line["transcript"]),
        digests=_read_digests(get("digests", {})),
        usage=read_usage(line["usage"]) if "usage" in line else NO_USAGE,
        judging=read_usage(line["judging"]) if "judging" in line else NO_USAGE,
        simulating=read_usage(line["simulating"]) if "simulating" in line else NO_USAGE,
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
        paid=read_usage(line["paid"]) if "paid" in line else None,
        own_models=tuple(get("own_models", ())),
        doubtful_events=get("doubtful_events", NOTHING),
        origin=Origin.from_json(line["origin"]) if "origin" in line else None,
        uncharged_seconds=get("uncharged_seconds", 0.0),
    )


# By hand, not by a loop over fields: this runs for every trial, and the order of keys is part of the format.
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


def _origin(origin: Origin) -> Line:
    line: Line = {"run": origin.run, "attempt": origin.attempt}
    add(line, regraded=origin.regraded)
    return line


def _read_digests(line: Line) -> Digests:
    if isinstance(line, dict):
        line = {name: _shared(value) if name in ALIKE else value for name, value in line.items()}
    return Digests(**line)  # which refuses what is no map, and other names


def _tapes(trial: Trial) -> Line:
    line: Line = {}
    add(line, tools=_counts(trial.tool_tape), chats=_counts(trial.chat_tape))
    return line


def _counts(counts: TapeCounts) -> Line:
    line: Line = {}
    add(line, hits=counts.hits, misses=counts.misses, recorded=counts.recorded)
    return line


def _grade(grade: Grade) -> Line:
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
        undecided=EARLIER_WORDS.get(why := get("undecided", ""), why),
    )
