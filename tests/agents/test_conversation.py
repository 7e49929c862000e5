"""Conversations that a task has begun: seeded before the last user turn, or rolled out anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.agents.callable_agent import CallableFactory
from pytest_agenteval.agents.loop import input_problems
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.tools.tool import Tool
from tests.engine.executing import execute, plan, registry

TURNS: list[Any] = [
    {"role": "user", "content": "서울 날씨 알려줘."},
    {
        "role": "assistant",
        "content": "18도입니다.",
        "calls": [{"tool": "weather", "args": {"city": "서울"}, "result": {"degrees": 18}}],
    },
    "고마워.",
    {"role": "assistant", "content": "천만에요."},
    {"role": "user", "content": "섭씨로 몇 도라고 했지?"},
]
ANSWER = PlannedGrader("answer_contains", "answer", {"text": "18"})


def run_script(script: list[Mapping[str, Any]], turns: list[Any] = TURNS, **settings: Any) -> Trial:
    """Carry out a trial of the tool-calling agent in this conversation."""
    known = registry()
    known.tool(Tool(ToolSpec("weather", blocking=False), lambda args: {"degrees": 7}))
    planned = plan(
        "t",
        ANSWER,
        input={"turns": turns},
        script=tuple(script),
        settings={"tools": ["weather"], **settings},
    )
    return execute(known, planned)[0]


def test_what_stands_before_the_last_user_turn_is_seeded() -> None:
    """The model is asked once; its history holds what was said and called, marked as given."""
    trial = run_script([{"text": "18도였습니다."}])

    assert trial.ending == "passed"
    messages = [(message.role, message.content, message.seeded) for message in trial.transcript.messages]
    assert messages == [
        ("user", "서울 날씨 알려줘.", True),
        ("assistant", "", True),
        ("tool", '{"degrees":18}', True),
        ("assistant", "18도입니다.", True),
        ("user", "고마워.", True),
        ("assistant", "천만에요.", True),
        ("user", "섭씨로 몇 도라고 했지?", False),
        ("assistant", "18도였습니다.", False),
    ]
    assert len(trial.transcript.asks) == 1


def test_seeded_calls_stand_in_the_transcript_and_are_not_the_agents() -> None:
    """With arguments and result, so that graders can tell a repeated call; none of them is made."""
    trial = run_script([{"calls": [{"tool": "weather", "args": {"city": "서울"}}]}, {"text": "18도"}])

    calls = [(call.by, call.turn, call.tool, dict(call.args), call.result) for call in trial.transcript.calls]
    assert calls == [
        ("seed", 0, "weather", {"city": "서울"}, {"degrees": 18}),
        ("agent", 1, "weather", {"city": "서울"}, {"degrees": 7}),
    ]


def test_a_full_rollout_answers_every_user_turn_itself() -> None:
    """The task's own answers are passed over, and so are its calls."""
    trial = run_script([{"text": "18도"}, {"text": "네."}, {"text": "18도"}], conversation="full_rollout")

    messages = [(message.role, message.content) for message in trial.transcript.messages]
    assert messages == [
        ("user", "서울 날씨 알려줘."),
        ("assistant", "18도"),
        ("user", "고마워."),
        ("assistant", "네."),
        ("user", "섭씨로 몇 도라고 했지?"),
        ("assistant", "18도"),
    ]
    assert trial.transcript.calls == ()


def test_turns_without_an_assistant_are_all_answered() -> None:
    """Plain user turns are a conversation that the agent leads from the start."""
    trial = run_script([{"text": "하나"}, {"text": "18"}], turns=["첫째", {"content": "둘째"}])

    assert [message.content for message in trial.transcript.messages] == ["첫째", "하나", "둘째", "18"]


@pytest.mark.parametrize(
    ("turns", "path", "expected"),
    [
        ("hello", ("turns",), "a list of turns"),
        ([], ("turns",), "a list of turns"),
        ([3], ("turns", 0), "a text, or a map with role and content"),
        ([{"role": "tool", "content": "x"}], ("turns", 0, "role"), "user or assistant"),
        ([{"role": "user", "content": ""}], ("turns", 0, "content"), "a text: what the user says"),
        ([{"contents": "x", "content": "y"}], ("turns", 0, "contents"), "one of calls, content, role"),
        ([{"content": "x", "calls": [{"tool": "t"}]}], ("turns", 0, "calls"), "calls at an assistant's turn"),
        (
            ["x", {"role": "assistant", "content": "y"}],
            ("turns", 1),
            "a user's turn at the end: it is the one answered",
        ),
        (
            ["x", {"role": "assistant", "calls": [{"args": {}}]}, "y"],
            ("turns", 1, "calls", 0),
            "a map with tool, args and result",
        ),
        (
            ["x", {"role": "assistant", "calls": [{"tool": "t", "arg": {}}]}, "y"],
            ("turns", 1, "calls", 0, "arg"),
            "one of args, error, result, tool",
        ),
        (
            ["x", {"role": "assistant", "calls": [{"tool": "t", "args": "q"}]}, "y"],
            ("turns", 1, "calls", 0, "args"),
            "a map of arguments",
        ),
    ],
)
def test_wrong_turns_are_told_with_their_key(turns: Any, path: tuple[Any, ...], expected: str) -> None:
    """Each mistake is named where it stands."""
    assert [problem[:2] for problem in input_problems({"turns": turns})] == [(path, expected)]


@pytest.mark.parametrize("key", ["contents", "Content", "conten", "turn"])
def test_misspelt_words_of_the_user_are_told(key: str) -> None:
    """Else the agent hears nothing, and answers that."""
    ((path, _, _, hint),) = input_problems({key: "How many knots?"})

    assert (path, hint) == ((key,), f"did you mean {'turns' if key == 'turn' else 'content'!r}?")


def test_other_keys_of_an_input_are_its_own() -> None:
    """Beside what the user says anything may stand, and ``context`` is a word of its own."""
    for right in ({"content": "x", "contents": "y"}, {"context": "x"}, {"content": "x"}, {"turns": TURNS}):
        assert input_problems(right) == []


def test_a_function_that_reads_the_whole_input_has_its_own_keys() -> None:
    """Of one that is given the words alone, a misspelt key is told; the other may read whatever it likes."""

    def of_words(question: str) -> str:
        return question

    def of_all(question: str, task_input: object) -> str:
        return f"{question} {task_input}"

    asked = {"contents": "How many knots?"}
    assert len(CallableFactory("bot", of_words).input_problems(asked)) == 1
    assert CallableFactory("bot", of_all).input_problems(asked) == []
