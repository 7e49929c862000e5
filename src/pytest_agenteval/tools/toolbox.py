"""The box through which every tool call goes: faults, argument check, tape, then the tool."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.limits import CrossLoopSemaphore
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec, arguments_problem
from pytest_agenteval.records.transcript import NOT_FINISHED, TOOL_EXCEPTION, TapeStatus, ToolCall
from pytest_agenteval.records.truncation import truncated, truncated_call
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import (
    AgentEvalError,
    CassetteMiss,
    ProblemsFound,
    RequestRefused,
    TrialBroken,
    UsageMistake,
    did_you_mean,
)
from pytest_agenteval.tools.tool import (
    Fault,
    Tool,
    ToolFailed,
    ToolResult,
    failed_result,
    invalid_arguments,
    not_recorded,
)

if TYPE_CHECKING:
    from pytest_agenteval.tools.tool_tape import ToolTape


class ToolBox:
    """One trial's tools.

    Every call is written into the transcript with its times, whatever its result. Without a tape, tools that
    need the network are called directly; ``tape`` may be a function that opens the tape at the first call
    that needs it. If ``on_miss`` is ``tool_error``, a call that was not recorded is a failed call to the
    agent; if it is ``error``, the trial breaks.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        tape: ToolTape | Callable[[], ToolTape] | None = None,
        on_miss: str = "error",
        faults: Sequence[Fault] = (),
        registered: Mapping[str, Tool] | None = None,
    ) -> None:
        self._recorder = recorder
        self._open = tape if callable(tape) else None
        self._opening = threading.Lock()
        self.tape: ToolTape | None = None if callable(tape) else tape
        self._on_miss = on_miss
        self._faults = tuple(faults)
        self._registered = registered or {}
        self._tools: dict[str, Tool] = {}
        self._times: dict[str, int] = {}
        # Not asyncio's lock: calls come from several loops.
        self._turns: dict[str, CrossLoopSemaphore] = defaultdict(partial(CrossLoopSemaphore, 1))
        self.specs: tuple[ToolSpec, ...] = ()

    def offer(self, *tools: Tool) -> None:
        """Put tools into the box, in the order in which the model sees them."""
        self._tools.update({tool.spec.name: tool for tool in tools})
        self.specs = tuple(tool.spec for tool in self._tools.values())

    def offer_named(self, names: Sequence[str]) -> None:
        """Put registered tools into the box by name; raises UsageMistake for any other name."""
        for name in names:
            if name not in self._registered:
                hint = did_you_mean(name, self._registered)
                raise UsageMistake("; ".join(filter(None, (f"unknown tool {name!r}", hint))))
        self.offer(*(self._registered[name] for name in names))

    async def call(self, call: ToolCall) -> ToolResult:
        """Make one call and give its result; an agent's mistake is returned as an error, never raised.

        Raises CassetteMiss, ProviderDown and similar errors, which the agent did not cause.
        """
        call = truncated_call(call)
        place = self._recorder.begin_call(call)
        started = self._recorder.at()
        tape: TapeStatus = "none"
        result = failed_result(NOT_FINISHED, "the call did not end")
        try:
            tape, result = await self._carry_out(call)
            value = truncated(result.value)  # the agent sees what graders will see
            result = result if value is result.value else replace(result, value=value)
            return result
        except (TrialBroken, ProblemsFound) as broken:
            tape = "miss" if isinstance(broken, CassetteMiss) else "none"
            self._recorder.broken = broken
            raise
        finally:
            # A call that a limit cancels is in the transcript, too, as one that did not finish.
            self._recorder.end_call(
                place,
                replace(
                    call,
                    result=result.value,
                    error=result.error,
                    started=started,
                    ended=self._recorder.at(),
                    tape=tape,
                ),
            )

    def open_tape(self) -> ToolTape | None:
        """Give the trial's tape, opened by the first caller; None without a tape."""
        with self._opening:
            if self.tape is None and self._open is not None:
                self.tape = self._open()
            return self.tape

    async def _carry_out(self, call: ToolCall) -> tuple[TapeStatus, ToolResult]:
        if not self._faults:
            return await self._answer(call)
        # Calls may come from several threads, and each needs a number of its own.
        with self._opening:
            nth = self._times[call.tool] = self._times.get(call.tool, 0) + 1
        if any(fault.serializes(call) for fault in self._faults):
            async with self._turns[call.tool]:
                return await self._answer_with_faults(call, nth)
        return await self._answer_with_faults(call, nth)

    async def _answer_with_faults(self, call: ToolCall, nth: int) -> tuple[TapeStatus, ToolResult]:
        for fault in self._faults:
            struck = fault.short_circuit(call, nth)
            if struck is not None:
                return "none", struck
            if fault.delay(call, nth):
                await asyncio.sleep(fault.delay(call, nth))
        tape, result = await self._answer(call)
        for fault in self._faults:
            result = fault.alter_result(call, nth, result)
        return tape, result

    async def _answer(self, call: ToolCall) -> tuple[TapeStatus, ToolResult]:
        tool = self._tools.get(call.tool)
        refused = self._refusal(call, tool)
        if refused is not None or tool is None:
            return "none", refused or ToolResult()
        tape = self.open_tape() if tool.spec.taped else None
        if tape is not None:
            answer = await tape.answer(call, tool, partial(self._call_function, tool, call))
            for miss in answer.misses:
                self._recorder.add_miss(miss)
            if answer.misses and self._on_miss == "error":
                raise answer.misses[0]
            return answer.tape, answer.result
        return "none", await self._call_function(tool, call)

    def _refusal(self, call: ToolCall, tool: Tool | None) -> ToolResult | None:
        if tool is None:
            offered = ", ".join(self._tools) or "none"
            return failed_result("unknown_tool", f"there is no tool {call.tool!r}; the tools are: {offered}")
        if call.raw_args is not None:
            return failed_result("bad_arguments", arguments_problem(call.raw_args))
        wrong = invalid_arguments(tool.spec, call.args) if tool.spec.checked else ""
        return failed_result("bad_arguments", wrong) if wrong else None

    async def _call_function(self, tool: Tool, call: ToolCall) -> ToolResult:
        try:
            # A plain function may block, so it runs in a thread while the calls of other trials continue.
            if tool.spec.blocking and not inspect.iscoroutinefunction(tool.function):
                value = await in_daemon_thread(tool.function, call.args)
            else:
                value = tool.function(call.args)
            # A decorator may hide that a function is async.
            if inspect.isawaitable(value):
                value = await value
            value = truncated(value)
            if value is not None and not isinstance(value, str | bool | int):
                # As JSON would bring it back, so that a recorded answer equals a live one.
                value = json.loads(json.dumps(value, ensure_ascii=False, default=str))
            return ToolResult(value)
        except ToolFailed as failed:
            return failed_result(failed.type, str(failed))
        # These end the trial or the call; the tool did not cause them.
        except (AgentEvalError, asyncio.CancelledError, GeneratorExit):
            raise
        except RequestRefused:  # the scope that refused it reports it
            return not_recorded(call.tool)
        except BaseException as failed:  # a tool may raise anything; the agent sees it, as in production
            frames = traceback.extract_tb(failed.__traceback__)
            # Name the last line in the user's own code, if the traceback holds one.
            others = ("site-packages", str(Path(__file__).parents[1]), str(Path(traceback.__file__).parent))
            own = [frame for frame in frames[1:] if not any(place in frame.filename for place in others)]
            last = (own or frames)[-1]
            place = f"{short_path(Path(last.filename))}:{last.lineno}"
            text = f"the tool {call.tool} raised {type(failed).__name__}: {failed} ({place})"
            self._recorder.event(TOOL_EXCEPTION, text)
            return failed_result(type(failed).__name__, str(failed))
