"""Was a tool called with the right arguments?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from pytest_agenteval.graders.formatting import brief
from pytest_agenteval.graders.matching.matcher_types import Matcher
from pytest_agenteval.graders.matching.matchers import check_value, matchers
from pytest_agenteval.graders.settings import WrongSetting, text_at
from pytest_agenteval.graders.transcript.tool_usage import agent_calls
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.text.json_values import ABSENT, normal_keys, normal_text

NAME = "call_arguments"
Which = Literal["any", "every", "first", "last"]


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Was a tool called with these arguments? The score is the share of arguments that are as they should be.

    ``args`` maps names of arguments to matchers; see ``matching/matchers.py``. Other arguments may be there.
    ``which`` says which of the tool's calls is asked: ``any`` (the best one counts), ``first``, ``last``, a
    number counted from 1, or ``every`` one, each argument of each call being one question. Calls that gave
    an error are not looked at, unless ``succeeded`` is false; calls that the task made never are. Where there
    is no such call, the score is 0 and, for ``every``, the grade is undecided.
    """

    tool: str
    args: Mapping[str, Any]
    which: Which | int = "any"
    succeeded: bool = True

    version: ClassVar[str] = "2"
    names_tools: ClassVar[str] = "tool"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        text_at(("tool",), self.tool)
        matchers("args", self.args)
        number = isinstance(self.which, int) and not isinstance(self.which, bool) and self.which > 0
        if not number and self.which not in get_args(Which):
            raise WrongSetting(("which",), "any, every, first, last or a number from 1", brief(self.which))

    def grade(self, evidence: Evidence) -> Grade:
        """Compare the arguments of the calls that are asked about."""
        tool = normal_text(self.tool)
        calls = [call for call in agent_calls(evidence, succeeded=self.succeeded) if call.tool == tool]
        numbered = self._numbered_calls(calls)
        expected = matchers("args", self.args)
        if not numbered:
            return self._without_calls(len(calls), expected)
        if self.which == "every":
            return Grade.from_checks(NAME, [check for call in numbered for check in _checks(*call, expected)])
        grades = [Grade.from_checks(NAME, _checks(*call, expected)) for call in numbered]
        return max(grades, key=lambda grade: grade.score or 0.0)

    def _numbered_calls(self, calls: Sequence[ToolCall]) -> list[tuple[int, ToolCall]]:
        """Give the calls that are asked about, each with its number."""
        numbered = list(enumerate(calls, start=1))
        if isinstance(self.which, int):
            return numbered[self.which - 1 : self.which]
        return {"first": numbered[:1], "last": numbered[-1:]}.get(self.which, numbered)

    def _without_calls(self, count: int, expected: Mapping[str, Matcher]) -> Grade:
        if self.which == "every":
            return Grade(NAME, None, f"{self.tool} was not called: nothing to check")
        found_text = "no call" if not count else f"calls: {count}"
        claim = f"{self.tool}, call {self.which}" if count else self.tool
        checks = [
            Check(f"{claim}: {name}", False, str(matcher), found_text) for name, matcher in expected.items()
        ]
        return Grade.from_checks(NAME, checks)


def _checks(number: int, call: ToolCall, expected: Mapping[str, Matcher]) -> list[Check]:
    args = normal_keys(call.args)
    return [
        check_value(
            f"{call.tool}, call {number}: {name}",
            matcher,
            args.get(name if name in args else normal_text(name), ABSENT),
        )
        for name, matcher in expected.items()
    ]
