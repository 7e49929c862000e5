"""A project whose trials ask a provider on this machine, which counts what it is asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.store.run_reader import Run, load_run
from tests.loopback.model_server import ModelServer, ReplyPlan

AT_ONCE = 8
PATIENCE_S = 120.0
MOST_STACKS = 30_000
FINISHED = '"kind":"finished"'

SUITE = "name: chaos\nagent: tool_calling\nkind: capability\ndefaults: {model: local}\n"


class TooSlow(Exception):
    """A run that never came to the point it was watched for: nothing can be said of what it loses."""


def provider() -> ModelServer:
    """Give a provider that takes a tenth of a second for each reply."""
    return ModelServer(lambda request, number: ReplyPlan(text=f"Hello, {question(request)}!"), latency_s=0.1)


def question(request: Mapping[str, Any]) -> str:
    """Give what the user says in a request: the task's id."""
    return next(str(each["content"]) for each in request["messages"] if each["role"] == "user")


def bills(server: ModelServer) -> Counter[str]:
    """Give how often each task's question reached the provider."""
    return Counter(question(request.body) for request in server.requests)


def project(
    root: Path,
    server: ModelServer,
    tasks: int,
    conftest: str = "",
    input: Mapping[str, str] = NOTHING,
    **more: Any,
) -> Path:
    """Write so many tasks, each with a question of its own."""
    base = f'id = "openai/any", api_base = "{server.openai_base}", api_key_env = "CHAOS_KEY"'
    (root / "evals").mkdir(parents=True)
    (root / "pyproject.toml").write_text(f"[tool.agenteval.models]\nlocal = {{{base}}}\n", encoding="utf-8")
    (root / "evals" / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (root / "evals" / "conftest.py").write_text(conftest, encoding="utf-8")
    listed = [_task(f"t{number:03}", input, **more) for number in range(tasks)]
    (root / "evals" / "tasks.json").write_text(json.dumps(listed), encoding="utf-8")
    return root


def _task(id: str, input: Mapping[str, str], **more: Any) -> dict[str, Any]:
    graders = [{"name": "answer_contains", "config": {"text": id}}]
    return {"id": id, "input": {"content": id, **input}, "graders": graders, **more}


def start(root: Path, *args: str, before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    """Start pytest on the project, as from a terminal."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if before is not None:
            before()

    plugins = ["-p", "agenteval", "-p", "xdist.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "evals", *plugins, f"--agent-concurrency={AT_ONCE}", *args]
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "PYTEST_"))
    }
    env |= {"CHAOS_KEY": "sk-chaos", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.getcwd()}
    env |= {"PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(
        command,
        cwd=root,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=prepare,
    )


def until(happened: Callable[[], bool], run: subprocess.Popen[str], seconds: float = PATIENCE_S) -> bool:
    """Wait until something has happened; False where the run ended before, or nobody waits any longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happened():
            return True
        if run.poll() is not None:
            return happened()
        time.sleep(0.01)
    return False


def output(run: subprocess.Popen[str]) -> str:
    """Wait for the end and give what was printed; nobody waits for ever, and then there is no verdict."""
    try:
        return run.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        raise TooSlow(f"not ended after {PATIENCE_S:g} s: {stacks(run)}") from None


def stacks(run: subprocess.Popen[str], workers: Sequence[int] = ()) -> str:
    """End a run that came no further, and give the stacks of its threads: a hang shows where it hangs."""
    for pid in (*workers, run.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
    try:
        return run.communicate(timeout=60)[0][-MOST_STACKS:]
    except subprocess.TimeoutExpired:
        run.kill()
        return "no stacks 60 s after SIGABRT"


def finished_lines(root: Path) -> int:
    """Count the trials written down as finished without reading them: cheap enough to ask all the time."""
    journals = root.glob(".agenteval/runs/2*/journal-*.jsonl")
    return sum(path.read_bytes().count(FINISHED.encode()) for path in journals)


def journaled(root: Path) -> set[str]:
    """Give the tasks whose trials are written down as finished, in whole lines."""
    found = set()
    for path in root.glob(".agenteval/runs/2*/journal-*.jsonl"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and FINISHED in line:
                found.add(json.loads(line)["task"])
    return found


def losses(root: Path) -> list[str]:
    """Say what is wrong with what the only run left behind: torn, doubled or unreadable trials."""
    (folder,) = root.glob(".agenteval/runs/2*")
    run = load_run(folder)
    lines = [
        json.loads(line)
        for path in folder.glob("journal-*.jsonl")
        for line in path.read_bytes().splitlines()
        if line.startswith(b"{") and line.endswith(b"}")
    ]
    ended = Counter(line["task"] for line in lines if line["kind"] == "finished")
    wrong = [f"{task} finished {times} times" for task, times in sorted(ended.items()) if times > 1]
    wrong += [f"torn: {each}" for each in run.odd]
    return wrong + _unreadable(run)


def _unreadable(run: Run) -> list[str]:
    wrong = []
    for entry in run.entries:
        try:
            trial = run.trial(entry)
        except Exception as raised:
            wrong.append(f"{entry.key.task} cannot be read: {raised}")
            continue
        if entry.key.task not in trial.outcome.answer.text and entry.ending != "errored":
            wrong.append(f"{entry.key.task} has another's answer: {trial.outcome.answer.text!r}")
    return wrong
