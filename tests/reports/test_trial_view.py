"""One trial as reports see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.records.trial import Digests
from pytest_agenteval.reports.trial_view import LARGE, TrialView, file_changes, judges_disagree, trial_view
from tests.reports.runs import trial

USAGE = Usage(10, 5, cost_usd=0.01, asks=1, attempts=1)
FIND = ToolCall("c1", 1, 0, "find", {"q": "tea"})
SAVE = ToolCall("c2", 1, 1, "save", {"x": 1})


def answer(call: ToolCall, content: str, phase: int = 1) -> Message:
    """Give the message of a tool that answers a call."""
    return Message("tool", content, turn=2, phase=phase, call_id=call.id)


def view(*messages: Message, calls: tuple[ToolCall, ...] = (), **fields: Any) -> TrialView:
    """Give a trial with these messages and calls as reports see it."""
    asks = (Ask(1, 0.5, 1.5, USAGE, reasoning="tea first"),)
    return trial_view(trial("a", 1, 0.5, transcript=Transcript(messages, calls, asks, usage=USAGE), **fields))


def tree(**files: str) -> Tree:
    """Give a tree of these files."""
    return Tree({path: FileText(text, len(text), text) for path, text in files.items()})


def changed(before: Tree, after: Tree) -> Any:
    """Give the first changed file."""
    return next(file_changes(Outcome(before=before, after=after)))


def test_a_call_stands_with_its_result_in_the_message_that_asked_for_it() -> None:
    """Calls of one reply are told apart by id, whatever order they ended in; tools' messages are folded."""
    done = [
        ToolCall("c2", 1, 1, "save", {"x": 1}, error=ToolError("full", "no room"), tape="live"),
        ToolCall("c1", 1, 0, "find", {"q": "tea"}, result={"hits": [1]}, tape="hit"),
    ]
    seen = view(
        Message("user", "tea?", turn=1),
        Message("assistant", "", (FIND, SAVE), turn=1),
        answer(FIND, '{"hits": [1]}'),
        answer(SAVE, "full: no room"),
        Message("assistant", "Here.", turn=2),
        calls=tuple(done),
    )
    assert [message.role for message in seen.messages] == ["user", "assistant", "assistant"]
    find, save = seen.messages[1].calls
    assert (find.result, find.tape, find.reply) == ({"hits": [1]}, "hit", "")
    assert (save.error, save.tape, save.reply) == (ToolError("full", "no room"), "live", "")
    assert (seen.messages[1].seconds, seen.messages[1].usage) == (1.0, USAGE)
    assert seen.messages[1].reasoning == "tea first"
    assert seen.messages[2].usage is None


def test_what_the_model_got_is_shown_where_it_is_not_the_result() -> None:
    """A reply that was cut or wrapped on its way to the model is not passed over."""
    made = ToolCall("c1", 1, 0, "find", {"q": "tea"}, result="a long text")
    seen = view(Message("assistant", "", (FIND,), turn=1), answer(FIND, "a lo… cut"), calls=(made,))
    assert seen.messages[0].calls[0].reply == "a lo… cut"


def test_calls_of_one_id_have_each_their_own_result() -> None:
    """Some models number the calls of each reply anew."""
    first, second = (ToolCall("c1", turn, 0, "find", {}, result=f"hit {turn}") for turn in (1, 2))
    seen = view(
        Message("assistant", "", (first,), turn=1),
        answer(first, "hit 1, cut"),
        Message("assistant", "", (second,), turn=2),
        answer(second, "hit 2"),
        calls=(first, second),
    )
    calls = [message.calls[0] for message in seen.messages]
    assert [(call.result, call.reply) for call in calls] == [("hit 1", "hit 1, cut"), ("hit 2", "")]


def test_a_given_conversation_shows_results_that_only_its_messages_hold() -> None:
    """Of calls that were given with the task there is no record but the messages."""
    seen = view(
        Message("assistant", "", (FIND,), seeded=True),
        Message("tool", '{"hits": 2}', seeded=True, call_id="c1"),
        Message("tool", "for nobody", seeded=True, call_id="unknown"),
    )
    assert seen.messages[0].calls[0].result == {"hits": 2}
    assert seen.messages[1].content == "for nobody"
    found = view(Message("assistant", "", (FIND,)), Message("tool", "[]", call_id="c1"))
    assert found.messages[0].calls[0].result == []  # an empty list is a result, and not nothing


def test_calls_that_no_message_asked_for_are_shown_where_they_were_made() -> None:
    """An agent's own code may call tools: nothing that was called is missing from the conversation."""
    made = (ToolCall("x", 1, 0, "find", {}, result="one"), ToolCall("y", 2, 0, "save", {}, result="two"))
    seen = view(Message("user", "go", turn=1), Message("assistant", "done", turn=2), calls=made)
    called = [[call.tool for call in message.calls] for message in seen.messages]
    assert called == [[], ["find"], [], ["save"]]


def test_a_call_that_the_task_gave_stands_once_in_the_message_that_asks_for_it() -> None:
    """It belongs to no turn, and is recorded beside the messages that were given with it."""
    clock = ToolCall("s1", 0, 0, "clock", {}, by="seed")
    seen = view(
        Message("system", "Be kind.", turn=1, seeded=True),
        Message("assistant", "", (clock,), turn=1, seeded=True),
        Message("tool", "12:00", turn=1, seeded=True, call_id="s1"),
        Message("user", "tea?", turn=1),
        Message("assistant", "Here.", turn=1),
        calls=(replace(clock, result="12:00"),),
    )
    shown = [(message.role, [(call.by, call.result) for call in message.calls]) for message in seen.messages]
    assert shown == [("system", []), ("assistant", [("seed", "12:00")]), ("user", []), ("assistant", [])]


def test_what_a_reply_took_stands_with_the_reply() -> None:
    """A request may bring an assistant's words of the same turn before the model's own."""
    seen = view(
        Message("user", "coffee?", turn=1),
        Message("assistant", "No.", turn=1),  # an example, which the agent gives with its first request
        Message("user", "tea?", turn=1),
        Message("assistant", "Here.", turn=1),
    )
    assert [message.reasoning for message in seen.messages] == ["", "", "", "tea first"]
    assert [message.usage for message in seen.messages] == [None, None, None, USAGE]


def test_replies_of_requests_that_overlapped_have_each_their_own_tokens() -> None:
    """All of them bear the last turn; nothing that a model wrote or took is lost."""
    asks = tuple(Ask(turn, 0.0, 1.0, Usage(turn, asks=1), reasoning=f"r{turn}") for turn in (1, 2))
    spoken = Message("user", "both", turn=2), *(Message("assistant", word, turn=2) for word in "ab")
    seen = trial_view(trial("a", 1, 0.5, transcript=Transcript(spoken, (), asks)))
    assert [message.reasoning for message in seen.messages] == ["", "r1", "r2"]


def test_calls_of_one_reply_with_one_id_have_each_what_the_model_was_shown_of_them() -> None:
    """Some models give parallel calls the same id: their results come in the order of the calls."""
    asked = [ToolCall("c1", 1, at, "find", {"at": at}, result=f"hit {at}") for at in (0, 1)]
    seen = view(
        Message("assistant", "", tuple(asked), turn=1),
        *(answer(call, f"{call.result}, cut") for call in asked),
        calls=tuple(asked),
    )
    calls = seen.messages[0].calls
    assert [(call.result, call.reply) for call in calls] == [("hit 0", "hit 0, cut"), ("hit 1", "hit 1, cut")]


def test_what_was_said_to_a_model_again_or_in_another_conversation_is_not_lost() -> None:
    """A second answer to a call, and one in a conversation in which nobody asks for it, stand there."""
    seen = view(
        Message("assistant", "", (FIND,), turn=1),
        answer(FIND, "one"),
        answer(FIND, "one more"),
        answer(FIND, "elsewhere", phase=2),
        calls=(replace(FIND, result="one"),),
    )
    assert [message.content for message in seen.messages] == ["", "one more", "elsewhere"]


def test_a_reply_that_says_more_than_the_error_is_shown() -> None:
    """An agent may write its own hint behind a tool's error: the model read it."""
    failed = replace(SAVE, error=ToolError("full", "no room"))
    hint = "full: no room\nDelete something first."
    seen = view(Message("assistant", "", (SAVE,), turn=1), answer(SAVE, hint), calls=(failed,))
    assert seen.messages[0].calls[0].reply == hint


def test_a_call_that_was_never_made_is_told_from_one_that_gave_nothing() -> None:
    """A limit may end a trial between a reply and its calls."""
    seen = view(Message("assistant", "", (FIND, SAVE), turn=1), calls=(SAVE,))
    assert [(call.tool, call.executed) for call in seen.messages[0].calls] == [
        ("find", False),
        ("save", True),
    ]


def test_calls_of_the_agents_code_belong_to_the_conversation_in_which_they_were_made() -> None:
    """What comes last is no return to the first conversation."""
    own = ToolCall("x", 2, 0, "find", {}, result="one")
    seen = view(Message("user", "a", turn=1), Message("user", "b", turn=2, phase=2), calls=(own,))
    assert [message.phase for message in seen.messages] == [1, 2, 2]


@given(st.lists(st.sampled_from(["user", "asks", "own"]), max_size=12))
def test_no_call_is_lost_or_shown_twice(steps: list[str]) -> None:
    """Whatever the order of messages and calls, each call stands in the conversation once."""
    messages: list[Message] = []
    calls: list[ToolCall] = []
    for turn, step in enumerate(steps, start=1):
        call = ToolCall(f"c{turn}", turn, 0, "find", {}, result=turn)
        if step != "user":
            calls.append(call)
        asked = (call,) if step == "asks" else ()
        messages.append(Message("assistant" if asked else "user", "", asked, turn=turn))
    shown = [
        call.result for message in view(*messages, calls=tuple(calls)).messages for call in message.calls
    ]
    assert sorted(shown) == sorted(call.result for call in calls)


def test_grades_stand_in_the_order_in_which_they_explain() -> None:
    """Failed grades first, the furthest below its threshold foremost; failed checks before others."""
    vote = {"judge": "j1", "scores": {"tone": 0.2}, "rationale": "curt"}
    votes = {"judgement": {"votes": [vote, {**vote, "judge": "j2", "scores": {"tone": 0.9}}], "seed": "7"}}
    grades = (
        Grade("good", 1.0, "fine"),
        Grade("unsure", None, "no judge"),
        Grade("near", 0.4, "", threshold=0.5),
        Grade("far", 0.5, "", (Check("one", True), Check("two", False)), votes),
    )
    seen = view(grades=grades)
    assert [grade.grader for grade in seen.grades] == ["far", "near", "unsure", "good"]
    assert [check.claim for check in seen.grades[0].checks] == ["two", "one"]
    assert [vote.judge for vote in seen.grades[0].votes] == ["j1", "j2"]
    assert seen.grades[0].details == {"judgement": {"seed": "7"}}
    assert judges_disagree(grades)
    assert not judges_disagree(grades[:3])


def test_votes_on_several_candidates_name_the_candidate_of_each_score() -> None:
    """As a judge gives them that compares the answer with others: no screen and no page breaks on them."""
    votes = [
        {"judge": name, "scores": {"own": {"tone": score}, "other": {"tone": 0.5}}}
        for name, score in (("j1", 0.25), ("j2", 1.0))
    ]
    grades = (Grade("g", 0.5, "", details={"judgement": {"votes": votes}}),)
    (first, _) = view(grades=grades).grades[0].votes
    assert first.scores_text(60) == "own: tone 0.25, other: tone 0.50"
    assert judges_disagree(grades)


@pytest.mark.parametrize("judgement", ["fine", {"votes": [True]}, {"votes": [{"scores": {"tone": "good"}}]}])
def test_a_judgement_of_somebodys_own_shape_is_a_detail_like_others(judgement: Any) -> None:
    """A grader's details are its author's own JSON: none of it is lost, and no view breaks on it."""
    (grade,) = view(grades=(Grade("g", 0.5, "", details={"judgement": judgement}),)).grades
    assert (grade.votes, grade.details) == ((), {"judgement": judgement})


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_both_sides_of_a_diff_are_the_files_around_the_change(old: list[str], new: list[str]) -> None:
    """The rows of a hunk, read on one side only, are that file's lines from the hunk's start on."""
    before, after = tree(f="\n".join(old)), tree(f="\n".join(new))
    if before == after:
        return
    for hunk in changed(before, after).hunks:
        for side, start, lines in (
            (1, hunk.old_start, "\n".join(old).splitlines()),
            (2, hunk.new_start, "\n".join(new).splitlines()),
        ):
            shown = [row[side] for row in hunk.rows if row[side] is not None]
            assert shown == lines[start - 1 : start - 1 + len(shown)]
        for tag, left, right in hunk.rows:
            assert tag == ("+" if left is None else "-" if right is None else " " if left == right else "~")


def test_files_whose_lines_are_not_shown_say_why() -> None:
    """Binary and large files, and those that differ by the ends of lines, are named with a reason."""
    assert changed(tree(), tree(f="x" * (LARGE + 1))).note.startswith("too large to compare: 262,145")
    assert changed(tree(f="a\n"), tree(f="a\r\n")).note == "only the ends of lines differ"
    assert changed(tree(f=""), tree()).note == "empty"
    binary = Tree({"f": FileText("0", 4, None, "binary")})
    assert changed(tree(), binary).note == "binary, 4 bytes"


def test_every_value_of_a_trial_can_be_written_as_json() -> None:
    """Tools may return anything: the view holds what the run's files hold."""
    made = ToolCall("c1", 1, 0, "find", {"q": {1}}, result={"at": float("inf")})
    seen = view(Message("assistant", "", (FIND,), turn=1), calls=(made,))
    assert json.dumps(seen.messages[0].calls[0].result) == '{"at": "Infinity"}'


def test_a_step_has_one_mark_whenever_it_happens() -> None:
    """Times, ids and turns are in no mark; a tool, an argument, a result, an error, a reply is."""
    called = replace(FIND, result="tea", started=1.0, ended=2.0)
    later = replace(called, id="c9", turn=3, started=5.0, tape="hit")

    def marks(call: ToolCall, content: str = "tea") -> list[str]:
        seen = view(
            Message("user", "Find tea."), Message("assistant", "", (call,), turn=call.turn),
            answer(call, content), Message("assistant", "", turn=4), calls=(call,),
        )  # fmt: skip
        return [mark for each in seen.messages for mark in (each.mark, *(one.mark for one in each.calls))]

    assert marks(called) == marks(later)
    others = (
        replace(called, tool="seek"), replace(called, args={"q": "rum"}), replace(called, result="rum"),
        replace(called, error=ToolError("E", "m")),
    )  # fmt: skip
    both = [marks(each)[2] for each in (called, *others)] + [marks(called, "cut to te")[2]]
    assert len(set(both)) == len(both)
    # A message that is calls alone is no step; one that is nothing at all is.
    assert [bool(mark) for mark in marks(called)] == [True, False, True, True]


def test_a_trial_says_what_it_is_compared_by() -> None:
    """What it was made of by name, as far as that is known; events by kind, those of every trial apart."""
    events = (Event(0.1, "prompt_read", "a"), Event(0.2, "retry", "429"), Event(0.3, "prompt_read", "b"))
    later = tuple(replace(event, at=event.at + 1) for event in events)
    sides = [
        trial_view(trial("a", 1, 1.0, transcript=Transcript(events=each), digests=digests))
        for each, digests in (
            (events, Digests(prompt="p")),
            (later, Digests(prompt="p", sent={"first message": "s"})),
        )
    ]
    old, new = (side.marks for side in sides)

    assert [(each.kind, each.count, each.is_routine) for each in old.events] == [
        ("prompt_read", 2, True),
        ("retry", 1, False),
    ]
    assert old.events == new.events
    # Each is one text: scripts would tell two equal maps apart.
    told = new.made_of["messages sent to models"]
    assert isinstance(told, str)
    assert new.made_of == {**old.made_of, "messages sent to models": told}
    assert old.made_of["prompt"] == "p"
