"""Trials with all that a screen can show: folded calls, votes, a diff, wide letters, and hostile texts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.reports.trial_view import TrialView, trial_view
from tests.store.samples import file

PAINT = "\x1b[31mPAINTED\x1b]0;title\x07 \u202egnitirw"
"""Colours a terminal, sets its title, and turns the writing direction."""

KEY = TrialKey("여행", "travel_cheapest_flight", "tool_calling", "claude", "short", 2)
SYSTEM = "You book flights.\nAsk before you pay.\nAnswer in Korean."
SEARCH = {"from": "서울 인천국제공항", "to": "제주", "date": "2026-12-24", "passengers": 2}
FLIGHTS = [{"id": f"KE12{at}", "price": 51000 + at * 1500, "airline": "대한항공"} for at in range(3)]


def call(id: str, tool: str, args: dict[str, Any], **fields: Any) -> ToolCall:
    """Give a call of the turn that its id says."""
    return ToolCall(id, int(id[0]), 0, tool, args, **fields)


CALLS = (
    call("1a", "search_flights", SEARCH, result=FLIGHTS, started=0.5, ended=1.75, tape="hit"),
    call("1b", "weather", {"city": "제주"}, error=ToolError("Timeout", "no reply"), tape="live", ended=2.0),
    call("2a", "pay", {"id": "KE120", "note": PAINT}, result=PAINT, tape="miss", ended=2.5),
)
MESSAGES = (
    Message("system", SYSTEM),
    Message("user", "제주로 가는 가장 싼 항공편을 찾아 주세요.\n크리스마스 이브, 두 사람이요."),
    Message("assistant", "", CALLS[:2], turn=1),
    Message("tool", "[]", call_id="1a"),
    Message("tool", "Timeout: no reply", call_id="1b"),
    Message("assistant", f"**KE120** {PAINT}", CALLS[2:], turn=2),
    Message("assistant", "KE120편을 예약했습니다.", turn=3),
)
NOTE_BEFORE = "# 여행\n\n- 서울\n- 부산\n"
NOTE_AFTER = f"# 여행\n\n- 서울\n- 제주 {PAINT}\n- KE120\n"
VOTES = [
    {"judge": "gpt", "scores": {"polite": 1.0, "brief": 0.25}, "rationale": "짧지 않습니다.", "problem": ""},
    {"judge": "claude", "scores": {}, "rationale": "", "problem": "no reply in 60 s"},
]
GRADES = (
    Grade("answer_contains", 1.0, "all 1 checks passed"),
    Grade(
        "cheapest",
        0.5,
        "1 of 2",
        (
            Check("a flight was booked", True, "a booking", "KE120"),
            Check("the cheapest one was booked", False, "KE119 for 49,000 won", f"KE120 {PAINT}"),
        ),
        threshold=0.75,
        weight=2.0,
    ),
    Grade("tone", 0.625, "the mean of two judges", details={"judgement": {"votes": VOTES}}, threshold=0.8),
    Grade("style", None, "nobody to ask", undecided="no_judge"),
)
OUTCOME = Outcome(
    Answer("KE120편을 예약했습니다.", {"booked": "KE120"}),
    Tree({"notes/여행.md": file(NOTE_BEFORE), "old.md": file("gone\n")}),
    Tree({"notes/여행.md": file(NOTE_AFTER), "ticket.pdf": FileText("ff", 9, None, "binary")}),
)
TRIAL = Trial(
    key=KEY,
    attempt=2,
    ending="missed",
    score=0.62,
    grades=GRADES,
    transcript=Transcript(
        MESSAGES,
        CALLS,
        (Ask(1, 0.0, 0.5, Usage(1200, 80, asks=1), reasoning="First the flights, then the weather."),),
        (Event(2.5, "cassette_miss", "pay was not recorded"),),
        Usage(3600, 240, cost_usd=0.0123, asks=3, attempts=3),
    ),
    outcome=OUTCOME,
    digests=Digests(input="i", prompt="p1", model="m1", ruler="r"),
    kind="capability",
    bucket="booking",
    file="evals/travel/cheapest/task.json",
    limit="steps (12)",
    started_at="",
    seconds=2.6,
    wall_seconds=3.9,
    tool_tape=TapeCounts(1, 1, 0),
    output="searching ...",
)
BOOKED = replace(
    GRADES[1], score=1.0, checks=(GRADES[1].checks[0], Check("the cheapest one was booked", True))
)
QUESTION = "어느 편으로 할까요?"
BETTER = replace(
    TRIAL,
    key=KEY._replace(model="opus"),
    ending="passed",
    score=1.0,
    grades=(GRADES[0], BOOKED, GRADES[3]),
    transcript=Transcript(
        (
            *MESSAGES[:2],
            Message("assistant", "", CALLS[:1], turn=1),
            Message("assistant", QUESTION, turn=2),
        ),
        CALLS[:1],
        (Ask(1, 0.0, 0.4, Usage(900, 40, asks=1)), Ask(2, 1.2, 1.9, Usage(900, 50, asks=1))),
        usage=Usage(1800, 90, cost_usd=0.004, asks=2, attempts=2),
    ),
    outcome=Outcome(
        Answer(QUESTION), OUTCOME.before, Tree({"notes/여행.md": file(NOTE_AFTER), "old.md": file("gone\n")})
    ),
    digests=Digests(input="i", prompt="p2", model="m2", ruler="r"),
    limit="",
    seconds=2.0,
    wall_seconds=2.1,
)


def views() -> tuple[TrialView, TrialView]:
    """Give the missed trial and the better one of another model."""
    return trial_view(TRIAL), trial_view(BETTER)
