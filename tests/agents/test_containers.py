"""Commands in containers, with a program that stands in for docker: what it is given, and what becomes of it.

Real engines, and hostile agents, are tried in ``tests/extended/containers``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.agents import command_agent, container
from pytest_agenteval.agents.command_agent import CommandAgent
from pytest_agenteval.agents.command_form import command_problems
from tests.agents.test_command_agent import answering, set_model
from tests.journals import trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.stand_ins import docker_program
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]


@pytest.fixture
def docker(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker that stands in alone on PATH; gives the file of its calls."""
    program = pytester.path / "bin" / "docker"
    write(pytester.path, {"bin/docker": f'#!/bin/sh\nexec {sys.executable} {docker_program.__file__} "$@"\n'})
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("STAND_IN", str(pytester.path / "calls"))
    monkeypatch.setattr(command_agent, "GRACE_S", 0.2)
    monkeypatch.setattr(container, "STOPPING_S", 0.5)
    forget()
    return pytester.path / "calls"


def forget() -> None:
    """Have the next container look for engine and image anew."""
    container.engine.cache_clear()
    container.image_id.cache_clear()


def boxed(name: str, more: str = "", **agent: Any) -> dict[str, Any]:
    """Give the files of a suite in an image of its name."""
    form = {"command": ["python3", "-u", "agent.py"], "image": name, **agent}
    suite = {"name": name, "kind": "regression", "agent": form, "env": {"LOCALE": "ko"}, "env_pass": ["KEY"]}
    files = {
        "suite.yaml": json.dumps(suite),
        "agent.py": "",
        "lib/words.py": "",
        "t.json": [answering("Mi", id=name)],
    }
    return {f"evals/{name}/{file}": text for file, text in files.items()}


def calls(log: Path, verb: str) -> list[list[str]]:
    """Give the arguments of each call of a verb."""
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [args for first, *args in lines if first == verb]


def test_a_container_gets_the_workspace_and_nothing_else(
    docker: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every argument is checked: no network, no rights, limits, and only the folders that it works with."""
    monkeypatch.setenv("KEY", "value-of-the-user")
    limits = {"memory": "512m", "processes": 99, "disk": "64m"}
    write(pytester.path, boxed("good", files=["lib"], **limits))
    with ModelServer(lambda request, n: ReplyPlan(text="Mina")) as model:
        set_model(monkeypatch, model)
        run(pytester, "--agent-live").assert_outcomes(passed=1)
        assert len(model.requests) == 1

    (args,) = calls(docker, "run")
    name = args[args.index("--name") + 1]
    user = f"{os.getuid()}:{os.getgid()}"
    suite = pytester.path / "evals/good"
    folders = [args[place + 1] for place, each in enumerate(args) if each == "--volume"]
    expected = f"""
        --rm --interactive --pull never --name {name} --hostname agenteval --label pytest-agenteval
        --network none --cap-drop ALL --security-opt no-new-privileges --log-driver none
        --read-only --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size=67108864
        --memory 512m --memory-swap 512m --pids-limit 99
        --ulimit fsize=67108864:67108864 --ulimit nofile=4096:4096 --ulimit core=0:0
        --workdir /workspace --entrypoint sh
        --user {user} --volume {folders[0]} --volume {folders[1]} --volume {folders[2]}
        --volume {suite}/agent.py:/suite/agent.py:ro,z --volume {suite}/lib:/suite/lib:ro,z good -c
    """
    assert args[:-4] == expected.split()
    found = [re.sub(r"^/.*/agenteval-[^:/]*", "", folder) for folder in folders[:3]]
    assert found == [":/workspace:z", ":/agenteval:z", "/passwd:/etc/passwd:ro,z"]
    order = json.loads(Path(f"{docker}.order").read_text(encoding="utf-8"))
    assert (order["command"], order["folder"]) == (["python3", "-u", "/suite/agent.py"], "/workspace")
    environ = order["environ"]
    assert not {"PATH", "TMPDIR", "LANG", "STAND_IN"} & environ.keys()
    assert (environ["KEY"], environ["LOCALE"], environ["HOME"]) == (
        "value-of-the-user",
        "ko",
        "/agenteval/home",
    )
    assert "value-of-the-user" not in docker.read_text(encoding="utf-8")
    assert calls(docker, "rm") == []
    assert "a line of its log" in trials(pytester.path)["good"].output


def test_a_ready_made_agent_of_an_image_need_not_be_on_path(
    docker: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program is the image's, and its files are those of the container's HOME."""
    write(pytester.path, boxed("good", command=None, cli="aider"))
    with ModelServer(lambda request, n: ReplyPlan(text="Mina")) as model:
        set_model(monkeypatch, model)
        run(pytester, "--agent-live").assert_outcomes(passed=1)
    order = json.loads(Path(f"{docker}.order").read_text(encoding="utf-8"))
    assert order["command"][:3] == ["aider", "--message-file", "/agenteval/task.json"]
    assert "/agenteval/home/history.md" in order["command"]


EARLY = "the container of {} ended before its command: {}"
BROKEN = {
    "refused": EARLY.format("refused", "docker: Error response from daemon: no such runtime."),
    "killed": EARLY.format("killed", "status 137; out of memory (`memory: 2g`), or killed from inside"),
    "garbage": EARLY.format("garbage", "its output was not that of agenteval's runner"),
    "missing": "missing cannot start the command: no such program",
    "memory": "the command reached a limit of its container: `memory: 2g`",
    "absent": "the image 'absent' is not on this machine (no such image): `docker pull absent` or",
}


def test_what_keeps_a_container_from_working_is_one_line_and_it_is_removed(
    docker: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its engine, its image or its command does; one that goes on after its end is removed too."""
    for name in (*BROKEN, "hangs"):
        write(pytester.path, boxed(name))
    with ModelServer(lambda request, n: ReplyPlan(text="Mina")) as model:
        set_model(monkeypatch, model)
        result = run(pytester, "--agent-live")
    result.assert_outcomes(passed=1, errors=len(BROKEN))
    stored = trials(pytester.path)
    assert {name: stored[name].message[: len(line)] for name, line in BROKEN.items()} == BROKEN
    assert "Traceback" not in result.stdout.str()
    started = [args[args.index("--name") + 1] for args in calls(docker, "run")]
    assert len(started) == len(BROKEN)
    assert {args[-1] for args in calls(docker, "rm")} <= set(started)
    hanging = next(args for args in calls(docker, "run") if "hangs" in args)
    assert ["--force", hanging[hanging.index("--name") + 1]] in calls(docker, "rm")


def test_a_suite_that_no_container_fits_is_told_with_its_place(
    docker: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an engine, with keys that nothing reads, or files that are not there; one that is dead, too."""
    lone = {"command": [sys.executable, "agent.py"], "image": None, "memory": "1g"}
    write(pytester.path, {**boxed("files", files=["libs", "../files"]), **boxed("lone", **lone)})
    lines = run(pytester).stdout.str()
    assert (
        "agent.files[0]\n  expected: a file or a folder beside suite.yaml, or below\n  found:    'libs'"
        in lines
    )
    assert "agent.files[1]" in lines
    assert "agent.memory\n  expected: `image` beside it: only a container has it" in lines

    digests = []
    for id in ("1234", "5678"):
        forget()
        monkeypatch.setattr(container, "_run", lambda command, id=id: (0, id))
        digests.append(CommandAgent({"command": ["a"], "image": "x", "folder": "."}).files_digest())
    assert len({*digests, ""}) == 3
    monkeypatch.setattr(container, "_run", lambda command: (1, "Cannot connect to the Docker daemon"))
    forget()
    with pytest.raises(
        container.ContainerFailed, match=r"answers \(docker: Cannot connect .*\): start docker"
    ):
        container.engine()
    monkeypatch.setenv("PATH", "")
    (problem,) = list(command_problems({"command": ["a"], "image": "x", "folder": "."}))
    assert problem[:3] == (("agent", "image"), "docker or podman on PATH", "neither")
