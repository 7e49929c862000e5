"""Tests that a user writes, with every type said: a suite in Python, the fixture, the mark, record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pytest_agenteval import (
    AgentEval,
    Evidence,
    Recording,
    Task,
    Trial,
    Trials,
    arun,
    grade,
    record,
    run,
    suite,
    tool_calls,
)

OSLO: Mapping[str, Any] = {
    "input": {"content": "Weather in Oslo?"},
    "graders": [{"name": "answer_contains", "config": {"text": "Oslo"}}],
}


def answer(question: str) -> str:
    """An agent that knows one town."""
    return f"It is -7 degrees in Oslo. You asked: {question}"


def ask_model(question: str) -> str:
    """Code that asks a model by itself."""
    body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": question}]}
    request = Request(
        os.environ.get("MODEL_URL", "http://127.0.0.1:9") + "/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urlopen(request) as response:
        reply: dict[str, Any] = json.load(response)
    return str(reply["choices"][0]["message"]["content"])


def short(evidence: Evidence) -> float:
    """A function grades."""
    return 1.0 if len(evidence.answer) < 200 else 0.0


weather = suite(
    "weather",
    agent=answer,
    graders=[short],
    tasks=[
        Task("oslo", "Oslo?", graders=[{"name": "answer_contains", "config": {"text": "-7"}}], tags=["fast"]),
        {"id": "lima", "input": {"content": "Lima?"}},
    ],
)


def test_weather(agenteval: AgentEval) -> None:
    """The fixture tries a task, and regrades it."""
    trial = agenteval.run(OSLO, agent=answer)
    assert trial.score == 1.0, trial.explain()
    assert agenteval.tool_calls(trial, "get_weather") == []
    assert agenteval.grade(trial, [short]).score == 1.0
    several = agenteval.run(OSLO, agent=answer, repetitions=3)
    assert several.score == 1.0, several.explain()
    assert isinstance(several, Trials)
    assert several.all_passed


@pytest.mark.agenteval(repetitions=2, threshold=0.5)
def test_refund(agenteval: AgentEval) -> None:
    """The body is the agent's turn, its asserts are the grade."""
    with agenteval.record("refund") as seen:
        reply = ask_model("I want my money back")
    assert "refund" in reply
    assert seen.usage.input_tokens == 10
    assert seen.messages[0].content == "I want my money back"


def try_in_a_script() -> Trial:
    """No pytest is needed."""
    trial: Trial = run(OSLO, agent=answer)
    assert not tool_calls(trial)
    with record("shop/refund") as seen:
        print(ask_model("I want my money back"))
    print(seen.calls, seen.asks, seen.misses)
    return grade(trial, [short])


async def try_in_a_notebook() -> Trial:
    """Where a loop runs already."""
    async with record("shop/refund") as seen:
        opened: Recording = seen
    print(opened.usage)
    return await arun(OSLO, agent=answer, settings={})
