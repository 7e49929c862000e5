"""Programs in other languages as agents: seen, graded, recorded, played, limited, and ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.agents import command_agent
from pytest_agenteval.agents.command_output import CommandOutput
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_reader import load_run
from tests.cassettes.http.server import serving
from tests.journals import latest_trials, run_folder, trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = [
    pytest.mark.usefixtures("quick", "grace"),
    pytest.mark.posix,
    pytest.mark.skipif(
        None in map(shutil.which, ("bash", "curl")), reason="no bash, or no curl for its agents"
    ),
]

PROGRAMS = Path(__file__).parent / "programs"
CANARY = "sk-canary0123456789-in-no-child"
RECORDED = ("--agent-record=once", "--agent-record-chat=once")
PLAYED = ("--agent-record-chat=none",)
GRADERS = [
    {"name": "answer_contains", "config": {"text": "-7"}},
    {"name": "tool_called", "config": {"tools": ["get_weather"]}},
    {"name": "file_contains", "config": {"path": "report.md", "texts": ["-7"]}},
]
ASK = r"""curl -sS "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
  -d "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"$n\"}]}"
"""
OSLO = {"content": "What is the weather in Oslo?"}


@pytest.fixture
def grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that do not end when they are asked to are made to sooner than in real runs."""
    monkeypatch.setattr(command_agent, "GRACE_S", 0.3)


def by_city(request: Mapping[str, Any], n: int) -> ReplyPlan:
    """Ask for the weather of the city that the question ends with; say it once it is known."""
    del n
    city = request["messages"][0]["content"].split()[-1].rstrip("?")
    results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    if results:
        return ReplyPlan(text=f"It is -7 in {results[0].split('city=')[1].split()[0]}")
    return ReplyPlan(calls=(("get_weather", {"city": city}),))


def set_model(monkeypatch: pytest.MonkeyPatch, server: ModelServer, key: str = CANARY) -> None:
    """Have agents send what is for OpenAI to this server."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
    monkeypatch.setenv("OPENAI_API_KEY", key)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent that a compiler makes."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the C agent with")
    program = tmp_path_factory.mktemp("compiled") / "agent"
    subprocess.run(["gcc", "-o", program, PROGRAMS / "agent.c"], check=True)
    return program


def suite(command: list[str], **more: Any) -> str:
    """Give the suite.yaml of a command; JSON is YAML too."""
    return json.dumps({"kind": "regression", "agent": {"command": command}, "name": "weather", **more})


def task(id: str = "oslo", **more: Any) -> dict[str, Any]:
    """Give a task about the weather."""
    return {"id": id, "input": OSLO, "graders": GRADERS, **more}


def shell(script: str, *tasks: Mapping[str, Any], output: str = "events", **more: Any) -> dict[str, Any]:
    """Give the files of a suite whose agent is a few lines for bash."""
    agent = {"command": ["bash", "agent.sh"], "output": output}
    return {
        "evals/suite.yaml": suite([], agent=agent, **more),
        "evals/agent.sh": script,
        "evals/t.json": [*tasks],
    }


def answering(text: str, **more: Any) -> dict[str, Any]:
    """Give a task whose answer is to hold a text."""
    return {
        "id": "one",
        "input": OSLO,
        "graders": [{"name": "answer_contains", "config": {"text": text}}],
        **more,
    }


@dataclass
class Shared:
    """What several tests look at of one run."""

    root: Path
    trials: dict[str, Trial] = field(default_factory=dict)
    replayed: dict[str, Trial] = field(default_factory=dict)
    screen: str = ""
    requests: list[Any] = field(default_factory=list)
    tool_requests: tuple[int, int] = (0, 0)

    def add(self, name: str, files: Mapping[str, Any]) -> None:
        """Write the files of a suite that is called so."""
        write(self.root, {path.replace("evals", f"evals/{name}", 1): text for path, text in files.items()})

    def shell(self, name: str, script: str, *tasks: Mapping[str, Any], **more: Any) -> None:
        """Write a suite whose agent is a few lines for bash."""
        self.add(name, shell(script, *tasks, name=name, **more))


_shared: dict[str, Shared] = {}


# --- Programs that are recorded, then replayed


def programs() -> list[str]:
    """Give those of the agents' files that this machine can run."""
    runners = {"agent.sh": "bash", "agent.mjs": "node", "agent.c": "gcc"}
    return [name for name, runner in runners.items() if shutil.which(runner)]


@pytest.fixture
def recorded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Shared:
    """Agents in bash, Node and C, one that prints all it knows, and one whose key is a word; made once."""
    if "recorded" in _shared:
        return _shared["recorded"]
    shared = Shared(pytester.path)
    with serving() as tool, ModelServer(by_city) as model, ModelServer([WORDS]) as other:
        for name in programs():
            folder = name.replace(".", "_")
            program = request.getfixturevalue("compiled") if name == "agent.c" else PROGRAMS / name
            runner = {"agent.sh": ["bash"], "agent.mjs": ["node"]}.get(name)
            command = [*runner, program.name] if runner else [f"./{program.name}"]
            suite_file = suite(command, name=folder, proxy={"TOOL_API": tool.base})
            shared.add(folder, {"evals/suite.yaml": suite_file, "evals/t.json": task(folder)})
            shutil.copy(program, pytester.path / "evals" / folder / program.name)
        knowing = f'env; cat "$AGENTEVAL_TASK"; n=Oslo; {ASK}'
        passed = {"env_pass": ["SAME_KEY", "WITHIN"]}
        shared.shell("knowing", knowing, answering("agenteval", id="knowing"), output="text", **passed)
        shared.shell("word", ASK_OTHER, answering("none, none at all", id="word"), output="text")
        set_model(monkeypatch, model)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.anthropic_base)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("SAME_KEY", CANARY)
        monkeypatch.setenv("WITHIN", f"Bearer {CANARY}")
        count = len(programs()) + 2

        live = run(pytester, *RECORDED, "--agent-run-name=live", "-rA")
        live.assert_outcomes(passed=count)
        shared.requests = [*model.requests]
        requests = len(tool.asked)
        model.stop()
        other.stop()
        run(pytester, *PLAYED, "--agent-run-name=played").assert_outcomes(passed=count)
        shared.tool_requests = requests, len(tool.asked)
    shared.screen = str(live.stdout) + str(live.stderr)
    shared.trials, shared.replayed = (latest_trials(pytester.path, name) for name in ("live", "played"))
    _shared["recorded"] = shared
    return shared


WORDS = ReplyPlan(text="There is none, none at all.")
ASK_OTHER = r"""curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "x-api-key: $ANTHROPIC_API_KEY" \
  -d "{\"model\": \"m\", \"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"1\"}]}"
"""


@pytest.mark.parametrize("name", ["agent.sh", "agent.mjs", "agent.c"])
def test_a_program_is_graded_recorded_and_played_with_every_server_down(recorded: Shared, name: str) -> None:
    """In bash, Node and C alike: what it asks is in the transcript, and a replay connects to nothing."""
    if name not in programs():
        pytest.skip(f"nothing runs {name} here")
    assert recorded.tool_requests == (len(programs()), len(programs()))
    live, again = (of[name.replace(".", "_")] for of in (recorded.trials, recorded.replayed))
    transcript = again.transcript
    assert [message.role for message in transcript.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(call.tool, dict(call.args)) for call in transcript.calls] == [("get_weather", {"city": "Oslo"})]
    assert "/weather?city=Oslo" in str(transcript.calls[0].result)
    assert transcript.usage.asks == 2
    assert again.outcome.answer.state == {"city": "Oslo"}
    assert again.output == "the model wants the weather of Oslo\n"
    assert live.digests == again.digests


def test_a_real_key_is_in_no_child_cassette_transcript_or_log(recorded: Shared) -> None:
    """The server puts it on; a program that prints all that it knows has none, whatever is passed to it."""
    assert {request.headers["authorization"] for request in recorded.requests} == {f"Bearer {CANARY}"}
    output = recorded.trials["knowing"].output
    assert "OPENAI_API_KEY=agenteval" in output
    assert "SAME_KEY=agenteval" in output
    assert "WITHIN=Bearer agenteval" in output
    left = [path for path in recorded.root.rglob("*") if path.is_file()]
    assert any(path.match("*.chat/*.yaml") for path in left)
    assert [path for path in left if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in recorded.screen


def test_a_word_for_a_key_is_left_in_replies(recorded: Shared) -> None:
    """Servers of one's own take any text for a key: what is a word of their replies is hidden nowhere."""
    for trial in (recorded.trials["word"], recorded.replayed["word"]):
        (reply,) = trial.transcript.messages[1:]
        assert reply.content == WORDS.text


def test_a_dozen_trials_in_flight_are_not_mixed(
    pytester: pytest.Pytester, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six at once, each asked twice: every trial has its own two asks, its own call, its own answer."""
    cities = [f"City{number}" for number in range(6)]
    tasks = [
        answering(f"in {city}", id=city, input={"content": f"What is the weather in {city}?"})
        for city in cities
    ]
    with serving() as tool, ModelServer(by_city) as model:
        suite_file = suite([str(compiled)], proxy={"TOOL_API": tool.base})
        write(pytester.path, {"evals/suite.yaml": suite_file, "evals/t.json": tasks})
        set_model(monkeypatch, model)
        result = run(pytester, "--repetitions=2", "--agent-concurrency=6", "--agent-live")

    result.assert_outcomes(passed=12)
    stored = load_run(run_folder(pytester.path))
    for trial in map(stored.trial, stored.entries):
        assert [dict(call.args) for call in trial.transcript.calls] == [{"city": trial.key.task}]
        assert trial.transcript.usage.asks == 2


# --- Programs that nobody answers


TOLD = """
echo "thinking"
echo '{"type": "tool_call", "id": "c1", "tool": "write_file", "args": {"path": "a.md"}}'
echo '{"type": "tool_call", "id": "c2", "tool": "read_file", "args": {"path": "b.md"}}'
echo '{"type": "tool_result", "id": "c2", "error": "no such file"}'
echo '{"type": "tool_result", "id": "c1", "result": "ok"}'
echo '{"type": "tool_call", "tool": "hangs"}'
echo '{"type": "answer", "text": "first"}'
echo '{"type": "answer", "text": "Mina", "state": {"n": 1}}'
echo '{"kind": "no event"}'
"""
TRAJECTORY = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s",
    "agent": {"name": "mine", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Weather?"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "t", "function_name": "look", "arguments": {"at": "sky"}}],
            "observation": {"results": [{"source_call_id": "t", "content": "blue"}]},
        },
        {"step_id": 3, "source": "agent", "message": "Mina says blue"},
    ],
}


TURNS = """
n=0
while read -r line; do
  n=$((n+1)); echo "$line"
  echo "{\\"type\\": \\"answer\\", \\"text\\": \\"answer $n\\"}"
done
"""
AROUND = "http://api.x.test/a http://api.x.test/b https://o1.sentry.io/"
LATE = '{"type": "answer", "text": "late"}'
TOOLS = '''
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: -7"
'''
MOST_BYTES = 20_000


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Programs that need no model, in one run; one asks for a reply all the same. Made once."""
    if "alone" in _shared:
        return _shared["alone"]
    shared = Shared(pytester.path)
    told = {
        "events": TOLD,
        "trajectory": f"cat >\"$AGENTEVAL_OUT/trajectory.json\" <<'END'\n{json.dumps(TRAJECTORY)}\nEND\n",
        "paragraph": "echo first; echo; echo 'Mina said'; echo 'two lines'; echo",
        "silent": "true",
        "pipe": "mkfifo $AGENTEVAL_OUT/trajectory.json; echo Mina",
        "crashes": 'seq 1 30 >&2; echo \'{"type": "answer", "text": "Mina"}\'; exit 3',
        "asks": f"{ASK} exit 1",
    }
    for name, script in told.items():
        shared.shell(name, script, answering("Mina", id=name, limits={"seconds": 30}))
    environment = {"env": {"LOCALE": "ko"}, "env_pass": ["PASSED", "NOT_SET"]}
    environment |= {"output": "text", "proxy": {"TOOL_API": "https://x.test"}}
    shows = 'env -0 | tr "\\n\\0" " \\n"; pwd; ls -A "$HOME" | wc -l'
    shared.shell("environment", shows, answering("LOCALE=ko", id="environment"), **environment)
    turns = {"turns": [{"role": "user", "content": "hello"}, "and then?"], "lang": "ko"}
    shared.shell("turns", TURNS, answering("answer 2", id="turns", input=turns))
    several = [answering("cat", id=f"cat{n}", input={"turns": ["a cat"] * n}) for n in (1, 2)]
    shared.shell("cat", "cat", *several, output="text")
    around = f"for u in {AROUND}; do curl -s $u; done; echo Mina"
    shared.shell("around", around, answering("Mina", id="around"), http={"ignore": ["*.sentry.io"]})
    late = f"echo Mina; echo; yes | head -c 200000; echo '{LATE}'"
    shared.shell("late", late, answering("late", id="late"))
    call = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    calls = f"curl -sS \"$AGENTEVAL_MCP_URL\" -H 'Content-Type: application/json' -d '{message}'"
    called = [{"name": "tool_called", "config": {"tools": ["get_weather"], "succeeded": True}}]
    offered = {
        **answering("", id="offered"),
        "graders": [*answering("Oslo: -7")["graders"], *called],
    }
    shared.add(
        "offered", shell(calls, offered, name="offered", tools=["tools.py"]) | {"evals/tools.py": TOOLS}
    )
    monkeypatch.setattr(command_agent, "MOST_BYTES", MOST_BYTES)
    monkeypatch.setenv("PASSED", "yes")
    monkeypatch.setenv("KEPT_BACK", "no")
    with ModelServer([ReplyPlan(text="Mina")]) as model:
        set_model(monkeypatch, model)
        result = run(pytester, "--agent-record=none")
        shared.requests = [*model.requests]
    result.assert_outcomes(passed=9, failed=2, errors=3)
    shared.screen, shared.trials = str(result.stdout), trials(pytester.path)
    _shared["alone"] = shared
    return shared


def test_the_environment_is_made_for_the_program(alone: Shared) -> None:
    """Nothing of the user's but what is named; a home of its own; the trial's addresses."""
    lines = alone.trials["environment"].output.splitlines()
    environ = dict(line.split("=", 1) for line in lines if "=" in line)
    assert (environ["PASSED"], environ["LOCALE"], lines[-1].strip()) == ("yes", "ko", "0")
    assert not {"KEPT_BACK", "NOT_SET", "PYTEST_CURRENT_TEST"} & environ.keys()
    root = environ["OPENAI_BASE_URL"].removesuffix("/openai/v1")
    assert root.startswith("http://127.0.0.1:")
    addresses = {
        "OPENAI_API_BASE": "/openai/v1",
        "ANTHROPIC_BASE_URL": "/anthropic",
        "GOOGLE_GEMINI_BASE_URL": "/gemini",
        "OLLAMA_HOST": "/ollama",
        "TOOL_API": "/proxy.TOOL_API",
    }
    assert {name: environ[name].removeprefix(root) for name in addresses} == addresses
    assert not Path(environ["HOME"]).exists()


def test_what_a_program_tells_of_itself_is_its_transcript_where_no_model_was_asked(alone: Shared) -> None:
    """Events are calls and the answer, other lines log; a trajectory is read; plain words are an answer."""
    stored = alone.trials
    events = stored["events"]
    assert [(call.tool, call.result, call.error and call.error.type) for call in events.transcript.calls] == [
        ("write_file", "ok", None),
        ("read_file", None, "tool_error"),
        ("hangs", None, None),
    ]
    assert (events.outcome.answer.text, events.outcome.answer.state) == ("Mina", {"n": 1})
    assert events.output == 'thinking\n{"kind": "no event"}\n'
    assert [message.role for message in events.transcript.messages] == ["user", "assistant"]
    assert [call.result for call in stored["trajectory"].transcript.calls] == ["blue"]
    assert stored["paragraph"].outcome.answer.text == "Mina said\ntwo lines"
    assert [event.kind for event in stored["silent"].transcript.events] == ["no_answer"]


def test_a_pipe_for_a_file_is_not_read(alone: Shared) -> None:
    """What a program leaves in its folder may be no file, and have no end."""
    assert alone.trials["pipe"].ending == "passed"


def test_user_turns_come_line_by_line(alone: Shared) -> None:
    """Standard input stays open: each line is written when the one before was answered; then it is closed."""
    stored = alone.trials["turns"]
    lines = [json.loads(line) for line in stored.output.splitlines()]
    assert [(line["turn"], line["input"]) for line in lines] == [
        (1, {"lang": "ko", "content": "hello"}),
        (2, {"content": "and then?"}),
    ]
    said = [(message.role, message.content) for message in stored.transcript.messages]
    assert said == [
        ("user", "hello"),
        ("assistant", "answer 1"),
        ("user", "and then?"),
        ("assistant", "answer 2"),
    ]


def test_a_program_whose_output_is_its_answer_has_no_conversation(alone: Shared) -> None:
    """It is told so before it is started; one turn is a question like any other."""
    assert [alone.trials[name].ending for name in ("cat1", "cat2")] == ["passed", "errored"]
    assert "agent: the task has several user turns, and a command" in alone.screen


def test_a_program_that_fails_breaks_its_trial_with_its_last_words(alone: Shared) -> None:
    """Twenty lines of standard error, the status, and no traceback of ours."""
    stored = alone.trials["crashes"]
    first, *last = stored.message.splitlines()
    assert (stored.cause, first) == ("agent_crash", "bash agent.sh: ended with status 3")
    assert last == [str(number) for number in range(11, 31)]
    assert "Traceback" not in alone.screen


def test_without_a_word_nothing_is_sent_and_the_word_is_named(alone: Shared) -> None:
    """A program's own model is asked only where somebody said so."""
    assert (alone.trials["asks"].cause, alone.requests) == ("not_allowed", [])
    assert "--agent-live" in alone.screen


def test_what_went_around_is_told(alone: Shared) -> None:
    """A program that obeys HTTP_PROXY is refused, and its trial says whom it asked, but for ignored hosts."""
    (event,) = alone.trials["around"].transcript.events
    assert event.text == "2 requests bypassed the recording proxy and failed: api.x.test"


def test_output_beyond_its_bound_is_cut_and_said(alone: Shared) -> None:
    """The program goes on, as nobody keeps it from writing; what it says too late is not heard."""
    stored = alone.trials["late"]
    (event,) = stored.transcript.events
    assert (event.kind, event.text.split(":")[0]) == ("output_cut", "standard output")
    assert stored.ending == "failed"
    assert len(stored.output) <= MOST_BYTES


def test_a_trials_digests_tell_another_command_from_this_one(pytester: pytest.Pytester) -> None:
    """Its files and its variables are part of what is compared; where the project lies is not."""
    seen = []
    for number, (script, env) in enumerate(
        [("echo Mina", {}), ("echo Mina ", {}), ("echo Mina", {"A": "1"})]
    ):
        write(pytester.path, shell(script, answering("Mina"), env=env))
        run(pytester, f"--agent-run-name=r{number}").assert_outcomes(passed=1)
        digests = latest_trials(pytester.path, f"r{number}")["one"].digests
        seen.append((digests.code, digests.settings))
    (code, settings), other_script, other_env = seen
    assert (other_script[0] != code, other_script[1] == settings) == (True, True)
    assert (other_env[0] == code, other_env[1] != settings) == (True, True)


def test_a_trials_tools_are_offered_to_its_program(alone: Shared) -> None:
    """At AGENTEVAL_MCP_URL, whoever wrote them: each call is the trial's, and the program sees its result."""
    assert alone.trials["offered"].ending == "passed"


def test_a_call_that_was_seen_and_is_told_of_is_one_call() -> None:
    """Its result is what the model was shown, where the program tells of none; its start is the program's."""
    recorder = Recorder(iter(range(1, 99)).__next__)
    output = CommandOutput(recorder, shape="events", log=str, on_answer=str)
    recorder.add_asked_calls([ToolCall(id, 1, 0, "look", {"at": id}) for id in ("c1", "c2", "c3")])
    output.take('{"type": "tool_call", "id": "c1", "tool": "look", "args": {"at": "c1"}}')
    output.take('{"type": "tool_call", "tool": "look", "args": {"at": "c2"}}')
    output.take('{"type": "tool_result", "id": "c1", "result": "told"}')
    recorder.answer_call("c1", "seen", None, 50)
    recorder.answer_call("c3", "seen", None, 50)
    output.close()
    recorder.end_pending_calls(cut_off=True)

    assert [(call.id, call.result, call.started > 0) for call in recorder.calls] == [
        ("c1", "told", True),
        ("c2", None, True),
        ("c3", "seen", False),
    ]
    assert [call.error and call.error.type for call in recorder.calls] == [None, "not_finished", None]


def test_what_was_seen_of_a_call_stands_whatever_its_program_tells() -> None:
    """A tool that was called over MCP gave a number, or failed; the program writes texts."""
    recorder = Recorder(lambda: 1.0)
    recorder.add_asked_calls([ToolCall(id, 1, 0, "add", {"at": id}) for id in ("c1", "c2")])
    failed = ToolError("bad_arguments", "at: no number")
    for id, result, error in (("c1", 3, None), ("c2", None, failed)):
        call = ToolCall("made up", 0, 0, "add", {"at": id})
        place = recorder.begin_call(call)
        recorder.end_call(place, replace(call, result=result, error=error))
    output = CommandOutput(recorder, shape="events", log=str, on_answer=str)

    for id, told in (("c1", "3"), ("c2", "at: no number")):
        output.take(json.dumps({"type": "tool_call", "id": id, "tool": "add", "args": {"at": id}}))
        output.take(json.dumps({"type": "tool_result", "id": id, "result": told}))

    assert [(call.result, call.error) for call in recorder.calls] == [(3, None), (None, failed)]


ODD_EVENTS = (
    '{"type": "tool_call", "id": ["a"], "tool": {"x": 1}, "args": NaN}',
    '{"type": "tool_call", "id": "deep", "tool": null, "args": ' + "[" * 900 + "]" * 900 + "}",
    '{"type": "tool_result", "id": "deep", "error": {"a": -Infinity}}',
    '{"type": "tool_result", "id": "nobody", "result": NaN}',
    '{"type": "answer", "text": ["a", NaN]}',
    '{"type": "answer", "text": ' + "[" * 900 + "]" * 900 + "}",
)


def test_odd_events_are_read_as_far_as_they_can_be() -> None:
    """What a program prints may be no JSON by the letter, and deep: nothing of it stops the reading."""
    recorder = Recorder(iter(range(1, 99)).__next__)
    output = CommandOutput(recorder, shape="events", log=str, on_answer=str)
    for line in ODD_EVENTS:
        output.take(line)
    output.close()

    assert output.answers[0] == '["a",NaN]'
    assert len(output.answers) == 2
    assert [call.raw_args is not None for call in recorder.calls] == [True, True]


@pytest.mark.parametrize(
    "broken",
    [
        '{"type": "answer", "text": "half of an ans',
        '{"type":"tool_call","id":"a","args":' + "[" * 9000 + "]" * 9000 + "}",
        '\ufeff {\'type\': \'answer\'}\n{ "type" : "tool_result", "result": nothing}',
    ],
    ids=["half", "deep", "no-json"],
)
def test_half_an_event_is_no_answer(broken: str) -> None:
    """A line that begins as an event and is none is told with its place: an answer is lost in it."""
    output = CommandOutput(Recorder(float), shape="events", log=str, on_answer=str)
    for line in broken.split("\n"):
        output.take(line)

    assert f"line {len(broken.splitlines())}: expected an event, one whole JSON object" in str(
        output.unreadable
    )


def test_an_event_is_found_behind_marks_that_are_no_text() -> None:
    """A byte order mark, as of PowerShell, and a line of progress that is written over hide no event."""
    output = CommandOutput(Recorder(float), shape="events", log=str, on_answer=str)
    for line in ('\ufeff{"type": "answer", "text": "one"}', '1%\r2%\r{"type": "answer", "text": "two"}'):
        output.take(line)

    assert (output.answers, output.unreadable) == (["one", "two"], None)


def test_what_got_away_and_reads_nothing_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that left its group may keep the standard input open for ever, and read none of it."""
    monkeypatch.setattr(command_agent, "LEFT_OPEN_S", 0.1)
    lines: list[str] = []
    process = command_agent.CommandProcess(
        ["bash", "-c", "env -i setsid sleep 60 <&0 >/dev/null 2>&1 & echo $!"],
        folder=tmp_path,
        environ={},
        mark="X=0",
        take_output=lines.append,
        take_error=str,
    )
    for blocks in (partial(process.write_line, "x" * 1_000_000), process.end):
        thread = threading.Thread(target=blocks, daemon=True)
        thread.start()
        assert process.wait() == 0
    thread.join(20)

    os.kill(int(lines[0]), signal.SIGKILL)
    assert not thread.is_alive()


def test_output_that_cannot_be_taken_is_read_on_and_breaks_its_trial(tmp_path: Path) -> None:
    """Else the program would wait for ever to write more, and what was lost would be nobody's fault."""

    def take(line: str) -> None:
        raise ArithmeticError(line)

    process = command_agent.CommandProcess(
        ["bash", "-c", "for n in {1..9000}; do echo some line of output; done; exit 3"],
        folder=tmp_path,
        environ={},
        mark="X=0",
        take_output=take,
        take_error=str,
    )

    assert process.wait() == 3
    process.end()
    assert isinstance(process.broken, ArithmeticError)


# --- Programs at their limits


def by_question(request: Mapping[str, Any], n: int) -> ReplyPlan:
    """Answer at once, but for what is slow."""
    del n
    return ReplyPlan(text="Mina", latency_s=30 if request["messages"][0]["content"] == "slow" else None)


INSISTS = f"""
read -r task
while true; do
  said=$({ASK})
  case "$task$said" in *'give up'*limit_reached*) echo "$said" >&2; exit 1;; esac
done
"""
PRINTED = {
    "nothing": ("", ""),
    "half a line": ("printf Mi", ""),
    "an answer": ("""echo '{"type": "answer", "text": "Mi"}'""", "Mi"),
}


@pytest.fixture
def limited(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Programs that are ended for their time or their steps, with a model that answers; made once."""
    if "limited" in _shared:
        return _shared["limited"]
    shared = Shared(pytester.path)
    slow = answering("Mina", id="slow", limits={"seconds": 2})
    shared.shell("slow", f"read -r task\nn=slow\n{ASK}\n", slow)
    for name, (printed, _) in PRINTED.items():
        id = name.replace(" ", "_")
        script = f"read -r task\nn={id}\nsaid=$({ASK})\n{printed}\nsleep 60\n"
        shared.shell(id, script, answering("Mina", id=id, limits={"seconds": 1}))
    # The path tells these processes from anybody else's.
    loop = f": {pytester.path}; while true; do {ASK} sleep 0.1; done"
    deaf = f"n=deaf; export n; trap '' TERM\n(trap '' TERM; {loop}) &\nsetsid bash -c '{loop}' &\n{loop}"
    shared.shell("deaf", deaf, answering("Mina", id="deaf", limits={"seconds": 1, "steps": 10_000}))
    limits = {"steps": 4, "seconds": 60}
    several = [
        answering("Mina", id=id.replace(" ", "_"), limits=limits, input={"content": id})
        for id in ("go_on", "give up")
    ]
    shared.shell("insists", f"n=more\n{INSISTS}", *several)
    with ModelServer(by_question) as model:
        set_model(monkeypatch, model)
        result = run(pytester, "--agent-live")
        shared.requests = [request.body["messages"][0]["content"] for request in model.requests]
        left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
        shared.screen = "\n".join(line for line in left.splitlines() if str(pytester.path) in line)
        assert len(model.requests) == len(shared.requests)
    result.assert_outcomes(failed=7)
    shared.trials = trials(pytester.path)
    _shared["limited"] = shared
    return shared


def test_at_its_limit_a_program_and_all_that_it_started_are_ended(limited: Shared) -> None:
    """Also what ignores the word to end, and what left the group; no further request goes out."""
    stored = limited.trials["deaf"]
    assert (stored.ending, stored.limit, "deaf" in limited.requests) == ("failed", "seconds", True)
    assert limited.screen == ""


def test_a_program_whose_model_does_not_answer_in_time_is_limited(limited: Shared) -> None:
    """Its request is cut with it, which is no failure of the provider's, and no time to be forgiven."""
    stored = limited.trials["slow"]
    assert (stored.limit, stored.seconds >= 2) == ("seconds", True)
    # None where this machine is busy.
    assert stored.transcript.usage.attempts == limited.requests.count("slow")


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_that_is_ended_for_its_time_answered_what_it_wrote_as_its_answer(
    limited: Shared, name: str
) -> None:
    """What its model said, and what it began to write, is none."""
    stored = limited.trials[name.replace(" ", "_")]
    assert (stored.limit, stored.outcome.answer.text) == ("seconds", PRINTED[name][1])


def test_a_limit_of_steps_answers_the_next_request_and_the_trial_is_limited(limited: Shared) -> None:
    """A program gets as many replies, then refusals; whether it asks on and on or fails, it is limited."""
    assert limited.requests.count("more") == 8
    for id in ("go_on", "give_up"):
        stored = limited.trials[id]
        assert (stored.limit, stored.transcript.usage.asks, stored.seconds < 60) == ("steps", 4, True)
    assert "limit reached: steps" in limited.trials["give_up"].output


def test_what_keeps_a_command_from_starting_is_told_with_its_place(pytester: pytest.Pytester) -> None:
    """By validate and at collection: file, line, key, expected, found, and what may be meant."""
    problems = {
        "agent": {"command": ["./agnt", "x"]},
        "env": {"OPENAI_BASE_URL": "http://elsewhere"},
        "env_pass": ["ANTHROPIC_API_KEY"],
        "proxy": {"TOOL_API": "api.example.com"},
    }
    text = json.dumps({"name": "weather", "kind": "regression", **problems}, indent=1)
    write(pytester.path, {"evals/suite.yaml": text, "evals/agent": "", "evals/t.json": answering("Mina")})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "evals/suite.yaml:6: agent.command[[]0]",
            "  expected: a program",
            "  found:    './agnt', which is no file beside suite.yaml",
            "  hint:     did you mean 'agent'?",
            "evals/suite.yaml:11: env.OPENAI_BASE_URL",
            "evals/suite.yaml:14: env_pass[[]0]",
            "evals/suite.yaml:17: proxy.TOOL_API",
        ]
    )


PYTHON = """
import json
import urllib.request


def ask(url, body):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer agenteval"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.loads(urllib.request.urlopen(request).read())


def answer(question, model_url, kept=[]):
    messages = {"model": "m", "messages": [{"role": "user", "content": question}]}
    ask(f"{model_url}/chat/completions", messages)
    ask(f"{model_url}/v1/messages", {**messages, "max_tokens": 9})
    try:
        print(ask(f"{kept[-1]}/chat/completions", messages)) if kept else None
    except urllib.error.HTTPError as refused:
        print(refused.code)
    kept.append(model_url)
    return "Mina"
"""


def test_a_python_agent_is_given_an_address_for_what_it_starts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``model_url`` stands for every provider, as long as the trial lasts; the key is put on there."""
    agent = {"call": "bot:answer"}
    files = {
        "evals/suite.yaml": suite([], agent=agent),
        "evals/bot.py": PYTHON,
        "evals/t.json": answering("Mina"),
    }
    write(pytester.path, files)

    with ModelServer([ReplyPlan(text="Mina")]) as model:
        set_model(monkeypatch, model)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.anthropic_base)
        monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
        run(pytester, "--agent-live", "--repetitions=2", "--agent-concurrency=1").assert_outcomes(passed=2)

    sent = [(request.path, CANARY in str(request.headers)) for request in model.requests]
    assert sent == [("/v1/chat/completions", True), ("/v1/messages", True)] * 2
    stored = load_run(run_folder(pytester.path))
    first, second = map(stored.trial, stored.entries)
    assert [trial.transcript.usage.asks for trial in (first, second)] == [2, 2]
    assert (first.output, second.output) == ("", "403\n")


PROMPTED = r"""
n=$(cat "${AGENTEVAL_PROMPTS:-$OWN}/system.md")
%s
curl -sS "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
  -d "{\"model\": \"m\", \"messages\": [{\"role\": \"system\", \"content\": \"$n\"}]}" > /dev/null
echo "$n"
"""


@pytest.mark.parametrize("deaf", [False, True])
def test_a_program_reads_its_prompts_from_a_folder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *, deaf: bool
) -> None:
    """``$AGENTEVAL_PROMPTS`` holds a file for each; one that no request holds is told."""
    own = str(pytester.mkdir("own"))
    wants = {
        "id": "oslo",
        "input": OSLO,
        "graders": [{"name": "answer_contains", "config": {"text": "be brief"}}],
    }
    script = PROMPTED % ("n=$(cat $OWN/system.md)" if deaf else "")
    files = {"own/system.md": "be plain", "short/system.md": "be brief\n"}
    write(pytester.path, shell(script, wants, output="text", env={"OWN": own}, live=True) | files)

    with ModelServer([ReplyPlan(text="Mina")]) as model:
        set_model(monkeypatch, model)
        result = run(pytester, "--agent-prompt=short=short")

    result.assert_outcomes(failed=2 if deaf else 1, passed=0 if deaf else 1)
    assert ("no trial read the prompt 'system'" in str(result.stdout)) is deaf


def test_a_program_may_reach_other_servers_of_this_machine(pytester: pytest.Pytester) -> None:
    """By the trial's proxy and without an option: requests to a model are seen. A mode ``none`` refuses."""
    with ModelServer([ReplyPlan(text="Mina")]) as model:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Who?"}]})
        url = f"{model.openai_base}/chat/completions"
        script = f"curl -s {url} -H 'Content-Type: application/json' -d '{body}' | grep -o Mina"
        write(pytester.path, shell(script, answering("Mina", id="t"), name="local", output="text"))
        run(pytester).assert_outcomes(passed=1)
        (trial,) = latest_trials(pytester.path).values()
        assert [message.content for message in trial.transcript.messages] == ["Who?", "Mina"]
        result = run(pytester, "--agent-record=none")
        result.assert_outcomes(errors=1)
        assert len(model.requests) == 1
