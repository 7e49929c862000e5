"""What an agent is, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.factories import Trait, are_names, is_map_of_texts
from pytest_agenteval.records.limits import Budget, Clock
from pytest_agenteval.records.plan import Model, TrialKey
from pytest_agenteval.records.prompts import Prompts
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.tools.toolbox import ToolBox


class NextTurn(Protocol):
    """Returns the next user message."""

    def __call__(self, replied: str | None = None) -> Awaitable[str | None]:
        """Give it, or None where there is no more; ``replied`` is the agent's reply to the last one.

        A user whom a model plays answers that; without it, the last reply of the agent's model.
        """


class AgentContext(FrozenValue, frozen=True):
    """Everything that an agent may use in one trial.

    ``workspace`` is the trial's own tree, made when first used; ``tools`` the box through which every call
    goes; ``chat`` the model; ``turns`` gives the next user message, or None when there is no more.
    ``transcript`` holds the messages and calls so far: chat and tool box write it, an agent only reads it.
    ``trial`` and ``model`` say which trial this is.
    """

    workspace: Workspace
    tools: ToolBox
    chat: Chat
    clock: Clock
    limits: Budget
    prompts: Prompts
    turns: NextTurn
    transcript: Recorder
    model: Model
    trial: TrialKey

    @property
    def path(self) -> Path:
        """The root of the workspace; asking for it makes the tree."""
        return self.workspace.path


AgentAnswer: TypeAlias = Answer | str | Mapping[str, Any] | None
"""What an agent may return: an ``Answer``, a text, a map, or None.

The map has some of the keys ``answer``, ``state``, ``messages`` and ``usage``; None is for
an agent that works on files and has no text.
"""

AgentFunction: TypeAlias = Callable[[Mapping[str, Any], AgentContext], AgentAnswer | Awaitable[AgentAnswer]]
"""An agent that is a function of the task's input and the context."""


class Agent(Protocol):
    """Acts in a trial: the protocol of agents.

    One object serves many trials at once: it keeps nothing of a trial.

    What else its class may say stands in ``AgentTraits``; one that can tell its end state is a
    ``ReportsEndState`` too, one that completes or checks a task's input ``PreparesInput`` or ``ChecksInput``.
    """

    def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> AgentAnswer | Awaitable[AgentAnswer]:
        """Do the task and give the answer; a plain method runs in a thread of its own."""


class AgentTraits(Protocol):
    """Optional attributes of an agent's class or object.

    ``templates`` are its own prompt templates by name, replaced where task, suite or variant say so and
    rendered through ``ctx.prompts``. ``prompt_names`` are prompts that it reads and has no text for. A prompt
    file of another name is an error, because the agent would not read it. ``tools`` names the tools to
    offer, in this order; without it, the agent gets all tools of the suite. ``loop`` is ``own`` (the
    default) for an event loop in each trial, or ``shared`` for one loop of all such agents. All four are
    read before the trial's clock starts, the first two before the first trial.
    """

    templates: Mapping[str, str]
    prompt_names: Sequence[str]
    tools: Sequence[str]
    loop: str


Read: TypeAlias = Callable[[str], str | None]
"""Gives the text of a file of the starting workspace by its path; None where there is none."""

InputProblem: TypeAlias = tuple[KeyPath, str, str] | tuple[KeyPath, str, str, str]
"""A problem of an input: its key, expected, found, and a hint."""


class PreparesInput(Protocol):
    """An agent class that completes a task's input before its trials."""

    @staticmethod
    def prepared(
        task_input: Mapping[str, Any], task_id: str, clock: str | None, read: Read
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Give the whole input, and texts to be written into the starting workspace, by their paths.

        Called once for each task, while task files are read. ``clock`` is the task's time in ISO 8601.
        """


class ChecksInput(Protocol):
    """An agent class that checks a task's input before any trial."""

    @staticmethod
    def input_problems(task_input: Mapping[str, Any]) -> Sequence[InputProblem]:
        """Say all that is wrong; called once for each task, while task files are read."""


@runtime_checkable
class ReportsEndState(Protocol):
    """An agent that reads its end state from the workspace and transcript, also after a crash."""

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Mapping[str, Any]:
        """Give the end state, as JSON values, for graders to look at.

        Called once, when the agent has answered, crashed, or reached a limit. It is laid over the state of
        the agent's answer.
        """


AGENT_TRAITS = (
    Trait("templates", "a map from names of prompts to texts", is_map_of_texts),
    Trait("prompt_names", "a list of names", are_names),
    Trait("tools", "a list of names", are_names),
    Trait("loop", "`own` or `shared`", lambda loop: not isinstance(loop, str) or loop in ("own", "shared")),
    Trait("end_state", "a method (task_input, ctx)", callable),
    Trait("prepared", "a static method (task_input, task_id, clock, read)", callable),
    Trait("input_problems", "a static method (task_input)", callable),
)
"""What ``AgentTraits`` and the protocols beside it may hold."""


def agent_trait(agent: object, name: str) -> Any:
    """Give what an agent, its class or its factory says of itself; None where it says nothing."""
    return getattr(agent, name, None)


def is_adapter(agent: object) -> bool:
    """Whether an agent stands for one that is not ours: ``implementation`` is what the user wrote."""
    return hasattr(agent, "implementation")
