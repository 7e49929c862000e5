"""What feedback shows of one trial: lines that can be cut from the end, and which decision went wrong first.

The first wrong decision is found by what is sure, then by what is likely:

1. a call that holds what a failed check found, or that failed for good;
2. a call that never came, with what a failed check expected;
3. where the trial leaves the way of one that passed;
4. where its changes or calls differ from the reference solution, which is one way of many;
5. the answer, where a failed check quotes it;
6. a limit that was reached.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.graders.grader_settings import cut
from pytest_agenteval.loop.feedback.content import FirstWrong, Section, SectionKind, TrialFeedback
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.explanation import failed_checks, needs_text
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import PROMPT_READ
from pytest_agenteval.reports.conversation import CallView, MessageView
from pytest_agenteval.reports.trial_view import FileChange, TrialView
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.formatting import format_figure, one_line, printable
from pytest_agenteval.text.json_values import canonical_json, compact_json, jsonable

# Characters of a call's arguments: in the list of calls, and beside that list.
MOST_ARGS, MOST_ARGS_BESIDE = 200, 100

MOST_TOOL = 80
REFERENCE = "the reference solution, one way of many,"

# A new line of a file is recognized in a call's arguments if it has this many characters.
SHORTEST_LINE = 4

# How an argument of a reference solution refers to the result of an earlier call.
_EARLIER_RESULT = re.compile(r"\$\d")

MOST_SIDE, MOST_CLAIM = 120, 160
# A text that a check found is recognized elsewhere if it has this many characters: as a whole, and as a part
# of another.
SHORTEST, SHORTEST_PART = 4, 6

# Findings of checks that name no call.
_WORDS = re.compile(r"(?:yes|no|none|never|nothing|no such file|no calls?|once|true|false|[\d.,\s]+)$", re.I)

# What separates the items of a list that a check found.
_LIST = re.compile(r",\s|\s\|\s")


class ComparedCall(FrozenValue, frozen=True):
    """A call by its tool and arguments; ``sent`` is how they are shown."""

    tool: str
    args: Any
    sent: str

    @classmethod
    def of(cls, tool: str, args: Mapping[str, Any] | str) -> ComparedCall:
        """Make one from a call's arguments, or from the text that stood in their place."""
        if isinstance(args, str):
            return cls(tool, args, args)
        return cls(tool, jsonable(args), compact_json(jsonable(args)))

    def text(self, most: int = MOST_ARGS) -> str:
        """Write the call on one line, its arguments cut."""
        return f"{one_line(self.tool, MOST_TOOL)}({one_line(self.sent, most)})"

    def fits(self, other: ComparedCall) -> bool:
        """Whether both are the same call; arguments of ``other`` that use an earlier result fit any value."""
        return self.tool == other.tool and _arguments_fit(self.args, other.args)

    def likeness(self, other: ComparedCall) -> tuple[bool, int]:
        """Rank another call by how alike it is: the same tool first, then the number of equal arguments."""
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
    # Seeded calls are of the task, and a provider's own calls are none of the agent's decisions.
    calls = (call for message in view.messages if not message.seeded for call in message.calls)
    return [call for call in calls if call.by == "agent"]


def _compared_call(call: CallView) -> ComparedCall:
    return ComparedCall.of(call.tool, call.raw_args or call.args)


def _compared_calls(view: TrialView) -> list[ComparedCall]:
    return [_compared_call(call) for call in agent_calls(view)]


def reference_calls(task: Task | None) -> list[ComparedCall]:
    solution = task.reference_solution if task else None
    turns = solution.turns if solution else ()
    return [ComparedCall.of(call.tool, call.args) for turn in turns for call in turn.calls]


def changing_tools(views: Iterable[TrialView]) -> frozenset[str]:
    """Give the tools with a call that holds a line which was added to a file of the workspace."""
    calls = ((call, _added_lines(view.files)) for view in views for call in agent_calls(view))
    return frozenset(call.tool for call, lines in calls if _wrote_line(call, lines))


def _added_lines(files: Iterable[FileChange]) -> frozenset[str]:
    rows = (row for file in files for hunk in file.hunks for row in hunk.rows)
    added = ((new or "").strip() for tag, _, new in rows if tag in "~+")
    return frozenset(line for line in added if len(line) >= SHORTEST_LINE)


def _wrote_line(call: CallView, lines: Collection[str]) -> bool:
    """Whether a call that worked holds one of these lines."""
    texts = "\n".join(_argument_texts(call.args)) if call.error is None else ""
    return any(line in texts for line in lines)


def _argument_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _argument_texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _argument_texts(part))


def _parting_from_trial(view: TrialView, passing: TrialView) -> FirstWrong | None:
    """Say where the calls leave those of a trial that passed: by tools first, as arguments often differ."""
    own, other = _compared_calls(view), _compared_calls(passing)
    if not other or own == other:
        return None
    tools, others = [each.tool for each in own], [each.tool for each in other]
    # Other arguments matter only where the tools are the same.
    at = _first_difference(tools, others) if tools != others else _first_difference(own, other)
    here = f"the trial ended after call {at}" if at else "no call was made"
    if at < len(own):
        here = f"call {at + 1} is {own[at].text(MOST_ARGS_BESIDE)}"
    there = f"{other[at].text()} instead" if at < len(other) else "no further call"
    name = f"repetition {passing.repetition} of the same task, which passed,"
    return FirstWrong("passing trial", f"{here}; {name} has {there}", at + 1)


def _first_difference(own: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(own, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(own), len(other)))


def _parting_from_reference(
    view: TrialView, reference: Sequence[ComparedCall], changing: Collection[str]
) -> FirstWrong | None:
    """Name a call that the reference solution does not make, or one of its calls that the trial lacks.

    Calls of tools that change the workspace come first: how an agent looks around is its own matter. The
    order counts only where both make the same calls.
    """
    own = list(enumerate(_compared_calls(view), start=1))
    changes = [(number, each) for number, each in own if each.tool in changing]
    others = [each for each in reference if each.tool in changing]
    if changes and others and (wrong := _unlike_call(changes, others, len(own))):
        return wrong
    if reference and (wrong := _unlike_call(own, reference, len(own))):
        return wrong
    for (number, each), there in zip(own, reference, strict=False):
        if not each.fits(there):
            here = f"call {number} is {each.text(MOST_ARGS_BESIDE)}"
            return FirstWrong("reference", f"{here}; {REFERENCE} has {there.text()} first", number)
    return None


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
        instead = f"{there.text()} instead" if there else "no such call"
        here = f"call {number} is {first.text(MOST_ARGS_BESIDE)}"
        return FirstWrong("reference", f"{here}; {REFERENCE} has {instead}", number)
    if missing:
        ended = f"the trial ended after call {calls}" if calls else "no call was made"
        return FirstWrong("reference", f"{ended}; {REFERENCE} has {missing[0].text()} too")
    return None


def first_wrong(
    view: TrialView, passing: TrialView | None, task: Task | None, changing: Collection[str] = ()
) -> FirstWrong:
    """Name the first decision that went wrong, and what shows it.

    ``passing`` is a trial of the same task that passed. ``changing`` are the tools that are known to change
    the workspace.
    """
    reference = reference_calls(task)
    wrong = (
        _certain_call(view, reference)
        or _missing_call(view, reference, changing)
        or (_parting_from_trial(view, passing) if passing else None)
        or _parting_from_reference(view, reference, changing)
    )
    if wrong:
        return wrong
    for grader, check in _missed_checks(view):
        if quotes(view.answer, check.found):
            claim = one_line(check.claim, MOST_CLAIM)
            return FirstWrong("check", f"the answer, by {one_line(grader, 60)}: not met: {claim}")
    if view.limit:
        return FirstWrong("limit", f"a limit was reached: {one_line(view.limit, 80)}")
    unknown = "the transcript does not show it: compare the failed checks with the calls"
    return FirstWrong("nothing", unknown)


def _certain_call(view: TrialView, reference: Sequence[ComparedCall]) -> FirstWrong | None:
    """Give the first call that failed for good, or that holds what a failed check found."""
    calls = agent_calls(view)
    # Reversed, so that the first of several findings at one call is the one that stays.
    blamed = {
        number: finding
        for finding in reversed(list(_missed_checks(view)))
        # An answer quotes what tools returned: words that it shares with a call blame no call.
        if not quotes(view.answer, finding[1].found)
        and (number := _first_call_with(view, calls, finding[1], reference))
    }
    for number, call in enumerate(calls, start=1):
        later = calls[number:]
        # A tool that worked later did not fail for good.
        worked_later = any(each.tool == call.tool and each.error is None and each.executed for each in later)
        if call.error is not None and not worked_later:
            why = one_line(call.failure, MOST_SIDE)
            following = f"next came {_compared_call_text(later[0])}" if later else "no call came after it"
            same = [each for each in reference if each.tool == call.tool] or reference
            beside = f"; {REFERENCE} has {same[0].text()}" if same else ""
            text = f"call {number}, {_compared_call_text(call)}, failed ({why}) and did not succeed later"
            return FirstWrong("tool error", f"{text}; {following}{beside}", number)
        if number in blamed:
            grader, check = blamed[number]
            claim, found = one_line(check.claim, MOST_CLAIM), one_line(check.found, MOST_SIDE)
            what = f"a failed check of {one_line(grader, 60)} found (not met: {claim}; found {found})"
            text = f"call {number}, {_compared_call_text(call)}: the first call with the value that {what}"
            return FirstWrong("check", text, number)
    return None


def _first_call_with(
    view: TrialView, calls: Sequence[CallView], check: Check, reference: Sequence[ComparedCall]
) -> int | None:
    """Give the number of the first call that holds what a check found; None where none is to blame.

    For a changed file it is the call that changed it. A call that the reference solution makes with the same
    text is not wrong.
    """
    holding = [
        (number, call)
        for number, call in enumerate(calls, start=1)
        if call.error is None and _holds_finding(call.args, check.found)
    ]
    found = _unquoted(check.found)
    # What a check finds in a changed file comes from the call that wrote it, not from one that read it.
    lines = _added_lines(file for file in view.files if file.path.endswith(found))
    writing = [(number, call) for number, call in holding if _wrote_line(call, lines)]
    for number, call in (writing or holding)[:1]:
        if not any(each.tool == call.tool and _arguments_hold(each.args, found) for each in reference):
            return number
    return None


def _missing_call(
    view: TrialView, reference: Sequence[ComparedCall], changing: Collection[str]
) -> FirstWrong | None:
    """Give the call of the reference solution with what a failed check expected, where no call had it."""
    calls = agent_calls(view)
    for grader, check in _missed_checks(view):
        expected = _unquoted(check.expected)
        # Short texts and plain numbers stand in calls by chance.
        if len(expected) < SHORTEST_PART or _WORDS.match(expected) or quotes(view.answer, check.found):
            continue
        having = [each for each in reference if _arguments_hold(each.args, expected)]
        if having and calls and not any(_arguments_hold(call.args, expected) for call in calls):
            there = next((each for each in having if each.tool in changing), having[0])
            claim = one_line(check.claim, MOST_CLAIM)
            text = f"no call has the value that {one_line(grader, 60)} expected (not met: {claim})"
            return FirstWrong("check", f"{text}; {REFERENCE} has {there.text()}")
    return None


def _missed_checks(view: TrialView) -> Iterator[tuple[str, Check]]:
    for grade in view.grades:
        if grade.passed is False:
            yield from ((grade.grader, check) for check in failed_checks(grade.checks))


def _compared_call_text(call: CallView) -> str:
    return _compared_call(call).text(MOST_ARGS_BESIDE)


def _holds_finding(args: Any, text: str) -> bool:
    """Whether arguments hold what a check found, a part of the list that it found, or most of it."""
    found = _unquoted(text)
    every = (found, *_LIST.split(found))
    parts = {part for part in every if len(part) >= SHORTEST and not _WORDS.match(part)}
    leaves = [leaf for leaf in map(str.strip, _argument_texts(args)) if not _WORDS.match(leaf)]
    return bool(parts) and any(
        leaf in parts
        or (len(found) >= SHORTEST_PART and found in leaf)
        or (len(leaf) >= max(SHORTEST_PART, len(found) / 2) and leaf in found)
        for leaf in leaves
    )


def _arguments_hold(args: Any, text: str) -> bool:
    return len(text) >= SHORTEST and any(text in leaf for leaf in _argument_texts(args))


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def quotes(answer: str, found: str) -> bool:
    """Whether what a check found is the answer, or a part of it."""
    # Checks quote answers and cut them with an ellipsis.
    own, part = " ".join(answer.split()), " ".join(found.strip().strip("'\"").rstrip("….").split())
    return len(part) >= SHORTEST and bool(own) and part in own


MOST_RESULT, MOST_CHECK_SIDE, MOST_CHECK_CLAIM, MOST_REASON = 120, 200, 200, 600
MOST_LINE = 400
# Lines of a section before anything is cut for lack of room.
MOST_LINES = 60

# Sections of a trial that passed, which needs no explanation.
OF_PASSING: tuple[SectionKind, ...] = ("input", "calls", "files", "answer")

# How graders begin to say that they expected a pattern.
PATTERN = "a match of "

MOST_MARK = 80
# How many unchanged lines of a file are shown around changed ones.
UNCHANGED = 1


def trial_feedback(
    view: TrialView,
    task: Task | None,
    *,
    failed: bool,
    comment: str = "",
    passing: TrialView | None = None,
    changing: Collection[str] = (),
) -> TrialFeedback:
    """Give what there is to look at of a trial; ``passing`` is a trial of its task that passed.

    ``comment`` is a person's, ``changing`` are the tools that are known to change the workspace.
    """
    sections: dict[SectionKind, Iterator[str]] = {
        "input": _input_lines(view, task),
        "comment": _text_lines(comment),
        "checks": _check_lines(view),
        "reasons": _reason_lines(view),
        "calls": (f"{number}. {_call_text(call)}" for number, call in enumerate(agent_calls(view), start=1)),
        "reference": _reference_lines(task),
        "files": _file_lines(view),
        "answer": _text_lines(view.answer),
    }
    shown = {kind: list(lines) for kind, lines in sections.items() if failed or kind in OF_PASSING}
    return TrialFeedback(
        name=view.name,
        task=task.description if task else "",
        ending=view.ending,
        score=view.score,
        first_wrong=first_wrong(view, passing, task, changing) if failed else None,
        prompts_read=tuple(_prompts_read(view)),
        sections=tuple(
            Section(kind, tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES))
            for kind, lines in shown.items()
            if lines
        ),
    )


def _prompts_read(view: TrialView) -> Iterator[str]:
    """Name the prompts that the agent read, each with the first reply for which it was read."""
    turns: dict[str, int] = {}
    for event in view.events:
        if event.kind == PROMPT_READ:
            turn = event.details.get("turn")
            turns.setdefault(event.text, turn if isinstance(turn, int) else 1)
    for name, turn in turns.items():
        yield one_line(name, MOST_MARK) + (f" (from reply {turn} on)" if turn > 1 else "")


def _text_lines(text: str) -> Iterator[str]:
    """Give the lines of a text that are not blank; long ones are cut."""
    for line in text.splitlines():
        if line.strip():
            yield cut(printable(line.expandtabs(4)).rstrip(), MOST_LINE)


def _input_lines(view: TrialView, task: Task | None) -> Iterator[str]:
    """Give what the agent was given: the conversation before its first reply, then later user turns."""
    messages = list(_input_messages(view.messages))
    if not messages:
        # An agent of the user's own may record no messages; then the task's input is the next best.
        for name, value in (task.input_map if task else {}).items():
            text = value if isinstance(value, str) else compact_json(jsonable(value))
            yield one_line(f"{name}: {text}", MOST_LINE)
        return
    for message in messages:
        lines = list(_text_lines(message.content))
        if len(messages) > 1:
            lines = [f"{message.role}: {lines[0] if lines else ''}".rstrip(), *lines[1:]]
        yield from lines
        for call in message.calls:
            yield f"  {_call_text(call)}"


def _input_messages(messages: Iterable[MessageView]) -> Iterator[MessageView]:
    """Give the messages to the agent: no system prompt, no reply of its own, nothing twice."""
    seen: set[tuple[str, str]] = set()
    for message in messages:
        is_input = message.seeded or message.role == "user"
        mark = (message.role, message.content)
        if is_input and message.role not in ("system", "tool") and (message.calls or mark not in seen):
            seen.add(mark)
            yield message


def _check_lines(view: TrialView) -> Iterator[str]:
    """Give each failed check with both sides; for a grade without checks, the grader's rationale."""
    for grade in view.grades:
        if grade.passed is not False:
            continue
        failed = failed_checks(grade.checks)
        needs = needs_text(grade.threshold)
        head = f"{one_line(grade.grader, MOST_MARK)} {format_figure(grade.score)}{needs}"
        if not failed and not grade.votes:
            yield f"{head}: {one_line(grade.rationale, MOST_CHECK_SIDE) or 'no reason given'}"
        before = ""
        for check in failed:
            found = "found as above" if before and check.found == before else _side("found", check.found)
            pattern = check.expected.removeprefix(PATTERN)
            # A pattern that stands in the claim already is not repeated.
            claim_has_it = pattern != check.expected and pattern in check.claim
            expected = "" if claim_has_it else _side("expected", check.expected)
            before = check.found
            claim = f"{head}: {one_line(check.claim, MOST_CHECK_CLAIM)}"
            yield " | ".join(filter(None, (claim, expected, found)))


def _side(word: str, text: str) -> str:
    return f"{word} {one_line(text, MOST_CHECK_SIDE)}" if text else ""


def _reason_lines(view: TrialView) -> Iterator[str]:
    for grade in view.grades:
        if grade.passed is False:
            for vote in grade.votes:
                who = f"{one_line(vote.judge, 40)} on {one_line(grade.grader, MOST_MARK)}"
                scores = vote.scores_text(40) or "no score"
                yield f"{who} ({scores}): {one_line(vote.rationale or vote.problem, MOST_REASON)}"


def _call_text(call: CallView) -> str:
    args = call.raw_args if call.raw_args is not None else compact_json(jsonable(call.args))
    sent = one_line(args, MOST_ARGS)
    if call.error is not None:
        result = f"failed, {one_line(call.failure, MOST_RESULT)}"
    elif not call.executed:
        result = "not executed"
    else:
        text = call.result if isinstance(call.result, str) else compact_json(call.result)
        result = one_line(call.reply or text, MOST_RESULT)
    return f"{one_line(call.tool, MOST_MARK)}({sent}) -> {result}"


def _reference_lines(task: Task | None) -> Iterator[str]:
    yield from (f"{at}. {call.text()}" for at, call in enumerate(reference_calls(task), start=1))
    solution = task.reference_solution if task else None
    if solution and solution.turns and solution.turns[-1].text.strip():
        yield f"answer: {one_line(solution.turns[-1].text, MOST_LINE)}"


def _file_lines(view: TrialView) -> Iterator[str]:
    for file in view.files:
        note = f" ({file.note})" if file.note else ""
        yield f"{file.change} {one_line(file.path, MOST_CHECK_SIDE)}{note}"
        yield from (cut(printable(line), MOST_LINE) for line in _diff_lines(file))
    if view.files_left_out:
        yield f"and {view.files_left_out} more files"


def _diff_lines(file: FileChange) -> Iterator[str]:
    """Give the changed lines, with the nearest unchanged one on either side."""
    for hunk in file.hunks:
        rows = hunk.rows
        changed = [at for at, (tag, _, _) in enumerate(rows) if tag != " "]
        for at, (tag, old, new) in enumerate(rows):
            if tag == " " and any(abs(at - other) <= UNCHANGED for other in changed):
                yield f"  {old}"
            if tag in "~-":
                yield f"- {old}"
            if tag in "~+":
                yield f"+ {new}"
