"""Ready-made agents by a name: what each program is given, told by one that stands in for all of them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.agents.ready_made import ready_made
from pytest_agenteval.processes.files import NamedFolder
from tests.journals import latest_trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]

# It writes down what it was given, and asks a model once, by the address that it was given.
STAND_IN = """#!{python}
import json, os, pathlib, sys, urllib.request
home = pathlib.Path.home()
files = {{str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}}
given = {{"args": sys.argv[1:], "env": dict(os.environ), "files": files, "stdin": sys.stdin.read()}}
given["task"] = open(os.environ["AGENTEVAL_TASK"]).read()
pathlib.Path("given.json").write_text(json.dumps(given))
body = {{"model": "m", "messages": [{{"role": "user", "content": given["task"]}}]}}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {{"Content-Type": "application/json"}})
urllib.request.urlopen(request).read()
print("printed")
"""
TOOL = "def weather(city: str) -> str:\n    '''The weather.'''\n    return city\n"
QUESTION = "-v: what is the weather, in {model}?"
REPLY = ReplyPlan(text="replied", calls=(("finish", {"message": "finished"}),))
ANSWERS = {"output": "printed", "reply": "replied", "finish.message": "finished"}


def stand_ins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of each agent's name on PATH, and nothing else."""
    import sys

    for agent in ready_made().values():
        write(folder, {f"bin/{agent.program}": STAND_IN.format(python=sys.executable)})
        (folder / "bin" / agent.program).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))


def given_to(root: Path, run_name: str, task: str) -> tuple[dict[str, Any], str]:
    """Give what a trial's program was given, and the trial's answer."""
    trial = latest_trials(root, run_name)[task]
    return json.loads(trial.outcome.after.text("given.json") or ""), trial.outcome.answer.text


def test_each_program_is_given_the_task_the_model_the_addresses_and_the_tools(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row of the table is filled: no placeholder is left, and files are of the form that they say."""
    stand_ins(pytester.path, monkeypatch)
    grader = {"name": "file_exists", "config": {"paths": ["given.json"]}}
    for name in ready_made():
        suite = {
            "name": name,
            "agent": {"cli": name, "args": ["--more={HOME}/x"]},
            "tools": ["tools.py"],
            "env": {"A": "b"},
        }
        task = {"id": name, "input": {"content": QUESTION}, "graders": [grader]}
        files = {"suite.yaml": json.dumps(suite), "task.json": task, "tools.py": TOOL}
        write(pytester.path, {f"evals/{name}/{file}": text for file, text in files.items()})
    with ModelServer([REPLY]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        run(pytester, "--agent-live", "--agent-run-name=own").assert_outcomes(passed=len(ready_made()))
        write(pytester.path, {"evals/goose/suite.yaml": '{"name": "goose", "agent": {"cli": "goose"}}'})
        models = "--agent-model=openai/some-model"
        run(pytester, models, "--agent-run-name=named").assert_outcomes(passed=len(ready_made()))
        write(pytester.path, {"evals/goose/task.json": {**task, "input": {"turns": ["Hi", "And now?"]}}})
        several = run(pytester, "evals/goose", "--agent-live", "--agent-run-name=turns")
    several.stdout.fnmatch_lines(["*the task has several user turns, and a ready-made agent answers once"])

    for name, agent in ready_made().items():
        given, answer = given_to(pytester.path, "own", name)
        text = json.dumps(given)
        assert answer == ANSWERS[agent.answers_by]
        assert given["args"][-1] == f"--more={given['env']['HOME']}/x"
        assert given["env"]["A"] == "b"
        assert given["task"].strip() == given["stdin"].strip() == QUESTION
        assert re.findall(r"\{(?:[A-Z_]+|content|wire)\b[^{]*?\}", text) == []
        assert "some-model" not in text
        assert name == "aider" or f"{given['env']['AGENTEVAL_MCP_URL']}" in json.dumps(
            [given["args"], given["files"]]
        )
        for path, content in given["files"].items():
            {".json": json.loads, ".toml": tomllib.loads}.get(Path(path).suffix, str)(content)
        named, _ = given_to(pytester.path, "named", name)
        assert "some-model" in json.dumps(named)
    assert "agenteval/config" not in json.dumps(given_to(pytester.path, "named", "goose")[0]["files"])


def test_an_agent_that_is_unknown_or_not_installed_is_one_line_before_any_trial(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the key, what is missing, and the command that installs it."""
    monkeypatch.setenv("PATH", str(pytester.path))
    task = {
        "id": "hi",
        "input": {"content": "hi"},
        "graders": [{"name": "answer_contains", "config": {"text": "hi"}}],
    }
    agents = ("claude-cod", "claude-code", "aider, args: {a: b}", "aider, output: text")
    for at, agent in enumerate(agents):
        suite = f"name: s{at}\nagent: {{cli: {agent}}}\n"
        write(pytester.path, {f"evals/{at}/suite.yaml": suite, f"evals/{at}/hi.json": task})

    result = run(pytester, "evals", "--continue-on-collection-errors")

    result.assert_outcomes(errors=len(agents))
    result.stdout.fnmatch_lines(
        [
            "evals/0/suite.yaml:2: agent.cli",
            "  expected: one of claude-code, codex, *",
            "  found:    'claude-cod'",
            "  hint:     did you mean 'claude-code'?",
            "evals/1/suite.yaml:2: agent.cli",
            "  expected: `claude` on PATH",
            "  found:    nothing",
            "  hint:     npm install -g @anthropic-ai/claude-code",
            "evals/2/suite.yaml:2: agent.args",
            "  expected: a list of arguments",
            "evals/3/suite.yaml:2: agent.output",
            "  found:    an agent by `cli`",
        ]
    )


def test_a_folder_of_a_name_is_empty_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one of the name has another path; the first is the same again, without what was left there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = NamedFolder("same"), NamedFolder("same")
    assert (first.path, second.path.name[:5]) == (tmp_path / "same", "same-")
    first.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == []
    write(tmp_path, {"same/left/over.txt": "by a process that was killed"})
    again = NamedFolder("same")
    assert (again.path, list(again.path.iterdir())) == (tmp_path / "same", [])
    again.remove()
