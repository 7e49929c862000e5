"""The recorded cache under our matching: what the recorded models asked of it, and what `oracle` asks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.store.run_folder import find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.tools.tool import invalid_arguments
from pytest_agenteval.tools.tool_tape import ToolTape
from tests.benchmarks.ko_agentbench.clone import LOGS, ROOT, TASKS, needs_clone, oracle

pytestmark = needs_clone


@pytest.fixture(scope="module")
def project(whole_benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of what was imported, to run pytest in."""
    return shutil.copytree(whole_benchmark, tmp_path_factory.mktemp("ko") / "copy", symlinks=True)


def _golden_tools() -> dict[str, set[str]]:
    """Give the tools of each task's golden calls, of those it may fall back on, and of its conversation."""
    tools: dict[str, set[str]] = {}
    for file in TASKS.glob("L*.json"):
        for task in json.loads(file.read_text(encoding="utf-8")):
            turns = (task.get("conversation_tracking") or {}).get("turns", ())
            actions = [*(task.get("golden_action") or ()), *(task.get("fallback_options") or ())]
            actions += [turn.get("action") or {} for turn in turns]
            tools[task["task_id"]] = {action["tool"] for action in actions if action.get("tool")}
    return tools


def _golden_calls() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give every call that the eight models made of a golden tool; ``injected`` was made to fail."""
    golden = _golden_tools()
    for file in (file for model in sorted(oracle()) for file in sorted((LOGS / model).glob("*/L*.json"))):
        for result in json.loads(file.read_text(encoding="utf-8"))["results"]:
            injected = (result.get("error_injection") or {}).get("tool")
            for call in result["tool_calls"]:
                if call["tool_name"] in golden[result["task_id"]]:
                    worked = "worked" if call["success"] else "failed"
                    yield ("injected" if call["tool_name"] == injected else worked), call


def test_what_the_recorded_models_asked_is_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a recorded model asked of a golden tool and was answered, the imported cache answers."""
    tools, library = korean_tools(), Library(project)
    shared = [partial(library.open_shared, project / "cassettes" / "ko-agentbench")]
    own, counts, variants = project / "cassettes" / "none.yaml", Counter[tuple[str, bool]](), {}
    for kind, call in _golden_calls():
        tool, args = tools[call["tool_name"]], call["arguments"] or {}
        tape = ToolTape(library.open(own, "none", "tool"), shared=shared, retry_command="")
        tool_call = ToolCall("1", 1, 0, tool.spec.name, args)
        hit = not invalid_arguments(tool.spec, args) and tape.play(tool_call, tool) is not None
        counts[kind, hit] += 1
        variants[kind, tool.spec.name, json.dumps(args, sort_keys=True)] = hit
    with capsys.disabled():
        print()
        for kind in ("worked", "failed", "injected"):
            distinct = [hit for (of, *_), hit in variants.items() if of == kind]
            share = f"{counts[kind, True]} of {counts[kind, True] + counts[kind, False]} calls"
            print(f"calls, {kind}: {share} hit, {sum(distinct)} of {len(distinct)} distinct ones")
    assert counts["worked", False] == 0
    assert counts["worked", True] == 703
    assert counts["injected", True] > counts["injected", False]


def _run(command: list[str], project: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest with no plugin but ours."""
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p agenteval"}
    return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)


def test_oracle_runs_on_the_imported_cache_without_a_socket(project: Path) -> None:
    """All 91 tasks end with a score; a golden call that the cache does not hold is told as a miss."""
    command = [sys.executable, str(ROOT / "tests" / "without_sockets.py"), "-q", "--agent-model=oracle"]
    finished = _run(command, project)
    assert finished.returncode == 0, finished.stdout[-3000:]
    run = load_run(find_run(project / ".agenteval" / "runs", "latest"))
    assert len(run.entries) == 91
    assert {entry.ending for entry in run.entries} <= {"passed", "missed"}
    misses = sum(entry.tool_tape.misses for entry in run.entries)
    calls = misses + sum(entry.tool_tape.hits for entry in run.entries)
    assert f"! {misses} of ko-agentbench's {calls} calls not recorded" in finished.stdout
    assert 0 < misses < calls / 3


def test_recorded_trials_are_graded_again_as_they_were(project: Path) -> None:
    """Where the task asks what it asked then, today's graders give the imported grades, judges' included."""
    runs = project / ".agenteval" / "runs"
    before = load_run(find_run(runs, "azure/gpt-4o@20251219"))
    command = [sys.executable, "-m", "pytest", "-q", "--agent-regrade=azure/gpt-4o@20251219"]
    finished = _run(command, project)
    after = {entry.key: entry for entry in load_run(find_run(runs, "latest")).entries}
    assert len(after) == len(before.entries) == 91, finished.stdout[-3000:]
    changed = {entry.key.task for entry in before.entries if after[entry.key].cause == "input_changed"}
    assert len(changed) == 13
    for entry in before.entries:
        if entry.key.task not in changed:
            scores = {grade.grader: grade.score for grade in after[entry.key].grades}
            assert scores == {grade.grader: grade.score for grade in entry.grades}, entry.key
