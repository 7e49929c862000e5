"""Graders of the transcript: which tools were called, in which order, with which arguments, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from msgspec.structs import replace

from pytest_agenteval.graders.grader_settings import WrongSetting, brief, count_at, cut, text_at, texts
from pytest_agenteval.graders.matchers import Matcher, check_value, matchers
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.text.json_values import ABSENT, normal_keys, normal_text

ONCE_OR_MORE = "once or more"


def agent_calls(evidence: Evidence, *, succeeded: bool) -> list[ToolCall]:
    """Give the agent's calls in the model's order: all of them, or only those without an error.

    The names of their tools are in normal form. Calls that the task seeded are left out.
    """
    calls = (call for call in evidence.calls if call.by == "agent")
    return [
        # An ASCII name is in normal form already, and most are: only the others are worth a copy.
        call if call.tool.isascii() else replace(call, tool=normal_text(call.tool))
        for call in calls
        if not succeeded or call.error is None
    ]


def _tool_list(tools: Iterable[str]) -> str:
    return cut(", ".join(tools)) or "no call"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Was each of these tools called often enough, and not too often? The score is the share that was.

    Calls that gave an error do not count, unless ``succeeded`` is false; calls that the task made never do.
    An agent that called nothing has called none of them: there is always something to judge.
    """

    tools: Sequence[str]
    at_least: int = 1
    at_most: int | None = None
    succeeded: bool = True

    version: ClassVar[str] = "1"
    names_tools: ClassVar[str] = "tools"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))
        count_at(("at_least",), self.at_least, least=0)
        if self.at_most is not None:
            count_at(("at_most",), self.at_most, least=self.at_least)
        # At least 0 without an upper limit would pass whatever the agent did.
        elif self.at_least == 0:
            raise WrongSetting(("at_least",), "1 or more, or at_most beside it", "0")

    def grade(self, evidence: Evidence) -> Grade:
        counts = Counter(call.tool for call in agent_calls(evidence, succeeded=self.succeeded))
        every = Counter(call.tool for call in agent_calls(evidence, succeeded=False))
        return Grade.from_checks("tool_called", [self._check(tool, counts, every) for tool in self.tools])

    def _check(self, tool: str, counts: Counter[str], every: Counter[str]) -> Check:
        count = counts[normal_text(tool)]
        # Failed calls stand in the reason: they are the likely cause of a miss.
        failed = every[normal_text(tool)] - count
        enough = count >= self.at_least and (self.at_most is None or count <= self.at_most)
        calls_text = count_text(count) + (f", and {count_text(failed)} with an error" if failed else "")
        expected = self._expected()
        claim = f"{tool} was called" + (f" {expected}" if expected != ONCE_OR_MORE else "")
        return Check(claim, enough, expected, calls_text)

    def _expected(self) -> str:
        if self.at_most is None:
            return ONCE_OR_MORE if self.at_least == 1 else f"{self.at_least} times or more"
        if self.at_least == self.at_most:
            return count_text(self.at_most)
        return f"{self.at_least} to {self.at_most} times"


@dataclass(frozen=True, slots=True)
class ToolNotCalled:
    """Was each of these tools left alone? The score is the share that was.

    A call that gave an error was tried, and counts; with ``succeeded``, only calls without an error count.
    Calls that the task made never do. An agent that called nothing has left all of them alone, and scores 1.
    """

    tools: Sequence[str]
    succeeded: bool = False

    version: ClassVar[str] = "1"
    names_tools: ClassVar[str] = "tools"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))

    def grade(self, evidence: Evidence) -> Grade:
        counts = Counter(call.tool for call in agent_calls(evidence, succeeded=self.succeeded))
        times = [(tool, counts[normal_text(tool)]) for tool in self.tools]
        checks = [Check(f"{tool} was not called", not n, "never", count_text(n)) for tool, n in times]
        return Grade.from_checks("tool_not_called", checks)


def count_text(count: int) -> str:
    """Write a count as ``never``, ``once`` or ``3 times``."""
    return {0: "never", 1: "once"}.get(count, f"{count} times")


@dataclass(frozen=True, slots=True)
class CallsInOrder:
    """Were these tools called one after the other? The score is the share of steps that stands in order.

    Counted is the longest sequence of steps that the calls hold in this order, whatever lies between: where
    search, fetch and save were wanted, fetch and save alone are 2 of 3. With ``exact``, calls between count
    too: the steps are divided by the number of all calls, where that is larger. Calls that gave an error are
    not looked at, unless ``succeeded`` is false; calls that the task made never are. An agent that called
    nothing scores 0.
    """

    tools: Sequence[str]
    exact: bool = False
    succeeded: bool = True

    version: ClassVar[str] = "1"
    names_tools: ClassVar[str] = "tools"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))

    def grade(self, evidence: Evidence) -> Grade:
        called = [call.tool for call in agent_calls(evidence, succeeded=self.succeeded)]
        pairs = common_subsequence(list(map(normal_text, self.tools)), called)
        steps, places = {step for step, _ in pairs}, {place for _, place in pairs}
        checks = [
            Check(f"step {number}: {tool}", number - 1 in steps, tool, _tool_list(called))
            for number, tool in enumerate(self.tools, start=1)
        ]
        if self.exact:
            others = [tool for place, tool in enumerate(called) if place not in places]
            checks.append(Check("no other call", not others, "no call", _tool_list(others)))
        # With exact, each call between the steps costs as much as a missing step.
        whole = max(len(self.tools), len(called)) if self.exact else len(self.tools)
        # The score comes from the subsequence: from_checks
        # would divide by the checks, of which exact adds one.
        rationale = Grade.from_checks("calls_in_order", checks).rationale
        return Grade("calls_in_order", len(pairs) / whole, rationale, tuple(checks))


def common_subsequence(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Give a longest common subsequence, as pairs of places in ``left`` and ``right``."""
    # For every two ends of the sequences, the length of their longest common subsequence. The walk below
    # follows these lengths from the start.
    rows = [[0] * (len(right) + 1)]
    for step in reversed(left):
        below, row = rows[-1], [0]
        for place in range(len(right) - 1, -1, -1):
            same = step == right[place]
            row.append(below[place + 1] + 1 if same else max(below[place], row[-1]))
        rows.append(row[::-1])
    longest = rows[::-1]
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


NAME = "call_arguments"
Which = Literal["any", "every", "first", "last"]


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Was a tool called with these arguments? The score is the share of arguments that are as they should be.

    ``args`` maps names of arguments to matchers; see ``graders/matchers.py``. Other arguments may be there.
    ``which`` selects the calls to compare: ``any`` (the best one counts), ``first``, ``last``, a number
    counted from 1, or ``every`` call, each argument of each call being one question. Calls that gave an error
    are not looked at, unless ``succeeded`` is false; calls that the task made never are. Where there is no
    such call, the score is 0 and, for ``every``, the grade is undecided.
    """

    tool: str
    args: Mapping[str, Any]
    which: Which | int = "any"
    succeeded: bool = True

    version: ClassVar[str] = "2"
    names_tools: ClassVar[str] = "tool"

    def __post_init__(self) -> None:
        text_at(("tool",), self.tool)
        matchers("args", self.args)
        number = isinstance(self.which, int) and not isinstance(self.which, bool) and self.which > 0
        if not number and self.which not in get_args(Which):
            raise WrongSetting(("which",), "any, every, first, last or a number from 1", brief(self.which))

    def grade(self, evidence: Evidence) -> Grade:
        tool = normal_text(self.tool)
        calls = [call for call in agent_calls(evidence, succeeded=self.succeeded) if call.tool == tool]
        numbered = list(enumerate(calls, start=1))
        if isinstance(self.which, int):
            numbered = numbered[self.which - 1 : self.which]
        elif self.which in ("first", "last"):
            numbered = numbered[:1] if self.which == "first" else numbered[-1:]
        expected = matchers("args", self.args)
        if not numbered:
            if self.which == "every":
                # Where nothing was called, nothing was called
                # wrongly. The call itself is a matter of tool_called.
                return Grade(NAME, None, f"{self.tool} was not called: nothing to check")
            found_text = f"calls: {len(calls)}" if calls else "no call"
            claim = f"{self.tool}, call {self.which}" if calls else self.tool
            checks = [
                Check(f"{claim}: {name}", False, str(matcher), found_text)
                for name, matcher in expected.items()
            ]
            return Grade.from_checks(NAME, checks)
        if self.which == "every":
            return Grade.from_checks(NAME, [check for call in numbered for check in _checks(*call, expected)])
        # Of several calls the best one counts: an agent that corrects itself did make the right call.
        grades = [Grade.from_checks(NAME, _checks(*call, expected)) for call in numbered]
        return max(grades, key=lambda grade: grade.score or 0.0)


def _checks(number: int, call: ToolCall, expected: Mapping[str, Matcher]) -> list[Check]:
    args = normal_keys(call.args)
    checks = []
    for name, matcher in expected.items():
        # The author's spelling comes first: one call may have
        # two arguments whose names differ in spelling only.
        value = args.get(name if name in args else normal_text(name), ABSENT)
        checks.append(check_value(f"{call.tool}, call {number}: {name}", matcher, value))
    return checks


@dataclass(frozen=True, slots=True)
class StepCeiling:
    """Did the agent ask its model at most so often?

    Replies to the agent are counted, those of judges are not. Where no request was seen, as with an agent
    that calls its model by itself, the grade is undecided.
    """

    steps: int

    version: ClassVar[str] = "1"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("steps",), self.steps, least=1)

    def grade(self, evidence: Evidence) -> Grade:
        used = len(evidence.transcript.asks)
        if not used:
            return Grade("step_ceiling", None, "no model request was recorded")
        return _ceiling_grade("step_ceiling", "steps", self.steps, used)


@dataclass(frozen=True, slots=True)
class CallCeiling:
    """Did the agent make at most so many tool calls?

    Calls that gave an error count, calls that the task made do not. An agent without calls is at 0, and
    scores 1. With a ceiling of 0, any call scores 0.
    """

    calls: int

    version: ClassVar[str] = "1"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("calls",), self.calls, least=0)

    def grade(self, evidence: Evidence) -> Grade:
        used = len(agent_calls(evidence, succeeded=False))
        return _ceiling_grade("call_ceiling", "calls", self.calls, used)


@dataclass(frozen=True, slots=True)
class TokenCeiling:
    """Did the agent's model take at most so many tokens, in and out together?

    Judges' tokens do not count. Where any reply came without a count, as from an offline model or a recording
    without usage, or no reply was seen, the grade is undecided.
    """

    tokens: int

    version: ClassVar[str] = "1"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count_at(("tokens",), self.tokens, least=1)

    def grade(self, evidence: Evidence) -> Grade:
        asks = evidence.transcript.asks
        # A reply without a count took an unknown number of tokens, not 0: a sum could pass by mistake.
        uncounted = sum(not ask.usage.tokens for ask in asks)
        if uncounted or not asks:
            reason = f"{uncounted} of {len(asks)} replies have no token counts"
            return Grade("token_ceiling", None, reason)
        used = sum(ask.usage.known_tokens for ask in asks)
        return _ceiling_grade("token_ceiling", "tokens", self.tokens, used)


def _ceiling_grade(grader: str, unit: str, ceiling: int, used: int) -> Grade:
    check = Check(f"at most {ceiling} {unit}", used <= ceiling, f"at most {ceiling}", str(used))
    why = f"{used} of at most {ceiling} {unit}"
    return Grade(grader, budget_score(ceiling, used), why if check.passed else str(check), (check,))


def budget_score(ceiling: int, used: int) -> float:
    """Give 1 up to the ceiling, and beyond it the ceiling's share of what was used."""
    # Using more never pays, and twice as much is worth half.
    return 1.0 if used <= ceiling else ceiling / used
