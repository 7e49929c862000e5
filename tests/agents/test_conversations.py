"""Users in several turns: the task's own lines, or a model that plays a person, whoever the agent is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_agenteval import Trial
from tests.journals import latest_trials
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
    "function": "{call: bot:answer, name: function}",
    "async": "{call: bot:waiting, name: async}",
    "command": "{command: [python3, speaker.py], name: command}",
}
FUNCTION = AGENTS["function"]


def turn(message: str, *, done: bool = False) -> ReplyPlan:
    """Give what a model says that plays a user."""
    return ReplyPlan(text=json.dumps({"done": done, "message": message}))


TURNS = [turn("three loaves"), turn("thank you"), turn("", done=True)]


def by_persona(body: Mapping[str, Any], number: int) -> ReplyPlan:
    """Say two things more, but for those who never stop, say what is no turn, or are not there."""
    told = json.dumps(body["messages"][0])
    if "chatterbox" in told:
        return turn("more")
    if "mumbler" in told:
        return ReplyPlan(text="hmm")
    if "ghost" in told:
        return ReplyPlan(status=400)
    return TURNS[sum(message["role"] == "user" for message in body["messages"]) - 1]


def write_suite(root: Path, name: str, agent: str, **task: Any) -> None:
    """Write a suite with one task, and what acts in it."""
    folder = f"evals/{name}"
    graders = [{"name": "answer_matches", "config": {"patterns": [task.pop("wants", ".")]}}]
    task = {"id": name, "graders": graders, **task}
    agent = agent.replace("name: function", f"name: {name}")
    files = {"bot.py": BOT, "speaker.py": COMMAND, "suite.yaml": f"name: {name}\nagent: {agent}\n"}
    write(root, {f"{folder}/{file}": text for file, text in {**files, "task.yaml": task}.items()})


def write_person(root: Path, server: ModelServer) -> None:
    """Write the alias of the model that plays users."""
    alias = f'person = {{id = "openai/p", api_base = "{server.openai_base}"}}'
    write(root, {"pyproject.toml": f"[tool.pytest.ini_options]\n[tool.agenteval.models]\n{alias}\n"})


def test_an_agent_of_the_users_answers_each_turn(pytester: pytest.Pytester) -> None:
    """It is called for each line of the task, with what was said before; the last answer is graded.

    What holds its own conversation is called once. A task with a user asks for a model that plays it.
    """
    turns = {"turns": ["hello", "two rolls"]}
    for name, agent in AGENTS.items():
        write_suite(pytester.path, name, agent, input=turns, wants="^3: TWO ROLLS$")
    at_once = "{call: bot:all_at_once}"
    write_suite(pytester.path, "at_once", at_once, input=turns, wants="^hello two rolls$")
    write_suite(pytester.path, "nobody", FUNCTION, input={"content": "hello"}, user=PERSON)

    result = run(pytester, "evals")

    result.assert_outcomes(passed=4, errors=1)
    assert latest_trials(pytester.path)["nobody"].ending == "errored"
    result.stdout.fnmatch_lines(["simulated_user: *--agent-user=MODEL*"])


def test_a_role_beside_the_content_of_an_input_is_data_of_the_task(pytester: pytest.Pytester) -> None:
    """Without turns the content is the user's, whatever other keys the task's author has for the agent."""
    nurse = {"content": "hello", "role": "nurse"}
    for name, agent in AGENTS.items():
        write_suite(pytester.path, name, agent, input=nurse, wants="^1: HELLO$")
    write_suite(pytester.path, "at_once", "{call: bot:all_at_once}", input=nurse, wants="^hello$")

    run(pytester, "evals").assert_outcomes(passed=4)


class Played(NamedTuple):
    """What came of conversations with a model as the user, recorded and replayed, and what it was asked."""

    recorded: dict[str, Trial]
    replayed: dict[str, Trial]
    screens: list[pytest.RunResult]
    requests: list[list[Mapping[str, Any]]]


_made: list[Played] = []


@pytest.fixture
def played(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Played:
    """All of them, recorded once and replayed without the model and its key; made once."""
    if _made:
        return _made[0]
    hello = {"content": "hello"}
    for name, agent in AGENTS.items():
        write_suite(pytester.path, name, agent, input=hello, user=PERSON, wants="^5: THANK YOU$")
    for name, wants in {"chatterbox": "^7: MORE$", "mumbler": ".", "ghost": "."}.items():
        user = {**PERSON, "persona": name}
        write_suite(pytester.path, name, FUNCTION, input=hello, user=user, wants=wants)
    person = "--agent-user=person"
    with ModelServer(by_persona) as server:
        write_person(pytester.path, server)
        first = run(pytester, "evals", person, "--agent-record-chat=once")
        requests = [request.body["messages"] for request in server.requests]
    recorded = latest_trials(pytester.path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    replayed = [f"evals/{name}" for name in AGENTS]
    by_default = run(pytester, *replayed, person, "-q")
    again = run(pytester, *replayed, person, "--agent-record-chat=none")
    _made.append(Played(recorded, latest_trials(pytester.path), [first, by_default, again], requests))
    return _made[0]


def test_a_model_plays_the_user_and_is_played_without_it(played: Played) -> None:
    """It answers what the agent says until it is done; what it takes is no usage of the agent's."""
    first, *later = played.screens
    first.assert_outcomes(passed=4, errors=2)
    for result in later:
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["*simulated users: 9 turns, 135 tokens*"])
    for name in AGENTS:
        for trial in (played.recorded[name], played.replayed[name]):
            assert (trial.usage.tokens, trial.simulating.asks) == (None if name == "command" else 0, 3)
            (left,) = [event for event in trial.transcript.events if event.kind == "user_left"]
            assert left.text == "the simulated user was done"
    heard = next(messages for messages in played.requests if len(messages) == 5)
    assert [message["role"] for message in heard] == ["system", "assistant", "user", "assistant", "user"]
    assert heard[2]["content"] == "1: HELLO"


def test_a_user_who_never_stops_says_so_much_and_no_more(played: Played) -> None:
    """``most_turns`` ends the conversation, which is graded as it then is."""
    trial = played.recorded["chatterbox"]
    assert (trial.ending, trial.simulating.asks) == ("passed", 3)
    assert "4 messages, the most" in trial.transcript.events[-1].text


@pytest.mark.parametrize(
    ("name", "says"),
    [("mumbler", "returned no valid turn in 2 tries: 'hmm'"), ("ghost", "simulated user:")],
)
def test_a_user_who_fails_is_no_doing_of_the_agent(played: Played, name: str, says: str) -> None:
    """The trial is errored with a cause of its own, and in no average."""
    trial = played.recorded[name]
    assert (trial.ending, trial.cause) == ("errored", "simulated_user")
    assert says in trial.message


def test_a_turn_without_a_recording_is_sent_to_the_users_model(pytester: pytest.Pytester) -> None:
    """Where ``--agent-user`` names a model and no mode is given; the cassette stays as it is."""
    write_suite(pytester.path, "bakery", FUNCTION, input={"content": "hello"}, user=PERSON)
    with ModelServer(by_persona) as server:
        write_person(pytester.path, server)
        run(pytester, "evals", "--agent-user=person", "--agent-record-chat=once")
        (cassette,) = (pytester.path / "cassettes").rglob("*.yaml")
        before = cassette.read_text("utf-8")
        write(pytester.path, {"evals/bakery/bot.py": BOT.replace("question.upper()", "len(question)")})

        run(pytester, "evals", "--agent-user=person").assert_outcomes(passed=1)

        assert len(server.requests) > 3
    assert cassette.read_text("utf-8") == before


def test_offline_agents_hear_the_first_words_of_a_user_whom_nobody_plays(pytester: pytest.Pytester) -> None:
    """Nobody pays for the oracle. A registered model that plays a user and raises crashes no agent."""
    reference = {"turns": [{"text": "HELLO"}]}
    task = {"input": {"content": "hello"}, "user": PERSON, "reference_solution": reference, "wants": "HELLO"}
    write_suite(pytester.path, "bakery", FUNCTION, **task)
    conftest = (
        "class Broken:\n    async def ask(self, messages, **more):\n        return 1 / 0\n"
        "def pytest_agenteval_register(registry):\n"
        "    registry.model('broken', lambda model, plan: Broken())\n"
    )
    write(pytester.path, {"conftest.py": conftest})

    run(pytester, "evals", "--agent-model=oracle").assert_outcomes(passed=1)
    broken = run(pytester, "evals", "--agent-user=broken")

    broken.assert_outcomes(errors=1)
    broken.stdout.fnmatch_lines(["simulated_user: *: ZeroDivisionError: division by zero"])
