"""Projects whose trials are carried out on a cluster, and runs of pytest on them as from a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.suites import write

PATIENCE_S = 120.0

CONFTEST = """
import asyncio
import os
import shutil
import socket
import time
from pathlib import Path

from sibling import GREETING

HOME = Path(HOME_FOLDER)


class Agent:
    tools = ("look",)

    async def run(self, task_input, ctx):
        from pytest_agenteval import Answer, ToolCall

        word = task_input["content"]
        if word == "die":
            os._exit(7)
        await asyncio.sleep(task_input.get("seconds", 0))
        seen = ""
        if word != "sleep":
            result = await ctx.tools.call(ToolCall("c", 1, 0, "look", {"at": word}))
            print(f"looked at {word} with hunter22-{word}")
            (ctx.path / "said.md").write_text(GREETING)
            seen = result.value
            if word == "remove":
                shutil.rmtree(ctx.path)
        state = {"held": Held()} if word == "object" else {}
        if word == "where":
            state = {
                "at_home": Path.cwd().is_relative_to(HOME),
                "home_is_empty": not list(HOME.glob("*.py")),
                "key": os.environ.get("OPENAI_API_KEY", ""),
                "other": os.environ.get("OTHER_KEY", ""),
            }
        return Answer(f"{GREETING}, Mina: {seen}", state)


class Held:
    def __reduce__(self):
        raise TypeError("cannot be copied")

    def __repr__(self):
        return "held"


def pytest_agenteval_register(registry):
    from pytest_agenteval import Tool, ToolSpec

    registry.agent("looking", lambda **settings: Agent())
    registry.tool(Tool(ToolSpec("look", taped=True), lambda args: f"seen {args['at']}"))
"""
PYPROJECT = '[tool.agenteval]\nredact = ["hunter22-[a-z]+"]\n[tool.pytest.ini_options]\naddopts = []\n'
SUITE = "name: s\nagent: looking\nkind: regression\n"


def looking(id: str, word: str, **more: Any) -> dict[str, Any]:
    """Give a task of the agent that looks at a word."""
    graders = [{"name": "answer_contains", "config": {"text": "Mina"}}]
    return {"id": id, "input": {"content": word, **more}, "graders": graders}


def project(root: Path, *tasks: Mapping[str, Any], conftest: str = CONFTEST) -> Path:
    """Write a project whose conftest needs the module beside it."""
    files = {
        "conftest.py": conftest.replace("HOME_FOLDER", repr(str(root))),
        "sibling.py": 'GREETING = "Good morning"\n',
        "pyproject.toml": PYPROJECT,
        "evals/suite.yaml": SUITE,
    }
    write(root, files)
    for each in tasks:
        write(root / "evals", {f"{each['id']}.json": each})
    return root


def start(root: Path, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start pytest on the project; nothing that whoever tests has set is known to it."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGENTEVAL_", "PYTEST_", "RAY_")) and not name.endswith("_API_KEY")
    }
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(env or {})}
    command = [sys.executable, "-m", "pytest", "-p", "agenteval", "-p", "no:cacheprovider", "evals", *args]
    return subprocess.Popen(
        command,
        cwd=root,
        env=clean,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        start_new_session=True,
    )


def end(run: subprocess.Popen[str]) -> str:
    """Wait for the end of a run and give what it printed; one that does not end is killed."""
    try:
        return run.communicate(timeout=PATIENCE_S)[0]
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)


def carried_out(root: Path, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Carry a run out, and give what it printed."""
    return end(start(root, *args, env=env))


def lines(root: Path, kind: str) -> list[dict[str, Any]]:
    """Give the whole journal lines of a kind that the latest run has written so far."""
    found: list[dict[str, Any]] = []
    folders = sorted((root / ".agenteval" / "runs").glob("2*"))
    for path in folders[-1].glob("journal-*.jsonl") if folders else ():
        text = path.read_text(encoding="utf-8")
        found += [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [line for line in found if line["kind"] == kind]


def until(happened: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until something has happened; fail where it does not."""
    last = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < last, "it did not happen"
        time.sleep(0.02)


def begun_again(root: Path, trials: int) -> int:
    """Give how many trials were begun again, after a look at whether none was lost or doubled."""
    ended = Counter(line["task"] for line in lines(root, "finished"))
    assert len(ended) == trials
    assert set(ended.values()) == {1}
    assert {line["ending"] for line in lines(root, "finished")} == {"passed"}
    begun = [(line["task"], line.get("attempt", 1)) for line in lines(root, "started")]
    assert len(begun) == len(set(begun))  # each attempt has a number of its own
    return sum(attempt > 1 for _, attempt in begun)


def left_over(pid: int) -> list[str]:
    """Give the processes of the session that a run was started in, and its actors."""
    there = subprocess.run(["ps", "-eo", "sid,pid,stat,args"], capture_output=True, text=True, check=True)
    rows = [row.split(None, 3) for row in there.stdout.splitlines()[1:]]
    return [args for sid, _, state, args in rows if int(sid) == pid and not state.startswith("Z")]
