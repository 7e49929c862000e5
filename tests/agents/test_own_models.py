"""Agents that ask models by themselves: seen, limited, recorded and replayed without a line of theirs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval import Trial, load_run
from pytest_agenteval.cli.main import main
from tests.journals import latest_trials, trials_by_task
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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


def unread(question):
    with urlopen(Request(os.environ["BOT_BASE"] + "/v1/other", b'{"said": "hi"}')) as answer:
        return f"-7 {answer.status}"


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
        sys.path.insert(0, "evals/registered")
        import bot
        from pytest_agenteval import Answer
        return Answer(bot.answer(task_input["content"]))
"""
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


def write_suite(root: Path, name: str = "answer", agent: str = "", more: str = "", **task: Any) -> None:
    """Write a suite of one task whose agent is a function of a module beside it, all called like it."""
    folder = f"evals/{name}"
    text = f"name: {name}\nagent: {agent or f'{{call: bot:{name}}}'}\n{more}"
    files = {"pytest.ini": "[pytest]\n", f"{folder}/bot.py": BOT, f"{folder}/suite.yaml": text}
    write(root, {**files, f"{folder}/t.yaml": {**TASK, "id": name, **task}})


def contains(text: str) -> list[dict[str, Any]]:
    """Give a grader that looks for a text in the answer."""
    return [{"name": "answer_contains", "config": {"text": text}}]


@dataclass
class Shared:
    """What several tests look at of one run, or of a recording and its replay."""

    trials: dict[str, Trial]
    screen: str
    requests: Mapping[str, int]
    replayed: dict[str, Trial] = field(default_factory=dict)
    cassettes: str = ""


class Model:
    """Replies by the task's question, of which it counts the requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def reply(self, body: dict[str, Any], number: int) -> ReplyPlan:
        """Reply as the question wants it: some providers are busy, down, or say nothing of tokens."""
        if "messages" not in body:
            return WORDS
        (question, *_) = (it["content"] for it in body["messages"] if it["role"] == "user")
        self.requests[question] += 1
        if question == "busy" and self.requests[question] == 1:
            return ReplyPlan(status=429, text="slow down")
        if question == "down":
            return ReplyPlan(status=503, text="overloaded")
        if question == "uncounted":
            return ReplyPlan(text="-7", input_tokens=0, output_tokens=0)
        return CALL if question == "endless" else by_results(body, number)


RECORDING = ("--agent-record=once", "--agent-record-chat=once")
_shared: dict[str, Shared] = {}


@pytest.fixture
def recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Agents that are recorded, then replayed without their server, litellm or mcp; made once."""
    if "recorded" in _shared:
        return _shared["recorded"]
    for name in ("answer", "waiting"):
        write_suite(pytester.path, name)
    write_suite(pytester.path, "twice", input={"content": "busy"}, limits={"steps": 2})
    for name in ("litellm", "mcp"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    model = Model()
    with ModelServer(model.reply) as server:
        monkeypatch.setenv("BOT_BASE", server.anthropic_base)
        result = run(pytester, "evals", *RECORDING)
    result.assert_outcomes(passed=3)
    live = latest_trials(pytester.path)
    again = run(pytester, "evals", "--agent-record-chat=none", "-q")
    again.assert_outcomes(passed=3)
    for each in (result, again):  # in brief too: nobody else has named it
        each.stdout.fnmatch_lines(["model: own: gpt-x"])
    files = (pytester.path / "cassettes").rglob("*.yaml")
    shared = Shared(live, str(result.stdout), model.requests, latest_trials(pytester.path))
    shared.cassettes = "".join(file.read_text("utf-8") for file in files)
    _shared["recorded"] = shared
    return shared


@pytest.mark.parametrize("name", ["answer", "waiting"])
def test_an_agent_is_seen_recorded_and_replayed_without_its_server(recorded: Shared, name: str) -> None:
    """Messages, the call with its result, tokens and the model's name are there; a replay needs no server.

    Whose own versions of openai or certifi shut out litellm and mcp records and replays all the same.
    """
    for trial in (recorded.trials[name], recorded.replayed[name]):
        transcript = trial.transcript
        roles = ["system", "user", "assistant", "tool", "assistant"]
        assert [message.role for message in transcript.messages] == roles
        (call,) = transcript.calls
        result = {"city": "Oslo", "degrees": -7}
        assert (call.tool, call.args, call.result) == ("get_weather", {"city": "Oslo"}, result)
        assert (trial.usage.tokens, trial.usage.asks, len(transcript.asks)) == (30, 2, 2)
        assert {ask.model for ask in transcript.asks} == {"gpt-x"}
    assert recorded.replayed[name].chat_tape.hits == 2
    assert "sk-bot" not in recorded.cassettes


def test_failed_attempts_are_no_steps_and_no_replies(recorded: Shared) -> None:
    """A request that the provider turns away may be made again; a replay has no part of it."""
    live = recorded.trials["twice"]
    assert (live.usage.asks, live.usage.attempts) == (2, 3)
    assert [event.kind for event in live.transcript.events] == ["model_request_failed"]
    assert recorded.replayed["twice"].usage.attempts == 2
    assert [message.phase for message in live.transcript.messages] == [1] * 5


def test_a_model_on_this_machine_needs_no_option(pytester: pytest.Pytester, server: ModelServer) -> None:
    """Its requests are sent and not recorded, until there is a recording: that is replayed."""
    write_suite(pytester.path)
    run(pytester, "evals").assert_outcomes(passed=1)
    assert (len(server.requests), (pytester.path / "cassettes").exists()) == (2, False)
    run(pytester, "evals", "--agent-record-chat=once").assert_outcomes(passed=1)
    run(pytester, "evals").assert_outcomes(passed=1)
    assert len(server.requests) == 4


def test_recorded_requests_are_replayed_and_no_others_are_sent(
    pytester: pytest.Pytester, server: ModelServer
) -> None:
    """A suite with recordings passes by `pytest evals/` alone; with a mode ``none`` other trials are refused.

    Whoever did not name a model, set --agent-live or record pays for nothing. Ignored hosts are answered for
    nothing: telemetry neither breaks a replay nor leaves the machine.
    """
    write_suite(pytester.path)
    run(pytester, "evals", *RECORDING).assert_outcomes(passed=1)
    sent = len(server.requests)
    write_suite(pytester.path, "waiting")
    ignored = 'http: {ignore: ["*.invalid"]}'
    write_suite(pytester.path, "telling", more=ignored, graders=contains("-7 204"))

    lacking = run(pytester, "evals", "--repetitions=2", "--agent-record=none")

    found = trials_by_task(pytester.path)
    hits = {(task, trial.chat_tape.hits) for task, trials in found.items() for trial in trials}
    assert hits == {("answer", 2), ("answer", 0), ("waiting", 0), ("telling", 0)}
    lacking.assert_outcomes(passed=3, errors=3)
    command = "pytest evals --repetitions=2 --agent-record=none"
    lacking.stdout.fnmatch_lines(
        [
            "not_allowed: http*",
            f"  record it:  {command}* --agent-record-chat=once",
            f"  or send it without recording:  {command}* --agent-live",
        ]
    )
    assert len(server.requests) == sent


@pytest.fixture
def live(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Agents that are let out by an option, or by their suite, with a model that misbehaves; made once."""
    if "live" in _shared:
        return _shared["live"]
    root, regression = pytester.path, "kind: regression\n"
    model = Model()
    with ModelServer(model.reply) as server:
        monkeypatch.setenv("BOT_BASE", server.anthropic_base)
        for name in ("stopping_at_tool", "returning"):
            write_suite(root, name)
        for name in ("looping", "raising"):
            write_suite(root, name, limits={"steps": 1})
        write_suite(root, "hanging", more=regression, limits={"seconds": 1})
        agent = "{call: bot:answer, name: NAME}"
        write_suite(
            root,
            "endless",
            agent.replace("NAME", "endless"),
            regression,
            input={"content": "endless"},
            limits={"steps": 4},
        )
        write_suite(root, "swallowing", input={"content": "down"})
        write_suite(
            root,
            "uncounted",
            agent.replace("NAME", "uncounted"),
            input={"content": "uncounted"},
            graders=contains("-7"),
        )
        models = f"http: {{models: ['{server.anthropic_base}/v1']}}"
        write_suite(root, "unread", more=models, graders=contains("-7"))
        result = run(pytester, "evals", "--agent-live")
    _shared["live"] = Shared(latest_trials(root), str(result.stdout), model.requests)
    return _shared["live"]


@pytest.mark.parametrize("name", ["stopping_at_tool", "returning"])
def test_a_result_that_no_model_is_shown_is_unknown_and_no_error(live: Shared, name: str) -> None:
    """An agent may end with a tool's result: the call was made, seen on the wire or only told of."""
    trial = live.trials[name]
    (call,) = trial.transcript.calls
    assert trial.ending == "passed"
    assert (call.tool, call.result, call.error) == ("get_weather", None, None)


@pytest.mark.parametrize("name", ["looping", "raising"])
def test_a_call_of_an_agent_that_was_cut_off_did_not_end(live: Shared, name: str) -> None:
    """Where a limit or a crash ends the agent, a call without a result is one that did not end."""
    (call,) = live.trials[name].transcript.calls
    assert (call.result, call.error and call.error.type) == (None, "not_finished")


def test_what_a_model_said_is_no_answer_of_an_agent_that_gave_none(live: Shared) -> None:
    """An agent that hangs after its model's last word is limited, and returned nothing to grade."""
    trial = live.trials["hanging"]
    assert (trial.ending, trial.limit, trial.outcome.answer.text) == ("failed", "seconds", "")
    assert trial.transcript.messages[-1].content == WORDS.text


def test_a_limit_of_steps_holds(live: Shared) -> None:
    """Of a model that never stops calling, exactly as many replies are asked for as steps are allowed."""
    trial = live.trials["endless"]
    assert (trial.ending, trial.limit, trial.usage.asks) == ("failed", "steps", 4)
    assert live.requests["endless"] == 4


def test_a_provider_that_stays_down_is_no_doing_of_the_agent(live: Shared) -> None:
    """Even where the agent swallows the failure and answers, the trial is errored by its provider."""
    trial = live.trials["swallowing"]
    assert (trial.ending, trial.cause) == ("errored", "provider")
    assert "/v1/chat/completions: 503" in trial.message
    assert "overloaded" in trial.message


def test_replies_without_counts_are_told(live: Shared) -> None:
    """A reply without token usage makes sums unknown, and the run says how many there were."""
    assert live.trials["uncounted"].usage.tokens is None
    assert "1 reply without token usage" in " ".join(live.screen.split())


def test_traffic_that_nobody_can_read_is_counted(live: Shared) -> None:
    """What goes to a model server in no known form is an event of its trial, and a doubt of the run."""
    assert "1 request of models could not be read" in live.screen
    usage = live.trials["unread"].usage
    assert (usage.tokens, usage.cost_usd, usage.attempts) == (None, None, 1)  # sent, but not readable


def test_a_suite_may_let_its_agent_out(pytester: pytest.Pytester, server: ModelServer) -> None:
    """So it says in its file; nobody needs to say it again."""
    write_suite(pytester.path, more="live: true")
    run(pytester, "evals").assert_outcomes(passed=1)
    assert len(server.requests) == 2


def test_a_model_that_was_never_asked_labels_nothing(pytester: pytest.Pytester, server: ModelServer) -> None:
    """Tables, pages and exports name what was asked, one line says so; the trial's key stays the plan's."""
    write_suite(pytester.path, agent="{call: bot:answer, via: provider}")

    result = run(pytester, "evals", "--agent-model=openai/gpt-4.1")

    result.assert_outcomes(passed=1)
    assert len(server.requests) == 2
    result.stdout.fnmatch_lines(["model: own: gpt-x"])
    result.stdout.no_fnmatch_line("*no effect*")  # the tables tell
    (note,) = [line for line in result.outlines if "did not use" in line]
    assert note.startswith("! agents did not use the named model (gpt-x, not openai/gpt-4.1 in 1 trial)")
    assert latest_trials(pytester.path)["answer"].key.model == "openai/gpt-4.1"
    assert main(["report", "latest", "-o", "page.html", "-o", "page.md"]) == 0
    assert main(["report", "latest", "--as", "atif", "-o", "atif"]) == 0
    (exported,) = (pytester.path / "atif").rglob("*.json")
    assert '"model_name":"gpt-x"' in exported.read_text("utf-8").replace(" ", "")
    for page in ("page.html", "page.md"):
        assert "own: gpt-x" in (pytester.path / page).read_text("utf-8")


def test_the_named_model_is_the_label_of_an_agent_that_takes_or_asks_it(
    pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parameter ``model`` is the alias's id, and a reply may name it with a date; no key is needed."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_suite(pytester.path, "modest", graders=contains("gpt-6.1-sol says"))
    write_suite(pytester.path, "dated")

    taken = run(pytester, "evals/modest", "--agent-model=gpt")
    asked = run(pytester, "evals/dated", "--agent-model=openai/gpt-4.1")

    taken.assert_outcomes(passed=1)
    taken.stdout.no_fnmatch_line("*no effect*")  # the tables tell
    asked.stdout.no_fnmatch_line("*never asked*")
    asked.stdout.no_fnmatch_line("*model: own*")


def test_replies_of_another_prompt_and_replies_not_asked_for_are_told(
    pytester: pytest.Pytester, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids and dates in prompts differ from run to run; who changed a prompt learns what was played.

    Unused are those of trials that came to their own end: other repetitions, and one cut off, may play
    theirs yet. Workers say the same.
    """
    write_suite(pytester.path)
    bot = pytester.path / "evals/answer/bot.py"
    recorded = run(pytester, "evals", *RECORDING, "--repetitions=2")
    cut_off = run(pytester, "evals", "-v", "--agent-max-steps=1")
    bot.write_text(BOT.replace("Be brief.", "Be long."), encoding="utf-8", newline="\n")
    other = run(pytester, "evals", "--agent-record-chat=none")
    capsys.readouterr()
    assert main(["report", "latest", "-v"]) == 0
    told = "! 2 replies replayed, but recorded for another prompt; "
    assert told in capsys.readouterr().out
    shorter = BOT.replace("        messages.append(message)\n", '        return "It is -7."\n')
    bot.write_text(shorter, encoding="utf-8", newline="\n")
    changed = [run(pytester, "evals", "-v", workers=workers) for workers in (0, 1)]
    briefly = run(pytester, "evals")

    other.assert_outcomes(passed=1)
    assert told in str(other.stdout)
    for result in changed:
        result.stdout.fnmatch_lines(
            [
                "1 of 2 recorded replies of agents' own models were not replayed:",
                "  cassettes/answer/t.chat/own-1.yaml (1)",
            ]
        )
    for result in (recorded, cut_off, briefly):
        result.stdout.no_fnmatch_line("*were not played*")


def test_offline_models_act_in_place_of_an_agent_that_asks_its_own(pytester: pytest.Pytester) -> None:
    """The oracle proves that the task can be solved by the suite's tools, whoever the agent is."""
    turns = [{"calls": [{"tool": "get_weather", "args": {"city": "Oslo"}}]}, {"text": "-7"}]
    write_suite(pytester.path, more="tools: [tools.py]\n", reference_solution={"turns": turns})
    tools = "from pytest_agenteval import tool_of\n\n\ndef get_weather(city: str) -> int:\n    return -7\n"
    tools += "\n\nTOOLS = [tool_of(get_weather, taped=False)]\n"
    write(pytester.path, {"evals/answer/tools.py": tools})

    run(pytester, "evals", "--agent-model=oracle,nop").assert_outcomes(passed=1, failed=1)


WRONG_FORMS = {
    "{call: bot:nobody}": ["*nobody*"],
    "{call: bot:answer, command: [x]}": ["*found: *call and command*"],
    "{}": ["*none of them*"],
    "{call: bot:TOOLS}": ["*found: *which is no function*"],
    "{call: styled:answer}": [
        "*expected: *question, *",
        "*found: *styled:answer(style)",
        "*settings: {style: *",
    ],
}


def test_a_form_that_names_no_agent_is_refused_at_its_line(pytester: pytest.Pytester) -> None:
    """The author reads file, line and key, and nothing is tried.

    Parameters are filled by name: what is no name of ours is a setting, and our names are listed.
    """
    for number, agent in enumerate(WRONG_FORMS):
        write_suite(pytester.path, f"form{number}", agent)
    styled = "def answer(question, style):\n    return style\n"
    write(pytester.path, {f"evals/form{len(WRONG_FORMS) - 1}/styled.py": styled})

    result = run(pytester, "evals")

    for number, says in enumerate(WRONG_FORMS.values()):
        result.stdout.fnmatch_lines([f"evals/form{number}/suite.yaml:2: agent*", *says])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_workers_record_as_one_process_does(pytester: pytest.Pytester, server: ModelServer) -> None:
    """A plan says where the agent is, and workers find it there."""
    write_suite(pytester.path)
    records_as_one_process(pytester, "-p", "xdist.plugin", "-n2")
    assert len(server.requests) == 4


def records_as_one_process(pytester: pytest.Pytester, *args: str) -> None:
    """Check what two trials record that are carried out elsewhere."""
    run(pytester, "evals", *args, *RECORDING, "--repetitions=2").assert_outcomes(passed=2)

    chats = sorted(file.name for file in (pytester.path / "cassettes").rglob("own-*.yaml"))
    assert chats == ["own-1.yaml", "own-2.yaml"]
    latest = load_run("latest", pytester.path / ".agenteval" / "runs")
    assert [len(entry.own_models) for entry in latest.entries] == [1, 1]


def test_another_model_of_the_agents_own_is_told_where_runs_are_compared(
    pytester: pytest.Pytester, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody named a model, so what the replies name is what differs, and what a suite is called by."""
    bot = BOT.replace('model="gpt-x"', 'model=os.environ["BOT_MODEL"]')
    write_suite(pytester.path)
    write_suite(pytester.path, "registered", "registered")
    write(pytester.path, {f"evals/{name}/bot.py": bot for name in ("answer", "registered")})
    write(pytester.path, {"conftest.py": REGISTERED})
    for model in ("gpt-x", "gpt-y"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("BOT_MODEL", model)
            run(pytester, "--agent-live", f"--agent-run-name={model}")
    capsys.readouterr()

    main(["compare", "gpt-x", "gpt-y"])
    compared = " ".join(capsys.readouterr().out.split())
    for name in ("answer", "registered"):
        assert f"{name}, own: gpt-x -> own: gpt-y" in compared
        main(["trend", name])
        trend = " ".join(capsys.readouterr().out.split())
        assert ": gpt-x, gpt-y: 2 runs" in trend
        assert "model " in trend.partition("scale:")[0]
    assert "changed: model score" in compared
