"""Which decision of a trial went wrong first, as far as anything recorded can tell.

What is sure comes before what is likely: a call that holds what a failed check found, or that failed for
good; then where the trial leaves the way of one that passed; then where it leaves the reference solution,
which is one way of many; then the answer that a failed check quotes; then a limit that was reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.canonical import canonical, compact
from pytest_agenteval.json_form import jsonable
from pytest_agenteval.loop.feedback.content import FirstWrong
from pytest_agenteval.records.grade import Check
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.formatting import one_line
from pytest_agenteval.reports.trial.trial_view import CallView, TrialView
from pytest_agenteval.tasks.spec import Task

MOST_ARGS, MOST_ARGS_BESIDE = 200, 100
"""Characters of a call's arguments: in the list of calls, and where the list stands beside."""

MOST_TOOL = 80
REFERENCE = "the reference solution, one way of many,"

MOST_SIDE, MOST_CLAIM = 120, 160
SHORTEST, SHORTEST_PART = 4, 6
"""Characters from which on a text that a check found is known again: whole, and as a part of another."""

_WORDS = re.compile(r"(?:yes|no|none|never|nothing|no such file|no calls?|once|true|false|[\d.,\s]+)$", re.I)
"""What checks find that names no call."""


class Decision(FrozenValue, frozen=True):
    """A call by its tool and arguments as they are compared, and as they are shown."""

    tool: str
    args: str
    sent: str

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Any] | str) -> Decision:
        """Make one of a call's arguments, or of the text that stood in their place."""
        if isinstance(args, str):
            return cls(tool, args, args)
        return cls(tool, canonical(jsonable(args)), compact(jsonable(args)))

    def text(self, most: int = MOST_ARGS) -> str:
        """Write the call on one line, its arguments cut."""
        return f"{one_line(self.tool, MOST_TOOL)}({one_line(self.sent, most)})"


def agent_calls(view: TrialView) -> list[CallView]:
    """Give the calls that the agent decided on, in order."""
    calls = (call for message in view.messages if not message.seeded for call in message.calls)
    return [call for call in calls if call.by == "agent"]


def decisions_of(view: TrialView) -> list[Decision]:
    """Give the agent's calls as they are compared."""
    return [Decision.of(call.tool, call.raw_args or call.args) for call in agent_calls(view)]


def reference_decisions(task: Task | None) -> list[Decision]:
    """Give the calls of a task's reference solution; none where there is no such solution."""
    solution = task.reference_solution if task else None
    turns = solution.turns if solution else ()
    return [Decision.of(call.tool, call.args) for turn in turns for call in turn.calls]


def first_wrong(view: TrialView, passing: TrialView | None, task: Task | None) -> FirstWrong:
    """Name the first decision that went wrong and what tells so; of ``passing``, a trial of the same task."""
    ways: tuple[Callable[[], FirstWrong | None], ...] = (
        lambda: _sure(view, reference_decisions(task)),
        lambda: _parting(view, decisions_of(passing), passing) if passing else None,
        lambda: _parting(view, reference_decisions(task), None),
        lambda: _quoted_answer(view),
        lambda: (
            FirstWrong("limit", f"a limit was reached: {one_line(view.limit, 80)}") if view.limit else None
        ),
    )
    unknown = "nothing recorded tells which decision it was: read the failed checks beside the calls"
    return next((wrong for way in ways if (wrong := way())), FirstWrong("nothing", unknown))


def _sure(view: TrialView, reference: Sequence[Decision]) -> FirstWrong | None:
    """Give the first call that failed for good, or that holds what a failed check found."""
    calls = agent_calls(view)
    for number, call in enumerate(calls, start=1):
        if call.error is not None and not any(_worked(later, call.tool) for later in calls[number:]):
            text = _failed_text(number, call, calls[number:]) + _instead(call, reference)
            return FirstWrong("tool error", text, number)
        for grader, check in failed_checks(view):
            if not quotes(view.answer, check.found) and _holds_finding(call, check):
                return FirstWrong("check", _check_text(number, call, grader, check), number)
    return None


def failed_checks(view: TrialView) -> Iterator[tuple[str, Check]]:
    """Give each failed check of a grade that was not passed, with its grader."""
    for grade in view.grades:
        if grade.passed is False:
            yield from ((grade.grader, check) for check in grade.checks if not check.passed)


def _worked(call: CallView, tool: str) -> bool:
    return call.tool == tool and call.error is None and call.executed


def _failed_text(number: int, call: CallView, later: Sequence[CallView]) -> str:
    error = call.error
    why = one_line(f"{error.type}: {error.message}" if error else "", MOST_SIDE)
    following = f"next came {_shown(later[0])}" if later else "no call came after it"
    return f"call {number}, {_shown(call)}, failed ({why}) and never worked later; {following}"


def _instead(call: CallView, reference: Sequence[Decision]) -> str:
    """Say how the reference solution calls the tool that failed, or what it calls first."""
    same = [each for each in reference if each.tool == call.tool] or reference
    return f"; {REFERENCE} has {same[0].text()}" if same else ""


def _shown(call: CallView) -> str:
    return Decision.of(call.tool, call.raw_args or call.args).text(MOST_ARGS_BESIDE)


def _check_text(number: int, call: CallView, grader: str, check: Check) -> str:
    claim, found = one_line(check.claim, MOST_CLAIM), one_line(check.found, MOST_SIDE)
    expected = f", expected {one_line(check.expected, MOST_SIDE)}" if check.expected else ""
    return (
        f"call {number}, {_shown(call)}: the first call with what a failed check of "
        f"{one_line(grader, 60)} found ({claim}: found {found}{expected})"
    )


def _holds_finding(call: CallView, check: Check) -> bool:
    """Whether a call that worked has in its arguments what a check found, or the other way round."""
    found = check.found.strip().strip("'\"")
    if call.error is not None or len(found) < SHORTEST or _WORDS.match(found):
        return False
    leaves = [leaf.strip() for leaf in _texts(call.args) if not _WORDS.match(leaf.strip())]
    return any(
        leaf == found
        or (len(found) >= SHORTEST_PART and found in leaf)
        or (len(leaf) >= SHORTEST_PART and leaf in found)
        for leaf in leaves
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _texts(part))


def _parting(view: TrialView, other: Sequence[Decision], passing: TrialView | None) -> FirstWrong | None:
    """Say where the calls leave those of another way, by their tools first: arguments differ easily."""
    own = decisions_of(view)
    if not other or own == other:
        return None
    tools, others = [each.tool for each in own], [each.tool for each in other]
    at = _first_difference(tools, others) if tools != others else _first_difference(own, other)
    is_there = at < len(own)
    here = (
        f"call {at + 1} is {own[at].text(MOST_ARGS_BESIDE)}"
        if is_there
        else f"{_none(at)} and the trial ended"
    )
    there = other[at].text() if at < len(other) else "no further call"
    if passing is not None:
        name = f"repetition {passing.repetition} of the same task, which passed,"
        return FirstWrong("passing trial", f"{here}; {name} has {there} in its place", at + 1)
    return FirstWrong("reference", f"{here}; {REFERENCE} has {there} in its place", at + 1)


def _none(at: int) -> str:
    return f"after call {at} no other came" if at else "no call was made"


def _first_difference(own: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(own, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(own), len(other)))


def _quoted_answer(view: TrialView) -> FirstWrong | None:
    for grader, check in failed_checks(view):
        if quotes(view.answer, check.found):
            claim = one_line(check.claim, MOST_CLAIM)
            return FirstWrong("check", f"the answer, as {one_line(grader, 60)} found it: {claim}")
    return None


def quotes(answer: str, found: str) -> bool:
    """Whether what a check found is the answer, or a part of it."""
    own, part = " ".join(answer.split()), " ".join(found.strip().strip("'\"").rstrip("….").split())
    return len(part) >= SHORTEST and bool(own) and part in own
