"""Tools of MCP servers: recorded as whole calls, played without any server, ended with their trials."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, McpServer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.suite_tools import ToolSources
from pytest_agenteval.session.planning.suites import LoadedSuite, Suites
from pytest_agenteval.text.errors import (
    McpServerDown,
    NoKey,
    ProblemsFound,
    key_path_text,
)
from pytest_agenteval.tools.mcp_client import ServedTool, read_served_tool
from pytest_agenteval.tools.mcp_servers import list_served_tools
from pytest_agenteval.tools.mcp_tools import ProcessServers, SchemaSource, recorded_tools
from tests.journals import trials
from tests.suites import run, suite, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

SERVER = Path(__file__).with_name("stdio_server.py")
COMMAND = (sys.executable, "-I", "-S", "server.py")
NOTED = ', env: {STARTS: "STARTS_FILE"}'
NAMESAKE = ', env: {NAMESAKE: "1"}'
GOOD_SCHEMAS: list[Any] = [{}, {"properties": {"a": {"type": "string"}}}, None]
BROKEN_SCHEMAS: list[Any] = [{"type": "string"}, [1], "x", {"type": "object", "properties": []}]
OWN = "def add(a: int) -> int:\n    'Adds.'\n    return a\n"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import the package once: what is imported within a run of pytester's is forgotten after it."""
    for name in ("mcp", "mcp.client.streamable_http", "anyio._backends._asyncio"):
        importlib.import_module(name)


def served(more: str = "", where: str = "", entries: str = "", name: str = "greetings") -> str:
    """Give a suite whose tools come from the server beside it."""
    command = f"command: [{', '.join(COMMAND)}]"
    return suite(name, more=f"tools:\n- mcp: {{{command}{where}}}\n{more}{entries}")


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


def in_env(**variables: Any) -> str:
    """Give the ``env`` of a server's entry; what is no text is written as JSON."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in variables.items()
    }
    return f", env: {json.dumps(texts)}"


@dataclass
class Project:
    """A folder of suites, each with a server of its own, and what became of their trials."""

    root: Path
    trials: dict[str, Trial] = field(default_factory=dict)
    replayed: dict[str, Trial] = field(default_factory=dict)
    screen: str = ""

    def write(self, name: str, suite_text: str, *tasks: dict[str, Any], **files: str) -> None:
        """Write a suite, its tasks and its server."""
        folder = self.root / "evals" / name
        text = suite_text.replace("STARTS_FILE", str(self.notes(name)))
        code = SERVER.read_text(encoding="utf-8")
        write(folder, {"suite.yaml": text, "server.py": code, "tasks.json": tasks, **files})

    def notes(self, name: str) -> Path:
        """Give the file in which a suite's servers note what becomes of them."""
        return self.root / f"{name}.txt"

    def noted(self, name: str) -> list[str]:
        """Give what the servers of a suite noted."""
        notes = self.notes(name)
        return notes.read_text(encoding="utf-8").split("\n")[:-1] if notes.exists() else []

    def processes(self, name: str) -> list[int]:
        """Give the processes that were running when a server began to hang."""
        lines = [line.split() for line in self.noted(name)]
        return [int(number) for word, *numbers in lines if word == "hangs" for number in numbers]

    def calls(self, id: str) -> tuple[ToolCall, ...]:
        """Give the calls of a task's trial while it was recorded."""
        return self.trials[id].transcript.calls

    def results(self, *ids: str) -> list[Any]:
        """Give the results of the calls of these tasks' trials."""
        return [call.result for id in ids for call in self.calls(id)]


def write_suites(project: Project) -> None:
    """Write a suite for each thing that a server or a suite's entry may do."""
    calls = asking(
        ("add", {"a": 1, "b": 2}),
        ("shout", {"text": "hey"}),
        "picture",
        ("refuse", {"text": "bread"}),
        ("shout", {"text": 5}),
        "protest",
        "files_read",
        id="calls",
    )
    entry = f"- mcp: {{command: [{', '.join(COMMAND)}]}}\n"
    counting = [asking("count", "count", id="two"), asking("count", id="one")]
    shared = [{**task, "id": f"shared_{task['id']}"} for task in counting]
    schemas = in_env(SCHEMAS=[*GOOD_SCHEMAS, *BROKEN_SCHEMAS])
    project.write("calls", served(name="calls", where=NOTED), calls)
    project.write("own", served(name="own", where=NOTED), *counting)
    project.write("shared", served("  share: session\n", NOTED, name="shared"), *shared)
    project.write("dies", served(name="dies"), asking("die", id="dies"), asking("count", id="fine"))
    project.write("babbles", served(name="babbles"), asking("babble", id="babbles"))
    project.write("hangs", served("  seconds: 0.2\n", NOTED, name="hangs"), asking("hang", id="hangs"))
    limited = asking("hang", id="limited", limits={"seconds": 0.3})
    project.write("limited", served(name="limited", where=NOTED), limited)
    secret = ', cwd: inner, env: {TOKEN: "${MY_TOKEN}"}'
    project.write("secret", served(name="secret", where=secret), asking("secret", id="secret"))
    inner = project.root / "evals/secret/inner"
    inner.mkdir()
    shutil.move(inner.with_name("server.py"), inner)
    project.write(
        "schemas",
        served("  only: [typed0, typed1, typed2]\n", schemas, name="schemas"),
        asking(*UNTYPED, id="schemas"),
    )
    renamed = asking("their_count", "count", ("their_add", {"a": 1, "b": 1}), "files_read", id="renamed")
    entries = f"{entry}  only: [count]\n- own.py\n- mcp: {{command: [{', '.join(COMMAND)}]{NAMESAKE}}}\n"
    entries += "  only: [files.read]\n"
    names = served("  prefix: their_\n", entries=entries, name="renamed")
    project.write("renamed", names, renamed, **{"own.py": OWN})


UNTYPED = ("typed0", "typed1", "typed2")
REPLAYED = ("calls", "two", "one", "schemas", "renamed")
_made: list[Project] = []


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """All suites, recorded, then replayed where there are neither servers nor the package; made once."""
    if _made:
        return _made[0]
    project = Project(pytester.path)
    write(pytester.path, {"pytest.ini": "[pytest]\n"})
    write_suites(project)
    monkeypatch.setenv("MY_TOKEN", "canary-4711-of-mcp")
    monkeypatch.setenv("OTHER_API_KEY", "canary-4712-of-mcp")
    recorded = run(pytester, "evals", "--agent-record=once", "-v")
    recorded.assert_outcomes(passed=9, failed=1, errors=3)
    project.trials, project.screen = trials(pytester.path), recorded.stdout.str()
    (pytester.path / ".agenteval/runs").rename(pytester.path / "recorded")
    for server in pytester.path.rglob("server.py"):
        server.unlink()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("pytest_agenteval.tools.mcp_servers.LoopThread._start", None)
    chosen = [f"evals/{name}" for name in ("calls", "own", "schemas", "renamed")]
    run(pytester, *chosen).assert_outcomes(passed=len(REPLAYED))
    assert "mcp" not in sys.modules
    project.replayed = trials(pytester.path)
    _made.append(project)
    return project


def test_calls_are_recorded_whole(project: Project) -> None:
    """A result is its structured content, else its text, with what is no text named; errors are errors."""
    live = project.calls("calls")
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
    calls = ("add", "shout", "picture", "refuse", "protest", "files.read")
    # One server lists its tools, another serves the trial; what is refused before it is sent reaches none.
    assert project.noted("calls") == ["start", "end", "start", *(f"call {name}" for name in calls), "end"]


def test_recorded_calls_are_replayed_without_server_or_package(project: Project) -> None:
    """Results and errors are those that were recorded."""
    assert set(project.replayed) == set(REPLAYED)
    for id, trial in project.replayed.items():
        again = [(call.result, call.error) for call in trial.transcript.calls]
        assert again == [(call.result, call.error) for call in project.calls(id)]
        assert {call.tape for call in trial.transcript.calls} <= {"hit", "none"}


def test_each_trial_has_a_server_of_its_own_unless_they_share_one(project: Project) -> None:
    """So what one trial did to it no other sees; one that is shared lives as long as the run."""
    assert project.results("two", "one") == ["1", "2", "1"]
    assert project.noted("own").count("start") == project.noted("own").count("end") == 3  # one to list
    assert sorted(project.results("shared_two", "shared_one")) == ["1", "2", "3"]
    assert project.noted("shared").count("start") == project.noted("shared").count("end") == 2


def test_a_server_that_dies_breaks_its_trial_only(project: Project) -> None:
    """Its cause is its own, and its last words are told."""
    dead = project.trials["dies"]
    assert (dead.ending, dead.cause) == ("errored", "mcp_server")
    assert dead.message.endswith(
        "server.py` was gone before it could answer die (exit status 3); "
        "the last lines of its standard error:\n  one moment\n  the database is gone"
    )
    assert project.trials["fine"].ending == "passed"


def test_an_answer_that_is_no_result_breaks_its_trial_in_one_line(project: Project) -> None:
    """It says where the answer is not as the protocol has it; nobody hears that the server was gone."""
    broken = project.trials["babbles"]
    assert broken.cause == "mcp_server"
    assert broken.message.endswith(
        "server.py` did not answer babble as the protocol says: content: Input should be a valid list"
    )


def test_a_server_that_hangs_is_waited_for_as_long_as_its_suite_says(project: Project) -> None:
    """A call has its seconds, the start has its own; then the server ends with all that it started."""
    hung = project.trials["hangs"]
    assert (hung.ending, hung.cause) == ("errored", "mcp_server")
    assert "server.py` did not answer hang within 0.2 s" in hung.message
    assert len(project.processes("hangs")) == 2
    assert not any(map(is_running, project.processes("hangs")))


def test_a_limit_ends_the_server_too(project: Project) -> None:
    """The trial is graded as one that was limited, and nothing of the server is left."""
    assert (project.trials["limited"].ending, project.trials["limited"].limit) == ("failed", "seconds")
    assert len(project.processes("limited")) == 2
    assert not any(map(is_running, project.processes("limited")))


def test_a_server_knows_what_it_is_given_and_records_do_not(project: Project) -> None:
    """No key of ours reaches it unasked, and none that it was given leaves the trial."""
    (given,) = project.results("secret")
    assert (given["folder"], given["OTHER_API_KEY"]) == ("inner", None)
    assert "redacted" in given["TOKEN"]
    files = [path for path in project.root.rglob("*") if path.is_file()]
    assert [path for path in files if b"canary-471" in path.read_bytes()] == []
    assert "canary-471" not in project.screen
    (kept,) = (project.root / "cassettes/calls/suite.mcp").glob("*.yaml")
    # The name of a parameter is no secret.
    assert '"token": {\n                    "type": "string"' in kept.read_text(encoding="utf-8")


def test_a_tool_without_a_type_takes_an_object(project: Project) -> None:
    """As MCP has it, arguments are always an object; what else stands in the schema holds."""
    assert project.results("schemas") == list(UNTYPED)
    offered = {tool.name: tool for tool in project.replayed["schemas"].transcript.tools}
    for name in UNTYPED:
        assert offered[name].declaration()["function"]["parameters"]["type"] == "object"


def test_a_prefix_gives_a_servers_tools_other_names(project: Project) -> None:
    """So tools of two servers and of a file may be called alike; ``only`` takes one of a pair of its own."""
    assert project.results("renamed") == ["1", "1", {"sum": 2, "carry": None}, "files.read"]


def write_server(root: Path) -> Path:
    """Write the server alone, and give the file of its notes."""
    shutil.copy(SERVER, root / "server.py")
    return root / "starts.txt"


def hanging_server(root: Path) -> McpServer:
    """Give a server that notes its processes when it begins to hang, with its tools recorded."""
    notes = write_server(root)
    suite_file = root / "suite.yaml"
    suite_file.write_text(served(where=f", env: {{STARTS: {notes}}}"), encoding="utf-8")
    loaded = Suites(root, recording(root)).suite_of(suite_file)
    assert isinstance(loaded, LoadedSuite)
    (server,) = loaded.resources.tools
    assert isinstance(server, McpServer)
    return server


def recording(root: Path, mode: Any = "once") -> ToolSources:
    """Give sources in which servers are started to learn what they offer."""
    return ToolSources(Registry(), lambda _: SchemaSource(root, mode))


def problems_of(file: Path, sources: ToolSources | None = None, root: Path | None = None) -> list[str]:
    """Give what is wrong with a suite file, as it is shown."""
    found = Suites(root or file.parent, sources).suite_of(file)
    assert isinstance(found, ProblemsFound)
    return [str(problem) for problem in found.problems]


def test_what_a_server_offers_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept, page by page; where nothing is known, it is said how to record it."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "evals/suite.yaml"
    file.parent.mkdir()
    notes = write_server(file.parent)
    more = "  only: [add, secret]\n"
    file.write_text(served(more, f', env: {{STARTS: "{notes}"}}'), encoding="utf-8")

    (problem,) = problems_of(file, root=tmp_path)
    known = Suites(tmp_path, recording(tmp_path)).suite_of(file)
    again = Suites(tmp_path, recording(tmp_path)).suite_of(file)
    replayed = Suites(tmp_path).suite_of(file)

    place, expected, found, hint = problem.split("\n")
    assert place == "evals/suite.yaml:5: tools[0].mcp"
    assert expected.startswith("  expected: a recording of its tools in cassettes/suite.mcp/")
    assert expected.endswith("-I-S-server.py.yaml (mode is replay: no server is started)")
    assert found == f"  found:    no recording of what `{McpServer(command=COMMAND).title}` offers"
    assert hint == "  hint:     record it:  pytest evals --agent-record=once"
    assert notes.read_text(encoding="utf-8").split() == ["start", "end"]
    anew = Suites(tmp_path, recording(tmp_path, "all")).suite_of(file)
    assert notes.read_text(encoding="utf-8").split() == ["start", "end"] * 2
    for loaded in (known, again, replayed, anew):
        assert isinstance(loaded, LoadedSuite)
        assert loaded.resources.names == ("add", "secret")


def test_a_run_that_is_cut_short_leaves_no_server(tmp_path: Path) -> None:
    """As by -x or Ctrl-C, which close the servers of trials that are under way."""
    server = hanging_server(tmp_path)
    notes = tmp_path / "starts.txt"

    async def cut_short() -> None:
        servers = ProcessServers()
        tools = servers.of_trial(Budget(Allowance())).connect(recorded_tools(server))
        call = asyncio.ensure_future(tools["hang"].function({}))
        while "hangs" not in notes.read_text(encoding="utf-8"):
            await asyncio.sleep(0.01)
        call.cancel()
        await servers.close()

    asyncio.run(cut_short())
    (line,) = (line for line in notes.read_text(encoding="utf-8").splitlines() if "hangs" in line)
    processes = [int(number) for number in line.split()[1:]]
    assert len(processes) == 2
    assert not any(map(is_running, processes))


def test_a_server_that_cannot_start_gives_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it said, or with what could not be found, or which variable is not set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MY_TOKEN", raising=False)
    write_server(tmp_path)
    file = tmp_path / "suite.yaml"
    file.write_text(served(where=", env: {FAILS: yes please}"), encoding="utf-8")
    (problem,) = problems_of(file, recording(tmp_path))
    place, _, found, words = problem.split("\n")
    assert place == "suite.yaml:5: tools[0].mcp"
    assert found.startswith("  found:    the MCP server `")
    assert "` did not start (exit status 1); the last lines of " in found
    assert words == "  there is no licence"
    missing = McpServer(command=("no-such-program-4711",), folder=str(tmp_path))
    with pytest.raises(McpServerDown, match="the MCP server `no-such-program-4711` cannot be started: "):
        list_served_tools(missing)
    unset = McpServer(command=("true",), folder=str(tmp_path), env={"TOKEN": "${MY_TOKEN}"})
    with pytest.raises(NoKey, match=r"needs \$MY_TOKEN, which is not set$"):
        list_served_tools(unset)


WRONG_ENTRIES = [
    ("{mcp: {}}", "tools[0].mcp", "either `command`, a list that starts the server, or `url`"),
    ("{mcp: {url: http://x, command: [a]}}", "tools[0].mcp", "either `command`, a list that starts"),
    ("{mcp: {url: ftp://x}}", "tools[0].mcp.url", "an address: http://… or https://…"),
    ("{mcp: {url: http://x, cwd: a}}", "tools[0].mcp.cwd", "no `cwd` beside `url`"),
    ("{mcp: {command: [a], headers: {A: b}}}", "tools[0].mcp.headers", "no `headers` beside `command`"),
    ("{mcp: {command: [a], cwd: gone}}", "tools[0].mcp.cwd", "a folder, from the suite's folder"),
    ("{mcp: {comand: [a]}}", "tools[0].mcp.comand", "one of command, cwd, env, headers, url"),
    ("{mcp: {command: a b}}", "tools[0].mcp.command", "a list: the program and its arguments"),
    ("{mcp: {command: [a]}, share: run}", "tools[0].share", "trial: one server per trial"),
    ("'  '", "tools[0]", "a text that is not blank"),
    ("{mcp: {command: [a]}}", "tools[0].mcp", "a recording of its tools in cassettes/suite.mcp/a.yaml"),
]


def test_a_wrong_entry_is_told_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started to find it out."""
    monkeypatch.setattr("pytest_agenteval.tools.mcp_servers.LoopThread._start", None)
    for tools, path, expected in WRONG_ENTRIES:
        write(tmp_path, {"evals/suite.yaml": suite(more=f"tools: [{tools}]\n")})
        problems = Suites(tmp_path).suite_of(tmp_path / "evals" / "t.json")
        assert isinstance(problems, ProblemsFound)
        (problem,) = problems.problems
        assert (key_path_text(problem.path), problem.line) == (path, 4)
        assert problem.expected.startswith(expected)


class Offering:
    """Servers that offer the same tools, none of which is started."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._tools = tuple(
            read_served_tool({"name": name, "inputSchema": it}) for name, it in schemas.items()
        )

    def tools_of(self, server: McpServer) -> tuple[ServedTool, ...]:
        return self._tools


def offering(*names: str, **schemas: Any) -> ToolSources:
    """Give sources in which every server offers these tools, and somebody has registered ``shout``."""
    offered: Any = Offering({**{name: {"type": "object"} for name in names}, **schemas})
    registry: Any = SimpleNamespace(
        toolsets={}, broken_benchmarks=(), tool_claimants={"shout": "conftest.py:5"}
    )
    return ToolSources(registry, lambda _: offered)


def test_names_that_two_tools_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else has the name, both are told, and how to go on: a model could not tell them apart."""
    monkeypatch.chdir(tmp_path)
    entry = f"- mcp: {{command: [{', '.join(COMMAND)}]}}\n  only: [count]\n- own.py\n"
    write(tmp_path, {"suite.yaml": served(entries=entry), "own.py": OWN})
    shout, count, add = problems_of(tmp_path / "suite.yaml", offering("shout", "count", "add"))
    assert shout.startswith("suite.yaml:5: tools[0].mcp\n")
    assert "  found:    'shout' of conftest.py:5, which registered it and of `" in shout
    assert shout.endswith(
        "  hint:     use `only: […]` to take fewer of its tools, or `prefix: …` to rename them"
    )
    title = McpServer(command=COMMAND).title
    assert f"  found:    'count' of `{title}` and of `{title}`" in count
    assert f"  found:    'add' of `{title}` and of own.py" in add

    write(tmp_path, {"suite.yaml": served("  only: [ad, count]\n  prefix: my_\n")})
    (unknown,) = problems_of(tmp_path / "suite.yaml", offering("add", "count"))
    assert unknown.startswith("suite.yaml:6: tools[0].only[0]\n")
    assert unknown.endswith("did you mean 'add'?")


def test_of_one_server_two_tools_have_no_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that models are not told make equals of names that differ: one of the tools would vanish."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"suite.yaml": served()})
    (problem,) = problems_of(tmp_path / "suite.yaml", offering("files.read", "count", "files/read"))
    place, _, found, hint = problem.split("\n")
    assert place == "suite.yaml:5: tools[0].mcp"
    names = "'files.read' and 'files/read' of this server, which a model sees both as 'files_read'"
    assert found == f"  found:    {names}"
    assert hint == "  hint:     use `only: […]` to take one of them"


def test_a_tool_with_a_broken_schema_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its server are good, whatever the package mcp makes of the whole list."""
    monkeypatch.chdir(tmp_path)
    write_server(tmp_path)
    schemas = [*GOOD_SCHEMAS, *BROKEN_SCHEMAS]
    write(tmp_path, {"suite.yaml": served(where=in_env(SCHEMAS=schemas))})
    for mode in ("once", "none"):
        problems = problems_of(tmp_path / "suite.yaml", recording(tmp_path, mode))
        assert len(problems) == len(BROKEN_SCHEMAS)
        for number, problem in enumerate(problems, len(GOOD_SCHEMAS)):
            _, expected, found, hint = problem.split("\n")
            assert expected.startswith("  expected: tools whose `inputSchema` ")
            assert found.startswith(f"  found:    'typed{number}' of this server, with ")
            assert "`only: " in hint
