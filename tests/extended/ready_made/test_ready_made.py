"""Real ready-made agents, as they are installed, work against a model on this machine, and are replayed.

    PATH=/opt/agents/bin:$PATH python -m pytest tests/extended/ready_made

What is not on PATH is skipped, and says how it is installed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pytest_agenteval.agents.ready_made import ready_made
from pytest_agenteval.records.trial import Trial
from tests.extended.frameworks.model_server import Serving, serving
from tests.extended.frameworks.weather_model import Prompt, texts_in
from tests.journals import latest_run
from tests.loopback.replies import Json, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.posix]

TOOLS = '''
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: -7 degrees"
'''
EXPECTED = ("prompt_changed", "setting_left_out")
ANSWER = "It is -7 degrees in Oslo."
WRITE = "pwd > report.md; printf 'written-%s' now"
SHELLS = {"exec_command": "cmd", "run_shell_command": "command", "shell": "command", "terminal": "command"}
"""Tools that run a line of bash, and their argument; Claude Code and Codex write a file otherwise."""
EXTRA = {
    "terminal": {"security_risk": "LOW", "summary": "write"},
    "run_shell_command": {"description": "write"},
}
AIDER = f"{ANSWER}\n\nreport.md\n```\n<<<<<<< SEARCH\n=======\n/agenteval-\n>>>>>>> REPLACE\n```\n"
CODEX = {
    "weather": 'text(await tools.mcp__agenteval__get_weather({city: "Oslo"}))',
    "write": f"text(await tools.exec_command({json.dumps({'cmd': WRITE})}))",
}


def next_move(body: Json, prompt: Prompt) -> ReplyPlan:
    """Ask for the weather, then write the report by the agent's own shell, then answer."""
    texts = list(texts_in(body))
    whole = "\n".join(texts)
    if "ref broken" in whole:
        return ReplyPlan(status=500, text="the model is broken")
    if not prompt.task or "Task Routing AI" in whole:
        return ReplyPlan(text='{"complexity_reasoning": "simple", "complexity_score": 10}')
    if "SEARCH/REPLACE" in whole:
        return ReplyPlan(text=AIDER, input_tokens=53, output_tokens=11)
    step = "weather" if "Oslo: -7 degrees" not in whole else "write" if "written-now" not in whole else ""
    if step and "Run JavaScript code" in whole:
        return ReplyPlan(calls=(("exec", CODEX[step]),), input_tokens=31, output_tokens=7)
    if step == "weather":
        tool = next(text for text in texts if re.fullmatch(r"\w*get_weather", text))
        more = EXTRA["terminal"] if tool == "get_weather" else {}
        return ReplyPlan(calls=((tool, {"city": "Oslo", **more}),), input_tokens=31, output_tokens=7)
    # A recorded reply holds the path of the workspace, which is the same in a replay.
    if step == "write" and (folder := re.search(r"Primary working directory: (\S+)", whole)):
        args = {"file_path": f"{folder[1]}/report.md", "content": "/agenteval- written-now"}
        return ReplyPlan(calls=(("Write", args),), input_tokens=31, output_tokens=7)
    if step == "write":
        tool = next(text for text in texts if text in SHELLS)
        call = (tool, {SHELLS[tool]: WRITE, **EXTRA.get(tool, {})})
        return ReplyPlan(calls=(call,), input_tokens=31, output_tokens=7)
    if "You are OpenHands agent" in whole:
        return ReplyPlan(calls=(("finish", {"message": ANSWER}),), input_tokens=53, output_tokens=11)
    return ReplyPlan(text=ANSWER, input_tokens=53, output_tokens=11)


@pytest.fixture(params=ready_made())
def cli(request: pytest.FixtureRequest) -> str:
    """Each agent that is installed here."""
    agent = ready_made()[request.param]
    if shutil.which(agent.program) is None:
        pytest.skip(f"{agent.program} is not on PATH: {agent.install} ({agent.version} was tried)")
    return str(request.param)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """The model to which the agents' requests are sent on."""
    with serving(next_move) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.address)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.address)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, "sk-0123456789")
        yield server


def write_suite(root: Path, cli: str, ref: str, seconds: float = 90) -> None:
    """Write a suite of one task for an agent."""
    task = {
        "id": "oslo",
        "input": {"content": f"What is the weather in Oslo? Write report.md. [ref {ref}]"},
        "limits": {"seconds": seconds},
        "graders": [
            {"name": "answer_contains", "config": {"text": ANSWER}},
            {"name": "file_contains", "config": {"path": "report.md", "texts": ["/agenteval-"]}},
        ],
    }
    suite = {"name": "weather", "agent": {"cli": cli}, "kind": "regression", "tools": ["tools.py"]}
    suite["env"] = {"OF_TEST": str(root)}
    files = {"evals/suite.yaml": json.dumps(suite), "evals/oslo.json": task, "evals/tools.py": TOOLS}
    write(root, {"pytest.ini": "[pytest]\n", **files})


def trials_of(root: Path) -> list[Trial]:
    """Give the trials of the latest run."""
    stored = latest_run(root)
    return [stored.trial(entry) for entry in stored.entries]


def left_running(root: Path) -> list[str]:
    """Name the processes that belong to a trial of this test."""
    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OF_TEST") == str(root) and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process.name())
        except psutil.Error:
            continue
    return left


@pytest.mark.parametrize("named", ["own", "another provider's"])
def test_an_agent_is_recorded_and_replayed_without_its_model(
    pytester: pytest.Pytester, model: Serving, cli: str, named: str
) -> None:
    """Two trials at once are told apart; a replay has the same calls, results, tokens and answer."""
    write_suite(pytester.path, cli, "oslo")
    other = "openai/some-model" if cli == "claude-code" else "anthropic/claude-sonnet-4-5"
    options = ("--repetitions=2", "-rA", f"--agent-model={'own' if named == 'own' else other}")
    live = run(pytester, *options, "--agent-record=once", "--agent-record-chat=once", workers=2)
    live.assert_outcomes(passed=2)
    recorded = trials_of(pytester.path)
    model.stop()
    run(pytester, *options, "--agent-record-chat=none").assert_outcomes(passed=2)

    for trial in (*recorded, *trials_of(pytester.path)):
        transcript = trial.transcript
        calls = Counter(call.tool for call in transcript.calls)
        assert [event for event in transcript.events if event.kind not in EXPECTED] == []
        assert trial.outcome.answer.text.startswith(ANSWER)
        assert list(trial.outcome.after) == ["report.md"]
        assert transcript.usage.asks == {"aider": 1, "gemini-cli": 4 if named == "own" else 3}.get(cli, 3)
        assert (transcript.usage.input_tokens or 0) >= 53
        if cli != "aider":  # it has no tools: it reads what it is to write from texts
            assert calls["get_weather"] == 1
            results = "\n".join(str(call.result) for call in transcript.calls)
            assert "Oslo: -7 degrees" in results
            assert "written-now" in results or "File created successfully" in results
    assert left_running(pytester.path) == []


@pytest.mark.parametrize("ref", ["broken", "slow delay=60"])
def test_a_broken_or_slow_model_ends_the_trial_and_the_agent(
    pytester: pytest.Pytester, model: Serving, cli: str, ref: str
) -> None:
    """Whatever the agent does about it, the trial ends as such, and nothing of it goes on."""
    write_suite(pytester.path, cli, ref, seconds=25)
    run(pytester, "--agent-live", "-rA")
    (trial,) = trials_of(pytester.path)
    assert trial.limit == "seconds" or (ref == "broken" and trial.ending == "errored")
    assert left_running(pytester.path) == []
