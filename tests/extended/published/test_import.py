"""The real data of the Korean benchmark, imported as a user would, against what the benchmark computed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import cache_key
from pytest_agenteval.cassettes.cassette_files import read_cassette
from pytest_agenteval.cassettes.interaction import tool_answer, tool_call
from pytest_agenteval.store.run_folder import find_run, list_runs
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.text.json_values import canonical_json
from tests.benchmarks.ko_agentbench.clone import needs_clone, oracle, recorded_models

KEYS = json.loads((Path(__file__).parents[2] / "oracle" / "ko-cache-keys.json").read_text(encoding="utf-8"))
OURS = {"pass@k": "pass@k share"}
LEVELS = {"L1": 11, "L2": 15, "L3": 10, "L4": 10, "L5": 20, "L6": 15, "L7": 10}
GOLDEN = {"L1": (8, 11), "L2": (14, 15), "L3": (7, 24), "L4": (14, 24), "L5": (5, 20), "L6": (15, 17)}

pytestmark = needs_clone


@pytest.fixture(scope="module")
def tasks(whole_benchmark: Path) -> Mapping[str, LoadedTask]:
    """Load every task file with our loader."""
    folder = whole_benchmark / "evals" / "ko-agentbench"
    suite = load_suite(folder / "suite.yaml")
    files = sorted(folder.glob("L*/*.yaml"))
    return {loaded.task.id: loaded for file in files for loaded in load_tasks(file, suite, folder)}


@pytest.fixture(scope="module")
def staleness_by_call(whole_benchmark: Path) -> Mapping[tuple[str, str], bool]:
    """Give every call that the cassettes answer, and whether the answer is stale."""
    stale_by_call = {}
    for path in (whole_benchmark / "cassettes" / "ko-agentbench").glob("*.json"):
        for interaction in read_cassette(path).interactions:
            tool, args = tool_call(interaction.request)
            assert tool == path.stem
            assert tool_answer(interaction.response).error is None
            stale_by_call[tool, canonical_json(args)] = bool(interaction.response.extra.get("stale"))
    return stale_by_call


@pytest.fixture(scope="module")
def runs(whole_benchmark: Path) -> Mapping[str, Run]:
    """Read every run of a model that the oracle knows, by the oracle's name for it."""
    stored = list_runs(whole_benchmark / ".agenteval" / "runs")
    names = {run.path: run.header.models[0].name.replace("/", "_").partition(":")[0] for run in stored}
    assert sorted(names.values()) == recorded_models()
    return {names[run.path]: load_run(run.path) for run in stored if names[run.path] in oracle()}


def test_every_task_of_the_benchmark_loads(tasks: Mapping[str, LoadedTask]) -> None:
    """91 tasks, each in the folder of its level, which is its bucket."""
    assert Counter(loaded.bucket for loaded in tasks.values()) == LEVELS
    assert all(loaded.task.id.startswith(loaded.bucket) for loaded in tasks.values())
    assert all(loaded.task.graders[0].name == f"ko_{loaded.bucket}" for loaded in tasks.values())


def test_the_candidates_of_the_second_level_are_all_offered(tasks: Mapping[str, LoadedTask]) -> None:
    """In L2 a tool is to be chosen: what the data declares is offered."""
    offered = [len(loaded.task.settings["tools"]) for loaded in tasks.values() if loaded.bucket == "L2"]
    assert min(offered) >= 3


def test_every_conversation_ends_with_a_user(tasks: Mapping[str, LoadedTask]) -> None:
    """No answer is given away: each seeded conversation ends with the user's turn that is to be answered."""
    for loaded in (loaded for loaded in tasks.values() if loaded.bucket in ("L6", "L7")):
        assert loaded.task.input["turns"][-1]["role"] == "user"


def test_the_cassettes_hold_what_the_cache_holds(staleness_by_call: Mapping[tuple[str, str], bool]) -> None:
    """3,715 entries are reachable, and all of them are there; 607 more answer calls that no key leads to."""
    assert len({tool for tool, _ in staleness_by_call}) == 33
    assert Counter(staleness_by_call.values()) == {False: 3715, True: 607}


def test_the_calls_of_the_tasks_hit_as_they_do_in_the_benchmark(
    staleness_by_call: Mapping[tuple[str, str], bool],
) -> None:
    """Looked up in our cassettes, each known call is answered where the benchmark's cache answers it."""
    hits: Counter[str] = Counter()
    for call in KEYS["calls"]:
        stale = staleness_by_call.get(
            (call["tool"], canonical_json(cache_key(call["tool"], call["args"])[0]))
        )
        assert (stale is False, stale is not None) == (call["hash_hit"], call["content_hit"]), call["task_id"]
        hits[call["kind"]] += stale is False
        hits[f"{call['kind']} {call['level']}"] += stale is False
    assert {level: (hits[f"golden {level}"], _calls("golden", level)) for level in GOLDEN} == GOLDEN
    assert {kind: hits[kind] for kind in ("golden", "fallback", "turn", "expected")} == {
        "golden": 63,
        "fallback": 17,
        "turn": 37,
        "expected": 8,
    }


def _calls(kind: str, level: str) -> int:
    return sum(call["kind"] == kind and call["level"] == level for call in KEYS["calls"])


def test_the_oddities_that_are_known_are_found_by_rule(whole_benchmark: Path) -> None:
    """Missing levels, odd steps, misspelt outputs, wrong stock codes, leaked answers: all are listed."""
    page = (whole_benchmark / "evals" / "ko-agentbench" / "ANOMALIES.md").read_text(encoding="utf-8")
    for oddity in (
        "L5-016: task_level is missing",
        "L3-003: minimum_steps is missing",
        "L3-009: minimum_steps is 2, the golden path has 3 calls",
        "L3-008: essential_tools names WalkRoute_tmap",
        "no recorded answer of PlaceSearch_kakao has 'longtitude'; did you mean 'longitude'?",
        "L3-007: data_flow has an edge 2 times",
        "L3-007: golden call AddressToCoord_kakao: 'address' is a required property",
        "L1-001: golden arguments hold numbers that the question does not",
        "L1-010: golden arguments hold numbers that the question does not",
        "L4-006: minimum_sources is 4",
        "L4-010: the code 005930 is that of",
        "L5-013: fallback call CryptoCandle_bithumb: unit: 1 is not of type 'string'",
        "L6-002: no turn makes the golden call NewsSearch_naver",
        "L7-008: instruction differs from the first turn",
        "L7-006: conversation_id is 'L7-006'",
        "L7-003: context_plants: 'parameter_filling' is no kind of plant",
        "L7-004, L7-006, L7-008, L7-009, L7-010: evaluated at turn 3",
    ):
        assert oddity in page


def test_each_model_is_a_run_that_can_be_named(whole_benchmark: Path, runs: Mapping[str, Run]) -> None:
    """Eight runs of 91 trials each; MODEL@YYYYMMDD finds one."""
    assert {name: len(run.entries) for name, run in runs.items()} == dict.fromkeys(oracle(), 91)
    root = whole_benchmark / ".agenteval" / "runs"
    assert find_run(root, "azure/gpt-4o@20251219").name == runs["azure_gpt-4o"].folder.name
    assert all(sum(group.trials for group in run.planned) == 91 for run in runs.values())
    assert not any(run.begun or run.odd for run in runs.values())


def _oracle(task: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Give what the benchmark's code found, and what its judge's published verdicts come to."""
    yield from ((OURS.get(name, name), score) for name, score in task.items() if name != "judged")
    yield from ((name, judged["published"]) for name, judged in task["judged"].items())


def test_every_grade_is_the_benchmarks(runs: Mapping[str, Run]) -> None:
    """3,776 grades of eight models: deterministic ones anew, judged ones from the published verdicts."""
    compared = 0
    for name, run in runs.items():
        levels = oracle()[name]["levels"]
        for entry in run.entries:
            grades = {grade.grader: grade.value for grade in entry.grades}
            expected = dict(_oracle(levels[entry.bucket][entry.key.task]))
            assert {label: grades[label] for label in expected} == expected, (name, entry.key.task)
            compared += len(expected)
    assert compared == 3776


def test_the_logs_come_through_whole(runs: Mapping[str, Run]) -> None:
    """All 1,088 calls are there, each asked for by a message; seeds are marked; errors are events."""
    counted: Counter[str] = Counter()
    for run in runs.values():
        for entry in run.entries:
            transcript = run.trial(entry).transcript
            requested = {call.id for message in transcript.messages for call in message.calls}
            counted.update(call.by for call in transcript.calls)
            counted["unasked"] += sum(call.id not in requested for call in transcript.calls)
            counted["broke"] += any(event.kind == "agent_error" for event in transcript.events)
    assert counted == {"agent": 1088, "seed": 280, "broke": 5, "unasked": 0}
