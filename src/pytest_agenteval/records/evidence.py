"""All that a grader may look at."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.records.outcome import Outcome, Tree, TreeDiff
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.transcript import Message, ToolCall, Transcript, Usage


class Noted:
    """Something on which notes can be left that are no part of it: no copy, file or comparison has them."""

    __slots__ = ("_notes",)
    _notes: dict[str, Any]

    @property
    def notes(self) -> dict[str, Any]:
        """What graders of one trial leave for each other, such as a judgement under way."""
        try:
            found = self._notes
        except AttributeError:
            found = {}
            object.__setattr__(self, "_notes", found)  # what carries it is frozen
        return found


@dataclass(frozen=True, slots=True)
class Evidence(Record, Noted):
    """What a trial left behind: the task's input, the transcript and the outcome."""

    task_input: Mapping[str, Any] = field(hash=False)
    transcript: Transcript
    outcome: Outcome

    def own_copy(self) -> Evidence:
        """Give the same evidence with maps and lists of its own; the trees, which are frozen, are shared."""
        trees = {id(tree): tree for tree in (self.before, self.after)}
        return deepcopy(self, trees)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message, in order."""
        return self.transcript.messages

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every tool call with its result, in the order the model listed them."""
        return self.transcript.calls

    @property
    def usage(self) -> Usage:
        """Tokens, money and attempts of the whole trial."""
        return self.transcript.usage

    @property
    def answer(self) -> str:
        """The agent's last words."""
        return self.outcome.answer.text

    @property
    def state(self) -> Mapping[str, Any]:
        """What the agent says of its own end state."""
        return self.outcome.answer.state

    @property
    def before(self) -> Tree:
        """The workspace as the trial found it."""
        return self.outcome.before

    @property
    def after(self) -> Tree:
        """The workspace as the trial left it."""
        return self.outcome.after

    @property
    def diff(self) -> TreeDiff:
        """Which files came, changed and went."""
        return self.outcome.diff
