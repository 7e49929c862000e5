"""What fails while an agent is recorded fails in a replay, or is asked again where the trial broke."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval import Trial, load_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BOT = """
import json
import os
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

NOBODY = "http://127.0.0.1:9"


def ask(text, model="gpt-x", base=None):
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()
    address = (base or os.environ["BOT_BASE"]) + "/v1/chat/completions"
    with urlopen(Request(address, body, {"content-type": "application/json"})) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def reading(question):
    try:
        urlopen(os.environ.get("API", NOBODY) + "/rates")
    except HTTPError as failed:
        return f"status {failed.code}"
    except OSError as failed:
        return f"{type(failed).__name__} {type(failed.reason).__name__}"
    return "read"


def falling_back(question):
    try:
        return ask(question, "gpt-a", NOBODY)
    except OSError as failed:
        return f"{type(failed).__name__}: {ask(question, 'gpt-b')}"


def turning_to_another(question):
    try:
        return ask(question, "broken")
    except HTTPError as failed:
        return f"status {failed.code}: {ask(question)}"


def slow(question):
    words = [ask("first")]
    time.sleep(float(os.environ.get("BOT_SLEEPS", "0")))
    return " ".join([*words, ask("second")])


def crashing(question):
    words = [reading(question), ask("first")]
    if os.environ.get("BOT_CRASHES"):
        raise ValueError("not finished yet")
    return " ".join([*words, ask("second")])
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that counts, and one that is broken; the bot asks them."""

    def reply(body: Any, number: int) -> ReplyPlan:
        broken = body.get("model") == "broken"
        return ReplyPlan(status=500) if broken else ReplyPlan(text=f"reply {number + 1}")

    with ModelServer(reply) as started:
        monkeypatch.setenv("BOT_BASE", started.anthropic_base)
        yield started


def prepare(pytester: pytest.Pytester, name: str, text: str) -> None:
    """Write a suite whose agent is a function of a module beside it, and whose answer holds a text."""
    task = {
        "id": "t",
        "input": {"content": "Hm?"},
        "graders": [{"name": "answer_contains", "config": {"text": text}}],
    }
    suite = f"name: s\nkind: regression\nagent: {{call: bot:{name}}}\n"
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/bot.py": BOT, "evals/suite.yaml": suite})
    write(pytester.path, {"evals/t.yaml": task})


def only_trial(root: Path) -> Trial:
    """Give the one trial of the latest run."""
    latest = load_run((root / ".agenteval/runs/latest").resolve())
    (entry,) = latest.entries
    return latest.trial(entry)


RECORDING: tuple[Any, ...] = ("evals", "--agent-record=once", "--agent-record-chat=once")
REPLAY: tuple[Any, ...] = ("evals", "--agent-record-chat=none")


def test_a_failure_that_an_agent_swallows_is_part_of_its_recording(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens while it is recorded; in a replay nobody is asked, and the agent sees the same."""
    prepare(pytester, "reading", "URLError ConnectionRefusedError")

    run(pytester, *RECORDING).assert_outcomes(passed=1)
    run(pytester, *REPLAY).assert_outcomes(passed=1)

    text = (pytester.path / "cassettes/t.yaml").read_text("utf-8")
    assert "failure: 'urllib.error.URLError:" in text


@pytest.mark.parametrize(
    ("agent", "text"), [("reading", "status 404"), ("turning_to_another", "status 500: reply 2")]
)
def test_a_servers_failure_is_part_of_the_recording(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch, agent: str, text: str
) -> None:
    """A status of 4xx or 5xx is a response like any other, of a tool and of a model."""
    monkeypatch.setenv("API", server.anthropic_base)
    prepare(pytester, agent, text)

    run(pytester, *RECORDING).assert_outcomes(passed=1)
    server.stop()
    run(pytester, *REPLAY).assert_outcomes(passed=1)


def test_an_agent_that_asks_another_model_does_so_in_a_replay(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """The first is not there, nor was it when this was recorded."""
    prepare(pytester, "falling_back", "URLError: reply 1")

    run(pytester, *RECORDING).assert_outcomes(passed=1)
    server.stop()
    run(pytester, *REPLAY).assert_outcomes(passed=1)

    kinds = [event.kind for event in only_trial(pytester.path).transcript.events]
    assert kinds == ["model_request_failed"]


def test_a_recording_that_a_crash_cut_short_goes_on(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``once`` plays what was recorded, asks what is missing and those that failed, and then is closed."""
    prepare(pytester, "crashing", "status 404 reply 1 reply 2")
    monkeypatch.setenv("BOT_CRASHES", "1")
    run(pytester, *RECORDING).assert_outcomes(errors=1)
    monkeypatch.delenv("BOT_CRASHES")
    monkeypatch.setenv("API", server.anthropic_base)  # somebody has started it

    run(pytester, *RECORDING).assert_outcomes(passed=1)

    assert [len(server.requests), only_trial(pytester.path).chat_tape.hits] == [2, 1]
    assert not [file for file in (pytester.path / "cassettes").rglob("*.yaml") if _is_unfinished(file)]
    write(pytester.path, {"evals/bot.py": BOT.replace('ask("second")', 'ask("third")')})
    run(pytester, *RECORDING)
    assert len(server.requests) == 2


def test_where_the_same_trial_passes_at_another_attempt_its_file_is_finished(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another trial of the task broke: the file is the tools' of both."""
    prepare(pytester, "crashing", "reply")
    monkeypatch.setenv("BOT_CRASHES", "1")
    run(pytester, *RECORDING, "--repetitions=2").assert_outcomes(errors=2)
    files = sorted((pytester.path / "cassettes").rglob("*.yaml"))
    assert [_is_unfinished(file) for file in files] == [True, True, True]
    monkeypatch.delenv("BOT_CRASHES")

    run(pytester, *RECORDING, "--repetitions=2").assert_outcomes(passed=2)

    assert [_is_unfinished(file) for file in files] == [False, False, False]


def test_a_recording_that_a_limit_cut_short_goes_on(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the limit it replays as far as it goes; ``once`` without the limit records the rest."""
    prepare(pytester, "slow", "reply 1 reply 2")
    monkeypatch.setenv("BOT_SLEEPS", "20")  # the run does not wait for its end
    for mode in ("once", "once", "none"):
        run(pytester, "evals", f"--agent-record-chat={mode}", "--agent-timeout=1")
        assert (only_trial(pytester.path).limit, len(server.requests)) == ("seconds", 1)
    files = sorted((pytester.path / "cassettes").rglob("*.yaml"))
    assert [_is_unfinished(file) for file in files] == [True]
    monkeypatch.delenv("BOT_SLEEPS")

    run(pytester, *RECORDING).assert_outcomes(passed=1)

    assert (len(server.requests), _is_unfinished(files[0])) == (2, False)


def _is_unfinished(file: Path) -> bool:
    return "unfinished: true" in file.read_text("utf-8")
