"""Which decision of a trial went wrong first, as far as anything recorded can tell.

What is sure comes before what is likely: a call that holds what a failed check found, or that failed for
good; then a call that never came, with what a failed check expected; then where the trial leaves the way of
one that passed; then what it changed otherwise than the reference solution, which is one way of many, or
called otherwise; then the answer that a failed check quotes; then a limit that was reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.loop.feedback.content import FirstWrong
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.file_changes import FileChange
from pytest_agenteval.reports.trial_view import CallView, TrialView
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import canonical_json, compact_json, jsonable

MOST_ARGS, MOST_ARGS_BESIDE = 200, 100
"""Characters of a call's arguments: in the list of calls, and where the list stands beside."""

MOST_TOOL = 80
REFERENCE = "the reference solution, one way of many,"

SHORTEST_LINE = 4
"""Characters from which on a line that came into a file is known again in a call."""

_EARLIER_RESULT = re.compile(r"\$\d")
"""How an argument of a reference solution refers to what an earlier call gave."""

MOST_SIDE, MOST_CLAIM = 120, 160
SHORTEST, SHORTEST_PART = 4, 6
"""Characters from which on a text that a check found is known again: whole, and as a part of another."""

_WORDS = re.compile(r"(?:yes|no|none|never|nothing|no such file|no calls?|once|true|false|[\d.,\s]+)$", re.I)
"""What checks find that names no call."""

_LIST = re.compile(r",\s|\s\|\s")
"""What stands between the parts of a list that a check found."""


class ComparedCall(FrozenValue, frozen=True):
    """A call by its tool and arguments; ``sent`` is how they are shown."""

    tool: str
    args: Any
    sent: str

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Any] | str) -> ComparedCall:
        """Make one of a call's arguments, or of the text that stood in their place."""
        if isinstance(args, str):
            return cls(tool, args, args)
        return cls(tool, jsonable(args), compact_json(jsonable(args)))

    def text(self, most: int = MOST_ARGS) -> str:
        """Write the call on one line, its arguments cut."""
        return f"{one_line(self.tool, MOST_TOOL)}({one_line(self.sent, most)})"

    def fits(self, other: ComparedCall) -> bool:
        """Whether both are one call, as far as can be known before earlier calls give what ``other`` uses."""
        return self.tool == other.tool and _arguments_fit(self.args, other.args)

    def likeness(self, other: ComparedCall) -> tuple[bool, int]:
        """Give how much another call is like this one: by its tool, then by arguments of the same value."""
        if not (isinstance(self.args, Mapping) and isinstance(other.args, Mapping)):
            return self.tool == other.tool, 0
        return self.tool == other.tool, len([k for k, v in self.args.items() if other.args.get(k) == v])


def _arguments_fit(own: Any, other: Any) -> bool:
    if isinstance(other, str) and _EARLIER_RESULT.search(other):
        return True
    if isinstance(own, Mapping) and isinstance(other, Mapping):
        return own.keys() == other.keys() and all(_arguments_fit(own[key], other[key]) for key in own)
    if isinstance(own, list | tuple) and isinstance(other, list | tuple):
        return len(own) == len(other) and all(map(_arguments_fit, own, other))
    return canonical_json(own) == canonical_json(other)


def agent_calls(view: TrialView) -> list[CallView]:
    """Give the calls that the agent decided on, in order."""
    calls = (call for message in view.messages if not message.seeded for call in message.calls)
    return [call for call in calls if call.by == "agent"]


def compared_call(call: CallView) -> ComparedCall:
    """Give a call as it is compared."""
    return ComparedCall.of(call.tool, call.raw_args or call.args)


def compared_calls(view: TrialView) -> list[ComparedCall]:
    """Give the agent's calls as they are compared."""
    return [compared_call(call) for call in agent_calls(view)]


def reference_calls(task: Task | None) -> list[ComparedCall]:
    """Give the calls of a task's reference solution; none where there is no such solution."""
    solution = task.reference_solution if task else None
    turns = solution.turns if solution else ()
    return [ComparedCall.of(call.tool, call.args) for turn in turns for call in turn.calls]


def changing_tools(views: Iterable[TrialView]) -> frozenset[str]:
    """Give the tools of which a call holds a line that came into a file of the workspace."""
    return frozenset(
        call.tool for view in views for call in agent_calls(view) if wrote_line(call, added_lines(view.files))
    )


def added_lines(files: Iterable[FileChange]) -> frozenset[str]:
    """Give the lines that came into files."""
    rows = (row for file in files for hunk in file.hunks for row in hunk.rows)
    added = ((new or "").strip() for tag, _, new in rows if tag in "~+")
    return frozenset(line for line in added if len(line) >= SHORTEST_LINE)


def wrote_line(call: CallView, lines: Collection[str]) -> bool:
    """Whether a call that worked holds one of these lines."""
    texts = "\n".join(argument_texts(call.args)) if call.error is None else ""
    return any(line in texts for line in lines)


def argument_texts(value: Any) -> Iterator[str]:
    """Give every text within arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in argument_texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in argument_texts(part))


def parting_from_trial(view: TrialView, passing: TrialView) -> FirstWrong | None:
    """Say where the calls leave those of a trial that passed, by their tools first, as arguments differ."""
    own, other = compared_calls(view), compared_calls(passing)
    if not other or own == other:
        return None
    tools, others = [each.tool for each in own], [each.tool for each in other]
    # Other arguments matter only where the tools are the same.
    at = _first_difference(tools, others) if tools != others else _first_difference(own, other)
    here = _place_text(own, at, at)
    there = f"{other[at].text()} in its place" if at < len(other) else "no further call"
    name = f"repetition {passing.repetition} of the same task, which passed,"
    return FirstWrong("passing trial", f"{here}; {name} has {there}", at + 1)


def _first_difference(own: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(own, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(own), len(other)))


def _place_text(own: Sequence[ComparedCall], at: int, calls: int) -> str:
    if at < len(own):
        return f"call {at + 1} is {own[at].text(MOST_ARGS_BESIDE)}"
    return f"after call {calls} no other came and the trial ended" if calls else "no call was made"


def parting_from_reference(
    view: TrialView, reference: Sequence[ComparedCall], changing: Collection[str]
) -> FirstWrong | None:
    """Say which call the reference solution does not make, or which of its calls the trial lacks.

    Calls of tools that change the workspace come first: how an agent looks about is its own matter. The
    order counts only where both make the same calls.
    """
    own = list(enumerate(compared_calls(view), start=1))
    changes = [(number, each) for number, each in own if each.tool in changing]
    others = [each for each in reference if each.tool in changing]
    if changes and others and (wrong := _unlike_call(changes, others, len(own))):
        return wrong
    return (
        (_unlike_call(own, reference, len(own)) or _call_out_of_order(own, reference)) if reference else None
    )


def _unlike_call(
    own: Sequence[tuple[int, ComparedCall]], other: Sequence[ComparedCall], calls: int
) -> FirstWrong | None:
    missing, more = list(other), []
    for number, each in own:
        same = next((at for at, there in enumerate(missing) if each.fits(there)), None)
        if same is None:
            more.append((number, each))
        else:
            # Each call of the reference stands for one call of the trial.
            missing.pop(same)
    if more:
        number, first = more[0]
        there = max(missing, key=first.likeness, default=None)
        instead = f"{there.text()} in its place" if there else "no such call"
        here = f"call {number} is {first.text(MOST_ARGS_BESIDE)}"
        return FirstWrong("reference", f"{here}; {REFERENCE} has {instead}", number)
    if missing:
        ended = f"the trial ended after call {calls}" if calls else "no call was made"
        return FirstWrong("reference", f"{ended}; {REFERENCE} has {missing[0].text()} too")
    return None


def _call_out_of_order(
    own: Sequence[tuple[int, ComparedCall]], other: Sequence[ComparedCall]
) -> FirstWrong | None:
    for (number, each), there in zip(own, other, strict=False):
        if not each.fits(there):
            here = f"call {number} is {each.text(MOST_ARGS_BESIDE)}"
            return FirstWrong("reference", f"{here}; {REFERENCE} has {there.text()} first", number)
    return None


def first_wrong(
    view: TrialView,
    passing: TrialView | None,
    task: Task | None,
    changing: Collection[str] = (),
) -> FirstWrong:
    """Name the first decision that went wrong and what tells so; of ``passing``, a trial of the same task.

    ``changing`` are the tools that are known to change the workspace.
    """
    reference = reference_calls(task)
    ways: tuple[Callable[[], FirstWrong | None], ...] = (
        lambda: _certain_call(view, reference),
        lambda: _missing_call(view, reference, changing),
        lambda: parting_from_trial(view, passing) if passing else None,
        lambda: parting_from_reference(view, reference, changing),
        lambda: _quoted_answer(view),
        lambda: (
            FirstWrong("limit", f"a limit was reached: {one_line(view.limit, 80)}") if view.limit else None
        ),
    )
    unknown = "nothing recorded tells which decision it was: read the failed checks beside the calls"
    return next((wrong for way in ways if (wrong := way())), FirstWrong("nothing", unknown))


def _certain_call(view: TrialView, reference: Sequence[ComparedCall]) -> FirstWrong | None:
    """Give the first call that failed for good, or that holds what a failed check found."""
    calls = agent_calls(view)
    # Reversed, so that of several findings at one call the first one stays.
    blamed = {
        number: finding
        for finding in reversed(list(missed_checks(view)))
        if not quotes(view.answer, finding[1].found)
        and (number := _first_call_with(view, calls, finding[1], reference))
    }
    for number, call in enumerate(calls, start=1):
        later = calls[number:]
        worked_later = any(each.tool == call.tool and each.error is None and each.executed for each in later)
        if call.error is not None and not worked_later:
            why = one_line(call.failure, MOST_SIDE)
            following = f"next came {_call_text(later[0])}" if later else "no call came after it"
            same = [each for each in reference if each.tool == call.tool] or reference
            text = (
                f"call {number}, {_call_text(call)}, failed ({why}) and never worked later; {following}"
                + (f"; {REFERENCE} has {same[0].text()}" if same else "")
            )
            return FirstWrong("tool error", text, number)
        if number in blamed:
            return FirstWrong("check", _check_text(number, call, *blamed[number]), number)
    return None


def _first_call_with(
    view: TrialView, calls: Sequence[CallView], check: Check, reference: Sequence[ComparedCall]
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
    # What a check finds in a changed file comes from the call that wrote it, not from one that read it.
    lines = added_lines(file for file in view.files if file.path.endswith(found))
    number, call = next(
        ((number, call) for number, call in holding if wrote_line(call, lines)),
        next(iter(holding), (None, None)),
    )
    is_right = call and any(
        each.tool == call.tool and _arguments_hold(each.args, found) for each in reference
    )
    return None if is_right else number


def _missing_call(
    view: TrialView, reference: Sequence[ComparedCall], changing: Collection[str]
) -> FirstWrong | None:
    """Give the call of the reference solution with what a failed check expected, where none had that."""
    calls = agent_calls(view)
    for grader, check in missed_checks(view):
        expected = _unquoted(check.expected)
        if len(expected) < SHORTEST_PART or _WORDS.match(expected) or quotes(view.answer, check.found):
            continue
        having = [each for each in reference if _arguments_hold(each.args, expected)]
        if having and calls and not any(_arguments_hold(call.args, expected) for call in calls):
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


def _call_text(call: CallView) -> str:
    return compared_call(call).text(MOST_ARGS_BESIDE)


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
    leaves = [leaf for leaf in map(str.strip, argument_texts(args)) if not _WORDS.match(leaf)]
    return bool(parts) and any(
        leaf in parts
        or (len(found) >= SHORTEST_PART and found in leaf)
        or (len(leaf) >= max(SHORTEST_PART, len(found) / 2) and leaf in found)
        for leaf in leaves
    )


def _arguments_hold(args: Any, text: str) -> bool:
    return len(text) >= SHORTEST and any(text in leaf for leaf in argument_texts(args))


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
