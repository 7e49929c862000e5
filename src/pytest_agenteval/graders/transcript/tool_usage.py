"""Were the tools called that had to be, in the right order, and not those that must not be?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from pytest_agenteval.graders.formatting import cut
from pytest_agenteval.graders.settings import WrongSetting, count_at, texts
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.text.json_values import normal_text


def agent_calls(evidence: Evidence, *, succeeded: bool) -> list[ToolCall]:
    """Give the agent's calls in the order the model listed them, or only those that gave no error.

    The names of their tools are in normal form. Calls that the task itself made, to set the stage, are not
    the agent's doing.
    """
    calls = (call for call in evidence.calls if call.by == "agent")
    return [
        call if call.tool.isascii() else replace(call, tool=normal_text(call.tool))
        for call in calls
        if not succeeded or call.error is None
    ]


def tool_list(tools: Iterable[str]) -> str:
    """List tools in one short line."""
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
    threshold: ClassVar[float] = 1.0
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))
        count_at(("at_least",), self.at_least, least=0)
        if self.at_most is not None:
            count_at(("at_most",), self.at_most, least=self.at_least)
        elif self.at_least == 0:
            raise WrongSetting(("at_least",), "1 or more, or at_most beside it", "0")

    def grade(self, evidence: Evidence) -> Grade:
        """Count the calls of each tool."""
        counts = Counter(call.tool for call in agent_calls(evidence, succeeded=self.succeeded))
        every = Counter(call.tool for call in agent_calls(evidence, succeeded=False))
        return Grade.from_checks("tool_called", [self._check(tool, counts, every) for tool in self.tools])

    def _check(self, tool: str, counts: Counter[str], every: Counter[str]) -> Check:
        count = counts[normal_text(tool)]
        failed = every[normal_text(tool)] - count
        enough = count >= self.at_least and (self.at_most is None or count <= self.at_most)
        calls_text = count_text(count) + (f", and {count_text(failed)} with an error" if failed else "")
        return Check(f"{tool} was called", enough, self._expected(), calls_text)

    def _expected(self) -> str:
        if self.at_most is None:
            return "once or more" if self.at_least == 1 else f"{self.at_least} times or more"
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
    threshold: ClassVar[float] = 1.0
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))

    def grade(self, evidence: Evidence) -> Grade:
        """Look for calls of each tool."""
        counts = Counter(call.tool for call in agent_calls(evidence, succeeded=self.succeeded))
        checks = [
            Check(f"{tool} was not called", not count, "never", count_text(count))
            for tool in self.tools
            for count in [counts[normal_text(tool)]]
        ]
        return Grade.from_checks("tool_not_called", checks)


def count_text(count: int) -> str:
    """Say how often."""
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
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", texts("tools", self.tools))

    def grade(self, evidence: Evidence) -> Grade:
        """Line the calls up with the steps."""
        called = [call.tool for call in agent_calls(evidence, succeeded=self.succeeded)]
        pairs = common_subsequence(list(map(normal_text, self.tools)), called)
        steps, places = {step for step, _ in pairs}, {place for _, place in pairs}
        checks = [
            Check(f"step {number}: {tool}", number - 1 in steps, tool, tool_list(called))
            for number, tool in enumerate(self.tools, start=1)
        ]
        if self.exact:
            others = [tool for place, tool in enumerate(called) if place not in places]
            checks.append(Check("no other call", not others, "no call", tool_list(others)))
        whole = max(len(self.tools), len(called)) if self.exact else len(self.tools)
        rationale = Grade.from_checks("calls_in_order", checks).rationale
        return Grade("calls_in_order", len(pairs) / whole, rationale, tuple(checks))


def common_subsequence(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Give a longest common subsequence, as pairs of places in both."""
    longest = _lengths(left, right)
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


def _lengths(left: Sequence[str], right: Sequence[str]) -> list[list[int]]:
    """Give, for every two ends of the sequences, how long their longest common subsequence is."""
    rows = [[0] * (len(right) + 1)]
    for step in reversed(left):
        below, row = rows[-1], [0]
        for place in range(len(right) - 1, -1, -1):
            same = step == right[place]
            row.append(below[place + 1] + 1 if same else max(below[place], row[-1]))
        rows.append(row[::-1])
    return rows[::-1]
