"""Agents that ask models by themselves: seen, limited, recorded and replayed without a line of theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval import Run, Trial, load_run
from pytest_agenteval.cli.main import main
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import import_multiprocessing, run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

import_multiprocessing()

BOT = """
import json
import os
import time
from urllib.request import Request, urlopen

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def ask(messages, model="gpt-x"):
    body = json.dumps({"model": model, "messages": messages, "tools": TOOLS}).encode()
    address = os.environ["BOT_BASE"] + "/v1/chat/completions"
    request = Request(address, body, {"content-type": "application/json", "authorization": "Bearer sk-bot"})
    with urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def answer(question):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            city = json.loads(call["function"]["arguments"])["city"]
            shown = json.dumps({"city": city, "degrees": -7})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": shown})


def twice(question):
    try:
        return answer(question)
    except OSError:
        return answer(question)


def stopping_at_tool(question):
    call = ask([{"role": "user", "content": question}])["tool_calls"][0]
    return f"-7 in {json.loads(call['function']['arguments'])['city']}"


def hanging(question):
    answer(question)
    time.sleep(60)


def dated(question):
    ask([{"role": "user", "content": question}], "gpt-x")
    return ask([{"role": "user", "content": question}], "gpt-4.1-2025-04-14")["content"]


def looping(question):
    while True:
        stopping_at_tool(question)


def raising(question):
    stopping_at_tool(question)
    raise ValueError("no")


def returning(question):
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    return {"answer": "-7", "messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}


def swallowing(question):
    try:
        return answer(question)
    except OSError:
        return "It is -7."


def modest(question, model):
    return f"{model} says -7"


def telling(question):
    with urlopen(Request("http://telemetry.invalid/v1/log", b"{}")) as answer:
        return f"-7 {answer.status}"


async def waiting(question):
    return answer(question)
"""
REGISTERED = """
def pytest_agenteval_register(registry):
    registry.agent("registered", Registered)

class Registered:
    async def run(self, task_input, ctx):
        import sys
        sys.path.insert(0, "evals/weather")
        import bot
        from pytest_agenteval import Answer
        return Answer(bot.answer(task_input["content"]))
"""
SUITE = "name: weather\nagent: {{call: bot:{name}}}\n{more}"
TASK = {
    "id": "oslo",
    "input": {"content": "What is the weather in Oslo?"},
    "graders": [
        {"name": "tool_called", "config": {"tools": ["get_weather"]}},
        {"name": "answer_contains", "config": {"text": "-7"}},
    ],
}
CALL = ReplyPlan(calls=(("get_weather", {"city": "Oslo"}),))
WORDS = ReplyPlan(text="It is -7 degrees in Oslo.")


def by_results(body: dict[str, Any], number: int) -> ReplyPlan:
    """Call the tool, and speak once there is its result."""
    return WORDS if body["messages"][-1]["role"] == "tool" else CALL


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model that calls the tool and then speaks; the bot asks it."""
    with ModelServer(by_results) as started:
        monkeypatch.setenv("BOT_BASE", started.anthropic_base)
        yield started


def prepare(pytester: pytest.Pytester, name: str = "answer", more: str = "", **task: Any) -> None:
    """Write a suite whose agent is a function of a module beside it."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/weather/bot.py": BOT})
    write(pytester.path, {"evals/weather/suite.yaml": SUITE.format(name=name, more=more)})
    write(pytester.path, {"evals/weather/oslo.yaml": {**TASK, **task}})


def latest(root: Path) -> Run:
    """Give the latest run."""
    folders = (root / ".agenteval" / "runs").glob("2*")
    return load_run(max(folders, key=lambda folder: (folder / "run.json").stat().st_mtime_ns))


def only_trial(root: Path) -> Trial:
    """Give the one trial of the latest run."""
    found = latest(root)
    (entry,) = found.entries
    return found.trial(entry)


def only_trial_tapes(root: Path) -> list[int]:
    """Give how many replies were played in each trial of the latest run."""
    return [entry.chat_tape.hits for entry in latest(root).entries]


RECORDING = ("--agent-record=once", "--agent-record-chat=once")


@pytest.mark.parametrize("name", ["answer", "waiting"])
def test_an_agent_is_seen_recorded_and_replayed_without_its_server(
    pytester: pytest.Pytester, server: ModelServer, name: str
) -> None:
    """Messages, the call with its result, tokens and the model's name are there; a replay needs no server."""
    prepare(pytester, name)

    recorded = run(pytester, "evals", *RECORDING)
    first = only_trial(pytester.path)
    server.stop()
    replayed = run(pytester, "evals", "--agent-record-chat=none", "-q")
    second = only_trial(pytester.path)

    for result in (recorded, replayed):  # in brief too: nobody else has named it
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["model: own: gpt-x"])
    for trial in (first, second):
        transcript = trial.transcript
        assert [message.role for message in transcript.messages] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        (call,) = transcript.calls
        assert (call.tool, call.args, call.result) == (
            "get_weather",
            {"city": "Oslo"},
            {"city": "Oslo", "degrees": -7},
        )
        assert (trial.usage.tokens, trial.usage.asks, len(transcript.asks)) == (30, 2, 2)
        assert {ask.model for ask in transcript.asks} == {"gpt-x"}
    assert second.chat_tape.hits == 2
    cassettes = "".join(file.read_text("utf-8") for file in (pytester.path / "cassettes").rglob("*.yaml"))
    assert "sk-bot" not in cassettes


def test_an_agent_of_ones_own_needs_neither_litellm_nor_mcp(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose own versions of openai or certifi shut them out records and replays all the same."""
    prepare(pytester)
    for name in ("litellm", "mcp"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails

    run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)
    server.stop()
    run(pytester, "evals", "--agent-record-chat=none").assert_outcomes(passed=1)


def test_without_a_word_nothing_is_sent_and_the_flags_are_named(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """Whoever did not name a model, let it out or record pays for nothing."""
    prepare(pytester)

    result = run(pytester, "evals")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["not_allowed: http*", "*--agent-live*--agent-model=NAME", "*--agent-record-chat=*"]
    )
    assert server.requests == []


def test_without_a_word_what_was_recorded_is_played(pytester: pytest.Pytester, server: ModelServer) -> None:
    """A suite with recordings passes by `pytest evals/` alone; a trial without any is refused."""
    prepare(pytester)
    run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)
    server.stop()

    run(pytester, "evals").assert_outcomes(passed=1)
    lacking = run(pytester, "evals", "--repetitions=2")

    assert only_trial_tapes(pytester.path) == [2, 0]
    lacking.assert_outcomes(passed=1, errors=1)
    lacking.stdout.fnmatch_lines(["not_allowed: http*", "*record it:*--agent-record-chat=once*"])


@pytest.mark.parametrize("word", ["--agent-live", "--agent-model=gpt", "suite"])
def test_a_word_lets_it_out(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """A named model, the option and the suite all say that the agent may ask; none needs a key of ours."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    prepare(pytester, more="live: true" if word == "suite" else "")

    result = run(pytester, "evals", *([] if word == "suite" else [word]))

    result.assert_outcomes(passed=1)
    assert len(server.requests) == 2
    if word == "--agent-model=gpt":
        result.stdout.no_fnmatch_line("*no effect*")  # the tables tell


def test_a_model_that_was_never_asked_labels_nothing(pytester: pytest.Pytester, server: ModelServer) -> None:
    """Tables, pages and exports name what was asked, one line says so; the trial's key stays the plan's."""
    prepare(pytester)

    result = run(pytester, "evals", "--agent-model=openai/gpt-4.1")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["model: own: gpt-x"])
    (note,) = [line for line in result.outlines if "never asked" in line]
    assert note.startswith("! agents never asked the named model (gpt-x, not openai/gpt-4.1 in 1 trial)")
    assert only_trial(pytester.path).key.model == "openai/gpt-4.1"
    assert main(["report", "latest", "-o", "page.html", "-o", "page.md"]) == 0
    assert main(["report", "latest", "--as", "atif", "-o", "atif"]) == 0
    (exported,) = (pytester.path / "atif").rglob("*.json")
    assert '"model_name":"gpt-x"' in exported.read_text("utf-8").replace(" ", "")
    for page in ("page.html", "page.md"):
        assert "own: gpt-x" in (pytester.path / page).read_text("utf-8")


def test_the_named_model_is_the_label_of_an_agent_that_asks_it_too(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """A reply may name it with a date."""
    prepare(pytester, "dated")

    result = run(pytester, "evals", "--agent-model=openai/gpt-4.1")

    result.stdout.no_fnmatch_line("*never asked*")
    result.stdout.no_fnmatch_line("*own: *")


def test_the_named_model_reaches_an_agent_that_takes_it(pytester: pytest.Pytester) -> None:
    """A parameter ``model`` is the alias's id, and then nothing is said of it."""
    prepare(pytester, "modest", graders=[{"name": "answer_contains", "config": {"text": "gpt-6.1-sol says"}}])

    result = run(pytester, "evals", "--agent-model=gpt")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*no effect*")


@pytest.mark.parametrize("name", ["stopping_at_tool", "returning"])
def test_a_result_that_no_model_is_shown_is_unknown_and_no_error(
    pytester: pytest.Pytester, server: ModelServer, name: str
) -> None:
    """An agent may end with a tool's result: the call was made, seen on the wire or only told of."""
    prepare(pytester, name)

    run(pytester, "evals", "--agent-live").assert_outcomes(passed=1)

    (call,) = only_trial(pytester.path).transcript.calls
    assert (call.tool, call.result, call.error) == ("get_weather", None, None)


@pytest.mark.parametrize("name", ["looping", "raising"])
def test_a_call_of_an_agent_that_was_cut_off_did_not_end(
    pytester: pytest.Pytester, server: ModelServer, name: str
) -> None:
    """Where a limit or a crash ends the agent, a call without a result is one that did not end."""
    prepare(pytester, name, limits={"steps": 1})

    run(pytester, "evals", "--agent-live")

    (call,) = only_trial(pytester.path).transcript.calls
    assert (call.result, call.error and call.error.type) == (None, "not_finished")


def test_what_a_model_said_is_no_answer_of_an_agent_that_gave_none(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """An agent that hangs after its model's last word is limited, and returned nothing to grade."""
    prepare(pytester, "hanging", "kind: regression\nlive: true", limits={"seconds": 1})

    run(pytester, "evals").assert_outcomes(failed=1)

    trial = only_trial(pytester.path)
    assert (trial.limit, trial.outcome.answer.text) == ("seconds", "")
    assert trial.transcript.messages[-1].content == WORDS.text


def test_a_limit_of_steps_holds(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model that never stops calling, exactly as many replies are asked for as steps are allowed."""
    with ModelServer(lambda body, number: CALL) as looping:
        monkeypatch.setenv("BOT_BASE", looping.anthropic_base)
        prepare(pytester, limits={"steps": 4})

        run(pytester, "evals", "--agent-live").assert_outcomes(failed=1)

        assert len(looping.requests) == 4
    trial = only_trial(pytester.path)
    assert (trial.limit, trial.usage.asks) == ("steps", 4)


def test_failed_attempts_are_no_steps_and_no_replies(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that the provider turns away may be made again; a replay has no part of it."""
    replies = [ReplyPlan(status=429, text="slow down"), CALL, WORDS]
    with ModelServer(replies) as busy:
        monkeypatch.setenv("BOT_BASE", busy.anthropic_base)
        prepare(pytester, "twice", limits={"steps": 2})

        run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)
    live = only_trial(pytester.path)
    run(pytester, "evals", "--agent-record-chat=none").assert_outcomes(passed=1)

    assert (live.usage.asks, live.usage.attempts) == (2, 3)
    assert [event.kind for event in live.transcript.events] == ["model_request_failed"]
    assert only_trial(pytester.path).usage.attempts == 2
    assert [message.phase for message in live.transcript.messages] == [1] * 5


def test_a_provider_that_stays_down_is_no_doing_of_the_agent(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the agent swallows the failure and answers, the trial is errored by its provider."""
    with ModelServer([ReplyPlan(status=503, text="overloaded")]) as down:
        monkeypatch.setenv("BOT_BASE", down.anthropic_base)
        prepare(pytester, "swallowing")

        result = run(pytester, "evals", "--agent-live")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["provider: http*/v1/chat/completions: 503*overloaded*"])


def test_a_reply_to_another_prompt_is_played_and_told(
    pytester: pytest.Pytester, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids and dates in prompts differ from run to run; who changed a prompt learns what was played."""
    prepare(pytester)
    run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)
    bot = pytester.path / "evals/weather/bot.py"
    bot.write_text(BOT.replace("Be brief.", "Be long."), encoding="utf-8", newline="\n")

    result = pytester.runpytest_subprocess("evals", "--agent-record-chat=none")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["! 2 replies recorded for another prompt and played; *"])
    assert main(["report", "latest", "-v"]) == 0
    assert "! 2 replies recorded for another prompt and played; " in capsys.readouterr().out


@pytest.mark.parametrize("workers", [0, 1], ids=["one-process", "one-worker"])
def test_replies_that_an_agent_asks_for_no_more_are_told(
    pytester: pytest.Pytester, server: ModelServer, workers: int
) -> None:
    """Of trials that came to their own end: other repetitions, and one cut off, may play theirs yet."""
    prepare(pytester)
    recorded = run(pytester, "evals", *RECORDING, "--repetitions=2", workers=workers)
    shorter = BOT.replace("        messages.append(message)\n", '        return "It is -7."\n')

    cut_off = run(pytester, "evals", "-v", "--agent-max-steps=1", workers=workers)
    write(pytester.path, {"evals/weather/bot.py": shorter})
    changed = run(pytester, "evals", "-v", workers=workers)
    briefly = run(pytester, "evals", workers=workers)

    changed.stdout.fnmatch_lines(
        [
            "1 of 2 recorded replies of agents' own models were not played:",
            "  cassettes/weather/oslo.chat/own-1.yaml (1)",
        ]
    )
    for result in (recorded, cut_off, briefly):
        result.stdout.no_fnmatch_line("*were not played*")


def test_offline_models_act_in_place_of_an_agent_that_asks_its_own(pytester: pytest.Pytester) -> None:
    """The oracle proves that the task can be solved by the suite's tools, whoever the agent is."""
    prepare(
        pytester,
        more="tools: [tools.py]\n",
        reference_solution={
            "turns": [{"calls": [{"tool": "get_weather", "args": {"city": "Oslo"}}]}, {"text": "-7"}]
        },
    )
    tools = "from pytest_agenteval import tool_of\n\n\ndef get_weather(city: str) -> int:\n    return -7\n"
    write(
        pytester.path, {"evals/weather/tools.py": f"{tools}\n\nTOOLS = [tool_of(get_weather, taped=False)]\n"}
    )

    run(pytester, "evals", "--agent-model=oracle,nop").assert_outcomes(passed=1, failed=1)


def test_ignored_hosts_are_answered_for_nothing(pytester: pytest.Pytester) -> None:
    """Telemetry neither breaks a replay nor leaves the machine."""
    grader = [{"name": "answer_contains", "config": {"text": "-7 204"}}]
    prepare(pytester, "telling", more='http: {ignore: ["*.invalid"]}', graders=grader)

    run(pytester, "evals").assert_outcomes(passed=1)


def test_replies_without_counts_are_told(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply without token usage makes sums unknown, and the run says how many there were."""
    with ModelServer([ReplyPlan(text="-7", input_tokens=0, output_tokens=0)]) as silent:
        monkeypatch.setenv("BOT_BASE", silent.anthropic_base)
        prepare(pytester, graders=[{"name": "answer_contains", "config": {"text": "-7"}}])

        result = run(pytester, "evals", "--agent-live")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 reply returned no token usage*"])


def test_traffic_that_nobody_can_read_is_counted(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes to a model server in no known form is an event of its trial, and a doubt of the run."""
    prepare(pytester, more=f"http: {{models: ['{server.anthropic_base}/v1']}}\nlive: true")
    bot = BOT.replace("/v1/chat/completions", "/v1/other").replace('"messages": messages', '"said": messages')
    write(pytester.path, {"evals/weather/bot.py": bot})

    result = run(pytester, "evals")

    result.stdout.fnmatch_lines(["*1 request of models could not be read*"])
    usage = load_run(next((pytester.path / ".agenteval/runs").iterdir())).entries[0].usage
    assert (usage.tokens, usage.cost_usd, usage.attempts) == (None, None, 1)  # sent, but not readable


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{call: bot:nobody}", "*nobody*"),
        ("{call: bot:answer, command: [x]}", "*found: *call and command*"),
        ("{}", "*none of them*"),
        ("{call: bot:TOOLS}", "*found: *which is no function*"),
    ],
)
def test_a_form_that_names_no_agent_is_refused_at_its_line(
    pytester: pytest.Pytester, config: str, says: str
) -> None:
    """The author reads file, line and key, and nothing is tried."""
    prepare(pytester)
    write(pytester.path, {"evals/weather/suite.yaml": f"name: weather\nagent: {config}\n"})

    result = run(pytester, "evals")

    result.stdout.fnmatch_lines(["evals/weather/suite.yaml:2: agent", says])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_parameter_that_nobody_fills_is_refused(pytester: pytest.Pytester) -> None:
    """Parameters are filled by name: what is no name of ours is a setting, and our names are listed."""
    prepare(pytester)
    write(pytester.path, {"evals/weather/bot.py": "def answer(question, style):\n    return style\n"})

    result = run(pytester, "evals")

    result.stdout.fnmatch_lines(
        ["*expected: *question, *", "*found: *bot:answer(style)", "*hint:*settings: {style: *"]
    )


@pytest.mark.parametrize("args", [("-n2",), ("--agent-executor=processes:2",)], ids=["xdist", "processes"])
def test_it_is_the_same_in_other_processes(
    pytester: pytest.Pytester, server: ModelServer, args: tuple[str, ...]
) -> None:
    """A plan says where the agent is: workers and spawned processes find it, and record as one does."""
    prepare(pytester)
    plugins = ("-p", "xdist.plugin") if args == ("-n2",) else ()

    run(pytester, *plugins, "evals", *args, *RECORDING, "--repetitions=2").assert_outcomes(passed=2)

    chats = sorted(file.name for file in (pytester.path / "cassettes").rglob("own-*.yaml"))
    assert chats == ["own-1.yaml", "own-2.yaml"]
    assert [len(entry.own_models) for entry in latest(pytester.path).entries] == [1, 1]
    assert len(server.requests) == 4


@pytest.mark.parametrize("agent", ["{call: bot:answer}", "registered"])
def test_another_model_of_the_agents_own_is_told_where_runs_are_compared(
    pytester: pytest.Pytester, server: ModelServer, capsys: pytest.CaptureFixture[str], agent: str
) -> None:
    """Nobody named a model, so what the replies name is what differs, and what a suite is called by."""
    bot = BOT.replace('model="gpt-x"', 'model=os.environ["BOT_MODEL"]')
    prepare(pytester)
    write(pytester.path, {"evals/weather/bot.py": bot, "conftest.py": REGISTERED})
    write(pytester.path, {"evals/weather/suite.yaml": f"name: weather\nagent: {agent}\n"})
    for model in ("gpt-x", "gpt-y"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("BOT_MODEL", model)
            run(pytester, "--agent-live", f"--agent-run-name={model}")
    capsys.readouterr()

    main(["compare", "gpt-x", "gpt-y"])
    compared = " ".join(capsys.readouterr().out.split())
    main(["trend", "weather"])
    trend = " ".join(capsys.readouterr().out.split())

    assert "weather, own: gpt-x -> own: gpt-y" in compared
    assert "changed: model score" in compared
    assert ": gpt-x, gpt-y: 2 runs" in trend
    assert "model " in trend.partition("scale:")[0]
