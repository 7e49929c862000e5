"""Which calls an injected failure hit, also where what came back looks like a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.benchmarks.ko_agentbench.graders.payloads import valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.same_calls import equal_calls
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.graders.matching.equality import same


def first_hit(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Give the place of the first call that the failure hit; -1 for none."""
    return next((at for at in _places(task, calls) if is_hit(task, calls, at)), -1)


def is_hit(task: KoTask, calls: Sequence[KoCall], at: int) -> bool:
    """Whether the failure hit a call of the broken tool.

    An error says so itself. Half a result (``partial``) is hit whatever it holds, a cut one (``malformed``)
    is text, and an old one (``stale``) is what was given for other arguments before.
    """
    call = calls[at]
    if not valid(call):
        return True
    kind = (task.error_injection or {}).get("error_type")
    if kind == "malformed":
        return isinstance(call.result, str)
    return kind == "partial" or (kind == "stale" and _is_old(call, calls[:at]))


def mended(task: KoTask, trace: KoTrace) -> bool:
    """Whether the broken tool worked all the same: it never failed, or did when it was tried again."""
    calls = trace.own
    hit = first_hit(task, calls)
    return any(works_again(task, calls, at, hit) for at in range(len(calls)))


def works_again(task: KoTask, calls: Sequence[KoCall], at: int, hit: int) -> bool:
    """Whether a call is one of the broken tool, made in knowledge of the failure, that it did not hit."""
    if calls[at].tool != task.injected_tool or is_hit(task, calls, at):
        return False
    return hit < 0 or (at > hit and not at_once(calls[at], calls[hit]))


def at_once(call: KoCall, other: KoCall) -> bool:
    """Whether two calls were made in one reply: neither knew what came of the other."""
    return call.step is not None and call.step == other.step


def _places(task: KoTask, calls: Sequence[KoCall]) -> Iterator[int]:
    return (at for at, call in enumerate(calls) if call.tool == task.injected_tool)


def _is_old(call: KoCall, earlier: Sequence[KoCall]) -> bool:
    return any(
        one.tool == call.tool
        and same(one.result, call.result)
        and not equal_calls((one.tool, one.args), (call.tool, call.args))
        for one in earlier
    )
