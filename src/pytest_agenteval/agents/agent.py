"""What an agent is, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.limits import Budget, Clock
from pytest_agenteval.prompts import Prompts
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.tools.toolbox import ToolBox
from pytest_agenteval.workspace.workspace import Workspace

NextTurn: TypeAlias = Callable[[], Awaitable[str | None]]


class AgentContext(FrozenValue, frozen=True):
    """Everything an agent may use in one trial.

    ``workspace`` is the trial's own tree, made when first used; ``tools`` the box through which every call
    goes; ``chat`` the model; ``turns`` gives the next user message, or None when there is no more.
    ``transcript`` is what has been said and called so far: it is written by chat and tool box, an agent only
    reads it.
    """

    workspace: Workspace
    tools: ToolBox
    chat: Chat
    clock: Clock
    limits: Budget
    prompts: Prompts
    turns: NextTurn
    transcript: Recorder

    @property
    def path(self) -> Path:
        """The root of the workspace; asking for it makes the tree."""
        return self.workspace.path


AgentAnswer: TypeAlias = Answer | str | None
"""What an agent returns: an answer, its text alone, or None where it worked on files and said nothing."""

AgentFunction: TypeAlias = Callable[[Mapping[str, Any], AgentContext], AgentAnswer | Awaitable[AgentAnswer]]
"""A function that acts as an agent: called with the task's input and the context, as ``Agent.run`` is."""


class Agent(Protocol):
    """Who acts in a trial. One object serves many trials at once: it keeps nothing of a trial.

    A class may have ``templates``: a map of its own prompt templates by name, replaced where task, suite or
    variant say so and rendered through ``ctx.prompts``. Prompts that it asks for but has no text of its own
    for are named in ``prompt_names``. A prompt file of another name is a mistake: nobody would read it.
    """

    def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> AgentAnswer | Awaitable[AgentAnswer]:
        """Do the task and give the answer; a plain method runs in a thread of its own."""
        ...


Read: TypeAlias = Callable[[str], str | None]


class PreparesInput(Protocol):
    """An agent class that completes what a task gives it, before any trial of the task."""

    @staticmethod
    def prepared(
        task_input: Mapping[str, Any], task_id: str, clock: str | None, read: Read
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Give the whole input, and texts to be written into the starting workspace, by their paths.

        ``read`` gives the text of a file of the starting workspace, None where there is none.
        """
        ...


@runtime_checkable
class ReportsEndState(Protocol):
    """An agent that can tell its end state from the workspace and the transcript, also after a crash."""

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Mapping[str, Any]:
        """Give the end state, as JSON values, for graders to look at."""
        ...
