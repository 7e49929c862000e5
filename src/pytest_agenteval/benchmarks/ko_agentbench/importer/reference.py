"""How a task can be solved: the golden calls as turns that the offline model ``oracle`` acts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.cache import Cache, CachedCall
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Fields,
    SourceTask,
    evaluated_turn,
    turn_at,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.findings import Finding
from pytest_agenteval.benchmarks.ko_agentbench.importer.placeholders import (
    GoldenPath,
    escape,
    in_step_order,
    recorded_value,
    steps,
)
from pytest_agenteval.canonical import compact
from pytest_agenteval.records.record import FrozenValue

MAX_FACT_CHARS = 160
Turns = list[dict[str, Any]]


class Solution(FrozenValue, frozen=True):
    """The turns, and what could not be made of the data as it stands."""

    turns: Turns
    findings: tuple[Finding, ...] = ()


def solve(task: SourceTask, cache: Cache) -> Solution:
    """Give the turns that follow the golden path and end with an answer."""
    if task.turns:
        return _conversation(task, cache)
    if task.level == "L5":
        return _around_the_failure(task, cache)
    calls = in_step_order(task.golden)
    facts = {str(one.get("tool")): one.get("fields") or () for one in _maps(task.fields.get("golden_fields"))}
    path = GoldenPath(calls, _maps(task.fields.get("data_flow")), cache, facts)
    path.walk()
    groups = steps(calls) if any("step" in call for call in calls) else [list(range(len(calls)))]
    turns: Turns = [
        {"calls": [_call(calls[place], path.written[place]) for place in group]} for group in groups if group
    ]
    return Solution([*turns, _answer(task, path.answers)], tuple(_findings(task, path)))


def _conversation(task: SourceTask, cache: Cache) -> Solution:
    """Answer the evaluated turn from what was said before, with the call that is expected there, if any."""
    here = evaluated_turn(task)
    expected = [
        test["expected_action"]
        for test in task.context_tests
        if test.get("expected_action") and test.get("turn", 0) >= here
    ]
    calls = [_call(one, escape(one.get("args") or {})) for one in expected[:1] if one.get("tool")]
    answers = [cache.find(call["tool"], call["args"]) for call in calls]
    told = (turn_at(task, here + 1) or {}).get("content")
    last = {"text": told} if told else _answer(task, answers)
    return Solution([*([{"calls": calls}] if calls else []), last])


def _around_the_failure(task: SourceTask, cache: Cache) -> Solution:
    """Make the call that fails, then the call that stands in for it: a recorded one, if there is one."""
    options = task.fallbacks
    found = [cache.find(one["tool"], one.get("args") or {}) for one in options]
    chosen = next((place for place, answer in enumerate(found) if answer is not None), 0)
    turns = [{"calls": [_call(one, escape(one.get("args") or {}))]} for one in task.golden[:1]]
    turns += [{"calls": [_call(one, escape(one.get("args") or {}))]} for one in options[chosen : chosen + 1]]
    return Solution([*turns, _answer(task, found[chosen : chosen + 1])])


def _call(call: Fields, args: Any) -> dict[str, Any]:
    return {"tool": call["tool"], "args": args}


def _answer(task: SourceTask, answers: Sequence[CachedCall | None]) -> dict[str, Any]:
    """Say the golden facts as they were recorded; where nothing was, say which they are."""
    wanted = _maps(task.fields.get("golden_fields"))
    facts = list(_facts(wanted, [answer for answer in answers if answer is not None]))
    if facts:
        return {"text": "확인한 내용: " + "; ".join(facts)}
    names = "; ".join(f"{one.get('tool')}의 {', '.join(map(str, one.get('fields') or ()))}" for one in wanted)
    return {"text": f"녹화된 응답에서 찾지 못한 내용: {names}" if names else "확인할 내용이 없습니다."}


def _facts(wanted: Iterable[Fields], answers: Sequence[CachedCall]) -> Iterator[str]:
    for one in wanted:
        for answer in (answer for answer in answers if answer.tool == one.get("tool")):
            for path in one.get("fields") or ():
                value = recorded_value(answer.data, str(path))
                if value not in (None, ""):
                    yield f"{path} = {_short(value)}"


def _findings(task: SourceTask, path: GoldenPath) -> Iterator[Finding]:
    for text in path.lost:
        yield Finding(
            task.id, f"a placeholder leads nowhere in the recorded answers: {text}; it stays as it is"
        )
    for text in path.spaced:
        said = f"the reference solution has a space after the reference in {text!r}, which runs on"
        yield Finding(task.id, said, "change")


def _short(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else compact(value)).split())
    return text if len(text) <= MAX_FACT_CHARS else f"{text[: MAX_FACT_CHARS - 1]}…"


def _maps(value: Any) -> list[Fields]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
