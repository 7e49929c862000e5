"""The judges of one trial: for each grader each model with a chat of its own, and one budget for all."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.chat.chat_tape import ChatTape
from pytest_agenteval.chat.recording_chat import JudgeChat
from pytest_agenteval.engine.equipment import Equipment
from pytest_agenteval.engine.models import chat_of
from pytest_agenteval.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model, Plan
from pytest_agenteval.records.recorder import Recorder


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A model that judges one trial for one grader, and the chat to ask it through."""

    model: Model
    chat: Chat


def role_of(judge: str, label: str) -> str:
    """Name a judge as recordings and transcripts do: with the grader that it is asked for."""
    return f"{judge} for {label}"


class TrialJudges:
    """The run's judges in one trial; they leave the agent's budget and messages alone.

    Together they may take as many tokens and as much money as the trial itself may; a judge that is asked
    beyond that raises LimitReached. A judge that is the judged model too is written down as an event.
    """

    def __init__(self, plan: Plan, equipment: Equipment, recorder: Recorder) -> None:
        self._plan, self._equipment, self._recorder = plan, equipment, recorder
        self.tapes: list[ChatTape] = []
        limits = plan.task.limits
        self._budget = Budget(Allowance(tokens=limits.tokens, cost_usd=limits.cost_usd))
        for model in plan.conditions.judges:
            if model.id == plan.model.id:
                recorder.event("self_judged", f"{model.name} judges its own trial")

    def of(self, label: str) -> tuple[TrialJudge, ...]:
        """Give the judges that this grader asks: what they answer others has no part in their recordings."""
        return tuple(self._judge(model, label) for model in self._plan.conditions.judges)

    def _judge(self, model: Model, label: str) -> TrialJudge:
        role = role_of(model.name, label)
        chat, tape = chat_of(model, self._plan, self._equipment, self._budget, self._recorder, role=role)
        if tape is not None:
            self.tapes.append(tape)
        recorded = JudgeChat(chat, recorder=self._recorder, budget=self._budget, tape=tape, role=role)
        return TrialJudge(model, recorded)
