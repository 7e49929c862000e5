"""The model made of rules: it plays by registered rules, and says what is wrong with them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_agenteval import ChatMessage, Move, ToolSpec
from pytest_agenteval.chat.offline.rules import InvalidMove, RulesChat, call_likeliest_tool
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]

TOOLS = (ToolSpec("knots", "A speed in knots.", {"type": "object"}),)
MESSAGES: list[ChatMessage] = [{"role": "user", "content": "How many knots?"}]


def player(move: Any) -> Any:
    """Make a player that has one move."""

    def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Any:
        return move

    return play


def ask(play: Any) -> tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]:
    """Give the text and the calls of one reply."""
    reply = asyncio.run(RulesChat(lambda names: play).ask(MESSAGES, tools=TOOLS))
    return reply.text, [(call.tool, call.args) for call in reply.calls]


def test_a_registered_player_makes_the_move() -> None:
    """Text and calls are its own; calls may stand in a list; None repeats what the user said."""
    assert ask(player(Move("27"))) == ("27", [])
    assert ask(player(Move(calls=[["knots", {"speed": 50}]]))) == ("", [("knots", {"speed": 50})])  # type: ignore[arg-type]
    assert ask(player(None)) == ("How many knots?", [])


@pytest.mark.parametrize(
    ("question", "found", "failed"),
    [
        ("How many knots?", "This is what was found: 27", "No tool gave an answer."),
        ("몇 노트인가요?", "찾은 결과입니다: 27", "도구에서 답을 얻지 못했습니다."),
    ],
    ids=["english", "korean"],
)
def test_without_a_player_it_speaks_the_language_of_the_question(
    question: str, found: str, failed: str
) -> None:
    """Whoever reads a first run understands what the agent has said."""
    asked: ChatMessage = {"role": "user", "content": question}
    for result, said in (("27", found), ('{"error": "down"}', failed)):
        chat = RulesChat(lambda names: None)
        heard: list[ChatMessage] = [{"role": "tool", "content": result}] * 2
        reply = asyncio.run(chat.ask([asked, *heard], tools=TOOLS))

        assert reply.text == said


def test_what_stands_in_quotes_is_what_a_tool_is_asked_for() -> None:
    """A title in quotes goes to the tool as it is, and not the words around it."""
    query = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    message: ChatMessage = {"role": "user", "content": "Please search books for 'The Old Mill' now."}

    move = call_likeliest_tool([message], [ToolSpec("search_books", "Searches books.", query)])

    assert move is not None
    assert [(tool, dict(args)) for tool, args in move.calls] == [("search_books", {"query": "The Old Mill"})]


@pytest.mark.parametrize(("move", "found"), [("27 knots", "'27 knots'"), ("", "''"), (0, "0")])
def test_what_is_no_move_is_told_with_its_player(move: Any, found: str) -> None:
    """In one sentence: whose player, what it may return, what it returned."""
    expected = "the rules player tests.chat.test_rules.player.<locals>.play: expected a Move or None"
    with pytest.raises(InvalidMove, match=f"{re.escape(expected)}; found {re.escape(found)}"):
        ask(player(move))


CONFTEST = """
from pytest_agenteval import tool_of

def knots(kilometres_per_hour: float) -> float:
    "A speed in knots."
    return kilometres_per_hour / 1.852

def play(messages, tools):
    return "27 knots"

def pytest_agenteval_register(registry):
    registry.tool(tool_of(knots))
    registry.rules_player("knots", play)
"""


def test_a_trial_whose_player_returns_no_move_is_errored(pytester: pytest.Pytester, quick: None) -> None:
    """It is no doing of the agent's, and needs no traceback of ours."""
    speed = task("speed", agent="tool_calling", settings={"tools": ["knots"]})
    write(pytester.path, {"conftest.py": CONFTEST, "evals/suite.yaml": suite(), "evals/speed.yaml": speed})
    result = run(pytester, "evals", "--agent-model=rules")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*broken: the rules player conftest.play: expected a Move or None*found '27 knots'*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
