"""The judges of one trial: each a model with a chat of its own, all of them with one budget."""

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
    """Give the run's judges, with chats that leave the agent's budget and messages alone.

    Together they may take as many tokens and as much money as the trial itself may; a judge that is asked
    beyond that raises LimitReached. A judge that is the judged model too is written down as an event.
    """
    limits = plan.task.limits
    budget = Budget(Allowance(tokens=limits.tokens, cost_usd=limits.cost_usd))
    return tuple(_judge(model, plan, equipment, recorder, budget) for model in plan.conditions.judges)


def _judge(model: Model, plan: Plan, equipment: Equipment, recorder: Recorder, budget: Budget) -> TrialJudge:
    if model.id == plan.model.id:
        recorder.event("self_judged", f"{model.name} judges its own trial")
    chat, tape = chat_of(model, plan, equipment, budget, recorder, role=model.name)
    return TrialJudge(model, JudgeChat(chat, recorder=recorder, budget=budget, tape=tape, role=model.name))
