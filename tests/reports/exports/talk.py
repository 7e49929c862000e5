"""A trial in which everything happens that a trajectory or a trace has to tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, Grade, Outcome
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from tests.reports.runs import store_run

CLAUDE = RunModel("claude", "anthropic/claude-sonnet-4-5")
STARTED_AT = "2026-11-21T09:30:15.123+00:00"

SEARCH = ToolCall("c1", 1, 0, "search", {"q": "Mina"})
SAVE = ToolCall("c2", 1, 1, "save", {}, "{oops")
SEEDED = ToolCall("seed_1_1", 0, 0, "clock", {}, by="seed")
READ = ToolCall("c1", 2, 0, "read", {"path": "a.md"})  # providers use their ids again
OWN = ToolCall("own_1", 3, 0, "notify", {"to": "Mina"}, None, {"sent": True}, None, 3.0, 3.25)

MESSAGES = (
    Message("system", "Be kind.", turn=1),
    Message("assistant", "", (SEEDED,), turn=1, seeded=True),
    Message("tool", "12:00", turn=1, seeded=True, call_id="seed_1_1"),
    Message("user", "Say hello to Mina.", turn=1),
    Message("assistant", "I look her up.", (SEARCH, SAVE), turn=1),
    Message("tool", '[{"id":1}]', turn=2, call_id="c1"),
    Message("tool", '{"error":"no JSON","error_type":"bad_arguments"}', turn=2, call_id="c2"),
    Message("assistant", "", (READ,), turn=2),
    # The agent starts anew, with what it takes along.
    Message("system", "Be kind.", turn=3, phase=2),
    Message("assistant", "I look her up.", turn=3, phase=2),
    Message("user", "Go on.", turn=3, phase=2),
    Message("assistant", "Hello, Mina!", turn=3, phase=2),
)
CALLS = (
    replace(SEEDED, result="12:00"),
    replace(SEARCH, result=[{"id": 1}], started=0.5, ended=0.75, tape="hit"),
    replace(SAVE, error=ToolError("bad_arguments", "no JSON"), started=0.5, ended=0.5),
    replace(READ, result="whole text", started=1.5, ended=1.75),
    OWN,
)
ASKS = (
    Ask(1, 0.1, 0.4, Usage(100, 20, 30, 5, 0.25, 1, 2), "tool_calls", 0.2, "Who is Mina?"),
    Ask(2, 1.0, 1.4, Usage(120, 10, cost_usd=None, asks=1, attempts=1), "tool_calls"),
    Ask(3, 2.0, 2.5, Usage(cost_usd=None, asks=1, attempts=1)),
)
GRADES = (
    Grade("greets", 0.5, "half", (Check("names her", True), Check("is short", False, "1 line", "2 lines"))),
    Grade("judge", None, "no judge", undecided="no_judge"),
)
TALK = Trial(
    key=TrialKey("s", "hello", "greeter", "claude", "short", 2),
    attempt=1,
    ending="missed",
    score=0.5,
    grades=GRADES,
    transcript=Transcript(
        MESSAGES,
        CALLS,
        ASKS,
        (Event(0.05, "chat_retry", "attempt 1 of 3: 429"),),
        Usage(220, 30, 30, 5, None, 3, 4),
    ),
    outcome=Outcome(Answer("Hello, Mina!", {"cards": 1})),
    digests=Digests(code="c0de"),
    kind="capability",
    bucket="greetings",
    started_at=STARTED_AT,
    seconds=3.5,
)
NEVER_BEGUN = replace(
    TALK,
    key=TALK.key._replace(task="unbegun"),
    ending="errored",
    score=None,
    grades=(),
    transcript=Transcript(),
    outcome=Outcome(),
    cause="provider",
    message="503 from the provider",
    traceback="Traceback: 503",
    seconds=0.0,
)
"""The provider was down from the first request on."""


def store_talks(root: Path, *trials: Trial, **more: Any) -> Run:
    """Write a run of these trials, and read it back."""
    return store_run(root, trials or (TALK, NEVER_BEGUN), models=(CLAUDE,), **more)
