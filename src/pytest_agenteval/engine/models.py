"""The chats and tapes of one trial."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.limits import Budget
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.recorder import Recorder

if TYPE_CHECKING:
    from pytest_agenteval.chat.chat_tape import ChatTape
    from pytest_agenteval.engine.equipment import Equipment
    from pytest_agenteval.tools.tape import ToolTape


def chat_of(
    model: Model, plan: Plan, equipment: Equipment, budget: Budget, recorder: Recorder, role: str = "agent"
) -> tuple[Chat, ChatTape | None]:
    """Give the chat that asks this model, and the tape its replies are played from, if there is one."""
    if model.offline:
        return equipment.registry.model_factory(model.id)(model, plan), None
    from pytest_agenteval.chat.litellm_chat import LitellmChat
    from pytest_agenteval.chat.retries import RetryingChat

    live = RetryingChat(
        LitellmChat(model),
        budget=budget,
        recorder=recorder,
        seed=f"{plan.seed} {plan.task.id}",
        semaphore=equipment.asking,
    )
    return live, _chat_tape(model, plan, equipment, role)


def tool_tape_of(plan: Plan, equipment: Equipment) -> ToolTape:
    """Open the trial's own tape of its task's recorded tool calls."""
    from pytest_agenteval.tools.tape import ToolTape

    path = Path(f"{plan.task.cassette}.yaml")
    tape = equipment.library.open(path, plan.conditions.record, "tool")  # type: ignore[arg-type]  # never "off"
    shared = [partial(equipment.library.open_shared, Path(place)) for place in plan.task.shared]
    return ToolTape(
        tape,
        shared=shared,
        retry_command=_retry(plan, "--agent-record=new_episodes"),
        first_command=_retry(plan, "--agent-record=once"),
    )


def _chat_tape(model: Model, plan: Plan, equipment: Equipment, role: str) -> ChatTape | None:
    mode, cassette = plan.conditions.record_chat, plan.task.cassette
    if mode == "off" or not cassette:
        return None
    from pytest_agenteval.chat.chat_tape import ChatTape

    tape = equipment.library.open(Path(chat_cassette(plan)), mode, "chat")
    return ChatTape(
        tape,
        role=role,
        model=model,
        repetition=plan.repetition,
        mode=mode,
        retry_command=_retry(plan, "--agent-record-chat=new_episodes"),
    )


def recordings_of(plan: Plan) -> tuple[str, ...]:
    """Give the files that the tools and chats of one trial may be recorded into."""
    return (f"{plan.task.cassette}.yaml", chat_cassette(plan)) if plan.task.cassette else ()


def chat_cassette(plan: Plan) -> str:
    """Give the path of the file that holds the chats of one trial: a file of its own, beside the tools'."""
    variant = f"@{plan.variant.name}" if plan.variant.name else ""
    name = plan.model.name.replace("/", "_")
    return f"{plan.task.cassette}.chat/{name}{variant}-{plan.repetition}.yaml"


def _retry(plan: Plan, option: str) -> str:
    """Write the command that has the same asked again, by the same model and judges, and records it."""
    judges = ",".join(judge.name for judge in plan.conditions.judges)
    who = [f"--agent-model={plan.model.name}", *([f"--agent-judge={judges}"] if judges else [])]
    return shlex.join(["pytest", plan.task.file, "-k", plan.task.id, option, *who])
