"""A trial's calls beside those of another way to do its task, and where they part."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.loop.feedback.content import FirstWrong
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


class Decision(FrozenValue, frozen=True):
    """A call by its tool and arguments; ``sent`` is how they are shown."""

    tool: str
    args: Any
    sent: str

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Any] | str) -> Decision:
        """Make one of a call's arguments, or of the text that stood in their place."""
        if isinstance(args, str):
            return cls(tool, args, args)
        return cls(tool, jsonable(args), compact_json(jsonable(args)))

    def text(self, most: int = MOST_ARGS) -> str:
        """Write the call on one line, its arguments cut."""
        return f"{one_line(self.tool, MOST_TOOL)}({one_line(self.sent, most)})"

    def fits(self, other: Decision) -> bool:
        """Whether both are one call, as far as can be known before earlier calls give what ``other`` uses."""
        return self.tool == other.tool and _fit(self.args, other.args)

    def likeness(self, other: Decision) -> tuple[bool, int]:
        """Give how much another call is like this one: by its tool, then by arguments of the same value."""
        if not (isinstance(self.args, Mapping) and isinstance(other.args, Mapping)):
            return self.tool == other.tool, 0
        return self.tool == other.tool, len([k for k, v in self.args.items() if other.args.get(k) == v])


def _fit(own: Any, other: Any) -> bool:
    if isinstance(other, str) and _EARLIER_RESULT.search(other):
        return True
    if isinstance(own, Mapping) and isinstance(other, Mapping):
        return own.keys() == other.keys() and all(_fit(own[key], other[key]) for key in own)
    if isinstance(own, list | tuple) and isinstance(other, list | tuple):
        return len(own) == len(other) and all(map(_fit, own, other))
    return canonical_json(own) == canonical_json(other)


def agent_calls(view: TrialView) -> list[CallView]:
    """Give the calls that the agent decided on, in order."""
    calls = (call for message in view.messages if not message.seeded for call in message.calls)
    return [call for call in calls if call.by == "agent"]


def decision_of(call: CallView) -> Decision:
    """Give a call as it is compared."""
    return Decision.of(call.tool, call.raw_args or call.args)


def decisions_of(view: TrialView) -> list[Decision]:
    """Give the agent's calls as they are compared."""
    return [decision_of(call) for call in agent_calls(view)]


def reference_decisions(task: Task | None) -> list[Decision]:
    """Give the calls of a task's reference solution; none where there is no such solution."""
    solution = task.reference_solution if task else None
    turns = solution.turns if solution else ()
    return [Decision.of(call.tool, call.args) for turn in turns for call in turn.calls]


def changing_tools(views: Iterable[TrialView]) -> frozenset[str]:
    """Give the tools of which a call holds a line that came into a file of the workspace."""
    return frozenset(
        call.tool for view in views for call in agent_calls(view) if wrote(call, added_lines(view.files))
    )


def added_lines(files: Iterable[FileChange]) -> frozenset[str]:
    """Give the lines that came into files."""
    rows = (row for file in files for hunk in file.hunks for row in hunk.rows)
    added = ((new or "").strip() for tag, _, new in rows if tag in "~+")
    return frozenset(line for line in added if len(line) >= SHORTEST_LINE)


def wrote(call: CallView, lines: Collection[str]) -> bool:
    """Whether a call that worked holds one of these lines."""
    texts = "\n".join(texts_of(call.args)) if call.error is None else ""
    return any(line in texts for line in lines)


def texts_of(value: Any) -> Iterator[str]:
    """Give every text within arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in texts_of(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in texts_of(part))


def parting_from_trial(view: TrialView, passing: TrialView) -> FirstWrong | None:
    """Say where the calls leave those of a trial that passed, by their tools first, as arguments differ."""
    own, other = decisions_of(view), decisions_of(passing)
    if not other or own == other:
        return None
    tools, others = [each.tool for each in own], [each.tool for each in other]
    at = _first_difference(tools, others) if tools != others else _first_difference(own, other)
    here = _here(own, at, at)
    there = f"{other[at].text()} in its place" if at < len(other) else "no further call"
    name = f"repetition {passing.repetition} of the same task, which passed,"
    return FirstWrong("passing trial", f"{here}; {name} has {there}", at + 1)


def _first_difference(own: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(own, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(own), len(other)))


def _here(own: Sequence[Decision], at: int, calls: int) -> str:
    if at < len(own):
        return f"call {at + 1} is {own[at].text(MOST_ARGS_BESIDE)}"
    return f"after call {calls} no other came and the trial ended" if calls else "no call was made"


def parting_from_reference(
    view: TrialView, reference: Sequence[Decision], changing: Collection[str]
) -> FirstWrong | None:
    """Say which call the reference solution does not make, or which of its calls the trial lacks.

    Calls of tools that change the workspace come first: how an agent looks about is its own matter. The
    order counts only where both make the same calls.
    """
    own = list(enumerate(decisions_of(view), start=1))
    changes = [(number, each) for number, each in own if each.tool in changing]
    others = [each for each in reference if each.tool in changing]
    if changes and others and (wrong := _unlike(changes, others, len(own))):
        return wrong
    return (_unlike(own, reference, len(own)) or _disorder(own, reference)) if reference else None


def _unlike(own: Sequence[tuple[int, Decision]], other: Sequence[Decision], calls: int) -> FirstWrong | None:
    missing, more = list(other), []
    for number, each in own:
        same = next((at for at, there in enumerate(missing) if each.fits(there)), None)
        if same is None:
            more.append((number, each))
        else:
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


def _disorder(own: Sequence[tuple[int, Decision]], other: Sequence[Decision]) -> FirstWrong | None:
    for (number, each), there in zip(own, other, strict=False):
        if not each.fits(there):
            here = f"call {number} is {each.text(MOST_ARGS_BESIDE)}"
            return FirstWrong("reference", f"{here}; {REFERENCE} has {there.text()} first", number)
    return None
