"""The tool box with a tape: calls are recorded once, then played without the tool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.interaction import Request, Response, tool_request, tool_response
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.text.errors import CassetteMiss
from pytest_agenteval.tools.http_declaration import ToolDeclaration
from pytest_agenteval.tools.http_tool import http_tool
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolResult
from pytest_agenteval.tools.tool_tape import ToolTape
from pytest_agenteval.tools.toolbox import ToolBox

RETRY = "pytest evals -k t --agent-record=new_episodes"


class Search:
    """A tool of the outside world that counts how often it is reached."""

    def __init__(self) -> None:
        self.reached = 0

    def __call__(self, args: Mapping[str, Any]) -> Any:
        """Answer, or fail where it is asked for something bad."""
        self.reached += 1
        if args.get("q") == "bad":
            raise ToolFailed("없는 장소", "not_found")
        return {"hits": [args.get("q")], "n": self.reached}


def box_of(tape: ToolTape | None, search: Search, on_miss: str = "error") -> tuple[ToolBox, Recorder]:
    """Give a box with a tool of the outside world and one of the workspace."""
    recorder = Recorder(lambda: 0.0)
    box = ToolBox(recorder, tape=tape, on_miss=on_miss)
    box.offer(
        Tool(ToolSpec("search", taped=True, blocking=False), search),
        Tool(ToolSpec("local", blocking=False), search),
    )
    return box, recorder


def tape_of(path: Path, mode: RecordMode, library: Library | None = None) -> ToolTape:
    """Open a trial's tape."""
    return ToolTape((library or Library(path.parent)).open(path, mode, "tool"), retry_command=RETRY)


def call(box: ToolBox, tool: str = "search", **args: Any) -> ToolResult:
    """Make one call."""
    return asyncio.run(box.call(ToolCall("c", 1, 0, tool, args)))


def record(path: Path) -> None:
    """Record three calls, of which two are equal and one fails."""
    library = Library(path.parent)
    box, recorder = box_of(tape_of(path, "once", library), Search())
    for query in ("서울", "bad", "서울"):
        call(box, q=query)
    assert [made.tape for made in recorder.calls] == ["live"] * 3
    library.save()


def test_calls_are_played_in_order_and_errors_as_errors(tmp_path: Path) -> None:
    """Equal calls give their recordings one after the other, failures included, without reaching the tool."""
    record(tmp_path / "t.yaml")
    search, tape = Search(), tape_of(tmp_path / "t.yaml", "none")
    box, recorder = box_of(tape, search)

    assert [call(box, q="서울").value["n"] for _ in range(2)] == [1, 3]
    failed = call(box, q="bad")
    assert failed.error == ToolError("not_found", "없는 장소")
    assert search.reached == 0
    assert [made.tape for made in recorder.calls] == ["hit"] * 3
    assert (tape.hits, tape.misses, tape.recorded) == (3, 0, 0)


def test_a_miss_breaks_the_trial_with_the_way_to_record(tmp_path: Path) -> None:
    """The nearest recorded call and the command are named, and nothing is sent."""
    record(tmp_path / "t.yaml")
    search, tape = Search(), tape_of(tmp_path / "t.yaml", "none")
    box, recorder = box_of(tape, search)
    with pytest.raises(CassetteMiss) as caught:
        call(box, q="부산")

    message = str(caught.value)
    assert all(part in message for part in ("search(q='부산')", "q: '서울'", RETRY))
    assert (search.reached, recorder.calls[0].tape, tape.misses) == (0, "miss", 1)


def test_a_suite_may_show_a_miss_to_the_agent(tmp_path: Path) -> None:
    """Then it is a failed call like any other."""
    box, recorder = box_of(tape_of(tmp_path / "t.yaml", "none"), Search(), on_miss="tool_error")
    missed = call(box, q="x")
    assert missed.error is not None
    assert missed.error.type == "not_recorded"
    assert recorder.calls[0].tape == "miss"


def test_new_episodes_sends_only_what_is_new(tmp_path: Path) -> None:
    """What is known is played, the rest is recorded beside it."""
    record(tmp_path / "t.yaml")
    library, search = Library(tmp_path), Search()
    tape = tape_of(tmp_path / "t.yaml", "new_episodes", library)
    box, recorder = box_of(tape, search)
    call(box, q="서울")
    call(box, q="부산")
    library.save()

    assert [made.tape for made in recorder.calls] == ["hit", "live"]
    assert (search.reached, tape.live, tape.hits, tape.recorded) == (1, True, 1, 1)
    again, _ = box_of(tape_of(tmp_path / "t.yaml", "none"), Search())
    assert call(again, q="부산").value["hits"] == ["부산"]


def test_tools_of_the_workspace_are_never_taped(tmp_path: Path) -> None:
    """Only tools that ask the outside world are played."""
    search, tape = Search(), tape_of(tmp_path / "t.yaml", "none")
    box, recorder = box_of(tape, search)
    assert call(box, "local", q="x").value["hits"] == ["x"]
    assert (search.reached, recorder.calls[0].tape, tape.hits, tape.misses) == (1, "none", 0, 0)


def test_calls_of_which_no_request_can_be_made_are_the_agents_mistake(tmp_path: Path) -> None:
    """Nor is another tool's recording read as such a call: its path holds none of the arguments."""
    request = {"url": "https://a.b/of/{word}/all"}
    parameters = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    declared = {"name": "t", "description": "d", "parameters": parameters, "request": request}
    library = Library(tmp_path)
    elsewhere = Request("GET", "https://a.b/elsewhere")
    tape_of(tmp_path / "t.yaml", "once", library).own.record(elsewhere, Response(200, "OK", body="{}"))
    library.save()
    box = ToolBox(Recorder(lambda: 0.0), tape=tape_of(tmp_path / "t.yaml", "none"))
    box.offer(http_tool(spec_of(ToolDeclaration, declared)))

    up = call(box, "t", word="..")
    assert up.error is not None
    assert up.error.type == "bad_arguments"
    with pytest.raises(CassetteMiss, match="t\\(word='a'\\)"):
        call(box, "t", word="a")


def test_a_provider_that_could_not_be_reached_cannot_be_reached_in_a_replay(tmp_path: Path) -> None:
    """What the agent was told of it stands in the recording as any other result does."""
    declared = {"name": "t", "description": "d", "request": {"url": "http://127.0.0.1:9/"}}
    library = Library(tmp_path)
    results = []
    modes: tuple[RecordMode, ...] = ("once", "none")
    for mode in modes:
        box = ToolBox(Recorder(lambda: 0.0), tape=tape_of(tmp_path / "t.yaml", mode, library))
        box.offer(http_tool(spec_of(ToolDeclaration, declared)))
        results.append(call(box, "t").error)
        library.save()
        library = Library(tmp_path)

    assert results[0] == results[1]
    assert results[0] is not None
    assert results[0].type == "unreachable"


def test_no_recording_is_replaced_where_no_provider_could_be_reached(tmp_path: Path) -> None:
    """Without a network, recording everything again would leave nothing but failures."""
    declared = {"name": "t", "description": "d", "request": {"url": "http://127.0.0.1:9/"}}
    file = tmp_path / "t.yaml"
    tool_tape = tape_of(file, "once", library := Library(tmp_path))
    tool_tape.own.record(tool_request("t", {}), tool_response("sunny"))
    library.save()
    before = file.read_bytes()
    os.utime(file, (1, 1))  # recorded by an earlier run

    box = ToolBox(Recorder(lambda: 0.0), tape=tape_of(file, "all", library := Library(tmp_path)))
    box.offer(http_tool(spec_of(ToolDeclaration, declared)))
    error = call(box, "t").error

    assert error is not None
    assert error.type == "unreachable"
    assert library.save() == ()
    assert file.read_bytes() == before
