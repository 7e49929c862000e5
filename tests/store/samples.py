"""Records to store: some plain, one with everything in it, and any that hypothesis can think of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.plan import Model, Plan, PlannedTask, TrialKey, Variant
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import (
    Ask,
    Event,
    Message,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.text.json_values import text_digest

LONG = "All work and no play makes Jack a dull boy. " * 40


def key(task: str = "t1", repetition: int = 1, model: str = "rules", variant: str = "") -> TrialKey:
    """Name a trial of the suite ``s``."""
    return TrialKey("s", task, "card", model, variant, repetition)


def trial(task: str = "t1", repetition: int = 1, **fields: Any) -> Trial:
    """Give a trial that passed; ``fields`` replace any of it."""
    plain: dict[str, Any] = {
        "key": key(task, repetition),
        "attempt": 1,
        "ending": "passed",
        "score": 1.0,
        "grades": (Grade("g", 1.0, "all 1 checks passed"),),
        "transcript": Transcript(),
        "outcome": Outcome(Answer("done")),
        "digests": Digests(),
    }
    return Trial(**{**plain, **fields})


def plan(task: str = "t1", repetition: int = 1, attempt: int = 1, model: str = "rules") -> Plan:
    """Give the plan of such a trial."""
    planned = PlannedTask("s", task, "card", "capability", "b", ())
    return Plan(planned, Model(model, model, True), Variant(), repetition, attempt)


def file(text: str) -> FileText:
    """Give a file as a snapshot does."""
    return FileText(text_digest(text), len(text.encode()), text)


FULL_USAGE = Usage(100, 20, 30, 5, 0.25, 2, 3)
FULL_CALL = ToolCall("c1", 1, 0, "search", {"q": "미나"}, None, [{"id": 1}], None, 0.5, 0.75, "agent", "hit")
FAILED_CALL = ToolCall(
    "c2", 1, 1, "save", {}, "{oops", None, ToolError("bad_arguments", "no JSON"), by="seed"
)
LONG_CALL = ToolCall("c3", 2, 0, "read", {}, result=LONG)
FALSE_CALL = ToolCall("c4", 2, 1, "exists", {}, result=False)

FULL = Trial(
    key=TrialKey("card", "생일 🎂", "card", "claude", "short", 2),
    attempt=3,
    ending="missed",
    score=0.4,
    grades=(
        Grade(
            "card_must_contain",
            0.4,
            LONG,
            (Check("has 'x'", False, "x", "y"), Check("has 'y'", True)),
            {"needles": ["x", "y"]},
            0.75,
            2.0,
            True,
        ),
        Grade("judge", None, "no judge is configured", unclamped=-8.0),
    ),
    transcript=Transcript(
        (
            Message("system", LONG),
            Message("user", "hello", seeded=True),
            Message("assistant", "", (FULL_CALL, FAILED_CALL), 1, phase=2),
            Message("tool", LONG, turn=1, call_id="c1"),
        ),
        (FULL_CALL, FAILED_CALL, LONG_CALL, FALSE_CALL),
        (Ask(1, 0.1, 0.9, FULL_USAGE, "tool_calls", 0.2, "hm"), Ask(2, 1.0, 1.5, Usage(cost_usd=None))),
        (Event(0.3, "retry", "429", {"after_s": 2}),),
        Usage(100, 20, 30, 5, None, 2, 3),
    ),
    outcome=Outcome(
        Answer(LONG, {"cards": 1}),
        Tree({"a.md": file("a"), "b.md": file(LONG), "bin": FileText("ff", 3, None, "binary")}),
        Tree({"a.md": file("a2"), "bin": FileText("ff", 3, None, "binary"), "new/ü.md": file("")}),
    ),
    digests=Digests("i", "f", "p", "s", "t", "r", "m"),
    kind="capability",
    bucket="positive",
    tags=("ko", "slow"),
    limit="steps",
    cause="",
    message=LONG,
    traceback="Traceback: ...",
    started_at="2026-11-21T09:30:15.123Z",
    seconds=1.25,
    tool_tape=TapeCounts(3, 1, 2),
    chat_tape=TapeCounts(1, 0, 0),
    output="printed",
    log="logged",
    workspace="/tmp/w",
)

FULL_TODAY = replace(
    FULL,
    file="evals/card/birthday.yaml",
    transcript=replace(
        FULL.transcript, tools=(ToolSpec("search", "미나", {"type": "object"}), ToolSpec("save"))
    ),
    digests=replace(
        FULL.digests, code="c" * 16, graders={"judge": "3:0a1b2c3d4e5f", "생일": "1:" + "0" * 12}
    ),
)
"""The same with what earlier versions did not write down."""

_texts = st.sampled_from(("", "t", "미나 🎂", " a\n", "<&>\0", LONG)) | st.text(max_size=8)
_numbers = st.floats(0, 1e6, allow_nan=False)
_shares = st.floats(0, 1, allow_nan=False)
_counts = st.integers(0, 10**9)
_leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _numbers | _texts
_json = _leaves | st.sampled_from(([], {}, [1, [2.5, {"": None}]], {"a": {"b": ["미나", True, {}]}}))
_maps = st.dictionaries(_texts, _json, max_size=3)
_usages = st.builds(Usage, _counts, _counts, _counts, _counts, st.none() | _numbers, _counts, _counts)
_calls = st.builds(
    ToolCall,
    _texts,
    _counts,
    _counts,
    _texts,
    _maps,
    st.none() | _texts,
    _json,
    st.none() | st.builds(ToolError, _texts, _texts),
    _numbers,
    _numbers,
    st.sampled_from(["agent", "seed"]),
    st.sampled_from(["hit", "miss", "live", "none"]),
)
_messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    _texts,
    st.lists(_calls, max_size=2).map(tuple),
    _counts,
    st.booleans(),
    st.integers(1, 5),
    _texts,
)
_asks = st.builds(Ask, _counts, _numbers, _numbers, _usages, _texts, st.none() | _numbers, _texts)
_files = _texts.map(file) | st.builds(
    FileText,
    st.text("0123456789abcdef", min_size=16),
    _counts,
    st.none(),
    st.sampled_from(["binary", "link"]),
)
_trees = st.dictionaries(_texts, _files, max_size=4).map(Tree)
_grades = st.builds(
    Grade,
    _texts,
    st.none() | _shares,
    _texts | st.just(LONG),
    st.lists(st.builds(Check, _texts, st.booleans(), _texts, _texts), max_size=2).map(tuple),
    _maps,
    _shares,
    _numbers,
    st.booleans(),
    st.none() | _numbers.map(lambda number: -number),
)
_tapes = st.builds(TapeCounts, _counts, _counts, _counts)

TRIALS = st.builds(
    Trial,
    st.builds(TrialKey, _texts, _texts, _texts, _texts, _texts, st.integers(1, 99)),
    st.integers(1, 9),
    st.sampled_from(["passed", "missed", "failed", "errored"]),
    st.none() | _shares,
    st.lists(_grades, max_size=3).map(tuple),
    st.builds(
        Transcript,
        st.lists(_messages, max_size=3).map(tuple),
        st.lists(_calls, max_size=3).map(tuple),
        st.lists(_asks, max_size=2).map(tuple),
        st.lists(st.builds(Event, _numbers, _texts, _texts, _maps), max_size=2).map(tuple),
        _usages,
    ),
    st.builds(Outcome, st.builds(Answer, _texts, _maps), _trees, _trees),
    st.builds(Digests, *[_texts] * 8, st.dictionaries(_texts, _texts.map("1:{}".format))),
    st.sampled_from(["capability", "regression", "mixed"]),
    *[_texts, st.lists(_texts, max_size=3).map(tuple), _texts, _texts, _texts],
    *[_texts | st.just(LONG), _texts, _texts, _numbers, _tapes, _tapes, _texts, _texts, _texts],
)
