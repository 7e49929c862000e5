"""Offline models: they act out what the task says, and send nothing."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.chat.chat import Chat, Reply
from pytest_agenteval.chat.offline.scripted import nop, oracle, scripted
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.text.errors import NothingToActOut, ScriptEnded

MODEL = Model("m", "m", offline=True)
RESULTS = [
    {"documents": [{"id": 7, "title": "알림"}, {"id": None}], "odd.key": 1},
    ["a", ["b", "c"]],
    "plain text",
]
HEARD: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    *(
        {"role": "tool", "tool_call_id": "x", "content": r if isinstance(r, str) else json.dumps(r)}
        for r in RESULTS
    ),
]


def plan(**said: Any) -> Plan:
    """Plan a trial of a task of which this is said."""
    task = PlannedTask(
        suite="s", id="t", agent="a", kind="mixed", bucket="b", graders=(), file="evals/t.json", **said
    )
    return Plan(task, MODEL)


def turns(*turns: Any) -> Plan:
    """Plan a trial of a task with these reference turns."""
    return plan(reference={"turns": list(turns)})


def ask(chat: Chat, messages: list[dict[str, Any]] | None = None) -> Reply:
    """Ask once."""
    return asyncio.run(chat.ask(messages or HEARD[:1]))


def oracle_arguments(args: Any) -> Any:
    """Give the arguments that the oracle sends where the author wrote these."""
    (call,) = ask(oracle(MODEL, turns({"calls": [{"tool": "t", "args": args}]})), HEARD).calls
    return dict(call.args) if call.raw_args is None else call.raw_args


def test_nop_does_nothing() -> None:
    """No text, no calls, however often it is asked; it costs nothing."""
    chat = nop(MODEL, plan())
    reply = [ask(chat) for _ in range(3)][-1]
    assert (reply.text, reply.calls, reply.finish, reply.cost_usd) == ("", (), "stop", 0.0)


def test_the_oracle_acts_out_its_turns_and_then_rests() -> None:
    """One turn for each ask, every call with an id of its own; afterwards the last text, without calls."""
    calls = [{"tool": "a"}, {"tool": "b", "args": {"x": 1}}]
    chat = oracle(MODEL, turns({"text": "one", "calls": calls}, {"calls": calls[:1]}, {"text": "end"}))
    replies = [ask(chat) for _ in range(5)]

    assert [reply.text for reply in replies] == ["one", "", "end", "end", "end"]
    assert [reply.finish for reply in replies] == ["tool_calls", "tool_calls", "stop", "stop", "stop"]
    assert [call.id for reply in replies for call in reply.calls] == ["call_1", "call_2", "call_3"]
    assert [(call.tool, dict(call.args)) for call in replies[0].calls] == [("a", {}), ("b", {"x": 1})]
    assert all(reply.cost_usd == 0.0 and reply.usage.asks == 1 for reply in replies)


@pytest.mark.parametrize("reference", [None, {}, {"turns": []}, {"expected_outcome": {}}])
def test_an_oracle_without_turns_says_so(reference: Any) -> None:
    """It never passes for silence: the file and the key to fill in are named."""
    with pytest.raises(
        NothingToActOut,
        match=r"the task has no reference turns: add `reference_solution.turns` to evals/t.json",
    ):
        ask(oracle(MODEL, plan(reference=reference)))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("$1.documents[0].id", 7),
        ("$1.documents[1].id", None),
        ("$1.documents[0]", {"id": 7, "title": "알림"}),
        ("$2[1][0]", "b"),
        ("$3", "plain text"),
        ("see $1.documents[0].title, no. $1.documents[0].id.", "see 알림, no. 7."),
        ("all: $2[1]", 'all: ["b","c"]'),
        ("$$1.50 or $$$2[0]", "$1.50 or $a"),
        ("$$", "$"),
        ("$HOME and 5$", "$HOME and 5$"),
        (["$2[0]", {"deep": "$1.documents[0].id"}], ["a", {"deep": 7}]),
        (3, 3),
    ],
)
def test_arguments_refer_to_earlier_results(written: Any, sent: Any) -> None:
    """Alone a reference keeps the value's type, inside a text it is written out, and two dollars are one."""
    assert oracle_arguments({"x": written}) == {"x": sent}


@pytest.mark.parametrize(
    "lost", ["$0", "$4", "$1.documents[2]", "$1.nothing", "$2.a", "$3.x", "$1[0]", "a $9 b"]
)
def test_a_reference_that_leads_nowhere_is_named(lost: str) -> None:
    """The author is told the file, the turn and the reference, not shown a KeyError."""
    named = lost.removeprefix("a ").removesuffix(" b")
    with pytest.raises(NothingToActOut) as caught:
        oracle_arguments({"x": lost})
    assert str(caught.value).startswith(f"evals/t.json: reference_solution.turns[0]: {named} has no target: ")


@given(st.text())
def test_a_text_with_doubled_dollars_is_sent_as_meant(text: str) -> None:
    """Any text can be written: doubling its dollars is enough."""
    assert oracle_arguments({"x": text.replace("$", "$$")}) == {"x": text}


def test_arguments_written_as_text_are_sent_as_they_are() -> None:
    """That is how an author plays a model that sends malformed JSON."""
    assert oracle_arguments('{"a": $1') == '{"a": $1'
    assert oracle_arguments('{"a": 1}') == {"a": 1}


def test_a_script_is_followed_to_its_end() -> None:
    """Each entry takes its seconds and tokens; beyond the last one the number of entries is said."""
    script = ({"calls": [{"tool": "a", "args": "{"}], "seconds": 0.05, "input_tokens": 3}, {"text": "bye"})
    chat = scripted(MODEL, plan(script=script))
    began = time.perf_counter()
    first = ask(chat)
    assert time.perf_counter() - began >= 0.05
    assert (first.calls[0].id, first.calls[0].raw_args, first.usage.input_tokens) == ("call_1", "{", 3)
    assert ask(chat).text == "bye"
    with pytest.raises(ScriptEnded, match=r"evals/t.json: the script has 2 entries"):
        ask(chat)


def test_a_task_without_a_script_says_so() -> None:
    """The scripted model needs a script."""
    with pytest.raises(NothingToActOut, match=r"add `script` to evals/t.json"):
        ask(scripted(MODEL, plan()))
