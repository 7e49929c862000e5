"""One task of the benchmark as a task file of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.graders.settings import Mode
from pytest_agenteval.benchmarks.ko_agentbench.importer.cache import Cache
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask, actions
from pytest_agenteval.benchmarks.ko_agentbench.importer.conversation import evaluated_turn, given, named_turn
from pytest_agenteval.benchmarks.ko_agentbench.importer.findings import Finding
from pytest_agenteval.benchmarks.ko_agentbench.importer.keys import catalogue
from pytest_agenteval.benchmarks.ko_agentbench.importer.reference import solution

GRADED_BY = (
    "instruction",
    "golden_action",
    "golden_fields",
    "arg_schema",
    "resp_schema",
    "available_tools",
    "minimum_steps",
    "essential_tools",
    "data_flow",
    "minimum_sources",
    "error_injection",
    "fallback_options",
    "minimum_calls",
)
"""The benchmark's keys that its graders are given, as they stand in its files."""

TAKEN = frozenset({*GRADED_BY, "task_id", "task_level", "task_category", "conversation_tracking"})
FAULTS = frozenset({"timeout", "complete_unavailable", "data_not_available"})
OTHER_FAULT = "complete_unavailable"
MOST_OF_A_TITLE = 80
WRITTEN_BY_HAND = "manual"


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A task file's content, where it goes, and what was not taken over as it stood."""

    id: str
    level: str
    content: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()


def written_tasks(tasks: Sequence[SourceTask], cache: Cache, mode: Mode = "default") -> list[WrittenTask]:
    """Write each task; of those with the same id only the first."""
    first: dict[str, SourceTask] = {}
    for task in tasks:
        first.setdefault(task.id, task)
    return [_written(task, cache, mode) for task in first.values()]


def grader_config(task: SourceTask, mode: Mode = "default") -> dict[str, Any]:
    """Give the settings of the task's graders: the benchmark's own keys, and the level of its file."""
    said = {key: task.fields[key] for key in GRADED_BY if task.fields.get(key) is not None}
    return {"task_level": task.number, **({"mode": mode} if mode != "default" else {}), **said}


def offered(task: SourceTask) -> list[str]:
    """Give the tools to offer: the declared candidates in L2, else those of the golden path and the turns."""
    told = [action["tool"] for turn in task.turns for action in actions(turn)]
    expected = [(test.get("expected_action") or {}).get("tool") for test in task.context_tests]
    declared = task.fields.get("available_tools") or () if task.level == "L2" else ()
    fallbacks = [call["tool"] for call in task.fallbacks]
    golden = [call["tool"] for call in task.golden]
    names = dict.fromkeys([*declared, *golden, *told, *filter(None, expected), *fallbacks])
    return [name for name in names if name in catalogue()]


def left_out(tasks: Sequence[SourceTask]) -> Counter[str]:
    """Count the keys of the data that no task file holds."""
    return Counter(key for task in tasks for key in task.fields if key not in TAKEN)


def _written(task: SourceTask, cache: Cache, mode: Mode) -> WrittenTask:
    solved = solution(task, cache)
    faults, changes = _faults(task), [*_changes(task), *solved.findings]
    content: dict[str, Any] = {
        "id": task.id,
        "description": _title(task),
        "metadata": {"category": str(task.fields.get("task_category") or ""), "level": task.level},
        "input": _input(task),
        "settings": {"tools": offered(task)},
        **({"faults": faults} if faults else {}),
        "reference_solution": {"source": WRITTEN_BY_HAND, "turns": solved.turns},
        "graders": [{"name": f"ko_{task.level}", "config": grader_config(task, mode)}],
    }
    return WrittenTask(task.id, task.level, content, tuple(changes))


def _input(task: SourceTask) -> dict[str, Any]:
    here = evaluated_turn(task)
    return {"turns": given(task, here)} if here else {"content": task.fields["instruction"]}


def _title(task: SourceTask) -> str:
    here = evaluated_turn(task)
    text = " ".join(str(task.turns[here - 1].get("content") if here else task.fields["instruction"]).split())
    return text if len(text) <= MOST_OF_A_TITLE else f"{text[: MOST_OF_A_TITLE - 1]}…"


def _faults(task: SourceTask) -> list[dict[str, str]]:
    injected = task.fields.get("error_injection") or {}
    if not injected.get("tool"):
        return []
    kind = injected.get("error_type")
    return [{"tool": injected["tool"], "type": kind if kind in FAULTS else OTHER_FAULT}]


def _changes(task: SourceTask) -> Iterator[Finding]:
    """Say what the task file says otherwise than the benchmark's."""
    for text in _changed(task):
        yield Finding(task.id, text, "change")


def _changed(task: SourceTask) -> Iterator[str]:
    if task.fields.get("task_level") != task.number:
        yield f"its level is that of its file, {task.level}"
    named, here = named_turn(task), evaluated_turn(task)
    if task.turns and here != named:
        yield f"evaluated at turn {here}, the last user turn before the named turn {named}"
    if here and here < len(task.turns):
        yield f"what is said after turn {here} is not given: it holds the answer"
    kind = (task.fields.get("error_injection") or {}).get("error_type")
    if kind is not None and kind not in FAULTS:
        yield f"the fault {kind!r} is acted out as {OTHER_FAULT}"
    if task.level == "L5" and task.fallbacks:
        yield "the fallback tools are offered from the start, not in a second conversation"
    if task.level == "L2" and task.fields.get("available_tools"):
        yield "all declared tools are offered, not only the golden one"
