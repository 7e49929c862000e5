"""When two calls of a tool are one and the same, however they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.cassettes.param_matchers import ParamMatchers
from pytest_agenteval.graders.matching.equality import same
from pytest_agenteval.graders.matching.folding import folded_all
from pytest_agenteval.records.transcript import NOTHING

Call = tuple[str, Mapping[str, Any]]

SET = "ko_agentbench"


@dataclass(frozen=True, slots=True)
class ToolHabits:
    """What a tool takes for granted: its defaults, and the differences that its ``matching`` ignores.

    A search for more words is another search, also where a recording of the shorter one would answer it.
    """

    defaults: Mapping[str, Any]
    rules: ParamMatchers


@cache
def habits_of(tool: str) -> ToolHabits:
    """Give what is known of a packaged tool; of any other, nothing is taken for granted."""
    from pytest_agenteval.tools.toolsets import packaged

    known = packaged(SET).get(tool)
    if known is None:
        return ToolHabits(NOTHING, ParamMatchers())
    properties = known.spec.parameters.get("properties", NOTHING)
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    matching = {name: "folded" if rule == "contains" else rule for name, rule in known.matching.items()}
    return ToolHabits(defaults, ParamMatchers(matching))


def spelt_out(call: Call) -> dict[str, Any]:
    """Give a call's arguments with the tool's defaults, and without those that are null."""
    tool, args = call
    given = {name: value for name, value in args.items() if value is not None}
    found: dict[str, Any] = folded_all({**habits_of(tool).defaults, **given})
    return found


def equal_calls(call: Call, other: Call) -> bool:
    """Whether two calls ask for the same in other spellings, defaults left out or spelled out."""
    return call[0] == other[0] and same(spelt_out(call), spelt_out(other))


def same_call(call: Call, other: Call, task: KoTask) -> bool:
    """Whether two calls ask for the same, or differ only in what the tool's ``matching`` ignores.

    They do not where the task itself wants both: sorted anew, say.
    """
    if call[0] != other[0]:
        return False
    if equal_calls(call, other):
        return True
    if not habits_of(call[0]).rules.accepts(spelt_out(other), spelt_out(call)):
        return False
    golden = [(str(one["tool"]), one.get("args") or NOTHING) for one in task.golden_calls]
    return _nearest(call, golden) == _nearest(other, golden)


def _nearest(call: Call, golden: Sequence[Call]) -> int | None:
    """Give the place of the golden call that a call stands for, None where it stands for none."""
    rules, args = habits_of(call[0]).rules, spelt_out(call)
    wanted = [(at, spelt_out(one)) for at, one in enumerate(golden) if one[0] == call[0]]
    ranks = [(rules.nearness(one, args), -at) for at, one in wanted if rules.accepts(one, args)]
    return -max(ranks)[1] if ranks else None
