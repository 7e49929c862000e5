"""What fails while an agent is recorded fails in a replay, or is asked again where the trial broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_agenteval import Trial
from tests.journals import latest_trials, trials_by_task
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


def reading(question, base=None):
    try:
        urlopen((base or os.environ["BOT_BASE"]) + "/rates")
    except HTTPError as failed:
        return f"status {failed.code}"
    except OSError as failed:
        return f"{type(failed).__name__} {type(failed.reason).__name__}"
    return "read"


def reading_nobody(question):
    return reading(question, NOBODY)


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
    words = [reading(question, os.environ["API"]), ask(question)]
    if os.environ.get("BOT_CRASHES"):
        raise ValueError("not finished yet")
    return " ".join([*words, ask("and then?")])
"""


class Model:
    """Repeats what it is asked, which it counts; one of its models is broken."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def reply(self, body: Any, number: int) -> ReplyPlan:
        """Reply."""
        said = body["messages"][-1]["content"]
        self.asked[said] += 1
        return ReplyPlan(status=500) if body["model"] == "broken" else ReplyPlan(text=f"reply to {said}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that the bot asks."""
    with ModelServer(Model().reply) as started:
        monkeypatch.setenv("BOT_BASE", started.anthropic_base)
        yield started


def write_suite(pytester: pytest.Pytester, name: str, agent: str, text: str, **more: Any) -> None:
    """Write a suite whose agent is a function of a module beside it, and whose answer holds a text."""
    grader = {"name": "answer_contains", "config": {"text": text}}
    task = {"id": name, "input": {"content": name}, "graders": [grader], **more}
    suite = f"name: {name}\nkind: regression\nagent: {{call: bot:{agent}, name: {name}}}\n"
    files = {"bot.py": BOT, "suite.yaml": suite, "t.yaml": task}
    write(pytester.path, {f"evals/{name}/{file}": content for file, content in files.items()})


def only_trial(root: Path) -> Trial:
    """Give the one trial of the latest run."""
    (trial,) = latest_trials(root).values()
    return trial


RECORDING: tuple[Any, ...] = ("--agent-record=once", "--agent-record-chat=once")
SUITES = {
    "nobody": ("reading_nobody", "URLError ConnectionRefusedError"),
    "status": ("reading", "status 404"),
    "turning": ("turning_to_another", "status 500: reply to turning"),
    "falling": ("falling_back", "URLError: reply to falling"),
}
CUT_SHORT = {"crashing": "status 404 reply to crashing reply to and then?", "twice": "reply to twice"}


class Recorded(NamedTuple):
    """What came of all suites when they were recorded and replayed, and of those that a crash cut short."""

    endings: dict[str, list[str]]
    replayed: dict[str, list[Trial]]
    resumed: dict[str, list[Trial]]
    unfinished: list[dict[str, bool]]
    asked: list[Counter[str]]
    cassettes: dict[str, str]


_made: list[Recorded] = []


@pytest.fixture
def recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Record all suites, where two crash; record these on; replay the others without a server. Made once."""
    if _made:
        return _made[0]
    for name, (agent, text) in SUITES.items():
        write_suite(pytester, name, agent, text)
    write_suite(pytester, "crashing", "crashing", CUT_SHORT["crashing"])
    write_suite(pytester, "twice", "crashing", CUT_SHORT["twice"], trials_per_run=2)
    cut_short = [f"evals/{name}" for name in CUT_SHORT]
    model, cassettes = Model(), pytester.path / "cassettes"
    asked, unfinished = [], []

    def look() -> None:
        asked.append(model.asked.copy())
        unfinished.append(
            {str(file.relative_to(cassettes)): _is_unfinished(file) for file in cassettes.rglob("*.yaml")}
        )

    with ModelServer(model.reply) as server:
        monkeypatch.setenv("BOT_BASE", server.anthropic_base)
        monkeypatch.setenv("API", "http://127.0.0.1:9")
        monkeypatch.setenv("BOT_CRASHES", "1")
        run(pytester, "evals", *RECORDING)
        endings = {
            name: [trial.ending for trial in found] for name, found in trials_by_task(pytester.path).items()
        }
        look()
        monkeypatch.delenv("BOT_CRASHES")
        monkeypatch.setenv("API", server.anthropic_base)  # somebody has started it
        run(pytester, *cut_short, *RECORDING)
        resumed = trials_by_task(pytester.path)
        look()
        other = BOT.replace('ask("and then?")', 'ask("what else?")')
        write(pytester.path, {"evals/crashing/bot.py": other})
        run(pytester, "evals/crashing", *RECORDING).assert_outcomes(passed=1)
        look()
    run(pytester, *(f"evals/{name}" for name in SUITES), "--agent-record-chat=none")
    texts = {file.parent.name: file.read_text("utf-8") for file in cassettes.glob("*/t.yaml")}
    _made.append(Recorded(endings, trials_by_task(pytester.path), resumed, unfinished, asked, texts))
    return _made[0]


@pytest.mark.parametrize("name", SUITES)
def test_a_failure_that_an_agent_swallows_is_part_of_its_recording(recorded: Recorded, name: str) -> None:
    """Nobody listens while it is recorded, or a server answers 4xx or 5xx, as a tool or a model.

    In a replay nobody is asked, and the agent sees the same; it asks another model as it did before.
    """
    (replayed,) = recorded.replayed[name]
    assert (recorded.endings[name], replayed.ending) == (["passed"], "passed")
    if name == "nobody":
        assert "failure: 'urllib.error.URLError:" in recorded.cassettes["nobody"]
    if name == "falling":
        assert [event.kind for event in replayed.transcript.events] == ["model_request_failed"]


def test_a_recording_that_a_crash_cut_short_goes_on(recorded: Recorded) -> None:
    """``once`` plays what was recorded, asks what is missing and those that failed, and then is closed."""
    assert recorded.endings["crashing"] == ["errored"]
    (trial,) = recorded.resumed["crashing"]
    assert (trial.ending, trial.chat_tape.hits) == ("passed", 1)
    assert [asked["crashing"] for asked in recorded.asked] == [1, 1, 1]
    assert "what else?" not in recorded.asked[-1]


def test_where_the_same_trial_passes_at_another_attempt_its_file_is_finished(recorded: Recorded) -> None:
    """Also where another trial of the task broke: the file is the tools' of both."""
    assert recorded.endings["twice"] == ["errored", "errored"]
    assert [trial.ending for trial in recorded.resumed["twice"]] == ["passed", "passed"]
    before, after, _ = (
        {name: is_unfinished for name, is_unfinished in found.items() if name.startswith("twice/")}
        for found in recorded.unfinished
    )
    assert [*before.values()] == [True, True, True]
    assert after == dict.fromkeys(before, False)
    assert not any(recorded.unfinished[1].values())


def test_a_recording_that_a_limit_cut_short_goes_on(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the limit it replays as far as it goes; ``once`` without the limit records the rest."""
    write_suite(pytester, "slow", "slow", "reply to first reply to second")
    monkeypatch.setenv("BOT_SLEEPS", "20")  # the run does not wait for its end
    for mode in ("once", "once", "none"):
        run(pytester, "evals", f"--agent-record-chat={mode}", "--agent-timeout=1")
        assert (only_trial(pytester.path).limit, len(server.requests)) == ("seconds", 1)
    files = sorted((pytester.path / "cassettes").rglob("*.yaml"))
    assert [_is_unfinished(file) for file in files] == [True]
    monkeypatch.delenv("BOT_SLEEPS")

    run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)

    assert (len(server.requests), _is_unfinished(files[0])) == (2, False)


def _is_unfinished(file: Path) -> bool:
    return "unfinished: true" in file.read_text("utf-8")
