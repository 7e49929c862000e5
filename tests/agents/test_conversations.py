"""Users in several turns: the task's own lines, or a model that plays a person, whoever the agent is."""

from __future__ import annotations

import json
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
def answer(question, messages):
    return f"{len(messages)}: {question.upper()}"


async def waiting(question, messages):
    return f"{len(messages)}: {question.upper()}"


def all_at_once(turns):
    return " ".join(turns)
"""
COMMAND = """
import json, sys

heard = 0
for line in sys.stdin:
    heard += 1
    said = json.loads(line)["input"]["content"]
    print(json.dumps({"type": "answer", "text": f"{2 * heard - 1}: {said.upper()}"}), flush=True)
"""
PERSON = {"persona": "a baker", "goal": "Order 3 loaves.", "stop": "the order is confirmed", "most_turns": 4}
AGENTS = {
    "function": "agent: {call: bot:answer}",
    "async": "agent: {call: bot:waiting}",
    "command": "agent: {command: [python3, speaker.py]}",
}


def turn(message: str, *, done: bool = False) -> ReplyPlan:
    """Give what a model says that plays a user."""
    return ReplyPlan(text=json.dumps({"done": done, "message": message}))


@pytest.fixture
def user_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that plays a user who says two things more."""
    replies = [turn("three loaves"), turn("thank you"), turn("", done=True)]
    with ModelServer(lambda body, number: replies[number % 3]) as server:
        yield server


def prepare(pytester: pytest.Pytester, agent: str, server: ModelServer | None = None, **task: Any) -> None:
    """Write a suite with one task, and what acts in it."""
    alias = (
        f'[tool.agenteval.models]\nperson = {{id = "openai/p", api_base = "{server.openai_base}"}}'
        if server
        else ""
    )
    write(pytester.path, {"pyproject.toml": f"[tool.pytest.ini_options]\n{alias}\n"})
    write(pytester.path, {"evals/bakery/bot.py": BOT, "evals/bakery/speaker.py": COMMAND})
    write(pytester.path, {"evals/bakery/suite.yaml": f"name: bakery\n{agent}\n"})
    graders = [{"name": "answer_matches", "config": {"patterns": [task.pop("wants", ".")]}}]
    write(pytester.path, {"evals/bakery/bread.yaml": {"id": "bread", "graders": graders, **task}})


def only_trial(root: Path) -> Trial:
    """Give the one trial of the latest run."""
    folders = (root / ".agenteval" / "runs").glob("2*")
    latest = load_run(max(folders, key=lambda folder: (folder / "run.json").stat().st_mtime_ns))
    (entry,) = latest.entries
    return latest.trial(entry)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_an_agent_of_the_users_answers_each_turn(pytester: pytest.Pytester, agent: str) -> None:
    """It is called for each line of the task, with what was said before; the last answer is graded."""
    prepare(pytester, agent, input={"turns": ["hello", "two rolls"]}, wants="^3: TWO ROLLS$")

    run(pytester, "evals").assert_outcomes(passed=1)


def test_a_function_may_take_all_turns_at_once(pytester: pytest.Pytester) -> None:
    """What holds its own conversation is called once."""
    prepare(pytester, "agent: {call: bot:all_at_once}", input={"turns": ["a", "b"]}, wants="^a b$")

    run(pytester, "evals").assert_outcomes(passed=1)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_a_model_plays_the_user_and_is_played_without_it(
    pytester: pytest.Pytester, user_model: ModelServer, agent: str
) -> None:
    """It answers what the agent says until it is done; what it takes is no usage of the agent's."""
    prepare(pytester, agent, user_model, input={"content": "hello"}, user=PERSON, wants="^5: THANK YOU$")
    person = ("evals", "--agent-user=person")

    recorded = run(pytester, *person, "--agent-record-chat=once")
    user_model.stop()
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("OPENAI_API_KEY", raising=False)
        by_default = run(pytester, *person, "-q")
        played = run(pytester, *person, "--agent-record-chat=none")

    for result in (recorded, by_default, played):
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["*simulated users: 3 turns, 45 tokens*"])
    trial = only_trial(pytester.path)
    assert (trial.usage.tokens, trial.simulating.asks) == (None if agent == AGENTS["command"] else 0, 3)
    (left,) = [event for event in trial.transcript.events if event.kind == "user_left"]
    assert left.text == "the simulated user was done"
    heard = user_model.requests[1].body["messages"]
    assert [message["role"] for message in heard] == ["system", "assistant", "user", "assistant", "user"]
    assert heard[2]["content"] == "1: HELLO"


def test_a_turn_without_a_recording_is_sent_to_the_users_model(
    pytester: pytest.Pytester, user_model: ModelServer
) -> None:
    """Where ``--agent-user`` names a model and no mode is given; the cassette stays as it is."""
    prepare(pytester, AGENTS["function"], user_model, input={"content": "hello"}, user=PERSON)
    run(pytester, "evals", "--agent-user=person", "--agent-record-chat=once")
    (cassette,) = (pytester.path / "cassettes").rglob("*.yaml")
    before = cassette.read_text("utf-8")
    write(pytester.path, {"evals/bakery/bot.py": BOT.replace("question.upper()", "len(question)")})

    run(pytester, "evals", "--agent-user=person").assert_outcomes(passed=1)

    assert len(user_model.requests) > 3
    assert cassette.read_text("utf-8") == before


def test_a_user_who_never_stops_says_so_much_and_no_more(pytester: pytest.Pytester) -> None:
    """``most_turns`` ends the conversation, which is graded as it then is."""
    with ModelServer([turn("more")]) as server:
        prepare(
            pytester, AGENTS["function"], server, input={"content": "hello"}, user=PERSON, wants="^7: MORE$"
        )

        run(pytester, "evals", "--agent-user=person").assert_outcomes(passed=1)

        assert len(server.requests) == 3
    assert "4 messages, the most" in only_trial(pytester.path).transcript.events[-1].text


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (ReplyPlan(text="hmm"), "*said what is no turn, 2 times: 'hmm'*"),
        (ReplyPlan(status=400), "*simulated user:*"),
    ],
)
def test_a_user_who_fails_is_no_doing_of_the_agent(
    pytester: pytest.Pytester, reply: ReplyPlan, says: str
) -> None:
    """The trial is errored with a cause of its own, and in no average."""
    with ModelServer([reply]) as server:
        prepare(pytester, AGENTS["function"], server, input={"content": "hello"}, user=PERSON)

        result = run(pytester, "evals", "--agent-user=person")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"simulated_user: {says}"])


def test_a_users_registered_model_that_raises_is_no_crash_of_the_agent(pytester: pytest.Pytester) -> None:
    """Whatever class the exception has, also where the agent catches all of them."""
    prepare(pytester, AGENTS["function"], input={"content": "hello"}, user=PERSON)
    conftest = (
        "class Broken:\n    async def ask(self, messages, **more):\n        return 1 / 0\n"
        "def pytest_agenteval_register(registry):\n"
        "    registry.model('broken', lambda model, plan: Broken())\n"
    )
    write(pytester.path, {"conftest.py": conftest})
    result = run(pytester, "evals", "--agent-user=broken")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["simulated_user: *: ZeroDivisionError: division by zero"])


def test_without_a_model_a_user_speaks_to_nobody_but_offline_agents(pytester: pytest.Pytester) -> None:
    """A task with a user asks for one; the oracle, whom nobody pays for, hears the first words."""
    reference = {"turns": [{"text": "HELLO"}]}
    task = {"input": {"content": "hello"}, "user": PERSON, "reference_solution": reference, "wants": "HELLO"}
    prepare(pytester, AGENTS["function"], **task)

    asked = run(pytester, "evals")
    offline = run(pytester, "evals", "--agent-model=oracle")

    asked.assert_outcomes(errors=1)
    asked.stdout.fnmatch_lines(["simulated_user: *--agent-user=MODEL*"])
    offline.assert_outcomes(passed=1)
