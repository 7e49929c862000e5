"""Agents in containers of a real docker or podman: good ones work, hostile ones are held, nothing is left.

The images of AGENTEVAL_IMAGE_PYTHON and AGENTEVAL_IMAGE_NODE must be on this machine, as nothing is pulled.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_agenteval.agents import container
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.errors import TrialBroken
from tests.agents.test_command_agent import answering, set_model
from tests.extended.containers.agents import GOOD, HOSTILE, SHARED
from tests.journals import trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]

IMAGES = {
    "python": os.environ.get("AGENTEVAL_IMAGE_PYTHON", "python:3.12-slim"),
    "node": os.environ.get("AGENTEVAL_IMAGE_NODE", "node:22-slim"),
}
CANARY = "CANARY-7f3a"
TOOLS = 'def knots(kmh: float) -> float:\n    """Knots."""\n    return round(kmh / 1.852, 1)\n'
NEEDED_SECONDS = {"loud": 5, "stops": 4}
SPECIAL = {
    "forks": {"processes": 64},
    "writes": {"disk": "64m"},
    "fills": {"disk": "64m"},
    "eats": {"memory": "128m"},
    "child_eats": {"memory": "128m"},
}


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One engine alone, that starts containers of both images; nothing of ours is left in it."""
    monkeypatch.setattr(container, "ENGINES", (request.param,))
    for cached in (container.engine, container.image_id):
        cached.cache_clear()
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} on PATH")
    try:
        list(map(container.image_id, IMAGES.values()))
    except TrialBroken as missing:
        pytest.skip(str(missing))
    yield request.param
    assert containers(request.param) == []


def containers(engine: str) -> list[str]:
    """Give the containers of ours that an engine has, running or not."""
    listed = [engine, "ps", "--all", "--quiet", "--filter", f"label={container.LABEL}"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()


def suite(name: str, script: str, image: str = "python", **more: Any) -> dict[str, Any]:
    """Give the files of a suite whose agent runs in a container."""
    command = ["node", "agent.mjs"] if image == "node" else ["python3", "agent.py"]
    agent = {"command": command, "image": IMAGES[image], **SPECIAL.get(name, {})}
    spec = {"name": name, "kind": "regression", "agent": agent, **more}
    limits = {"seconds": NEEDED_SECONDS.get(name, 60), "steps": 100}
    task = answering("found", id=name, limits=limits)
    return {
        f"evals/{name}/suite.yaml": json.dumps(spec),
        f"evals/{name}/{command[1]}": script if image == "node" else SHARED + script,
        f"evals/{name}/tools.py": TOOLS,
        f"evals/{name}/t.json": [task],
    }


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that answers."""
    with ModelServer(lambda request, n: ReplyPlan(text="Mina")) as server:
        set_model(monkeypatch, server)
        yield server


def test_agents_ask_models_and_call_tools_from_their_boxes(
    engine: str, model: ModelServer, pytester: pytest.Pytester
) -> None:
    """The trial's addresses work as they do outside; the calls are recorded, and replayed with no server."""
    graders = [
        {"name": "answer_contains", "config": {"text": "Mina at 27"}},
        {"name": "tool_called", "config": {"tools": ["knots"]}},
        {"name": "file_contains", "config": {"path": "report.md", "texts": ["Mina"]}},
    ]
    for image, script in GOOD.items():
        task = {"id": image, "input": {"content": "x"}, "graders": graders}
        files = suite(image, script, image, tools=["tools.py"])
        write(pytester.path, {**files, f"evals/{image}/t.json": [task]})

    run(pytester, "--agent-record-chat=once").assert_outcomes(passed=2)
    assert len(model.requests) == 2
    for trial in trials(pytester.path).values():
        assert "AGENTEVAL_MCP_URL" in trial.output
        assert "DOCKER_HOST" not in trial.output
    run(pytester, "--agent-record-chat=none").assert_outcomes(passed=2)
    assert len(model.requests) == 2


HELD = {
    **dict.fromkeys(("reads", "sends", "stays", "links"), "passed found: []"),
    "forks": "passed found: [True, 'Mina']",
    "writes": "passed found: ['No space left on device', 'File too large']",
    "fills": "errored the command reached a limit of its container: `disk: 64m`",
    "eats": "errored the command reached a limit of its container: `memory: 128m`",
    "child_eats": "passed found: [-9]",
    "loud": "passed found: [] seconds",
    "stops": "passed found: [] seconds",
    "kills": "errored the container of IMAGE ended before its command: Killed; out of memory (`memory: ",
    "forges": "errored the container of IMAGE ended before its command: its output was not that of agenteval",
}
"""How the trial of each hostile agent ends."""


def test_hostile_agents_are_held(
    engine: str, model: ModelServer, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read, reach, fill and leave nothing beyond their box; their trial says which limit ended it."""
    monkeypatch.setenv("MY_SECRET", CANARY)
    secret = pytester.path / "secret.md"
    secret.write_text(f"{CANARY}\n", encoding="utf-8")
    with socket.create_server(("0.0.0.0", 0)) as listening, socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        hints = {"port": listening.getsockname()[1], "address": probe.getsockname()[0], "secret": str(secret)}
        for name, script in HOSTILE.items():
            write(pytester.path, suite(name, script, settings=hints))
        run(pytester, "--agent-live")
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()

    found = {name: _ending(trial) for name, trial in trials(pytester.path).items()}
    assert {name: end for name, end in found.items() if not end.startswith(HELD[name])} == {}
    assert found.keys() == HELD.keys()
    runs = (pytester.path / ".agenteval").rglob("*")
    assert not [path for path in runs if path.is_file() and CANARY.encode() in path.read_bytes()]


def _ending(trial: Trial) -> str:
    text = trial.message.replace(IMAGES["python"], "IMAGE") if trial.cause else trial.outcome.answer.text
    return f"{trial.ending} {text} {trial.limit}".strip()


@pytest.mark.parametrize("script", ["time.sleep(600)", HOSTILE["stops"]], ids=["idle", "stopped"])
def test_a_killed_pytest_leaves_no_container(engine: str, pytester: pytest.Pytester, script: str) -> None:
    """Nobody can clean up after SIGKILL: the box ends as its input does, and its guard removes it."""
    write(pytester.path, suite("one", f"{script}\n"))
    other = {"DOCKER_HOST": "unix:///nowhere"} if engine == "podman" else {}
    pytest_run = subprocess.Popen([sys.executable, "-m", "pytest", "-q"], env={**os.environ, **other})
    until(lambda: containers(engine))
    time.sleep(2)
    pytest_run.send_signal(signal.SIGKILL)
    pytest_run.wait()
    until(lambda: not containers(engine))


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)
