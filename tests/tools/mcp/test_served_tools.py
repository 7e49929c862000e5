"""Tools of MCP servers: recorded as whole calls, played without any server, ended with their trials."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.suites import Suites
from pytest_agenteval.text.errors import ProblemsFound, key_path_text
from tests.journals import trials
from tests.suites import run, suite, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

SERVER = Path(__file__).with_name("stdio_server.py")


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import the package once: what is imported within a run of pytester's is forgotten after it."""
    for name in ("mcp", "mcp.client.streamable_http", "anyio._backends._asyncio"):
        importlib.import_module(name)


def served(more: str = "", where: str = "", entries: str = "") -> str:
    """Give a suite whose tools come from the server beside it."""
    command = f"command: [{sys.executable}, -I, -S, server.py]"
    return suite(more=f"tools:\n- mcp: {{{command}{where}}}\n{more}{entries}")


def asking(*calls: str | tuple[str, Mapping[str, Any]], id: str = "t", **more: Any) -> dict[str, Any]:
    """Give a task whose model makes these calls, each in a turn of its own."""
    named = [(call, {}) if isinstance(call, str) else call for call in calls]
    return {
        "id": id,
        "input": {"content": "Do it."},
        "script": [*({"calls": [{"tool": tool, "args": args}]} for tool, args in named), {"text": "done"}],
        "graders": [{"name": "answer_contains", "config": {"text": "done"}}],
        **more,
    }


class Project:
    """A folder with a suite of these tasks, and the server's own notes of what became of it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.notes = pytester, pytester.path / "starts.txt"

    def write(self, suite_text: str, *tasks: dict[str, Any], **files: str) -> Project:
        """Write suite, tasks and the server."""
        write(
            self.pytester.path,
            {
                "pytest.ini": "[pytest]\n",
                "evals/suite.yaml": suite_text.replace("STARTS_FILE", str(self.notes)),
                "evals/server.py": SERVER.read_text(encoding="utf-8"),
                **{f"evals/{task['id']}.json": task for task in tasks},
                **files,
            },
        )
        return self

    def run(self, *args: str, workers: int = 0) -> pytest.RunResult:
        """Run, forgetting what was noted and what ran before."""
        self.notes.unlink(missing_ok=True)
        for old in (self.pytester.path / ".agenteval" / "runs").glob("2*"):
            old.rename(old.with_name(f"before-{old.name}"))
        return run(self.pytester, *args, workers=workers)

    def noted(self) -> list[str]:
        """Give what the servers noted."""
        return self.notes.read_text(encoding="utf-8").split("\n")[:-1] if self.notes.exists() else []

    def processes(self) -> list[int]:
        """Give the processes that were running when a server began to hang."""
        lines = [line.split() for line in self.noted()]
        return [int(number) for word, *numbers in lines if word == "hangs" for number in numbers]

    def trial(self, id: str = "t") -> Trial:
        """Give the trial of a task in the last run."""
        return trials(self.pytester.path)[id]

    def calls(self, id: str = "t") -> tuple[ToolCall, ...]:
        """Give the calls of a task's trial."""
        return self.trial(id).transcript.calls


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A folder of its own."""
    return Project(pytester)


NOTED = ', env: {STARTS: "STARTS_FILE"}'


def test_calls_are_recorded_whole_and_played_without_server_or_package(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result is its structured content, else its text, with what is no text named; errors are errors."""
    task = asking(
        ("add", {"a": 1, "b": 2}),
        ("shout", {"text": "hey"}),
        "picture",
        ("refuse", {"text": "bread"}),
        ("shout", {"text": 5}),
        "protest",
        "files_read",
    )
    project.write(served(where=NOTED), task)
    project.run("--agent-record=once").assert_outcomes(passed=1)
    live = project.calls()
    assert [call.result for call in live[:3]] == [
        {"sum": 3, "carry": None},
        "HEY",
        "look:\n[image: image/png, 10 bytes, not shown]\n[link to more: file:///more]\ninside",
    ]
    assert [(call.error.type, call.error.message) for call in live[3:6] if call.error] == [
        ("tool_error", "there is no bread"),
        ("bad_arguments", "text: 5 is not of type 'string'"),
        ("mcp_error", "nobody may call this"),
    ]
    assert live[6].result == "files.read"
    assert {call.tape for call in live} == {"live", "none"}

    (project.pytester.path / "evals" / "server.py").unlink()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("pytest_agenteval.tools.mcp_servers.LoopThread._start", None)
    project.run().assert_outcomes(passed=1)
    assert "mcp" not in sys.modules
    assert [(call.result, call.error) for call in project.calls()] == [
        (call.result, call.error) for call in live
    ]
    assert {call.tape for call in project.calls()} == {"hit", "none"}


def test_what_a_server_offers_is_asked_once(project: Project) -> None:
    """It is kept for collecting too, page by page; where nothing is known, it is said how to record it."""
    project.write(served(where=NOTED, more="  only: [add, secret]\n"), asking(("add", {"a": 1, "b": 1})))
    refused = project.run("--collect-only")
    refused.stdout.fnmatch_lines(
        [
            "evals/suite.yaml:5: tools[[]0].mcp",
            "  expected: its tools to be recorded in cassettes/suite.mcp/*-I-S-server.py.yaml (mode *",
            "  found:    no recording of what `*server.py` offers",
            "  hint:     record it:  pytest evals --agent-record=once",
        ]
    )
    assert project.noted() == []
    project.run("--collect-only", "--agent-record=once").assert_outcomes(errors=0)
    assert project.noted() == ["start", "end"]
    project.run("--collect-only").assert_outcomes(errors=0)
    assert project.noted() == []
    project.run("--agent-record=once").assert_outcomes(passed=1)
    assert project.noted() == ["start", "call add", "end"]
    (kept,) = (project.pytester.path / "cassettes" / "suite.mcp").glob("*.yaml")
    assert '"token": {\n                    "type": "string"' in kept.read_text(encoding="utf-8")


def test_each_trial_has_a_server_of_its_own_unless_they_share_one(project: Project) -> None:
    """So what one trial did to it no other sees; one that is shared lives as long as the run."""
    tasks = [asking("count", "count", id="a"), asking("count", id="b")]
    project.write(served(where=NOTED), *tasks)
    project.run("--agent-record=once").assert_outcomes(passed=2)
    assert [call.result for call in (*project.calls("a"), *project.calls("b"))] == ["1", "2", "1"]
    assert sorted(project.noted()).count("start") == 3  # one to list

    project.write(served(where=NOTED, more="  share: session\n"))
    project.run("--agent-record=all").assert_outcomes(passed=2)
    assert sorted(call.result for call in (*project.calls("a"), *project.calls("b"))) == ["1", "2", "3"]
    assert project.noted().count("start") == project.noted().count("end") == 2


def test_a_server_that_dies_breaks_its_trial_only(project: Project) -> None:
    """Its cause is its own, and its last words are told."""
    project.write(served(), asking("die", id="dies"), asking("count", id="fine"))
    project.run("--agent-record=once").assert_outcomes(passed=1, errors=1)
    dead = project.trial("dies")
    assert (dead.ending, dead.cause) == ("errored", "mcp_server")
    assert dead.message.endswith(
        "server.py` was gone before it could answer die (exit status 3); "
        "the last lines of its standard error:\n  one moment\n  the database is gone"
    )


def test_an_answer_that_is_no_result_breaks_its_trial_in_one_line(project: Project) -> None:
    """It says where the answer is not as the protocol has it; nobody hears that the server was gone."""
    project.write(served(), asking("babble"))
    project.run("--agent-record=once").assert_outcomes(errors=1)
    odd = project.trial()
    assert odd.cause == "mcp_server"
    assert odd.message.endswith(
        "server.py` did not answer babble as the protocol says: content: Input should be a valid list"
    )


def test_a_server_that_hangs_is_waited_for_as_long_as_its_suite_says(project: Project) -> None:
    """A call has its seconds, the start has its own; then the server ends with all that it started."""
    project.write(served("  seconds: 0.2\n", NOTED), asking("hang", "count"))
    project.run("--agent-record=once").assert_outcomes(errors=1)
    hung = project.trial()
    assert (hung.ending, hung.cause) == ("errored", "mcp_server")
    assert "server.py` did not answer hang within 0.2 s" in hung.message
    assert not any(map(is_running, project.processes()))


def test_a_limit_ends_the_server_too(project: Project) -> None:
    """The trial is graded as one that was limited, and nothing of the server is left."""
    project.write(served(where=NOTED), asking("hang", limits={"seconds": 0.3}))
    project.run("--agent-record=once").assert_outcomes(failed=1)
    assert project.trial().limit == "seconds"
    assert not any(map(is_running, project.processes()))


WAITS = """
import time
from pathlib import Path


def wait(task_input, ctx):
    while "hangs" not in (Path({notes!r}).read_text() if Path({notes!r}).exists() else ""):
        time.sleep(0.01)
    return "no"


def pytest_agenteval_register(registry):
    registry.agent("waits", wait)
"""


def test_a_run_that_is_cut_short_leaves_no_server(project: Project) -> None:
    """As by -x or Ctrl-C, which cancel what is under way."""
    files = {"evals/conftest.py": WAITS.format(notes=str(project.notes))}
    project.write(served(where=NOTED), asking(id="a", agent="waits"), asking("hang", id="b"), **files)
    project.run("--agent-record=once", "-x").assert_outcomes(failed=1)
    assert len(project.processes()) == 2
    assert not any(map(is_running, project.processes()))


def test_a_server_knows_what_it_is_given_and_records_do_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key of ours reaches it unasked, and none that it was given leaves the trial."""
    monkeypatch.setenv("MY_TOKEN", "canary-4711-of-mcp")
    monkeypatch.setenv("OTHER_API_KEY", "canary-4712-of-mcp")
    project.write(served(where=', cwd: inner, env: {TOKEN: "${MY_TOKEN}"}'), asking("secret"))
    (project.pytester.path / "evals" / "inner").mkdir()
    server = project.pytester.path / "evals" / "server.py"
    server.rename(server.parent / "inner" / "server.py")
    result = project.run("--agent-record=once")
    result.assert_outcomes(passed=1)
    said = project.calls()[0].result
    assert (said["folder"], said["OTHER_API_KEY"]) == ("inner", None)
    assert "redacted" in said["TOKEN"]
    written = [
        path
        for path in project.pytester.path.rglob("*")
        if path.is_file() and b"canary-471" in path.read_bytes()
    ]
    assert written == []
    assert "canary-471" not in result.stdout.str()

    monkeypatch.delenv("MY_TOKEN")
    project.run("--agent-record=all").stdout.fnmatch_lines(["*is given $MY_TOKEN: not set"])


def test_a_server_that_cannot_start_is_told_at_its_place(project: Project) -> None:
    """With what it said, or with what could not be found; nobody waits for it."""
    project.write(served(where=", env: {FAILS: yes please}"), asking("count"))
    project.run("--agent-record=once").stdout.fnmatch_lines(
        [
            "evals/suite.yaml:5: tools[[]0].mcp",
            "  found:    the MCP server `*` did not start (exit status 1); the last lines of *",
            "  there is no licence",
        ]
    )
    project.write(suite(more="tools: [{mcp: {command: [no-such-program-4711]}}]\n"))
    project.run("--agent-record=once").stdout.fnmatch_lines(
        ["  found:    the MCP server `no-such-program-4711` cannot be started: *"]
    )


def test_recording_says_what_to_install(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to guess where the package comes from."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    project.write(served(), asking("count"))
    project.run("--agent-record=once").stdout.fnmatch_lines(
        ["  found:    tools of an MCP server need the package mcp (*): pip install 'pytest-agenteval[[]mcp]'"]
    )


@pytest.mark.parametrize(
    ("tools", "path", "expected"),
    [
        ("{mcp: {}}", "tools[0].mcp", "either `command`, a list that starts the server, or `url`"),
        ("{mcp: {url: http://x, command: [a]}}", "tools[0].mcp", "either `command`, a list that starts"),
        ("{mcp: {url: ftp://x}}", "tools[0].mcp.url", "an address: http://… or https://…"),
        ("{mcp: {url: http://x, cwd: a}}", "tools[0].mcp.cwd", "no `cwd` beside `url`"),
        ("{mcp: {command: [a], headers: {A: b}}}", "tools[0].mcp.headers", "no `headers` beside `command`"),
        ("{mcp: {command: [a], cwd: gone}}", "tools[0].mcp.cwd", "a folder, from the suite's folder"),
        ("{mcp: {comand: [a]}}", "tools[0].mcp.comand", "one of command, cwd, env, headers, url"),
        ("{mcp: {command: a b}}", "tools[0].mcp.command", "a list: the program and its arguments"),
        ("{mcp: {command: [a]}, share: run}", "tools[0].share", "trial: each trial starts a"),
        ("'  '", "tools[0]", "a text that is not blank"),
        ("{mcp: {command: [a]}}", "tools[0].mcp", "its tools to be recorded in cassettes/suite.mcp/a.yaml"),
    ],
)
def test_a_wrong_entry_is_told_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: str, path: str, expected: str
) -> None:
    """Nothing is started to find it out."""
    monkeypatch.setattr("pytest_agenteval.tools.mcp_servers.LoopThread._start", None)
    write(tmp_path, {"evals/suite.yaml": suite(more=f"tools: [{tools}]\n")})
    problems = Suites(tmp_path).suite_of(tmp_path / "evals" / "t.json")
    assert isinstance(problems, ProblemsFound)
    (problem,) = problems.problems
    assert (key_path_text(problem.path), problem.line) == (path, 4)
    assert problem.expected.startswith(expected)


def test_names_that_two_tools_have_are_refused(project: Project) -> None:
    """Whoever else has the name, both are told, and how to go on: a model could not tell them apart."""
    entry = f"- mcp: {{command: [{sys.executable}, -I, -S, server.py]}}\n"
    own = "def add(a: int) -> int:\n    'Adds.'\n    return a\n"
    conftest = (
        "from pytest_agenteval import tool_of\n"
        "def shout(text: str) -> str:\n    return text\n"
        "def pytest_agenteval_register(registry):\n"
        "    registry.tool(tool_of(shout))\n"
    )
    files = {"evals/own.py": own, "conftest.py": conftest}
    project.write(served(entries=f"{entry}  only: [count]\n- own.py\n"), asking("add"), **files)
    result = project.run("--agent-record=once")
    result.stdout.fnmatch_lines(
        [
            "evals/suite.yaml:5: tools[[]0].mcp",
            "  found:    'shout' of *conftest.py:5, which registered it and of `*server.py`",
            "  hint:     `only: […]` takes fewer of its tools, `prefix: …` gives them other names",
            "  found:    'count' of `*server.py` and of `*server.py`",
            "  found:    'add' of `*server.py` and of evals/own.py",
        ]
    )
    project.write(
        served("  prefix: their_\n", entries=f"{entry}  only: [count]\n- own.py\n"),
        asking("their_count", "count", ("their_add", {"a": 1, "b": 1})),
    )
    project.run("--agent-record=once").assert_outcomes(passed=1)
    assert [call.result for call in project.calls()] == ["1", "1", {"sum": 2, "carry": None}]
    project.write(served("  only: [ad, count]\n  prefix: my_\n"), asking("my_count"))
    project.run().stdout.fnmatch_lines(["*tools[[]0].only[[]0]", "*did you mean 'add'[?]"])


def test_of_one_server_two_tools_have_no_one_name(project: Project) -> None:
    """Letters that models are not told make equals of names that differ: one of the tools would vanish."""
    project.write(served(where=', env: {NAMESAKE: "1"}'), asking("files_read"))
    project.run("--agent-record=once").stdout.fnmatch_lines(
        [
            "evals/suite.yaml:*: tools[[]0].mcp",
            "  found:    'files.read' and 'files/read' of this server, which are both 'files_read' to*",
            "  hint:     `only: [[]…]` takes one of them",
        ]
    )
    project.write(served("  only: [files.read]\n", ', env: {NAMESAKE: "1"}'), asking("files_read"))
    project.run("--agent-record=once").assert_outcomes(passed=1)


@pytest.mark.parametrize("schema", [{}, {"properties": {"a": {"type": "string"}}}, None])
def test_a_tool_without_a_type_takes_an_object(project: Project, schema: Any) -> None:
    """As MCP has it, arguments are always an object; what else stands in the schema holds."""
    project.write(served(where=f", env: {{ODD: {json.dumps(json.dumps(schema))}}}"), asking("odd"))

    project.run("--agent-record=once").assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)

    (odd,) = (tool for tool in project.trial().transcript.tools if tool.name == "odd")
    assert odd.declaration()["function"]["parameters"]["type"] == "object"
    assert [call.result for call in project.calls()] == ["odd"]


@pytest.mark.parametrize("schema", [{"type": "string"}, [1], "x", {"type": "object", "properties": []}])
def test_a_tool_with_a_broken_schema_is_named_and_can_be_left_out(project: Project, schema: Any) -> None:
    """The others of its server are good, whatever the package mcp makes of the whole list."""
    where = f", env: {{ODD: {json.dumps(json.dumps(schema))}}}"
    project.write(served(where=where), asking("count"))
    for mode in ("once", "none"):
        project.run(f"--agent-record={mode}").stdout.fnmatch_lines(
            [
                "  expected: tools whose `inputSchema` *",
                "  found:    'odd' of this server, with *",
                "*`only: *",
            ]
        )
    project.write(served("  only: [count]\n", where), asking("count"))
    project.run("--agent-record=once").assert_outcomes(passed=1)
