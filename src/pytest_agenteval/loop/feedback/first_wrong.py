"""Which decision of a trial went wrong first, as far as anything recorded can tell.

What is sure comes before what is likely: a call that holds what a failed check found, or that failed for
good; then a call that never came, with what a failed check expected; then where the trial leaves the way of
one that passed; then what it changed otherwise than the reference solution, which is one way of many, or
called otherwise; then the answer that a failed check quotes; then a limit that was reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from pytest_agenteval.loop.feedback.content import FirstWrong
from pytest_agenteval.loop.feedback.decisions import (
    MOST_ARGS_BESIDE,
    REFERENCE,
    Decision,
    added_lines,
    agent_calls,
    decision_of,
    parting_from_reference,
    parting_from_trial,
    reference_decisions,
    texts_of,
    wrote,
)
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.reports.trial_view import CallView, TrialView
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.formatting import one_line

MOST_SIDE, MOST_CLAIM = 120, 160
SHORTEST, SHORTEST_PART = 4, 6
"""Characters from which on a text that a check found is known again: whole, and as a part of another."""

_WORDS = re.compile(r"(?:yes|no|none|never|nothing|no such file|no calls?|once|true|false|[\d.,\s]+)$", re.I)
"""What checks find that names no call."""


_LIST = re.compile(r",\s|\s\|\s")
"""What stands between the parts of a list that a check found."""


def first_wrong(
    view: TrialView,
    passing: TrialView | None,
    task: Task | None,
    changing: Collection[str] = (),
) -> FirstWrong:
    """Name the first decision that went wrong and what tells so; of ``passing``, a trial of the same task.

    ``changing`` are the tools that are known to change the workspace.
    """
    reference = reference_decisions(task)
    ways: tuple[Callable[[], FirstWrong | None], ...] = (
        lambda: _sure(view, reference),
        lambda: _never_came(view, reference, changing),
        lambda: parting_from_trial(view, passing) if passing else None,
        lambda: parting_from_reference(view, reference, changing),
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
    blamed = {
        number: finding
        for finding in reversed(list(missed_checks(view)))
        if not quotes(view.answer, finding[1].found)
        and (number := _first_with(view, calls, finding[1], reference))
    }
    for number, call in enumerate(calls, start=1):
        if call.error is not None and not any(_worked(later, call.tool) for later in calls[number:]):
            text = _failed_text(number, call, calls[number:]) + _instead(call, reference)
            return FirstWrong("tool error", text, number)
        if number in blamed:
            return FirstWrong("check", _check_text(number, call, *blamed[number]), number)
    return None


def _first_with(
    view: TrialView, calls: Sequence[CallView], check: Check, reference: Sequence[Decision]
) -> int | None:
    """Give the first call that holds what a check found; of a changed file the call that changed it.

    Reading a file is not what a check of changes found. A call that the reference solution makes with the
    same text is not wrong.
    """
    holding = [
        (number, call)
        for number, call in enumerate(calls, start=1)
        if call.error is None and _holds_finding(call.args, check.found)
    ]
    found = _unquoted(check.found)
    lines = added_lines(file for file in view.files if file.path.endswith(found))
    number, call = next(
        ((number, call) for number, call in holding if wrote(call, lines)), next(iter(holding), (None, None))
    )
    is_right = call and any(each.tool == call.tool and _has(each.args, found) for each in reference)
    return None if is_right else number


def _never_came(
    view: TrialView, reference: Sequence[Decision], changing: Collection[str]
) -> FirstWrong | None:
    """Give the call of the reference solution with what a failed check expected, where none had that."""
    calls = agent_calls(view)
    for grader, check in missed_checks(view):
        expected = _unquoted(check.expected)
        if len(expected) < SHORTEST_PART or _WORDS.match(expected) or quotes(view.answer, check.found):
            continue
        having = [each for each in reference if _has(each.args, expected)]
        if having and calls and not any(_has(call.args, expected) for call in calls):
            there = next((each for each in having if each.tool in changing), having[0])
            claim = one_line(check.claim, MOST_CLAIM)
            text = f"no call with what a failed check of {one_line(grader, 60)} expected (no: {claim})"
            return FirstWrong("check", f"{text}; {REFERENCE} has {there.text()}")
    return None


def missed_checks(view: TrialView) -> Iterator[tuple[str, Check]]:
    """Give each failed check of a grade that was not passed, with its grader."""
    for grade in view.grades:
        if grade.passed is False:
            yield from ((grade.grader, check) for check in failed_checks(grade.checks))


def _worked(call: CallView, tool: str) -> bool:
    return call.tool == tool and call.error is None and call.executed


def _failed_text(number: int, call: CallView, later: Sequence[CallView]) -> str:
    why = one_line(call.failure, MOST_SIDE)
    following = f"next came {_call_text(later[0])}" if later else "no call came after it"
    return f"call {number}, {_call_text(call)}, failed ({why}) and never worked later; {following}"


def _instead(call: CallView, reference: Sequence[Decision]) -> str:
    """Say how the reference solution calls the tool that failed, or what it calls first."""
    same = [each for each in reference if each.tool == call.tool] or reference
    return f"; {REFERENCE} has {same[0].text()}" if same else ""


def _call_text(call: CallView) -> str:
    return decision_of(call).text(MOST_ARGS_BESIDE)


def _check_text(number: int, call: CallView, grader: str, check: Check) -> str:
    claim, found = one_line(check.claim, MOST_CLAIM), one_line(check.found, MOST_SIDE)
    what = f"a failed check of {one_line(grader, 60)} found (no: {claim}; found {found})"
    return f"call {number}, {_call_text(call)}: the first call with what {what}"


def _holds_finding(args: Any, text: str) -> bool:
    """Whether arguments hold what a check found, a part of the list that it found, or most of it."""
    found = _unquoted(text)
    parts = {
        part for part in (found, *_LIST.split(found)) if len(part) >= SHORTEST and not _WORDS.match(part)
    }
    leaves = [leaf for leaf in map(str.strip, texts_of(args)) if not _WORDS.match(leaf)]
    return bool(parts) and any(
        leaf in parts
        or (len(found) >= SHORTEST_PART and found in leaf)
        or (len(leaf) >= max(SHORTEST_PART, len(found) / 2) and leaf in found)
        for leaf in leaves
    )


def _has(args: Any, text: str) -> bool:
    return len(text) >= SHORTEST and any(text in leaf for leaf in texts_of(args))


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def _quoted_answer(view: TrialView) -> FirstWrong | None:
    for grader, check in missed_checks(view):
        if quotes(view.answer, check.found):
            claim = one_line(check.claim, MOST_CLAIM)
            return FirstWrong("check", f"the answer, as {one_line(grader, 60)} found it: no: {claim}")
    return None


def quotes(answer: str, found: str) -> bool:
    """Whether what a check found is the answer, or a part of it."""
    own, part = " ".join(answer.split()), " ".join(found.strip().strip("'\"").rstrip("….").split())
    return len(part) >= SHORTEST and bool(own) and part in own
