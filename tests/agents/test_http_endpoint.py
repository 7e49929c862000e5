"""An agent behind an HTTP endpoint is asked, recorded, and replayed without its server."""

from __future__ import annotations

import json
import threading
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.agents import http_agent
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_reader import load_run
from tests.agents.endpoints import Received, Reply, serving
from tests.suites import run, write

pytest_plugins = ["pytester"]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_agent, "FIRST_WAIT_S", 0.001)


def _suite(pytester: pytest.Pytester, agent: dict[str, Any], **task: Any) -> None:
    told: dict[str, Any] = {
        "id": "oslo",
        "input": {"content": "Weather in Oslo?"},
        "graders": [{"name": "answer_contains", "config": {"text": "-7"}}],
        **task,
    }
    suite = {"name": "weather", "agent": agent}
    write(pytester.path, {"evals/suite.yaml": json.dumps(suite), "evals/oslo.json": told})


def _trials(root: Path) -> list[Trial]:
    read = load_run("latest", root / ".agenteval" / "runs")
    return [read.trial(entry) for entry in read.entries]


def test_an_endpoint_is_asked_recorded_and_replayed_without_its_server(pytester: pytest.Pytester) -> None:
    """By default a JSON body with the whole input; the reply's parts stand where the form says."""

    def answer(asked: Received) -> Reply:
        calls = [{"tool": "weather", "args": {"city": "Oslo"}, "result": {"c": -7}}]
        said = {
            "text": f"It is -7 ({asked.body['repetition']}).",
            "tool_calls": calls,
            "tokens": {"input_tokens": 9},
        }
        return Reply({"reply": said, "cart": {"n": 1}})

    with serving(answer) as server:
        form = {"http": f"{server.url}/chat", "answer": "reply.text", "calls": "reply.tool_calls"}
        tool = {"name": "tool_called", "config": {"tools": ["weather"]}}
        words = {"name": "answer_contains", "config": {"text": "-7"}}
        _suite(pytester, {**form, "state": "cart", "usage": "reply.tokens"}, graders=[words, tool])
        run(pytester, "--agent-record=once", "--repetitions=2").assert_outcomes(passed=2)
        received = list(server.received)
        server.close()
    played = run(pytester, "--repetitions=2")

    played.assert_outcomes(passed=2)
    assert len(server.received) == len(received) == 2
    asked = min(received, key=lambda each: each.body["repetition"])
    session = asked.body.pop("session")
    assert asked.body == {
        "input": {"content": "Weather in Oslo?"},
        "task": "oslo",
        "repetition": 1,
        "turns": [{"role": "user", "content": "Weather in Oslo?"}],
    }
    assert session != received[1].body.get("session")
    assert asked.headers["x-agenteval-trial"].startswith("weather/oslo[")
    first, second = sorted(_trials(pytester.path), key=lambda trial: trial.key.repetition)
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


def test_nothing_is_sent_unless_it_is_asked_for(pytester: pytest.Pytester) -> None:
    """Without a recording the trial says how to make one; ``--agent-live`` lets the requests out."""
    with serving(lambda asked: Reply({"answer": "-7"})) as server:
        _suite(pytester, {"http": f"{server.url}/chat"})
        refused = run(pytester)
        assert not server.received
        run(pytester, "--agent-live").assert_outcomes(passed=1)
        assert len(server.received) == 1
    refused.assert_outcomes(errors=1)
    refused.stdout.fnmatch_lines(["*POST http://127.0.0.1*/chat*", "*--agent-record*"])


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


@pytest.mark.parametrize(
    ("shape", "path", "answer"),
    [("openai", "/v1/chat/completions", _openai), ("anthropic", "/v1/messages", _anthropic)],
)
def test_an_endpoint_may_speak_as_models_do_and_is_the_agent_all_the_same(
    pytester: pytest.Pytester, shape: str, path: str, answer: Any
) -> None:
    """Each user's turn is a request with the history; it is taped with the tools' switch, not with chats'."""
    with serving(answer) as server:
        turns = [{"role": "user", "content": text} for text in ("Weather?", "In Oslo?")]
        _suite(pytester, {"http": server.url + path, "as": shape}, input={"turns": turns})
        run(pytester, "--agent-record=once").assert_outcomes(passed=1)
        bodies = [asked.body["messages"] for asked in server.received]
    run(pytester).assert_outcomes(passed=1)

    assert [[said["content"] for said in body] for body in bodies] == [
        ["Weather?"],
        ["Weather?", "1 messages, -7", "In Oslo?"],
    ]
    (trial,) = _trials(pytester.path)
    assert [message.content for message in trial.transcript.messages][-1] == "3 messages, -7"
    assert (trial.usage.input_tokens, trial.usage.asks, trial.transcript.asks[0].model) == (16, 2, "bot-1")
    assert not list(pytester.path.rglob("*.chat"))


def test_secrets_go_to_the_endpoint_and_nowhere_else(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``${NAME}`` is read here, sent, and stands in no file, even where the endpoint says it again."""
    canary = "canary-4711-sesame-open-up"
    monkeypatch.setenv("WEATHER_PASS", canary)
    with serving(
        lambda asked: Reply({"said": f"-7, {asked.headers['x-pass']}, {asked.body['q']}"})
    ) as server:
        monkeypatch.setenv("WEATHER_URL", server.url)
        form = {"http": "${WEATHER_URL}/chat", "headers": {"X-Pass": "${WEATHER_PASS}"}, "answer": "said"}
        _suite(pytester, {**form, "body": {"q": "{content}", "who": "${WEATHER_PASS}", "n": 1}})
        recorded = run(pytester, "--agent-record=once")
        (asked,) = server.received
    recorded.assert_outcomes(passed=1)
    assert asked.headers["x-pass"] == canary
    assert asked.body == {"q": "Weather in Oslo?", "who": canary, "n": 1}
    monkeypatch.delenv("WEATHER_PASS")
    monkeypatch.delenv("WEATHER_URL")
    run(pytester).assert_outcomes(passed=1)  # a replay needs no secret, and an address may change

    for file in pytester.path.rglob("*"):
        assert not file.is_file() or canary not in file.read_text(encoding="utf-8", errors="replace"), file
    assert canary not in str(recorded.stdout)


def test_a_secret_that_is_not_set_is_named(pytester: pytest.Pytester) -> None:
    """Before anything is sent."""
    with serving(lambda asked: Reply("x")) as server:
        _suite(pytester, {"http": server.url, "headers": {"X-Pass": "${WEATHER_PASS}"}})
        run(pytester, "--agent-live").stdout.fnmatch_lines(["*is sent $WEATHER_PASS: not set*"])
        assert not server.received


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
        "*HTTP 307: it is elsewhere, at https://example.com/chat; look at agent.http in suite.yaml",
    ),
    "endless": (Reply("-7" * 20_000), "*a reply of more than 0 MB; look at the log of its server"),
}


def test_what_is_no_answer_is_not_graded_as_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an endpoint that answers in plain text, too, a page, half a document, an address are no text."""
    monkeypatch.setattr(http_agent, "MOST_BYTES", 20_000)
    with serving(lambda asked: NO_ANSWERS[asked.body["task"]][0]) as server:
        _suite(pytester, {"http": server.url})
        task = json.loads((pytester.path / "evals/oslo.json").read_text("utf-8"))
        write(pytester.path, {"evals/oslo.json": [{**task, "id": id} for id in NO_ANSWERS]})
        run(pytester, "--agent-live").assert_outcomes(errors=len(NO_ANSWERS))
    for trial in _trials(pytester.path):
        assert fnmatch(trial.message, NO_ANSWERS[trial.key.task][1]), trial.message


def test_a_byte_order_mark_is_no_part_of_a_reply(pytester: pytest.Pytester) -> None:
    """What its server puts before the JSON does not make a text of it."""
    with serving(lambda asked: Reply('\ufeff{"answer": "It is -7"}')) as server:
        _suite(pytester, {"http": server.url})
        run(pytester, "--agent-live").assert_outcomes(passed=1)
    assert _trials(pytester.path)[0].transcript.messages[-1].content == "It is -7"


def test_an_endpoint_that_fails_is_an_errored_trial_with_its_reason(pytester: pytest.Pytester) -> None:
    """It is asked again only where nothing can have been done; one line says what to look at."""
    with serving(lambda asked: FAILURES[asked.body["task"]][0]) as server:
        _suite(pytester, {"http": f"{server.url}/chat", "answer": "reply.text", "calls": "reply.calls"})
        tasks = [
            {**json.loads((pytester.path / "evals/oslo.json").read_text("utf-8")), "id": id}
            for id in FAILURES
        ]
        write(pytester.path, {"evals/oslo.json": tasks})
        run(pytester, "--agent-live").assert_outcomes(errors=len(FAILURES))
    for trial in _trials(pytester.path):
        _, line, times = FAILURES[trial.key.task]
        assert fnmatch(trial.message, line), trial.message
        assert "\n" not in trial.message
        assert [asked.body["task"] for asked in server.received].count(trial.key.task) == times


def test_a_server_that_is_down_is_told_as_that(pytester: pytest.Pytester) -> None:
    """Three attempts, whose waits are no seconds of the trial, and what to do."""
    with serving(lambda asked: Reply("")) as server:
        pass
    _suite(pytester, {"http": f"{server.url}/chat"})
    result = run(pytester, "--agent-live")
    result.stdout.fnmatch_lines(
        ["*no reply after 3 attempts; last: it cannot be reached*see that its server runs*"]
    )


def test_a_slow_endpoint_ends_at_the_trials_limit_and_at_its_own(pytester: pytest.Pytester) -> None:
    """``limits.seconds`` limits the trial; ``request_seconds`` says that the endpoint is broken."""
    release = threading.Event()

    def answer(asked: Received) -> Reply:
        release.wait(20)
        return Reply({"answer": "-7"})

    with serving(answer) as server:
        form = {"http": f"{server.url}/chat"}
        _suite(pytester, form, limits={"seconds": 0.2})
        limited = run(pytester, "--agent-live")
        _suite(pytester, {**form, "request_seconds": 0.2})
        broken = run(pytester, "--agent-live")
        release.set()
    limited.assert_outcomes(failed=1)
    broken.assert_outcomes(errors=1)
    broken.stdout.fnmatch_lines(["*no reply within 0.2 s*"])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "address": ({"http": "localhost:80"}, "agent.http"),
    "path": ({"http": "http://x", "answer": "a..b"}, "agent.answer"),
    "shape": ({"http": "http://x", "as": "xml"}, "agent.as"),
    "seconds": ({"http": "http://x", "request_seconds": 0}, "agent.request_seconds"),
}


def test_what_is_wrong_with_a_form_is_said_at_collection(pytester: pytest.Pytester) -> None:
    """With the key and its line, all of them at once."""
    for name, (form, _) in WRONG.items():
        _suite(pytester, form)
        (pytester.path / "evals").rename(pytester.path / name)
        path = pytester.path / name / "suite.yaml"
        path.write_text(path.read_text("utf-8").replace("weather", name), encoding="utf-8")
    out = str(run(pytester).stdout)
    for name, (_, key) in WRONG.items():
        assert f"{name}/suite.yaml:1: {key}" in out
    assert out.count("expected:") == len(WRONG)


def test_a_name_that_nothing_is_told_of_is_refused(pytester: pytest.Pytester) -> None:
    """A slip in the body sends no empty question."""
    with serving(lambda asked: Reply({"answer": "-7"})) as server:
        _suite(pytester, {"http": server.url, "body": {"q": "{contnet}"}})
        run(pytester, "--agent-live").stdout.fnmatch_lines(
            ["*nothing is called {contnet} here; there are: *content*"]
        )
        assert not server.received
