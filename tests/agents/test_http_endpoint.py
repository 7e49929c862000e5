"""An agent behind an HTTP endpoint is asked, recorded, and replayed without its server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_agenteval.agents import http_agent
from pytest_agenteval.records.trial import Trial
from tests.agents.endpoints import Received, Reply, serving
from tests.journals import latest_trials, trials_by_task
from tests.suites import run, write

pytest_plugins = ["pytester"]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_agent, "FIRST_WAIT_S", 0.001)


def write_suite(root: Path, name: str, agent: dict[str, Any], *tasks: str, **task: Any) -> None:
    """Write a suite of an endpoint, with a task or several, which are called like the suite or so."""
    told: dict[str, Any] = {
        "input": {"content": "Weather in Oslo?"},
        "graders": [{"name": "answer_contains", "config": {"text": "-7"}}],
        **task,
    }
    suite = {"name": name, "agent": {**agent, "name": name}}
    files = {"suite.yaml": json.dumps(suite), "tasks.json": [{"id": id, **told} for id in tasks or (name,)]}
    write(root, {f"evals/{name}/{file}": content for file, content in files.items()})


def _openai(asked: Received) -> Reply:
    said = f"{len(asked.body['messages'])} messages, -7"
    choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 8, "completion_tokens": 2}
    return Reply(
        {"id": "1", "object": "chat.completion", "model": "bot-1", "choices": [choice], "usage": usage}
    )


def _anthropic(asked: Received) -> Reply:
    assert asked.headers["anthropic-version"]
    assert asked.body["max_tokens"]
    said = [{"type": "text", "text": f"{len(asked.body['messages'])} messages, -7"}]
    usage = {"input_tokens": 8, "output_tokens": 2}
    reply = {"id": "1", "type": "message", "role": "assistant", "model": "bot-1", "content": said}
    return Reply({**reply, "stop_reason": "end_turn", "usage": usage})


CANARY = "canary-4711-sesame-open-up"


def _whole(asked: Received) -> Reply:
    calls = [{"tool": "weather", "args": {"city": "Oslo"}, "result": {"c": -7}}]
    text = f"It is -7 ({asked.body['repetition']})."
    said = {"text": text, "tool_calls": calls, "tokens": {"input_tokens": 9}}
    return Reply({"reply": said, "cart": {"n": 1}})


ENDPOINTS: dict[str, Callable[[Received], Reply]] = {
    "/chat": _whole,
    "/v1/chat/completions": _openai,
    "/v1/messages": _anthropic,
    "/secret": lambda asked: Reply({"said": f"-7, {asked.headers['x-pass']}, {asked.body['q']}"}),
}


class Recorded(NamedTuple):
    """What came of all endpoints as they were recorded, and replayed without them; what they were sent."""

    root: Path
    trials: dict[str, list[Trial]]
    replayed: dict[str, list[Trial]]
    received: dict[str, list[Received]]
    screen: str
    replay_screen: str


_recorded: list[Recorded] = []


@pytest.fixture
def recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Four endpoints that are recorded and replayed, and one without a recording; made once."""
    if _recorded:
        return _recorded[0]
    root = pytester.path
    monkeypatch.setenv("WEATHER_PASS", CANARY)

    def answer(asked: Received) -> Reply:
        return ENDPOINTS[asked.path](asked)

    # The address that stands in a variable is a secret: it is another than that of all others.
    with serving(answer) as server, serving(answer) as secret_server:
        monkeypatch.setenv("WEATHER_URL", secret_server.url)
        form = {"http": f"{server.url}/chat", "answer": "reply.text", "calls": "reply.tool_calls"}
        tool = {"name": "tool_called", "config": {"tools": ["weather"]}}
        graders = [{"name": "answer_contains", "config": {"text": "-7"}}, tool]
        parts = {"state": "cart", "usage": "reply.tokens"}
        write_suite(root, "parts", {**form, **parts}, graders=graders, trials_per_run=2)
        turns = {"turns": [{"role": "user", "content": text} for text in ("Weather?", "In Oslo?")]}
        for shape, path in (("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")):
            write_suite(root, shape, {"http": server.url + path, "as": shape}, input=turns)
        secret = {"http": "${WEATHER_URL}/secret", "headers": {"X-Pass": "${WEATHER_PASS}"}, "answer": "said"}
        body = {"q": "{content}", "who": "${WEATHER_PASS}", "n": 1}
        write_suite(root, "secret", {**secret, "body": body})
        first = run(pytester, "--agent-record=once")
        sent = [*server.received, *secret_server.received]
        received = {path: [each for each in sent if each.path == path] for path in ENDPOINTS}
        found = trials_by_task(root)
        write_suite(root, "unrecorded", {"http": f"{server.url}/chat"})
        monkeypatch.delenv("WEATHER_PASS")
        monkeypatch.delenv("WEATHER_URL")
        again = run(pytester, "--agent-record=none")
        assert len(server.received) + len(secret_server.received) == len(sent)
    first.assert_outcomes(passed=5)
    again.assert_outcomes(passed=5, errors=1)
    screens = str(first.stdout), str(again.stdout)
    _recorded.append(Recorded(root, found, trials_by_task(root), received, *screens))
    return _recorded[0]


def test_an_endpoint_is_asked_recorded_and_replayed_without_its_server(recorded: Recorded) -> None:
    """By default a JSON body with the whole input; the reply's parts stand where the form says."""
    received = sorted(recorded.received["/chat"], key=lambda each: each.body["repetition"])
    assert len(received) == 2
    asked = received[0]
    session = asked.body["session"]
    assert {name: value for name, value in asked.body.items() if name != "session"} == {
        "input": {"content": "Weather in Oslo?"},
        "task": "parts",
        "repetition": 1,
        "turns": [{"role": "user", "content": "Weather in Oslo?"}],
    }
    assert session != received[1].body["session"]
    assert asked.headers["x-agenteval-trial"].startswith("parts/parts[")
    first, second = recorded.replayed["parts"]
    assert (first.outcome.answer.text, second.outcome.answer.text) == ("It is -7 (1).", "It is -7 (2).")
    assert first.outcome.answer.state == {"n": 1}
    assert [(message.role, message.content) for message in first.transcript.messages] == [
        ("user", "Weather in Oslo?"),
        ("assistant", "It is -7 (1)."),
    ]
    assert [(call.tool, call.args, call.result) for call in first.transcript.calls] == [
        ("weather", {"city": "Oslo"}, {"c": -7})
    ]
    assert (first.usage.input_tokens, first.usage.asks) == (9, 1)


def test_nothing_is_sent_unless_it_is_asked_for(recorded: Recorded) -> None:
    """Without a recording the trial says how to make one."""
    (refused,) = recorded.replayed["unrecorded"]
    assert refused.ending == "errored"
    lines = recorded.replay_screen.splitlines()
    first = next(n for n, line in enumerate(lines) if fnmatch(line, "*POST http://127.0.0.1*/chat*"))
    assert any("--agent-record" in line for line in lines[first:])


@pytest.mark.parametrize(
    ("shape", "path"), [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")]
)
def test_an_endpoint_may_speak_as_models_do_and_is_the_agent_all_the_same(
    recorded: Recorded, shape: str, path: str
) -> None:
    """Each user's turn is a request with the history; it is taped with the tools' switch, not with chats'."""
    bodies = [asked.body["messages"] for asked in recorded.received[path]]
    assert [[said["content"] for said in body] for body in bodies] == [
        ["Weather?"],
        ["Weather?", "1 messages, -7", "In Oslo?"],
    ]
    (trial,) = recorded.replayed[shape]
    assert [message.content for message in trial.transcript.messages][-1] == "3 messages, -7"
    assert (trial.usage.input_tokens, trial.usage.asks, trial.transcript.asks[0].model) == (16, 2, "bot-1")
    assert not list(recorded.root.rglob("*.chat"))


def test_secrets_go_to_the_endpoint_and_nowhere_else(recorded: Recorded) -> None:
    """``${NAME}`` is read here, sent, and stands in no file, even where the endpoint says it again.

    A replay needs no secret, and an address may change.
    """
    (asked,) = recorded.received["/secret"]
    assert asked.headers["x-pass"] == CANARY
    assert asked.body == {"q": "Weather in Oslo?", "who": CANARY, "n": 1}
    for file in recorded.root.rglob("*"):
        assert not file.is_file() or CANARY not in file.read_text(encoding="utf-8", errors="replace"), file
    assert CANARY not in recorded.screen


FAILURES: dict[str, tuple[Reply, str, int]] = {
    "busy": (
        Reply("slow down", 429, {"Retry-After": "0"}),
        "*after 3 attempts; last: HTTP 429: slow down*",
        3,
    ),
    "crash": (
        Reply("boom", 500),
        "*after 1 attempt; last: HTTP 500: boom; look at the log of its server*",
        1,
    ),
    "path": (Reply("", 404), "*HTTP 404: Not Found; look at agent.http in suite.yaml*", 1),
    "no_json": (Reply("<html>"), "*expected a reply in JSON, found '<html>'*", 1),
    "no_answer": (
        Reply({"x": 1}),
        "*reply.text: expected*answer's text, found*agent.answer in suite.yaml*",
        1,
    ),
    "calls": (
        Reply({"reply": {"text": "-7", "calls": [7]}}),
        "*reply.calls[[]0]: expected a map, found 7*",
        1,
    ),
}

PAGE = Reply("<!DOCTYPE html><p>Sign in to see -7", headers={"Content-Type": "text/html"})
NO_ANSWERS: dict[str, tuple[Reply, str]] = {
    "page": (PAGE, "*expected a text, or JSON that can be read, found '<!DOCTYPE html>*"),
    "half": (Reply('{"answer": "-7 and a ha'), "*expected a text, or JSON that can be read*"),
    "deep": (Reply('{"answer": -7, "x": ' + "[" * 9000), "*expected a text, or JSON that can be read*"),
    "moved": (
        Reply("-7", 307, {"Location": "https://example.com/chat"}),
        "*HTTP 307: it redirects to https://example.com/chat; look at agent.http in suite.yaml",
    ),
    "endless": (Reply("-7" * 20_000), "*a reply of more than 0 MB; look at the log of its server"),
}


class Live(NamedTuple):
    """What came of endpoints that fail, each in its own way, and how often each was asked."""

    trials: dict[str, Trial]
    asked: list[str]


_live: list[Live] = []


@pytest.fixture
def live(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Endpoints that are asked in earnest, in one run; made once."""
    if _live:
        return _live[0]
    root, release = pytester.path, threading.Event()

    def slow(asked: Received) -> Reply:
        release.wait(20)
        return Reply({"answer": "-7"})

    answers: dict[str, Callable[[Received], Reply]] = {
        "/failing": lambda asked: FAILURES[asked.body["task"]][0],
        "/none": lambda asked: NO_ANSWERS[asked.body["task"].removeprefix("no_")][0],
        "/mark": lambda asked: Reply('\ufeff{"answer": "It is -7"}'),
        "/slow": slow,
    }
    monkeypatch.setattr(http_agent, "MOST_BYTES", 20_000)
    with serving(lambda asked: Reply("")) as closed:
        down = closed.url
    with serving(lambda asked: answers[asked.path](asked)) as server:
        parts = {"answer": "reply.text", "calls": "reply.calls"}
        write_suite(root, "failing", {"http": f"{server.url}/failing", **parts}, *FAILURES)
        write_suite(root, "none", {"http": f"{server.url}/none"}, *(f"no_{name}" for name in NO_ANSWERS))
        write_suite(root, "mark", {"http": f"{server.url}/mark"})
        write_suite(root, "down", {"http": f"{down}/chat"})
        write_suite(root, "limited", {"http": f"{server.url}/slow"}, limits={"seconds": 0.2})
        write_suite(root, "slow", {"http": f"{server.url}/slow", "request_seconds": 0.2})
        unset = {"X-Pass": "${WEATHER_PASS}"}
        write_suite(root, "unset", {"http": f"{server.url}/unset", "headers": unset})
        write_suite(root, "slip", {"http": f"{server.url}/slip", "body": {"q": "{contnet}"}})
        write_suite(root, "unnamed", {"http": f"{server.url}/slip", "body": {"p": "{system_prompt}"}})
        run(pytester, "--agent-live")
        release.set()
        asked = [each.body.get("task", each.path) for each in server.received]
    _live.append(Live(latest_trials(root), asked))
    return _live[0]


def test_what_is_no_answer_is_not_graded_as_one(live: Live) -> None:
    """Of an endpoint that answers in plain text, too, a page, half a document, an address are no text."""
    for name, (_, line) in NO_ANSWERS.items():
        trial = live.trials[f"no_{name}"]
        assert (name, trial.ending) == (name, "errored")
        assert fnmatch(trial.message, line), trial.message


def test_a_byte_order_mark_is_no_part_of_a_reply(live: Live) -> None:
    """What its server puts before the JSON does not make a text of it."""
    assert live.trials["mark"].ending == "passed"
    assert live.trials["mark"].transcript.messages[-1].content == "It is -7"


def test_an_endpoint_that_fails_is_an_errored_trial_with_its_reason(live: Live) -> None:
    """It is asked again only where nothing can have been done; one line says what to look at."""
    for name, (_, line, times) in FAILURES.items():
        trial = live.trials[name]
        assert (name, trial.ending) == (name, "errored")
        assert fnmatch(trial.message, line), trial.message
        assert "\n" not in trial.message
        assert live.asked.count(name) == times


def test_a_server_that_is_down_is_told_as_that(live: Live) -> None:
    """Three attempts, whose waits are no seconds of the trial, and what to do."""
    line = "*no reply after 3 attempts; last: it cannot be reached*check that its server runs*"
    assert fnmatch(live.trials["down"].message, line), live.trials["down"].message


def test_a_slow_endpoint_ends_at_the_trials_limit_and_at_its_own(live: Live) -> None:
    """``limits.seconds`` limits the trial; ``request_seconds`` says that the endpoint is broken."""
    assert (live.trials["limited"].ending, live.trials["limited"].limit) == ("failed", "seconds")
    assert live.trials["slow"].ending == "errored"
    assert "no reply within 0.2 s" in live.trials["slow"].message


def test_a_secret_that_is_not_set_is_named(live: Live) -> None:
    """Before anything is sent."""
    assert "needs $WEATHER_PASS: not set" in live.trials["unset"].message
    assert not {"unset", "/unset"} & {*live.asked}


def test_a_name_that_nothing_is_told_of_is_refused(live: Live) -> None:
    """A slip in the body sends no empty question."""
    line = "*{contnet} has no value; the values are: *content*"
    assert fnmatch(live.trials["slip"].message, line), live.trials["slip"].message
    line = "*{system_prompt} has no value; name today's prompt in suite.yaml: prompts: {system: *}"
    assert fnmatch(live.trials["unnamed"].message, line), live.trials["unnamed"].message
    assert not {"slip", "/slip"} & {*live.asked}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "address": ({"http": "localhost:80"}, "agent.http"),
    "path": ({"http": "http://x", "answer": "a..b"}, "agent.answer"),
    "shape": ({"http": "http://x", "as": "xml"}, "agent.as"),
    "seconds": ({"http": "http://x", "request_seconds": 0}, "agent.request_seconds"),
}


def test_what_is_wrong_with_a_form_is_said_at_collection(pytester: pytest.Pytester) -> None:
    """With the key and its line, all of them at once."""
    for name, (form, _) in WRONG.items():
        write_suite(pytester.path, name, form)
    out = str(run(pytester).stdout)
    for name, (_, key) in WRONG.items():
        assert f"{name}/suite.yaml:1: {key}" in out
    assert out.count("expected:") == len(WRONG)
