"""Stored runs with something to learn from, and what feedback makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_agenteval.loop.feedback.content import EarlierRound, Feedback, FeedbackOptions, feedback_markdown
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.records.evidence import Answer, Check, Grade, Outcome
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript
from pytest_agenteval.records.trial import Trial
from tests.reports.runs import store_run, trial


def call(tool: str, number: int = 1, **args: Any) -> ToolCall:
    """Give a call that worked."""
    return ToolCall(f"c{number}", number, 0, tool, args, result="done")


def failed_grade(grader: str, *checks: Check) -> Grade:
    """Give a grade that was not passed, of these checks."""
    return Grade.from_checks(grader, checks or (Check("it is right", False, "right", "wrong"),))


def failing(
    task: str,
    repetition: int = 1,
    *,
    calls: Iterable[ToolCall] = (),
    grades: tuple[Grade, ...] = (),
    asked: str = "Do it.",
    answer: str = "",
    score: float = 0.0,
    **fields: Any,
) -> Trial:
    """Give a trial that missed, with its conversation."""
    own = tuple(calls)
    grades = grades or (failed_grade("g"),)
    messages = (Message("user", asked), *(Message("assistant", "", (each,), each.turn) for each in own))
    transcript = Transcript(messages=(*messages, Message("assistant", answer)), calls=own)
    more = {"transcript": transcript, "outcome": Outcome(Answer(answer)), "grades": grades, **fields}
    return trial(task, repetition, score, **more)


def passing(task: str, repetition: int = 1, **more: Any) -> Trial:
    """Give a trial that passed, with its conversation."""
    return failing(task, repetition, score=1.0, grades=(Grade("g", 1.0, "right"),), **more)


def feedback_on(
    folder: Path, *trials: Trial, rounds: Iterable[EarlierRound] = (), **options: Any
) -> tuple[Feedback, str]:
    """Store a run of these trials, and give what it teaches, and that as Markdown."""
    made = make_feedback(store_run(folder, trials), FeedbackOptions(**options), tuple(rounds))
    return made, feedback_markdown(made)
