"""Whole runs of pytest with models of this machine: hf/ really loaded, vllm/ by a stand-in on the PATH."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.processes.process_groups import is_running
from tests.stand_ins.vllm import StandIn, put_on_path
from tests.suites import only_our_plugin, task, write

pytest_plugins = ["pytester"]

FUNCTIONS = """
def get_weather(city: str) -> dict:
    \"\"\"Say what the weather is.\"\"\"
    return {"sky": "rain"}
"""
TAUGHT = """
[tool.agenteval.models]
precise = {id = "hf/./taught", dtype = "float32"}
elsewhere = {id = "hf/./taught", device = "cuda:1"}
small = {id = "hf/./taught", quantization = "8bit"}
"""
SUITE = "name: weather\nkind: regression\ntools: [weather.py]\n"
WEATHER = {
    "id": "weather",
    "input": {"content": "Weather in Oslo?"},
    "graders": [
        {"name": "answer_contains", "config": {"text": "It rains in Oslo"}},
        {"name": "tool_called", "config": {"tools": ["get_weather"]}},
    ],
}


@pytest.fixture(autouse=True)
def fresh(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs know this plugin alone, and no key."""
    only_our_plugin(monkeypatch)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A vllm on the PATH; whatever a test does, it leaves none behind."""
    stand_in = put_on_path(tmp_path / "vllm", monkeypatch)
    yield stand_in
    left = [start for start in stand_in.starts if is_running(start["pid"]) or is_running(start["child"])]
    assert left == []


def _write_weather(pytester: pytest.Pytester, taught: Path) -> None:
    shutil.copytree(taught, pytester.path / "taught")
    write(
        pytester.path,
        {
            "evals/suite.yaml": SUITE,
            "evals/weather.py": FUNCTIONS,
            "evals/weather/task.json": WEATHER,
            "pyproject.toml": TAUGHT,
        },
    )


def trials_of(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    """Give the transcripts of the latest run."""
    (run,) = sorted(pytester.path.glob(".agenteval/runs/2*"))[-1:]
    files = run.glob("transcripts-*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def run_apart(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest in a process of its own: torch cannot be imported anew in this one."""
    return pytester.runpytest_subprocess("-p", "xdist.plugin", "-p", "no:cacheprovider", *args)


def test_an_agent_with_tools_is_tried_recorded_and_played(pytester: pytest.Pytester, taught: Path) -> None:
    """Trials share the model; the record says how it ran; a replay, by workers, needs no model at all."""
    _write_weather(pytester, taught)
    args = ("--agent-model=precise", "--repetitions=3")
    live = run_apart(pytester, *args, "--agent-record-chat=once")
    live.assert_outcomes(passed=3)
    live.stdout.fnmatch_lines(["agenteval: 3 trials of 1 task: precise (hf/./taught, float32)"])
    for trial in trials_of(pytester):
        (event,) = trial["events"]
        assert event["details"] == {"model": "hf/./taught", "device": "cpu", "dtype": "float32"}
        assert trial["asks"][0]["reasoning"] == "I look."
        assert [ask["usage"]["in"] > 0 for ask in trial["asks"]] == [True, True]

    (pytester.path / "taught/model.safetensors").unlink()
    played = run_apart(pytester, *args, "--agent-record-chat=none", "-n2")
    played.assert_outcomes(passed=3)
    broken = run_apart(pytester, *args)
    broken.assert_outcomes(errors=3)
    broken.stdout.fnmatch_lines(["provider: hf/*taught cannot be loaded: *"])


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(pytester: pytest.Pytester, tiny: Path) -> None:
    """Before any trial."""
    _write_weather(pytester, tiny)
    device = run_apart(pytester, "--agent-model=elsewhere")
    bits = run_apart(pytester, "--agent-model=small")
    for result, words in ((device, "torch sees no device 'cuda'"), (bits, "needs")):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert words in result.stderr.str()
        assert "Traceback" not in result.stderr.str()
    assert not (pytester.path / ".agenteval").exists()


GREETINGS = {
    "evals/suite.yaml": "name: greetings\nkind: regression\n",
    **{f"evals/{name}/task.json": task(name) for name in "abcdef"},
}
SERVED = "--agent-model=vllm/org/tiny"


def test_workers_share_one_server_that_ends_with_the_run(pytester: pytest.Pytester, vllm: StandIn) -> None:
    """How it is loaded are its arguments, what else an alias says goes with each request; its log stays."""
    alias = {
        "id": "vllm/org/tiny",
        "max_model_len": 4096,
        "tensor_parallel_size": 2,
        "reasoning_effort": "low",
        "seed": 7,
        "extra_body": {"top_k": 5},
    }
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in alias.items() if key != "extra_body")
    project = f"[tool.agenteval.models.mine]\n{table}\nextra_body = {{top_k = 5}}\n"
    write(pytester.path, {**GREETINGS, "pyproject.toml": project})
    result = run_apart(pytester, "--agent-model=mine", "-n2", "--agent-record-chat=once")
    result.assert_outcomes(passed=6)
    (start,) = vllm.starts
    assert start["args"][:2] == ["serve", "org/tiny"]
    assert "--tensor-parallel-size 2 --max-model-len 4096" in " ".join(start["args"])
    asked = [
        {key: ask.get(key) for key in ("model", "reasoning_effort", "seed", "top_k")} for ask in vllm.asks
    ]
    assert asked == 6 * [{"model": "org/tiny", "reasoning_effort": "low", "seed": 7, "top_k": 5}]
    assert list(pytester.path.glob(".agenteval/runs/2*/servers/vllm-*.log"))
    assert len(list(pytester.path.glob("cassettes/*.chat/*.yaml"))) == 6


def test_a_server_that_fails_is_said_in_every_trial(pytester: pytest.Pytester, vllm: StandIn) -> None:
    """It is started once, and one that dies later is told with its last words."""
    write(pytester.path, GREETINGS)
    vllm.plan(fail="ValueError: The model's max seq len (40960) is larger than the KV cache")
    result = run_apart(pytester, SERVED, "-v")
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines(["provider: vllm/org/tiny cannot be served: *", "*max seq len (40960)*"])
    assert len(vllm.starts) == 1
    vllm.plan(crash_after=2)
    result = run_apart(pytester, SERVED, "--agent-concurrency=1")
    result.assert_outcomes(passed=2, errors=4)
    result.stdout.fnmatch_lines(["*vllm serve: exit status 9*", "*illegal memory access*"])


KILLING = """
import os, signal
from pathlib import Path
import pytest

@pytest.fixture(autouse=True)
def kill(task):
    if task.id == "c" and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_worker_leaves_the_server_to_the_others(pytester: pytest.Pytester, vllm: StandIn) -> None:
    """Whoever started it; at the end it is gone, as the fixture looks."""
    write(pytester.path, {**GREETINGS, "conftest.py": KILLING})
    result = run_apart(pytester, SERVED, "-n2")
    result.stdout.fnmatch_lines(["*worker * crashed*"])
    assert len(vllm.starts) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_takes_its_server_along(
    pytester: pytest.Pytester, vllm: StandIn, number: signal.Signals
) -> None:
    """By Ctrl-C while the server comes up, or by what nobody can catch."""
    write(pytester.path, GREETINGS)
    vllm.plan(never_ready=True)
    command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-n2", SERVED]
    with subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL) as controller:
        while not vllm.starts:
            assert controller.poll() is None
            time.sleep(0.05)
        controller.send_signal(number)
    (start,) = vllm.starts
    while is_running(start["pid"]) or is_running(start["child"]):
        time.sleep(0.05)
