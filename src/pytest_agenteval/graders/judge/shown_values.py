"""What a grader would show its judges of a trial: noted by a judge that says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.json_values import json_digest


class ShownValues(FrozenValue, frozen=True):
    """A rubric, and the values by name that a grader puts into it."""

    rubric: Rubric
    values: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A digest of both: what judges would be asked twice has the same."""
        return json_digest([self.rubric.digest(), dict(self.values)])


class SilentJudge:
    """A judge that notes all that it is shown and replies with nothing, so that no grade comes of it.

    Whoever grades with it learns what a judge of this evidence would be shown: the same values, with the
    same cuts, for they come the same way.
    """

    def __init__(self) -> None:
        self.shown: list[ShownValues] = []

    @property
    def model(self) -> Model:
        """Nobody."""
        return Model("nobody", "nobody", offline=True)

    @property
    def chat(self) -> SilentJudge:
        """Itself."""
        return self

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give an empty reply, which nobody can read as a verdict."""
        return Reply("")


def note_shown(judges: Iterable[Judge], rubric: Rubric, values: Mapping[str, str]) -> None:
    """Let those who only take note see the values before they are written into a prompt."""
    for judge in judges:
        if isinstance(judge, SilentJudge):
            judge.shown.append(ShownValues(rubric, dict(values)))
