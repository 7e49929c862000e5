"""The tool box: every call is answered or breaks the trial, and all of it is in the transcript."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.agents.loop import MOST_AT_ONCE, call_all
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.errors import ProviderDown, UsageMistake
from pytest_agenteval.tools.tool import Tool, ToolFailed, ToolFunction, ToolResult
from pytest_agenteval.tools.toolbox import ToolBox

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


def box_of(**tools: ToolFunction) -> tuple[ToolBox, Recorder]:
    """Give a box with these tools, each of which wants a place."""
    began = time.monotonic()
    recorder = Recorder(lambda: time.monotonic() - began)
    box = ToolBox(recorder)
    box.offer(*(Tool(ToolSpec(name, f"about {name}", PLACE), function) for name, function in tools.items()))
    return box, recorder


def call(tool: str, id: str = "c", **args: Any) -> ToolCall:
    """Ask for a tool."""
    return ToolCall(id, 1, 0, tool, args)


def error_of(box: ToolBox, tool_call: ToolCall) -> ToolError:
    """Make a call that goes wrong, and give the error that the agent is shown."""
    error = asyncio.run(box.call(tool_call)).error
    assert error is not None
    return error


def test_a_result_reaches_agent_and_transcript() -> None:
    """As JSON would bring it back, with the times of the call."""
    box, recorder = box_of(find=lambda args: {"found": (args["place"], 1), 2: None})
    result = asyncio.run(box.call(call("find", place="Seoul")))
    assert result == ToolResult({"found": ["Seoul", 1], "2": None})
    (written,) = recorder.calls
    assert (written.result, written.error, written.tape) == (result.value, None, "none")
    assert 0 <= written.started <= written.ended


def test_a_tool_is_given_what_the_transcript_can_hold() -> None:
    """An agent of one's own may make a call whose arguments hold themselves."""
    seen: list[Any] = []
    box, recorder = box_of(find=lambda args: seen.append(args["more"]))
    more: dict[str, Any] = {}
    more["more"] = more
    asyncio.run(box.call(call("find", place="Seoul", more=more)))

    assert seen == [recorder.calls[0].args["more"]]
    assert "holds itself" in str(seen)


def test_an_unknown_tool_is_the_agents_mistake() -> None:
    """It is told which tools there are."""
    box, _ = box_of(find=dict, save=dict)
    assert error_of(box, call("fnid")) == ToolError(
        "unknown_tool", "there is no tool 'fnid'; the tools are: find, save"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [({}, "'place' is a required property"), ({"place": 7}, "place: 7 is not of type 'string'")],
)
def test_arguments_are_checked_before_the_tool_is_called(args: Mapping[str, Any], message: str) -> None:
    """The agent is told in the schema's words, and the tool never learns of it."""
    reached: list[object] = []
    box, _ = box_of(find=reached.append)
    assert error_of(box, call("find", **args)) == ToolError("bad_arguments", message)
    assert reached == []


def test_arguments_that_are_no_json_object_are_the_agents_mistake() -> None:
    """The text is kept in the transcript as it was sent."""
    box, recorder = box_of(find=dict)
    asked = ToolCall("c", 1, 0, "find", {}, raw_args="{place: Seoul")
    assert error_of(box, asked) == ToolError("bad_arguments", "the arguments are not a JSON object")
    assert recorder.calls[0].raw_args == "{place: Seoul"


def failing(raised: BaseException) -> ToolFunction:
    """Make a tool that raises."""

    def fail(args: Mapping[str, Any]) -> Any:
        raise raised

    return fail


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ToolFailed("no such place", "not_found"), ToolError("not_found", "no such place")),
        (ValueError("oops"), ToolError("ValueError", "oops")),
        (SystemExit("bye"), ToolError("SystemExit", "bye")),
        (StopIteration(), ToolError("RuntimeError", "the function raised StopIteration")),
        (GeneratorExit(), ToolError("RuntimeError", "the function raised GeneratorExit")),
        (asyncio.CancelledError(), ToolError("RuntimeError", "the function raised CancelledError")),
    ],
)
def test_whatever_a_tool_raises_the_agent_is_told(raised: BaseException, error: ToolError) -> None:
    """As in production, where the agent has to cope; the trial goes on."""
    box, recorder = box_of(find=failing(raised))
    assert error_of(box, call("find", place="Seoul")) == error
    assert recorder.calls[0].error == error


def test_what_is_not_the_agents_doing_breaks_the_trial() -> None:
    """It is raised, and remembered even where the agent swallows it; the call is in the transcript."""
    down = ProviderDown("the map service is down")
    box, recorder = box_of(find=failing(down))
    with pytest.raises(ProviderDown):
        asyncio.run(box.call(call("find", place="Seoul")))
    assert recorder.broken is down
    assert recorder.calls[0].error == ToolError("not_finished", "the call did not end")


def test_plain_tools_run_in_threads_and_async_ones_on_the_loop() -> None:
    """A tool that waits holds up nobody."""

    def plain(args: Mapping[str, Any]) -> str:
        return threading.current_thread().name

    async def awaited(args: Mapping[str, Any]) -> str:
        return threading.current_thread().name

    box, _ = box_of(plain=plain, awaited=awaited)
    here = threading.current_thread().name
    assert asyncio.run(box.call(call("plain", place="x"))).value != here
    assert asyncio.run(box.call(call("awaited", place="x"))).value == here


class Context:
    """As much of an agent's context as making calls needs."""

    def __init__(self, box: ToolBox, recorder: Recorder) -> None:
        self.tools, self.transcript = box, recorder


def reply(*calls: ToolCall) -> Reply:
    """Give a model's reply that asks for these calls."""
    return Reply("", calls)


def test_calls_of_one_reply_overlap_and_are_answered_in_its_order() -> None:
    """Each of three goes on when all have begun; transcript and answers stand as they were asked for."""
    all_have_begun = threading.Barrier(3)

    def sleep(args: Mapping[str, Any]) -> str:
        all_have_begun.wait(timeout=60)
        time.sleep(0.4 if args["place"] == "first" else 0)
        return str(args["place"])

    box, recorder = box_of(sleep=sleep)
    asked = [call("sleep", id=place, place=place) for place in ("first", "second", "third")]
    answered = asyncio.run(call_all(Context(box, recorder), reply(*asked)))  # type: ignore[arg-type]  # enough of it
    assert [result.value for _, result in answered] == ["first", "second", "third"]
    assert [written.id for written in recorder.calls] == ["first", "second", "third"]
    assert [written.index for written in recorder.calls] == [0, 1, 2]


def test_of_many_calls_of_one_reply_only_so_many_run_at_once() -> None:
    """Each may need a thread: the next begins when one has ended."""
    running, most = 0, 0

    async def look(args: Mapping[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    box, recorder = box_of(look=look)
    asked = reply(*(call("look", id=str(number), place=str(number)) for number in range(MOST_AT_ONCE + 8)))
    answered = asyncio.run(call_all(Context(box, recorder), asked))  # type: ignore[arg-type]  # enough of it
    assert (len(answered), most) == (MOST_AT_ONCE + 8, MOST_AT_ONCE)


def test_nothing_goes_on_behind_the_trials_back() -> None:
    """Where one call of a reply breaks the trial, the others have ended too when it does."""
    done: list[object] = []

    async def slow(args: Mapping[str, Any]) -> None:
        await asyncio.sleep(0.05)
        done.append(args)

    box, recorder = box_of(find=failing(ProviderDown("down")), slow=slow)
    asked = reply(call("find", place="x"), call("slow", place="y"))
    with pytest.raises(ProviderDown):
        asyncio.run(call_all(Context(box, recorder), asked))  # type: ignore[arg-type]  # enough of it
    assert done == [{"place": "y"}]
    assert recorder.calls[1].error is None


class Second:
    """Makes the second call of a tool fail."""

    def serializes(self, tool_call: ToolCall) -> bool:
        """Remember nothing."""
        return False

    def short_circuit(self, tool_call: ToolCall, nth: int) -> ToolResult | None:
        """Strike at the second."""
        return ToolResult(error=ToolError("timeout", "struck")) if nth == 2 else None

    def delay(self, tool_call: ToolCall, nth: int) -> float:
        """Take no longer."""
        return 0.0

    def alter_result(self, tool_call: ToolCall, nth: int, result: ToolResult) -> ToolResult:
        """Leave the answer as it is."""
        return result


def test_a_fault_strikes_before_anything_else() -> None:
    """Counted for each tool; the tool is not reached."""
    recorder = Recorder(lambda: 0.0)
    reached: list[object] = []
    box = ToolBox(recorder, faults=[Second()])
    box.offer(Tool(ToolSpec("find"), reached.append), Tool(ToolSpec("save"), dict))
    found = [
        asyncio.run(box.call(call(name, n=n))).error
        for n, name in enumerate(("find", "save", "find", "find"))
    ]
    assert found == [None, None, ToolError("timeout", "struck"), None]
    assert reached == [{"n": 0}, {"n": 3}]


def test_a_tool_that_is_not_registered_is_named() -> None:
    """With the nearest that is."""
    box = ToolBox(Recorder(lambda: 0.0), registered={"search": Tool(ToolSpec("search"), dict)})
    with pytest.raises(UsageMistake, match="unknown tool 'serch'; did you mean 'search'"):
        box.offer_named(["serch"])


def test_a_cancelled_call_is_in_the_transcript_as_not_finished() -> None:
    """A limit that ends the trial leaves the call's place with its times."""

    async def run() -> Recorder:
        box, recorder = box_of(wait=lambda args: asyncio.sleep(30))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await box.call(call("wait", place="x"))
        return recorder

    (written,) = asyncio.run(run()).calls
    assert written.error == ToolError("not_finished", "the call did not end")
    assert written.ended - written.started >= 0.01
