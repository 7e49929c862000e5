"""Were the tools called in the right order?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.graders.settings import texts
from pytest_agenteval.graders.transcript.tool_usage import agent_calls, tool_list
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Check, Grade


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
        pairs = common_subsequence(self.tools, called)
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


def common_subsequence(wanted: Sequence[str], found: Sequence[str]) -> list[tuple[int, int]]:
    """Give a longest common subsequence, as pairs of places in both."""
    longest = _lengths(wanted, found)
    pairs, i, j = [], 0, 0
    while i < len(wanted) and j < len(found):
        if wanted[i] == found[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _lengths(wanted: Sequence[str], found: Sequence[str]) -> list[list[int]]:
    """Give, for every two ends of the sequences, how long their longest common subsequence is."""
    rows = [[0] * (len(found) + 1)]
    for step in reversed(wanted):
        below, row = rows[-1], [0]
        for place in range(len(found) - 1, -1, -1):
            same = step == found[place]
            row.append(below[place + 1] + 1 if same else max(below[place], row[-1]))
        rows.append(row[::-1])
    return rows[::-1]
