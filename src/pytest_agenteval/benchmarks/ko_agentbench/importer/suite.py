"""The suite on disk: task files, suite.yaml, a cassette for each tool and, where none is, a pytest.ini."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval import Kind, RecordedCall, make_project, write_tool_cassette, write_yaml
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Cache,
    Finding,
    SourceTask,
    actions,
    catalogue,
    declared_turn,
    evaluated_turn,
    turns_until,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.reference import on_one_line, solve
from pytest_agenteval.records.record import FrozenValue


def write_cassettes(cache: Cache, folder: Path) -> list[Path]:
    """Write ``TOOL.json`` for each tool with any recorded call; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for tool in sorted(cache.entries):
        calls = []
        for call in cache.of(tool):
            # The benchmark itself no longer finds a stale answer, because its key has changed.
            remarks = {"recorded_at": call.created_at, **({"stale": True} if call.stale else {})}
            calls.append(RecordedCall(call.tool, call.args, call.data, remarks))
        paths.append(write_tool_cassette(folder / f"{tool}.json", calls))
    return paths


# Keys of the benchmark's files that its graders take as settings, unchanged.
GRADED_BY = (
    "instruction", "golden_action", "golden_fields", "arg_schema", "resp_schema", "available_tools",
    "minimum_steps", "essential_tools", "data_flow", "minimum_sources", "error_injection",
    "fallback_options", "minimum_calls",
)  # fmt: skip
# The kinds of failure in the data that we can act out; any other becomes OTHER_FAULT, and the report says so.
FAULTS = frozenset({"timeout", "complete_unavailable", "data_not_available"})
OTHER_FAULT = "complete_unavailable"
MAX_TITLE_CHARS = 80


class ImportedTask(FrozenValue, frozen=True):
    """A task file's content, where it goes, and what was not taken over as it stood."""

    id: str
    level: str
    content: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()


def task_files(tasks: Sequence[SourceTask], cache: Cache, mode: str = "default") -> list[ImportedTask]:
    """Write each task; of those with the same id only the first."""
    first: dict[str, SourceTask] = {}
    for task in tasks:
        first.setdefault(task.id, task)
    return [_task_file(task, cache, mode) for task in first.values()]


def offered_tools(task: SourceTask) -> list[str]:
    """Give the tools to offer: the declared candidates in L2, else those of the golden path and the turns."""
    in_turns = [action["tool"] for turn in task.turns for action in actions(turn)]
    expected = [(test.get("expected_action") or {}).get("tool") for test in task.context_tests]
    # The loader of the benchmark puts the golden tools in the place of the declared ones, so that in level 2
    # nothing is left to choose from.
    declared = task.fields.get("available_tools") or () if task.level == "L2" else ()
    # The benchmark offers these in a second conversation, after
    # the failure: so late, no agent can turn to them at once.
    fallbacks = [call["tool"] for call in task.fallbacks]
    golden = [call["tool"] for call in task.golden]
    names = dict.fromkeys([*declared, *golden, *in_turns, *filter(None, expected), *fallbacks])
    return [name for name in names if name in catalogue()]


def _task_file(task: SourceTask, cache: Cache, mode: str) -> ImportedTask:
    (turns, findings), here = solve(task, cache), evaluated_turn(task)
    injected = task.fields.get("error_injection") or {}
    kind = injected.get("error_type")
    fault = {"tool": injected.get("tool"), "type": kind if kind in FAULTS else OTHER_FAULT}
    question = task.turns[here - 1].get("content") if here else task.fields["instruction"]
    # The settings of its graders are the benchmark's own keys, and the level of its file.
    config = {"task_level": task.number, **({"mode": mode} if mode != "default" else {})}
    config |= {key: task.fields[key] for key in GRADED_BY if task.fields.get(key) is not None}
    content: dict[str, Any] = {
        "id": task.id,
        "description": on_one_line(str(question), MAX_TITLE_CHARS),
        "metadata": {"category": str(task.fields.get("task_category") or ""), "level": task.level},
        "input": {"turns": turns_until(task, here)} if here else {"content": task.fields["instruction"]},
        "settings": {"tools": offered_tools(task)},
        **({"faults": [fault]} if fault["tool"] else {}),
        "reference_solution": {"source": "manual", "turns": turns},
        "graders": [{"name": f"ko_{task.level}", "config": config}],
    }
    changes = [Finding(task.id, text, is_change=True) for text in _changes(task)]
    return ImportedTask(task.id, task.level, content, (*changes, *findings))


def _changes(task: SourceTask) -> Iterator[str]:
    """Say where the task file differs from the benchmark's."""
    if task.fields.get("task_level") != task.number:
        yield f"its level is that of its file, {task.level}"
    declared, here = declared_turn(task), evaluated_turn(task)
    if task.turns and here != declared:
        yield f"evaluated at turn {here}, the last user turn before the named turn {declared}"
    if here and here < len(task.turns):
        yield f"what is said after turn {here} is not given: it holds the answer"
    kind = (task.fields.get("error_injection") or {}).get("error_type")
    if kind is not None and kind not in FAULTS:
        yield f"the fault {kind!r} is acted out as {OTHER_FAULT}"
    if task.level == "L5" and task.fallbacks:
        yield "the fallback tools are offered from the start, not in a second conversation"
    if task.level == "L2" and task.fields.get("available_tools"):
        yield "all declared tools are offered, not only the golden one"


NAME = "ko-agentbench"
AGENT = "tool_calling"
KIND: Kind = "capability"
SUITE_FILE = "suite.yaml"
ABOUT = "Ko-AgentBench, from a clone of its repository"
SUITE: dict[str, Any] = {
    "name": NAME,
    "description": ABOUT,
    "agent": AGENT,
    "kind": KIND,
    # As in the benchmark: a call that the cache cannot answer is shown to the model as failed.
    "on_miss": "tool_error",
    "tools": ["ko_agentbench"],
    "cassettes": [NAME],
    # The defaults of the benchmark's own command.
    "defaults": {"limits": {"steps": 10, "seconds": 60}},
}


def evals_folder(target: Path) -> Path:
    return target / "evals" / NAME


def task_file(level: str, task: str) -> str:
    """Give a task's file below the suite's folder."""
    return f"{level}/{task}.yaml"


def cassette_folder(target: Path) -> Path:
    return target / "cassettes" / NAME


def is_imported(folder: Path) -> bool:
    """Whether a suite's folder was written by an import of this benchmark."""
    suite_file = folder / SUITE_FILE
    return suite_file.is_file() and ABOUT in suite_file.read_text(encoding="utf-8", errors="replace")


def write_suite(target: Path, tasks: Iterable[ImportedTask], *, with_cassettes: bool = True) -> list[Path]:
    """Write the suite's files and give their paths; what the folder says of pytest already stays as it is."""
    folder = evals_folder(target)
    left_out = () if with_cassettes else ("cassettes",)
    settings = {key: value for key, value in SUITE.items() if key not in left_out}
    paths = [write_yaml(folder / SUITE_FILE, settings)]
    paths += [write_yaml(folder / task_file(task.level, task.id), task.content) for task in tasks]
    make_project(target)
    return paths
