"""What a recorder makes of calls that were seen and calls that an agent reports."""

from __future__ import annotations

from msgspec.structs import replace

from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import UNREAD_USAGE, Ask, ToolCall, Transcript, Usage


def call(id: str, place: int, result: object = None) -> ToolCall:
    """Give a call of a search for the same thing each time."""
    return ToolCall(id, 1, place, "search", {"q": "rice"}, result=result)


def test_a_call_that_was_seen_is_one_of_those_that_are_reported() -> None:
    """Of equal calls with ids of their own each stands for one; its outcome is the one that was seen."""
    recorder = Recorder(lambda: 0.0)
    recorder.end_call(recorder.begin_call(call("seen", 0)), call("seen", 0, "found"))

    recorder.add_returned(Transcript(calls=(call("one", 0, "reported"), call("two", 1, "reported"))))

    assert [(each.id, each.result) for each in recorder.calls] == [("one", "found"), ("two", "reported")]


def test_a_call_that_nobody_reports_stays() -> None:
    """Behind those that are reported, also where it equals one of them."""
    recorder = Recorder(lambda: 0.0)
    for _ in range(2):
        recorder.end_call(recorder.begin_call(call("", 0)), call("", 0, "found"))

    recorder.add_returned(Transcript(calls=(call("", 0, "reported"),)))

    assert [each.result for each in recorder.calls] == ["found", "found"]


def test_usage_is_paid_only_where_a_request_was_sent() -> None:
    """What a tape answers costs nothing, though nobody can read it."""
    recorder = Recorder(lambda: 0.0)
    recorder.add_usage(UNREAD_USAGE)
    assert (recorder.usage, recorder.paid) == (UNREAD_USAGE, Usage())

    recorder.add_usage(UNREAD_USAGE, is_paid=True)
    assert recorder.paid == UNREAD_USAGE


def test_a_name_may_have_that_of_its_server_before_it() -> None:
    """Where replies were seen, a reported call is one that was seen: by its tool, if by nothing else."""
    recorder = Recorder(lambda: 0.0)
    recorder.add_reply({"content": "Wait."}, (), Ask(1, 0.0, 1.0, Usage(1, 1, asks=1, attempts=1)))
    recorder.begin_call(replace(call("seen", 0), tool="mcp__shop__search"))

    recorder.add_returned(Transcript(calls=(replace(call("own", 0), args={"q": "Rice"}),)))

    assert [each.tool for each in recorder.calls] == ["mcp__shop__search"]


def test_a_reply_that_a_tape_gave_is_used_and_not_paid() -> None:
    """Replies that are paid are summed from the first one that is, whatever came before it."""
    recorder, took = Recorder(lambda: 0.0), Usage(1, 2, 0, 0, 0.5, 1, 1)
    for turn, taped in enumerate([False, True, False], start=1):
        reply = {"role": "assistant", "content": "a"}
        recorder.add_reply(reply, (), Ask(turn, 0.0, 0.0, took), unpaid=taped)

    assert (recorder.usage, recorder.paid) == (took + took + took, took + took)
