"""The judges of one trial: each a model with a chat of its own."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.chat.trial_chat import JudgeChat
from pytest_agenteval.engine.equipment import Equipment
from pytest_agenteval.engine.models import chat_of
from pytest_agenteval.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model, Plan
from pytest_agenteval.records.recorder import Recorder


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A model that judges one trial, and the chat to ask it through."""

    model: Model
    chat: Chat


def judges_of(plan: Plan, equipment: Equipment, recorder: Recorder) -> tuple[TrialJudge, ...]:
    """Give the run's judges, with chats that leave the agent's budget and messages alone."""
    return tuple(_judge(model, plan, equipment, recorder) for model in plan.conditions.judges)


def _judge(model: Model, plan: Plan, equipment: Equipment, recorder: Recorder) -> TrialJudge:
    budget = Budget(Allowance())
    chat, tape = chat_of(model, plan, equipment, budget, recorder, role=model.name)
    return TrialJudge(model, JudgeChat(chat, recorder=recorder, tape=tape, role=model.name))
